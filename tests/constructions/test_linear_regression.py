"""thm:main_linear and the gradient-descent baseline: their sizes, their format, and what they predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from tests.helpers.linear_problems import TRUTH, matrix, norm, truth_regression
from tests.helpers.linear_problems import gradient_descent as plain_descent
from tests.helpers.linear_problems import newton_schulz as plain_newton
from tests.helpers.tries import tries
from tfnewton import Transformer
from tfnewton.algorithms import linear_regression as algorithms
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.model.layers import attention

EPS, EPS32 = np.finfo(np.float64).eps, np.finfo(np.float32).eps


def predict(model: Transformer, *inputs: Any) -> Any:
    return model.unpack(model(model.pack(*inputs)))["y_hat"]


def descend(model: Transformer, *inputs: Any) -> Any:
    return model.unpack(model(model.pack(*inputs)))["w"]


class Problem(NamedTuple):
    A: np.ndarray
    y: np.ndarray
    a: np.ndarray
    ridge: float
    step_size: float
    R: np.ndarray

    @property
    def kappa(self) -> float:
        """Condition number of R, kappa(A)^2 when there is no ridge."""
        return float(np.linalg.cond(self.R))

    def iterate(self, steps: int) -> np.ndarray:
        return plain_newton(self.R, self.step_size * self.R, steps)


def problem(d: int, n: int, log_kappa: float, seed: int, ridge: bool = False) -> Problem:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-2, 2)
    A = matrix(d, 10.0**log_kappa, rng, scale, n)
    mu = scale**2 * 10.0 ** rng.uniform(-4, 0) if ridge else 0.0
    R = A.T @ A + mu * np.eye(d)
    step = rng.uniform(0.1, 1.9) / norm(R) ** 2
    return Problem(A, rng.standard_normal(n), rng.standard_normal(d), mu, step, R)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """d, n, steps, seed."""
    d = draw(st.integers(1, 32))
    return d, draw(st.integers(d, 4 * d)), draw(st.integers(0, 25)), draw(st.integers(0, 2**32 - 1))


@pytest.mark.parametrize("ridge", [0, 0.5])
def test_stored_predictions(ridge: float) -> None:
    A, y, a = truth_regression()
    stored = TRUTH[f"linreg_d2_n6_mu{ridge}"]
    for steps in (0, 1, 2, 5, 10, 20):
        model = least_squares(2, steps, stored["eps"], ridge)
        assert predict(model, A, y, a) == pytest.approx(stored[f"yhat_T{steps}"], abs=1e-11)
    assert predict(model, A, y, a) == pytest.approx(stored["yhat_exact"], abs=1e-11)
    frames = model.trace(model.pack(A, y, a))
    np.testing.assert_allclose(frames[1].blocks["R"][:, :2], stored["R"], rtol=0, atol=1e-11)
    for steps in (0, 1, 2):
        np.testing.assert_allclose(frames[1 + steps].blocks["X"][:, :2], stored[f"X{steps}"], rtol=0, atol=1e-11)


def test_stored_gradient_descent() -> None:
    A, y, _ = truth_regression()
    stored = TRUTH["gd_d2_n6"]
    for steps in (1, 2, 10, 50):
        w = descend(gradient_descent(2, steps, stored["eta"]), A, y)
        np.testing.assert_allclose(w, stored[f"w{steps}"], rtol=0, atol=1e-11)


@given(cases(), st.floats(0, 2), st.booleans())
@settings(deadline=None, max_examples=tries(60))
def test_equals_the_plain_iteration(case: tuple[int, int, int, int], log_kappa: float, ridge: bool) -> None:
    """To 1e-10, relative to ||a_test|| ||w_T|| and to ||X_T||, for kappa(A) up to a hundred."""
    d, n, steps, seed = case
    p = problem(d, n, log_kappa, seed, ridge)
    X = p.iterate(steps)
    w = X @ (p.A.T @ p.y)
    model = least_squares(d, steps, p.step_size, p.ridge)
    H = model.pack(p.A, p.y, p.a)
    X_T = np.asarray(model.trace(H)[1 + steps].blocks["X"])
    assert norm(X_T[:, :d] - X) <= 1e-10 * norm(X)
    assert not np.any(X_T[:, d:])
    assert abs(model.unpack(model(H))["y_hat"] - p.a @ w) <= 1e-10 * norm(p.a) * norm(w)


@given(cases(), st.floats(0, 5), st.booleans())
@settings(deadline=None, max_examples=tries(80))
def test_roundoff_grows_with_the_condition_number(
    case: tuple[int, int, int, int], log_kappa: float, ridge: bool
) -> None:
    """Within 20 kappa(R) times machine precision, kappa(R) = kappa(A)^2, of the plain iteration."""
    d, n, steps, seed = case
    p = problem(d, n, log_kappa, seed, ridge)
    X = p.iterate(steps)
    model = least_squares(d, steps, p.step_size, p.ridge)
    H = model.pack(p.A, p.y, p.a)
    X_T = np.asarray(model.trace(H)[1 + steps].blocks["X"])[:, :d]
    assert norm(X_T - X) <= 20 * p.kappa * EPS * norm(X)
    error = abs(model.unpack(model(H))["y_hat"] - p.a @ X @ (p.A.T @ p.y))
    assert error <= 20 * p.kappa * EPS * norm(p.a) * norm(X) * norm(p.A.T @ p.y)


def reads_from_the_right(model: Transformer) -> Transformer:
    """The layers of the proof, which form y^T A X_T; what the first layer has put into out is taken away."""
    *first, _, last = model.layers
    X, _, I, A_T, _, y, out = model.layout.blocks  # noqa: E741
    weigh = attention(model.layout, out.add(-out @ I.T @ I), out.add(y @ A_T.T @ X))
    return Transformer(model.layout, [*first, weigh, last], model.packing)


def from_the_identity(model: Transformer, scale: float) -> Transformer:
    """X_0 = scale I in place of step_size R."""
    X, R, I, A_T, _, y, out = model.layout.blocks  # noqa: E741
    start = X.add((-I + scale * I) @ I.T @ I), R.add(-I @ I.T @ I), R.add(A_T @ A_T.T @ I), out.add(y @ A_T.T @ I)
    return Transformer(model.layout, [attention(model.layout, *start), *model.layers[1:]], model.packing)


def weights_of(model: Transformer, p: Problem) -> np.ndarray:
    without_the_last = Transformer(model.layout, list(model.layers)[:-1])
    return np.asarray(without_the_last(model.pack(p.A, p.y, p.a)))[-1, : p.A.shape[1]]


@pytest.mark.parametrize("n", [4, 5, 8])
@pytest.mark.parametrize("log_kappa", [4, 6])
def test_roundoff_is_lost_where_the_iterate_is_read_from_the_right(n: int, log_kappa: int) -> None:
    """Relative to w, in units of u kappa(R): below one from the left; kappa(R)/1000 from the right, from either start.

    For every n, in the dense weights too: n < 4d/3 is where heads that share values are summed in the other order.
    """
    unit, steps, errors = EPS * 10.0**log_kappa, 8 * log_kappa, []
    for seed in range(8):
        A = matrix(4, 10.0 ** (log_kappa / 2), np.random.default_rng(seed), 1.0, n)
        w = np.linalg.svd(A)[2].sum(axis=0)  # equal parts along all eigenvectors
        p = Problem(A, A @ w, np.ones(4), 0.0, 0.999 / norm(A) ** 4, A.T @ A)
        model = least_squares(4, steps, p.step_size)
        better = from_the_identity(model, 0.999 / norm(A) ** 2)
        left = [weights_of(kind, p) for kind in (model, model.dense(), better)]
        right = [weights_of(reads_from_the_right(kind), p) for kind in (model, better)]
        errors.append([norm(found - w) / norm(w) / unit for found in (*left, *right)])
    assert np.max(errors, axis=0)[:3].max() <= 2
    assert np.median(errors, axis=0)[3:].min() >= 10.0**log_kappa / 3000


def test_the_good_side_is_that_of_the_product() -> None:
    """Heads that share their value are summed first, for n < 4d/3: then R X is formed, and the sides are swapped."""
    errors = []
    for seed in range(8):
        A = matrix(4, 1e3, np.random.default_rng(seed), 1.0, 4)
        w = np.linalg.svd(A)[2].sum(axis=0)
        p = Problem(A, A @ w, np.ones(4), 0.0, 0.999 / norm(A) ** 4, A.T @ A)
        model = least_squares(4, 48, p.step_size)
        X, R, I, *_ = model.layout.blocks  # noqa: E741
        shared = attention(model.layout, X.add(X @ R.T @ -X), X.add(X @ I.T @ I))
        first, *_, weigh, last = model.layers
        swapped = Transformer(model.layout, [first, *[shared] * 48, weigh, last], model.packing)
        found = [weights_of(kind, p) for kind in (reads_from_the_right(swapped), swapped)]
        errors.append([norm(w_T - w) / norm(w) / (EPS * 1e6) for w_T in found])
    assert np.max(errors, axis=0)[0] <= 2
    assert np.median(errors, axis=0)[1] >= 300


@given(st.integers(2, 6), st.floats(-0.5, 0.5), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(25))
def test_what_a_fixed_step_size_solves(d: int, share: float, seed: int) -> None:
    """From 1/d^2 every prompt with columns of length one is admitted; lambda_min >= d sqrt(ln(1/delta)/2^T) is solved.

    The condition is sharp: along the smallest eigenvalue the error is that of the theorem, and 1e-3 where it is met.
    """
    rng = np.random.default_rng(seed)
    steps, needed = 16, d * np.sqrt(np.log(1e3) / 2**16)
    gap = needed * 10**share  # 1 - cosine of the angle of the last two columns: the smallest eigenvalue
    A = np.eye(d + 1, d)
    A[d - 2 : d, d - 1] = 1 - gap, np.sqrt(1 - (1 - gap) ** 2)
    A = np.linalg.qr(rng.standard_normal((d + 1, d + 1)))[0] @ A
    least = np.linalg.svd(A, compute_uv=False)[-1] ** 2
    assert least == pytest.approx(gap, rel=1e-9)
    w = np.linalg.svd(A)[2][-1]  # along the smallest eigenvalue
    error = norm(weights_of(least_squares(d, steps, 1 / d**2), Problem(A, A @ w, w, 0.0, 1 / d**2, A.T @ A)) - w)
    assert error == pytest.approx((1 - (least / d) ** 2) ** 2**steps, rel=1e-6, abs=1e-11)
    assert (error <= 1e-3) == (share >= 0) or abs(share) < 0.01


@given(cases(), st.floats(0, 2), st.booleans())
@settings(deadline=None, max_examples=tries(60))
def test_single_precision(case: tuple[int, int, int, int], log_kappa: float, ridge: bool) -> None:
    """Within 20 kappa(R) times float32's precision of the plain iteration in double precision."""
    d, n, steps, seed = case
    p = problem(d, n, log_kappa, seed, ridge)
    A, y, a = (value.astype(np.float32) for value in (p.A, p.y, p.a))
    R = A.T.astype(float) @ A + p.ridge * np.eye(d)
    X = plain_newton(R, p.step_size * R, steps)
    y_hat = predict(least_squares(d, steps, p.step_size, p.ridge).to(torch.float32), A, y, a)
    assert y_hat.dtype == np.float32
    expected = a.astype(float) @ X @ (A.T.astype(float) @ y)
    assert abs(y_hat - expected) <= 20 * p.kappa * EPS32 * norm(a) * norm(X) * norm(A.T @ y)


