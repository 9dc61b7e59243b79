"""The end-to-end theorem against runs with the worst errors that it allows, and the linear final accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from tests.helpers.logistic_problems import random_problems, reference
from tests.helpers.tries import later
from tfnewton.algorithms.logistic_regression import (
    damped_newton,
    loss,
    minimize,
    newton_decrement,
)
from tfnewton.damping import damping_constant
from tfnewton.theory import convergence as cv
from tfnewton.theory.self_concordance import standard_constant


def run(
    x: np.ndarray, A: np.ndarray, y: np.ndarray, mu: float, damping: str, error: float, steps: int, kind: str
) -> np.ndarray:
    """Return iterates (steps + 1, k, d) under errors of norm ``error`` chosen against the claim."""
    best, rng = np.asarray(minimize(A, y, mu)), np.random.default_rng(0)
    fixed = rng.normal(size=x.shape)
    iterates = [x]
    for _ in range(steps):
        landed = np.asarray(damped_newton(A, y, mu, 1, x, damping=damping))[:, 1]
        directions = {
            "outward": landed - best + 1e-100,
            "stiff": np.linalg.eigh(reference(landed, A, y, mu)[1])[1][..., -1],
            "constant": fixed,
            "random": rng.normal(size=x.shape),
        }
        push = directions[kind]
        x = landed + error * push / np.linalg.norm(push, axis=-1, keepdims=True)
        iterates.append(x)
    return np.array(iterates)


@pytest.mark.parametrize("kind", ["outward", "stiff", "constant", "random"])
@pytest.mark.parametrize("damping", ["paper", "sharp"])
@pytest.mark.parametrize("mu", [0.05, 2.0, *later(0.3, 10.0)])
def test_theorem_on_the_worst_errors_it_allows(mu: float, damping: str, kind: str) -> None:
    A, y, x, _ = random_problems(1, 60, mu)
    x *= np.minimum(1, 5 / np.linalg.norm(x, axis=-1, keepdims=True))
    M, best = damping_constant(mu, damping), np.asarray(minimize(A, y, mu))
    start = float(np.linalg.norm(x, axis=-1).max())
    error = cv.error_limit(mu, start, damping)
    gaps = M**2 * (np.asarray(loss(x, A, y, mu)) - np.asarray(loss(best, A, y, mu)))
    claims = [cv.convergence(mu, error, float(gap), start, damping) for gap in gaps]
    iterates = run(x, A, y, mu, damping, error, 60, kind)
    lam = M * np.asarray(newton_decrement(iterates, A, y, mu))
    distances = np.linalg.norm(iterates - best, axis=-1)
    after = M**2 * (np.asarray(loss(iterates, A, y, mu)) - np.asarray(loss(best, A, y, mu)))
    assert np.linalg.norm(iterates, axis=-1).max() <= claims[0].radius
    assert lam.max() <= claims[0].largest_decrement
    for k, claim in enumerate(claims):
        first = int(np.argmax(lam[:, k] < 1 / 6))
        assert lam[first, k] < 1 / 6
        assert first <= claim.phase_one
        assert np.all(lam[first:, k] < 1 / 6)
        settled = slice(first + claim.phase_two, None)
        assert lam[settled, k].max() <= claim.decrement
        assert distances[settled, k].max() <= claim.distance
        assert after[settled, k].max() <= claim.gap + 1e-13
        assert claim.steps == claim.phase_one + claim.phase_two
    assert distances[-20:].max() <= 1.06 * error
    assert distances[-20:].max() <= cv.final_distance(mu, error, damping) * (1 + 1e-9)


@pytest.mark.parametrize("mu", [1e-3, 1e-2, 0.1, 1.0])
def test_final_distance_is_linear_in_the_error_and_attained(mu: float) -> None:
    A, y, _, _ = random_problems(2, 20, mu)
    best = np.asarray(minimize(A, y, mu))
    errors = np.logspace(-7, -4, 4) * min(mu, 0.1)
    measured = np.array([run(best, A, y, mu, "sharp", e, 25, "outward")[-1] - best for e in errors])
    distances = np.linalg.norm(measured, axis=-1)
    bounds = np.array([cv.final_distance(mu, e, "sharp") for e in errors])
    assert np.all(distances <= bounds[:, None] * (1 + 1e-6) + 1e-13)
    assert np.all(distances >= 0.9 * errors[:, None])
    slopes = np.diff(np.log(distances), axis=0) / np.diff(np.log(errors))[:, None]
    np.testing.assert_allclose(slopes, 1, atol=0.01)
    assert np.all(bounds < np.array([cv.printed_final_distance(mu, e) for e in errors]))


def test_what_the_damping_takes_away() -> None:
    """lambda/(1 + lambda) <= nu r for nu r < 1, as the final accuracy needs; lambda alone may be larger."""
    mu = 0.1
    nu = np.sqrt((1 + 4 * mu) / (16 * mu))
    A, y, x, _ = random_problems(6, 2000, mu)
    best = np.asarray(minimize(A, y, mu))
    r = np.linspace(0.01, 0.99, 2000) / nu
    point = best + r[:, None] * x / np.linalg.norm(x, axis=-1, keepdims=True)
    lam = standard_constant(mu) * np.asarray(newton_decrement(point, A, y, mu))
    assert np.all(lam / (1 + lam) <= nu * r)
    pair, labels, line = np.ones((2, 1)), np.array([1.0, -1.0]), np.linspace(0.05, 1.0, 200)[:, None]
    alone = standard_constant(mu) * np.asarray(newton_decrement(line, pair, labels, mu))  # the minimiser is 0
    assert 1.02 < (alone / (nu * line[:, 0])).max() < 1.04


@pytest.mark.parametrize(("e", "limit"), [(0.1, 0.1 / 0.95), (1.0, 2.0), (1.5, 6.0)])
def test_final_distance_needs_small_errors(e: float, limit: float) -> None:
    """A = 0: a step takes 2r/(2 + r) off, so that outward errors end at 2e/(2 - e), beyond 2e for e > 1."""
    A, y, mu = np.zeros((1, 1)), np.ones(1), 0.1
    path = np.asarray(damped_newton(A, y, mu, 400, np.ones(1), errors=np.full((400, 1), e)))
    assert path[-1, 0] == pytest.approx(limit, rel=1e-6)
    assert (path[-1, 0] > 2 * e) == (e > 1)
    with pytest.raises(ValueError, match="error"):
        cv.final_distance(mu, 1.5)


def extremes(mu: float) -> tuple[float, float, float]:
    """Return the largest p (1 - p), its largest slope, and the largest need of a unit row, found by search."""

    def curvature(m: float) -> float:
        return float(expit(m) * expit(-m))

    def slope(m: float) -> float:
        return curvature(m) * float(expit(m) - expit(-m))

    def need(m: float) -> float:
        return slope(m) / (2 * float(np.power(curvature(m) + mu, 1.5)))

    functions = (curvature, slope, need)
    starts = np.linspace(0.0, 40.0, 4001)
    found = []
    for function in functions:
        at = starts[int(np.argmax([function(m) for m in starts]))]
        best = minimize_scalar(lambda m, f=function: -f(m), bounds=(at - 0.02, at + 0.02), options={"xatol": 1e-12})
        found.append(-float(best.fun))
    return found[0], found[1], found[2]


@pytest.mark.parametrize("damping", ["paper", "sharp"])
@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.1, 1.0, 10.0])
def test_constants_by_search(mu: float, damping: str) -> None:
    curvature, slope, need = extremes(mu)
    M = need if damping == "sharp" else 1 / (2 * np.sqrt(mu))  # the paper's is read off its factor
    nu, start = M * np.sqrt(mu + curvature), 3.0

    def outward(r: float) -> float:  # how much a step from norm r may gain with an error of norm 1, at most
        return float(1 - 2 * (mu * r - 1) / (2 * mu + 1 + mu * r))

    radius = max(start, brentq(outward, 1 / mu, 1e3 / mu + 1e3))
    # A row of norm one with the wrong label: far out its decrement reaches the bound.
    far = M * np.asarray(newton_decrement(np.array([-radius]), np.ones((1, 1)), np.ones(1), mu))
    largest = M * (1 + mu * radius) / np.sqrt(mu)
    assert far <= largest * (1 + 1e-12)
    assert mu > 0.1 or far == pytest.approx(largest, rel=1e-6)
    # Phase I: the largest theta, to three digits, that leaves a fall of a hundredth.
    theta = brentq(lambda t: 1 / 6 - np.log(7 / 6) + t + np.log1p(-t) - 0.01, 0.0, 0.5)
    limit = min(1.0, 0.02 / nu, np.floor(1000 * theta) / 1000 / ((1 + largest) * nu))
    assert cv.error_limit(mu, start, damping) == pytest.approx(limit, rel=1e-6)
    claim = cv.convergence(mu, limit / 2, 7.7, start, damping)
    assert (claim.radius, claim.largest_decrement) == pytest.approx((radius, largest), rel=1e-6)
    assert claim.phase_one == 770  # a hundredth a step
    assert claim.decrement == pytest.approx(2.3 * 1.75 * nu * limit / 2, rel=1e-6)
    assert claim.distance == pytest.approx(claim.decrement / (1 - claim.decrement) / (M * np.sqrt(mu)), rel=1e-6)
    # lambda^2 / 2 (1 - lambda) is largest, in units of lambda^2, at 1/6.
    assert claim.gap == pytest.approx(claim.decrement**2 / (2 * (1 - 1 / 6)))
    # What is left is a fixed point of D -> rho D^2 + error, with half the largest slope of the Hessian over mu in rho.
    for error in (limit, limit / 100):
        left = cv.final_distance(mu, error, damping)
        rho = nu + slope / (2 * mu)
        assert rho * left**2 + error == pytest.approx(left, rel=1e-9)
        assert 2 * rho * left < 1, "the smaller one"


@pytest.mark.parametrize("damping", ["paper", "sharp"])
@pytest.mark.parametrize("start", [0.0, 3.0, 1e3])
def test_the_final_accuracy_follows_from_the_theorem(damping: str, start: float) -> None:
    """What dn-accuracy needs follows from the limit, and there it is 1.06 errors at most."""
    worst = 0.0
    for mu in np.logspace(-6, 4, 201):
        M = damping_constant(float(mu), damping)
        rho = M * np.sqrt(mu + 0.25) + 1 / (12 * np.sqrt(3) * mu)
        limit = cv.error_limit(float(mu), start, damping)
        distance = cv.convergence(float(mu), limit, 1.0, start, damping).distance
        assert rho * distance <= 0.333
        assert 4 * rho * limit < 0.202
        worst = max(worst, cv.final_distance(float(mu), limit, damping) / limit)
    assert worst <= 1.057
    if damping == "sharp" and start == 0.0:
        assert worst > 1.055, "no smaller factor follows"


def test_the_proof_for_the_sharp_constant_step_by_step() -> None:
    """Each line of it as a function of zeta = sqrt(1 + 1/4mu) alone, over its whole range."""
    zeta = 1 + np.logspace(-6, 4, 20001)
    mu = 1 / (4 * (zeta**2 - 1))
    sigma = 1 / (3 * np.sqrt(3) * (1 + 4 * mu))
    nu = sigma * zeta
    np.testing.assert_allclose(nu, sigma / np.sqrt(mu) * np.sqrt(mu + 0.25), rtol=1e-9)
    np.testing.assert_allclose(1 / (12 * np.sqrt(3) * mu), sigma * zeta**2, rtol=1e-9)
    largest = (zeta**2 - 1) * (16 * zeta**2 - 14) / (3 * np.sqrt(3) * zeta**2)
    np.testing.assert_allclose(largest, sigma * (4 + 2 * mu) / mu, rtol=1e-9)
    error = np.minimum(0.02, 0.069 / (1 + largest))  # in units of 1 / nu
    assert 2.3 * 1.75 / (1 - 2.3 * 1.75 * 0.02) <= 4.378
    distance = 4.378 * zeta * (1 + zeta) * error
    assert 0.3325 < distance.max() < 0.333
    assert 0.2005 < (4 * (1 + zeta) * error).max() < 0.202
    # From 1.513 on the second bound counts, and falls.
    beyond = zeta >= 1.513
    assert np.all(1 + largest[beyond] >= 3.452)
    Z = zeta[beyond] ** 2
    P = 16 * Z - (30 - 3 * np.sqrt(3)) + 14 / Z
    ratio = (1 + largest[beyond]) / (zeta[beyond] * (1 + zeta[beyond]))
    np.testing.assert_allclose(ratio, P / (3 * np.sqrt(3) * (Z + zeta[beyond])), rtol=1e-9)
    assert np.all(np.diff(ratio) > 0)
    grows = (16 - 14 / Z**2) * (Z + zeta[beyond]) - P * (1 + 1 / (2 * zeta[beyond]))
    assert np.all(grows > 8 * zeta[beyond] + 24.8 - 28 / Z - 21 / zeta[beyond] ** 3)


@pytest.mark.parametrize("b", [0.035, 0.01, 1e-4, 1e-8, 1e-12])
def test_phase_two_count_of_the_recursion(b: float) -> None:
    # The scalar recursion behind the theorem, at its worst: lambda+ = 2 lambda^2 + b from 1/6.
    mu = 0.1
    error = b / 1.75 / (np.sqrt(1 + 4 * mu) / (4 * np.sqrt(mu)))
    lam, steps = 1 / 6, int(np.ceil(np.log2(np.log(1 / np.sqrt(2 * b)) / np.log(3)))) + 1
    if error <= cv.error_limit(mu):
        assert cv.convergence(mu, error, 1.0).phase_two == steps
    for _ in range(steps):
        before, lam = lam, 2 * lam**2 + b
    assert lam <= 2.3 * b
    assert steps == 1 or before > 1.01 * b, "and the error alone is not all that is left one step earlier"


def test_the_gap_is_below_the_error_once_the_error_is_small() -> None:
    # (iv) of the theorem: gap <= error for error <= 1.6 mu / (1 + 4 mu), within the limit.
    for mu in np.logspace(-5, 1, 40):
        error = min(cv.error_limit(mu), 1.6 * mu / (1 + 4 * mu))
        assert cv.convergence(mu, error, 1.0).gap <= error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cv.convergence(0.1, 0.5, 1.0), "error = 0.5: must be a finite number and above 0 and at most"),
        (lambda: cv.convergence(0.1, 0.0, 1.0), "error = 0.0"),
        (lambda: cv.convergence(0.1, 1e-4, -1.0), "gap = -1.0"),
        (lambda: cv.convergence(0.1, 1e-4, 1.0, damping="full"), "damping = 'full': must be one of 'paper', 'sharp'"),
        (lambda: cv.error_limit(0.1, -1.0), "start = -1.0"),
        (lambda: cv.final_distance(0.1, 0.5), "error = 0.5: must be"),
        (lambda: cv.printed_final_distance(0.0, 0.5), "mu = 0.0"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
