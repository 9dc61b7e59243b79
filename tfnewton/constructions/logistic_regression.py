"""Damped Newton steps for logistic regression as a transformer with linear attention and ReLU layers (thm:logistic)."""

from __future__ import annotations

import math

import torch

from tfnewton.checks import Array, finite, integer, like, real, tensor
from tfnewton.constructions.damped_newton_step import Blocks, Step
from tfnewton.model.layout import Layout
from tfnewton.model.packing import Input, Output, Packing
from tfnewton.model.transformer import Transformer
from tfnewton.scaling import exponent, times_two_to
from tfnewton.theory.error_budget import (
    LARGEST_MU,
    LEAST_MU,
    ErrorBudget,
    ReluLayers,
    error_budget,
    sublevel_radius,
)
from tfnewton.theory.radii import iterate_radius

__all__ = ["budget_for", "damped_newton", "largest_iterate", "predict", "scale_rows"]


def damped_newton(
    d: int,
    n: int,
    mu: float,
    steps: int = 1,
    error: float = 1e-3,
    *,
    inversion_steps: int | None = None,
    relu_width: int | None = None,
    scheme: str = "curvature",
) -> Transformer:
    """Return the transformer that takes ``steps`` damped Newton steps on the regularised logistic loss.

    Each step is x <- x - eta H^-1 g, eta = 2 sqrt(mu)/(2 sqrt(mu) + lambda_f(x)), up to an error of 2-norm at most
    ``error``, from every x of norm at most ``largest_iterate(mu, error)``, a ball that such steps do not leave: the
    bound holds for every step, however many. A step has 11 + 2k layers, k Newton-Schulz steps for the inverse, at most
    3 heads, 6d + 4 rows; all rows but x come back as they were, so the same layers serve every step.

    Args:
        d, n: features and samples, n >= d >= 1; the weights depend on both.
        mu: penalty of (1/n) sum log(1 + exp(-y_i a_i x)) + (mu/2)||x||^2, from 1e-9 to 1e12.
        steps: damped Newton steps T, at least 0.
        error: bound on the 2-norm error of each step, above 0 and below 2, where no ball would hold the iterates.
        inversion_steps: k, at least 0; the error's own where not given. Fewer void the promise.
        relu_width: units of the widest ReLU layer, in place of ``error``: the smallest error is taken that fits.
        scheme: placement of knots, a name in ``tfnewton.approximation.knots.SCHEMES``.

    ``pack(A, y, x0)`` takes A of shape (n, d) with rows of norm at most 1 (asm:bounded; see ``scale_rows``), labels
    y of shape (n,) in {-1, 1} and an optional x0 of shape (d,), zero by default, of norm at most sqrt(2 ln 2/mu),
    a ball that holds the minimiser; ``unpack(H)["x"]`` has shape (d,).

    Raises TypeError or ValueError naming the argument. Source: thm:logistic, corrected where its proof slips.
    """
    d, steps = integer("d", d, minimum=1), integer("steps", steps, minimum=0)
    n, mu = integer("n", n, minimum=1), real("mu", mu, minimum=LEAST_MU, maximum=LARGEST_MU)
    if n < d:
        raise ValueError(f"n = {n}: must be at least d = {d}, the identity block needs d tokens")
    budget = _budget(d, mu, error) if relu_width is None else budget_for(d, mu, relu_width, scheme)
    k = budget.inversion_steps if inversion_steps is None else integer("inversion_steps", inversion_steps, minimum=0)
    blocks = Blocks(*Layout(X=d, B=d, I=d, S=d, A_T=d, x=d, y=1, mean=1, s=1, ones=1).blocks)
    one_step = Step(blocks, n, budget, budget.layers(scheme)).layers(k)
    return Transformer(blocks.layout(), one_step * steps, _packing(d, n, mu))


def largest_iterate(mu: float, error: float) -> float:
    """Return max{C, R_e}, C = sqrt(2 ln 2/mu), R_e = (1 + 2e(1 + mu)/(2 - e))/mu: no step of error e leaves this ball.

    Every iterate from ||x0|| <= C is in it, whatever the errors of the steps, if each has a norm of at most e =
    ``error`` below 2 (lem:norm_constraint, corrected): so it is where the functions of a step are approximated.
    """
    return iterate_radius(mu, error, sublevel_radius(mu))


def _budget(d: int, mu: float, error: float) -> ErrorBudget:
    return error_budget(d, mu, error, radius=largest_iterate(mu, error))


def _packing(d: int, n: int, mu: float) -> Packing:
    return Packing(
        sizes={"d": d, "n": n},
        tokens="n",
        inputs=(
            Input(name="A", shape=("n", "d"), block="A_T", place="transposed", largest_norm=1.0),
            Input(name="y", shape=("n",), block="y", place="row", allowed=(-1.0, 1.0)),
            Input(name="x0", shape=("d",), block="x", place="repeated", default=0.0, largest_norm=sublevel_radius(mu)),
        ),
        constants={"X": "identity", "B": "identity", "I": "identity", "mean": "mean", "ones": "ones"},
        outputs=(Output(name="x", shape=("d",), block="x", place="column"),),
    )


def budget_for(d: int, mu: float, relu_width: int, scheme: str = "curvature") -> ErrorBudget:
    """Return the budget of smallest error (to 10 percent) whose widest ReLU layer has at most ``relu_width`` units.

    Raises ValueError where even an error of 1 needs more units.
    """
    relu_width = integer("relu_width", relu_width, minimum=1)

    def units(error: float) -> int:
        return _widest(_budget(d, mu, error).layers(scheme), d)

    high = 1.0
    if units(high) > relu_width:
        raise ValueError(f"relu_width = {relu_width}: must be at least {units(high)}, which an error of {high:g} needs")
    low = high / 4.0
    while units(low) <= relu_width:
        low, high = low / 4.0, low
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if units(middle) <= relu_width else (middle, high)
    return _budget(d, mu, high)


def _widest(relu: ReluLayers, d: int) -> int:
    """Return the units of the widest layer, those that erase a row or an identity included."""
    narrow = max(2 * relu.probability.width, relu.variance.width, relu.step_size.width)
    return int(max(narrow + 2, d * (relu.product.width + 1) + 2))


def predict(x: Array, a_test: Array) -> Array:
    """Return the probability of label 1 at test points: sigma(a_test x), shapes (..., d) and (..., m, d) to (..., m).

    Raises TypeError or ValueError for arrays of other shapes or with NaN.
    """
    sizes: dict[str, int] = {}
    points, weights = tensor("a_test", a_test, ("m", "d"), sizes), tensor("x", x, ("d",), sizes)
    margins = finite("a_test x", (points @ weights.unsqueeze(-1)).squeeze(-1), "a_test and x are too large")
    return like(torch.sigmoid(margins), x, a_test)


def scale_rows(A: Array) -> tuple[Array, float]:
    """Return A divided by its largest row norm where that exceeds 1, as asm:bounded asks, and the divisor."""
    rows = tensor("A", A, ("n", "d"))
    k = exponent(rows, rows.ndim)
    scaled = times_two_to(rows, -k)  # its squares neither overflow nor underflow
    longest = torch.linalg.vector_norm(scaled.double(), dim=-1).max().item()
    try:
        divisor = math.ldexp(longest, int(k))
    except OverflowError:
        raise ValueError("A has rows of a norm beyond float64: must be smaller") from None
    return (like(scaled / longest, A), divisor) if divisor > 1.0 else (like(rows, A), 1.0)
