"""One step of inexact damped Newton under attack; the printed claims that fail, on concrete examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.logistic_problems import MUS, climb, norm, random_problems, reference
from tests.helpers.tries import later
from tfnewton.algorithms.logistic_regression import damped_newton, loss, minimize, newton_decrement
from tfnewton.theory import damped_newton as dn
from tfnewton.theory.self_concordance import omega, omega_star, sharp_constant, standard_constant

ZERO, ONE = np.zeros((1, 1)), np.ones(1)  # A = 0: g - min g = x^2 / 8 in the paper's scaling, whatever mu


def errors(seed: int, x: np.ndarray, A: np.ndarray, y: np.ndarray, mu: float, M: float, largest: float) -> np.ndarray:
    """Return errors (k, d) with ||eps||_G below ``largest``: random, along and against the step, in equal parts."""
    rng = np.random.default_rng(seed)
    gradient, hessian = reference(x, A, y, mu)
    eps = np.linalg.solve(hessian, gradient[..., None])[..., 0]
    eps[::3] = rng.normal(size=eps[::3].shape)
    eps[1::3] *= -1
    size = largest * 10.0 ** rng.uniform(-4, 0, size=len(eps))
    return np.asarray(eps * (size / np.maximum(M * norm(hessian, eps), 1e-300))[:, None])


@pytest.mark.parametrize("constant", [sharp_constant, standard_constant])
@pytest.mark.parametrize("mu", MUS)
def test_step_bounds_hold_on_random_problems(mu: float, constant: Any) -> None:
    M = constant(mu)
    A, y, x, u = random_problems(1, 900, mu)
    best = np.asarray(minimize(A, y, mu))
    near = best + u * (np.linspace(0, 0.14, 900) / M / norm(reference(best, A, y, mu)[1], u))[:, None]
    claims = {"decrease": 0, "quadratic": 0, "gap": 0}
    for point, largest in ((x, 0.5), (near, 0.02), (x, 1e-3)):
        lam = M * np.asarray(newton_decrement(point, A, y, mu))
        eps = errors(2, point, A, y, mu, M, largest) / (1 + lam)[:, None]
        found = dn.step_bounds(point, A, y, mu, M, eps)
        rounding = 1e-12 * M**2 * (1 + mu * np.square(point).sum(axis=-1).max())
        assert found["decrease"].holds(atol=rounding)
        assert found["gap"].holds(atol=rounding)
        assert found["decrement"].holds(rtol=1e-7, atol=1e-8)
        assert found["quadratic"].holds(rtol=1e-7, atol=1e-8)
        claims["decrease"] += np.sum(np.isfinite(found["decrease"].left))
        claims["quadratic"] += np.sum(np.isfinite(found["quadratic"].right))
        claims["gap"] += np.sum(np.isfinite(found["gap"].left))
    assert claims["decrease"] == 2700
    assert min(claims.values()) > 300


def test_step_bounds_are_what_they_say() -> None:
    mu, M = 0.1, 1.7
    A, y, x, eps = (part[0] for part in random_problems(3, 1, mu, 7, 3))
    x, eps = x / 30, eps / 40
    gradient, hessian = reference(x, A, y, mu)
    lam = M * np.sqrt(gradient @ np.linalg.solve(hessian, gradient))
    s = M * norm(hessian, eps)
    after = x - np.linalg.solve(hessian, gradient) / (1 + lam) + eps
    gradient_after, hessian_after = reference(after, A, y, mu)
    lam_after = M * np.sqrt(gradient_after @ np.linalg.solve(hessian_after, gradient_after))
    fall = M**2 * (np.asarray(loss(x, A, y, mu)) - np.asarray(loss(after, A, y, mu)))
    found = dn.step_bounds(x, A, y, mu, M, eps)
    theta = (1 + lam) * s
    np.testing.assert_allclose(found["decrease"].right, fall, rtol=1e-9)
    np.testing.assert_allclose(found["decrease"].left, lam - np.log1p(lam) + theta + np.log1p(-theta), rtol=1e-9)
    np.testing.assert_allclose(found["decrement"].left, lam_after, rtol=1e-9)


def line(candidates: np.ndarray, largest: float, mu: float, M: float) -> tuple[np.ndarray, ...]:
    """Read candidates (k, 4) as x, A (two points in one dimension), y and an error with theta below ``largest``."""
    A, y = np.tanh(candidates[:, :2])[..., None], np.tile([1.0, -1.0], (len(candidates), 1))
    x = candidates[:, 2:3]
    lam = M * np.asarray(newton_decrement(x, A, y, mu))
    eps = largest * np.tanh(candidates[:, 3]) / (1 + lam) / (M * norm(reference(x, A, y, mu)[1], np.ones_like(x)))
    return x, A, y, np.asarray(eps)[:, None]


@pytest.mark.parametrize("mu", [0.1, *(pytest.param(mu, marks=pytest.mark.slow) for mu in (1e-3, 2.0))])
@pytest.mark.parametrize("key", ["decrease", "decrement", "quadratic"])
def test_hill_climbing_finds_no_violation(key: str, mu: float) -> None:
    M = sharp_constant(mu)

    def score(candidates: np.ndarray) -> np.ndarray:
        x, A, y, eps = line(candidates, 0.9 if key != "quadratic" else 0.025, mu, M)
        found = dn.step_bounds(x, A, y, mu, M, eps)[key]
        if key == "decrease":
            return np.asarray(-found.slack)
        return np.asarray(np.asarray(found.left) / np.maximum(np.asarray(found.right), 1e-6))

    best = climb(score, 2 * np.random.default_rng(0).normal(size=(120, 4)), seed=1, rounds=60)
    if key == "decrease":
        assert -1e-3 < best <= 1e-9
    else:
        assert 0.3 < best <= 1 + 1e-9


@pytest.mark.parametrize("lam", [0.0, 1e-3, 0.1, 1 / 6, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("s", [0.0, 1e-4, 0.01, 0.05])
def test_scalar_bounds_by_hand(lam: float, s: float) -> None:
    theta = (1 + lam) * s
    if theta >= 1:
        assert dn.decrease_bound(lam, s) == -np.inf
        assert dn.decrement_bound(lam, s) == np.inf
        return
    fall = lam - np.log1p(lam) + theta + np.log1p(-theta)
    assert dn.decrease_bound(lam, s) == pytest.approx(fall, rel=1e-9, abs=1e-15)
    delta = lam / (1 + lam) + s
    integral = max(lam + delta, 1 / (1 - delta) - 1 - lam)  # ||mean Hessian - (1 + lambda) G|| in units of G
    by_hand = (integral * lam / (1 + lam) + s / (1 - delta)) / (1 - delta)
    assert dn.decrement_bound(lam, s) == pytest.approx(by_hand, rel=1e-9, abs=1e-15)


def test_quadratic_bound_follows_from_the_sharper_one() -> None:
    lam, s = np.meshgrid(np.linspace(0, 1 / 6, 301), np.linspace(0, 0.02, 201))
    assert np.all(np.asarray(dn.decrement_bound(lam, s)) <= 2 * lam**2 + 1.67 * s + 1e-15)
    np.testing.assert_allclose(dn.quadratic_bound(lam, s), 2 * lam**2 + 1.75 * s)
    assert np.isinf(dn.quadratic_bound(0.17, 0.0))
    assert np.isinf(dn.quadratic_bound(0.1, 0.021))
    exact = lam**2 * (2 + lam) / (1 + lam)
    np.testing.assert_allclose(dn.decrement_bound(lam), exact, rtol=1e-12)


def test_decrease_of_at_least_one_hundredth() -> None:
    lam = np.concatenate([np.linspace(1 / 6, 5, 2000), np.logspace(0, 6, 100)])
    assert np.asarray(dn.decrease_bound(lam, 0.06926 / (1 + lam))).min() >= 0.01
    assert dn.decrease_bound(1 / 6, 0.0694 / (7 / 6)) < 0.01
    # The paper's 0.02 a step while lambda >= 1/4 is right for exact steps.
    assert np.asarray(dn.decrease_bound(lam[lam >= 0.25])).min() >= 0.02


@pytest.mark.parametrize("mu", [1e-2, *later(1e-4, 0.1, 1.0)])
@pytest.mark.parametrize("damping", ["paper", "sharp"])
def test_phase_one_takes_no_more_steps_than_counted(mu: float, damping: str) -> None:
    M = standard_constant(mu) if damping == "paper" else sharp_constant(mu)
    A, y, x, _ = random_problems(5, 60, mu)
    x *= np.minimum(1, 30 / np.linalg.norm(x, axis=-1, keepdims=True))
    gaps = M**2 * (np.asarray(loss(x, A, y, mu)) - np.asarray(loss(minimize(A, y, mu), A, y, mu)))
    counts = np.array([dn.phase_one_steps(float(gap), mu) for gap in gaps])
    assert np.all(counts <= np.floor(gaps / (1 / 6 - np.log(7 / 6))))
    iterates = np.asarray(damped_newton(A, y, mu, 400, x, damping=damping))
    lam = M * np.asarray(newton_decrement(np.moveaxis(iterates, 1, 0), A, y, mu))
    assert np.all(np.sum(lam >= 1 / 6, axis=0) <= counts)
    assert lam[-1].max() < 1 / 6


def test_phase_one_constants_depend_on_the_start() -> None:
    # A = 0: g - min g = x^2 / 8 and lambda = |x| / 2 for every mu, so no constant of mu alone counts the steps.
    mu, starts = 0.3, np.array([[10.0], [100.0], [1000.0]])
    iterates = np.asarray(damped_newton(ZERO, ONE, mu, 520, starts))
    lam = standard_constant(mu) * np.asarray(newton_decrement(iterates, ZERO, ONE, mu))
    np.testing.assert_array_equal(np.sum(lam >= 1 / 6, axis=-1), [8, 55, 507])
    for start, steps in zip(starts[:, 0], (8, 55, 507), strict=True):
        assert steps <= dn.phase_one_steps(start**2 / 8, mu) <= 100 * start**2 / 8


def test_phase_one_decrease_by_hand() -> None:
    assert dn.phase_one_decrease(0.0, 1.0) == pytest.approx(1 / 6 - np.log(7 / 6), rel=1e-12)
    t = np.sqrt(8 * 0.1 * 50 / 1.4)
    assert dn.phase_one_decrease(50.0, 0.1) == pytest.approx(t - np.log1p(t), rel=1e-12)
    assert dn.phase_one_steps(0.01, 1.0) == 0
    assert dn.phase_one_steps(5.0, 0.1, theta=0.1) > dn.phase_one_steps(5.0, 0.1)


@pytest.mark.parametrize(
    ("gap", "mu", "theta"), [(50.0, 0.1, 0.0), (50.0, 0.1, 0.05), (3.0, 2.0, 0.1), (400.0, 1e-3, 0.0)]
)
def test_phase_one_steps_by_stepping_down(gap: float, mu: float, theta: float) -> None:
    count, left, least = 0, gap, 1 / 6 - np.log(7 / 6)
    while left >= least:
        left -= float(dn.phase_one_decrease(left, mu)) + theta + np.log1p(-theta)
        count += 1
    assert dn.phase_one_steps(gap, mu, theta) == count


def test_exact_steps_lower_the_decrement_below_the_golden_section() -> None:
    lam = np.linspace(1e-6, dn.DECREASING_BELOW, 1000)
    assert np.all(np.asarray(dn.decrement_bound(lam)) <= lam * (1 + 1e-12))
    assert dn.decrement_bound(dn.DECREASING_BELOW + 1e-3) > dn.DECREASING_BELOW + 1e-3


def test_the_decrement_can_rise_in_phase_one() -> None:
    x0, A, y, mu = dn.increase_example()
    lam = standard_constant(mu) * np.asarray(newton_decrement(damped_newton(A, y, mu, 1, x0), A, y, mu))
    np.testing.assert_allclose(lam, [10.46, 12.37], atol=0.01)


def test_pure_newton_cycles_where_damped_newton_converges() -> None:
    x0, A, y, mu = dn.cycle_example()
    cycle = np.asarray(damped_newton(A, y, mu, 10, x0, damping="full"))[:, 0]
    np.testing.assert_allclose(cycle, [-50, 4452.116] * 5 + [-50], rtol=1e-6)
    assert np.asarray(damped_newton(A, y, mu, 300, x0, damping="sharp"))[-1] == pytest.approx(minimize(A, y, mu))


# What the proof of thm:convergence-of-approximate-updates prints, against what happens.


def test_printed_decrease_promises_too_much() -> None:
    s = 0.3
    x, eps = np.zeros(1), np.full(1, 2 * s)  # A = 0: G = 1/4
    fall = dn.step_bounds(x, ZERO, ONE, 0.5, standard_constant(0.5), eps)["decrease"]
    assert fall.right == pytest.approx(-(s**2) / 2)
    assert fall.holds()
    assert dn.printed_decrease(0.0, 0.0, s) > fall.right


def test_printed_decrease_with_the_printed_inverse_fails_for_small_errors() -> None:
    """There the error's part of delta^2 is eps^T G^-1 eps = 16 s^2, and omega_* of it about 128 s^4."""
    for s in np.linspace(0.005, 0.2, 40):
        rise = s**2 / 2  # A = 0, x = 0: g - min g = x^2/8, and |eps| = 2 s
        allowed = float(-(16 * s**2) - np.log1p(-16 * s**2)) if 16 * s**2 < 1 else np.inf
        assert allowed == pytest.approx(128 * s**4, rel=0.01) or s > 0.03
        if s < 0.059:
            assert allowed < rise
        if s > 1 / 16:
            assert allowed > rise


