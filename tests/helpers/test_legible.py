"""The reader of figures itself: it finds what it is for, and lets a plain figure pass."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.helpers.legible import faults
from tfnewton.figures.style import finish, panels


def example() -> tuple[Figure, Axes]:
    figure, (ax,) = panels()
    ax.plot([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    ax.annotate("one", (1.0, 1.0))
    ax.set_xlabel("k")
    return finish(figure), ax


def test_plain_figure_has_no_faults() -> None:
    assert faults(example()[0]) == []


@pytest.mark.parametrize("values", [[np.nan] * 3, [np.inf] * 3])
def test_empty_panel_is_found(values: list[float]) -> None:
    figure, (_, ax) = panels(columns=2)
    ax.plot([1.0, 2.0, 3.0], values)
    assert faults(finish(figure)) == ["panel 0 shows nothing", "panel 1 shows nothing"]


def test_curve_out_of_view_is_found() -> None:
    figure, ax = example()
    ax.set_ylim(20.0, 30.0)
    assert "panel 0 shows nothing" in faults(figure)


def test_words_on_words_and_beyond_the_edge_are_found() -> None:
    figure, ax = example()
    ax.annotate("two", (1.01, 1.01))
    assert faults(figure) == ["'one' lies on 'two'"]
    figure, ax = example()
    far = ax.annotate("a long remark", (2.9, 1.0), annotation_clip=False)
    far.set_in_layout(False)
    assert faults(figure) == ["'a long remark' passes the edge"]
