"""Self-concordance of the logistic loss: sharp constant, and the bounds under attack."""

from __future__ import annotations

from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.logistic_problems import MUS, climb, norm, random_problems, reference
from tests.helpers.tries import later, tries
from tfnewton.algorithms.logistic_regression import minimize
from tfnewton.theory import self_concordance as sc
from tfnewton.theory.inequality import Inequality


def dikin_steps(seed: int, count: int, mu: float, constant: float) -> tuple[np.ndarray, ...]:
    """Return x, step, A, y with M r uniform in (0, 1.2)."""
    A, y, x, u = random_problems(seed, count, mu)
    r = norm(reference(x, A, y, mu)[1], u)
    size = np.random.default_rng(seed).uniform(0, 1.2, size=count) / constant
    return x, u * (size / r)[:, None], A, y


@pytest.mark.parametrize("mu", MUS)
def test_sharp_constant_is_attained_and_never_exceeded(mu: float) -> None:
    sharp = 1 / (3 * np.sqrt(3 * mu) * (1 + 4 * mu))
    assert sc.sharp_constant(mu) == pytest.approx(sharp, rel=1e-14)
    one = np.ones((1, 1))
    margin = sc.extremal_margin(mu)
    p = 1 / (1 + np.exp(margin))
    assert p * (1 - p) == pytest.approx(2 * mu / (1 + 12 * mu), rel=1e-12)
    assert sc.local_constant(np.array([margin]), np.ones(1), one, np.ones(1), mu) == pytest.approx(sharp, rel=1e-12)
    A, y, x, u = random_problems(1, 4000, mu)
    assert sc.self_concordance(x, u, A, y, mu, sharp).holds(rtol=1e-12)
    assert not sc.self_concordance(np.array([margin]), np.ones(1), one, np.ones(1), mu, 0.999 * sharp).holds()


@pytest.mark.parametrize("mu", [1e-4, 0.1, 2.0])
def test_hill_climbing_finds_the_sharp_constant_and_nothing_above(mu: float) -> None:
    def score(candidates: np.ndarray) -> np.ndarray:  # three points and a direction in the plane, x free
        A = candidates[:, :6].reshape(-1, 3, 2)
        A = A / np.maximum(1, np.linalg.norm(A, axis=-1, keepdims=True) * (1 + 1e-12))
        u = candidates[:, 8:] + 1e-9
        return np.asarray(sc.local_constant(candidates[:, 6:8], u, A, np.ones((len(A), 3)), mu)) / sc.sharp_constant(mu)

    best = climb(score, 3 * np.random.default_rng(0).normal(size=(200, 10)), seed=1)
    assert 0.99 < best <= 1 + 1e-12


@settings(deadline=None, max_examples=tries(30))
@given(seed=st.integers(0, 9999), n=st.integers(1, 12), d=st.integers(1, 5), mu=st.sampled_from(MUS))
def test_local_constant_is_the_third_derivative(seed: int, n: int, d: int, mu: float) -> None:
    A, y, x, u = (part[0] for part in random_problems(seed, 1, mu, n, d))
    x = np.clip(x, -20, 20)
    with mpmath.workdps(40):

        def phi(t: Any) -> Any:
            data = [
                mpmath.log1p(
                    mpmath.exp(-s * sum(map(mpmath.fmul, row, [a + t * b for a, b in zip(x, u, strict=True)])))
                )
                for row, s in zip(A, y, strict=True)
            ]
            return mpmath.fsum(data) / n + mpmath.mpf(mu) / 2 * sum((a + t * b) ** 2 for a, b in zip(x, u, strict=True))

        expected = abs(mpmath.diff(phi, 0, 3)) / (2 * mpmath.diff(phi, 0, 2) ** 1.5)
    assert sc.local_constant(x, u, A, y, mu) == pytest.approx(float(expected), rel=1e-9, abs=1e-12)


def test_the_penalty_is_needed() -> None:
    # At a fixed margin, as mu -> 0, it tends to tanh(m/2) / (2 sqrt(p (1 - p))), which grows like e^(m/2) / 2.
    margins = np.array([[5.0], [10.0], [20.0]])
    found = sc.local_constant(margins, np.ones(1), np.ones((1, 1)), np.ones(1), 1e-300)
    np.testing.assert_allclose(found, np.sinh(margins[:, 0] / 2), rtol=1e-12)


