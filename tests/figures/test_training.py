"""What the figures on trained linear attention show, read back from their artists."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from tests.helpers.legible import faults
from tests.helpers.tries import tries
from tfnewton.figures import style
from tfnewton.figures.style import BOUND, REFERENCE, TRAINED, runs_by_depth
from tfnewton.figures.training import losses_by_depth, losses_by_examples, plateau, rivals_by_depth, shrinkage

RUNS = {2: [3.0, 5.0, 4.0], 1: [40.0, 30.0, 60.0], 4: [0.5]}


def lines(ax: Axes, color: Any) -> list[list[tuple[float, float]]]:
    """The points of each line of ``ax`` in this colour, but for horizontal ones that run from side to side."""
    chosen = [line for line in ax.lines if line.get_color() == color]
    points = [[(float(x), float(y)) for x, y in np.asarray(line.get_xydata())] for line in chosen]
    return [of for of, line in zip(points, chosen, strict=True) if line.get_transform() == ax.transData]


def levels(ax: Axes, color: Any) -> list[float]:
    """The heights of the horizontal lines from side to side in this colour."""
    chosen = [line for line in ax.lines if line.get_color() == color and line.get_transform() != ax.transData]
    return [float(np.asarray(line.get_ydata())[0]) for line in chosen]


def labels(ax: Axes) -> dict[str, tuple[float, float]]:
    return {text.get_text(): (float(text.xy[0]), float(text.xy[1])) for text in ax.texts}  # type: ignore[attr-defined]


def edges(ax: Axes) -> dict[float, tuple[float, float]]:
    """Lower and upper edge of the band of ``ax`` by depth."""
    (band,) = ax.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    return {x: (corners[corners[:, 0] == x, 1].min(), corners[corners[:, 0] == x, 1].max()) for x in set(corners[:, 0])}


@given(
    st.dictionaries(st.integers(1, 40), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5), min_size=1, max_size=5)
)
@settings(deadline=None, max_examples=tries(5))
def test_runs_are_dots_their_median_a_line_and_their_range_a_band(runs: dict[int, list[float]]) -> None:
    figure, (ax,) = style.panels()
    runs_by_depth(ax, runs, TRAINED)
    line, *dots = lines(ax, TRAINED["color"])
    depths = sorted(runs)
    middle = [(x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2 for x in (sorted(runs[depth]) for depth in depths)]
    assert line == pytest.approx(np.array(list(zip(depths, middle, strict=True))))
    assert dots == [[(depth, value) for value in runs[depth]] for depth in depths]
    assert {x: pytest.approx(of) for x, of in edges(ax).items()} == {k: (min(of), max(of)) for k, of in runs.items()}
    assert [of.get_marker() == "none" for of in ax.lines] == [True] + [False] * len(runs)
    style.finish(figure)


def test_losses_of_trained_models_stand_in_every_panel_beside_its_algorithms() -> None:
    order2 = {0: 100.0, 1: 50.0, 2: 10.0, 3: 2.0}
    trained = {"query in": RUNS, "query out": {1: [70.0], 3: [7.0]}}
    figure = losses_by_depth(trained, {"order 2": {"Newton": order2}, "other": {"descent": {1: 80.0, 2: 60.0}}})
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("order 2", "other")
    assert lines(first, REFERENCE["color"]) == [[(0.0, 100.0), (1.0, 50.0), (2.0, 10.0), (3.0, 2.0)]]
    assert lines(second, REFERENCE["color"]) == [[(1.0, 80.0), (2.0, 60.0)]]
    for ax, name, end in ((first, "Newton", (3.0, 2.0)), (second, "descent", (2.0, 60.0))):
        assert ax.get_yscale() == "log"
        assert next(of for of in lines(ax, TRAINED["color"]) if len(of) > 1) == [(1.0, 40.0), (2.0, 4.0), (4.0, 0.5)]
        assert labels(ax) == {name: end, "query in": (4.0, 0.5), "query out": (3.0, 7.0)}
    hollow = [line.get_markerfacecolor() for line in first.lines if line.get_xydata().tolist() == [[1.0, 70.0]]]  # type: ignore[union-attr]
    assert hollow == ["white"]
    assert first.get_ylabel() == "trimmed mean of squared errors"
    assert plt.get_fignums() == []


@given(st.floats(-12.0, -6.1), st.floats(-5.9, 3.0), st.integers(0, 5), st.integers(1, 4))
@settings(deadline=None, max_examples=tries(5))
def test_a_name_stands_where_its_curve_leaves_the_figure(low: float, high: float, first: int, more: int) -> None:
    """On the straight line, of a logarithmic axis, between the last loss in sight and the first that is not."""
    curve = {first: 10.0**high, first + more: 10.0**low, first + more + 1: 1e-20}
    (ax,) = losses_by_depth({"query in": RUNS}, {"": {"Newton": curve}}).axes
    x, y = labels(ax)["Newton"]
    assert ax.get_ylim()[0] == y == 1e-6
    assert first < x < first + more
    slope = (low - high) / more
    assert high + slope * (x - first) == pytest.approx(-6.0, abs=1e-9)


def test_plateau_has_the_larger_line_named_below_on_the_right_and_the_smaller_above_on_the_left() -> None:
    trained = {"mean": {"query in": RUNS}, "median": {"LayerNorm": {2: [1.0, 2.0, 9.0]}}}
    both = {"mean": {"of the sample": 6.0, "of one": 3.0}, "median": {"of the sample": 0.9, "of one": 0.2}}
    first, second = plateau(trained, both).axes
    assert levels(first, REFERENCE["color"]) == [6.0, 3.0]
    assert levels(second, REFERENCE["color"]) == [0.9, 0.2]
    assert labels(first) == {"of the sample": (4.0, 6.0), "of one": (1.0, 3.0), "query in": (4.0, 0.5)}
    assert labels(second) == {"of the sample": (2.0, 0.9), "of one": (1.0, 0.2), "LayerNorm": (2.0, 2.0)}
    sides = {text.get_text(): (text.get_horizontalalignment(), text.get_verticalalignment()) for text in first.texts}
    assert (sides["of the sample"], sides["of one"][1]) == (("right", "top"), "bottom")
    assert edges(first) == {1.0: (30.0, 60.0), 2.0: (3.0, 5.0), 4.0: (0.5, 0.5)}
    assert lines(second, TRAINED["color"])[0] == [(2.0, 2.0)]
    assert [ax.get_ylabel() for ax in (first, second)] == ["mean squared error", "median squared error"]
    assert {first.get_yscale(), second.get_yscale()} == {"log"}


def test_shrinkage_draws_each_prompt_and_the_curve_of_the_false_sample() -> None:
    leverage, ratios = np.array([0.25, 3.0, 1.0]), {"a": np.array([0.9, 0.3, 0.5]), "b": np.array([1.0, 1.1, 0.95])}
    first, second = shrinkage(leverage, ratios, 1.2).axes
    for ax, (name, of) in zip((first, second), ratios.items(), strict=True):
        assert lines(ax, TRAINED["color"]) == [list(zip(leverage, of, strict=True))]
        (curve,) = lines(ax, REFERENCE["color"])
        assert [curve[0], curve[-1]] == pytest.approx(np.array([(0.0, 1.2), (3.0, 0.3)]))
        assert dict(curve)[1.5] == pytest.approx(0.48)
        assert levels(ax, BOUND["color"]) == [1.0]
        assert ax.get_title() == name
        assert "leverage" in ax.get_xlabel()
    assert {name: pytest.approx(at) for name, at in labels(first).items()} == {"$c/(1+h)$": (3.0, 0.3)}
    assert (first.get_ylabel(), second.get_ylabel()) == ("prediction / target", "")


def test_a_band_is_paler_than_its_line() -> None:
    figure, (ax,) = style.panels()
    runs_by_depth(ax, RUNS, TRAINED)
    (band,) = ax.collections
    assert tuple(np.asarray(band.get_facecolor())[0]) == pytest.approx(to_rgba(TRAINED["color"], 0.2))
    style.finish(figure)


LOSSES = {"query in": {1: 60.0, 2: 10.0}, "query out": {1: 61.0, 2: 0.5}}


def curves_of(ax: Axes, color: str) -> list[dict[float, float]]:
    return [dict(zip(*map(np.asarray, line.get_data()), strict=True)) for line in ax.lines if line.get_color() == color]


def heights(ax: Axes) -> dict[str, float]:
    return {text.get_text(): float(text.xy[1]) for text in ax.texts}  # type: ignore[attr-defined]


def test_rivals_share_limits_and_names_stand_at_the_height_of_ends() -> None:
    groups = {"fixed": {"GD++": {1: 61.0, 2: 0.4}}, "told": {"CG": {1: 37.0, 2: 1e-9}, "order 2": {1: 29.0, 2: 1e-8}}}
    figure = rivals_by_depth(LOSSES, groups)
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    low, high = np.log(left.get_ylim())
    assert heights(left)["query in"] == pytest.approx((np.log(10.0) - low) / (high - low))
    assert heights(right)["CG"] < heights(right)["order 2"] < 0.2, "below the figure, in the order of their losses"
    assert curves_of(right, style.REFERENCE["color"]) == [{1.0: 37.0, 2.0: 1e-9}, {1.0: 29.0, 2.0: 1e-8}]
    assert len(curves_of(left, style.TRAINED["color"])) == 2
    assert faults(figure) == []


@pytest.mark.parametrize("loss", [0.0, 1e-12, 1.0, 1e30, float("inf")])
def test_names_keep_apart_whatever_the_losses(loss: float) -> None:
    groups = {"told": {name: {1: 30.0, 2: loss} for name in ("CG", "Chebyshev", "order 2", "order 3", "GD++")}}
    figure = rivals_by_depth({"query in": {1: 60.0, 2: loss}, "LayerNorm": {1: 50.0, 2: 3.0}}, groups)
    placed = sorted(heights(figure.axes[0]).values())
    assert min(np.diff(placed)) > 0.059
    assert placed[-1] <= 1.0
    assert faults(figure) == []


def test_losses_by_examples() -> None:
    trained = {"query in": {10: 0.6, 50: 0.01, 200: 0.03}, "query out": {10: 1e18, 50: 1e-4, 200: 1e-5}}
    bands = {"query in": {10: (0.5, 0.7), 50: (0.009, 0.02), 200: (0.02, 0.04)}}
    figure = losses_by_examples(trained, bands, {"c frozen": {10: 0.8, 50: 0.01, 200: 0.04}}, 50)
    (ax,) = figure.axes
    (band,) = ax.collections
    corners = {(x, y) for x, y in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert corners == {(size, end) for size, ends in bands["query in"].items() for end in ends}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "50", "200"]
    assert curves_of(ax, "black") == [{50: 1}]
    assert {10.0: 0.6, 50.0: 0.01, 200.0: 0.03} in curves_of(ax, style.TRAINED["color"])
    assert ax.get_ylim()[1] < 1e3, "what runs away leaves the figure"
    assert faults(figure) == []
