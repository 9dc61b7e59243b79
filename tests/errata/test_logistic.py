"""Where the text on the logistic construction slips (part ``logistic`` of book/errata.yml): printed and corrected.

The direct quantities are written here in numpy; the transformer's own come from its trace.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from tests.helpers.logistic_problems import random_problems, reference
from tfnewton import Transformer
from tfnewton.algorithms.logistic_regression import loss, minimize
from tfnewton.approximation.curves import PROBABILITY, VARIANCE, Curve, step_size
from tfnewton.approximation.knots import interpolate
from tfnewton.constructions.logistic_regression import damped_newton, largest_iterate
from tfnewton.model.layers import attention
from tfnewton.theory import perturbation, radii, width
from tfnewton.theory.error_budget import error_budget

D, N, MU = 3, 8, 0.1


class Run(NamedTuple):
    """A coarse step of the transformer, with the errors that the paper names, and what is exact beside it."""

    model: Transformer
    H: np.ndarray
    A: np.ndarray
    y: np.ndarray
    x0: np.ndarray
    x1: np.ndarray
    p: np.ndarray
    u1: np.ndarray
    U2: np.ndarray
    u3: np.ndarray
    B: np.ndarray
    X: np.ndarray
    b: np.ndarray
    eta: float
    gradient: np.ndarray
    hessian: np.ndarray


@pytest.fixture(scope="module")
def run() -> Run:
    A, y, x, _ = random_problems(3, 5, MU, N, D)
    A, y, x0 = A[1], y[1], x[1] / np.linalg.norm(x[1])
    model = damped_newton(D, N, MU, 1, 0.1)
    H = np.asarray(model.pack(A, y, x0))
    blocks = {
        f.label: {name: np.asarray(v) for name, v in f.blocks.items()} for f in model.trace(H)
    }  # the last layer of each label
    gradient, hessian = reference(x0, A, y, MU)
    p = 1 / (1 + np.exp(y * (A @ x0)))
    d_hat, p_hat = blocks["s <- d(A x)"]["s"][0], blocks["s <- p"]["s"][0]
    return Run(
        model,
        H,
        A,
        y,
        x0,
        x1=np.asarray(model.unpack(model(H))["x"]),
        p=p,
        u1=d_hat - p * (1 - p),
        U2=blocks["X <- A^T D / n, s <- 0"]["X"] - d_hat * A.T / N,
        u3=p_hat - p,
        B=blocks["B <- A^T D A / n + mu I, X <- alpha B"]["B"][:, :D],
        X=blocks["X <- 2X - X S, S <- 0"]["X"][:, :D],
        b=blocks["B <- gradient"]["B"][:, 0],
        eta=float(blocks["s <- eta(gradient^T X)"]["s"][0, 0]),
        gradient=gradient,
        hessian=hessian,
    )


def damping(s: float) -> float:
    return 2 * math.sqrt(MU) / (2 * math.sqrt(MU) + math.sqrt(s))


def test_gradient_has_a_minus(run: Run) -> None:
    def loss(x: np.ndarray) -> float:
        return float(np.logaddexp(0, -run.y * (run.A @ x)).mean() + MU / 2 * x @ x)

    h = 1e-6
    slope = np.array([(loss(run.x0 + h * e) - loss(run.x0 - h * e)) / (2 * h) for e in np.eye(D)])
    data = run.A.T @ (run.y * run.p) / N
    np.testing.assert_allclose(MU * run.x0 - data, slope, atol=1e-8)
    assert np.linalg.norm(MU * run.x0 + data - slope) > 0.1


def test_gradient_keeps_the_error_of_the_probabilities(run: Run) -> None:
    """Printed: p^ - u3, which is p itself, and no minus."""
    made = MU * run.x0 - run.A.T @ (run.y * (run.p + run.u3)) / N
    np.testing.assert_allclose(run.b, made, atol=1e-13)
    printed = MU * run.x0 + run.A.T @ (run.y * (run.p + run.u3 - run.u3)) / N
    assert np.linalg.norm(run.b - printed) > 0.1
    assert np.linalg.norm(run.b - run.gradient) > 1e-5


def test_hessian_error_has_its_factor_and_its_transpose(run: Run) -> None:
    """With U2 as it stands in H_2, (d, n)."""
    first = run.A.T @ np.diag(run.u1) @ run.A
    E1 = run.B - run.hessian
    np.testing.assert_allclose(E1, first / N + run.A.T @ run.U2.T, atol=1e-13)
    assert np.linalg.norm(E1 - (first + run.A.T @ run.U2.T)) > 0.5 * np.linalg.norm(E1)
    with pytest.raises(ValueError, match="matmul"):
        run.A.T @ run.U2
    # (C.13)
    assert np.linalg.norm(E1, 2) <= np.linalg.norm(run.u1) + math.sqrt(N) * np.linalg.norm(run.U2, 2)


def test_step_is_the_exact_one_with_the_errors_put_in(run: Run) -> None:
    """(C.23), and the whole error by (C.29) with the term that is missing there."""
    E1, E2 = run.B - run.hessian, run.X - np.linalg.inv(run.B)
    epsilon3 = run.b - run.gradient
    made = (np.linalg.inv(run.hessian + E1) + E2) @ (run.gradient + epsilon3)
    s = float(run.b @ run.X @ run.b)
    epsilon4 = run.eta - damping(s)
    np.testing.assert_allclose(run.x1, run.x0 - (damping(s) + epsilon4) * made, atol=1e-12)
    exact = np.linalg.solve(run.hessian, run.gradient)
    eta = damping(float(run.gradient @ exact))
    change = np.linalg.norm(run.X - np.linalg.inv(run.hessian), 2)
    # (C.25)
    E1_size, E2_size = np.linalg.norm(E1, 2), np.linalg.norm(E2, 2)
    assert change <= E2_size + perturbation.hessian_inverse_bound(float(E1_size), MU)
    size, third = 1 + MU * np.linalg.norm(run.x0), np.linalg.norm(epsilon3)
    bound = (abs(run.eta - eta) * (1 / MU + change) + change) * (size + third) + third / MU
    assert 0 < np.linalg.norm(run.x1 - (run.x0 - eta * exact)) <= bound


def test_printed_error_of_the_step_forgets_the_gradient(run: Run) -> None:
    """Exact inverse and step size: (C.29) promises no error at all, whatever that of the gradient."""
    epsilon3 = np.array([0.01, 0.0, 0.0])
    inverse = np.linalg.inv(run.hessian)
    eta = damping(float(run.gradient @ inverse @ run.gradient))
    error = np.linalg.norm(eta * inverse @ (run.gradient + epsilon3) - eta * inverse @ run.gradient)
    printed = (0.0 * (1 / MU + 0.0) + 0.0) * (1 + MU * np.linalg.norm(run.x0) + 0.01)
    assert printed == 0.0 < error <= printed + 0.01 / MU


def test_squared_decrement_uses_the_inverse(run: Run) -> None:
    """Printed in the error analysis: b^T B b."""
    assert abs(run.eta - damping(run.b @ run.X @ run.b)) < 0.02
    assert abs(run.eta - damping(run.b @ run.B @ run.b)) > 0.1


def test_cross_term_of_the_decrement_counts_once(run: Run) -> None:
    """The display before (C.26) has 2 e^T H^-1 (g + e); e^T H^-1 (2 g + e) is right, and gives (C.26)."""
    rng = np.random.default_rng(0)
    inverse, g = np.linalg.inv(run.hessian), run.gradient
    e, E = 0.1 * rng.normal(size=D), 0.01 * rng.normal(size=(D, D))
    change = (g + e) @ (inverse + E) @ (g + e) - g @ inverse @ g
    rest = (g + e) @ E @ (g + e)
    assert change == pytest.approx(e @ inverse @ (2 * g + e) + rest, rel=1e-12)
    assert abs(2 * e @ inverse @ (g + e) + rest - change) == pytest.approx(e @ inverse @ e)
    size, small, error = 1 + MU * np.linalg.norm(run.x0), np.linalg.norm(e), np.linalg.norm(E, 2)
    bound = (2 * size * small + small**2) / MU + (size + small) ** 2 * error
    assert abs(change) < bound


def test_block_two_is_the_hessian_when_the_gradient_comes(run: Run) -> None:
    """Step 7 clears block 2 as if it held the identity; it holds B."""
    number = next(i for i, layer in enumerate(run.model.layers) if layer.label == "B <- gradient")
    _, B, I, _, A_T, x, _, _, s, _ = run.model.layout.blocks  # noqa: E741
    e1 = I[0]
    steps = {}
    for cleared in (B, I):
        heads = (B.add(-A_T @ s.T @ e1), B.add(-cleared @ I.T @ I), B.add(x @ e1.T @ (MU * e1)))
        layers = [*run.model.layers]
        layers[number] = attention(run.model.layout, *heads)
        model = Transformer(run.model.layout, layers, run.model.packing)
        steps[cleared.name] = np.asarray(model.unpack(model(run.H))["x"])
    np.testing.assert_array_equal(steps["B"], run.x1)
    exact = np.linalg.solve(run.hessian, run.gradient)
    exact = run.x0 - damping(float(run.gradient @ exact)) * exact
    assert np.linalg.norm(steps["B"] - exact) <= 0.1
    assert np.linalg.norm(steps["I"] - exact) > 1


STAIRCASES = [(VARIANCE, (-4.0, 4.0), 4), (PROBABILITY, (-4.0, 4.0), 2), (step_size(MU), (0.0, 16.0), 2)]


@pytest.mark.parametrize(("curve", "interval", "constant"), STAIRCASES, ids=["d", "p", "eta"])
@pytest.mark.parametrize("pieces", [20, 200])
def test_staircase_bounds_hold_entry_by_entry_and_not_in_the_norm(
    curve: Curve, interval: tuple[float, float], constant: int, pieces: int
) -> None:
    """(C.6), (C.16), (C.20): an entry is within 4/N or 2/N; a vector of n entries, in the 2-norm, need not be."""
    found = interpolate(curve, interval, pieces, "staircase")
    z = np.linspace(*interval, 20_001)
    u = np.asarray(found(z)) - curve.value(z)
    assert np.abs(u).max() <= constant / found.width
    assert np.linalg.norm(np.full(400, u[np.abs(u).argmax()])) > constant / found.width
    # (C.13) and (C.19) need the largest entry only: means of rows of norm at most one.
    A = random_problems(0, 2, MU, 500, D).A[1]
    sample = u[:: len(u) // 499][:500]
    assert np.linalg.norm(A.T @ np.diag(sample) @ A / 500, 2) <= np.abs(sample).max()
    assert np.linalg.norm(A.T @ sample / 500) <= np.abs(sample).max()


def test_variances_reach_a_quarter_and_not_one() -> None:
    z = np.linspace(-40, 40, 80_001)
    values = VARIANCE.value(z)
    assert 0 < values.min() < values.max() == 0.25


@pytest.mark.parametrize("d", [2, 5])
def test_product_layer_needs_its_units_for_each_coordinate(d: int) -> None:
    """(C.10) counts one product; the layer forms d of them, and clears d + 1 rows."""
    relu = damped_newton(d, 10, MU, 1, 0.1).layers[1].relu
    one = error_budget(d, MU, 0.1, radius=largest_iterate(MU, 0.1)).layers().product.width
    assert relu is not None
    assert relu.width == d * one + d + 2


def test_conditions_on_the_errors_suffice() -> None:
    """(C.27) to (C.34) with constants filled in, and (C.29) with its missing term."""
    for mu in (0.01, 0.1, 1.0):
        size = 1 + mu * radii.iterate_radius(mu, 1.0)  # 1 + C mu, which is 4 + 2 mu
        assert size == pytest.approx(4 + 2 * mu)
        for error in (0.5, 1e-2, 1e-4):
            fourth = mu * error / (8 * size)
            third = error**2 * mu**4 / (128 * size**3)
            first = error**2 * mu**5 / (512 * size**4)
            second = error**2 * mu**3 / (256 * size**4)
            change = second + perturbation.hessian_inverse_bound(first, mu)
            assert change <= error**2 * mu**3 / (128 * size**4)
            decrement = (2 * size * third + third**2) / mu + (size + third) ** 2 * change
            assert decrement < perturbation.printed_step_size_threshold(fourth, mu)
            # the step size is off by fourth through the decrement and by fourth through its ReLU layer
            assert (2 * fourth * (1 / mu + change) + change) * (size + third) + third / mu <= error


def test_width_of_the_main_theorem_is_not_that_of_its_step() -> None:
    """(C.10) held against (C.34), with 1 + C mu = O(1 + mu), has the exponents 8 and 10, not 6 and 8."""
    d, n, mu, error = 5, 26, 0.1, 1e-2
    allowed = error**2 * mu**5 / (math.sqrt(n) * (1 + mu) ** 4)
    needed = d / (n * allowed**2)
    assert width.printed_relu_width(d, mu, error) == pytest.approx(needed)
    assert width.printed_main_relu_width(d, mu, error) < needed / 100


def test_depth_is_the_square_of_a_double_logarithm() -> None:
    """T and k for 10^m digits: both count doublings of digits, so that T (11 + 2k) grows like m^2, not m, not 10^m."""
    rate = math.log10((3.5**2 + 1) / (3.5**2 - 1))  # kappa = 3.5 at mu = 0.1
    depths = []
    for m in (2, 20, 200):
        steps = math.ceil(m / math.log10(2) - math.log2(math.log10(3)))
        inner = math.ceil(m / math.log10(2) - math.log2(rate))
        depths.append(width.depth(steps, inner))
    assert width.inversion_steps(MU, 1e-100) == math.ceil(2 / math.log10(2) - math.log2(rate))
    per_double_logarithm = np.array(depths) / (np.array([2, 20, 200]) / math.log10(2))
    assert per_double_logarithm[2] > 5 * per_double_logarithm[1] > 5 * per_double_logarithm[0]
    assert depths[2] / 200**2 == pytest.approx(2 / math.log10(2) ** 2, rel=0.1)
    assert depths[0] < 10**2 * 20 < 10**20 > depths[1]


def test_thirteen_layers_are_not_a_newton_step() -> None:
    """k = 1 at the size of the experiment, d = 5, n = 26, mu = 0.1."""
    A, y, _, _ = random_problems(1, 50, MU, 26, 5)
    A, y = A[1::5], y[1::5]  # unit rows
    model = damped_newton(5, 26, MU, 1, 1e-2, inversion_steps=1)
    enough = damped_newton(5, 26, MU, 1, 1e-2)
    assert model.depth == 13 < enough.depth
    gradient, hessian = reference(np.zeros((10, 5)), A, y, MU)
    direction = np.linalg.solve(hessian, gradient[..., None])[..., 0]
    decrement = np.sqrt((gradient * direction).sum(-1))
    step = direction * (2 * math.sqrt(MU) / (2 * math.sqrt(MU) + decrement))[:, None]
    length = np.linalg.norm(step, axis=-1)
    off, off_enough = (np.linalg.norm(m.unpack(m(m.pack(A, y)))["x"] + step, axis=-1) / length for m in (model, enough))
    assert off.min() > 0.2
    assert off_enough.max() < 0.03


def test_experiment_is_narrower_than_the_construction() -> None:
    assert width.rows(5) == 34 > 32


@pytest.mark.parametrize("kappa", [1.0, 10.0, 100.0])
def test_samples_of_the_experiments_are_longer_than_one(kappa: float) -> None:
    """E ||a||^2 is the trace of the covariance, at least its largest eigenvalue, drawn from [1, 100]."""
    rng, longest = np.random.default_rng(0), []
    for _ in range(200):
        top = rng.uniform(1, 100)
        eigenvalues = np.array([top, top / kappa, *rng.uniform(top / kappa, top, 3)])
        assert eigenvalues.sum() >= 1
        longest.append(np.linalg.norm(rng.normal(size=(26, 5)) * np.sqrt(eigenvalues), axis=-1).max())
    assert min(longest) > 1


def prompts_of_the_experiment(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 26, 5) and labels of appendix D at kappa = 10, without the eigenvectors, which change nothing."""
    top = rng.uniform(1, 100, size=(count, 1))
    eigenvalues = np.concatenate([top, top / 10, top / 10 + 0.9 * top * rng.uniform(size=(count, 3))], axis=1)
    points = rng.normal(size=(count, 26, 5)) * np.sqrt(eigenvalues)[:, None]
    return points, np.where((points @ rng.normal(size=(count, 5, 1)))[..., 0] < 0, -1.0, 1.0)


