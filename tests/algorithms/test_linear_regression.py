"""Least squares, Newton on the normal equations and gradient descent against stored values and other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from scipy.sparse.linalg import cg
from sklearn.linear_model import Ridge

from tests.helpers.tries import tries
from tfnewton.algorithms.linear_regression import (
    chebyshev_iteration,
    conjugate_gradients,
    gradient_descent,
    gradient_descent_plus_plus,
    least_squares,
    newton_least_squares,
)

TRUTH: dict[str, Any] = json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text())
ROW, COLUMN = np.arange(6)[:, None], np.arange(2)
A, Y, A_TEST = np.sin((ROW + 1) * (COLUMN + 1) + COLUMN), np.cos(np.arange(6)), 1 / (1 + COLUMN)


def problem(d: int, n: int, kappa: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    U, V = np.linalg.qr(rng.standard_normal((n, d)))[0], np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.asarray(U * np.geomspace(1.0, 1.0 / kappa, d) @ V.T), rng.standard_normal(n)


def norm(value: np.ndarray) -> float:
    return float(np.linalg.norm(value, 2))


problems = st.tuples(st.integers(1, 10), st.integers(0, 20), st.floats(1.0, 30.0), st.integers(0, 2**32 - 1))


@pytest.mark.parametrize("ridge", [0, 0.5])
def test_stored_least_squares_and_newton(ridge: float) -> None:
    stored = TRUTH[f"linreg_d2_n6_mu{ridge}"]
    np.testing.assert_allclose(least_squares(A, Y, ridge), stored["w"], rtol=0, atol=1e-12)
    assert least_squares(A, Y, ridge) @ A_TEST == pytest.approx(stored["yhat_exact"], abs=1e-12)
    for T in (0, 1, 2, 5, 10, 20):
        w = newton_least_squares(A, Y, T, stored["eps"], ridge=ridge)
        assert A_TEST @ w == pytest.approx(stored[f"yhat_T{T}"], abs=1e-12)
    for T in (0, 1, 2):
        expected = np.array(stored[f"X{T}"]) @ A.T @ Y
        np.testing.assert_allclose(
            newton_least_squares(A, Y, T, stored["eps"], ridge=ridge), expected, rtol=0, atol=1e-12
        )


def test_stored_gradient_descent() -> None:
    stored = TRUTH["gd_d2_n6"]
    for k in (1, 2, 10, 50):
        np.testing.assert_allclose(gradient_descent(A, Y, k, stored["eta"]), stored[f"w{k}"], rtol=0, atol=1e-12)


@given(case=problems, ridge=st.sampled_from([0.0, 1e-3, 2.0]))
@settings(deadline=None, max_examples=tries(60))
def test_least_squares_equals_scipy_and_sklearn(case: tuple[int, int, float, int], ridge: float) -> None:
    d, extra, kappa, seed = case
    data, y = problem(d, d + extra, kappa, seed)
    w = least_squares(data, y, ridge)
    if ridge == 0.0:
        expected = scipy.linalg.lstsq(data, y)[0]
    else:
        expected = Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(data, y).coef_
    np.testing.assert_allclose(w, expected, rtol=0, atol=1e-11 * kappa * norm(y))


@pytest.mark.parametrize("kappa", [1e6, 1e8, 1e11])
def test_small_singular_values_are_not_cut_off(kappa: float) -> None:
    data, _ = problem(5, 12, kappa, 1)
    w = np.linalg.svd(data)[2].sum(axis=0)
    assert norm(np.asarray(least_squares(data, data @ w)) - w) <= 100 * np.finfo(float).eps * kappa * norm(w)


def test_what_is_singular_to_roundoff_is_cut_off() -> None:
    """Sums of columns: the last singular value is roundoff, not zero, and its reciprocal would be all of the answer."""
    for seed in range(5):
        data, y = problem(4, 9, 3.0, seed)
        deficient = np.hstack([data, data @ np.array([[0.1], [0.7], [-1.3], [0.3]])])
        assert np.linalg.svd(deficient)[1][-1] > 0
        w = np.asarray(least_squares(deficient, y))
        np.testing.assert_allclose(w, scipy.linalg.lstsq(deficient, y)[0], rtol=0, atol=1e-12 * norm(y))


def test_rank_deficient_and_wide_data() -> None:
    data, y = problem(3, 8, 4.0, 0)
    deficient = np.hstack([data, data[:, :1]])
    np.testing.assert_allclose(
        least_squares(deficient, y), scipy.linalg.lstsq(deficient, y)[0], rtol=0, atol=1e-12 * norm(y)
    )
    step = 1.0 / norm(deficient) ** 4
    np.testing.assert_allclose(newton_least_squares(deficient, y, 14, step), least_squares(deficient, y), atol=1e-9)
    wide = Ridge(alpha=0.5, fit_intercept=False).fit(data.T, y[:3]).coef_  # n < d is allowed with a ridge
    np.testing.assert_allclose(least_squares(data.T, y[:3], 0.5), wide, rtol=0, atol=1e-12)
    np.testing.assert_allclose(newton_least_squares(data.T, y[:3], 20, 0.8, ridge=0.5), wide, rtol=0, atol=1e-12)


@given(
    case=problems,
    order=st.integers(2, 4),
    ridge=st.sampled_from([0.0, 0.1]),
    share=st.floats(0.1, 0.99),
    batch=st.lists(st.integers(1, 3), max_size=2),
    single=st.booleans(),
)
@settings(deadline=None, max_examples=tries(50))
def test_newton_converges_inside_the_stated_range(
    case: tuple[int, int, float, int], order: int, ridge: float, share: float, batch: list[int], single: bool
) -> None:
    d, extra, kappa, seed = case
    kappa = min(kappa, 4.0) if single else kappa
    count = int(np.prod(batch, dtype=int))
    pairs = [problem(d, d + extra, kappa, (seed + i) % 2**32) for i in range(count)]
    dtype = np.float32 if single else np.float64
    data = np.stack([p[0] for p in pairs]).reshape(*batch, d + extra, d).astype(dtype)
    y = np.stack([p[1] for p in pairs]).reshape(*batch, d + extra).astype(dtype)
    step = share * 2.0 / (1.0 + ridge) ** 2 / 1.001  # the largest singular value of the data is one
    w = np.asarray(newton_least_squares(data, y, 40, step, order, ridge))
    assert w.dtype == dtype
    expected = np.asarray(least_squares(data.astype(np.float64), y.astype(np.float64), ridge))
    bound = 100 * kappa**4 * float(np.finfo(dtype).eps) * norm(y.ravel())
    np.testing.assert_allclose(w, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("kappa", [1e2, 1e3, 1e4])
def test_newton_loses_the_condition_number_of_r_once(kappa: float, order: int) -> None:
    """Relative to w, in units of u kappa(R): X_T read from its other side would lose kappa(R) twice."""
    errors, steps = [], 2 + round(62 / np.log2(order))
    for seed in range(12):
        data, _ = problem(5, 12, kappa, seed)
        w = np.linalg.svd(data)[2].sum(axis=0)
        found = newton_least_squares(data, data @ w, steps, 0.99, order)
        errors.append(norm(found - w) / norm(w) / (np.finfo(float).eps * kappa**2))
    assert max(errors) <= 2


@given(case=problems, share=st.floats(0.05, 0.99), steps=st.integers(0, 30))
@settings(deadline=None, max_examples=tries(40))
def test_gradient_descent_is_its_closed_form(case: tuple[int, int, float, int], share: float, steps: int) -> None:
    d, extra, kappa, seed = case
    data, y = problem(d, d + extra, kappa, seed)
    rate, w0 = 2.0 * share / 1.001, np.arange(1.0, d + 1.0)
    exact = scipy.linalg.lstsq(data, y)[0]
    contraction = np.linalg.matrix_power(np.eye(d) - rate * data.T @ data, steps)
    w = gradient_descent(data, y, steps, rate, w0)
    np.testing.assert_allclose(w, exact + contraction @ (w0 - exact), rtol=0, atol=1e-11 * kappa * norm(y))


@pytest.mark.parametrize("order", [2, 3])
def test_newton_does_order_to_the_steps_gradient_steps(order: int) -> None:
    # From X0 = eps R the residual is I - eps R^2: gradient descent on ||R w - A^T y||^2 / 2.
    data, y = problem(4, 9, 3.0, 5)
    R = data.T @ data
    for T in range(4):
        newton = newton_least_squares(data, y, T, 1.2, order)
        gradient = gradient_descent(R, data.T @ y, order**T, 1.2)
        np.testing.assert_allclose(newton, gradient, rtol=0, atol=1e-12)


@given(case=problems, steps=st.integers(0, 12))
@settings(deadline=None, max_examples=tries(40))
def test_conjugate_gradients_are_those_of_scipy(case: tuple[int, int, float, int], steps: int) -> None:
    d, extra, kappa, seed = case
    data, y = problem(d, d + extra, kappa, seed)
    steps = min(steps, d, 5)  # beyond, roundoff tells forms of the method apart
    expected = cg(data.T @ data, data.T @ y, rtol=0.0, atol=0.0, maxiter=steps)[0] if steps else np.zeros(d)
    found = conjugate_gradients(data, y, steps)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * kappa**2 * norm(y))


def test_conjugate_gradients_are_the_best_polynomial_and_end_after_as_many_steps_as_eigenvalues() -> None:
    data, y = problem(6, 20, 10.0, 3)
    exact, gram = least_squares(data, y), data.T @ data
    for k in range(1, 7):
        krylov = np.stack([np.linalg.matrix_power(gram, i) @ data.T @ y for i in range(k)], axis=1)
        best = krylov @ np.linalg.lstsq(data @ krylov, data @ exact, rcond=None)[0]
        np.testing.assert_allclose(conjugate_gradients(data, y, k), best, rtol=0, atol=1e-7)
    np.testing.assert_allclose(conjugate_gradients(data, y, 6), exact, rtol=0, atol=1e-9)
    np.testing.assert_allclose(conjugate_gradients(data, y, 60), exact, rtol=0, atol=1e-9)  # and stay there
    assert not conjugate_gradients(data, np.zeros(20), 3).any()
    two = data @ np.linalg.svd(data)[2][:2].T  # two eigenvalues: two steps
    np.testing.assert_allclose(conjugate_gradients(two, y, 2), least_squares(two, y), rtol=0, atol=1e-12)


@given(case=problems, steps=st.integers(0, 25), low=st.floats(0.01, 0.5), width=st.floats(0.1, 2.0))
@settings(deadline=None, max_examples=tries(40))
def test_chebyshev_iteration_has_its_residual(
    case: tuple[int, int, float, int], steps: int, low: float, width: float
) -> None:
    d, extra, kappa, seed = case
    data, y = problem(d, d + extra, kappa, seed)
    values, vectors = np.linalg.eigh(data.T @ data)
    T, ends = chebyshev.Chebyshev.basis(steps), (low, low + width)
    residual = T((sum(ends) - 2 * values) / width) / T(sum(ends) / width)
    expected = vectors @ ((1 - residual) * (vectors.T @ scipy.linalg.lstsq(data, y)[0]))
    scale = max(1.0, float(np.abs(residual).max()))
    np.testing.assert_allclose(
        chebyshev_iteration(data, y, steps, np.array(ends)), expected, rtol=0, atol=1e-10 * scale * kappa * norm(y)
    )


def by_tokens(data: np.ndarray, y: np.ndarray, query: np.ndarray, rates: list[float], curvatures: list[float]) -> float:
    """GD++ as a layer of attention does it: every token's point and label are written anew, the query's as well."""
    x, labels, point, answer = data.copy(), y.copy(), query.copy(), 0.0
    for rate, curvature in zip(rates, [*curvatures, 0.0], strict=True):
        w = rate * x.T @ labels
        labels, answer = labels - x @ w, answer + point @ w
        gram = x.T @ x
        x, point = x - curvature * x @ gram, point - curvature * gram @ point
    return float(answer)


@given(
    case=problems,
    rates=st.lists(st.floats(-0.5, 3.0), min_size=1, max_size=4),
    bends=st.lists(st.floats(-0.4, 0.9), min_size=3),
)
@settings(deadline=None, max_examples=tries(40))
def test_gradient_descent_plus_plus_is_its_layers_and_its_residual(
    case: tuple[int, int, float, int], rates: list[float], bends: list[float]
) -> None:
    d, extra, kappa, seed = case
    data, y = problem(d, d + extra, kappa, seed)
    bends = bends[: len(rates) - 1]
    w, query = gradient_descent_plus_plus(data, y, rates, bends), np.cos(np.arange(d))
    assert query @ w == pytest.approx(by_tokens(data, y, query, rates, bends), abs=1e-9 * norm(y))
    values, vectors = np.linalg.eigh(data.T @ data)
    residual, moved = np.ones(d), values
    for rate, bend in zip(rates, [*bends, 0.0], strict=True):
        residual, moved = residual * (1 - rate * moved), moved * (1 - bend * moved) ** 2
    expected = vectors @ ((1 - residual) * (vectors.T @ scipy.linalg.lstsq(data, y)[0]))
    np.testing.assert_allclose(w, expected, rtol=0, atol=1e-9 * kappa * norm(y))


def test_gradient_descent_plus_plus_without_curvature_is_gradient_descent() -> None:
    data, y = problem(4, 9, 3.0, 5)
    found = gradient_descent_plus_plus(data, y, [0.7] * 5, [0.0] * 4)
    np.testing.assert_allclose(found, gradient_descent(data, y, 5, 0.7), rtol=0, atol=1e-13)
    assert not gradient_descent_plus_plus(data, y, [], []).any()


def test_batches_broadcast_and_match_one_by_one() -> None:
    pairs = [problem(3, 7, 5.0, seed) for seed in range(4)]
    data, ys = pairs[0][0], np.stack([y for _, y in pairs])
    for function in (
        least_squares,
        lambda A, y: newton_least_squares(A, y, 6, 1.0, 3, 0.1),
        lambda A, y: gradient_descent(A, y, 6, 1.0),
        lambda A, y: conjugate_gradients(A, y, 2),
        lambda A, y: chebyshev_iteration(A, y, 6, np.array([0.1, 1.0])),
        lambda A, y: gradient_descent_plus_plus(A, y, [0.5, 1.0], [0.2]),
    ):
        one_by_one = np.stack([function(data, y) for y in ys])
        np.testing.assert_allclose(function(data, ys), one_by_one, rtol=0, atol=1e-13)
        stacked = np.stack([A for A, _ in pairs])
        one_by_one = np.stack([function(A, y) for A, y in pairs])
        np.testing.assert_allclose(function(stacked, ys), one_by_one, rtol=0, atol=1e-13)


def test_tensors_in_tensors_out() -> None:
    data, y = torch.tensor(A), torch.tensor(Y)
    for function in (
        least_squares,
        lambda A, y: newton_least_squares(A, y, 2, 0.01),
        lambda A, y: gradient_descent(A, y, 2, 0.1),
        lambda A, y: conjugate_gradients(A, y, 1),
        lambda A, y: chebyshev_iteration(A, y, 2, np.array([0.1, 9.0])),
        lambda A, y: gradient_descent_plus_plus(A, y, [0.1], []),
    ):
        w = function(data, y)
        assert isinstance(w, torch.Tensor)
        np.testing.assert_array_equal(w, function(A, Y))


COMMON: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, r"A has n = 1 rows and d = 2 columns: must have n >= d", {"A": A[:1], "y": Y[:1]}),
    (ValueError, r"A has shape \(6,\): must be \(n, d\)", {"A": Y}),
    (ValueError, r"y has shape \(5,\): must be \(n = 6,\)", {"y": Y[:5]}),
    (ValueError, "A contains NaN or infinity", {"A": A * np.nan}),
    (ValueError, "y contains NaN or infinity", {"y": Y * np.inf}),
    (TypeError, "A has dtype complex128", {"A": A.astype(complex)}),
    (TypeError, "A has dtype bool", {"A": A > 0}),
    (TypeError, "y has dtype <U", {"y": Y.astype(str)}),
    (
        ValueError,
        r"batch axes do not agree: A \(2,\), y \(3,\)",
        {"A": np.stack([A] * 2), "y": np.stack([Y] * 3)},
    ),
]
RIDGE: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, "ridge = -0.1: must be a finite number and at least 0", {"ridge": -0.1}),
    (ValueError, "ridge = nan: must be a finite number", {"ridge": float("nan")}),
    (TypeError, "ridge = '1': must be a finite number", {"ridge": "1"}),
]
STEPS: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, "steps = -1: must be at least 0", {"steps": -1}),
    (TypeError, "steps = 1.5: must be an integer", {"steps": 1.5}),
]
TOP = float(np.linalg.eigvalsh(A.T @ A)[-1])
NEWTON: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, "step_size = 0: must be a finite number and above 0", {"step_size": 0}),
    (ValueError, r"step_size = .*: must lie in \(0, 2/lambda_max\^2\) = \(0, 0.1998\)", {"step_size": 2.001 / TOP**2}),
    (ValueError, r"step_size = .*: must lie in", {"step_size": 1.999 / TOP**2, "ridge": 0.1}),
    (ValueError, r"step_size = .*: must lie in", {"A": np.stack([A, 2 * A]), "step_size": 1.0 / TOP**2}),
    (ValueError, r"step_size = 0.1: must lie in \(0, 2/lambda_max\^2\) = \(0, 0\)", {"A": 1e100 * A, "step_size": 0.1}),
    (TypeError, "step_size = None: must be a finite number", {"step_size": None}),
    (ValueError, "order = 1: must be at least 2", {"order": 1}),
]
DESCENT: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, "learning_rate = -0.1: must be a finite number and above 0", {"learning_rate": -0.1}),
    (ValueError, r"learning_rate = .*: must lie in \(0, 2/lambda_max\) = \(0, 0.6", {"learning_rate": 2.001 / TOP}),
    (ValueError, r"w0 has shape \(3,\): must be \(d = 2,\)", {"w0": np.ones(3)}),
    (ValueError, "w0 contains NaN", {"w0": np.full(2, np.nan)}),
    (
        ValueError,
        r"batch axes do not agree: A \(2,\), y \(\), w0 \(3,\)",
        {"A": np.stack([A] * 2), "w0": np.ones((3, 2))},
    ),
]
CHEBYSHEV: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, r"interval = \[0.0, 1.0\]: must have 0 < low < high", {"interval": (0.0, 1.0)}),
    (ValueError, r"interval = \[1.0, 1.0\]: must have 0 < low < high", {"interval": (1.0, 1.0)}),
    (ValueError, r"interval has shape \(3,\): must be \(2,\)", {"interval": (1.0, 2.0, 3.0)}),
    (ValueError, "interval contains NaN", {"interval": (1.0, np.nan)}),
    (
        ValueError,
        r"batch axes do not agree: A \(2,\), y \(2,\), interval \(3,\)",
        {"A": np.stack([A] * 2), "interval": np.tile([0.1, 1.0], (3, 1))},
    ),
    (ValueError, "w .*: A and y must not differ so much in scale", {"A": 1e3 * A, "steps": 200}),
]
PLUS_PLUS: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, "curvatures has 2 entries: must have one less than learning_rates, 2", {"curvatures": [0.1, 0.1]}),
    (ValueError, r"learning_rates\[1\] = nan: must be a finite number", {"learning_rates": [0.1, float("nan")]}),
    (TypeError, r"curvatures\[0\] = 'x': must be a finite number", {"curvatures": ["x"]}),
]


@pytest.mark.parametrize(("error", "message", "change"), COMMON + STEPS)
def test_conjugate_gradients_refuse(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        conjugate_gradients(**({"A": A, "y": Y, "steps": 2} | change))


@pytest.mark.parametrize(("error", "message", "change"), COMMON + STEPS + CHEBYSHEV)
def test_chebyshev_iteration_refuses(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        chebyshev_iteration(**({"A": A, "y": Y, "steps": 2, "interval": (0.1, 9.0)} | change))


@pytest.mark.parametrize(("error", "message", "change"), COMMON + PLUS_PLUS)
def test_gradient_descent_plus_plus_refuses(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        gradient_descent_plus_plus(**({"A": A, "y": Y, "learning_rates": [0.1, 0.1], "curvatures": [0.1]} | change))


@pytest.mark.parametrize(("error", "message", "change"), COMMON + RIDGE)
def test_least_squares_refuses(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        least_squares(**({"A": A, "y": Y} | change))


@pytest.mark.parametrize(("error", "message", "change"), COMMON + RIDGE + STEPS + NEWTON)
def test_newton_refuses(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        newton_least_squares(**({"A": A, "y": Y, "steps": 2, "step_size": 0.01} | change))


@pytest.mark.parametrize(("error", "message", "change"), COMMON + STEPS + DESCENT)
def test_gradient_descent_refuses(error: type[Exception], message: str, change: dict[str, Any]) -> None:
    with pytest.raises(error, match="^" + message):
        gradient_descent(**({"A": A, "y": Y, "steps": 2, "learning_rate": 0.01} | change))


def test_just_inside_the_ranges_is_accepted_and_just_outside_diverges() -> None:
    exact = least_squares(A, Y)
    np.testing.assert_allclose(newton_least_squares(A, Y, 30, 1.98 / TOP**2), exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient_descent(A, Y, 5000, 1.98 / TOP), exact, rtol=0, atol=1e-12)
    residual = np.eye(2) - 2.02 / TOP**2 * np.linalg.matrix_power(A.T @ A, 2)
    assert np.linalg.norm(np.linalg.matrix_power(residual, 2**12), 2) > 1e6
