"""Scalar functions and products as ReLU layers: the promised error, the laws of the width, rounding, clamps, refusals.

Values come from scipy and truth.json, derivatives from automatic differentiation, never from the curves themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tests.helpers.tries import tries
from tfnewton.approximation.curves import PROBABILITY, SQUARE, VARIANCE, Curve, step_size
from tfnewton.approximation.knots import SCHEMES, approximate, error_bound, interpolate, product, width_constant
from tfnewton.approximation.units import PiecewiseLinear, Product, Units

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text())["scalars"]
Function = Callable[[np.ndarray], np.ndarray]
Interval = tuple[float, float]

quick = settings(deadline=None, max_examples=tries(10))


def eta(mu: float) -> Function:
    return lambda s: 2 * math.sqrt(mu) / (2 * math.sqrt(mu) + np.sqrt(s))


def probability(z: np.ndarray) -> np.ndarray:
    return np.asarray(expit(-z))


def variance(z: np.ndarray) -> np.ndarray:
    return np.asarray(expit(z) * expit(-z))


def domain(mu: float) -> float:
    return math.sqrt(2 * math.log(2) / mu)


def cases(mu: float) -> list[tuple[Curve, Function, Interval]]:
    """The four functions of a step on the intervals where they are used."""
    C = domain(mu)
    return [
        (PROBABILITY, probability, (-C, C)),
        (VARIANCE, variance, (-C, C)),
        (SQUARE, np.square, (-0.3, 1.7)),
        (step_size(mu), eta(mu), (0.0, (1 / math.sqrt(mu) + math.sqrt(mu) * C) ** 2)),
    ]


def dense(interval: Interval) -> np.ndarray:
    """Many points, also very near the left end, where a square root may be."""
    a, b = interval
    return a + (b - a) * np.concatenate([np.linspace(0, 1, 40_001), np.geomspace(1e-14, 1, 20_001)])


def measured(function: Function, found: Callable[[np.ndarray], object], interval: Interval) -> float:
    z = dense(interval)
    return float(np.abs(np.asarray(found(z)) - function(z)).max())


# The curves


def test_curves_agree_with_the_known_values() -> None:
    for z in (0.0, 0.5, -1.25, 3.7):
        assert PROBABILITY.value(np.array(-z)) == pytest.approx(TRUTH[f"sigma({z:g})"], abs=1e-14)
        assert VARIANCE.value(np.array(z)) == pytest.approx(TRUTH[f"dsigma({z:g})"], abs=1e-14)
    for mu in (0.1, 1):
        for s in (0, 0.01, 0.5, 2):
            assert step_size(mu).value(np.array(s)) == pytest.approx(TRUTH[f"eta(mu={mu:g},lam2={s:g})"], abs=1e-14)


@pytest.mark.parametrize("index", range(4))
def test_derivatives_agree_with_automatic_differentiation(index: int) -> None:
    mu = 0.1
    autograd: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda z: torch.sigmoid(-z),
        lambda z: torch.sigmoid(z) * torch.sigmoid(-z),
        torch.square,
        lambda s: 2 * math.sqrt(mu) / (2 * math.sqrt(mu) + torch.sqrt(s)),
    ]
    curve, _, (a, b) = cases(mu)[index]
    z = torch.linspace(a, b, 203, dtype=torch.float64)[1:-1].requires_grad_()
    value = autograd[index](z)
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    points = z.detach().numpy()
    np.testing.assert_allclose(curve.value(points), value.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(curve.slope(points), slope.detach().numpy(), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(curve.curvature(points), curvature.numpy(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("index", range(4))
def test_turning_points_are_all_the_sign_changes_of_the_curvature(index: int) -> None:
    curve, _, (a, b) = cases(0.01)[index]
    z = np.linspace(a, b, 100_000)[1:]  # 0 lies between two of them
    signs = np.sign(curve.curvature(z))
    changes = 0.5 * (z[1:] + z[:-1])[signs[1:] * signs[:-1] < 0]
    np.testing.assert_allclose(changes, sorted(curve.turning), atol=1e-3)


def test_curves_do_not_overflow_far_out() -> None:
    far = np.array([-1e4, -800.0, 800.0, 1e4])
    np.testing.assert_array_equal(PROBABILITY.value(far), [1, 1, 0, 0])
    np.testing.assert_array_equal(VARIANCE.value(far), np.zeros(4))


# The promised error


@quick
@given(
    st.floats(0.01, 2), st.floats(-5, -0.5), st.integers(0, 3), st.sampled_from(["staircase", "uniform", "curvature"])
)
def test_promised_error_holds_on_dense_grids(mu: float, digits: float, index: int, scheme: str) -> None:
    error = 10.0 ** (max(digits, -2.0) if scheme != "curvature" else digits)
    curve, function, interval = cases(mu)[index]
    if scheme == "uniform" and index == 3:
        error = max(error, 0.05)
    found = approximate(curve, interval, error, scheme)
    assert measured(function, found, interval) <= error
    z = dense(interval)[::100]
    assert np.abs(np.asarray(found.units()(z)) - function(z)).max() <= error
    assert found.interval == interval


@quick
@given(st.floats(-30, 30), st.floats(0.01, 60), st.floats(-4, -1), st.sampled_from([0, 1]))
def test_promised_error_holds_on_any_interval(a: float, length: float, digits: float, index: int) -> None:
    curve, function, _ = cases(1.0)[index]
    interval = (a, a + length)
    assert measured(function, approximate(curve, interval, 10.0**digits), interval) <= 10.0**digits


@pytest.mark.slow
@quick
@given(st.floats(0.01, 2), st.floats(-5, -1))
def test_promised_error_holds_with_a_weight(mu: float, digits: float) -> None:
    """sqrt(s) |eta^ - eta| is what a step needs: far fewer pieces than the unweighted error takes."""
    curve, function, interval = cases(mu)[3]
    weighted = curve.weighted(np.sqrt)
    found = approximate(weighted, interval, 10.0**digits)
    z = dense(interval)
    assert (np.sqrt(z) * np.abs(np.asarray(found(z)) - function(z))).max() <= 10.0**digits
    flat = approximate(curve, interval, 10.0**digits / math.sqrt(interval[1]))
    assert found.width <= flat.width


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("index", range(4))
def test_error_bound_is_above_the_measured_error_and_close_to_it(index: int, scheme: str) -> None:
    curve, function, interval = cases(0.1)[index]
    for pieces in (1, 2, 7, 40):
        found = interpolate(curve, interval, pieces, scheme)
        worst, bound = measured(function, found, interval), error_bound(curve, found)
        assert worst <= bound * (1 + 1e-9) + 1e-15
        assert bound <= 1.02 * worst


def test_error_bound_holds_for_any_piecewise_linear_function() -> None:
    rng = np.random.default_rng(0)
    for curve, function, (a, b) in cases(0.1):
        for _ in range(20):
            knots = np.concatenate([[a], np.sort(rng.uniform(a, b, 5)), [b]])
            found = PiecewiseLinear(knots, function(knots) + 0.1 * rng.normal(size=7))
            assert measured(function, found, (a, b)) <= error_bound(curve, found) * (1 + 1e-9)


@pytest.mark.parametrize("index", range(4))
def test_no_piece_is_wasted(index: int) -> None:
    curve, function, interval = cases(0.1)[index]
    for error in (1e-2, 1e-3, 1e-4):
        pieces = len(approximate(curve, interval, error).knots) - 1
        assert pieces**2 <= 1.15 * width_constant(curve, interval) / error + 8
        fewer = interpolate(curve, interval, int(0.85 * pieces) - 1)
        assert measured(function, fewer, interval) > error


# The laws of the width


def slope(curve: Curve, function: Function, interval: Interval, scheme: str) -> float:
    """Slope of log error against log width over two decades of the width."""
    found = [interpolate(curve, interval, pieces, scheme) for pieces in (10, 35, 110, 360, 1200)]
    errors = [measured(function, each, interval) for each in found]
    widths = [each.width for each in found]
    assert widths[-1] >= 100 * widths[0]
    return float(np.polyfit(np.log(widths), np.log(errors), 1)[0])


@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("index", range(4))
def test_curvature_scheme_has_slope_two_and_its_constant(index: int, mu: float) -> None:
    curve, function, interval = cases(mu)[index]
    assert slope(curve, function, interval, "curvature") == pytest.approx(-2, abs=0.15)
    worst = measured(function, interpolate(curve, interval, 1000), interval)
    assert worst == pytest.approx(width_constant(curve, interval) / 1000**2, rel=0.1)


@pytest.mark.parametrize("index", range(4))
def test_staircase_has_slope_one(index: int) -> None:
    curve, function, interval = cases(0.1)[index]
    assert slope(curve, function, interval, "staircase") == pytest.approx(-1, abs=0.15)


def test_uniform_knots_fail_on_the_square_root_only() -> None:
    *smooth, root = cases(0.1)
    for curve, function, interval in smooth:
        assert slope(curve, function, interval, "uniform") == pytest.approx(-2, abs=0.15)
    assert -0.75 < slope(*root, "uniform") < -0.4


def test_constants_on_the_whole_line() -> None:
    """The constants of p, d and eta on their whole domains, for comparison with hand calculation."""
    assert width_constant(PROBABILITY, (-40.0, 40.0)) == pytest.approx(0.718, abs=1e-3)
    assert width_constant(VARIANCE, (-40.0, 40.0)) == pytest.approx(0.554, abs=1e-3)
    assert width_constant(step_size(0.25), (0.0, 1e12)) == pytest.approx(2.386, abs=5e-3)
    assert width_constant(SQUARE, (-1.0, 1.0)) == pytest.approx(1.0, rel=1e-6)


# Units, rounding, clamps


@quick
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.floats(-2, 2))
def test_units_equal_the_function_they_were_made_from(seed: int, count: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    knots = 10.0**scale * (np.sort(rng.uniform(-1, 1, count)) + np.arange(count) / count)
    found = PiecewiseLinear(knots, rng.normal(size=count))
    units = found.units()
    z = np.concatenate([np.linspace(knots[0], knots[-1], 1001), knots])
    np.testing.assert_allclose(units(z), np.interp(z, knots, found.values), rtol=0, atol=found.roundoff)
    assert units.weight.shape == (1, units.width)
    assert units.width == found.width <= count + 1


def test_units_in_a_relu_layer_without_bias_vectors() -> None:
    """H + W2 relu(W1 H): the biases and the constant come through the row of ones."""
    found = approximate(PROBABILITY, (-4.0, 4.0), 1e-3)
    units = found.units()
    z, ones, target = 0, 2, 3
    W1, W2 = np.zeros((units.width, 4)), np.zeros((4, units.width))
    W1[:, z], W1[:, ones], W2[target] = units.weight[0], units.bias, units.out
    H = np.random.default_rng(0).uniform(-4, 4, size=(3, 4, 50))
    H[:, ones], H[:, target] = 1.0, 0.0
    out = H + W2 @ np.maximum(W1 @ H, 0.0)
    np.testing.assert_allclose(out[:, target], np.interp(H[:, z], found.knots, found.values), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(out[:, :target], H[:, :target])


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("index", range(4))
def test_constant_outside_the_interval(index: int, scheme: str) -> None:
    curve, _, (a, b) = cases(0.1)[index]
    found = interpolate(curve, (a, b), 20, scheme)
    far = np.array([a - 1e3, a - 1e-3, a])
    for evaluate in (found, found.units()):
        np.testing.assert_allclose(evaluate(far), np.full(3, found.values[0]), rtol=0, atol=1e-9)
        np.testing.assert_allclose(evaluate(b - a + b - far), np.full(3, found.values[-1]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("pieces", [10, 1000, 100_000])
def test_rounding_stays_below_its_stated_floor(pieces: int, index: int) -> None:
    curve, _, interval = cases(0.1)[index]
    found = interpolate(curve, interval, pieces)
    z = dense(interval)[:: max(1, pieces // 100)]
    assert np.abs(np.asarray(found.units()(z)) - np.interp(z, found.knots, found.values)).max() <= found.roundoff
    assert found.roundoff <= 1e-13 * pieces


def test_units_open_to_the_side_that_keeps_the_digits() -> None:
    """Next to eta's infinite slope units that open to the right cancel; those taken open to the left."""
    found = interpolate(step_size(0.1), (0.0, 20.0), 3000)
    assert (found.units().weight[0] <= 0).all()
    z = np.linspace(0, 20, 2001)
    kinks = np.diff(found.slopes, prepend=0.0, append=0.0)
    right = found.values[0] + np.maximum(z[:, None] - found.knots, 0.0) @ kinks
    exact = np.interp(z, found.knots, found.values)
    assert np.abs(right - exact).max() > 100 * np.abs(np.asarray(found.units()(z)) - exact).max()


