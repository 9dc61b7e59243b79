"""Damped Newton's method against recorded values, mpmath, scipy and scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, log_expit

from tests.helpers.tries import tries
from tfnewton.algorithms import logistic_regression as lr

TRUTH: dict[str, dict[str, Any]] = {
    name: entry
    for name, entry in json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text()).items()
    if name.startswith("logistic_")
}


def truth_problem(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    d, n, mu = (part.lstrip("dnmu") for part in name.split("_")[1:4])
    i, j = np.arange(int(n))[:, None], np.arange(int(d))[None, :]
    A = np.sin((i + 1) * (j + 1) + j) / np.sqrt(int(d))
    entry = TRUTH[name]
    return np.array(entry["x0"], float), A, np.array(entry["y"], float), float(mu)


def random_problem(seed: int, n: int, d: int, batch: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(*batch, n, d))
    A /= np.maximum(1, np.linalg.norm(A, axis=-1, keepdims=True))
    return A, rng.choice([-1.0, 1.0], size=(*batch, n))


def reference_loss(x: np.ndarray, A: np.ndarray, y: np.ndarray, mu: float) -> float:
    return float(-log_expit(y * (A @ x)).mean() + mu / 2 * x @ x)


def reference_gradient(x: np.ndarray, A: np.ndarray, y: np.ndarray, mu: float) -> np.ndarray:
    return np.asarray(mu * x - A.T @ (y * expit(-y * (A @ x))) / len(y))


@pytest.mark.parametrize("name", TRUTH)
def test_recorded_values(name: str) -> None:
    x0, A, y, mu = truth_problem(name)
    entry = TRUTH[name]
    gradient, hessian = lr.gradient(x0, A, y, mu), lr.hessian(x0, A, y, mu)
    found = {
        "f": lr.loss(x0, A, y, mu),
        "grad": gradient,
        "hess": hessian,
        "direction": np.linalg.solve(hessian, gradient),
        "lam": lr.newton_decrement(x0, A, y, mu),
        "minimizer": lr.minimize(A, y, mu),
        "f_min": lr.loss(lr.minimize(A, y, mu, x0), A, y, mu),
    }
    iterates = lr.damped_newton(A, y, mu, 8, x0)
    found |= {f"x{t}": iterates[t] for t in (1, 2, 3, 5, 8)}
    for key, value in found.items():
        expected = np.reshape(entry[key], np.shape(value))  # a 1 by 1 Hessian is recorded flat
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-12, err_msg=f"{name} {key}")


@pytest.mark.parametrize("margin", [0.0, 1e-8, 1.0, 30.0, 700.0, 1e4, -1.0, -30.0, -700.0, -1e4])
def test_stable_at_any_margin(margin: float) -> None:
    A, y, x, mu = np.array([[0.5]]), np.array([-1.0]), np.array([-2 * margin]), 1e-3
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(margin))
        value = mpmath.log1p(mpmath.exp(-margin)) + mpmath.mpf(mu) / 2 * (2 * margin) ** 2
        slope = mpmath.mpf("0.5") * p + mpmath.mpf(mu) * (-2 * margin)
        curvature = mpmath.mpf("0.25") * p * (1 - p) + mpmath.mpf(mu)
        decrement = abs(slope) / mpmath.sqrt(curvature)
    assert lr.loss(x, A, y, mu) == pytest.approx(float(value), rel=1e-14)
    assert lr.gradient(x, A, y, mu)[0] == pytest.approx(float(slope), rel=1e-13)
    assert lr.hessian(x, A, y, mu)[0, 0] == pytest.approx(float(curvature), rel=1e-14)
    assert lr.newton_decrement(x, A, y, mu) == pytest.approx(float(decrement), rel=1e-13)


def test_small_loss_keeps_its_digits() -> None:
    # ln(1 + e^-40) rounds to zero when the logarithm is taken of a rounded 1 + e^-40.
    assert lr.loss(np.zeros(1), np.ones((1, 1)), np.ones(1), 0.5) == pytest.approx(np.log(2), rel=1e-15)
    value = lr.loss(np.array([40.0]), np.ones((1, 1)), np.ones(1), 1e-40)
    assert value == pytest.approx(float(mpmath.log1p(mpmath.exp(-40))), rel=1e-14)


@settings(deadline=None, max_examples=tries(40))
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    d=st.integers(1, 8),
    mu=st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 10.0]),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
)
def test_derivatives_agree_with_differences_and_scipy(seed: int, n: int, d: int, mu: float, scale: float) -> None:
    A, y = random_problem(seed, n, d)
    x = scale * np.random.default_rng(seed + 1).normal(size=d)
    assert lr.loss(x, A, y, mu) == pytest.approx(reference_loss(x, A, y, mu), rel=1e-13)
    np.testing.assert_allclose(
        lr.gradient(x, A, y, mu), reference_gradient(x, A, y, mu), rtol=1e-11, atol=1e-13 * (1 + mu * scale)
    )
    h = 1e-5
    shifted = np.array([reference_gradient(x + s * h * e, A, y, mu) for e in np.eye(d) for s in (1, -1)])
    differences = (shifted[0::2] - shifted[1::2]) / (2 * h)
    np.testing.assert_allclose(lr.hessian(x, A, y, mu), differences, atol=1e-8 * (1 + mu * scale))


@settings(deadline=None, max_examples=tries(25))
@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), d=st.integers(1, 6), mu=st.sampled_from([1e-3, 0.1, 2.0]))
def test_one_step_is_the_formula_of_the_paper(seed: int, n: int, d: int, mu: float) -> None:
    A, y = random_problem(seed, n, d)
    rng = np.random.default_rng(seed)
    x0, error = 3 * rng.normal(size=d), rng.normal(size=(1, d))
    p = expit(-y * (A @ x0))
    H = (A.T * (p * (1 - p))) @ A / n + mu * np.eye(d)
    direction = np.linalg.solve(H, reference_gradient(x0, A, y, mu))
    decrement = np.sqrt(direction @ H @ direction)
    sharp = 1 / (3 * np.sqrt(3 * mu) * (1 + 4 * mu))
    factors = {
        "paper": 2 * np.sqrt(mu) / (2 * np.sqrt(mu) + decrement),
        "sharp": 1 / (1 + sharp * decrement),
        "full": 1,
    }
    for damping, factor in factors.items():
        step = lr.damped_newton(A, y, mu, 1, x0, damping=damping, errors=error)
        np.testing.assert_allclose(step[0], x0, atol=0)
        np.testing.assert_allclose(step[1], x0 - factor * direction + error[0], rtol=1e-9, atol=1e-10)


def test_every_step_has_its_own_error() -> None:
    """Three steps at once are three single steps, each with the error of its turn; in a batch each its own."""
    A, y = random_problem(5, 9, 3)
    errors = np.random.default_rng(5).normal(size=(2, 3, 3))
    whole = np.asarray(lr.damped_newton(A, y, 0.1, 3, np.ones(3), errors=errors))
    for batch in range(2):
        x = np.ones(3)
        for t in range(3):
            x = np.asarray(lr.damped_newton(A, y, 0.1, 1, x))[1] + errors[batch, t]
            np.testing.assert_allclose(whole[batch, t + 1], x, rtol=1e-12)


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("mu", [1e-3, 0.05, 1.0])
def test_minimizer_agrees_with_scipy_and_sklearn(separable: bool, mu: float) -> None:
    from sklearn.linear_model import LogisticRegression

    A, y = random_problem(3, 60, 4)
    y = np.where(A @ np.arange(1, 5) > 0, 1.0, -1.0) if separable else y
    x = np.asarray(lr.minimize(A, y, mu))
    np.testing.assert_allclose(reference_gradient(x, A, y, mu), 0, atol=1e-15)
    scipy_x = optimize.minimize(
        reference_loss, np.zeros(4), args=(A, y, mu), jac=reference_gradient, method="BFGS", options={"gtol": 1e-9}
    ).x
    np.testing.assert_allclose(x, scipy_x, atol=1e-7 / mu)
    model = LogisticRegression(C=1 / (60 * mu), fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    np.testing.assert_allclose(x, model.fit(A, y).coef_[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("mu", [1e-8, 1e-3, 10.0])
def test_minimizer_to_machine_precision_at_any_scale(scale: float, mu: float) -> None:
    A, y = random_problem(5, 30, 3, batch=(20,))
    A, x0 = scale * A, 50 * np.random.default_rng(0).normal(size=(20, 3))
    x = lr.minimize(A, y, mu, x0)
    gradients = np.array([reference_gradient(*problem, mu) for problem in zip(x, A, y, strict=True)])
    rounding = 1e-15 * scale * (1 + scale * np.abs(x).max() / 4)  # of the margins, through the sigmoid
    assert np.abs(gradients).max() <= rounding


def test_every_damping_but_none_reaches_the_minimizer() -> None:
    A, y = random_problem(7, 25, 5, batch=(50,))
    x = lr.minimize(A, y, 0.01)
    steps = {"paper": 80, "sharp": 40}
    for damping, count in steps.items():
        last = lr.damped_newton(A, y, 0.01, count, damping=damping)[:, -1]
        np.testing.assert_allclose(last, x, atol=1e-11)


def test_pure_newton_cycles() -> None:
    A, y = np.array([[1.0], [0.01]]), np.array([1.0, -1.0])
    iterates = lr.damped_newton(A, y, 1e-4, 6, np.array([-50.0]), damping="full")[:, 0]
    np.testing.assert_allclose(iterates[0::2], -50, atol=1e-6)
    np.testing.assert_allclose(iterates[1::2], 4452.116, atol=1e-3)
    assert lr.damped_newton(A, y, 1e-4, 400, np.array([-50.0]))[-1] == pytest.approx(lr.minimize(A, y, 1e-4), rel=1e-10)


def test_batches_equal_single_calls_and_broadcast() -> None:
    A, y = random_problem(11, 9, 3, batch=(2, 4))
    x0 = np.random.default_rng(1).normal(size=(4, 3))
    errors = 1e-2 * np.random.default_rng(2).normal(size=(2, 1, 5, 3))
    whole = lr.damped_newton(A, y, 0.1, 5, x0, errors=errors)
    assert whole.shape == (2, 4, 6, 3)
    for i, j in np.ndindex(2, 4):
        one = lr.damped_newton(A[i, j], y[i, j], 0.1, 5, x0[j], errors=errors[i, 0])
        np.testing.assert_allclose(whole[i, j], one, rtol=1e-12, atol=1e-14)
    points = np.random.default_rng(3).normal(size=(7, 3))
    values = lr.loss(points, A[0, 0], y[0, 0], 0.1)
    np.testing.assert_allclose(values, [reference_loss(x, A[0, 0], y[0, 0], 0.1) for x in points], rtol=1e-13)
    assert lr.hessian(points, A[0, 0], y[0, 0], 0.1).shape == (7, 3, 3)
    assert lr.minimize(A, y, 0.1).shape == (2, 4, 3)


def test_types_follow_the_input() -> None:
    A, y = random_problem(13, 8, 2)
    assert lr.damped_newton(A, y.astype(int), 0.1, 3).dtype == np.float64
    A32, y32 = torch.tensor(A, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    iterates, minimizer = lr.damped_newton(A32, y32, 0.1, 3), lr.minimize(A32, y32, 0.1)
    assert isinstance(iterates, torch.Tensor)
    assert iterates.dtype == torch.float32
    np.testing.assert_allclose(iterates.numpy(), lr.damped_newton(A, y, 0.1, 3), atol=1e-5)
    np.testing.assert_allclose(np.asarray(minimizer), lr.minimize(A, y, 0.1), atol=1e-5)


def test_no_steps_returns_the_start() -> None:
    A, y = random_problem(17, 4, 2)
    np.testing.assert_array_equal(lr.damped_newton(A, y, 0.1, 0), np.zeros((1, 2)))


def test_inputs_are_not_changed() -> None:
    A, y = random_problem(19, 4, 2)
    x0, copies = np.ones(2), (A.copy(), y.copy())
    lr.damped_newton(A, y, 0.1, 3, x0, errors=np.ones((3, 2)))
    lr.minimize(A, y, 0.1, x0)
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(y, copies[1])
    np.testing.assert_array_equal(x0, np.ones(2))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mu": 0.0}, ValueError, "mu = 0.0: must be a finite number and above 0"),
        ({"mu": "0.1"}, TypeError, "mu = '0.1'"),
        ({"y": np.array([0.0, 1.0, 1.0])}, ValueError, "y has the label 0: every label must be -1 or 1"),
        ({"y": np.ones(2)}, ValueError, r"y has shape \(2,\): must be \(n = 3,\)"),
        ({"A": np.ones(3)}, ValueError, r"A has shape \(3,\)"),
        ({"A": np.full((3, 2), np.nan)}, ValueError, "A contains NaN or infinity"),
        ({"A": [["a", "b"]]}, TypeError, "A has dtype"),
        ({"x0": np.ones(3)}, ValueError, r"x0 has shape \(3,\): must be \(d = 2,\)"),
        ({"x0": np.ones((4, 2)), "A": np.ones((5, 3, 2))}, ValueError, r"batch axes do not agree: A \(5,\)"),
        ({"steps": -1}, ValueError, "steps = -1: must be at least 0"),
        ({"steps": 2.0}, TypeError, "steps = 2.0: must be an integer"),
        ({"damping": "none"}, ValueError, "damping = 'none': must be one of 'paper', 'sharp', 'full'"),
        ({"errors": np.ones((3, 2))}, ValueError, r"errors has shape \(3, 2\): must be \(2, d = 2\)"),
    ],
)
def test_refusals_name_the_parameter(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"A": np.ones((3, 2)), "y": np.ones(3), "mu": 0.1, "steps": 2} | change
    with pytest.raises(error, match=message):
        lr.damped_newton(**arguments)


def test_minimize_tells_when_the_steps_do_not_suffice() -> None:
    A, y = random_problem(23, 10, 2)
    with pytest.raises(RuntimeError, match="max_steps = 2"):
        lr.minimize(A, y, 1e-3, max_steps=2)
