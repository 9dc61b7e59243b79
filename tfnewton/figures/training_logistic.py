"""What training finds for logistic regression: layers against Newton steps, errors of the weights, other prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from tfnewton.figures.style import (
    BOUND,
    CONSTRUCTED,
    PRINTED,
    REFERENCE,
    TRAINED,
    finish,
    label,
    outer_labels,
    panels,
    runs_by_depth,
)

__all__ = ["layers_and_steps", "other_prompts", "weight_errors"]

Runs = Mapping[int, Sequence[float]]  # a value of each run by number of layers
Curve = Mapping[float, float]

_FLOOR = 1e-5  # of a gap in the figure: Newton's method goes on to roundoff


def layers_and_steps(
    losses: Runs,
    longer: Runs,
    newton: Sequence[float],
    prices: tuple[int, int],
    constructed: tuple[int, Sequence[float]],
) -> Figure:
    """Return two panels against the number of layers: the logistic loss, and how far it is above the least.

    Args:
        losses: mean loss of the weights that trained encoders predict.
        longer: the same of encoders that were trained for more steps, hollow in the right panel.
        newton: mean loss after 0, 1, ... damped Newton steps, the last one the least possible.
        prices: layers a step by the paper's figure, and by the theorem for rows of norm one.
        constructed: layers a step of the construction that was run on these prompts, and its gap after 0, 1, ... steps.
    """
    figure, (left, right) = panels(columns=2, width=4.8, height=3.9)
    least, diamonds = newton[-1], REFERENCE | {"marker": "D", "markersize": 4.0}
    gaps, longer_gaps = ({L: [loss - least for loss in of] for L, of in runs.items()} for runs in (losses, longer))
    for ax, runs, curve in ((left, losses, list(newton)), (right, gaps, [loss - least for loss in newton])):
        for layers, style in zip(prices, (PRINTED, diamonds), strict=True):
            _steps(ax, curve, layers, style)
        runs_by_depth(ax, runs, TRAINED)
        first = min(runs)
        label(ax, first, float(np.median(runs[first])), "trained", TRAINED, va="bottom", xytext=(6, 4))
        ax.set(xscale="log", xlabel="layers")
    for depth, of in longer_gaps.items():
        right.plot([depth] * len(of), of, **(TRAINED | {"linestyle": "none", "markerfacecolor": "white"}))
    if longer:
        label(right, max(longer), longer_gaps[max(longer)][0], "trained longer", TRAINED, va="top", xytext=(6, -2))
    _steps(right, constructed[1], constructed[0], CONSTRUCTED | {"markersize": 2.5})
    left.axhline(least, **BOUND)
    left.set(ylabel="logistic loss", ylim=(0.0, None))
    right.set(ylabel="loss above the least", yscale="log", ylim=(_FLOOR, 3.0))
    label(left, 1.0, least, "least loss", {"color": "black"}, va="top", xytext=(-2, -4))
    label(left, prices[0], newton[1], f"{prices[0]} a step", PRINTED, ha="right", va="top", xytext=(-8, -2))
    label(left, prices[1], newton[1], f"{prices[1]} a step", REFERENCE, va="bottom", xytext=(4, 2))
    label(right, constructed[0], constructed[1][1], "construction, run", CONSTRUCTED, va="bottom", xytext=(-10, 8))
    return finish(figure)


def weight_errors(
    runs: Runs, squared: np.ndarray, excess: np.ndarray, curvature: tuple[float, float], name: str
) -> Figure:
    """Return two panels: relative error of the predicted weights by depth, and excess loss against squared error.

    Args:
        runs: squared error of the weights over the mean square of the target.
        squared, excess: of one model, ||w - w*||^2 and f(w) - f(w*), a prompt each, (B,).
        curvature: least and largest eigenvalue that bounds the Hessians; the lines are half of it times ``squared``.
        name: of that model.
    """
    figure, (left, right) = panels(columns=2, width=4.8, height=3.7)
    runs_by_depth(left, runs, TRAINED)
    left.set(xscale="log", yscale="log", xlabel="layers", ylabel="relative squared error of the weights")
    right.plot(squared, excess, **(TRAINED | {"linestyle": "none", "markersize": 2.0, "alpha": 0.4}))
    ends = np.array([squared.min(), squared.max()])
    # the names stand outside of both lines, which may lie close together
    sides: tuple[tuple[float, str, dict[str, Any]], ...] = (
        (0.6, r"slope $\mu/2$", {"ha": "left", "va": "top", "xytext": (4, -4)}),
        (0.4, r"slope $U/2$", {"ha": "right", "va": "bottom", "xytext": (-4, 4)}),
    )
    for value, (along, text, side) in zip(curvature, sides, strict=True):
        right.plot(ends, value / 2.0 * ends, **BOUND)
        at = float(ends[0] ** (1.0 - along) * ends[1] ** along)
        label(right, at, value / 2.0 * at, text, {"color": "black"}, **side)
    right.set(xscale="log", yscale="log", xlabel=r"squared error $\|w - w^*\|^2$", ylabel="loss above the least")
    right.set_title(name, fontsize=11)
    _whole_decades(right.xaxis)
    _whole_decades(right.yaxis)
    return finish(figure)


def other_prompts(gaps: Mapping[str, Curve], trained_at: Mapping[str, float], untold: tuple[str, Curve]) -> Figure:
    """Return a panel a change of the prompts: mean loss above the least of a trained encoder.

    Args:
        gaps: by the name of what is changed, the gap at each value.
        trained_at: the value at which the encoder was trained, a thin vertical line.
        untold: the panel, by its name, that has a second curve: the gap of the exact weights of the training penalty.
    """
    figure, axes = panels(columns=2, rows=(len(gaps) + 1) // 2, width=4.4, height=2.9, sharey=True)
    drawn = [gap for curve in gaps.values() for gap in curve.values()]
    ends = (untold[1][end] for end in (min(untold[1]), max(untold[1])))
    drawn += [gap for gap in ends if gap > 0.0]  # between them the curve may fall to zero
    low, high = min(drawn) / 6.0, 2.0 * max(drawn)
    for ax, (name, curve) in zip(axes, gaps.items(), strict=False):
        if name == untold[0]:
            first = min(untold[1])
            _line(ax, {value: max(gap, low / 10.0) for value, gap in untold[1].items()}, REFERENCE)
            label(ax, first, untold[1][first], "exact", REFERENCE, va="top", xytext=(0, -18))
        _line(ax, curve, TRAINED)
        ax.axvline(trained_at[name], **BOUND)
        ax.set(yscale="log", ylim=(low, high), xlabel=name, xscale="linear" if min(curve) == 0.0 else "log")
        _whole_decades(ax.yaxis)
    outer_labels(axes, len(gaps), None, "loss above the least")
    return finish(figure)


def _steps(ax: Axes, values: Sequence[float], layers: int, style: dict[str, Any]) -> None:
    """Draw the value after each step from the first at ``layers`` layers a step, as far as it is above the floor."""
    drawn = [(layers * t, value) for t, value in enumerate(values) if t and value > _FLOOR]
    ax.plot([x for x, _ in drawn], [y for _, y in drawn], **style)


def _whole_decades(axis: Axis) -> None:
    """Have a logarithmic axis that spans less than two decades begin and end at powers of ten; only these are named."""
    low, high = axis.get_view_interval()
    if high < 100.0 * low:
        axis.set_view_interval(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)), ignore=True)
    axis.set_minor_formatter(NullFormatter())


def _line(ax: Axes, curve: Curve, style: dict[str, Any]) -> None:
    values = sorted(curve)
    ax.plot(values, [curve[value] for value in values], **style)
