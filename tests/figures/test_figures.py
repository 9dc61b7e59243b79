"""What figures show, read back from their artists: the right numbers, outlines, labels, and refusals of bad input."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import tfnewton.figures
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent
from tfnewton.figures import inversion, style, transformer
from tfnewton.figures.filmstrip import filmstrip, pretty, symbol
from tfnewton.figures.tables import Table
from tfnewton.model.layers import Layer
from tfnewton.model.transformer import Frame

D = 3
# they draw into a figure or name its parts
HELPERS = {"label", "outer_labels", "panels", "pretty", "runs_by_depth", "slope_triangle", "symbol"}


@pytest.fixture
def trace() -> list[Frame]:
    A = np.diag([1.0, 2.0, -0.5])
    model = newton_schulz(D, 2)
    return model.trace(model.pack(A.T / 4.0, A))


def panels_of(figure: Figure) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]


def drawn(ax: Axes) -> np.ndarray:
    return np.asarray(ax.images[0].get_array())


def outlined(ax: Axes) -> set[tuple[float, float]]:
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    return {(box.get_y() + 0.5, box.get_height()) for box in boxes}


def texts(ax: Axes) -> set[str]:
    return {text.get_text() for text in ax.texts} - {""}


def public_functions() -> list[Callable[..., Any]]:
    modules = [
        importlib.import_module(m.name) for m in pkgutil.iter_modules(tfnewton.figures.__path__, "tfnewton.figures.")
    ]
    exported = [getattr(module, name) for module in modules for name in module.__all__]
    return [function for function in exported if inspect.isfunction(function) and function.__name__ not in HELPERS]


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
def test_every_figure_function_says_that_it_returns_one(function: Callable[..., Any]) -> None:
    assert typing.get_type_hints(function)["return"] in {Figure, Table}
    assert (function.__doc__ or "").startswith("Return ")


def test_figures_leave_pyplot_empty_and_have_a_white_ground(trace: list[Frame]) -> None:
    figures = [
        filmstrip(trace),
        transformer.weights(newton_schulz(2).layers[1], newton_schulz(2).layout),
        transformer.operations([1, 4], [2, 32], [2, 8], 1),
        inversion.residuals(0.1, [0.9, 0.8], [0.9, 0.8], 1e-12),
        inversion.products({"I": np.eye(2)}),
    ]
    assert plt.get_fignums() == []
    for figure in figures:
        assert isinstance(figure, Figure)
        assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
        figure.canvas.draw()


def test_no_chapter_figure_is_wider_than_a_page(trace: list[Frame]) -> None:
    for figure in (filmstrip(trace), transformer.weights(newton_schulz(2).layers[1], newton_schulz(2).layout)):
        assert figure.get_figwidth() <= 6.0


# the film-strip


def test_filmstrip_shows_every_state_on_one_scale(trace: list[Frame]) -> None:
    panels = panels_of(filmstrip(trace))
    assert len(panels) == len(trace) == 5
    for ax, frame in zip(panels, trace, strict=True):
        np.testing.assert_array_equal(drawn(ax), np.concatenate([np.asarray(b) for b in frame.blocks.values()]))
        assert ax.images[0].get_clim() == (-2.0, 2.0)


def test_filmstrip_outlines_what_was_written(trace: list[Frame]) -> None:
    X, S = (0.0, float(D)), (2.0 * D, float(D))
    assert [outlined(ax) for ax in panels_of(filmstrip(trace))] == [set(), {S}, {X, S}, {S}, {X, S}]


def test_filmstrip_names_blocks_layers_and_lines(trace: list[Frame]) -> None:
    panels = panels_of(filmstrip(trace, names={"S": "scratch"}))
    assert [ax.get_title() for ax in panels] == ["input", "layer 1", "layer 2", "layer 3", "layer 4"]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["$X$", "$A$", "scratch", "$I$"]
    assert [label.get_text() for label in panels[1].get_yticklabels()] == [""] * 4
    assert [ax.get_xlabel() for ax in panels[:3]] == ["", "S ← A X", "X ← 2X − X S\nS ← 0"]


def test_filmstrip_of_chosen_frames_keeps_their_numbers(trace: list[Frame]) -> None:
    panels = panels_of(filmstrip([trace[0], trace[4]], layers=[0, 4]))
    assert [ax.get_title() for ax in panels] == ["input", "layer 4"]


def test_filmstrip_marks_negative_entries() -> None:
    H = np.array([[1.0, -1.0, -1e-9], [0.0, -0.02, 0.5]])
    (ax,) = panels_of(filmstrip([Frame("input", {"H": H}, ())]))
    marks = {tuple(np.mean(path, axis=0)) for lines in ax.collections for path in lines.get_segments()}  # type: ignore[attr-defined]
    assert marks == {(1.0, 0.0), (1.0, 1.0)}, "both entries that show as blue, and not the roundoff"


def test_filmstrip_keeps_a_small_block_in_sight_and_leaves_roundoff_white() -> None:
    small = Frame("input", {"X": np.array([[1e5]]), "S": np.array([[1.0]]), "N": np.array([[1e-12]])}, ())
    (ax,) = panels_of(filmstrip([small]))
    shades = np.asarray(ax.images[0].norm(np.array([1e5, 1.0, 1e-12, 0.0])))
    assert shades[0] == 1.0
    assert 0.55 < shades[1] < 0.9
    assert np.abs(shades[2:] - 0.5).max() < 1e-6


def test_products_keep_an_identity_in_sight() -> None:
    (left, right) = panels_of(inversion.products({"A": 1e4 * np.ones((7, 7)), "I": np.eye(7)}))
    assert np.asarray(right.images[0].norm(np.array([1.0]))).min() > 0.58
    assert left.images[0].get_clim() == right.images[0].get_clim()


def test_filmstrip_of_zeros_and_of_many_tokens_is_drawn() -> None:
    filmstrip([Frame("input", {"H": np.zeros((2, 2))}, ())]).canvas.draw()
    model = gradient_descent(2, 1, 1e-4)
    H = model.pack(np.ones((500, 2)), np.ones(500))
    assert len(panels_of(filmstrip(model.trace(H)))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": 0}, "columns = 0: must be at least 1"),
        ({"layers": [0, 1]}, "layers has 2 numbers: must have one for each of the 5 frames"),
    ],
)
def test_filmstrip_refuses(trace: list[Frame], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        filmstrip(trace, **arguments)


def test_filmstrip_refuses_nothing_and_batches() -> None:
    with pytest.raises(ValueError, match="frames is empty"):
        filmstrip([])
    with pytest.raises(ValueError, match="frames are batched"):
        filmstrip([Frame("input", {"H": np.zeros((2, 3, 3))}, ())])


@pytest.mark.parametrize(
    ("name", "shown"), [("A_T", "$A^T$"), ("a_test", "$a_\\mathrm{test}$"), ("X", "$X$"), ("out", "out")]
)
def test_symbol(name: str, shown: str) -> None:
    assert symbol(name) == shown


def test_pretty_line() -> None:
    assert pretty("w <- w - eta A^T r; S <- 0") == "w ← w − η Aᵀ r\nS ← 0"


# weights


def test_weights_are_the_dense_ones_of_every_head() -> None:
    model = newton_schulz(D)
    layer = model.layers[1]
    panels = panels_of(transformer.weights(layer, model.layout))
    expected = [W.numpy() for head in layer.weights() for W in head.values()]
    assert len(panels) == len(expected) == 6
    for ax, W in zip(panels, expected, strict=True):
        np.testing.assert_array_equal(drawn(ax), W)
    assert [texts(ax) for ax in panels] == [{"$I$"}, {"$I$"}, {"−$I$"}, {"$I$", "−$I$"}, {"$I$"}, {"$I$"}]
    assert panels[5].get_title() == "$W_Q^{(2)}$"


def test_weights_of_single_rows_and_of_coefficients_carry_numbers() -> None:
    model = gradient_descent(2, 1, 0.25)
    value, key, query = panels_of(transformer.weights(model.layers[0], model.layout))
    assert texts(value) == {"0.25$I$"}
    assert texts(key) == {"1", "$I$"}, "the key stacks y on A_T: its rows are not the blocks of the layout"
    assert texts(query) == {"1", "−$I$"}


def test_weights_refuse_a_layer_without_heads_and_a_foreign_layout() -> None:
    layout = newton_schulz(2).layout
    with pytest.raises(ValueError, match="layer has no heads"):
        transformer.weights(Layer([]), layout)
    with pytest.raises(ValueError, match="layout has 8 rows, the layer 12"):
        transformer.weights(newton_schulz(3).layers[0], layout)


# curves


def test_operations_draws_both_orders_in_their_styles() -> None:
    (ax,) = panels_of(transformer.operations([1, 4, 16], [8, 128, 2048], [8, 128, 512], 4))
    by_colour = {line.get_color(): line for line in ax.lines}
    np.testing.assert_array_equal(by_colour[style.REFERENCE["color"]].get_ydata(), [8, 128, 2048])
    np.testing.assert_array_equal(by_colour[style.CONSTRUCTED["color"]].get_ydata(), [8, 128, 512])
    assert {"slope 1", "slope 2", "$n = 4$"} <= texts(ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1], [1, 2], 1), r"all_pairs has shape \(1,\): must be \(points = 2,\)"),
        (([1, 2], [1, 2], [1, 0], 1), r"measured = \[1.0, 0.0\]: must be at least two positive numbers"),
        (([1], [1], [1], 1), r"tokens = \[1.0\]: must be at least two positive numbers"),
        (([1, 2], [1, 2], [1, 2], 0), "crossing = 0: must be at least 1"),
    ],
)
def test_operations_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transformer.operations(*arguments)


def test_residuals_draws_the_series_and_the_proved_curve() -> None:
    measured = [0.5, 0.25, 0.0625]
    (ax,) = panels_of(inversion.residuals(np.log(2.0), measured, measured, 1e-12))
    proved, direct, constructed, level = ax.lines[:4]
    x, y = (np.asarray(values, dtype=float) for values in proved.get_data())
    np.testing.assert_allclose(np.log2(-np.log2(y)), x, atol=1e-12)
    np.testing.assert_allclose([y[0], y[-1]], [0.5, 0.0625])
    np.testing.assert_array_equal(direct.get_ydata(), measured)
    np.testing.assert_array_equal(constructed.get_ydata(), measured)
    assert (direct.get_linestyle(), constructed.get_marker(), constructed.get_color()) == ("--", "o", "#0072B2")
    assert list(np.asarray(level.get_ydata())) == [1e-12, 1e-12]


def test_residuals_keep_an_exact_zero_in_sight() -> None:
    (ax,) = panels_of(inversion.residuals(np.inf, [0.0], [0.0], 1e-10))
    assert list(np.asarray(ax.lines[2].get_ydata())) == [1e-13]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0, [1.0], [1.0], 1e-9), ValueError, "rate = 0.0: must be a finite number and above 0"),
        ((1.0, [1.0], [1.0, 1.0], 1e-9), ValueError, r"constructed has shape \(2,\)"),
        ((1.0, [-1.0], [1.0], 1e-9), ValueError, "reference has the value -1: must be at least 0"),
        ((1.0, [1.0], [np.nan], 1e-9), ValueError, "constructed contains NaN"),
        ((1.0, [1.0], [1.0], 0), ValueError, "rounding = 0: must be a finite number and above 0"),
        ((1.0, [1.0], ["1"], 1e-9), TypeError, "constructed has dtype"),
    ],
)
def test_residuals_refuses(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        inversion.residuals(*arguments)


def test_products_prints_small_matrices_and_shares_the_scale() -> None:
    left, right = panels_of(inversion.products({"L": np.array([[3.0, -0.25], [-1e-17, 1.0]]), "R": np.eye(2)}))
    assert texts(left) == {"3.00", "−0.25", "0.00", "1.00"}
    assert (left.get_xlabel(), right.get_xlabel()) == ("L", "R")
    assert left.images[0].get_clim() == right.images[0].get_clim()
    (large,) = panels_of(inversion.products({"large": np.eye(7)}))
    assert texts(large) == set()


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({}, "matrices has 0 entries: must be one or two"),
        ({name: np.eye(2) for name in "abc"}, "matrices has 3 entries: must be one or two"),
        ({"a": np.ones((2, 3))}, r"a has shape \(2, 3\)"),
        ({"a": np.eye(2), "b": np.eye(3)}, r"b has shape \(3, 3\)"),
        ({"a": np.ones((4, 2, 2))}, "matrices are batched"),
    ],
)
def test_products_refuses(matrices: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inversion.products(matrices)


def test_slope_triangle_rises_by_the_slope() -> None:
    figure, (ax,) = style.panels()
    style.slope_triangle(ax, 2.0, 3.0, slope=-2.0, factor=10.0)
    x, y = (np.asarray(values) for values in ax.lines[0].get_data())
    assert list(x) == [2.0, 20.0, 20.0, 2.0]
    np.testing.assert_allclose(y, [3.0, 3.0, 0.03, 3.0])
    assert texts(ax) == {"slope -2"}
    style.finish(figure)
