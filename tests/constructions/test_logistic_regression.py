"""thm:logistic as a transformer: promised error, shape, restored rows, named intermediates, refusals.

The direct step is written here in plain numpy; truth.json is independent of both.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tests.helpers.tries import later, tries
from tfnewton import Transformer
from tfnewton.constructions.logistic_regression import budget_for, damped_newton, largest_iterate, predict, scale_rows
from tfnewton.theory.error_budget import error_budget

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text())


def problem(d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    A = np.array([[math.sin((i + 1) * (j + 1) + j) for j in range(d)] for i in range(n)]) / math.sqrt(d)
    return A, np.sign(A @ np.cos(np.arange(d)))


def direct(A: np.ndarray, y: np.ndarray, mu: float, x: np.ndarray) -> dict[str, np.ndarray]:
    """One damped step and what it consists of; batch axes lead."""
    n, d = A.shape[-2:]
    p = expit(-y * (A @ x[..., None])[..., 0])
    D = p * (1.0 - p)
    gradient = -(A.mT @ (y * p)[..., None])[..., 0] / n + mu * x
    hessian = (A.mT * D[..., None, :]) @ A / n + mu * np.eye(d)
    direction = np.linalg.solve(hessian, gradient[..., None])[..., 0]
    decrement = np.sqrt((gradient * direction).sum(-1))
    eta = 2.0 * math.sqrt(mu) / (2.0 * math.sqrt(mu) + decrement)
    return {
        "D": D,
        "p": p,
        "gradient": gradient,
        "hessian": hessian,
        "inverse": np.linalg.inv(hessian),
        "direction": direction,
        "eta": eta,
        "x": x - eta[..., None] * direction,
    }


@settings(deadline=None, max_examples=tries(20))
@given(st.integers(1, 8), st.integers(0, 8), st.floats(-2, 1), st.floats(-3, -0.1), st.integers(1, 3))
def test_the_units_of_a_budget_are_those_of_its_layers(d: int, more: int, mu: float, error: float, steps: int) -> None:
    """The count that the tables of the book print is that of what is built, unit by unit."""
    budget = error_budget(d, 10.0**mu, 10.0**error, radius=largest_iterate(10.0**mu, 10.0**error))
    model = damped_newton(d, d + more, 10.0**mu, steps, 10.0**error)
    assert sum(layer.relu.width for layer in model.layers if layer.relu is not None) == steps * budget.relu_width()


@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("mu", [0.1, *later(0.01, 1)])
@pytest.mark.parametrize(("d", "n"), [(1, 4), (2, 6)])
def test_truth_within_the_requested_error(d: int, n: int, mu: float, error: float) -> None:
    A, y = problem(d, n)
    one, three = damped_newton(d, n, mu, 1, error), damped_newton(d, n, mu, 3, error)
    for start in ("zero", "cos"):
        truth = TRUTH[f"logistic_d{d}_n{n}_mu{mu}_x0{start}"]
        H = one.pack(A, y, truth["x0"])
        assert np.linalg.norm(one.unpack(one(H))["x"] - truth["x1"]) <= error
        assert np.linalg.norm(three.unpack(three(H))["x"] - truth["x3"]) <= 3 * error


def test_shape_of_the_theorem() -> None:
    d, n, k = 3, 7, 5
    one, four = (damped_newton(d, n, 0.1, steps, inversion_steps=k) for steps in (1, 4))
    assert (one.depth, four.depth) == (11 + 2 * k, 4 * (11 + 2 * k))
    assert (one.heads, one.width) == (3, 6 * d + 4)
    widest = max(layer.relu.width for layer in one.layers if layer.relu is not None)
    assert one.relu_width == four.relu_width == widest
    assert (
        len({id(layer) for layer in four.layers}) == 11 + 2
    )  # every step, and every inversion step, reuses its layers
    assert damped_newton(d, n, 0.1, 0).depth == 0
    assert damped_newton(d, n, 0.1, inversion_steps=k).depth == one.depth


def random_problems(rng: np.random.Generator, batch: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in the unit ball, some of them on its surface, repeated or zero; labels separable or not."""
    A = rng.standard_normal((batch, n, d))
    A *= rng.uniform(0.0, 1.0, (batch, n, 1)) ** rng.choice([0.0, 0.3, 3.0], (batch, 1, 1)) / np.linalg.norm(
        A, axis=-1, keepdims=True
    )
    A[::5, n // 2 :] = A[::5, :1]
    A[1::7, 0] = 0.0
    y = np.sign(
        (A @ rng.standard_normal((batch, d, 1)))[..., 0]
        + rng.choice([0.0, 1.0], (batch, 1)) * rng.normal(size=(batch, n))
    )
    y[y == 0] = 1.0
    y[2::9] = 1.0
    return A, y


@pytest.mark.parametrize("seed", [*range(5), *later(*range(5, 20))])
def test_never_worse_than_requested(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, error, mu = int(rng.integers(1, 9)), 10 ** rng.uniform(-4, -1), 10 ** rng.uniform(-2, 0.5)
    n = int(rng.integers(d, 61))
    A, y = random_problems(rng, 25, n, d)
    x0 = rng.standard_normal((25, d))
    x0 *= (
        math.sqrt(2 * math.log(2) / mu)
        * rng.choice([0.0, 0.5, 1.0], (25, 1))
        / np.linalg.norm(x0, axis=-1, keepdims=True)
    )
    model = damped_newton(d, n, mu, 1, error)
    H = model.pack(A, y, x0)
    out = model(H)
    assert np.linalg.norm(model.unpack(out)["x"] - direct(A, y, mu, x0)["x"], axis=-1).max() <= error
    others = np.r_[: 5 * d, 6 * d : 6 * d + 4]
    np.testing.assert_allclose(out[:, others], H[:, others], atol=1e-13)


def test_eight_steps_stay_with_the_exact_trajectory() -> None:
    rng = np.random.default_rng(3)
    A, y = random_problems(rng, 20, 26, 5)
    error, mu = 1e-3, 0.1
    model = damped_newton(5, 26, mu, 8, error)
    x = np.zeros((20, 5))
    for _ in range(8):
        x = direct(A, y, mu, x)["x"]
    out = model(model.pack(A, y))
    assert np.linalg.norm(model.unpack(out)["x"] - x, axis=-1).max() <= 8 * error


def longer(v: np.ndarray, size: float) -> np.ndarray:
    return np.asarray(size * v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300))


@settings(deadline=None, max_examples=tries(60))
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(-2.5, 1.5), st.floats(-4, 0.29), st.integers(0, 3))
def test_iterates_do_not_leave_the_ball_where_the_step_is_approximated(
    seed: int, d: int, decades: float, digits: float, kind: int
) -> None:
    """Errors of the whole size, outward, up the loss, away from where the last step came from, or anywhere."""
    rng = np.random.default_rng(seed)
    mu, error = 10.0**decades, 10.0**digits
    A, y = random_problems(rng, 40, d + seed % 12, d)
    x = longer(rng.standard_normal((40, d)), math.sqrt(2 * math.log(2) / mu)) * rng.choice([0.0, 1.0], (40, 1))
    radius = largest_iterate(mu, error)
    for _ in range(25):
        landed = direct(A, y, mu, x)["x"]
        ways = landed, direct(A, y, mu, landed)["gradient"], landed - x, rng.standard_normal((40, d))
        x = landed + longer(ways[kind], error)
        assert np.linalg.norm(x, axis=-1).max() <= radius * (1 + 1e-12)


