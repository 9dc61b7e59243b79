"""Sentences and captions that chapters print about a run, held against the run; without kernels and without figures."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

pytestmark = pytest.mark.slow

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def shown(chapter: str, last: str, **parameters: Any) -> tuple[list[Any], dict[str, Any]]:
    """Run a chapter as far as the cell that contains ``last``; return what its cells show, and its variables."""
    names: dict[str, Any] = {}
    values = []
    for cell in nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            *body, end = ast.parse(cell.source).body
            value = isinstance(end, ast.Expr)
            exec(compile(ast.Module(body if value else [*body, end], []), chapter, "exec"), names)
            if isinstance(end, ast.Expr) and "mystnb" not in cell.metadata:  # which says that it draws
                values.append(eval(compile(ast.Expression(end.value), chapter, "eval"), names))
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters
            if last in cell.source:
                return values, names
    raise LookupError(f"{last} is in no cell of {chapter}")


@pytest.mark.parametrize(
    ("parameters", "verdict"),
    [
        ({"d": 1, "kappa": 1e6, "steps": 0, "dtype": "float32"}, "this run gets there"),
        ({"d": 10, "kappa": 1e6, "steps": 50}, "this run gets there"),
        ({"steps": 10}, "this run ends before"),
        ({"kappa": 1e4, "steps": 60, "dtype": "float32"}, "roundoff keeps this run from there"),
        ({"d": 64, "kappa": 1e5, "steps": 50}, "this run gets there"),
    ],
)
def test_chapter_3_says_whether_the_residual_comes_to_a_hundred_millionth(
    parameters: dict[str, Any], verdict: str
) -> None:
    values, names = shown("03_matrix_inversion", "needed =", **parameters)
    assert values[-1].data.endswith(f"; {verdict}.")
    A, X = names["A"], names["X_0"]
    residuals = []
    for _ in range(names["steps"] + 1):
        residuals.append(np.linalg.norm(np.eye(len(A)) - A.astype(float) @ X.astype(float), 2))
        X = 2 * X - X @ (A @ X)
    assert (min(residuals) <= 1e-8) == (verdict == "this run gets there")


@pytest.mark.parametrize(
    ("parameters", "columns"),
    [
        ({}, ["step", "proved", "residual", "error", "apart"]),
        ({"kappa": 1e5, "steps": 40, "dtype": "float32"}, ["step", "proved"]),
    ],
)
def test_chapter_3_describes_the_columns_that_its_table_has(parameters: dict[str, Any], columns: list[str]) -> None:
    values, _ = shown("03_matrix_inversion", "inverse-residuals-table", **parameters)
    assert list(values[-1].frame) == columns
    assert ("distance from the direct iterate" in values[-1].caption) == ("apart" in columns)


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [({}, False), ({"d": 8, "n": 8, "seed": 9683, "steps": 90}, True)],
)
def test_chapter_4_warns_where_roundoff_keeps_the_prompt_from_a_millionth(
    parameters: dict[str, Any], kept: bool
) -> None:
    values, names = shown("04_linear_regression", "asked =", **parameters)
    assert names["steps"] >= names["enough"]
    off = np.linalg.norm(names["w_last"] - names["w_exact"]) / np.linalg.norm(names["w_exact"])
    assert (off > 1e-6) == kept == ("may keep this prompt from it" in values[-1].data)
