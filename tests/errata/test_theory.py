"""The last lines of the convergence proof, printed and corrected (part ``theory`` of book/errata.yml).

Most slips of that part have their tests beside the bounds they belong to, in the files ``test_theory_*``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.logistic_problems import norm, random_problems, reference
from tfnewton.algorithms.logistic_regression import damped_newton, loss, minimize, newton_decrement
from tfnewton.theory.self_concordance import standard_constant

MU = 0.1


def near(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, y and points around the minimisers, of decrement lambda_g from 0 to about 1/6."""
    A, y, _, u = random_problems(seed, count, MU)
    best = np.asarray(minimize(A, y, MU))
    scale = standard_constant(MU) * norm(reference(best, A, y, MU)[1], u)
    return A, y, best + u * (np.linspace(1e-3, 0.15, count) / scale)[:, None]


def test_gap_below_a_sixth_is_three_fifths_of_the_squared_decrement() -> None:
    """(B.7)"""
    A, y, x = near(1, 500)
    M = standard_constant(MU)
    lam = M * np.asarray(newton_decrement(x, A, y, MU))
    gap = M**2 * (np.asarray(loss(x, A, y, MU)) - np.asarray(loss(minimize(A, y, MU), A, y, MU)))
    inside = lam < 1 / 6
    assert inside.sum() > 300
    assert np.all(gap[inside] <= 0.6 * lam[inside] ** 2 + 1e-14)


def test_printed_last_line_forgets_a_square() -> None:
    """From lambda <= C'' sqrt(e), (B.7) gives 3 C''^2 e / 5; printed is 3 C'' e / 5. Here A = 0: g - min g = x^2/8."""
    C, e = 2.0, 1e-3
    x, A, y = np.array([2 * C * np.sqrt(e)]), np.zeros((1, 1)), np.ones(1)
    M = standard_constant(MU)
    assert M * newton_decrement(x, A, y, MU) == pytest.approx(C * np.sqrt(e))
    gap = M**2 * (np.asarray(loss(x, A, y, MU)) - np.log(2))
    assert 3 * C * e / 5 < gap <= 3 * C**2 * e / 5


def test_next_decrement_by_the_hessian_of_before() -> None:
    """(B.8) and (B.9), the mean Hessian by Gauss-Legendre quadrature."""
    A, y, x = near(2, 300)
    M, rng = standard_constant(MU), np.random.default_rng(0)
    eps = 0.02 * rng.normal(size=x.shape)
    gradient, hessian = reference(x, A, y, MU)
    lam = M * np.asarray(newton_decrement(x, A, y, MU))
    after = np.asarray(damped_newton(A, y, MU, 1, x, errors=eps[:, None]))[:, 1]
    step, G = after - x, M**2 * hessian
    nodes, weights = np.polynomial.legendre.leggauss(12)
    mean = sum(
        w / 2 * M**2 * reference(x + (1 + t) / 2 * step, A, y, MU)[1] for t, w in zip(nodes, weights, strict=True)
    )
    difference = mean - (1 + lam)[:, None, None] * G

    def dual(v: np.ndarray) -> np.ndarray:  # ||G^(-1/2) v||
        return np.asarray(np.sqrt(np.einsum("ki,ki->k", v, np.linalg.solve(G, v[..., None])[..., 0])))

    def times(matrix: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("kij,kj->ki", matrix, v))

    following = M**2 * reference(after, A, y, MU)[0]
    whole = times(difference, step) + (1 + lam)[:, None] * times(G, eps)
    np.testing.assert_allclose(following, whole, atol=1e-12)
    newton = -np.linalg.solve(hessian, gradient[..., None])[..., 0] / (1 + lam)[:, None]
    parts = dual(times(difference, newton)) + dual(times(difference, eps)) + (1 + lam) * norm(G, eps)
    assert np.all(dual(following) <= parts * (1 + 1e-12))
    delta = norm(G, step)
    assert delta.max() < 1
    next_decrement = M * np.asarray(newton_decrement(after, A, y, MU))
    assert np.all(next_decrement <= dual(following) / (1 - delta) * (1 + 1e-10))