def test_no_unit_for_a_kink_or_a_constant_of_zero() -> None:
    hat = PiecewiseLinear(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0, 0.0]))
    assert hat.width == 3
    assert PiecewiseLinear(np.array([0.0, 1.0]), np.array([1.0, 2.0])).width == 3
    assert PiecewiseLinear(np.array([0.0, 1.0]), np.zeros(2)).width == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_tensors_keep_their_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    found = interpolate(PROBABILITY, (-4.0, 4.0), 100)
    z = torch.linspace(-5, 5, max(1, math.prod(shape)), dtype=dtype).reshape(shape)
    for value in (found(z), found.units()(z)):
        assert isinstance(value, torch.Tensor)
        assert value.dtype == dtype
        assert value.shape == shape
        exact = np.interp(z.double().numpy(), found.knots, found.values)
        np.testing.assert_allclose(value.numpy(), exact, rtol=0, atol=2e-6 if dtype == torch.float32 else 1e-13)
    assert isinstance(found(z.numpy()), np.ndarray)


def test_knots_and_values_cannot_be_changed() -> None:
    knots = np.array([0.0, 1.0])
    found = PiecewiseLinear(knots, knots)
    knots[0] = 0.5
    assert found.interval == (0.0, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0] = 3.0


# Products


@quick
@given(
    st.floats(-3, 3),
    st.floats(0.01, 4),
    st.floats(0.1, 5),
    st.floats(-5, -1),
    st.sampled_from(["curvature", "uniform"]),
)
def test_promised_error_of_a_product(low: float, length: float, bound: float, digits: float, scheme: str) -> None:
    rng = np.random.default_rng(0)
    error = length * bound * 10.0**digits
    times = product((low, low + length), bound, error, scheme)
    x, y = low + length * rng.random(20_000), bound * rng.uniform(-1, 1, 20_000)
    x[:100], y[50:150] = low, bound
    assert np.abs(np.asarray(times(x, y)) - x * y).max() <= error
    assert np.abs(np.asarray(times.units()(x, y)) - x * y).max() <= error * (1 + 1e-9)
    # N pieces of each square err by bound · length/(2 N^2)
    assert times.width <= 2 * (math.sqrt(0.5 * length * bound / error) + 2)


