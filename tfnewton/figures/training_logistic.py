"""What training finds for logistic regression: layers against Newton steps, errors of the weights, other prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    losses: Runs, newton: Sequence[float], printed: int, layers: int, constructed: tuple[int, Sequence[float]]
) -> Figure:
    """Return two panels against the number of layers: the logistic loss, and how far it is above the least.

    Args:
        losses: mean loss of the weights that trained encoders predict.
        newton: mean loss after 0, 1, ... damped Newton steps, the last one the least possible.
        printed: layers a step by the paper's figure.
        layers: layers a step by the theorem, for rows of norm one.
        constructed: layers a step of the construction that was run on these prompts, and its gap after 0, 1, ... steps.
    """
    figure, (left, right) = panels(columns=2, width=4.8, height=3.9)
    least = newton[-1]
    gaps = {depth: [loss - least for loss in of] for depth, of in losses.items()}
    for ax, runs, curve in ((left, losses, list(newton)), (right, gaps, [loss - least for loss in newton])):
        _steps(ax, curve, printed, PRINTED, floor=_FLOOR)
        _steps(ax, curve, layers, REFERENCE | {"marker": "D", "markersize": 4.0}, floor=_FLOOR)
        runs_by_depth(ax, runs, TRAINED)
        ax.set(xscale="log", xlabel="layers")
    _steps(right, constructed[1], constructed[0], CONSTRUCTED | {"markersize": 2.5}, floor=_FLOOR)
    left.axhline(least, **BOUND)
    left.set(ylabel="logistic loss", ylim=(0.0, None))
    right.set(ylabel="loss above the least", yscale="log", ylim=(_FLOOR, 3.0))
    label(left, 1.0, least, "least loss", {"color": "black"}, va="top", xytext=(-2, -4))
    label(left, printed, newton[1], f"{printed} a step", PRINTED, ha="right", va="top", xytext=(-4, -2))
    label(left, layers, newton[1], f"{layers} a step", REFERENCE, va="bottom", xytext=(4, 2))
    first = min(losses)
    label(left, first, float(np.median(losses[first])), "trained", TRAINED, va="bottom", xytext=(6, 4))
    label(right, first, float(np.median(gaps[first])), "trained", TRAINED, va="bottom", xytext=(6, 4))
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
    figure, (left, right) = panels(columns=2, width=4.6, height=3.7)
    runs_by_depth(left, runs, TRAINED)
    left.set(xscale="log", yscale="log", xlabel="layers", ylabel="relative squared error of the weights")
    right.plot(squared, excess, **(TRAINED | {"linestyle": "none", "markersize": 2.0, "alpha": 0.4}))
    ends = np.array([squared.min(), squared.max()])
    middle = float(np.sqrt(ends[0] * ends[1]))
    sides: tuple[dict[str, Any], ...] = (
        {"ha": "left", "va": "top", "xytext": (4, -4)},
        {"ha": "right", "va": "bottom", "xytext": (-4, 4)},
    )
    for value, text, side in zip(curvature, (r"slope $\mu/2$", r"slope $U/2$"), sides, strict=True):
        right.plot(ends, value / 2.0 * ends, **BOUND)
        label(right, middle, value / 2.0 * middle, text, {"color": "black"}, **side)
    right.set(xscale="log", yscale="log", xlabel=r"squared error $\|w - w^*\|^2$", ylabel="loss above the least")
    right.set_title(name, fontsize=11)
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
    low, high = min(drawn) / 2.0, 2.0 * max(drawn)
    for ax, (name, curve) in zip(axes, gaps.items(), strict=False):
        if name == untold[0]:
            first = min(untold[1])
            _line(ax, {value: max(gap, low / 10.0) for value, gap in untold[1].items()}, REFERENCE)
            label(ax, first, untold[1][first], "exact", REFERENCE, va="top", xytext=(0, -18))
        _line(ax, curve, TRAINED)
        ax.axvline(trained_at[name], **BOUND)
        ax.set(yscale="log", ylim=(low, high), xlabel=name, xscale="linear" if min(curve) == 0.0 else "log")
    outer_labels(axes, len(gaps), None, "loss above the least")
    return finish(figure)


def _steps(ax: Axes, values: Sequence[float], layers: int, style: dict[str, Any], floor: float) -> None:
    """Draw the value after each step from the first at ``layers`` layers a step, as far as it is above ``floor``."""
    drawn = [(layers * t, value) for t, value in enumerate(values) if t and value > floor]
    ax.plot([x for x, _ in drawn], [y for _, y in drawn], **style)


def _line(ax: Axes, curve: Curve, style: dict[str, Any]) -> None:
    values = sorted(curve)
    ax.plot(values, [curve[value] for value in values], **style)