@settings(deadline=None, max_examples=tries(20))
@given(seed=st.integers(0, 9999), n=st.integers(1, 8), d=st.integers(1, 3))
def test_the_penalty_is_needed_for_all_data(seed: int, n: int, d: int) -> None:
    """Along x = t u the need is at least (beta / B) sinh(t beta / 2), beta and B the least and largest |a_i^T u|."""
    rng = np.random.default_rng(seed)
    A, y, u = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n), rng.normal(size=d)
    A /= np.linalg.norm(A, axis=1).max() * (1 + 1e-12)
    A[1:] *= rng.uniform(size=(n - 1, 1)) < 0.8  # some rows are zero, and do not count
    c = np.abs(A @ u)
    beta, B = c[c > 0].min(), c.max()
    t = np.array([1.0, 5.0, 10.0]) / beta
    need = np.asarray(sc.local_constant(t[:, None] * u, u, A, y, 1e-300))
    assert np.all(need >= beta / B * np.sinh(t * beta / 2) * (1 - 1e-9))


@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0])
def test_what_two_examples_of_unequal_length_lose(mu: float) -> None:
    """a = 1 and 1 - delta: |c|^3 <= c^2 loses delta / 2, and 1 - 4q <= 1 - 4w loses 8 mu / (1 + 4 mu) times that."""
    margins = sc.extremal_margin(mu) + np.linspace(-0.1, 0.1, 2001)
    for delta in (0.01, 0.001):
        A = np.array([[1.0], [1 - delta]])
        need = np.asarray(sc.local_constant(margins[:, None], np.ones(1), A, np.ones(2), mu)).max()
        lost = 1 - need / sc.sharp_constant(mu)
        assert lost == pytest.approx(delta / 2 * (1 + 8 * mu / (1 + 4 * mu)), rel=6 * delta)
        if (mu, delta) == (0.1, 0.01):
            assert lost == pytest.approx(0.00785, abs=5e-6)


@pytest.mark.parametrize("mu", [1e-4, 1 / 392, 0.1, 5.0])
def test_what_an_example_beside_a_zero_one_needs(mu: float) -> None:
    """a = 1 and 0: (1 + 4 mu) / (1 + 8 mu) of the sharp constant, within one percent up to mu = 1/392."""
    margins = sc.extremal_margin(2 * mu) + np.linspace(-0.1, 0.1, 2001)
    A = np.array([[1.0], [0.0]])
    need = np.asarray(sc.local_constant(margins[:, None], np.ones(1), A, np.ones(2), mu)).max()
    share = (1 + 4 * mu) / (1 + 8 * mu)
    assert need == pytest.approx(np.sqrt(2) * sc.sharp_constant(2 * mu), rel=1e-6)
    assert need / sc.sharp_constant(mu) == pytest.approx(share, rel=1e-6)
    assert (share >= 0.99 - 1e-12) == (mu <= 1 / 392)


def test_how_much_smaller_the_sharp_constant_is() -> None:
    """By (3/2) sqrt(3) (1 + 4 mu), which is below 2.6 for the smallest penalties, and above 2.59 for all."""
    ratio = [sc.standard_constant(mu) / sc.sharp_constant(mu) for mu in (1e-12, 1e-4, 2e-4, 1.0)]
    assert 2.59 < ratio[0] < ratio[1] < 2.6 < ratio[2] < ratio[3]


def test_scaling_conventions() -> None:
    # M^2 f is standard self-concordant: the constant of c f is M / sqrt(c).
    for mu in MUS:
        assert sc.sharp_constant(mu) < sc.standard_constant(mu) < sc.printed_constant(mu)
        assert sc.standard_constant(mu) ** 2 == pytest.approx(1 / (4 * mu))
        assert sc.printed_constant(mu) / sc.sharp_constant(mu) >= 3 * np.sqrt(3)
        # f / (4 mu) has the constant 2 sqrt(mu) M: 2 for the printed M, so not standard, but 0.385 at most in truth.
        assert 2 * np.sqrt(mu) * sc.printed_constant(mu) == pytest.approx(2)
        assert 2 * np.sqrt(mu) * sc.sharp_constant(mu) == pytest.approx(2 / (3 * np.sqrt(3) * (1 + 4 * mu)))