def test_iterates_leave_the_ball_of_the_starts() -> None:
    """Without data, mu = 1000: errors push x beyond C, to within a percent of where the step is approximated."""
    mu, error, x = 1e3, 0.5, np.zeros((1, 1))
    for _ in range(20):
        x = direct(np.zeros((1, 1, 1)), np.ones((1, 1)), mu, x)["x"] + error
    assert math.sqrt(2 * math.log(2) / mu) < x[0, 0] < largest_iterate(mu, error) < 1.01 * x[0, 0]


@pytest.mark.parametrize(("mu", "error"), [(0.1, 1e-3), (0.1, 0.3), *later((10.0, 0.5), (0.01, 0.1), (1.0, 1e-2))])
def test_the_promise_holds_in_the_whole_ball(mu: float, error: float) -> None:
    """Every x from the start to the end of the ball, on the wrong side of the points and on the right one."""
    d, n = 2, 7
    A, y = random_problems(np.random.default_rng(1), 30, n, d)
    model = damped_newton(d, n, mu, 1, error)
    part = np.linspace(-1.0, 1.0, 30)[:, None]
    x = part * longer(A[:, 1] + 1e-9, largest_iterate(mu, error)) * y[:, 1:2]
    H = np.array(model.pack(A, y))
    H[:, 5 * d : 6 * d] = x[..., None]  # pack takes no x0 as long as this
    assert np.linalg.norm(model.unpack(model(H))["x"] - direct(A, y, mu, x)["x"], axis=-1).max() <= error


