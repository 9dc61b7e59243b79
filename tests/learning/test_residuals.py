"""Statistics of residuals, against plain numpy and against the algorithms that leave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.learning import evaluation as ev
from tfnewton.learning import residuals as rs
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

D = 4


def prompts(seed: int = 0, count: int = 7, kappa: float = 5.0) -> LinearPrompts:
    return LinearRegression(d=D, n=9, kappa=kappa).sample(generator(seed, "residuals"), count, torch.float64)


def test_parts_give_back_prompt_by_prompt_what_they_are_parts_of() -> None:
    p = prompts()
    found = rs.parts(p)
    for i, x in enumerate(p.x.numpy()):
        values, vectors = np.linalg.eigh(x.T @ x / 9)
        np.testing.assert_allclose(found.eigenvalues[i], values, rtol=1e-10)
        np.testing.assert_allclose(np.abs(found.query[i]), np.abs(vectors.T @ p.x_query[i].numpy()), rtol=1e-8)
        np.testing.assert_allclose(np.abs(found.weights[i]), np.abs(vectors.T @ p.w[i].numpy()), rtol=1e-8)
    np.testing.assert_allclose((found.query * found.weights).sum(axis=1), p.target, rtol=1e-9)  # their signs agree


@given(seed=st.integers(0, 1000), steps=st.integers(0, 5))
@settings(deadline=None, max_examples=tries(20))
def test_powers_are_what_the_algorithms_leave(seed: int, steps: int) -> None:
    p = prompts(seed)
    of = rs.parts(p)
    for order in (2, 3):
        *_, newton = ev.newton_predictions(p, steps, order, "I/lambda_max")
        expected = rs.error(of, rs.power(of.eigenvalues, order**steps))
        np.testing.assert_allclose((newton - p.target).numpy(), expected, atol=1e-9 * float(p.target.abs().max()))
    squares = rs.error(of, rs.power(of.eigenvalues, steps)) ** 2
    np.testing.assert_allclose(ev.gradient_descent_errors(p, steps), squares, rtol=1e-6, atol=1e-12)


@given(seed=st.integers(0, 1000), degree=st.integers(1, 12))
@settings(deadline=None, max_examples=tries(20))
def test_chebyshev_is_the_polynomial_of_numpy_and_largest_at_the_ends(seed: int, degree: int) -> None:
    random = np.random.default_rng(seed)
    values = np.sort(random.uniform(0.5, 20.0, (3, 200)), axis=1)
    found = rs.chebyshev(values, degree)
    for row, r in zip(values, found, strict=True):
        T = np.polynomial.Chebyshev.basis(degree, domain=[row[0], row[-1]])
        np.testing.assert_allclose(r, T(row) / T(0.0), atol=1e-9)
        assert np.abs(r).max() == pytest.approx(abs(1.0 / T(0.0)))


def test_chebyshev_of_a_spectrum_of_one_point_leaves_next_to_nothing() -> None:
    assert np.abs(rs.chebyshev(np.full((1, 3), 2.0), 2)).max() < 1e-20


def test_within_keeps_prompts_by_their_largest_eigenvalue() -> None:
    p = prompts(count=200)
    largest = np.array([np.linalg.eigvalsh(x.T @ x / 9)[-1] for x in p.x.numpy()])
    for reach in (30.0, rs.REACH):
        assert rs.within(p, reach).tolist() == (largest < reach).tolist()
    assert 0 < (largest < 30.0).sum() < 200


def test_eigenvalues_of_training_are_those_of_its_task() -> None:
    found = rs.training_eigenvalues(50)
    drawn = LinearRegression().sample(generator(0, "training spectrum"), 50)
    values = np.linalg.eigvalsh([x.T @ x / 50 for x in drawn.x.double().numpy()])
    np.testing.assert_allclose(found, values[values[:, -1] < 150.0].ravel(), rtol=1e-6)
    assert found.max() < rs.REACH


@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=tries(20))
def test_rms_weighs_by_the_eigenvalue(seed: int) -> None:
    random = np.random.default_rng(seed)
    values, r = random.uniform(0.1, 9.0, (6, D)), random.standard_normal((6, D))
    total = sum(values[i, j] * r[i, j] ** 2 for i in range(6) for j in range(D))
    assert rs.rms(values, r) == pytest.approx((total / values.sum()) ** 0.5)
    assert rs.rms(values, np.full_like(r, -0.3)) == pytest.approx(0.3)


def test_unexplained_is_small_for_a_function_of_the_key_and_one_for_noise() -> None:
    random = np.random.default_rng(0)
    values = random.uniform(0.1, 9.0, (500, D))
    assert rs.unexplained(values, values, np.cos(values)) < 0.01
    assert rs.unexplained(values, values, np.cos(values), bins=1) == pytest.approx(1.0)
    assert rs.unexplained(values, values, random.standard_normal((500, D))) == pytest.approx(1.0, abs=0.1)


def test_unexplained_by_hand() -> None:
    """Two bins of two: the variance within them over the whole, weighted by the eigenvalues."""
    key, weight, r = (
        np.array([[1.0, 4.0, 2.0, 3.0]]),
        np.array([[1.0, 2.0, 3.0, 4.0]]),
        np.array([[0.0, 1.0, 1.0, 3.0]]),
    )

    def spread(at: list[int]) -> float:
        mean = sum(weight[0, i] * r[0, i] for i in at) / sum(weight[0, i] for i in at)
        return float(sum(weight[0, i] * (r[0, i] - mean) ** 2 for i in at))

    expected = (spread([0, 2]) + spread([3, 1])) / spread([0, 1, 2, 3])
    assert rs.unexplained(key, weight, r, bins=2) == pytest.approx(expected)


def test_sign_changes_count_what_stands_out() -> None:
    r = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, 0.1, -0.05, 2.0], [1.0, 0.5, -0.2, -0.1]])
    assert rs.sign_changes(r, np.zeros_like(r)).tolist() == [3, 2, 1]
    assert rs.sign_changes(r, np.full_like(r, 0.08)).tolist() == [3, 0, 1]


def test_similarity_is_the_cosine() -> None:
    a, b = np.array([1e200, 0.0]), np.array([1.0, 1.0])
    assert rs.similarity(a, b) == pytest.approx(2**-0.5)
    assert rs.similarity(b, -3.0 * b) == pytest.approx(-1.0)
    with pytest.raises(ValueError, match="errors are all zero: they point nowhere"):
        rs.similarity(a, np.zeros(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rs.chebyshev(np.ones((1, 2)), 0), "degree = 0: must be at least 1"),
        (lambda: rs.power(np.ones((1, 2)), -1), "exponent = -1: must be at least 0"),
        (lambda: rs.within(prompts(), 0.0), "reach = 0.0: must be"),
        (lambda: rs.unexplained(np.ones(3), np.ones(3), np.ones(3), 0), "bins = 0: must be at least 1"),
        (lambda: rs.training_eigenvalues(0), "count = 0: must be at least 1"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