def test_length_of_an_inexact_step() -> None:
    """(B.6): the error enters by eps^T G eps <= e^2 (1 + 4 mu) / (16 mu); with e^2 / 4 it fails for large errors."""

    def bound(lam: np.ndarray, size: np.ndarray, e: np.ndarray, own: float) -> np.ndarray:
        return np.asarray(np.sqrt((lam / (1 + lam)) ** 2 + e * size / (2 * MU) + own * e**2))

    right, printed = (1 + 4 * MU) / (16 * MU), 1 / 4
    A, y, x, eps = random_problems(3, 500, MU)
    M, lam = standard_constant(MU), standard_constant(MU) * np.asarray(newton_decrement(x, A, y, MU))
    step = np.asarray(damped_newton(A, y, MU, 1, x, errors=eps[:, None]))[:, 1] - x
    delta = M * norm(reference(x, A, y, MU)[1], step)
    size, e = 1 + MU * np.linalg.norm(x, axis=-1), np.linalg.norm(eps, axis=-1)
    assert np.all(delta <= bound(lam, size, e, right))
    # Two examples of opposite label: the minimiser is 0, G = (1 + 4 mu) / (16 mu), and delta is the error's length.
    A, y, zero, large = np.ones((2, 1)), np.array([1.0, -1.0]), np.zeros(1), np.full(1, 40.0)
    delta = M * norm(reference(zero, A, y, MU)[1], large)
    assert bound(zero, zero + 1, large, printed) < delta <= bound(zero, zero + 1, large, right)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 2.0])
def test_the_decrement_of_the_scaled_loss_has_its_own_bound(mu: float) -> None:
    """After (B.6): lambda_g <= (1 + mu |x|)/(2 mu) on data; for A = 0, where it is |x|/2, the printed end fails."""
    A, y, x, _ = random_problems(5, 300, mu)
    lam, size = standard_constant(mu) * np.asarray(newton_decrement(x, A, y, mu)), np.linalg.norm(x, axis=-1)
    assert np.all(lam <= (1 + mu * size) / (2 * mu))
    C = 3.0 / max(np.sqrt(mu) - mu, 0.05)
    far = np.full((1, 1), C)
    alone = standard_constant(mu) * np.asarray(newton_decrement(far[0], np.zeros((1, 1)), np.ones(1), mu))
    assert alone == pytest.approx(C / 2, rel=1e-12)
    assert (alone > (1 + C * mu) / (2 * np.sqrt(mu))) == (C * (np.sqrt(mu) - mu) > 1)


@pytest.mark.parametrize("mu", [0.01, 0.5, 2.0, 10.0])
def test_corrected_steps_of_the_norm_lemma(mu: float) -> None:
    """(B.4) with mu^2 in both places, (B.5) with mu / (mu + 1/4), and the sharper form that needs neither."""
    A, y, x, u = random_problems(4, 500, mu)
    gradient, hessian = reference(x, A, y, mu)
    direction = np.linalg.solve(hessian, gradient[..., None])[..., 0]
    eta = 1 / (1 + standard_constant(mu) * np.asarray(newton_decrement(x, A, y, mu)))
    eps = mu**2 * u / np.linalg.norm(u, axis=-1, keepdims=True)
    size, length = np.linalg.norm(x, axis=-1), np.linalg.norm(direction, axis=-1)
    product = np.einsum("kd,kd->k", x, direction)
    after = np.square(x - eta[:, None] * direction + eps).sum(axis=-1)
    bound = size**2 - 2 * eta * product + (eta * length) ** 2 + 2 * mu**2 * (size + eta * length) + mu**4
    assert np.all(after <= bound * (1 + 1e-9))
    assert np.all(product >= size**2 * mu / (mu + 0.25) - size / mu - 1e-9 * size**2)
    assert np.all(product >= size**2 - size / mu - 1e-9 * size**2)
