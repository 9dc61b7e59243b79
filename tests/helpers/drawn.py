"""What an axis shows, read back from its artists."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes


def placed(ax: Axes) -> dict[str, tuple[float, float]]:
    """Return where each label of ``ax`` points to, in data units."""
    labels: list[Any] = list(ax.texts)  # annotations
    return {text.get_text(): (float(text.xy[0]), float(text.xy[1])) for text in labels}


def heights(ax: Axes) -> list[np.ndarray]:
    """Return the y of each line of ``ax``, in the order of drawing."""
    return [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines]


def series(ax: Axes, color: str) -> list[tuple[list[float], list[float]]]:
    """Return x and y of each line of ``ax`` of this colour, in the order of drawing."""

    def numbers(values: object) -> list[float]:
        return [float(value) for value in np.asarray(values)]

    return [(numbers(line.get_xdata()), numbers(line.get_ydata())) for line in ax.lines if line.get_color() == color]


def texts(ax: Axes) -> list[str]:
    """Return the words that stand in ``ax``."""
    return [text.get_text() for text in ax.texts]