def printed_h(x: np.ndarray, c: np.ndarray, squared_error: float) -> np.ndarray:
    """h of app:auxiliary-constant-decrease, NaN where the square of its delta would be negative."""
    squared = (x / (1 + x)) ** 2 - 2 * c / (1 + x) + squared_error
    delta = np.sqrt(np.where(squared >= 0, squared, np.nan))
    return np.asarray(-(x**2) / (1 + x) + c - np.log1p(-delta) - delta)


def test_printed_h_needs_a_smaller_error_and_a_sign() -> None:
    # "h(1/6) <= 0.01 since |c| <= 0.06" has to read h(1/6) <= -0.01, and that needs |c| <= 0.012 or so.
    sixth = np.array(1 / 6)
    assert printed_h(sixth, np.linspace(-0.0119, 0.0119, 200), 1e-4).max() <= -0.01
    assert -0.01 < printed_h(sixth, np.array(-0.06), 1e-4) < 0
    assert np.isnan(printed_h(sixth, np.array(0.06), 1e-4))  # no step has this c at lambda = 1/6
    x, c = np.meshgrid(np.linspace(1 / 6, 1, 400), np.linspace(-0.012, 0.0119, 101))
    slope = (printed_h(x + 1e-6, c, 1e-4) - printed_h(x - 1e-6, c, 1e-4)) / 2e-6
    assert slope.max() == pytest.approx(-0.1428, abs=1e-3)  # the caption's -0.02 is not the maximum


