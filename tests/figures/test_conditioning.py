"""What the figures on conditioning and noise show, read back from their artists, and their refusals."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfnewton.figures import style
from tfnewton.figures.conditioning import Setting, losses_by_kappa, losses_by_setting

REFERENCES = {"2": {0: 90.0, 1: 30.0, 2: 10.0, 3: 2.0, 4: 1e-9}, "descent": {1: 60.0, 2: 30.0, 3: 20.0, 4: 12.0}}
SETTING = Setting({1: [50.0], 2: [9.0, 8.0, 7.0], 9: [0.1]}, REFERENCES, {"best": 1.5})


def visible(figure: Figure) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]


def texts(ax: Axes) -> dict[str, tuple[float, float]]:
    return {text.get_text(): getattr(text, "xy", text.get_position()) for text in ax.texts}


def curves(ax: Axes, color: str) -> list[dict[float, float]]:
    return [dict(zip(*map(np.asarray, line.get_data()), strict=True)) for line in ax.lines if line.get_color() == color]


def test_a_panel_a_setting_with_the_steps_up_to_the_depth() -> None:
    figure = losses_by_setting({"a": SETTING, "b": SETTING._replace(trained={}), "c": SETTING}, 4)
    first, second, third = visible(figure)
    assert [ax.get_title() for ax in (first, second, third)] == ["a", "b", "c"]
    line, *dots = curves(first, style.TRAINED["color"])
    assert line == {1.0: 50.0, 2.0: 8.0}, "the medians of the seeds"
    assert [len(of) for of in dots] == [1, 1]
    runs = [np.asarray(of.get_ydata()).tolist() for of in first.lines if of.get_color() == style.TRAINED["color"]][1:]
    assert runs == [[50.0], [9.0, 8.0, 7.0]], "a dot a seed"
    assert curves(first, style.REFERENCE["color"]) == [
        {1.0: 30.0, 2.0: 10.0, 3.0: 2.0, 4.0: 1e-9},
        {1.0: 60.0, 2.0: 30.0, 3.0: 20.0, 4.0: 12.0},
    ]
    (level,) = (line for line in first.lines if line.get_color() == "black")
    assert set(np.asarray(level.get_ydata(), dtype=float)) == {1.5}
    assert (second.get_xlabel(), third.get_xlabel(), third.get_ylabel()) == (
        "layers or steps",
        "layers or steps",
        "squared error",
    )
    assert first.get_xlabel() == ""
    assert plt.get_fignums() == []


def test_names_stand_where_the_curves_are_in_sight_and_apart() -> None:
    (ax,) = visible(losses_by_setting({"a": SETTING}, 4))
    assert texts(ax)["2"] == (3.0, 2.0)
    assert texts(ax)["descent"] == (4.0, 12.0)
    flat = Setting({1: [3.0]}, {"2": {1: 3.0, 2: 1.0, 3: 1.0}}, {})  # at its floor from step 2 on
    (ax,) = visible(losses_by_setting({"a": flat}, 3))
    assert texts(ax)["2"] == (1.0, 3.0)


def test_losses_by_kappa_name_trained_models_on_the_left_and_algorithms_on_the_right() -> None:
    group: Any = {
        "LSA": {5.0: [0.3], 50.0: [0.4, 0.2, 0.1]},
        "LSA+LN": {10.0: [0.1]},
        "order 2": {1.0: 1e-9, 10.0: 0.01, 100.0: 0.2},
    }
    first, second = visible(losses_by_kappa({"two": group, "four": {"LSA": {}, "order 2": {100.0: 0.5}}}))
    named = texts(first)
    assert named == {"LSA": (5.0, 0.3), "LSA+LN": (10.0, 0.1), "order 2": (100.0, 0.2)}
    drawn = curves(first, style.TRAINED["color"])
    assert {5.0: 0.3, 50.0: 0.2} in drawn, "the medians of the seeds"
    assert {10.0: 0.1} in drawn
    assert curves(first, style.REFERENCE["color"]) == [{10.0: 0.01, 100.0: 0.2}], "what is below the figure is left out"
    assert set(texts(second)) == {"order 2"}
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in second.get_xticklabels()] == ["1", "", "10", "", "100"]


def test_losses_by_kappa_without_a_curve_is_drawn() -> None:
    """Nothing is there to see, and the panel says of what."""
    empty: list[dict[str, dict[float, float]]] = [{"LSA": {}}, {}, {"order 2": {10.0: 1e-9}}]
    for curves_ in empty:
        figure = losses_by_kappa({"two": curves_})
        (ax,) = visible(figure)
        figure.canvas.draw()
        assert (ax.get_title(), ax.get_ylabel()) == ("two", "loss / loss of zero")
        assert "kappa" in ax.get_xlabel()
        assert texts(ax) == {}
        assert [curve for line in ax.lines for curve in np.asarray(line.get_xydata()).tolist()] == []
