"""What the figures on training show, read back from their artists."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

from tests.helpers.legible import faults
from tfnewton.figures import style
from tfnewton.figures.training import losses_by_depth, losses_by_examples, plateau, rivals_by_depth, shrinkage

RUNS = {"query in": {1: [60.0, 63.0], 2: [10.0, 11.0]}, "LayerNorm": {1: [42.0], 3: [0.8]}}
TRAINED = {"query in": {1: 60.0, 2: 10.0}, "query out": {1: 61.0, 2: 0.5}}


def lines(ax: Axes, color: str) -> list[dict[float, float]]:
    return [dict(zip(*map(np.asarray, line.get_data()), strict=True)) for line in ax.lines if line.get_color() == color]


def heights(ax: Axes) -> dict[str, float]:
    return {text.get_text(): float(text.xy[1]) for text in ax.texts}  # type: ignore[attr-defined]


def test_losses_by_depth_have_medians_ranges_and_dots() -> None:
    figure = losses_by_depth(RUNS, {"a": {"2": {1: 30.0, 2: 3.0, 3: 1e-12}}, "b": {"2": {1: 50.0}}})
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("a", "b")
    assert lines(left, style.REFERENCE["color"]) == [{1.0: 30.0, 2.0: 3.0, 3.0: 1e-12}]
    assert {1.0: 61.5, 2.0: 10.5} in lines(left, style.TRAINED["color"])
    assert {1.0: 42.0, 3.0: 0.8} in lines(right, style.TRAINED["color"])
    end = {text.get_text(): text.xy for text in left.texts}["2"]  # type: ignore[attr-defined]
    assert end == pytest.approx((2 + np.log(3.0 / 1e-6) / np.log(3.0 / 1e-12), 1e-6)), "where it leaves the figure"
    assert plt.get_fignums() == []


def test_rivals_share_limits_and_names_stand_at_the_height_of_ends() -> None:
    groups = {"fixed": {"GD++": {1: 61.0, 2: 0.4}}, "told": {"CG": {1: 37.0, 2: 1e-9}, "order 2": {1: 29.0, 2: 1e-8}}}
    figure = rivals_by_depth(TRAINED, groups)
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    low, high = np.log(left.get_ylim())
    assert heights(left)["query in"] == pytest.approx((np.log(10.0) - low) / (high - low))
    assert heights(right)["CG"] < heights(right)["order 2"] < 0.2, "below the figure, in the order of their losses"
    assert lines(right, style.REFERENCE["color"]) == [{1.0: 37.0, 2.0: 1e-9}, {1.0: 29.0, 2.0: 1e-8}]
    assert len(lines(left, style.TRAINED["color"])) == 2
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
    figure = losses_by_examples(trained, {"c frozen": {10: 0.8, 50: 0.01, 200: 0.04}}, 50)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "50", "200"]
    assert lines(ax, "black") == [{50: 1}]
    assert {10.0: 0.6, 50.0: 0.01, 200.0: 0.03} in lines(ax, style.TRAINED["color"])
    assert ax.get_ylim()[1] < 1e3, "what runs away leaves the figure"
    assert faults(figure) == []


def test_plateau_has_its_lines() -> None:
    figure = plateau({"mean": RUNS}, {"mean": {"false sample": 3.2, "one correction": 0.07}})
    (ax,) = figure.axes
    levels = {
        float(np.asarray(line.get_ydata())[0]) for line in ax.lines if line.get_color() == style.REFERENCE["color"]
    }
    assert levels == {3.2, 0.07}
    assert ax.get_ylabel() == "mean squared error"


def test_shrinkage_draws_the_predicted_curve() -> None:
    leverage = np.linspace(0.1, 0.9, 9)
    figure = shrinkage(leverage, {name: np.ones(9) for name in ("a", "b")}, 1.3)
    for ax, name in zip(figure.axes, ("a", "b"), strict=True):
        assert ax.get_title() == name
        (curve,) = lines(ax, style.REFERENCE["color"])
        assert all(value == pytest.approx(1.3 / (1 + h)) for h, value in curve.items())
        assert max(curve) == pytest.approx(0.9)