@pytest.mark.parametrize("ridge", [False, True])
def test_equals_the_reference_algorithm(ridge: bool) -> None:
    p = problem(5, 12, 1.0, 3, ridge)
    for steps in (0, 1, 5, 20):
        w = algorithms.newton_least_squares(p.A, p.y, steps, p.step_size, ridge=p.ridge)
        y_hat = predict(least_squares(5, steps, p.step_size, p.ridge), p.A, p.y, p.a)
        assert abs(y_hat - p.a @ w) <= 1e-12 * norm(p.a) * norm(np.asarray(w))


@pytest.mark.parametrize("seed", range(5))
def test_tends_to_least_squares_and_to_ridge(seed: int) -> None:
    p = problem(6, 15, 1.0, seed)
    w = scipy.linalg.lstsq(p.A, p.y)[0]
    assert abs(predict(least_squares(6, 30, p.step_size), p.A, p.y, p.a) - p.a @ w) <= 1e-11 * norm(p.a) * norm(w)
    p = problem(6, 15, 1.0, seed, ridge=True)
    w = Ridge(alpha=p.ridge, fit_intercept=False, solver="svd").fit(p.A, p.y).coef_
    y_hat = predict(least_squares(6, 30, p.step_size, p.ridge), p.A, p.y, p.a)
    assert abs(y_hat - p.a @ w) <= 1e-11 * norm(p.a) * norm(w)


