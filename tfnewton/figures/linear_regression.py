"""Linear regression in context: errors by depth, layers by condition number, predictions on real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.checks import Array
from tfnewton.figures.style import BOUND, CONSTRUCTED, PRINTED, REFERENCE, finish, label, panels, slope_triangle

__all__ = ["errors_by_depth", "layers_by_condition", "predictions_by_depth", "roundoff_by_condition"]

_FLOOR = 1e-17  # below float64's resolution: where an error of exactly zero is drawn
_DOTS: dict[str, Any] = CONSTRUCTED | {"linestyle": "none"}  # on top of the curve that they should meet
_HOLLOW: dict[str, Any] = CONSTRUCTED | {"markerfacecolor": "white", "linestyle": "none"}
_DIAMONDS: dict[str, Any] = CONSTRUCTED | {"marker": "D", "markersize": 4.0, "linestyle": ":"}

Curve = tuple[Array, Array]


def errors_by_depth(
    newton: Curve, faster: Curve, direct: Curve, bound: Curve, descent: Curve, printed: Curve
) -> Figure:
    """Return the error of the weights against the number of layers, on a logarithmic axis.

    Each curve is (layers, errors), two arrays of the same length: the Newton transformer, the one with the better
    start, the former's iteration computed directly and its proved bound, the gradient-descent transformer and the
    update with the printed sign.
    """
    figure, (ax,) = panels(height=3.8)
    curves = (bound, BOUND), (direct, REFERENCE), (faster, _DIAMONDS), (newton, _DOTS), (descent, _HOLLOW)
    for (x, y), style in (*curves, (printed, PRINTED)):
        ax.plot(x, _shown(y), **style)
    ax.set(yscale="log", ylim=(_FLOOR / 2, 1e4), xlabel="layers", ylabel=r"relative error $\|w-w_*\|\,/\,\|w_*\|$")
    ax.set_xlim(right=1.3 * max(descent[0]))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _name(ax, descent, "gradient\ndescent", CONSTRUCTED, -1, (8, 0), va="center")
    _name(ax, printed, "printed\nsign", PRINTED, _last_below(printed, 1e4), (8, 0), va="center")
    cliff = _first_below(newton, 1e-5)
    last = cliff == len(newton[0]) - 1  # there the other names stand on the right
    early = float(newton[0][cliff]) < 0.5 * max(descent[0])  # room on the right, and none on the left
    names = "Newton: transformer (dots),\ndirect iterate (dashes);\ntransformer from $cI$ (diamonds)"
    corner = {"ha": "right", "xytext": (0, 0)} if early else {"ha": "left", "xytext": (4, 0)}
    label(ax, float(early), 0.52 if early else 0.15, names, CONSTRUCTED, xycoords="axes fraction", **corner)
    _name(ax, bound, "proved", BOUND, cliff, (-8 if last else 6, 0), ha="right" if last else "left")
    return finish(figure)


def layers_by_condition(
    newton: Curve, descent: Curve, followed: Curve, newton_predicted: Curve, descent_predicted: Curve
) -> Figure:
    """Return the number of layers that a fixed accuracy takes against the condition number, both logarithmic.

    Each curve is (condition numbers of A^T A, layers): measured with the two constructed transformers, that of gradient
    descent followed along the eigenvalues without a transformer, then predicted for the worst case.
    """
    figure, (ax,) = panels(height=3.8)
    ax.plot(*followed, **(REFERENCE | {"marker": "s", "markersize": 4.0}))
    for predicted in (newton_predicted, descent_predicted):
        ax.plot(*predicted, **BOUND)
    ax.plot(*newton, **_DOTS)
    ax.plot(*descent, **_HOLLOW)
    ax.set(xscale="log", yscale="log", xlabel=r"condition number $\kappa(A^T A)$", ylabel="layers needed")
    _name(ax, newton, "Newton", CONSTRUCTED, -1, (0, 8), ha="right")
    _name(ax, descent, "gradient descent", CONSTRUCTED, len(descent[0]) // 2, (-10, 4), ha="right")
    _name(ax, followed, "its recursion", REFERENCE, -1, (-14, -2), ha="right")
    slope_triangle(ax, 200.0, 400.0, 1.0, factor=3.0)
    return finish(figure)


def roundoff_by_condition(left: Mapping[float, Sequence[float]], right: Mapping[float, Sequence[float]]) -> Figure:
    """Return the error that round-off leaves in the weights against the condition number, both logarithmic.

    Args:
        left: by condition number of R, relative errors on several prompts where the iterate is read as X A^T y.
        right: the same where it is read as y^T A X.
    """
    figure, (ax,) = panels(height=3.8)
    named = (left, CONSTRUCTED, r"$X_TA^\top y$", (6, -12)), (right, CONSTRUCTED | _HOLLOW, r"$y^\top AX_T$", (-10, 8))
    for errors, style, name, offset in named:
        kappas, medians = list(errors), [float(np.median(of)) for of in errors.values()]
        ax.plot(kappas, medians, **(style | {"marker": "none", "linestyle": "-"}))
        for kappa, of in errors.items():
            ax.plot([kappa] * len(of), _shown(np.asarray(of)), **(style | {"linestyle": "none", "markersize": 3.5}))
        _name(
            ax, (np.array(kappas), np.array(medians)), name, style, -1, offset, ha="right" if offset[0] < 0 else "left"
        )
    ax.set(xscale="log", yscale="log", xlabel=r"condition number $\kappa(R)$", ylabel="relative error of the weights")
    low, high = min(left), max(left)
    ax.set_xlim(low / 3, high * 40)
    for errors, slope, shift in ((left, 1.0, 0.01), (right, 2.0, 1e4)):
        slope_triangle(ax, 20 * low, shift * 20**slope * float(np.median(errors[low])), slope, factor=10.0)
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
