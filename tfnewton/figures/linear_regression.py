"""Linear regression in context: errors by depth, layers by condition number, predictions on real data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.checks import Array
from tfnewton.figures.style import BOUND, CONSTRUCTED, PRINTED, REFERENCE, finish, label, panels, slope_triangle

__all__ = ["errors_by_depth", "layers_by_condition", "predictions_by_depth"]

_FLOOR = 1e-17  # below float64's resolution: where an error of exactly zero is drawn
_DOTS: dict[str, Any] = CONSTRUCTED | {"linestyle": "none"}  # on top of the curve that they should meet
_HOLLOW: dict[str, Any] = CONSTRUCTED | {"markerfacecolor": "white", "linestyle": "none"}

Curve = tuple[Array, Array]


def errors_by_depth(newton: Curve, direct: Curve, bound: Curve, descent: Curve, printed: Curve) -> Figure:
    """Return the error of the weights against the number of layers, on a logarithmic axis.

    Each curve is (layers, errors), two arrays of the same length: the Newton transformer, the same iteration
    computed directly, the proved bound, the gradient-descent transformer and the update with the printed sign.
    """
    figure, (ax,) = panels(height=3.8)
    for (x, y), style in ((bound, BOUND), (direct, REFERENCE), (newton, _DOTS), (descent, _HOLLOW), (printed, PRINTED)):
        ax.plot(x, _shown(y), **style)
    ax.set(yscale="log", ylim=(_FLOOR / 2, 1e4), xlabel="layers", ylabel=r"relative error $\|w-w_*\|\,/\,\|w_*\|$")
    ax.set_xlim(right=1.3 * max(descent[0]))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _name(ax, descent, "gradient\ndescent", CONSTRUCTED, -1, (8, 0), va="center")
    _name(ax, printed, "printed\nsign", PRINTED, _last_below(printed, 1e4), (8, 0), va="center")
    cliff = _first_below(newton, 1e-5)
    _name(
        ax,
        newton,
        "Newton: transformer (dots),\ndirect iterate (dashes)",
        CONSTRUCTED,
        cliff,
        (-12, 0),
        ha="right",
        va="top",
    )
    _name(ax, bound, "proved", BOUND, cliff, (6, 0))
    return finish(figure)


def layers_by_condition(newton: Curve, descent: Curve, newton_predicted: Curve, descent_predicted: Curve) -> Figure:
    """Return the number of layers that a fixed accuracy takes against the condition number, both logarithmic.

    Each curve is (condition numbers of A^T A, layers): measured with the two constructed transformers, then predicted.
    """
    figure, (ax,) = panels(height=3.8)
    for predicted in (newton_predicted, descent_predicted):
        ax.plot(*predicted, **BOUND)
    ax.plot(*newton, **_DOTS)
    ax.plot(*descent, **_HOLLOW)
    ax.set(xscale="log", yscale="log", xlabel=r"condition number $\kappa(A^T A)$", ylabel="layers needed")
    _name(ax, newton, "Newton", CONSTRUCTED, -1, (0, 8), ha="right")
    _name(ax, descent, "gradient descent", CONSTRUCTED, len(descent[0]) // 2, (-10, 4), ha="right")
    _name(ax, descent_predicted, "predicted", BOUND, -1, (-10, -2), ha="right")
    slope_triangle(ax, 200.0, 400.0, 1.0, factor=3.0)
    return finish(figure)


def predictions_by_depth(
    layers: Array, gaps: Mapping[str, Array], bounds: Mapping[str, Array], scores: Mapping[str, Array], limit: float
) -> Figure:
    """Return two panels, one above the other, on predictions of held-out rows by transformers of growing depth.

    Args:
        layers: the depths.
        gaps: for up to three named transformers, the largest difference from the limit's predictions at these depths.
        bounds: the proved bound on each gap.
        scores: the coefficient of determination R^2 of each on the held-out rows.
        limit: R^2 of least squares.
    """
    figure, (above, below) = panels(rows=2, height=3.2, sharex=True)
    for (name, gap), marker in zip(gaps.items(), "o^D", strict=False):
        style = CONSTRUCTED | {"marker": marker}
        above.plot(layers, _shown(bounds[name]), **BOUND)
        above.plot(layers, _shown(gap), **(style | {"linestyle": "none"}))
        _name(above, (layers, gap), name, style, _first_below((layers, gap), 1e-3), (-10, -4), ha="right", va="top")
        below.plot(layers, scores[name], **style)
    above.set(yscale="log", ylabel="largest difference", ylim=(1e-14, None))
    below.axhline(limit, **REFERENCE)
    label(below, float(layers[-1]), limit, "least squares", REFERENCE, ha="right", va="top", xytext=(0, -6))
    below.set(xlabel="layers", ylabel=r"held-out $R^2$")
    return finish(figure)


def _shown(errors: Array) -> np.ndarray:
    return np.asarray(np.clip(errors, _FLOOR, None), dtype=float)


def _last_below(curve: Curve, ceiling: float) -> int:
    return int(np.flatnonzero(np.asarray(curve[1]) < ceiling)[-1])


def _first_below(curve: Curve, level: float) -> int:
    below = np.flatnonzero(np.asarray(curve[1]) < level)
    return int(below[0]) if below.size else len(curve[1]) - 1


def _name(
    ax: Axes, curve: Curve, text: str, style: dict[str, Any], at: int, offset: tuple[int, int], **options: Any
) -> None:
    x, y = float(curve[0][at]), float(_shown(curve[1])[at])
    label(ax, x, y, text, style, xytext=offset, **options)