def test_real_data() -> None:
    """The diabetes data: 442 patients, 10 standardised features, the last ten rows predicted from the others."""
    A, y = load_diabetes(return_X_y=True)
    context, queries, target = A[:-10], A[-10:], y[:-10] - y[:-10].mean()
    largest = norm(context.T @ context)
    expected = queries @ scipy.linalg.lstsq(context, target)[0]
    y_hat = predict(least_squares(10, 30, 1 / largest**2), context, target, queries)
    np.testing.assert_allclose(y_hat, expected, rtol=1e-9)


@given(st.integers(1, 6), st.integers(0, 6), st.sampled_from([(2,), (2, 3)]), st.booleans(), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(25))
def test_batches(d: int, steps: int, batch: tuple[int, ...], ridge: bool, seed: int) -> None:
    """Each query of a batch, each data set of a batch, as numpy and as tensors."""
    p = problem(d, 2 * d, 0.5, seed, ridge)
    rng = np.random.default_rng(seed)
    model = least_squares(d, steps, p.step_size, p.ridge)
    queries = rng.standard_normal((*batch, d))
    X, b = p.iterate(steps), p.A.T @ p.y
    scale = norm(X) * norm(b) * np.linalg.norm(queries, axis=-1).max()
    y_hat = predict(model, p.A, p.y, queries)
    assert isinstance(y_hat, np.ndarray)
    np.testing.assert_allclose(y_hat, queries @ X @ b, rtol=0, atol=1e-12 * scale)
    shrink = rng.uniform(0.3, 1.0, (*batch, 1, 1))
    y_hat = predict(model, torch.tensor(shrink * p.A), p.y, torch.tensor(queries))
    assert isinstance(y_hat, torch.Tensor)
    assert y_hat.shape == batch
    for index in np.ndindex(*batch):
        A = shrink[index] * p.A
        R = A.T @ A + p.ridge * np.eye(d)
        X, b = plain_newton(R, p.step_size * R, steps), A.T @ p.y
        assert abs(y_hat[index].item() - queries[index] @ X @ b) <= 1e-12 * norm(queries[index]) * norm(X) * norm(b)