def test_trace_names_what_the_step_consists_of() -> None:
    d, n, mu, error = 3, 12, 0.1, 1e-4
    rng = np.random.default_rng(5)
    A, y = (array[0] for array in random_problems(rng, 1, n, d))
    x = 0.3 * rng.standard_normal(d)
    model = damped_newton(d, n, mu, 1, error)
    frames, exact = model.trace(model.pack(A, y, x)), direct(A, y, mu, x)

    def block(name: str, *labels: str) -> np.ndarray:
        frame = [f for f in frames if f.label in labels][-1]
        assert name in frame.written
        return np.asarray(frame.blocks[name])

    np.testing.assert_allclose(block("s", "s <- d(A x)")[0], exact["D"], atol=1e-3)
    np.testing.assert_allclose(block("B", "B <- A^T D A / n + mu I, X <- alpha B")[:, :d], exact["hessian"], atol=1e-3)
    # the inversion starts from alpha B^T, with the alpha that serves every B with singular values in [mu, 1/4 + mu]
    alpha, B = 2 / ((0.25 + mu) ** 2 + mu**2), block("B", "B <- A^T D A / n + mu I, X <- alpha B")[:, :d]
    np.testing.assert_allclose(block("X", "B <- A^T D A / n + mu I, X <- alpha B")[:, :d], alpha * B, rtol=1e-3)
    np.testing.assert_allclose(block("X", "X <- alpha B^T")[:, :d], alpha * B.T, rtol=1e-3)
    scaled = block("X", "X <- alpha B^T")[:, :d] / block("X", "B <- A^T D A / n + mu I, X <- alpha B")[:, :d].T
    np.testing.assert_allclose(scaled, 1.0, rtol=1e-12)  # transposed, where the products have made B asymmetric
    np.testing.assert_allclose(block("X", "X <- 2X - X S, S <- 0")[:, :d], exact["inverse"], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(block("s", "s <- p")[0], exact["p"], atol=1e-3)
    np.testing.assert_allclose(block("s", "s <- y p / n")[0], y * exact["p"] / n, atol=1e-4)
    np.testing.assert_allclose(block("B", "B <- gradient")[:, 0], exact["gradient"], atol=1e-4)
    np.testing.assert_allclose(block("X", "X <- X gradient")[:, 0], exact["direction"], atol=1e-3)
    np.testing.assert_allclose(block("s", "s <- eta(gradient^T X)")[0, 0], exact["eta"], atol=1e-3)
    np.testing.assert_allclose(block("s", "s <- eta X^T")[0, :d], exact["eta"] * exact["direction"], atol=1e-3)
    assert [f.label for f in frames][-1].startswith("x <-")


def worst_error(d: int, n: int, mu: float, width: int, scheme: str) -> float:
    A, y = random_problems(np.random.default_rng(0), 100, n, d)
    model = damped_newton(d, n, mu, relu_width=width, scheme=scheme)
    assert model.relu_width <= width
    x = model.unpack(model(model.pack(A, y)))["x"]
    return float(np.linalg.norm(x - direct(A, y, mu, np.zeros((100, d)))["x"], axis=-1).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "slope", "widths"), [("curvature", -2.0, [100, 1000, 5000]), ("staircase", -1.0, [800, 8000])]
)
def test_error_against_width(scheme: str, slope: float, widths: list[int]) -> None:
    errors = [worst_error(2, 20, 0.1, width, scheme) for width in widths]
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] == pytest.approx(slope, abs=0.15)


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    A, y = problem(2, 6)
    model = damped_newton(2, 6, 0.1, 2, 1e-2)
    model.save(tmp_path / "step.safetensors")
    loaded = Transformer.load(tmp_path / "step.safetensors")
    H = loaded.pack(A, y)
    assert loaded.depth == model.depth
    np.testing.assert_array_equal(loaded(H), model(model.pack(A, y)))