def longest(points: np.ndarray) -> np.ndarray:
    """The longest point of each prompt."""
    return np.asarray(np.linalg.norm(points, axis=-1).max(axis=-1))


def test_a_bound_from_other_prompts_is_exceeded() -> None:
    """By one fresh prompt in N + 1, in the mean over what the N others are; the construction refuses it."""
    rng = np.random.default_rng(0)
    lengths = longest(prompts_of_the_experiment(rng, 20_000)[0]).reshape(-1, 16 + 84)
    shares = (lengths[:, 16:] > lengths[:, :16].max(axis=1, keepdims=True)).mean(axis=1)
    assert shares.mean() == pytest.approx(1 / 17, rel=0.15)
    assert shares.std() > 0.03  # it depends much on the sixteen
    points, y = prompts_of_the_experiment(rng, 200)
    bound = longest(points[:64]).max()
    model = damped_newton(5, 26, MU / bound**2, 0, 1.0)  # no step, so the error is of none
    fits = longest(points) <= bound
    assert fits[:64].all()
    model.pack(points[fits] / bound, y[fits])
    for i in np.flatnonzero(~fits):
        with pytest.raises(ValueError, match="A has norm"):
            model.pack(points[i] / bound, y[i])
    with pytest.raises(ValueError, match="A has norm"):
        model.pack(2 * points[[longest(points[:64]).argmax()]] / bound, y[:1])


@pytest.mark.slow
def test_thirteen_layers_hardly_move_on_the_prompts_of_the_figure() -> None:
    """Rescaled to norm one: there k = 1 has gone a tenth of the way when the k that is built has gone half of it."""
    points, y = prompts_of_the_experiment(np.random.default_rng(1), 72)
    bound = longest(points[:64]).max()
    A, y = points[64:] / bound, y[64:]
    A, y = A[longest(A) <= 1], y[longest(A) <= 1]
    assert len(A) >= 6
    mu, error = MU / bound**2, 0.02 * bound
    gaps = []
    for k in (1, None):
        model = damped_newton(5, 26, mu, 1, error, inversion_steps=k)
        H = model.pack(A, y)
        for _ in range(30):
            H = model(H)
        gaps.append(loss(model.unpack(H)["x"], A, y, mu) - loss(minimize(A, y, mu), A, y, mu))
        assert model.depth == 13 if k else model.depth > 50
    start = math.log(2) - loss(minimize(A, y, mu), A, y, mu)
    assert (gaps[0] > 0.85 * start).all()
    assert gaps[1].mean() < 0.6 * start.mean()
