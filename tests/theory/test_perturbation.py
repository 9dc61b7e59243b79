"""Perturbation bounds under attack, with matrices that need not be symmetric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.logistic_problems import climb, random_problems, reference
from tests.helpers.tries import tries
from tfnewton.theory import perturbation as pt
from tfnewton.theory.inequality import Inequality


def hessians(seed: int, count: int, mu: float) -> np.ndarray:
    A, y, x, _ = random_problems(seed, count, mu, n=5, d=4)
    return reference(x, A, y, mu)[1]


@settings(deadline=None, max_examples=tries(40))
@given(seed=st.integers(0, 9999), d=st.integers(1, 6), size=st.floats(1e-6, 2.0))
def test_inverse_bounds_hold_for_any_matrices(seed: int, d: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    A, E = rng.normal(size=(200, d, d)), size * rng.normal(size=(200, d, d))
    found = pt.inverse_bounds(A, E)
    for inequality in found.values():
        assert inequality.holds(rtol=1e-6)
    change = np.linalg.norm(np.linalg.inv(A + E) - np.linalg.inv(A), 2, axis=(-2, -1))
    kappa, norm = np.linalg.cond(A, 2), np.linalg.norm(A, 2, axis=(-2, -1))
    q = kappa * np.linalg.norm(E, 2, axis=(-2, -1)) / norm
    inverse, after = (np.linalg.norm(np.linalg.inv(matrix), 2, axis=(-2, -1)) for matrix in (A, A + E))
    np.testing.assert_allclose(found["change"].left, change, rtol=1e-5)
    np.testing.assert_allclose(found["change"].right, q * after, rtol=1e-6)
    np.testing.assert_allclose(found["norm"].left, after, rtol=1e-6)
    small = q < 0.999
    np.testing.assert_allclose(np.asarray(found["norm"].right)[small], (inverse / (1 - q))[small], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found["relative"].right)[small], (q * inverse / (1 - q))[small], rtol=1e-5)


@pytest.mark.parametrize("key", ["change", "norm", "relative"])
def test_inverse_bounds_are_attained(key: str) -> None:
    found = pt.inverse_bounds(np.diag([3.0, 0.5]), np.diag([0.0, -0.2]))[key]
    assert found.left == pytest.approx(found.right, rel=1e-12)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 2.0])
def test_hessian_inverse_bound(mu: float) -> None:
    H, rng = hessians(1, 400, mu), np.random.default_rng(0)
    for share in (1e-3, 0.3, 0.95):
        E = rng.normal(size=H.shape)
        E *= share * mu / np.linalg.norm(E, 2, axis=(-2, -1))[:, None, None]
        change = np.linalg.norm(np.linalg.inv(H + E) - np.linalg.inv(H), 2, axis=(-2, -1))
        assert change.max() <= pt.hessian_inverse_bound(share * mu, mu) * (1 + 1e-9)
        worst = abs(1 / (mu - share * mu) - 1 / mu)  # H = mu, E = -share mu
        assert worst == pytest.approx(pt.hessian_inverse_bound(share * mu, mu), rel=1e-12)


@settings(deadline=None, max_examples=tries(40))
@given(seed=st.integers(0, 9999), mu=st.sampled_from([1e-3, 0.1, 2.0]), share=st.floats(0.0, 1.5))
def test_condition_number_bounds_hold(seed: int, mu: float, share: float) -> None:
    H, rng = hessians(seed, 200, mu), np.random.default_rng(seed)
    E = rng.normal(size=H.shape)
    E *= share * mu / np.linalg.norm(E, 2, axis=(-2, -1))[:, None, None]
    for inequality in pt.condition_number_bounds(H, E):
        assert inequality.holds(rtol=1e-8)
    np.testing.assert_allclose(pt.condition_number(H), np.linalg.cond(H), rtol=1e-8)
    symmetric = (E + np.swapaxes(E, -1, -2)) / 2
    for inequality in pt.printed_condition_number_bounds(H, symmetric):  # true where E is symmetric
        assert inequality.holds(rtol=1e-8)


def test_eigenvalue_bounds_fail_for_an_error_that_is_not_symmetric() -> None:
    # [[0, 1], [0, 0]] and [[0, 0], [.01, 0]] have the eigenvalue 0 only; their sum has -0.1 and 0.1.
    first, second = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.01, 0.0]])
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(first + second)), [-0.1, 0.1])
    H, E = np.eye(2), 0.5 * first
    below, above = pt.printed_condition_number_bounds(H, E)
    assert above.left == pytest.approx(np.linalg.cond(H + E))
    assert above.left > 1.6 * above.right
    assert below.holds()
    assert all(inequality.holds() for inequality in pt.condition_number_bounds(H, E))


@pytest.mark.parametrize("size", [0.1, 0.6])
def test_condition_number_bounds_are_attained_on_both_sides(size: float) -> None:
    H, E = np.diag([4.0, 1.0]), np.diag([size, -size])
    below, above = (pt.condition_number_bounds(H, sign * E)[side] for side, sign in ((0, -1), (1, 1)))
    assert below.left == pytest.approx(below.right, rel=1e-12) == pytest.approx((4 - size) / (1 + size))
    assert above.left == pytest.approx(above.right, rel=1e-12) == pytest.approx((4 + size) / (1 - size))


def test_hill_climbing_approaches_the_condition_number_bound() -> None:
    def score(candidates: np.ndarray) -> np.ndarray:
        H = np.broadcast_to(np.diag([4.0, 1.0]), (len(candidates), 2, 2))
        E = candidates.reshape(-1, 2, 2)
        E = 0.6 * E / np.linalg.norm(E, 2, axis=(-2, -1))[:, None, None]
        upper = pt.condition_number_bounds(H, E)[1]
        return np.asarray(np.asarray(upper.left) / np.asarray(upper.right))

    assert 0.999 < climb(score, np.random.default_rng(0).normal(size=(100, 4)), seed=1, rounds=80) <= 1 + 1e-9


@settings(deadline=None, max_examples=tries(40))
@given(mu=st.floats(1e-6, 10.0), error=st.floats(1e-4, 0.9), seed=st.integers(0, 9999))
def test_step_size_control(mu: float, error: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = mu * 10.0 ** rng.uniform(-6, 4, size=500)
    threshold = pt.step_size_threshold(error, mu)
    other = np.maximum(z + threshold * rng.uniform(-1, 1, size=500), 0)
    found = pt.step_size_bound(z, other, mu)
    assert found.holds(rtol=1e-12)
    assert np.asarray(found.left).max() <= error * (1 + 1e-9)
    eta = 2 * np.sqrt(mu) / (2 * np.sqrt(mu) + np.sqrt(np.array([z, other])))
    np.testing.assert_allclose(pt.step_size(z, mu), eta[0], rtol=1e-12)
    np.testing.assert_allclose(found.left, np.abs(eta[0] - eta[1]), atol=1e-14)


@settings(deadline=None, max_examples=tries(40))
@given(mu=st.floats(1e-4, 10.0), z=st.floats(0.0, 100.0), h=st.floats(1e-6, 100.0))
def test_step_size_moves_most_from_zero(mu: float, z: float, h: float) -> None:
    # eta falls and is convex, so eta(z) - eta(z + h) falls with z: the whole proof of the threshold.
    eta = 2 * np.sqrt(mu) / (2 * np.sqrt(mu) + np.sqrt(np.array([0.0, h, z, z + h])))
    assert eta[2] - eta[3] <= (eta[0] - eta[1]) * (1 + 1e-12)
    found = pt.step_size_bound(z, z + h, mu)
    assert found.left == pytest.approx(eta[2] - eta[3], abs=1e-14)
    assert found.right == pytest.approx(eta[0] - eta[1], rel=1e-9)


@pytest.mark.parametrize("error", [0.01, 0.3, 0.8])
def test_step_size_threshold_is_sharp_and_the_printed_one_safe(error: float) -> None:
    mu = 0.1
    threshold = pt.step_size_threshold(error, mu)
    exact = pt.step_size_bound(0.0, threshold, mu)
    assert exact.left == pytest.approx(error, rel=1e-12)
    assert pt.step_size_bound(0.0, 1.01 * threshold, mu).left > error
    assert pt.printed_step_size_threshold(error, mu) == pytest.approx(4 * mu * error**2 / (1 - error))
    assert pt.printed_step_size_threshold(error, mu) < threshold


def test_printed_derivative_of_the_step_size() -> None:
    # Proof sketch of thm:logistic, step 3: the derivative of 1 / (1 + sqrt z) is -1 / (2 sqrt z (1 + sqrt z)^2),
    # not -2 sqrt z / (1 + sqrt z).
    z, h = np.array([0.01, 0.5, 4.0]), 1e-6
    measured = (np.asarray(pt.step_size(z + h, 0.25)) - np.asarray(pt.step_size(z - h, 0.25))) / (2 * h)
    np.testing.assert_allclose(measured, -1 / (2 * np.sqrt(z) * (1 + np.sqrt(z)) ** 2), rtol=1e-6)
    assert np.all(np.abs(measured + 2 * np.sqrt(z) / (1 + np.sqrt(z))) > 0.1)


def test_batches_broadcast() -> None:
    A, E = np.eye(2) * 3, 0.1 * np.random.default_rng(0).normal(size=(5, 4, 2, 2))
    below, above = pt.condition_number_bounds(A, E)
    assert np.shape(below.left) == np.shape(above.right) == (5, 4)
    assert isinstance(pt.inverse_bounds(A, E)["norm"], Inequality)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pt.step_size(-1.0, 1.0), "squared_decrement = -1"),
        (lambda: pt.step_size_bound(0.0, -1.0, 1.0), "other = -1"),
        (lambda: pt.step_size_threshold(1.0, 1.0), "error = 1.0"),
        (lambda: pt.hessian_inverse_bound(1.0, 1.0), "error = 1.0: must be a finite number and at least 0 and below 1"),
        (lambda: pt.inverse_bounds(np.zeros((2, 2)), np.eye(2)), "A or A [+] E is singular"),
        (lambda: pt.condition_number(np.ones((2, 3))), r"A has shape \(2, 3\)"),
        (lambda: pt.printed_condition_number_bounds(-np.eye(2), np.eye(2)), "A is not symmetric positive definite"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
