"""Gradient, Hessian and decrement bounds under attack; the printed ones that are false, on concrete examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.logistic_problems import MUS, random_problems, reference
from tfnewton.algorithms.logistic_regression import newton_decrement
from tfnewton.theory import norm_bounds as nb

ZERO, ONE = np.zeros((1, 1)), np.ones(1)  # A = 0: f = mu x^2 / 2


@pytest.mark.parametrize("mu", MUS)
def test_derivative_bounds_hold_and_use_the_right_sides(mu: float) -> None:
    A, y, x, _ = random_problems(1, 1500, mu)
    found = nb.derivative_bounds(x, A, y, mu)
    assert set(found) == {
        f"{what} {side}" for what in ("gradient", "hessian", "decrement") for side in ("below", "above")
    }
    for inequality in found.values():
        assert inequality.holds(rtol=1e-9)
    gradient, hessian = reference(x, A, y, mu)
    eigenvalues = np.linalg.eigvalsh(hessian)
    decrement = np.sqrt(np.einsum("kd,kd->k", gradient, np.linalg.solve(hessian, gradient[..., None])[..., 0]))
    np.testing.assert_allclose(found["gradient above"].left, np.linalg.norm(gradient, axis=-1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["hessian below"].right, eigenvalues[:, 0], rtol=1e-8)
    np.testing.assert_allclose(found["hessian above"].left, eigenvalues[:, -1], rtol=1e-8)
    np.testing.assert_allclose(found["decrement above"].left, decrement, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("mu", [0.01, 1.0])
def test_derivative_bounds_are_approached(mu: float) -> None:
    # A far point against its label has gradient 1 + mu r; at 0 a unit row has the Hessian mu + 1/4.
    r = 1e3
    assert nb.gradient_bounds(r, mu)[1] == pytest.approx(abs(reference(-r * ONE, np.ones((1, 1)), ONE, mu)[0][0]))
    far = newton_decrement(-r * ONE, np.ones((1, 1)), ONE, mu)
    assert nb.decrement_bounds(r, mu)[1] == pytest.approx(far)
    assert nb.hessian_bounds(mu)[1] == pytest.approx(reference(0 * ONE, np.ones((1, 1)), ONE, mu)[1][0, 0])
    assert nb.printed_hessian_bounds(mu)[1] > nb.hessian_bounds(mu)[1]


def test_lower_bounds_by_hand() -> None:
    """They are the lemma's, and not approached: where an example pulls along x, its p is at most one half."""
    norms = np.array([0.0, 5.0, 40.0])
    np.testing.assert_allclose(nb.gradient_bounds(norms, 0.1)[0], [0.0, 0.0, 3.0])
    np.testing.assert_allclose(nb.decrement_bounds(norms, 0.1)[0], [0.0, 0.0, 3.0 / np.sqrt(0.35)])
    np.testing.assert_allclose(nb.printed_decrement_bounds(norms, 0.1)[0], np.array([-1.0, -0.5, 3.0]) / np.sqrt(1.1))
    np.testing.assert_allclose(nb.printed_decrement_bounds(norms, 0.1)[1], np.array([1, 1.5, 5]) / np.sqrt(0.4))


def test_printed_decrement_bound_is_false() -> None:
    mu, r = 0.1, 20.0
    decrement = newton_decrement(np.array([r]), ZERO, ONE, mu)
    assert decrement == pytest.approx(np.sqrt(mu) * r)
    assert decrement > nb.printed_decrement_bounds(r, mu)[1]
    assert decrement <= nb.decrement_bounds(r, mu)[1]
    # The lower one is true.
    A, y, x, _ = random_problems(2, 1000, mu)
    lower = nb.printed_decrement_bounds(np.linalg.norm(x, axis=-1), mu)[0]
    assert np.all(np.asarray(lower) <= np.asarray(newton_decrement(x, A, y, mu)))


def test_the_data_part_of_the_hessian_is_only_semidefinite() -> None:
    A, y = np.array([[1.0, 0.0]]), np.ones(1)
    part = reference(np.ones(2), A, y, 0.1)[1] - 0.1 * np.eye(2)
    assert np.linalg.eigvalsh(part)[0] == pytest.approx(0, abs=1e-16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nb.gradient_bounds(-1.0, 1.0), "norm = -1: must be at least 0"),
        (lambda: nb.hessian_bounds(0.0), "mu = 0.0"),
        (lambda: nb.derivative_bounds(np.ones(1), 2 * np.ones((1, 1)), ONE, 1.0), "A has norm 2 in row 0"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
