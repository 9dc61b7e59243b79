"""Every door of the package, tried with what users bring by mistake: masks, empty and foreign arrays, wrong flags."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tfnewton.algorithms import inversion, linear_regression, logistic_regression
from tfnewton.approximation.curves import PROBABILITY, VARIANCE
from tfnewton.approximation.knots import approximate, interpolate, product, width_constant
from tfnewton.approximation.units import PiecewiseLinear
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.constructions.logistic_regression import budget_for, damped_newton, predict, scale_rows
from tfnewton.model.attention import AttentionOptions
from tfnewton.model.layout import Layout
from tfnewton.theory.error_budget import error_budget
from tfnewton.theory.width import inversion_residual, printed_main_relu_width, printed_relu_width

Call = Callable[[Any], object]
A, Y = np.array([[0.5, 0.1], [0.2, -0.4], [0.3, 0.3]]), np.array([1.0, -1.0, 1.0])
SQUARE = A[:2] + np.eye(2)
INVERSE, DESCENT, REGRESSION = newton_schulz(2, 1), gradient_descent(2, 1, 0.1), least_squares(2, 1, 0.1)
LOGISTIC = damped_newton(2, 3, 1.0, 1, 0.05)

# each takes its array in one place; the array is one that is right there
DOORS: dict[str, tuple[Call, np.ndarray]] = {
    "newton_schulz A": (lambda v: inversion.newton_schulz(v, 2), SQUARE),
    "newton_schulz X0": (lambda v: inversion.newton_schulz(SQUARE, 2, X0=v), 0.1 * SQUARE),
    "initial": (inversion.initial, SQUARE),
    "least_squares A": (lambda v: linear_regression.least_squares(v, Y), A),
    "least_squares y": (lambda v: linear_regression.least_squares(A, v), Y),
    "newton_least_squares": (lambda v: linear_regression.newton_least_squares(v, Y, 2, 0.1), A),
    "gradient_descent A": (lambda v: linear_regression.gradient_descent(v, Y, 2, 0.1), A),
    "gradient_descent w0": (lambda v: linear_regression.gradient_descent(A, Y, 2, 0.1, v), np.ones(2)),
    "conjugate_gradients": (lambda v: linear_regression.conjugate_gradients(v, Y, 2), A),
    "chebyshev_iteration": (lambda v: linear_regression.chebyshev_iteration(A, Y, 2, v), np.array([0.1, 1.0])),
    "GD++": (lambda v: linear_regression.gradient_descent_plus_plus(A, v, [0.1], []), Y),
    "loss": (lambda v: logistic_regression.loss(v, A, Y, 0.1), np.ones(2)),
    "gradient": (lambda v: logistic_regression.gradient(np.ones(2), v, Y, 0.1), A),
    "hessian": (lambda v: logistic_regression.hessian(np.ones(2), v, Y, 0.1), A),
    "newton_decrement": (lambda v: logistic_regression.newton_decrement(np.ones(2), A, v, 0.1), Y),
    "damped_newton": (lambda v: logistic_regression.damped_newton(v, Y, 0.1, 2), A),
    "damped_newton errors": (lambda v: logistic_regression.damped_newton(A, Y, 0.1, 2, errors=v), np.zeros((2, 2))),
    "minimize": (lambda v: logistic_regression.minimize(v, Y, 0.1), A),
    "scale_rows": (scale_rows, A),
    "predict": (lambda v: predict(np.ones(2), v), A),
    "transformer": (INVERSE, np.asarray(INVERSE.pack(SQUARE, SQUARE))),
    "trace": (INVERSE.trace, np.asarray(INVERSE.pack(SQUARE, SQUARE))),
    "unpack": (INVERSE.unpack, np.asarray(INVERSE.pack(SQUARE, SQUARE))),
    "pack inversion": (lambda v: INVERSE.pack(v, SQUARE), SQUARE),
    "pack descent": (lambda v: DESCENT.pack(v, Y), A),
    "pack regression": (lambda v: REGRESSION.pack(A, v, np.ones(2)), Y),
    "pack logistic": (lambda v: LOGISTIC.pack(v, Y), A),
    "knots": (lambda v: PiecewiseLinear(v, np.zeros(2)), np.arange(2.0)),
    "piecewise": (lambda v: PiecewiseLinear(np.arange(2.0), np.zeros(2))(v), Y),
    "units": (lambda v: PiecewiseLinear(np.arange(2.0), np.ones(2)).units()(v), Y),
}


def masked_tensor(value: np.ndarray) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls them a prototype
        mask = torch.ones(value.shape, dtype=torch.bool)
        return torch.masked.MaskedTensor(torch.tensor(value), mask)  # type: ignore[no-untyped-call]


def masked(value: np.ndarray) -> np.ma.MaskedArray:
    mask = np.zeros(value.shape, dtype=bool)
    mask.flat[0] = True
    return np.ma.MaskedArray(value, mask)


FOREIGN: dict[str, Callable[[np.ndarray], object]] = {
    "masked": masked,
    "masked, nothing hidden": lambda v: np.ma.MaskedArray(v),
    "list of masked rows": lambda v: [masked(row) for row in v] if v.ndim > 1 else [np.ma.masked, *v[1:]],
    "masked tensor": masked_tensor,
    "sparse": lambda v: torch.tensor(v).to_sparse(),
    "meta": lambda v: torch.tensor(v).to("meta"),
    "complex": lambda v: v.astype(complex),
    "strings": lambda v: v.astype(str),
    "booleans": lambda v: v.astype(bool),
    "objects": lambda v: v.astype(object),
}
EMPTY: dict[str, Callable[[np.ndarray], object]] = {
    "empty batch": lambda v: np.zeros((0, *v.shape)),
    "empty batch of a batch": lambda v: np.zeros((2, 0, *v.shape)),
    "empty tensor": lambda v: torch.zeros((0, *v.shape), dtype=torch.float64),
    "empty axis": lambda v: np.zeros((*v.shape[:-1], 0)),
    "NaN": lambda v: np.where(np.arange(v.size).reshape(v.shape) == 0, np.nan, v),
    "infinite": lambda v: np.where(np.arange(v.size).reshape(v.shape) == 0, -np.inf, v),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_right_array_passes(door: str) -> None:
    call, value = DOORS[door]
    call(value)


@pytest.mark.filterwarnings("ignore:.*Sparse:UserWarning")
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("door", DOORS)
def test_foreign_arrays_are_refused_by_name(door: str, kind: str) -> None:
    call, value = DOORS[door]
    with pytest.raises(TypeError, match=r"^[\w ]+ (is|has|=) .*: must be|^H has dtype"):
        call(FOREIGN[kind](value))


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("door", DOORS)
def test_empty_arrays_and_what_is_not_finite_are_refused_by_name(door: str, kind: str) -> None:
    call, value = DOORS[door]
    if door == "unpack" and kind in ("NaN", "infinite"):
        return  # it reads what a transformer gave
    with pytest.raises(ValueError, match=r"(has shape .*: must be|contains NaN or infinity)"):
        call(EMPTY[kind](value))


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "interval None": (lambda: interpolate(PROBABILITY, None, 3), TypeError, "interval = None: must be (a, b)"),  # type: ignore[arg-type]
    "interval of three": (lambda: width_constant(VARIANCE, (0, 1, 2)), TypeError, "interval = (0, 1, 2): must be"),  # type: ignore[arg-type]
    "interval reversed": (lambda: approximate(VARIANCE, (1.0, 0.0), 0.1), ValueError, "interval = (1.0, 0.0): must be"),
    "x_interval": (lambda: product(1.0, 1.0, 0.1), TypeError, "x_interval = 1.0: must be (a, b)"),  # type: ignore[arg-type]
    "NaN values": (lambda: PiecewiseLinear(np.arange(2.0), np.array([0.0, np.nan])), ValueError, "values contains NaN"),
    "infinite knots": (lambda: PiecewiseLinear(np.array([0.0, np.inf]), np.zeros(2)), ValueError, "knots contains NaN"),
    "error": (lambda: damped_newton(2, 3, 0.1, 1, 1e300), ValueError, "error = 1e+300: must be a finite number"),
    "mu": (lambda: damped_newton(2, 3, 1e300, 1), ValueError, "mu = 1e+300: must be a finite number"),
    "small mu": (lambda: error_budget(2, 1e-300, 0.1), ValueError, "mu = 1e-300: must be a finite number"),
    "relu_width": (lambda: budget_for(2, 100.0, 3), ValueError, "relu_width = 3: must be at least"),
    "symmetric": (lambda: newton_schulz(3, 1, "no"), TypeError, "symmetric = 'no': must be True or False"),  # type: ignore[arg-type]
    "NaN factor": (lambda: float("nan") * Layout(X=2)["X"], ValueError, "factor of X = nan: must be a finite number"),
    "infinite factor": (lambda: 1e999 * Layout(X=2)["X"], ValueError, "factor of X = inf: must be a finite number"),
    "factor of text": (lambda: "2" * Layout(X=2)["X"], TypeError, "factor of X = '2': must be a finite number"),  # type: ignore[operator]
    "average": (lambda: AttentionOptions(average="yes"), TypeError, "average = 'yes': must be True or False"),  # type: ignore[arg-type]
    "clip": (lambda: AttentionOptions(clip=-1.0), ValueError, "clip = -1.0: must be a finite number and above 0"),
    "layer_norm": (lambda: AttentionOptions(layer_norm=0.0), ValueError, "layer_norm = 0.0: must be a finite number"),
    "few tokens": (lambda: INVERSE(np.ones((8, 1))), ValueError, "H has n = 1 tokens: must be at least 2"),
    "few tokens to unpack": (lambda: LOGISTIC.unpack(np.ones((16, 1))), ValueError, "H has n = 1 tokens: must be at"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_what_is_wrong(name: str) -> None:
    call, kind, message = REFUSED[name]
    with pytest.raises(kind) as refusal:
        call()
    assert message in str(refusal.value)


def test_numbers_beyond_float_are_limits_and_no_error() -> None:
    assert inversion_residual(0.1, 2000) == 0.0
    assert inversion_residual(0.1, 3) == pytest.approx(((12.25 - 1) / (12.25 + 1)) ** 8, rel=1e-12)
    assert printed_relu_width(3, 0.1, 1e-100) == np.inf
    assert printed_main_relu_width(3, 0.1, 1e-100) == np.inf
    assert printed_relu_width(3, 0.1, 0.01) == pytest.approx(3 * 1.1**8 / (1e-8 * 1e-10), rel=1e-12)


def test_the_largest_errors() -> None:
    error_budget(2, 0.1, 3.0, radius=3.0)
    with pytest.raises(ValueError, match="error"):
        error_budget(2, 0.1, 3.03, radius=3.0)
    damped_newton(2, 3, 0.1, error=1.99)
    with pytest.raises(ValueError, match=r"error = 2\.0: must be a finite number and at least 0 and below 2"):
        damped_newton(2, 3, 0.1, error=2.0)


def test_knots_that_coincide_in_single_precision() -> None:
    steep = PiecewiseLinear(np.array([0.0, 1.0, 1.0 + 1e-12, 2.0]), np.array([0.0, 1.0, 3.0, 4.0]))
    z = np.linspace(-1, 3, 41, dtype=np.float32)
    result = np.asarray(steep(z))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.interp(z.astype(float), steep.knots, steep.values), rtol=1e-6)
