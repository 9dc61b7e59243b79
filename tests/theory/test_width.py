"""Width and depth: the printed formulas, the inversion's count, and the proved budget of one damped step's error.

The budget's bound is attacked with perturbations at the edge of its tolerances, with random and adversarial problems;
the step is written here in numpy and scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tests.helpers.tries import later, tries
from tfnewton.theory import width
from tfnewton.theory.error_budget import ErrorBudget, ReluLayers, error_budget, leading_width, step_error
from tfnewton.theory.radii import iterate_radius

MUS = (0.01, 0.1, 1.0)
quick = settings(deadline=None, max_examples=tries(60))


class Problem(NamedTuple):
    """Rows of norm at most one, labels, a point of norm at most the radius, and the penalty."""

    A: np.ndarray
    y: np.ndarray
    x: np.ndarray
    mu: float


def radius(mu: float) -> float:
    return math.sqrt(2 * math.log(2) / mu)


def problem(seed: int, d: int, n: int, mu: float) -> Problem:
    """Rows in one of six ways: in the ball, unit, one repeated, half zero, equal coordinates, tiny; any labels."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    A /= np.linalg.norm(A, axis=1, keepdims=True) * (1 + 1e-12)
    kind = seed % 6
    if kind == 0:
        A *= rng.random((n, 1))
    elif kind == 2:
        A = np.repeat(A[:1], n, axis=0)
    elif kind == 3:
        A[::2] = 0
    elif kind == 4:
        A = np.sign(A) / (math.sqrt(d) * (1 + 1e-12))
    elif kind == 5:
        A *= 1e-3
    y = rng.choice([-1.0, 1.0], n) if seed % 2 else np.where(A @ rng.normal(size=d) >= 0, 1.0, -1.0)
    x = rng.normal(size=d)
    x *= radius(mu) * rng.random() ** 0.3 / np.linalg.norm(x)
    if seed % 5 == 0:
        x = -radius(mu) * y[0] * A[0] / max(np.linalg.norm(A[0]), 1.0)  # the worst margin
    return Problem(A, y, np.zeros(d) if seed % 7 == 0 else x, mu)


def eta(s: float, mu: float) -> float:
    return 2 * math.sqrt(mu) / (2 * math.sqrt(mu) + math.sqrt(max(s, 0.0)))


def derivatives(case: Problem) -> tuple[np.ndarray, np.ndarray]:
    A, y, x, mu = case
    z = A @ x
    gradient = mu * x - A.T @ (y * expit(-y * z)) / len(y)
    return gradient, (A.T * (expit(z) * expit(-z))) @ A / len(y) + mu * np.eye(len(x))


def exact_step(case: Problem) -> np.ndarray:
    gradient, hessian = derivatives(case)
    direction = np.linalg.solve(hessian, gradient)
    return np.asarray(case.x - eta(float(gradient @ direction), case.mu) * direction)


def computed_step(case: Problem, budget: ErrorBudget, relu: ReluLayers) -> np.ndarray:
    """The step as the construction takes it: every nonlinear function by its ReLU units, the inverse by iteration."""
    A, y, x, mu = case
    z = A @ x
    p, D = np.asarray(relu.probability.units()(y * z)), np.asarray(relu.variance.units()(z))
    DA = np.asarray(relu.product.units()(np.repeat(D[:, None], A.shape[1], axis=1), A))
    gradient, B = mu * x - A.T @ (y * p) / len(y), A.T @ DA / len(y) + mu * np.eye(len(x))
    X = budget.alpha * B.T
    for _ in range(budget.inversion_steps):
        X = 2 * X - X @ B @ X
    direction = X @ gradient
    s = gradient @ direction
    assert budget.decrements[0] - 1e-9 <= s <= budget.decrements[1]
    return np.asarray(x - float(relu.step_size.units()(np.array(s))) * direction)


# Formulas