@pytest.mark.parametrize("t", [0.0, 1e-300, 1e-12, 1e-5, 0.0299, 0.0301, 0.5, 0.999, 5.0, 1e6, -0.0299, -0.9])
def test_omega_to_full_accuracy(t: float) -> None:
    with mpmath.workdps(700):
        assert sc.omega(t) == pytest.approx(float(t - mpmath.log1p(t)), rel=2e-14, abs=0)
        if t < 1:
            assert sc.omega_star(t) == pytest.approx(float(-t - mpmath.log1p(-t)), rel=2e-14, abs=0)


def test_omega_star_is_infinite_from_one_on() -> None:
    assert np.isinf(np.asarray(sc.omega_star(np.array([1.0, 1.5])))).all()


def test_omega_bounds_hold_with_t_below_one_for_the_star() -> None:
    t = np.concatenate([np.logspace(-8, 6, 4000), np.linspace(1e-3, 50, 4000)])
    omega = np.asarray(sc.omega(t))
    assert np.all(t**2 / (2 * (1 + t)) <= t**2 / (2 * (1 + 2 * t / 3)))
    assert Inequality(t**2 / (2 * (1 + 2 * t / 3)), omega).holds(rtol=1e-13, atol=0)
    assert Inequality(omega, t**2 / (2 + t)).holds(rtol=1e-13, atol=0)
    s = t[t < 1]
    star = np.asarray(sc.omega_star(s))
    assert Inequality(s**2 / (2 - s), star).holds(rtol=1e-13, atol=0)
    assert Inequality(star, s**2 / (2 * (1 - s))).holds(rtol=1e-13, atol=0)
    # lem:bound-on-omega is printed for every t >= 0, but from 1 on its upper bound is negative.
    assert not Inequality(np.asarray(sc.omega_star(1.5)), np.array(1.5**2 / (2 * (1 - 1.5)))).holds()


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("constant", [sc.sharp_constant, sc.standard_constant, sc.printed_constant])
def test_bounds_hold_on_random_problems(mu: float, constant: Any) -> None:
    M = constant(mu)
    x, step, A, y = dikin_steps(2, 500, mu, M)
    rounding = 1e-13 * (1 + mu * np.square(x).sum(axis=-1).max())
    for inequality in sc.function_bounds(x, step, A, y, mu, M):
        assert inequality.holds(atol=rounding)
    for inequality in (*sc.hessian_bounds(x, step, A, y, mu, M), *sc.mean_hessian_bounds(x, step, A, y, mu, M)):
        assert inequality.holds(rtol=1e-8)
    for inequality in sc.gap_bounds(x, A, y, mu, M):
        assert inequality.holds(atol=rounding)
    best = np.asarray(minimize(A, y, mu))
    for point in (x, best + 0.1 * step):
        assert sc.distance_bound(point, A, y, mu, M).holds(rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("mu", [0.1, *later(1e-3, 1.0)])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bounds", [sc.function_bounds, sc.hessian_bounds, sc.mean_hessian_bounds])
def test_hill_climbing_finds_no_violation(bounds: Any, side: int, mu: float) -> None:
    M = sc.sharp_constant(mu)

    def score(candidates: np.ndarray) -> np.ndarray:  # two points in one dimension; M r = 0.99 tanh
        A = np.tanh(candidates[:, :2])[..., None]
        x, y = candidates[:, 2:3], np.ones((len(A), 2))
        p = 1 / (1 + np.exp(-A[..., 0] * x))
        r = 0.99 * np.tanh(candidates[:, 3:]) / M
        step = r / np.sqrt((p * (1 - p) * A[..., 0] ** 2).mean(axis=-1, keepdims=True) + mu)
        inequality = bounds(x, step, A, y, mu, M)[side]
        ratio = np.asarray(inequality.left) / np.asarray(inequality.right)
        return np.asarray(np.where(np.abs(np.tanh(candidates[:, 3])) > 0.02, ratio, 0))  # less is rounding

    best = climb(score, 2 * np.random.default_rng(0).normal(size=(200, 4)), seed=3, rounds=100)
    assert 0.98 < best <= 1 + 1e-9


def test_a_constant_below_the_sharp_one_breaks_the_hessian_bound() -> None:
    mu = 0.1
    M, x = sc.sharp_constant(mu), np.array([sc.extremal_margin(mu)])
    A, y = np.ones((1, 1)), np.ones(1)
    step = np.array([-0.01])
    below, above = sc.hessian_bounds(x, step, A, y, mu, 0.97 * M)
    assert not above.holds()
    assert below.holds()
    assert all(inequality.holds() for inequality in sc.hessian_bounds(x, step, A, y, mu, M))


def test_sides_are_what_they_say() -> None:
    mu, M = 0.1, 1.3
    A, y, x, u = (part[0] for part in random_problems(4, 1, mu, 7, 3))
    x, step = x / 20, u / 5
    _, H = reference(x, A, y, mu)
    r = M * np.sqrt(step @ H @ step)
    assert 0 < r < 1
    whiten = np.linalg.inv(np.linalg.cholesky(H))
    after = np.linalg.eigvalsh(whiten @ reference(x + step, A, y, mu)[1] @ whiten.T)
    below, above = sc.hessian_bounds(x, step, A, y, mu, M)
    np.testing.assert_allclose([below.left, below.right], [(1 - r) ** 2, after[0]], rtol=1e-12)
    np.testing.assert_allclose([above.left, above.right], [after[-1], (1 - r) ** -2], rtol=1e-12)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    s = (nodes + 1) / 2
    along = reference(x + s[:, None] * step, A, y, mu)[1]
    mean = np.einsum("k,kij->ij", weights / 2, along)
    values = np.linalg.eigvalsh(whiten @ mean @ whiten.T)
    below, above = sc.mean_hessian_bounds(x, step, A, y, mu, M)
    np.testing.assert_allclose([below.left, below.right], [1 - r + r**2 / 3, values[0]], rtol=1e-12)
    np.testing.assert_allclose([above.left, above.right], [values[-1], 1 / (1 - r)], rtol=1e-12)
    rise = weights / 2 @ ((1 - s) * norm(along, step) ** 2)
    below, above = sc.function_bounds(x, step, A, y, mu, M)
    np.testing.assert_allclose([below.left, below.right], [(r - np.log1p(r)) / M**2, rise], rtol=1e-9)
    np.testing.assert_allclose(above.right, (-r - np.log1p(-r)) / M**2, rtol=1e-12)


def test_sides_of_gap_and_distance_are_what_they_say() -> None:
    mu, M = 0.1, 1.3
    A, y, _, u = (part[0] for part in random_problems(4, 1, mu, 7, 3))
    best = np.asarray(minimize(A, y, mu))
    x = best + u / 4
    gradient, H = reference(x, A, y, mu)
    lam = np.sqrt(gradient @ np.linalg.solve(H, gradient))
    assert 0.1 < M * lam < 0.9

    def f(z: np.ndarray) -> float:
        return float(np.logaddexp(0, -y * (A @ z)).mean() + mu / 2 * z @ z)

    below, above = sc.gap_bounds(x, A, y, mu, M)
    np.testing.assert_allclose([below.right, above.left], f(x) - f(best), rtol=1e-9)
    np.testing.assert_allclose(below.left, (M * lam - np.log1p(M * lam)) / M**2, rtol=1e-9)
    np.testing.assert_allclose(above.right, (-M * lam - np.log1p(-M * lam)) / M**2, rtol=1e-9)
    distance = sc.distance_bound(x, A, y, mu, M)
    np.testing.assert_allclose(distance.left, np.sqrt((x - best) @ H @ (x - best)), rtol=1e-8)
    np.testing.assert_allclose(distance.right, lam / (1 - M * lam), rtol=1e-9)


@pytest.mark.parametrize("constant", [0.9, 1.0])
def test_the_sharp_constant_is_the_least_that_every_bound_allows(constant: float) -> None:
    """To either side of the extremal example's worst point: with 0.9 of it a bound of each kind breaks."""
    mu = 0.01
    A, y, x = np.ones((1, 1)), np.ones(1), np.array([sc.extremal_margin(mu)])
    M = constant * sc.sharp_constant(mu)
    for bounds in (sc.function_bounds, sc.hessian_bounds, sc.mean_hessian_bounds):
        held = [side.holds() for step in (-0.05, 0.05) for side in bounds(x, np.array([step]), A, y, mu, M)]
        assert all(held) == (constant == 1.0), bounds.__name__


@pytest.mark.parametrize("size", [0.0, 1e-7, 1e-3, 1.0, 50.0, 2000.0])
def test_mean_hessian_at_any_step(size: float) -> None:
    mu, A, y = 1e-3, np.array([[0.8], [-0.3]]), np.array([1.0, -1.0])
    x, step = np.array([-0.7]), np.array([size])
    whole = sc.mean_hessian_bounds(x, step, A, y, mu, 1e-9)[0]
    with mpmath.workdps(40):

        def sigma(v: Any) -> Any:
            return 1 / (1 + mpmath.exp(-v))

        def weight(a: float) -> Any:
            z, w = mpmath.mpf(a) * x[0], mpmath.mpf(a) * size
            return sigma(z) * sigma(-z) if size == 0 else (sigma(z + w) - sigma(z)) / w

        mean = sum(a**2 * weight(a) for a in A[:, 0]) / 2 + mu
        base = float(mean) / reference(x, A, y, mu)[1][0, 0]
    assert whole.right == pytest.approx(base, rel=1e-13)


def test_dikin_boundary_lies_at_its_radius_and_inside_the_domain() -> None:
    mu = 0.01
    A, y, x, _ = (part[0] for part in random_problems(6, 1, mu, 8, 2))
    angles = np.linspace(0, 2 * np.pi, 50)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    boundary = np.asarray(sc.dikin_boundary(x, directions, A, y, mu, 2.5))
    H = reference(x, A, y, mu)[1]
    np.testing.assert_allclose(norm(H, boundary - x), 2.5, rtol=1e-12)
    assert np.isfinite(boundary).all()


def test_tensors_in_tensors_out() -> None:
    A, y, x, u = (torch.tensor(part) for part in random_problems(8, 3, 0.1))
    below, above = sc.hessian_bounds(x, u, A, y, 0.1, 1.0)
    assert isinstance(below.left, torch.Tensor)
    assert isinstance(above.right, torch.Tensor)
    assert isinstance(sc.omega(torch.tensor(0.5)), torch.Tensor)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sc.sharp_constant(0.0), "mu = 0.0"),
        (lambda: sc.printed_constant(-1.0), "mu = -1.0"),
        (lambda: sc.extremal_margin(0.0), "mu = 0.0"),
        (lambda: sc.omega(np.array([0.0, -1.0])), "t = -1: must be above -1"),
        (lambda: sc.local_constant(np.ones(2), np.zeros(2), np.eye(2), np.ones(2), 1.0), "u has a zero direction"),
        (
            lambda: sc.local_constant(np.ones(2), np.ones(2), 2 * np.eye(2), np.ones(2), 1.0),
            "A has norm 2 in row 0: must be at most 1, so divide A by 2",
        ),
        (lambda: sc.gap_bounds(np.ones(2), np.eye(2), np.ones(2), 1.0, 0.0), "constant = 0.0"),
        (lambda: sc.dikin_boundary(np.ones(2), np.ones(2), np.eye(2), np.ones(2), 1.0, -1.0), "radius = -1.0"),
        (lambda: sc.dikin_boundary(np.ones(2), np.zeros(2), np.eye(2), np.ones(2), 1.0, 1.0), "directions has a zero"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_inequality_reports_failures() -> None:
    assert Inequality(np.array([1.0, 2.0]), np.array([1.0, np.inf])).holds()
    assert not Inequality(np.array([1.0, 2.0]), np.array([1.0, 1.9])).holds()
    assert not Inequality(np.array([np.nan]), np.array([1.0])).holds()
    np.testing.assert_allclose(Inequality(torch.tensor([1.0]), torch.tensor([0.5])).slack, [-0.5])