def test_a_product_by_the_staircase_costs_the_square() -> None:
    x, y = np.random.default_rng(0).random((2, 20_000)) * [[0.25], [2.0]] - [[0.0], [1.0]]
    wide, narrow = (product((0.0, 0.25), 1.0, 1e-3, scheme) for scheme in ("staircase", "curvature"))
    assert np.abs(np.asarray(wide(x, y)) - x * y).max() <= 1e-3
    assert wide.width > 10 * narrow.width


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_a_product_with_zero_is_zero(scheme: str) -> None:
    times = product((0.02, 0.25), 1.0, 1e-3, scheme)
    x = np.linspace(0.02, 0.25, 999)
    np.testing.assert_array_equal(times(x, np.zeros_like(x)), np.zeros_like(x))
    np.testing.assert_allclose(times.units()(x, np.zeros_like(x)), np.zeros_like(x), rtol=0, atol=1e-15)


def test_product_keeps_tensors_and_batches() -> None:
    times = product((-1.0, 1.0), 1.0, 1e-2)
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    for value in (times(x, x), times.units()(x, x)):
        assert isinstance(value, torch.Tensor)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, x * x, rtol=0, atol=1e-2 + 1e-6)


# Refusals


@pytest.mark.slow
def test_errors_that_float64_does_not_reach_are_refused() -> None:
    with pytest.raises(ValueError, match=r"error = 1e-17: must be at least .* float64"):
        approximate(SQUARE, (-1.0, 1.0), 1e-17)
    with pytest.raises(ValueError, match=r"error = 0\.0001: must be at least"):
        approximate(step_size(0.1), (0.0, 20.0), 1e-4, "uniform")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: approximate(SQUARE, (-1.0, 1.0), 0.0), "error = 0"),
        (lambda: approximate(SQUARE, (-1.0, 1.0), math.nan), "error = nan"),
        (lambda: approximate(SQUARE, (1.0, 1.0), 0.1), "interval = "),
        (lambda: approximate(SQUARE, (0.0, math.inf), 0.1), "interval = inf"),
        (lambda: approximate(SQUARE, (0.0, 1.0), 0.1, "spline"), "scheme = 'spline'"),
        (lambda: interpolate(SQUARE, (0.0, 1.0), 0), "pieces = 0"),
        (lambda: product((1.0, 0.0), 1.0, 0.1), "x_interval = "),
        (lambda: product((0.0, 1.0), 0.0, 0.1), "y_bound = 0"),
        (lambda: product((0.0, 1.0), 1.0, -1.0), "error = -1"),
        (lambda: step_size(0.0), "mu = 0"),
        (lambda: PiecewiseLinear(np.array([0.0, 0.0]), np.zeros(2)), "knots"),
        (lambda: PiecewiseLinear(np.array([0.0]), np.zeros(1)), "knots"),
        (lambda: PiecewiseLinear(np.array([0.0, 1.0]), np.zeros(3)), "values"),
        (lambda: interpolate(SQUARE, (0.0, 1.0), 3)(np.array([np.nan])), "z contains NaN"),
        (lambda: product((0.0, 1.0), 1.0, 0.1)(np.array([np.nan]), np.zeros(1)), "x contains NaN"),
        (lambda: interpolate(SQUARE, (0.0, 1.0), 3).units()(np.array([np.inf])), "row 0 contains NaN"),
    ],
)
def test_refusals_name_the_parameter(call: Callable[[], PiecewiseLinear | Product | Units], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