def test_norm_of_the_inverse_root_is_at_most_two() -> None:
    # G = hess f / (4 mu) >= 1/4, so ||G^(-1/2)|| <= 2; the paper has 1/2.
    mu = 0.3
    A, y, x, _ = random_problems(7, 200, mu)
    least = np.linalg.eigvalsh(reference(x, A, y, mu)[1] / (4 * mu))[:, 0]
    assert least.min() >= 0.25 - 1e-12
    assert np.all(least**-0.5 > 0.5)
    assert (least**-0.5).max() == pytest.approx(2, abs=1e-6)


def test_printed_norm_of_the_error_uses_the_inverse() -> None:
    # delta_t: eps^T G^-1 eps <= ||eps||^2 / 4 is printed; eps^T G eps <= ||eps||^2 (1 + 4 mu) / (16 mu) is right.
    mu, A, y, x = 0.02, np.ones((1, 1)), ONE, np.zeros(1)
    G = reference(x, A, y, mu)[1][0, 0] / (4 * mu)
    assert 1 / reference(x, ZERO, y, mu)[1][0, 0] * 4 * mu > 1 / 4  # with A = 0 it is 4
    assert G > 1 / 4
    assert pytest.approx((1 + 4 * mu) / (16 * mu)) == G


def test_printed_decrement_bound_drops_the_error() -> None:
    # At the minimiser lambda(x+) is about s, while the printed bound is quadratic in the error.
    mu, A, y = 0.1, np.array([[1.0], [-0.5]]), np.ones(2)
    x, eps = np.asarray(minimize(A, y, mu)), np.full(1, 0.01)
    M = standard_constant(mu)
    found = dn.step_bounds(x, A, y, mu, M, eps)["decrement"]
    step = float(M * norm(reference(x, A, y, mu)[1], eps))
    assert found.left > 5 * dn.printed_decrement_bound(0.0, step, 0.01, mu)
    assert found.holds()


