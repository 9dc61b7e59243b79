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
