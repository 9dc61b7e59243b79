"""What training finds: test losses by depth, and the plateau of models whose query is among their own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tfnewton.figures.style import BAND, BOUND, REFERENCE, TRAINED, finish, label, panels, runs_by_depth

__all__ = ["losses_by_depth", "losses_by_examples", "plateau", "rivals_by_depth", "shrinkage"]

Curve = Mapping[int, float]  # loss by number of steps
Runs = Mapping[int, Sequence[float]]  # the loss of each run by number of layers

_STYLES: dict[str, dict[str, Any]] = {  # of trained models, by the name that tables and figures give them
    "query in": TRAINED,
    "query out": TRAINED | {"markerfacecolor": "white"},
    "LayerNorm": TRAINED | {"marker": "^", "markersize": 6.0},
}
_GROUND: dict[str, Any] = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}}
_ABOVE: dict[str, Any] = {"xytext": (6, 4), "va": "bottom", **_GROUND}
_OVER: dict[str, Any] = {"xytext": (0, 7), "va": "bottom", "ha": "right"}
_SIDES = {"query in": _ABOVE, "query out": _ABOVE, "LayerNorm": _OVER | _GROUND}
_CENTRED: dict[str, Any] = {"xytext": (0, 8), "va": "bottom", "ha": "center", **_GROUND}
_LINE = 0.06  # of the height of a panel: a line of words
_CEILING = 1e3  # over the median loss: what runs away leaves the figure
_FLOOR = 1e-6  # of a loss in the figures: Newton's iteration goes on to roundoff


def losses_by_depth(trained: Mapping[str, Runs], references: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """Return one panel a group of ``references``, with the losses of the same trained models in each.

    Args:
        trained: losses of all runs, by "query in", "query out" or "LayerNorm"; the band is their range.
        references: by the name of the panel, the loss of each named algorithm by number of steps.
    """
    figure, axes = panels(columns=len(references), width=4.3, height=3.6, sharey=True)
    for ax, (title, algorithms) in zip(axes, references.items(), strict=True):
        for name, curve in algorithms.items():
            depths = sorted(curve)
            ax.plot(depths, [curve[depth] for depth in depths], **REFERENCE)
            label(ax, *_end(curve), name, REFERENCE, **(_CENTRED if curve[depths[-1]] < _FLOOR else _OVER))
        for name, runs in trained.items():
            runs_by_depth(ax, runs, _STYLES[name])
            _name(ax, runs, name)
        ax.set(yscale="log", ylim=(_FLOOR, None), xlabel="layers or steps")
        ax.set_title(title, fontsize=11)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("trimmed mean of squared errors")
    return finish(figure)


def rivals_by_depth(trained: Mapping[str, Curve], groups: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """Return one panel a group of named algorithms: their loss by steps beside that of the trained models by layers.

    ``trained`` has losses by "query in", "query out" or "LayerNorm". Names stand at the right, at the ends of curves.
    """
    figure, axes = panels(columns=len(groups), width=4.3, height=3.6, sharey=True)
    limits = _limits([*trained.values(), *(curve for of in groups.values() for curve in of.values())])
    for ax, (title, algorithms) in zip(axes, groups.items(), strict=True):
        _curves(ax, trained, algorithms, limits)
        ax.set_title(title, fontsize=11)
        ax.set_xlabel("layers or steps")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("trimmed mean of squared errors")
    return finish(figure)


def losses_by_examples(
    trained: Mapping[str, Curve],
    bands: Mapping[str, Mapping[int, tuple[float, float]]],
    references: Mapping[str, Curve],
    examples: int,
) -> Figure:
    """Return losses as fractions of that of predicting zero against the number of examples, both logarithmic.

    ``trained`` has them by "query in", "query out" or "LayerNorm", ``bands`` the interval about each; ``examples`` is
    their number in training.
    """
    figure, (ax,) = panels(width=6.4, height=4.0)
    ax.axvline(examples, **BOUND)
    _curves(ax, trained, references, _limits([*trained.values(), *references.values()]))
    for name, band in bands.items():
        at = sorted(band)
        low, high = zip(*(band[size] for size in at), strict=True)
        ax.fill_between(at, low, high, color=_STYLES[name]["color"], **BAND)
    sizes = sorted({size for curve in trained.values() for size in curve})
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="examples in the prompt", ylabel="loss / loss of zero, trimmed means")
    return finish(figure)


def _limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return what a figure shows of losses: from the least to the largest, but for roundoff and what runs away."""
    losses = [loss for curve in curves for loss in curve.values() if np.isfinite(loss)]
    middle = max(_FLOOR, float(np.median(losses)))
    return max(_FLOOR, 0.5 * min(losses)), min(2.0 * max(losses), _CEILING * middle)


