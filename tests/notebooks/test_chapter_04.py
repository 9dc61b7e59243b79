"""What chapter 04 leans on beside the constructions: its parameters' refusals and its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from tfnewton.figures.linear_regression import (
    errors_by_depth,
    layers_by_condition,
    predictions_by_depth,
    roundoff_by_condition,
)
from tfnewton.rerun.parameters import LinearRegression

LEGAL: dict[str, Any] = {
    "d": 4,
    "n": 20,
    "steps": 0,
    "noise": 0.0,
    "ridge": 0.0,
    "dataset": "diabetes",
    "seed": 0,
}


@pytest.mark.parametrize(
    "changed", [{}, {"d": 10, "n": 441}, {"dataset": "synthetic", "d": 64, "n": 64}, {"steps": 100, "ridge": 1e4}]
)
def test_legal_parameters(changed: dict[str, Any]) -> None:
    assert LinearRegression(**LEGAL | changed).model_dump() == LEGAL | changed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d": 11}, "d = 11: must be at most 10"),
        ({"n": 19}, "n = 19: must be from 20 to 441"),
        ({"n": 442}, "n = 442: must be from 20 to 441"),
        ({"dataset": "synthetic", "n": 3}, "n = 3: must be at least d = 4"),
        ({"dataset": "iris"}, "dataset"),
        ({"noise": -1.0}, "noise"),
        ({"ridge": float("nan")}, "ridge"),
        ({"steps": 12.0}, "steps"),
        ({"kappa": 2.0}, "kappa"),
    ],
)
def test_refusals_name_the_parameter(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearRegression(**LEGAL | changed)


def drawn(ax: Axes) -> list[list[float]]:
    return [list(np.asarray(line.get_ydata(), dtype=float)) for line in ax.lines]


@pytest.mark.parametrize("steps", [0, 1, 12])
def test_errors_by_depth_draws_every_curve(steps: int) -> None:
    later, layers = np.arange(3, 4 + steps), np.arange(4 + steps)
    curves = [0.5**later, 0.3**later, 0.4**later, 0.6**later, 0.9**layers, 2.0**layers]
    figure = errors_by_depth(*((later if len(y) == len(later) else layers, y) for y in curves))
    lines = drawn(figure.axes[0])
    assert all(any(np.array_equal(y, line) for line in lines) for y in curves)


def test_errors_of_zero_stay_on_the_logarithmic_axis() -> None:
    layers, zero = np.arange(4), np.zeros(4)
    figure = errors_by_depth(*((layers, zero),) * 6)
    assert all(0 < min(line) < 1e-16 for line in drawn(figure.axes[0]))


def test_layers_by_condition_draws_measured_and_predicted() -> None:
    curves = [
        ([1.0, 10.0, 1e4], [3, 14, 34]),
        ([1.0, 10.0], [1, 126]),
        ([10.0, 1e4], [125, 131218]),
        ([1.0, 1e4], [3, 34]),
        ([1.0, 1e4], [1, 138149]),
    ]
    figure = layers_by_condition(*((np.asarray(x), np.asarray(y)) for x, y in curves))
    lines = drawn(figure.axes[0])
    assert all(y in lines for _, y in curves)


def test_predictions_by_depth_names_the_transformers() -> None:
    layers = np.arange(3, 8)
    gaps = {"one": 0.1**layers, "two": 0.2**layers}
    scores = {"one": layers / 10, "two": layers / 20}
    figure = predictions_by_depth(layers, gaps, {name: 2 * gap for name, gap in gaps.items()}, scores, limit=0.4)
    above, below = figure.axes
    assert {text.get_text() for text in above.texts} == {"one", "two"}
    assert all(list(score) in drawn(below) for score in scores.values())
    assert [0.4, 0.4] in drawn(below)


def test_roundoff_by_condition_draws_every_prompt_and_the_medians() -> None:
    left: dict[float, list[float]] = {1e2: [1e-15, 3e-15, 2e-15], 1e4: [2e-13] * 3}
    right: dict[float, list[float]] = {1e2: [1e-14] * 3, 1e4: [1e-11, 4e-11, 9e-11]}
    figure = roundoff_by_condition(left, right)
    lines = drawn(figure.axes[0])
    assert [2e-15, 2e-13] in lines
    assert [1e-14, 4e-11] in lines
    assert all(of in lines for errors in (left, right) for of in errors.values())
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names[:2] == [r"$X_TA^\top y$", r"$y^\top AX_T$"]
