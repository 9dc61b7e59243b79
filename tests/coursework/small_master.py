"""A master of one task, quick to grade, which stands in a folder of its own as private masters do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

__all__ = ["NAME", "SOLUTION", "TEST", "write_small_master"]

NAME = "9_small"
SOLUTION = """def square(x):
    ### BEGIN SOLUTION
    product_of_the_number_with_itself = x * x
    return product_of_the_number_with_itself
    ### END SOLUTION"""
TEST = """# Graded here: small numbers (1 point) and large ones (2 points).
### BEGIN HIDDEN TESTS
from grading.marks import Marks, observe
marks = Marks()
with marks.part(1, "chapter 1"):
    observe(square(variant + 2) == (variant + 2) ** 2, "a small number is wrong")
with marks.part(2, "chapter 1"):
    observe(square(10**6) == 10**12, "a large number is wrong")
marks.total
### END HIDDEN TESTS"""


def write_small_master(masters: Path) -> Path:
    """Write the master below ``masters``, and return its path."""
    cells = [
        _cell("variant", "variant = 0", tags=["parameters"]),
        _cell("square", SOLUTION, solution=True, locked=False),
        _cell("square-test", TEST, grade=True, points=3),
    ]
    path = masters / NAME / "small.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "P"}}), path)
    return path


def _cell(name: str, source: str, tags: list[str] | None = None, **of: bool | int) -> Any:
    nbgrader = {"grade": False, "grade_id": name, "locked": True, "schema_version": 3, "solution": False, "task": False}
    return new_code_cell(source, id=name, metadata={"nbgrader": nbgrader | of} | ({"tags": tags} if tags else {}))