def test_rows_and_depths() -> None:
    assert [width.rows(d) for d in (1, 2, 5)] == [10, 16, 34]
    assert width.printed_rows(5) == 40
    assert width.depth(1, 1) == 13
    assert width.depth(8, 6) == 184
    assert width.depth(0, 6) == 0
    assert width.compact_depth(1, 2) == 7


def test_printed_widths_and_steps() -> None:
    assert width.printed_relu_width(5, 0.1, 1e-2) == pytest.approx(5 * 1.1**8 / (1e-8 * 1e-10))
    assert width.printed_relu_width(5, 0.1, 1e-4) == pytest.approx(1.07e27, rel=0.01)
    assert width.printed_main_relu_width(3, 0.5, 0.1) == pytest.approx(3 * 1.5**6 / (1e-4 * 0.5**8))
    assert width.printed_inversion_steps(4.0, 1.0, 2.0**-4.5) == pytest.approx(4 + math.log2(12))


@quick
@given(st.floats(1e-3, 10), st.floats(1e-8, 0.9), st.integers(2, 4), st.floats(0, 0.9), st.integers(0, 2**32 - 1))
def test_inversion_reaches_its_tolerance_for_every_matrix(
    mu: float, tolerance: float, order: int, part: float, seed: int
) -> None:
    """Singular values anywhere in the stated range, non-symmetric; one step fewer fails at the ends of the range."""
    perturbation = part * mu
    smallest, largest = mu - perturbation, 0.25 + mu + perturbation
    k = width.inversion_steps(mu, tolerance, order, perturbation)
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    B = U * np.array([smallest, largest, *rng.uniform(smallest, largest, 2)]) @ V
    start = np.eye(4) - width.inversion_scale(mu, perturbation) * B @ B.T
    eigenvalues = np.linalg.eigvalsh(start)
    residual = np.abs(eigenvalues).max() ** (order**k)
    assert residual <= tolerance * (1 + 1e-6)
    assert residual == pytest.approx(width.inversion_residual(mu, k, order, perturbation), rel=1e-5, abs=1e-300)
    if k > 0:
        assert np.abs(eigenvalues).max() ** (order ** (k - 1)) > tolerance * (1 - 1e-6)


def test_inversion_scale_without_perturbation_is_the_papers_choice() -> None:
    assert width.inversion_scale(0.1) == pytest.approx(2 / (0.35**2 + 0.1**2))


def test_printed_inversion_steps_fail_for_well_conditioned_data() -> None:
    """With rows of zero the Hessian is mu I, kappa_f = 1: the printed k leaves a residual above its own error."""
    mu, error = 0.01, 1e-3
    printed = math.ceil(width.printed_inversion_steps(1.0, mu, error))
    assert (1 - width.inversion_scale(mu) * mu**2) ** (2**printed) > 0.5
    assert width.inversion_steps(mu, error) > printed


# The bound on one step


Tolerances = tuple[float, float, float, float]


def one_source(source: int, e: float) -> Tolerances:
    """e for one of e_p, e_d, e_m, e_eta and zero for the others."""
    e_p, e_d, e_m, e_eta = (e * (source == k) for k in range(4))
    return e_p, e_d, e_m, e_eta


