"""What the figures of chapters 07 and 08 show, read back from their artists, and that it can be read at any size."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.helpers.legible import faults
from tfnewton.constructions.logistic_regression import largest_iterate
from tfnewton.figures import style
from tfnewton.figures.logistic_construction import (
    accuracy,
    approximations,
    coordinates,
    error_against_width,
    gaps_by_layers,
    trajectory,
)
from tfnewton.theory.error_budget import error_budget


def lines(ax: Axes, color: str) -> list[dict[float, float]]:
    return [dict(zip(*map(np.asarray, line.get_data()), strict=True)) for line in ax.lines if line.get_color() == color]


def heights(figure: Figure) -> dict[str, float]:
    figure.draw_without_rendering()
    return {text.get_text(): text.get_window_extent().y0 for text in figure.axes[0].texts}


@pytest.mark.parametrize(("d", "mu"), [(3, 0.1), (1, 10.0)])
def test_approximations_are_those_of_the_layers(d: int, mu: float) -> None:
    layers = error_budget(d, mu, 0.1, radius=largest_iterate(mu, 0.1)).layers()
    figure = approximations(layers, mu)
    assert not faults(figure)
    for ax, found in zip(figure.axes, (layers.variance, layers.probability, layers.step_size), strict=True):
        (drawn,) = lines(ax, style.CONSTRUCTED["color"])
        assert list(drawn) == list(found.knots)
        assert ax.get_title(loc="right") == ("1 unit" if found.width == 1 else f"{found.width} units")
        (exact,) = lines(ax, style.REFERENCE["color"])
        assert (min(exact), max(exact)) == found.interval
    plt.close("all")


def test_every_line_of_errors_against_widths_has_a_name_and_the_colours_differ() -> None:
    of = {
        "staircase": ([500, 5000], [1e-2, 1e-3], [0.3, 0.03]),
        "uniform": ([900], [2e-2], [0.3]),
        "curvature": ([70, 190], [1e-2, 1e-3], [0.1, 1e-2]),
    }
    figure = error_against_width(of)
    (ax,) = figure.axes
    assert not faults(figure)
    named = {line.get_label(): line for line in ax.lines if not str(line.get_label()).startswith("_")}
    assert set(named) == {*of, *(f"{scheme}, proved" for scheme in of)}
    for scheme, (widths, errors, bounds) in of.items():
        assert np.asarray(named[scheme].get_xdata()).tolist() == widths
        assert np.asarray(named[scheme].get_ydata()).tolist() == errors
        assert np.asarray(named[f"{scheme}, proved"].get_ydata()).tolist() == bounds
        assert named[f"{scheme}, proved"].get_color() == "black"
        assert named[f"{scheme}, proved"].get_linestyle() == named[scheme].get_linestyle()
    assert len({named[scheme].get_color() for scheme in of}) == 3
    assert len(ax.lines) == 7, "the slope is the only line without a name"
    with pytest.raises(ValueError, match="scheme = 'spline'"):
        error_against_width({"spline": ([1], [1.0], [1.0])})


@pytest.mark.parametrize("last", [1e-13, 0.9])
def test_the_ends_of_a_trajectory_are_named_apart(last: float) -> None:
    figure = trajectory([1.0, last], {"ε = 1": [1.0, 1.001 * last], "ε = 2": [1.0, 1.002 * last]}, floor=1e-12)
    assert not faults(figure)
    assert lines(figure.axes[0], style.REFERENCE["color"]) == [{0.0: 1.0, 1.0: max(last, 1e-12)}]
    assert set(heights(figure)) == {"exact", "ε = 1", "ε = 2"}


@pytest.mark.parametrize("errors", [[0.1], [0.1, 0.01, 1e-3]])
@pytest.mark.parametrize("limit", [1e-5, 5e-3, 1.0])
def test_accuracy_is_solid_where_it_is_proved(errors: list[float], limit: float) -> None:
    figure = accuracy(errors, [1e-8 for _ in errors], limit)
    assert not faults(figure)
    black = [line for line in figure.axes[0].lines if line.get_color() == "black"]
    for line in black:
        x, y = (np.asarray(data) for data in line.get_data())
        np.testing.assert_allclose(y, 2 * x)
        assert (x <= limit).all() if line.get_linestyle() == "-" else (x > limit).all()
    assert sum(len(np.asarray(line.get_xdata())) for line in black) == 100
    (red,) = lines(figure.axes[0], style.PRINTED["color"])
    assert all(y == pytest.approx(x**0.5) for x, y in red.items())
    assert lines(figure.axes[0], style.CONSTRUCTED["color"]) == [dict.fromkeys(errors, 1e-8)]
    named = heights(figure)
    assert named["transformer"] < min(named["2ε, proved where solid"], named["√ε, printed"])


def test_gaps_by_layers_are_medians_with_a_band() -> None:
    few = np.array([[1.0, 1.0, 1.0], [0.1, 0.3, 0.2], [1e-12, 0.03, 0.02]])
    enough = few[:2] ** 2
    figure = gaps_by_layers({"short": {"k = 1": (13, few), "k = 7": (25, enough)}, "long": {"k = 1": (13, few)}})
    assert not faults(figure)
    left = figure.axes[0]
    assert lines(left, style.CONSTRUCTED["color"])[0] == {0: 1.0, 13: 0.2, 26: 0.02}
    assert lines(left, "#56B4E9")[0] == {0: 1.0, 25: pytest.approx(0.04)}
    band = np.asarray(left.collections[0].get_paths()[0].vertices)
    assert {tuple(corner) for corner in np.round(band, 12)} >= {(13.0, 0.1), (13.0, 0.3), (26.0, 1e-9), (26.0, 0.03)}
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["short", "long"]
    assert set(heights(figure)) == {"k = 1", "k = 7"}


def test_coordinates() -> None:
    exact, printed, corrected = (np.array(v) for v in ([1.0], [9.0], [1.1]))
    figure = coordinates(exact, printed, corrected)
    assert not faults(figure)
    assert {str(line.get_label()): float(np.asarray(line.get_ydata())[0]) for line in figure.axes[0].lines} == {
        "exact": 1.0,
        "corrected": 1.1,
        "as printed": 9.0,
    }