@pytest.mark.parametrize("d", [1, 2, 9, 32])
@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_sizes_are_those_of_the_theorem(d: int, steps: int, ridge: float) -> None:
    """3 + T layers of at most two heads, width 4d + 3, no ReLU layer; the ridge costs nothing."""
    model = least_squares(d, steps, 0.1, ridge)
    assert (model.depth, model.heads, model.width, model.relu_width) == (3 + steps, 2, 4 * d + 3, 0)
    assert [len(layer.heads) for layer in model.layers] == [2] * (3 + steps)
    assert list(model.parameters()) == []


@pytest.mark.parametrize("d", [1, 2, 9, 32])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_sizes_of_gradient_descent(d: int, steps: int) -> None:
    """One layer of one head a step, width 2d + 2."""
    model = gradient_descent(d, steps, 0.1)
    assert (model.depth, model.heads, model.width, model.relu_width) == (steps, min(steps, 1), 2 * d + 2, 0)
    assert list(model.parameters()) == []


@given(cases(), st.floats(0, 2), st.booleans())
@settings(deadline=None, max_examples=tries(40))
def test_the_output_format_is_that_of_the_statement(
    case: tuple[int, int, int, int], log_kappa: float, ridge: bool
) -> None:
    """Every row but the last comes out bit for bit as it went in; the last is y_hat, 0, ..., 0."""
    d, n, steps, seed = case
    p = problem(d, n, log_kappa, seed, ridge)
    model = least_squares(d, steps, p.step_size, p.ridge)
    H = np.asarray(model.pack(p.A, p.y, p.a))
    identity = np.eye(d, n)
    a_row = np.concatenate([p.a, np.zeros(n - d)])
    np.testing.assert_array_equal(H, np.vstack([identity, identity, identity, p.A.T, a_row, p.y, np.zeros(n)]))
    result = np.asarray(model(H))
    np.testing.assert_array_equal(result[:-1], H[:-1])
    assert result[-1, 0] == model.unpack(result)["y_hat"]
    assert not np.any(result[-1, 1:])