def test_printed_bounds_by_hand() -> None:
    lam, c, s = 0.4, 0.03, 0.2
    squared = (0.4 / 1.4) ** 2 - 2 * 0.03 / 1.4 + 0.04
    assert dn.printed_decrease(lam, c, s) == pytest.approx(0.16 / 1.4 - 0.03 + squared + np.log1p(-squared), rel=1e-12)
    share = 0.4 / 1.4 + 0.05 * (0.5 + np.sqrt(1.3 / 1.2))
    assert dn.printed_decrement_bound(lam, 0.25, 0.05, 0.3) == pytest.approx((0.25 + 0.4) * share / 0.75, rel=1e-12)


def test_the_quadratic_bound_is_claimed_up_to_its_ends_and_no_further() -> None:
    assert dn.quadratic_bound(1 / 6, 0.02) == pytest.approx(2 / 36 + 0.035, rel=1e-12)
    assert np.isinf(dn.quadratic_bound(1 / 6 + 1e-9, 0.0))
    assert np.isinf(dn.quadratic_bound(0.0, 0.02 + 1e-9))


def test_gap_bound_is_claimed_from_a_sixth_on() -> None:
    """A = 0: lambda = |x| / 2 with the paper's constant, so x = 1/3 is where the phases meet."""
    mu = 0.3
    x = np.array([[1 / 3 - 1e-6], [1 / 3 + 1e-6], [40.0]])
    found = dn.step_bounds(x, ZERO, ONE, mu, standard_constant(mu))["gap"]
    np.testing.assert_array_equal(np.isfinite(found.left), [False, True, True])
    t = np.array([1 / 6, np.sqrt(8 * mu * 1600 / 8 / (1 + 4 * mu))])
    np.testing.assert_allclose(np.asarray(found.left)[1:], t - np.log1p(t), rtol=1e-6)


