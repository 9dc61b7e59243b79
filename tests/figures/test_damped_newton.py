"""What the figures on damped Newton show, read back from their artists, and that they can be read."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.drawn import heights, placed
from tests.helpers.legible import faults
from tfnewton.figures import damped_newton as figures
from tfnewton.theory.radii import growth_example

INF = np.inf


def test_phases_carry_their_names_where_they_speak() -> None:
    gap = (
        np.array([9.0, 4.0, 1.0, 1e-3, 1e-5]),
        np.array([INF, 5.0, 2.0, INF, INF]),
        np.array([INF] * 3 + [2e-3, 2e-5]),
    )
    decrement = (
        np.array([3.0, 1.5, 0.5, 0.1, 0.01]),
        np.array([INF, INF, INF, 0.3, 0.03]),
        np.array([INF, INF, INF, INF, 0.05]),
    )
    figure = figures.phases(gap, decrement, 1 / 6)
    assert faults(figure) == []
    above, below = figure.axes
    assert placed(above) == {"phase I": (2.0, 2.0)}, "at the end of its bound"
    assert placed(below) == {"phase II": (3.0, 0.3), "1/6": (0.0, pytest.approx(1 / 6))}, "where its bound begins"
    for ax, (measured, first, second) in ((above, gap), (below, decrement)):
        lines = heights(ax)
        np.testing.assert_array_equal(lines[0], np.where(np.isfinite(first), first, np.nan))
        np.testing.assert_array_equal(lines[1], np.where(np.isfinite(second), second, np.nan))
        np.testing.assert_array_equal(lines[2], measured)
        assert [line.get_linestyle() for line in ax.lines[:3]] == ["-", "-.", "--"]
        assert ax.lines[2].get_marker() == "o"
    assert heights(below)[3].tolist() == [1 / 6] * 2
    assert above.get_ylabel().startswith("gap")
    assert below.get_ylabel().startswith("decrement")


def test_a_phase_without_steps_has_no_name() -> None:
    nothing, small = np.full(4, INF), np.array([1e-3, 1e-6, 0.0, -1e-18])
    figure = figures.phases((small, nothing, small), (small, np.append(INF, small[1:]), nothing), 1 / 6)
    assert faults(figure) == []
    above, below = figure.axes
    assert set(placed(above)) == set()
    assert set(placed(below)) == {"phase II", "1/6"}
    assert heights(above)[2].tolist() == [1e-3, 1e-6, 1e-16, 1e-16], "zero and roundoff stay in sight"


def test_dampings_carry_their_names_at_their_ends() -> None:
    gaps = {"paper": np.array([10.0, 1.0, 0.1]), "sharp": np.array([10.0, 1e-3]), "full": np.array([10.0, 1e-5, 1e-17])}
    figure = figures.dampings(gaps)
    assert faults(figure) == []
    (ax,) = figure.axes
    assert placed(ax) == {"paper": (2.0, 0.1), "sharp": (1.0, 1e-3), "full": (1.0, 1e-5)}, "down to roundoff"
    assert [line.get_marker() for line in ax.lines] == ["o", "^", "s"]


@pytest.mark.parametrize("known", [2, 11])
def test_accuracy_says_proved_only_where_it_is(known: int) -> None:
    errors = np.geomspace(1e-6, 1e-1, 11)
    proved = np.where(np.arange(11) < known, 1.1 * errors, INF)
    figure = figures.accuracy(errors, 1.05 * errors, proved, np.sqrt(errors))
    assert faults(figure) == []
    (ax,) = figure.axes
    names = set(placed(ax))
    assert ("measured, and proved" in names) == (known == 11)
    assert ("measured" in names) == (known == 2)
    assert {"slope 1", "slope 0.5", "printed order"} <= names
    red, black, dots = ax.lines[:3]
    np.testing.assert_array_equal(red.get_ydata(), np.sqrt(errors))
    assert np.isfinite(np.asarray(black.get_ydata(), dtype=float)).sum() == known
    np.testing.assert_array_equal(dots.get_ydata(), 1.05 * errors)
    for triangle, slope in zip(ax.lines[3:5], (1.0, 0.5), strict=True):
        x, y = (np.log(np.asarray(values, dtype=float)) for values in triangle.get_data())
        assert (y[2] - y[0]) / (x[2] - x[0]) == pytest.approx(slope)


def test_growth_is_red_from_the_printed_end_on() -> None:
    curves = {mu: growth_example(mu, 50) for mu in (1.0, 2.0**0.5, 3.0)}
    (ax,) = figures.growth(curves, 2.0**0.5).axes
    assert [line.get_color() == "#C00000" for line in ax.lines] == [False, True, True]
    for line, (mu, norms) in zip(ax.lines, curves.items(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), norms[1:])
        assert placed(ax)[f"$\\mu = {mu:.4g}$"] == pytest.approx((50.0, norms[-1]))


def test_cycle_names_its_runs() -> None:
    paths = {"paper": np.linspace(-50, 5, 141), "sharp": np.full(141, 5.0), "full": np.tile([-50.0, 4452.0], 5)[:9]}
    figure = figures.cycle(paths, 5.1)
    (ax,) = figure.axes
    assert placed(ax) == {
        "full": (7.0, 4452.0),
        "sharp": (22.0, 5.0),
        "paper": (40.0, pytest.approx(float(paths["paper"][40]))),
    }
    assert heights(ax)[-1].tolist() == [5.1, 5.1]