@given(cases(), st.floats(0, 3))
@settings(deadline=None, max_examples=tries(60))
def test_gradient_descent_equals_the_plain_iteration(case: tuple[int, int, int, int], log_kappa: float) -> None:
    """Within 200 times machine precision; w stands at every token, all other rows stay as they were."""
    d, n, steps, seed = case
    p = problem(d, n, log_kappa, seed)
    rng = np.random.default_rng(seed)
    rate, start = rng.uniform(0.1, 1.9) / norm(p.A) ** 2, rng.standard_normal(d) / norm(p.A)
    model = gradient_descent(d, steps, rate)
    for w0, H in ((np.zeros(d), model.pack(p.A, p.y)), (start, model.pack(p.A, p.y, start))):
        expected = plain_descent(p.A, p.y, w0, steps, rate)
        result = np.asarray(model(H))
        scale = norm(w0) + norm(p.y) / norm(p.A) + norm(expected)
        assert norm(model.unpack(result)["w"] - expected) <= 200 * EPS * scale
        np.testing.assert_array_equal(result[-d:], np.tile(result[-d:, :1], n))
        np.testing.assert_array_equal(result[:-d], np.asarray(H)[:-d])
        single = model.to(torch.float32)
        w = descend(single, p.A, p.y, w0)
        assert w.dtype == np.float32
        assert norm(w - expected) <= 200 * EPS32 * scale
        model = model.to(torch.float64)


def test_gradient_descent_takes_few_examples_and_batches() -> None:
    A, y, start = np.array([[1.0, 2.0]]), np.array([3.0]), np.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(descend(gradient_descent(2, 1, 0.1), A, y), [0.3, 0.6], rtol=1e-15)
    w = descend(gradient_descent(2, 30, 0.1), torch.tensor(A), y, start)
    assert w.shape == (2, 2)
    for i in range(2):
        np.testing.assert_allclose(w[i].numpy(), plain_descent(A, y, start[i], 30, 0.1), rtol=1e-14)
    assert norm(w.numpy() @ A[0] - y) <= 1e-8  # the constraint is met, the rest of the start is kept