def _curves(
    ax: Axes, trained: Mapping[str, Curve], references: Mapping[str, Curve], limits: tuple[float, float]
) -> None:
    """Draw curves on a logarithmic axis, and their names at the right, no two on one another."""
    ends = {}
    for name, curve in {**references, **trained}.items():
        steps = sorted(curve)
        ax.plot(steps, [curve[step] for step in steps], **_style(name, trained))
        ends[name] = curve[steps[-1]]
    ax.set(yscale="log", ylim=limits)
    low, high = np.log(limits)
    heights = {name: float((np.log(np.clip(ends[name], *limits)) - low) / (high - low)) for name in ends}
    order = sorted(heights, key=lambda name: (heights[name], ends[name]))
    for name, height in zip(order, _apart([heights[name] for name in order]), strict=True):
        place: Any = {"xycoords": "axes fraction", "ha": "left", "va": "center", "xytext": (4, 0)}
        label(ax, 1.0, height, name, _style(name, trained), annotation_clip=False, **place)


def _style(name: str, trained: Mapping[str, Curve]) -> dict[str, Any]:
    return _STYLES[name] if name in trained else REFERENCE


def _apart(heights: Sequence[float]) -> list[float]:
    """Return ascending heights in [0, 1] moved so far apart that a line of words fits between."""
    places = list(heights)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _LINE)
    places[-1] = min(places[-1], 1.0)
    for i in reversed(range(len(places) - 1)):
        places[i] = min(places[i], places[i + 1] - _LINE)
    return places


def plateau(trained: Mapping[str, Mapping[str, Runs]], lines: Mapping[str, Mapping[str, float]]) -> Figure:
    """Return a panel a statistic: losses of trained models by layers, and predicted ones as horizontal lines.

    ``trained`` has the losses of all runs by statistic and by "query in", "query out" or "LayerNorm"; ``lines`` two
    predicted losses, the larger first, by statistic and by the name to write beside the line.
    """
    figure, axes = panels(columns=len(trained), width=4.3, height=3.5)
    for ax, (statistic, models) in zip(axes, trained.items(), strict=True):
        deepest = max(max(runs) for runs in models.values())
        places = (deepest, {"ha": "right", "va": "top", "xytext": (0, -3)}), (1, {"va": "bottom", "xytext": (0, 3)})
        for (text, loss), (depth, place) in zip(lines[statistic].items(), places, strict=True):
            ax.axhline(loss, **REFERENCE)
            label(ax, depth, loss, text, REFERENCE, **place, **_GROUND)
        for name, runs in models.items():
            runs_by_depth(ax, runs, _STYLES[name])
            _name(ax, runs, name)
        ax.set(yscale="log", xlabel="layers", ylabel=f"{statistic} squared error")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return finish(figure)


def shrinkage(leverage: np.ndarray, ratios: Mapping[str, np.ndarray], constant: float) -> Figure:
    """Return a panel for each named model, two a row: prediction over target against the leverage h of the query.

    Args:
        leverage: h of each prompt, (B,).
        ratios: prediction over target, (B,), by the name of the model; an even number of models.
        constant: c of the curve c / (1 + h), which least squares with the false sample follows without noise.
    """
    rows = len(ratios) // 2
    figure, axes = panels(columns=2, rows=rows, width=3.9, height=2.6, sharex=True, sharey=True)
    grid = np.linspace(0.0, float(leverage.max()), 101)
    for ax, (name, ratio) in zip(axes, ratios.items(), strict=True):
        ax.plot(leverage, ratio, **(TRAINED | {"linestyle": "none", "markersize": 2.0, "alpha": 0.5}))
        ax.axhline(1.0, **BOUND)
        ax.plot(grid, constant / (1.0 + grid), **REFERENCE)
        ax.set_ylim(0.4, 1.6)
        ax.set_title(name, fontsize=11)
    end = constant / (1.0 + grid[-1])
    label(axes[0], grid[-1], end, "$c/(1+h)$", REFERENCE, ha="right", va="top", xytext=(0, -6))
    for ax in axes[::2]:
        ax.set_ylabel("prediction / target")
    for ax in axes[-2:]:
        ax.set_xlabel("leverage $h$ of the query")
    return finish(figure)


def _end(curve: Curve) -> tuple[float, float]:
    """Return where ``curve`` ends, or where it leaves the figure: straight lines, on a logarithmic axis."""
    points = sorted(curve.items())
    for (before, high), (after, low) in pairwise(points):
        if low < _FLOOR:
            return before + (after - before) * float(np.log(high / _FLOOR) / np.log(high / low)), _FLOOR
    return points[-1]


def _name(ax: Axes, runs: Runs, name: str) -> None:
    deepest = max(runs)
    label(ax, deepest, float(np.median(runs[deepest])), name, TRAINED, **_SIDES[name])