def test_tensors_in_tensors_out() -> None:
    A, y = problem(2, 6)
    model = damped_newton(2, 6, 0.1)
    x = model.unpack(model(model.pack(torch.tensor(A), torch.tensor(y))))["x"]
    assert isinstance(x, torch.Tensor)
    np.testing.assert_array_equal(x.numpy(), model.unpack(model(model.pack(A, y)))["x"])


def test_predict_is_the_logistic_function() -> None:
    rng = np.random.default_rng(0)
    x, points = rng.standard_normal((4, 3)), rng.standard_normal((4, 7, 3))
    np.testing.assert_allclose(predict(x, points), expit((points @ x[..., None])[..., 0]), rtol=1e-14)


def test_scale_rows() -> None:
    A = np.array([[3.0, 4.0], [0.0, 1.0]])
    scaled, divisor = scale_rows(A)
    assert divisor == 5.0
    np.testing.assert_array_equal(scaled, A / 5.0)
    assert scale_rows(A / 10)[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mu": 0.0}, "mu = 0"),
        ({"mu": -1.0}, "mu = -1"),
        ({"mu": math.nan}, "mu = nan"),
        ({"error": 0.0}, "error = 0"),
        ({"d": 0}, "d = 0"),
        ({"n": 2}, "n = 2: must be at least d = 3"),
        ({"steps": -1}, "steps = -1"),
        ({"inversion_steps": -1}, "inversion_steps = -1"),
        ({"relu_width": 3}, "relu_width = 3: must be at least"),
        ({"scheme": "spline"}, "scheme = 'spline'"),
    ],
)
def test_refused_when_built(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        damped_newton(**{"d": 3, "n": 6, "mu": 0.1, **arguments})


def test_refused_when_packed() -> None:
    A, y = problem(2, 6)
    model = damped_newton(2, 6, 0.1)
    with pytest.raises(ValueError, match=r"y\[2\] = 0: must be one of -1, 1"):
        model.pack(A, np.where(np.arange(6) == 2, 0.0, y))
    long = A.copy()
    long[4] = [3.0, 4.0]
    with pytest.raises(ValueError, match="A has norm 5 in row 4, at most 1 is allowed: divide A by 5"):
        model.pack(long, y)
    with pytest.raises(ValueError, match=r"x0 has norm 4, at most 3\.723"):
        model.pack(A, y, [0.0, 4.0])
    with pytest.raises(ValueError, match="A has shape"):
        model.pack(A[:5], y[:5])
    with pytest.raises(ValueError, match="A contains NaN"):
        model.pack(np.full_like(A, np.nan), y)


@pytest.mark.slow
def test_budget_for_uses_the_width() -> None:
    budget = budget_for(2, 0.1, 100)
    assert damped_newton(2, 6, 0.1, error=budget.error).relu_width <= 100
    assert damped_newton(2, 6, 0.1, error=budget.error / 1.3).relu_width > 100
