"""What trained models answer as one coordinate of the query moves: beside the right answer, and less it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tfnewton.figures.style import BAND, BOUND, REFERENCE, TRAINED, finish, label, panels

__all__ = ["Answers", "Moved", "answers", "errors_by_depth"]


_SMALL_DPI = 108.0  # of figures with many panels


class Answers(NamedTuple):
    """Answers at values of the query's first coordinate: all arrays (points,), references by name.

    ``low`` and ``high`` bound the band of the trained model's answers over the prompts, ``median`` is their median.
    """

    x1: np.ndarray
    target: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    references: Mapping[str, np.ndarray]


class Moved(NamedTuple):
    """Answers less the right one: x1 (points,); mean, low and high over the prompts, (seeds, points); references.

    The latter are (points,), by name.
    """

    x1: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    references: Mapping[str, np.ndarray]


def answers(shown: Mapping[str, Answers], inside: float) -> Figure:
    """Return a panel a title: median and band of a trained model's answers, the right answer, and references.

    ``inside`` is the reach of the training range, marked by vertical lines where a panel goes beyond it.
    """
    figure, axes = panels(columns=len(shown), width=3.8, height=2.9)
    for ax, (title, of) in zip(axes, shown.items(), strict=True):
        ax.fill_between(of.x1, of.low, of.high, color=TRAINED["color"], **BAND)
        ax.plot(of.x1, of.target, **BOUND)
        ax.plot(of.x1, of.median, **(TRAINED | {"markersize": 4.0}))
        by_end = sorted(of.references.items(), key=lambda item: float(item[1][-1]))
        for i, (name, values) in enumerate(by_end):  # the names apart, though the curves may end together
            ax.plot(of.x1, values, **REFERENCE)
            offset = 14.0 * (i - (len(by_end) - 1) / 2)
            label(ax, of.x1[-1], values[-1], name, REFERENCE, xytext=(5, offset), va="center")
        reach, height = float(of.x1.max()), 1.4 * float(np.abs(of.target).max())
        _mark(ax, reach, inside)
        right = 1.55 if of.references else 1.05
        ax.set(xlabel="first coordinate of the query", xlim=(-1.05 * reach, right * reach), ylim=(-height, height))
        ax.set_xticks([-reach, 0.0, reach], [f"{-reach:g}", "0", f"{reach:g}"])
        ax.set_title(title, fontsize=11)
    axes[0].set_ylabel("answer")
    return finish(figure)


def errors_by_depth(columns: Mapping[str, Mapping[int, Moved]], inside: float) -> Figure:
    """Return a column a title and a row a depth: the mean answer of trained models less the right one, by x1.

    Line and narrow band: median and range over the seeds. Dotted: the quantiles over the prompts, medians over the
    seeds. Dashed: references, dark to light. Each panel has its own scale, that of its dotted and dashed lines.
    """
    depths = list(next(iter(columns.values())))
    size: dict[str, Any] = {"width": 3.7, "height": 1.75, "dpi": _SMALL_DPI}
    figure, axes = panels(columns=len(columns), rows=len(depths), sharex="col", **size)
    for row, depth in enumerate(depths):
        for column, (title, by_depth) in enumerate(columns.items()):
            ax, of = axes[row * len(columns) + column], by_depth[depth]
            names = _draw(ax, of)
            _mark(ax, float(of.x1.max()), inside)
            height = 1.1 * _height(of)
            ax.set_ylim(-height, height)
            ax.set_title(f"{title}, {depth} layer{'s' * (depth > 1)}", fontsize=10)
            if row == len(depths) - 1:
                ax.set_xlabel("first coordinate of the query")
            if (row, column) == (0, 0):
                figure.legend(
                    list(names.values()), list(names), loc="outside upper center", ncols=4, fontsize=9, frameon=False
                )
        axes[row * len(columns)].set_ylabel("error")
    return finish(figure)


def _draw(ax: Axes, of: Moved) -> dict[str, Line2D]:
    ax.axhline(0.0, **BOUND)
    lines: dict[str, Line2D] = {}
    greys = ("0.25", "0.55", "0.75")
    for (name, values), grey in zip(of.references.items(), greys, strict=False):
        (lines[name],) = ax.plot(of.x1, values, **(REFERENCE | {"color": grey, "linewidth": 1.4}))
    for part in (of.low, of.high):
        (dotted,) = ax.plot(of.x1, np.median(part, axis=0), color=TRAINED["color"], linestyle=":", linewidth=1.2)
    ax.fill_between(of.x1, of.mean.min(axis=0), of.mean.max(axis=0), color=TRAINED["color"], alpha=0.3, linewidth=0.0)
    few = max(1, len(of.x1) // 10)
    (line,) = ax.plot(of.x1, np.median(of.mean, axis=0), **(TRAINED | {"markersize": 3.0, "markevery": few}))
    return {"mean": line, "90 percent of prompts": dotted} | lines


def _height(of: Moved) -> float:
    """Return the scale of a panel: spikes of a few prompts in the mean may leave it."""
    curves = [np.median(of.low, axis=0), np.median(of.high, axis=0), *of.references.values()]
    return max(float(np.abs(curve).max()) for curve in curves) or 1.0


def _mark(ax: Axes, reach: float, inside: float) -> None:
    if reach > 1.01 * inside:
        for edge in (-inside, inside):
            ax.axvline(edge, color="0.6", linewidth=0.9, linestyle=":")
