"""The figures of chapter 10, read back from their artists."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tests.helpers.drawn import series, texts
from tests.helpers.legible import faults
from tfnewton.figures import moving_the_query as figures
from tfnewton.figures.style import BOUND, REFERENCE, TRAINED

GRID = np.linspace(-30.0, 30.0, 5)


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


@pytest.mark.parametrize("reach", [15.0, 1000.0])
def test_answers_can_be_read_at_every_range(reach: float) -> None:
    grid = np.linspace(-reach, reach, 5)
    of = figures.Answers(grid, grid, 0.4 * grid, -grid, grid, {"false sample": 0.4 * grid})
    plain = of._replace(references={})
    assert faults(figures.answers({"query in, 5 layers": of, "query out, 5 layers": plain}, 14.9)) == []


def moved(seeds: list[float], references: dict[str, np.ndarray]) -> figures.Moved:
    mean = np.array(seeds)[:, None] * GRID
    return figures.Moved(GRID, mean, mean - 4.0, mean + 3.0, references)


@pytest.mark.parametrize("seeds", [[0.5], [0.1, 0.9, 0.5]])
def test_errors_by_depth_draw_the_median_and_the_range_over_the_seeds(seeds: list[float]) -> None:
    newton = {"order 2": -0.2 * GRID, "order 3": -0.1 * GRID}
    columns = {
        "query in": {1: moved(seeds, newton), 4: moved(seeds, {})},
        "query out": {1: moved([0.3], {}), 4: moved([0.2], {})},
    }
    figure = figures.errors_by_depth(columns, inside=14.9)
    assert [ax.get_title() for ax in figure.axes] == [
        *("query in, 1 layer", "query out, 1 layer"),
        *("query in, 4 layers", "query out, 4 layers"),
    ]
    ax = figure.axes[0]
    low, high, mean = (y for _, y in series(ax, TRAINED["color"]))
    np.testing.assert_allclose((low, mean, high), (0.5 * GRID - 4.0, 0.5 * GRID, 0.5 * GRID + 3.0))
    band = ax.collections[0].get_paths()[0].vertices
    assert isinstance(band, np.ndarray)
    assert band[:, 1].max() == pytest.approx(30.0 * max(seeds))
    dashed = [np.asarray(line.get_ydata()).tolist() for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [list(-0.2 * GRID), list(-0.1 * GRID)]
    assert len({line.get_color() for line in ax.lines if line.get_linestyle() == "--"}) == 2
    assert ax.get_ylim()[1] == pytest.approx(1.1 * 19.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-2:] == ["order 2", "order 3"]
    assert faults(figure) == []


def test_a_panel_without_errors_is_drawn() -> None:
    zero = np.zeros((1, 5))
    of = figures.Moved(GRID, zero, zero, zero, {})
    (ax,) = figures.errors_by_depth({"": {1: of}}, inside=40.0).axes
    assert ax.get_ylim() == (-1.1, 1.1)
