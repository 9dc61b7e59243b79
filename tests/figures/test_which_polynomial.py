"""The figures of chapter 11, read back from their artists."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.drawn import series, texts
from tests.helpers.legible import faults
from tfnewton.figures import which_polynomial as figures
from tfnewton.figures.style import BOUND, REFERENCE, TRAINED


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


@pytest.mark.parametrize("value", [0.5, 1e-9, 3e40])
def test_names_of_errors_by_scale_are_in_the_panel_and_apart(value: float) -> None:
    """Six curves that start together, and three that end together, wherever that is."""
    curve = {5.0: value, 50.0: 0.1, 250.0: value}
    query_out = {f"{L} layers": curve for L in range(1, 7)}
    references = {"order 2": curve, "order 3": {x: 1.01 * y for x, y in curve.items()}}
    figure = figures.errors_by_scale(query_out, {"LayerNorm": curve}, references)
    assert faults(figure) == []
    heights = {text.get_text(): text.xy[1] for text in figure.axes[0].texts}  # type: ignore[attr-defined]
    assert all(1e-4 < height < 10.0 for height in heights.values())
    assert heights["order 2"] < heights["order 3"]


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


def test_similarities_frame_the_largest_of_each_row() -> None:
    powers = {"2 layers": {1: 0.3, 4: 0.9, 16: -0.2}, "Newton": {1: 1.0, 4: 0.8, 16: 0.1}}
    fixed = {"2 layers": {1: 0.3, 4: 0.2}, "Newton": {1: 0.0, 4: 0.8}}
    figure = figures.similarities({"powers": powers, "best fixed": fixed})
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["powers", "best fixed"]
    for ax, of in zip(panels, (powers, fixed), strict=True):
        (image,) = ax.images
        assert np.asarray(image.get_array()).tolist() == [list(row.values()) for row in of.values()]
        assert image.get_clim() == (-1.0, 1.0)
        best = [list(row).index(max(row, key=row.__getitem__)) for row in of.values()]
        frames = [(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in ax.patches]  # type: ignore[attr-defined]
        assert frames == list(zip(best, (0.0, 1.0), strict=True))
        assert [text.get_text() for text in ax.get_xticklabels()] == [str(m) for m in next(iter(of.values()))]
    assert faults(figure) == []
