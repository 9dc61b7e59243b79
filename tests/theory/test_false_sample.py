"""The false sample: closed forms against exact normal equations, Monte Carlo, and least squares with the sample in."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.theory.false_sample import beta_parameters, coefficients, constant_loss, noise_loss, relative_loss


def prompts(n: int, d: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Target and s of ``count`` prompts, each with its own covariance: s from the least squares problem itself."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((count, d, d)) + rng.uniform(-2.0, 2.0, (count, 1, 1)) * np.eye(d)
    x = rng.standard_normal((count, n + 1, d)) @ root
    w = rng.standard_normal((count, d))
    target = np.einsum("bd,bd->b", x[:, -1], w)
    y = np.einsum("bnd,bd->bn", x, w)
    y[:, -1] = 0.0  # the false label
    fitted = np.linalg.solve(x.mT @ x, x.mT @ y[..., None])[..., 0]
    return target, np.einsum("bd,bd->b", x[:, -1], fitted) / target


def moment(a: Fraction, b: Fraction, p: int, q: int) -> Fraction:
    """E s^p (1 - s)^q of a Beta(a, b) variable, by E s^p (1 - s)^q = B(a + p, b + q) / B(a, b)."""
    result = Fraction(1)
    for i in range(p):
        result *= a + i
    for i in range(q):
        result *= b + i
    for i in range(p + q):
        result /= a + b + i
    return result


def solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination of a positive definite system, exact."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        pivot[:] = [entry / pivot[i] for entry in pivot]
        for other in rows:
            if other is not pivot:
                other[:] = [entry - other[i] * own for entry, own in zip(other, pivot, strict=True)]
    return [row[-1] for row in rows]


@given(d=st.integers(1, 20), extra=st.integers(0, 60), terms=st.integers(1, 5))
@settings(deadline=None, max_examples=tries(60))
def test_closed_forms_solve_the_normal_equations(d: int, extra: int, terms: int) -> None:
    a, b = Fraction(extra + 1, 2), Fraction(d + 2, 2)
    gram = [[moment(a, b, 2, i + j) for j in range(terms)] for i in range(terms)]
    right = [moment(a, b, 1, i) for i in range(terms)]
    best = solve(gram, right)
    assert beta_parameters(d + extra, d) == (float(a), float(b))
    assert coefficients(d + extra, d, terms) == tuple(map(float, best))
    lost = 1 - sum(c * value for c, value in zip(best, right, strict=True))
    assert relative_loss(d + extra, d, terms) == float(lost)


@given(d=st.integers(1, 50), extra=st.integers(0, 200))
def test_one_term_is_the_formula_of_the_book(d: int, extra: int) -> None:
    n = d + extra
    (c,) = coefficients(n, d)
    assert c == pytest.approx((n + 5) / (n - d + 3), rel=1e-14)
    assert relative_loss(n, d) == pytest.approx(2 * (d + 2) / ((n + 3) * (n - d + 3)), rel=1e-14)


@pytest.mark.parametrize(("n", "d"), [(50, 10), (12, 3), (5, 4), (4, 4), (9, 1)])
def test_monte_carlo_with_a_covariance_for_each_prompt(n: int, d: int) -> None:
    target, s = prompts(n, d, 20_000, seed=n)
    assert 0 < s.min() < s.max() < 1
    weight = target**2 / np.mean(target**2)
    for terms in (1, 2):  # what a third term leaves is made of the rarest prompts
        series = sum(c * (1 - s) ** j for j, c in enumerate(coefficients(n, d, terms)))
        excess = weight * ((1 - s * series) ** 2 - relative_loss(n, d, terms))
        assert abs(excess.mean()) < 6 * excess.std() / len(s) ** 0.5
    a, b = beta_parameters(n, d)
    centred = weight * (s - a / (a + b))
    assert abs(centred.mean()) < 6 * centred.std() / len(s) ** 0.5


@given(d=st.integers(1, 30), extra=st.integers(0, 100), share=st.floats(-2.0, 3.0))
def test_loss_of_any_constant_is_a_parabola_at_the_best_one(d: int, extra: int, share: float) -> None:
    """Its least value, its place, and 1 at the constant 0 are a parabola's three."""
    n = d + extra
    (c,), least = coefficients(n, d), relative_loss(n, d)
    assert constant_loss(n, d, share * c) == pytest.approx(least + (1 - least) * (share - 1) ** 2, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(50, 10), (12, 3), (5, 4), (9, 1)])
def test_noise_adds_its_loss(n: int, d: int) -> None:
    """The variance that noise gives c s y_hat, prompt by prompt, from the weights of the least squares itself."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((20_000, n + 1, d)) @ np.diag(np.arange(1.0, d + 1.0))
    weights = np.linalg.solve(x.mT @ x, x[:, -1:].mT)[..., 0]  # of the labels, through A^T y
    (c,) = coefficients(n, d)
    variance = c**2 * np.square(np.einsum("bnd,bd->bn", x[:, :-1], weights)).sum(axis=1)
    assert abs(variance.mean() - noise_loss(n, d)) < 6 * variance.std() / len(x) ** 0.5
    expected = ((n + 5) / (n - d + 3)) ** 2 * d * (n - d + 1) / ((n + 1) * (n + 3))
    assert noise_loss(n, d) == pytest.approx(expected, rel=1e-14)


def test_more_terms_lose_less_and_tend_to_the_geometric_series() -> None:
    losses = [relative_loss(50, 10, terms) for terms in range(1, 12)]
    assert all(after < before for before, after in pairwise(losses))
    np.testing.assert_allclose(coefficients(50, 10, 40)[:3], 1.0, atol=1e-3)


@pytest.mark.parametrize(
    "function", [beta_parameters, coefficients, relative_loss, noise_loss, lambda n, d: constant_loss(n, d, 1.0)]
)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 4), ValueError, "n = 3: must be at least 4"),
        ((3, 0), ValueError, "d = 0: must be at least 1"),
        ((3.0, 2), TypeError, "n = 3.0: must be an integer, at least 2"),
    ],
)
def test_refusals(function: Any, arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(*arguments)


@pytest.mark.parametrize("function", [coefficients, relative_loss])
def test_terms_are_refused_by_name(function: Any) -> None:
    with pytest.raises(ValueError, match="terms = 0: must be at least 1"):
        function(5, 2, 0)
