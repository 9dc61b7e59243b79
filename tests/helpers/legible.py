"""Whether a figure can be read: no empty panel, no words on one another or beyond the edge."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

OVERLAP = 0.1  # of the smaller of two boxes of words: their ascenders and descenders may touch
EDGE = 3.0  # pixels that words may pass the edge of the figure by


def faults(figure: Figure) -> list[str]:
    """Return what cannot be read in ``figure``, a line a fault."""
    figure.draw_without_rendering()
    axes = [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]
    found = [f"panel {number} shows nothing" for number, ax in enumerate(axes) if not _shows(ax)]
    boxes = [(text.get_text(), _box(text)) for ax in axes for text in _words(ax)]
    for (one, a), (other, b) in combinations(boxes, 2):
        shared = Bbox.intersection(a, b)
        if shared is not None and _area(shared) > OVERLAP * min(_area(a), _area(b)):
            found.append(f"{one!r} lies on {other!r}")
    width, height = figure.bbox.size
    for text, box in boxes:
        if min(box.x0, box.y0) < -EDGE or box.x1 > width + EDGE or box.y1 > height + EDGE:
            found.append(f"{text!r} passes the edge")
    return found


def watch() -> None:
    """Have every figure of the book refused that has faults; to be called before its modules are imported.

    Where figures are shown, as in a notebook, they are not drawn once more.
    """
    from IPython.core.getipython import get_ipython

    from tfnewton.figures import style

    shell: Any = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["image/png"].enabled = False

    released = style.finish

    def finish(figure: Figure) -> Figure:
        found = faults(figure)
        assert not found, found
        return released(figure)

    style.finish = finish


def _shows(ax: Axes) -> bool:
    """Whether some line, points, image or filled shape of ``ax`` has a finite point within its limits."""
    if ax.images or ax.patches or not ax.axison:
        return True
    (left, right), (low, high) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    points = [np.asarray(line.get_xydata(), dtype=float) for line in ax.lines]
    points += [np.asarray(path.vertices, dtype=float) for of in ax.collections for path in of.get_paths()]
    points += [np.ma.filled(np.ma.asarray(of.get_offsets(), dtype=float), np.nan) for of in ax.collections]
    inside = [(xy[:, 0] >= left) & (xy[:, 0] <= right) & (xy[:, 1] >= low) & (xy[:, 1] <= high) for xy in points]
    return any(bool(np.any(of)) for of in inside)


def _words(ax: Axes) -> list[Text]:
    legend = ax.get_legend()
    words = [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label, *(legend.get_texts() if legend else [])]
    return [text for text in words if text.get_visible() and text.get_text().strip()]


def _box(text: Text) -> Bbox:
    return Text.get_window_extent(text)  # of an annotation the words alone, without its arrow


def _area(box: Bbox) -> float:
    return float(box.width * box.height)
