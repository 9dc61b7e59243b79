"""The picture of a sweep, by the series that it draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.legible import faults
from tfnewton.figures.sweep import headline

ROWS = [
    ({"kappa": kappa, "d": d, "seed": seed}, kappa * d * (1.0 + seed))
    for kappa in (10.0, 100.0, 1000.0)
    for d in (4, 8)
    for seed in (0, 1, 2)
]


def series(ax: Any) -> dict[str, dict[float, float]]:
    return {str(line.get_label()): dict(np.asarray(line.get_xydata()).tolist()) for line in ax.lines}


def test_a_line_a_value_of_the_second_parameter_and_a_band_over_seeds() -> None:
    figure = headline(ROWS, ["kappa", "d", "seed"], "error")
    (ax,) = figure.axes
    assert series(ax) == {f"d = {d}": {k: 2.0 * k * d for k in (10.0, 100.0, 1000.0)} for d in (4, 8)}
    corners = [
        {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices).tolist()} for band in ax.collections
    ]
    assert corners == [{(k, k * d * end) for k in (10.0, 100.0, 1000.0) for end in (1.0, 3.0)} for d in (4, 8)]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("kappa", "error")
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["d = 4", "d = 8"]
    assert faults(figure) == []


def test_words_and_switches_stand_side_by_side() -> None:
    rows: list[tuple[dict[str, Any], float]] = [({"dtype": "float64"}, 1.0), ({"dtype": "float32"}, 2.0)]
    (ax,) = headline(rows, ["dtype"], "error").axes
    assert series(ax).popitem()[1] == {0.0: 1.0, 1.0: 2.0}
    assert [text.get_text() for text in ax.get_xticklabels()] == ["float64", "float32"]
    assert ax.get_legend() is None


def test_seeds_alone_are_below() -> None:
    (ax,) = headline([({"seed": seed}, -1.0) for seed in range(3)], ["seed"], "error").axes
    assert series(ax).popitem()[1] == {0.0: -1.0, 1.0: -1.0, 2.0: -1.0}
    assert (ax.get_xlabel(), ax.get_yscale()) == ("seed", "linear")
    assert list(ax.collections) == []


def test_values_that_agree_to_many_digits_are_two_points() -> None:
    values = (0.10000001, 0.10000002, 0.2)
    (ax,) = headline([({"mu": mu}, 10.0 * mu) for mu in values], ["mu"], "error").axes
    assert series(ax).popitem()[1] == {mu: 10.0 * mu for mu in values}
    assert list(ax.collections) == []


def test_no_two_lines_look_alike() -> None:
    rows = [({"d": d, "n": n}, float(d + n)) for d in (1, 2) for n in range(24)]
    (ax,) = headline(rows, ["d", "n"], "error").axes
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}) == 24
    assert list(ax.get_xticks()) == [1.0, 2.0]  # no half a size


def test_lists_are_written_as_they_are_given_and_do_not_lie_on_each_other() -> None:
    rows: list[tuple[dict[str, Any], float]] = [
        ({"kappas": [float(i), 10.0 * i, 100.0 * i]}, float(i)) for i in range(1, 7)
    ]
    figure = headline(rows, ["kappas"], "error")
    (ax,) = figure.axes
    figure.draw_without_rendering()
    labels = ax.get_xticklabels()
    assert labels[0].get_text() == "[1,10,100]"
    assert all(label.get_rotation() == 30.0 for label in labels)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no point of the sweep"):
        headline([], ["seed"], "error")