def perturbed_step(case: Problem, seed: int, e: Tolerances, rho: float) -> np.ndarray:
    """A step whose errors lie on the edge of the tolerances e_p, e_d, e_m, e_eta, rho, with signs drawn or aligned."""
    A, x, mu = case.A, case.x, case.mu
    n, d = A.shape
    rng = np.random.default_rng(seed)
    z = A @ x
    D = expit(z) * expit(-z)
    gradient, hessian = derivatives(case)
    direction = np.linalg.solve(hessian, gradient)
    aligned = np.sign(A @ direction) if seed % 2 else rng.choice([-1.0, 1.0], n)
    u3 = rng.choice([-1.0, 1.0]) * e[0] * np.sqrt(1 + D / mu) * aligned
    u1 = rng.choice([-1.0, 1.0]) * e[1] * (1 + D / mu) * (np.ones(n) if seed % 2 else rng.choice([-1.0, 1.0], n))
    v = np.sign(direction) * np.sign(A @ direction)[:, None] if seed % 3 else rng.choice([-1.0, 1.0], (n, d))
    u2 = rng.choice([-1.0, 1.0]) * e[2] * v
    B = hessian + (A.T * u1) @ A / n + A.T @ u2 / n
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    residual = rho * (Q * rng.choice([-1.0, 1.0], d)) @ Q.T
    b = gradient + A.T @ u3 / n
    q = np.linalg.solve(B, b - residual @ b)
    s = max(float(b @ q), 0.0)
    wrong = 1.0 if s == 0.0 else min(1.0, e[3] * math.sqrt(mu / s))
    damping = min(max(eta(s, mu) + rng.choice([-1.0, 1.0]) * wrong, 0.0), 1.0)
    return np.asarray(x - damping * q)


@settings(deadline=None, max_examples=tries(300))
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.floats(-2.5, 0.5),
    st.tuples(*[st.floats(-4, -0.5)] * 4),
    st.floats(-6, -1),
)
def test_no_perturbation_exceeds_the_bound(
    seed: int, d: int, decades: float, digits: tuple[float, float, float, float], rho: float
) -> None:
    mu = 10.0**decades
    case = problem(seed, d, d + seed % 20, mu)
    e_p, e_d, e_m, e_eta = (10.0**digit for digit in digits)
    e = (e_p * mu, e_d * mu, e_m * mu / math.sqrt(d), e_eta)
    bound = step_error(d, mu, radius(mu), *e, residual=10.0**rho)
    error = np.linalg.norm(perturbed_step(case, seed, e, 10.0**rho) - exact_step(case))
    assert error <= bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("source", "least"), [(0, 0.3), (1, 0.3), (2, 0.25), (3, 0.5)])
def test_each_term_of_the_bound_is_needed(source: int, least: float) -> None:
    """Some problem brings each error source alone to a good part of the bound."""
    mu, rng, best = 0.1, np.random.default_rng(source), 0.0
    for seed in range(600):
        d = 1 + seed % 3
        A = np.repeat(np.full((1, d), 0.999999 / math.sqrt(d)), d + 3, axis=0) * rng.random()
        y = np.ones(len(A)) if seed % 2 else rng.choice([-1.0, 1.0], len(A))
        case = Problem(A, y, rng.uniform(-1, 1) * radius(mu) * np.full(d, 1 / math.sqrt(d)), mu)
        e = one_source(source, 1e-4)
        error = np.linalg.norm(perturbed_step(case, seed, e, 0.0) - exact_step(case))
        best = max(best, float(error) / step_error(d, mu, radius(mu), *e, residual=0.0))
    assert least <= best <= 1.0 + 1e-6


def test_bound_is_the_first_order_formula_for_small_tolerances() -> None:
    """e_p/mu + 2U (e_d + sqrt(d) e_m)/mu + e_eta with U < 1, no square root of any tolerance."""
    d, mu, e = 4, 0.1, 1e-9
    terms = [step_error(d, mu, radius(mu), *one_source(source, e), residual=0.0) / e for source in range(4)]
    assert terms[0] == pytest.approx(1 / mu, rel=1e-6)
    assert 1.5 / mu < terms[1] < 2 / mu
    assert terms[2] == pytest.approx(math.sqrt(d) * terms[1], rel=1e-6)
    assert terms[3] == pytest.approx(1.0, rel=1e-6)