def test_printed_lower_bound_of_the_integral_is_false() -> None:
    # After eq:bound_hessian_inv_grad, 0 <= delta / (1 - delta) - lambda is printed.
    # An error that undoes the step has delta = 0 < lambda.
    mu, A, y, x = 0.1, np.ones((1, 1)), ONE, np.zeros(1)
    landed = np.asarray(damped_newton(A, y, mu, 1, x))[1]
    stayed = np.asarray(damped_newton(A, y, mu, 1, x, errors=(x - landed)[None]))[1]
    delta = standard_constant(mu) * norm(reference(x, A, y, mu)[1], stayed - x)
    assert delta / (1 - delta) - standard_constant(mu) * np.asarray(newton_decrement(x, A, y, mu)) < -0.1


@pytest.mark.parametrize(("damping", "constant"), [("sharp", sharp_constant), ("paper", standard_constant)])
def test_what_holds_of_the_integral_in_place_of_the_printed_lower_bound(damping: str, constant: Any) -> None:
    """||mean Hessian - (1 + lambda) G|| is at most the larger of two numbers, and either can be the larger."""
    mu = 0.1
    M = constant(mu)
    A, y, x, _ = random_problems(11, 600, mu)
    x = np.concatenate([x[:300], np.asarray(minimize(A, y, mu))[300:]])
    lam = M * np.asarray(newton_decrement(x, A, y, mu))
    eps = errors(12, x, A, y, mu, M, 0.9) / (1 + lam)[:, None]
    moved = np.asarray(damped_newton(A, y, mu, 1, x, errors=eps[:, None], damping=damping))[:, 1] - x
    G = reference(x, A, y, mu)[1]
    nodes, weights = np.polynomial.legendre.leggauss(60)
    K = sum(w / 2 * reference(x + (t + 1) / 2 * moved, A, y, mu)[1] for t, w in zip(nodes, weights, strict=True))
    half = np.linalg.inv(np.linalg.cholesky(G))
    spectrum = np.linalg.eigvalsh(half @ K @ half.swapaxes(-1, -2))
    found = np.abs(spectrum - (1 + lam)[:, None]).max(axis=-1)
    delta = M * norm(G, moved)
    first, second = delta + lam, delta / (1 - delta) - lam
    assert np.all(found <= np.maximum(first, second) * (1 + 1e-7) + 1e-9)
    assert (second < 0).any()
    assert (second > first * (1 + 1e-6)).sum() > 100


