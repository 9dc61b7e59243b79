"""The visual language of the book: what each colour, dash and marker means, set once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = [
    "BAND",
    "BOUND",
    "CONSTRUCTED",
    "DIVERGING",
    "PRINTED",
    "REFERENCE",
    "TRAINED",
    "finish",
    "label",
    "outer_labels",
    "panels",
    "runs_by_depth",
    "slope_triangle",
]

REFERENCE: dict[str, Any] = {"color": "0.45", "linestyle": "--", "linewidth": 1.8}
CONSTRUCTED: dict[str, Any] = {"color": "#0072B2", "marker": "o", "markersize": 5.0, "linewidth": 1.6}
TRAINED: dict[str, Any] = {"color": "#D55E00", "marker": "s", "markersize": 5.0, "linewidth": 1.6}
PRINTED: dict[str, Any] = {"color": "#C00000", "linestyle": ":", "marker": "x", "markersize": 6.0, "linewidth": 1.6}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 0.9}
BAND: dict[str, Any] = {"alpha": 0.2, "linewidth": 0.0}
DIVERGING = "RdBu_r"

_RC: Any = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "white",  # opaque: the same picture in the light and the dark theme
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": 144,
    "savefig.dpi": 144,
}


def panels(
    columns: int = 1, rows: int = 1, *, width: float = 5.2, height: float = 3.4, **subplots: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure in the book's style and its axes in reading order.

    ``width`` and ``height`` (inches) are of one panel; two panels a row are the most that a phone can show.
    """
    with plt.rc_context(_RC):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(width * (1.0 if columns == 1 else 0.82 * columns), height * rows),
            squeeze=False,
            layout="constrained",
            **subplots,
        )
    return figure, list(axes.flat)


def finish(figure: Figure) -> Figure:
    """Return ``figure`` released from pyplot, so that a notebook shows it once, as the value of its cell."""
    plt.close(figure)
    return figure


def label(axes: Axes, x: float, y: float, text: str, style: dict[str, Any], **options: Any) -> None:
    """Write ``text`` beside a curve, in the colour of its ``style``: (x, y) in data units, 4 points off."""
    defaults: dict[str, Any] = {
        "xytext": (4, 4),
        "textcoords": "offset points",
        "fontsize": 10,
        "color": style["color"],
    }
    axes.annotate(text, (x, y), **(defaults | options))


def outer_labels(axes: Sequence[Axes], used: int, below: str | None, left: str) -> None:
    """Hide the unused of ``axes``, two a row; name the lowest axis of each column and those of the first column.

    With ``below`` None every panel has an axis, and a name, of its own.
    """
    for ax in axes[used:]:
        ax.set_visible(False)
    for ax in axes[:used:2]:
        ax.set_ylabel(left)
    if below is not None:
        for ax in axes[max(0, used - 2) : used]:
            ax.set_xlabel(below)
            ax.xaxis.set_tick_params(labelbottom=True)


def runs_by_depth(axes: Axes, runs: Mapping[Any, Sequence[float]], style: dict[str, Any]) -> None:
    """Draw a dot a run, a line through their medians by depth and a band from least to largest.

    Any number that runs are sorted by will do for the depth.
    """
    depths = sorted(runs)
    values = [runs[depth] for depth in depths]
    axes.plot(depths, [float(np.median(of)) for of in values], **(style | {"marker": "none"}))
    axes.fill_between(depths, [min(of) for of in values], [max(of) for of in values], color=style["color"], **BAND)
    for depth, of in zip(depths, values, strict=True):
        axes.plot([depth] * len(of), list(of), **(style | {"linestyle": "none"}))


def slope_triangle(axes: Axes, x: float, y: float, slope: float, factor: float = 2.0) -> None:
    """Draw on log-log axes the triangle of a predicted ``slope``: from (x, y) to (factor x, factor^slope y)."""
    end = y * factor**slope
    axes.plot([x, factor * x, factor * x, x], [y, y, end, y], **BOUND)
    axes.annotate(
        f"slope {slope:g}",
        (factor * x, (y * end) ** 0.5),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=10,
    )
