"""Chapters of a few cells, which run in seconds, under the name and the parameters of a real one."""

from __future__ import annotations

import json
from typing import Any

from tfnewton.rerun.chapters import Chapter, find

RESOURCE = {
    "name": "inverse-residuals-table",
    "title": "Errors by step.",
    "schema": {"fields": [{"name": "step", "type": "integer"}, {"name": "error", "type": "number"}]},
    "data": [{"step": 0, "error": 0.5}, {"step": 1, "error": 0.1234567890123}],
}
SHOW = f"display({{'application/vnd.dataresource+json': {RESOURCE!r}, 'text/plain': 'two rows'}}, raw=True)"
FIGURE = (
    "from matplotlib.figure import Figure\n"
    "figure = Figure(figsize=(1, 1))\n"
    "_ = figure.add_subplot().plot([1, kappa])\n"
    "figure"
)


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source: str, **metadata: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "metadata": metadata, "source": source}
    return cell | {"outputs": [], "execution_count": None}


def small_chapter(*sources: str) -> Chapter:
    """Return chapter 3 with its parameters and its check, and then cells of ``sources`` under one heading each."""
    real = find("3")
    first = next(cell for cell in real.notebook["cells"] if "parameters" in cell["metadata"].get("tags", []))
    check = "from tfnewton.rerun.parameters import MatrixInversion\nMatrixInversion.check(globals())"
    cells = [markdown(f"# {real.title}"), json.loads(json.dumps(first)), code(f"{check};")]
    for number, source in enumerate(sources, 1):
        cells += [markdown(f"Words.\n\n## Part {number}\n\nMore."), code(source)]
    cells = [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)]
    notebook = {"cells": cells, "metadata": real.notebook["metadata"], "nbformat": 4, "nbformat_minor": 5}
    return Chapter(real.number, real.name, real.title, notebook)
