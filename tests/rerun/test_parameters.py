"""What the chapters with ReLU layers accept can be built; what they refuse names the parameter and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pydantic import ValidationError

from tests.helpers.tries import later
from tfnewton.campaign import results
from tfnewton.constructions.logistic_regression import largest_iterate
from tfnewton.rerun.parameters import (
    DampedNewton,
    LogisticConstruction,
    MainTheorem,
    SelfConcordance,
    TrainingLogistic,
    least_error,
)
from tfnewton.theory.error_budget import error_budget

CONSTRUCTION: dict[str, Any] = {"d": 3, "n": 8, "mu": 0.1, "error": 1e-3, "inversion_steps": 8, "seed": 0}
THEOREM: dict[str, Any] = {
    "d": 5, "n": 26, "mu": 0.1, "error": 1e-3, "steps": 12, "dataset": "synthetic", "seed": 0
}  # fmt: skip


@pytest.mark.parametrize("mu", [1e-3, 0.1])
@pytest.mark.parametrize("d", [1, *later(64)])
def test_least_error_is_within_reach_of_float64(d: int, mu: float) -> None:
    error = max(least_error(d, mu), 1e-6)
    budget = error_budget(d, mu, error, radius=largest_iterate(mu, error))
    assert budget.bound <= budget.error
    assert budget.relu_width() < 2_000_000


@pytest.mark.parametrize(("d", "n", "mu", "error"), [(30, 100, 0.01, 1e-3), (64, 1000, 0.1, 0.1), (5, 26, 1e-3, 4e-5)])
def test_least_error_bounds_the_work(d: int, n: int, mu: float, error: float) -> None:
    assert error >= least_error(d, mu, n)
    assert error_budget(d, mu, error, radius=largest_iterate(mu, error)).relu_width() * n < 1.2e7


@pytest.mark.parametrize(
    ("chapter", "parameters", "message"),
    [
        (LogisticConstruction, CONSTRUCTION | {"mu": 0.01, "d": 10, "n": 10, "error": 1e-6}, "error = 1e-06.*1.6e-06"),
        (LogisticConstruction, CONSTRUCTION | {"n": 2}, "n = 2: must be at least d = 3"),
        (MainTheorem, THEOREM | {"mu": 1e-3, "error": 1e-5}, "error = 1e-05.*least.*d = 5, n = 26, mu = 0.001"),
        (MainTheorem, THEOREM | {"d": 64, "n": 1000, "mu": 0.01, "error": 0.1}, "error = 0.1: must be at least 0.2"),
    ],
)
def test_an_error_out_of_reach_is_refused(chapter: type[Any], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        chapter(**parameters)


@pytest.mark.parametrize(("name", "value"), [("d", 21), ("n", 201)])
def test_chapters_of_many_hessians_keep_them_small(name: str, value: int) -> None:
    sizes = {"d": 5, "n": 40} | {name: value}
    with pytest.raises(ValidationError, match=rf"(?s)\b{name}\b.*less than or equal to {value - 1}"):
        SelfConcordance(mu=0.1, seed=0, **sizes)
    with pytest.raises(ValidationError, match=rf"(?s)\b{name}\b.*less than or equal to {value - 1}"):
        DampedNewton(mu=0.1, start=1.0, error=0.01, seed=0, **sizes)


def test_help_of_the_logistic_chapter_names_the_depths_that_run_without_training() -> None:
    (path,) = (Path(__file__).parents[2] / "notebooks").glob("*_training_logistic.ipynb")
    cell = next(c for c in nbformat.read(path, as_version=4).cells if "parameters" in c.metadata.get("tags", []))
    shown, retrained = cell.source.splitlines()[0].partition("#")[2].split("; with retrain ")
    assert [int(n) for n in re.findall(r"\d+", shown)] == list(results.by_depth()["encoder"])
    assert re.findall(r"\d+", retrained) == ["1", "40"]
    field = TrainingLogistic.model_fields["layers"]
    assert {name: getattr(of, name) for of in field.metadata for name in ("ge", "le") if hasattr(of, name)} == {
        "ge": 1,
        "le": 40,
    }
