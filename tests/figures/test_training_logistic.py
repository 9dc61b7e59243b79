"""What the figures on trained logistic regression show, read back from their artists."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.helpers.legible import faults
from tfnewton.figures.style import BOUND, CONSTRUCTED, PRINTED, REFERENCE, TRAINED
from tfnewton.figures.training_logistic import layers_and_steps, other_prompts, weight_errors

LOSSES = {1: [0.26, 0.25, 0.27], 4: [0.19]}
LONGER = {4: [0.17, 0.175]}
NEWTON = [0.69, 0.4, 0.2, 0.160001, 0.16]


def curves(ax: Axes, color: object) -> list[list[tuple[float, float]]]:
    """The points of each line of ``ax`` in this colour."""
    lines = [line for line in ax.lines if line.get_color() == color]
    return [[(float(x), float(y)) for x, y in np.asarray(line.get_xydata())] for line in lines]


def texts(ax: Axes) -> set[str]:
    return {text.get_text() for text in ax.texts}


def depths() -> Figure:
    return layers_and_steps(LOSSES, LONGER, NEWTON, (13, 25), (65, [0.5, 0.3, 1e-7]))


def prompts() -> Figure:
    gaps = {"kappa": {1.0: 0.02, 10.0: 0.01}, "flips": {0.0: 0.01, 0.2: 0.1}, "penalty": {0.1: 0.01, 1.0: 0.3}}
    return other_prompts(gaps, {"kappa": 10.0, "flips": 0.0, "penalty": 0.1}, ("penalty", {0.1: 0.0, 1.0: 0.2}))


def errors(curvature: tuple[float, float] = (0.1, 8.0)) -> Figure:
    return weight_errors(
        {1: [0.1, 0.2], 2: [0.05]}, np.array([0.01, 1.0]), np.array([0.02, 1.5]), curvature, "2 layers"
    )


@pytest.mark.parametrize("figure", [depths, prompts, errors])
def test_figures_are_drawn_and_leave_pyplot_empty(figure: Callable[[], Figure]) -> None:
    figure().canvas.draw()
    assert plt.get_fignums() == []


def test_newton_steps_stand_at_their_layers() -> None:
    left, right = depths().axes
    assert curves(left, PRINTED["color"]) == [[(13.0, 0.4), (26.0, 0.2), (39.0, 0.160001), (52.0, 0.16)]]
    assert [x for x, _ in curves(left, REFERENCE["color"])[0]] == [25.0, 50.0, 75.0, 100.0]
    assert curves(right, PRINTED["color"])[0] == pytest.approx(np.array([(13.0, 0.24), (26.0, 0.04)])), (
        "above the floor"
    )
    assert curves(right, CONSTRUCTED["color"]) == [[(65.0, 0.3)]]
    assert curves(left, CONSTRUCTED["color"]) == []
    assert {"13 a step", "25 a step", "trained", "least loss"} <= texts(left)
    assert right.get_yscale() == "log"


def test_every_run_is_drawn_and_the_line_goes_through_the_medians() -> None:
    left, right = depths().axes
    line, *runs = curves(left, TRAINED["color"])
    *_, longer = curves(right, TRAINED["color"])
    assert longer == pytest.approx(np.array([(4.0, 0.01), (4.0, 0.015)]))
    assert "trained longer" in texts(right)
    assert line == [(1.0, 0.26), (4.0, 0.19)]
    assert runs == [[(1.0, 0.26), (1.0, 0.25), (1.0, 0.27)], [(4.0, 0.19)]]
    assert curves(right, TRAINED["color"])[0] == pytest.approx(np.array([(1.0, 0.1), (4.0, 0.03)]))


def test_excess_loss_lies_between_its_bounds() -> None:
    left, right = errors().axes
    assert curves(left, TRAINED["color"])[0] == pytest.approx(np.array([(1.0, 0.15), (2.0, 0.05)]))
    assert curves(right, TRAINED["color"]) == [[(0.01, 0.02), (1.0, 1.5)]]
    low, high = curves(right, BOUND["color"])
    assert low == pytest.approx(np.array([(0.01, 0.0005), (1.0, 0.05)]))
    assert high == pytest.approx(np.array([(0.01, 0.04), (1.0, 4.0)]))
    assert right.get_title() == "2 layers"


@pytest.mark.parametrize("curvature", [(0.1, 8.0), (10.0, 10.5), (0.001, 80.0)])
def test_names_of_the_bounds_lie_outside_of_them(curvature: tuple[float, float]) -> None:
    """The lines coincide almost where the penalty is large; then, too, no name lies on the other or on a line."""
    figure = errors(curvature)
    assert faults(figure) == []
    right = figure.axes[1]
    named = {text.get_text(): text.get_window_extent() for text in right.texts}
    (low, high), box = curves(right, BOUND["color"]), right.transData
    for line, name, side in ((low, r"slope $\mu/2$", -1), (high, r"slope $U/2$", 1)):
        (x0, y0), (x1, y1) = box.transform(line)
        words = named[name]
        x, y = (words.x0, words.y1) if side < 0 else (words.x1, words.y0)  # the corner that is next to the line
        assert side * (y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))) > 0


def test_a_narrow_range_has_names_at_powers_of_ten_that_do_not_touch() -> None:
    figure = weight_errors({1: [0.1]}, np.array([0.26, 2.1]), np.array([1.9, 11.0]), (10.0, 72.0), "")
    figure.draw_without_rendering()
    right = figure.axes[1]
    for axis, ends in ((right.xaxis, (0.1, 10.0)), (right.yaxis, (1.0, 100.0))):
        assert tuple(axis.get_view_interval()) == pytest.approx(ends)
        named = [tick.label1 for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()] if tick.label1.get_text()]
        boxes = [words.get_window_extent() for words in named]
        assert len(boxes) >= 3
        assert not [1 for one, other in itertools.combinations(boxes, 2) if one.overlaps(other)]


def test_a_panel_for_each_change_with_the_place_of_training() -> None:
    *shown, hidden = prompts().axes
    assert [ax.get_xlabel() for ax in shown] == ["kappa", "flips", "penalty"]
    assert [ax.get_xscale() for ax in shown] == ["log", "linear", "log"]
    assert not hidden.get_visible()
    assert [curves(ax, BOUND["color"])[0][0][0] for ax in shown] == [10.0, 0.0, 0.1]
    assert curves(shown[0], TRAINED["color"]) == [[(1.0, 0.02), (10.0, 0.01)]]
    for ax in shown:
        low, high = ax.get_ylim()
        assert all(low < y < high for _, y in curves(ax, TRAINED["color"])[0])


def test_the_exact_weights_have_a_curve_that_leaves_the_panel_where_they_are_the_best() -> None:
    first, _, third, _ = prompts().axes
    ((at, low), other) = curves(third, REFERENCE["color"])[0]
    assert (at, other) == (0.1, (1.0, 0.2))
    assert 0.0 < low < third.get_ylim()[0]
    assert curves(first, REFERENCE["color"]) == []