def test_bound_is_infinite_where_the_proof_does_not_reach() -> None:
    assert step_error(2, 0.1, 3.0, 0.0, 0.2, 0.0, 0.0, 0.0) == math.inf
    assert step_error(2, 0.1, 3.0, 0.3, 0.0, 0.0, 0.0, 0.0) == math.inf
    assert step_error(2, 0.1, 3.0, 0.0, 0.0, 0.0, 0.0, 0.9) == math.inf


@pytest.mark.parametrize("mu", MUS)
def test_decrement_stays_inside_the_interval_of_the_step_size(mu: float) -> None:
    budget = error_budget(3, mu, 1e-2)
    for seed in range(200):
        gradient, hessian = derivatives(problem(seed, 3, 3 + seed % 8, mu))
        assert gradient @ np.linalg.solve(hessian, gradient) <= budget.decrements[1]


# The budget


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize(("d", "error"), [(2, 1e-3), *later((1, 1e-1), (5, 1e-2), (8, 1e-4))])
def test_requested_error_is_kept(d: int, error: float, mu: float) -> None:
    """42 problems for each of the 12 budgets: 504 in all, separable or not, with duplicates and zeros."""
    budget = error_budget(d, mu, error)
    assert 0.99 * error <= budget.bound <= error
    relu = budget.layers()
    worst = 0.0
    for seed in range(42):
        case = problem(seed, d, d + (7 * seed) % (61 - d), mu)
        worst = max(worst, float(np.linalg.norm(computed_step(case, budget, relu) - exact_step(case))))
    assert 0.02 * error < worst <= error


@pytest.mark.parametrize("scheme", ["staircase", "curvature"])
def test_requested_error_is_kept_by_other_placements(scheme: str) -> None:
    budget = error_budget(2, 1.0, 1e-2)
    relu = budget.layers(scheme)
    for seed in range(42):
        case = problem(seed, 2, 2 + seed % 20, 1.0)
        assert np.linalg.norm(computed_step(case, budget, relu) - exact_step(case)) <= 1e-2


@quick
@given(st.integers(1, 40), st.floats(1e-3, 20), st.floats(-6, 1.5), st.floats(0.1, 10), st.integers(2, 3))
def test_budget_spends_the_error_and_no_more(d: int, mu: float, digits: float, stretch: float, order: int) -> None:
    reach = stretch * radius(mu)
    error = min(10.0**digits, reach)
    budget = error_budget(d, mu, error, radius=reach, order=order)
    assert budget.bound <= error
    assert min(budget.e_p, budget.e_d, budget.e_m, budget.e_eta) > 0
    assert budget.perturbation < mu
    assert budget.variances[0] < budget.variances[1] == 0.25
    assert budget.residual < 0.2
    if error < 0.1 * mu:
        assert budget.bound >= 0.99 * error


def test_far_margins_need_no_units() -> None:
    """Beyond 50 the units hold p and d constant, within the tolerances still: only eta notices the radius."""
    mu, z = 1e-3, np.concatenate([np.linspace(-60, 60, 4801), [-1e4, -1e3, 1e3, 1e4]])
    budget = error_budget(2, mu, 0.05, radius=1e4)
    relu = budget.layers()
    d = expit(z) * expit(-z)
    assert np.all(np.abs(np.asarray(relu.probability.units()(z)) - expit(-z)) <= budget.e_p * np.sqrt(1 + d / mu))
    assert np.all(np.abs(np.asarray(relu.variance.units()(z)) - d) <= budget.e_d * (1 + d / mu))
    assert budget.margins == (-50.0, 50.0)
    assert error_budget(2, mu, 0.05, radius=20.0).margins == (-20.0, 20.0)
    assert budget.variances[0] == pytest.approx(math.exp(-50), rel=1e-6)


def test_width_follows_its_law() -> None:
    errors = (1e-2, 1e-3, 1e-4)
    widths = [error_budget(5, 0.1, error).relu_width() for error in errors]
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] == pytest.approx(-2, abs=0.15)
    for units, error in zip(widths, errors, strict=True):
        assert units - (5 + 16) == pytest.approx(leading_width(5, 0.1, error), rel=0.15)  # without the fixed ones
        assert units < 1e-10 * width.printed_relu_width(5, 0.1, error)