@pytest.mark.parametrize(("lam", "share"), [(0.1, 0.01), (0.01, 1e-4), (0.0, 0.02)])
def test_printed_completion_of_the_square(lam: float, share: float) -> None:
    # Completing the square there, with alpha = sqrt(share / 3), 3 lambda^2 + share + alpha = 3 (lambda - alpha)^2 is
    # printed; 3 lambda^2 + share - alpha <= 3 (lambda - alpha)^2 is right, for lambda <= 1/6.
    alpha = np.sqrt(share / 3)
    assert 3 * lam**2 + share + alpha - 3 * (lam - alpha) ** 2 > 0.9 * alpha
    assert 3 * lam**2 + share - alpha < 3 * (lam - alpha) ** 2


def test_printed_remark_has_the_sign_of_a_logarithm_wrong() -> None:
    # v -> v^2 from v0 = 1/2 + 3 alpha reaches e in log2 ln(1/e) - log2 ln(1/v0) steps; the remark adds the second term.
    v0, e = 0.9, 1e-6
    right = np.log2(np.log(1 / e)) - np.log2(np.log(1 / v0))
    printed = np.log2(np.log(1 / e)) + np.log2(np.log(1 / v0))
    assert v0 ** (2 ** np.ceil(right)) <= e < v0 ** (2 ** np.ceil(printed))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dn.decrease_bound(-0.1), "decrement = -0.1: must be at least 0"),
        (lambda: dn.decrement_bound(0.1, np.array([0.1, -1.0])), "error = -1: must be at least 0"),
        (lambda: dn.phase_one_decrease(-1.0, 1.0), "gap = -1: must be at least 0"),
        (lambda: dn.phase_one_steps(-1.0, 1.0), "gap = -1.0"),
        (lambda: dn.phase_one_steps(1.0, 1.0, theta=0.16), "theta = 0.16: must keep"),
        (lambda: dn.printed_decrement_bound(0.1, 1.0, 0.1, 1.0), "step = 1.0"),
        (lambda: dn.step_bounds(ONE, ZERO, ONE, 1.0, 0.0), "constant = 0.0"),
        (lambda: dn.step_bounds(ONE, ZERO + 3, ONE, 1.0, 1.0), "A has norm 3 in row 0"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_omega_pair_is_conjugate() -> None:
    # omega_*(lambda / (1 + lambda)) = lambda/(1+lambda) * lambda - omega(lambda): why damping loses nothing in theory.
    lam = np.logspace(-4, 3, 50)
    step = lam / (1 + lam)
    np.testing.assert_allclose(omega_star(step), lam * step - np.asarray(omega(lam)), rtol=1e-6)
