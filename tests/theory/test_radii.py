"""How far minimisers and iterates get: the radii under attack, and the printed lemmas that are false."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, lambertw

from tests.helpers.logistic_problems import MUS, climb, random_problems
from tests.helpers.tries import later
from tfnewton.algorithms.logistic_regression import damped_newton, minimize
from tfnewton.theory import radii

ZERO, ONE = np.zeros((1, 1)), np.ones(1)  # A = 0: f = mu x^2 / 2


@pytest.mark.parametrize("mu", MUS)
def test_a_full_newton_step_lands_inside_its_radius(mu: float) -> None:
    A, y, x, _ = random_problems(3, 3000, mu)
    landed = np.asarray(damped_newton(A, y, mu, 1, x, damping="full"))[:, 1]
    assert np.linalg.norm(landed, axis=-1).max() < radii.newton_point_radius(mu)
    # The radius cannot be lowered: from far on the wrong side the step lands as close to it as one likes.
    far = np.asarray(damped_newton(np.ones((1, 1)), ONE, mu, 1, np.array([-40.0]), damping="full"))[1, 0]
    assert far == pytest.approx(1 / mu, rel=1e-9 / mu)


@pytest.mark.parametrize("mu", MUS)
def test_minimizers_stay_inside_their_radius(mu: float) -> None:
    A, y, _, _ = random_problems(4, 1000, mu)
    radius = radii.minimizer_radius(mu)
    assert np.linalg.norm(minimize(A, y, mu), axis=-1).max() <= radius
    assert radius <= 0.5277 / np.sqrt(mu)
    largest = float(lambertw(np.exp(-1)).real)
    if mu <= 0.1704:
        a = (1 + largest) * np.sqrt(mu / largest)
        assert a <= 1
        assert minimize(np.array([[a]]), ONE, mu)[0] == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize("mu", [1.0, 10.0, 1e3])
def test_the_radius_of_minimizers_is_approached_for_large_penalties(mu: float) -> None:
    """There d = n = a = 1 has its minimiser near 1 / (2 mu + 1/2): a radius of 1 / 2.1 mu would fail from 5 on."""
    x = minimize(np.ones((1, 1)), ONE, mu)[0]
    assert x <= radii.minimizer_radius(mu) <= x * (1 + 0.3 / mu)


def test_the_constant_of_the_minimizer_is_the_largest_pull() -> None:
    pull = minimize_scalar(lambda m: -m * expit(-m), bounds=(0, 10), options={"xatol": 1e-12})
    assert radii.minimizer_radius(1e-4) == pytest.approx(np.sqrt(-pull.fun / 1e-4), rel=1e-9)


def test_outward_errors_have_their_size_wherever_the_point_lies() -> None:
    """At zero too, which the first step from zero with a gradient of zero does not leave."""
    points = np.array([[0.0, 0.0], [3.0, -4.0], [0.0, 1e-200]])
    errors = radii.outward(points, 2.0)
    assert np.allclose(np.linalg.norm(errors, axis=-1), 2.0)
    assert np.allclose(np.linalg.norm(points + errors, axis=-1), np.linalg.norm(points, axis=-1) + 2.0)
    balanced = np.asarray(damped_newton(np.array([[1.0], [-1.0]]), np.ones(2), 0.1, 3))  # d = 1, n = 2: stays at zero
    assert np.all(balanced == 0.0)
    assert np.all(radii.outward(balanced, 0.5) == 0.5)


@pytest.mark.parametrize("damping", ["paper", "sharp"])
@pytest.mark.parametrize("error", [0.0, 0.1, 1.0, 1.9])
@pytest.mark.parametrize("mu", [0.5, 10.0, *later(0.01, 2.0)])
def test_iterates_stay_inside_their_radius(mu: float, error: float, damping: str) -> None:
    A, y, x, _ = random_problems(5, 300, mu)
    radius = np.array([radii.iterate_radius(mu, error, float(r)) for r in np.linalg.norm(x, axis=-1)])
    for _ in range(30):
        landed = np.asarray(damped_newton(A, y, mu, 1, x, damping=damping))[:, 1]
        x = landed + radii.outward(landed, error)  # the worst direction for the norm
        assert np.all(np.linalg.norm(x, axis=-1) <= radius * (1 + 1e-12))


@pytest.mark.parametrize(("mu", "error"), [(0.1, 0.5), (2.0, 1.0), (5.0, 1.9)])
def test_hill_climbing_does_not_leave_the_radius(mu: float, error: float) -> None:
    radius = radii.iterate_radius(mu, error)

    def score(candidates: np.ndarray) -> np.ndarray:  # one step from a point inside the radius
        A, x = np.tanh(candidates[:, :3])[..., None], radius * np.tanh(candidates[:, 3:])
        landed = np.asarray(damped_newton(A, np.array([1.0, 1.0, -1.0]), mu, 1, x))[:, 1]
        return np.asarray(np.abs(landed[:, 0] + radii.outward(landed, error)[:, 0]) / radius)

    best = climb(score, 2 * np.random.default_rng(0).normal(size=(100, 4)), seed=1, rounds=80)
    assert 0.9 < best <= 1 + 1e-12


def test_the_radius_is_tight_without_data() -> None:
    # A = 0: norms under outward errors settle at 2 e / (2 - e), which the bound approaches for large mu.
    mu, error, x = 1e3, 1.0, np.array([1e-9])
    for _ in range(200):
        landed = np.asarray(damped_newton(ZERO, ONE, mu, 1, x))[1]
        x = landed + radii.outward(landed, error)
    assert x[0] == pytest.approx(2 * error / (2 - error), rel=1e-6)
    assert x[0] <= radii.iterate_radius(mu, error) <= 1.01 * x[0]


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 1.4])
def test_norm_descent_lemma_below_the_square_root_of_two(mu: float) -> None:
    radius = radii.norm_descent_radius(mu)
    A, y, x, _ = random_problems(6, 1000, mu)
    x *= np.random.default_rng(0).uniform(1, 5, size=(1000, 1)) * radius / np.linalg.norm(x, axis=-1, keepdims=True)
    landed = np.asarray(damped_newton(A, y, mu, 1, x))[:, 1]
    after = np.linalg.norm(landed + radii.outward(landed, mu**2), axis=-1)
    assert np.all(after <= np.linalg.norm(x, axis=-1) * (1 + 1e-12))


@pytest.mark.parametrize("mu", [np.sqrt(2), 2.0, 5.0])
def test_norm_lemmas_are_false_from_the_square_root_of_two_on(mu: float) -> None:
    norms = np.array(radii.growth_example(mu, 2000))
    assert np.all(np.diff(norms) > 0)
    x = ONE
    for expected in norms[1:5]:  # it is the iteration of the lemma, error mu^2 and all
        x = np.asarray(damped_newton(ZERO, ONE, mu, 1, x, errors=np.full((1, 1), mu**2)))[1]
        assert x[0] == pytest.approx(expected, rel=1e-12)
    if mu == 2.0:
        assert norms[-1] == pytest.approx(4014.98, abs=0.01)
    with pytest.raises(ValueError, match=r"mu = .* below 1\.41421"):
        radii.norm_descent_radius(mu)


def test_growth_example_settles_for_a_smaller_penalty() -> None:
    norms = radii.growth_example(1.0, 2000)
    assert norms[-1] == pytest.approx(2.0, rel=1e-6)  # 2 r / (2 + r) = 1


def test_printed_steps_of_the_norm_lemma_that_fail_for_large_penalties() -> None:
    # eq:bound2: x^T H^-1 grad f >= -||x|| / mu + mu^2 ||x||^2. With A = 0 the left side is ||x||^2.
    mu, r = 1.5, 100.0
    assert r**2 < -r / mu + mu**2 * r**2
    # eq:bound1 bounds 2 error^T (x - eta H^-1 grad f) by 2 mu^2 ||x|| + 2 mu eta ||H^-1 grad f||; mu^2 is due twice.
    mu, x = 2.0, np.zeros(1)
    landed = np.asarray(damped_newton(np.ones((1, 1)), ONE, mu, 1, x))[1]  # x - eta H^-1 grad f
    cross = 2 * radii.outward(landed, mu**2) @ landed
    assert cross == pytest.approx(2 * mu**2 * abs(landed[0]))
    assert cross > 2 * mu * abs(landed[0])


def test_weights_of_the_newton_point() -> None:
    m = np.linspace(-60, 60, 2001)
    weights = expit(-m) + m * expit(m) * expit(-m)
    assert np.all(np.diff(weights) <= 1e-15)
    assert weights.min() > 0
    assert weights.max() < 1 + 1e-15


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radii.iterate_radius(1.0, 2.0), "error = 2.0: must be a finite number and at least 0 and below 2"),
        (lambda: radii.iterate_radius(1.0, 1.0, -1.0), "start = -1.0"),
        (lambda: radii.outward(ONE, -1.0), "size = -1.0"),
        (lambda: radii.growth_example(1.0, -1), "steps = -1"),
        (lambda: radii.minimizer_radius(0.0), "mu = 0.0"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