@pytest.mark.parametrize("mu", [0.01, 1.0, 1e3, 1e6])
def test_width_is_of_its_order_at_every_penalty(mu: float) -> None:
    """d + d^(5/4)/sqrt(mu error): as the penalty grows the second term vanishes, and d + 16 units and more remain."""
    for d, error in ((1, 0.5), (4, 0.1), (12, 1e-2)):
        units = error_budget(d, mu, error, radius=iterate_radius(mu, error, radius(mu))).relu_width()
        assert d + 16 < units < 40 * (d + d**1.25 / math.sqrt(mu * error))
        if mu == 1e6:
            assert units > 100 * d**1.25 / math.sqrt(mu * error)


def test_width_grows_like_the_dimension_to_five_quarters() -> None:
    widths = [leading_width(d, 0.1, 1e-3) for d in (10**4, 10**5)]
    assert math.log10(widths[1] / widths[0]) == pytest.approx(1.25, abs=0.03)


def test_the_bound_is_that_of_the_last_line_of_its_proof() -> None:
    """At mu = 1 and x = 0, where p = 1/2 and d = 1/4, so that lambda <= p/sqrt(d + mu) and u is half of it."""
    e_p, e_eta, rho = 0.01, 0.02, 0.04
    psi, u = rho * math.sqrt(1.25), 0.25 / math.sqrt(1.25)
    k = psi + (1 + psi) * e_p / 2
    direction = e_p + psi * (1 + psi / (4 - 2 * psi)) * (2 * u / (1 + u) + e_p)
    expected = direction / (1 - k) + e_eta + psi * (2 * u + e_p)
    assert step_error(1, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0) == 0.0
    assert step_error(1, 1.0, 0.0, e_p, 0.0, 0.0, e_eta, rho) == pytest.approx(expected, rel=1e-14)


def test_staircase_is_wider_by_an_order_of_the_error() -> None:
    budget = error_budget(2, 1.0, 1e-2)
    assert budget.relu_width("staircase") > 5 * budget.relu_width()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: error_budget(0, 0.1, 1e-2), "d = 0"),
        (lambda: error_budget(2, 0.0, 1e-2), "mu = 0"),
        (lambda: error_budget(2, 0.1, 0.0), "error = 0"),
        (lambda: error_budget(2, 0.1, 1e-2, radius=0.0), "radius = 0"),
        (lambda: error_budget(2, 0.1, 1e-2, order=1), "order = 1"),
        (lambda: error_budget(2, 0.1, 1e-2).layers("spline"), "scheme = 'spline'"),
        (lambda: leading_width(2, -1.0, 1e-2), "mu = -1"),
        (lambda: width.rows(0), "d = 0"),
        (lambda: width.depth(-1, 1), "steps = -1"),
        (lambda: width.depth(1, -1), "inversion_steps = -1"),
        (lambda: width.inversion_steps(0.1, 1.0), "tolerance = 1"),
        (lambda: width.inversion_steps(0.1, 0.5, 1), "order = 1"),
        (lambda: width.inversion_scale(0.1, 0.1), "perturbation = 0.1"),
        (lambda: width.printed_inversion_steps(0.5, 0.1, 0.1), "kappa = 0.5"),
        (lambda: width.printed_inversion_steps(2.0, 1.0, 3.0), "error = 3"),
        (lambda: width.printed_relu_width(1, 1.0, 0.0), "error = 0"),
        (lambda: width.printed_relu_width(0, 1.0, 0.1), "d = 0"),
        (lambda: width.printed_main_relu_width(0, 1.0, 0.1), "d = 0"),
        (lambda: width.printed_rows(0), "d = 0"),
    ],
)
def test_refusals_name_the_parameter(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
