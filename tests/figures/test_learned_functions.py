"""The figures of chapters 10 and 11, read back from their artists."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

from tfnewton.figures import learned_functions as figures
from tfnewton.figures.style import BOUND, REFERENCE, TRAINED

GRID = np.linspace(-30.0, 30.0, 5)


def series(ax: Axes, color: str) -> list[tuple[list[float], list[float]]]:
    def numbers(values: object) -> list[float]:
        return [float(value) for value in np.asarray(values)]

    return [(numbers(line.get_xdata()), numbers(line.get_ydata())) for line in ax.lines if line.get_color() == color]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def shown() -> figures.Answers:
    references = {"order 2": 1.5 * GRID, "order 3": 1.9 * GRID}
    return figures.Answers(GRID, 2.0 * GRID, 1.8 * GRID, 1.8 * GRID - 4.0, 1.8 * GRID + 3.0, references)


def test_answers_draw_target_median_band_and_references() -> None:
    figure = figures.answers({"query in": shown()}, inside=14.9)
    (ax,) = figure.axes
    assert series(ax, TRAINED["color"]) == [(list(GRID), list(1.8 * GRID))]
    assert (list(GRID), list(2.0 * GRID)) in series(ax, BOUND["color"])
    assert [y for _, y in series(ax, REFERENCE["color"])] == [list(1.5 * GRID), list(1.9 * GRID)]
    band = ax.collections[0].get_paths()[0].vertices
    assert isinstance(band, np.ndarray)
    assert (band[:, 1].min(), band[:, 1].max()) == (-58.0, 57.0)
    assert texts(ax) == ["order 2", "order 3"]
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("inside", "edges"), [(14.9, [-14.9, 14.9]), (30.0, [])])
def test_answers_mark_the_range_of_training_where_they_leave_it(inside: float, edges: list[float]) -> None:
    (ax,) = figures.answers({"": shown()}, inside).axes
    assert [x[0] for x, _ in series(ax, "0.6")] == edges


def test_names_of_references_stay_in_the_order_of_their_ends() -> None:
    falling = shown()._replace(references={"low": -2.0 * GRID, "high": -1.0 * GRID})
    (ax,) = figures.answers({"": falling}, 30.0).axes
    offsets = {text.get_text(): text.xyann[1] for text in ax.texts}  # type: ignore[attr-defined]
    assert offsets["low"] < 0.0 < offsets["high"]


def test_errors_by_scale_are_hollow_with_the_query_out() -> None:
    curve = {5.0: 0.5, 50.0: 0.1, 200.0: 1e9}
    flat = dict.fromkeys(curve, 0.2)
    (ax,) = figures.errors_by_scale({"1": curve, "2 layers": curve}, {"LayerNorm": flat}, {"order 2": flat}).axes
    trained = [line for line in ax.lines if line.get_color() == TRAINED["color"]]
    faces = [line.get_markerfacecolor() for line in trained]
    assert faces == [TRAINED["color"], "white", "white"]
    assert np.asarray(trained[1].get_ydata()).tolist() == [0.5, 0.1, 1e9]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylim() == (1e-4, 10.0)
    assert texts(ax) == ["order 2", "LayerNorm", "1", "2 layers"]


def test_residuals_draw_dots_by_group_newton_and_the_best_polynomial() -> None:
    grid = np.array([1.0, 10.0, 50.0, 100.0])
    groups = {100.0: (np.array([2.0, 90.0]), np.array([0.9, -0.1])), 20.0: (np.array([]), np.array([]))}
    panels = {L: figures.Residuals(groups, grid, 1.0 - grid / 76.0, 2**L) for L in (1, 2, 3)}
    axes = figures.residuals(panels).axes
    assert [ax.get_visible() for ax in axes] == [True, True, True, False]
    assert [ax.get_title() for ax in axes[:3]] == ["1 layer", "2 layers", "3 layers"]
    newton = series(axes[1], REFERENCE["color"])
    np.testing.assert_allclose(newton[0][1], (1.0 - grid / 100.0) ** 4)
    np.testing.assert_allclose(newton[1][1], (1.0 - grid[:2] / 20.0) ** 4)
    assert series(axes[0], BOUND["color"]) == [(list(grid), list(1.0 - grid / 76.0))]
    dots = [line for line in axes[0].lines if line.get_linestyle() == "None"]
    assert [np.asarray(line.get_ydata()).tolist() for line in dots] == [[0.9, -0.1], []]
    assert len({line.get_marker() for line in dots}) == 2


def test_residuals_thin_out_crowded_groups() -> None:
    many = np.linspace(1.0, 90.0, 2000)
    panel = figures.Residuals({100.0: (many, many / 100.0)}, many, many, 2)
    ax = figures.residuals({1: panel}).axes[0]
    (dots,) = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert 100 <= len(np.asarray(dots.get_xdata())) <= 150
