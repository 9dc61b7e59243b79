"""The depths that chapters 09 and 13 offer are those of the models that come with the package."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from pydantic import ValidationError

from tfnewton.campaign import results
from tfnewton.rerun.chapters import find

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def help_on_layers(chapter: str) -> str:
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells
    source = next(cell.source for cell in cells if "parameters" in cell.metadata.get("tags", []))
    return str(next(line for line in source.splitlines() if line.startswith("layers"))).partition("#")[2]


def test_linear_attention() -> None:
    names = results.by_depth()
    match = re.search(
        r"from (\d+) to (\d+), or from 1 to 12 with retrain", help_on_layers("09_training_linear_attention")
    )
    assert match
    offered = list(range(int(match[1]), int(match[2]) + 1))
    assert list(names["query in"]) == list(names["query out"]) == offered


def test_conditioning_and_noise() -> None:
    text = help_on_layers("13_conditioning_and_noise")
    assert "1 to 8, 10 or 12; above 6 with LayerNorm only" in text
    names = results.by_depth()
    all_kinds = {depth for kind in ("query in", "query out", "LayerNorm") for depth in names[kind]}
    assert sorted(all_kinds) == [*range(1, 9), 10, 12]
    assert max(names["query in"]) == max(names["query out"]) == 6


@pytest.mark.parametrize("number", ["9", "10", "11", "12", "13"])
def test_parameters_take_the_depths_that_are_shipped(number: str) -> None:
    """Before anything is started; the classes do not look into the folder of the models."""
    chapter, names = find(number), results.by_depth()
    kinds = {
        "9": ["query in", "query out"],
        "12": ["encoder"],
        "13": ["query in", "query out", "LayerNorm"],
    }.get(number, ["query in", "query out", "LayerNorm"])
    depths = [set(names[kind]) for kind in kinds]
    shipped = set.union(*depths) if number == "13" else set.intersection(*depths)
    taken = set()
    for layers in range(1, 41):
        try:
            chapter.parameters(**chapter.defaults() | {"layers": layers})
            taken.add(layers)
        except ValidationError:
            continue
    assert taken == shipped