@pytest.mark.parametrize("n", [5, 20, 500])
def test_one_transformer_serves_any_number_of_examples(n: int, tmp_path: Path) -> None:
    newton, descent = least_squares(5, 12, 0.9), gradient_descent(5, 60, 0.9)
    for model, name in ((newton, "newton"), (descent, "descent")):
        model.save(tmp_path / name)
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        A, w, a = matrix(5, 2.0, rng, rows=n), rng.standard_normal(5), rng.standard_normal(5)
        assert predict(newton, A, A @ w, a) == pytest.approx(a @ w, abs=1e-10)
        np.testing.assert_allclose(descend(descent, A, A @ w), w, rtol=0, atol=1e-5)
    for model, name in ((newton, "newton"), (descent, "descent")):
        model.save(tmp_path / "after")
        assert (tmp_path / "after").read_bytes() == (tmp_path / name).read_bytes()


def test_the_trace_tells_the_steps() -> None:
    p = problem(3, 7, 0.5, 4, ridge=True)
    model = least_squares(3, 2, p.step_size, p.ridge)
    frames = model.trace(model.pack(p.A, p.y, p.a))
    assert [frame.label for frame in frames] == [
        "input",
        "R <- A^T A + mu I, X <- eps R, out <- y^T A",
        "X <- 2X - X R X",
        "X <- 2X - X R X",
        "out <- out X^T",
        "out <- out a_test, X <- I, R <- I",
    ]
    for frame in frames[1:4]:
        np.testing.assert_allclose(frame.blocks["out"][0, :3], p.y @ p.A, rtol=0, atol=1e-13 * norm(p.y @ p.A))
    for frame in frames[1:5]:
        np.testing.assert_allclose(frame.blocks["R"][:, :3], p.R, rtol=1e-13, atol=1e-14 * norm(p.R))
    expected = p.y @ p.A @ p.iterate(2)
    np.testing.assert_allclose(frames[4].blocks["out"][0, :3], expected, rtol=0, atol=1e-13 * norm(expected))


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_dense_weights_predict_the_same(ridge: float) -> None:
    """To 1e-10: collapsing a sum of coefficients into one matrix rounds, -1 + mu first of all."""
    p = problem(4, 9, 0.5, 5)
    model = least_squares(4, 10, p.step_size / 4, ridge * norm(p.R))
    expected = predict(model, p.A, p.y, p.a)
    assert predict(model.dense(), p.A, p.y, p.a) == pytest.approx(expected, rel=1e-10)


def test_what_vanishes_is_taken_away_first() -> None:
    """X <- I - I + eps R would lose the digits of a small eps R, which the iteration then magnifies by kappa(R)."""
    rng = np.random.default_rng(0)
    A = matrix(4, 10.0, rng, scale=1e4, rows=8)
    R = A.T @ A
    model = least_squares(4, 0, 1 / norm(R) ** 2)
    X_0 = np.asarray(model.trace(model.pack(A, np.ones(8), np.ones(4)))[1].blocks["X"])[:, :4]
    expected = R / norm(R) ** 2
    assert norm(X_0 - expected) <= 4 * EPS * norm(expected)
    assert norm((np.eye(4) + expected) - np.eye(4) - expected) >= 1e4 * EPS * norm(expected)


def test_rank_deficient_data_reach_the_pseudo_inverse_and_then_lose_it() -> None:
    """Roundoff in the null space of R doubles each step: unseen for fifty steps, everything after a hundred."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 4))
    y, a = rng.standard_normal(12), rng.standard_normal(4)
    expected = a @ np.linalg.pinv(A) @ y
    step = 1 / norm(A) ** 4
    for steps in (15, 30, 50):
        assert abs(predict(least_squares(4, steps, step), A, y, a) - expected) <= 1e-12
    assert abs(predict(least_squares(4, 120, step), A, y, a) - expected) >= 1.0
    model = least_squares(4, 50, step)
    null_space = scipy.linalg.null_space(A)
    X = [np.asarray(frame.blocks["X"])[:, :4] for frame in model.trace(model.pack(A, y, a))[21:52]]
    sizes = np.array([norm(null_space.T @ X_t @ null_space) for X_t in X])
    np.testing.assert_allclose(sizes[1:] / sizes[:-1], 2.0, rtol=1e-3)


BUILDS: list[tuple[Callable[..., Transformer], dict[str, Any], type[Exception], str]] = [
    (least_squares, {"d": 0}, ValueError, "d = 0: must be at least 1"),
    (least_squares, {"d": 2.5}, TypeError, r"d = 2\.5: must be an integer, at least 1"),
    (least_squares, {"steps": -1}, ValueError, "steps = -1: must be at least 0"),
    (least_squares, {"steps": "3"}, TypeError, "steps = '3': must be an integer, at least 0"),
    (least_squares, {"step_size": 0.0}, ValueError, r"step_size = 0\.0: must be a finite number and above 0"),
    (least_squares, {"step_size": -0.1}, ValueError, r"step_size = -0\.1: must be a finite number and above 0"),
    (least_squares, {"step_size": float("nan")}, ValueError, "step_size = nan: must be a finite number"),
    (least_squares, {"step_size": None}, TypeError, "step_size = None: must be a finite number"),
    (least_squares, {"ridge": -1e-9}, ValueError, "ridge = -1e-09: must be a finite number and at least 0"),
    (least_squares, {"ridge": float("inf")}, ValueError, "ridge = inf: must be a finite number"),
    (gradient_descent, {"d": -1}, ValueError, "d = -1: must be at least 1"),
    (gradient_descent, {"steps": -1}, ValueError, "steps = -1: must be at least 0"),
    (gradient_descent, {"learning_rate": 0}, ValueError, "learning_rate = 0: must be a finite number and above 0"),
    (gradient_descent, {"learning_rate": True}, TypeError, "learning_rate = True: must be a finite number"),
]


@pytest.mark.parametrize(("build", "change", "error", "message"), BUILDS)
def test_arguments_that_are_refused(
    build: Callable[..., Transformer], change: dict[str, Any], error: type[Exception], message: str
) -> None:
    rate = "step_size" if build is least_squares else "learning_rate"
    with pytest.raises(error, match=f"^{message}"):
        build(**({"d": 2, "steps": 1, rate: 0.1} | change))


def test_inputs_that_are_refused() -> None:
    A, y, a = np.ones((3, 2)) / 9, np.ones(3), np.ones(2)
    newton, descent = least_squares(2, 1, 0.5), gradient_descent(2, 1, 0.5)
    with pytest.raises(ValueError, match=r"^n = 1: must be at least d = 2, the identity block needs d tokens$"):
        newton.pack(A[:1], y[:1], a)
    with pytest.raises(ValueError, match=r"^step_size = 0\.5: must lie in \(0, 2/lambda_max\^2\)"):
        newton.pack(20 * A, y, a)
    with pytest.raises(ValueError, match=r"^learning_rate = 0\.5: must lie in \(0, 2/lambda_max\)"):
        descent.pack(20 * A, y)
    for model, others in ((newton, (y, a)), (descent, (y,))):
        for bad in (A * 1j, A > 0, A.astype(str), A.astype(object)):
            with pytest.raises(TypeError, match=r"^A has dtype .*: must be an array of real numbers$"):
                model.pack(bad, *others)
        with pytest.raises(ValueError, match=r"^A contains NaN or infinity"):
            model.pack(A * np.nan, *others)
        with pytest.raises(ValueError, match=r"^A has shape \(2, 3\): must be \(n = 2, d = 2\)"):
            model.pack(A.T, *others)
    with pytest.raises(TypeError, match=r"^pack\(A, y, w\): 'w0' is not one of its inputs$"):
        descent.pack(A, y, w0=a)
    with pytest.raises(TypeError, match=r"^pack\(A, y, a_test\): a_test missing$"):
        newton.pack(A, y)
    with pytest.raises(ValueError, match=r"^w has shape \(3,\): must be \(d = 2,\)"):
        descent.pack(A, y, y)
