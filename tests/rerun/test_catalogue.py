"""What the catalogue says of the chapters is so: their headline quantities, and the words for times."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from tfnewton.rerun.catalogue import CATALOGUE, Headline
from tfnewton.rerun.chapters import Chapter, chapters, find, folder
from tfnewton.rerun.outputs import ROWS

CHAPTERS = chapters()


def tables(chapter: Chapter) -> dict[str, Any]:
    cells = nbformat.read(folder() / f"{chapter.file}.ipynb", as_version=4).cells
    shown = [output.get("data", {}).get(ROWS) for cell in cells for output in cell.get("outputs", [])]
    return {table["name"]: table for table in shown if table is not None}


def test_every_chapter_has_an_entry_and_every_entry_a_chapter() -> None:
    assert list(CATALOGUE) == [of.name for of in CHAPTERS]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.file)
def test_headline_quantities_are_numbers_that_the_chapters_show(chapter: Chapter) -> None:
    headline = chapter.entry.headline
    value = headline.value(tables(chapter)[headline.table], chapter.defaults())
    assert isinstance(value, (int, float))
    assert not isinstance(value, bool)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.file)
def test_costs_are_of_parameters(chapter: Chapter) -> None:
    names = [name for names in chapter.entry.costly for name in names.split(", ")]
    assert set(names) <= set(chapter.defaults())
    assert chapter.seconds(chapter.defaults()) == chapter.entry.seconds


def test_training_takes_as_long_as_it_has_layers_and_steps() -> None:
    chapter = find("9")
    values = chapter.defaults() | {"retrain": True}
    short, long = (chapter.seconds(values | {"steps": steps}) - chapter.entry.seconds for steps in (100, 1000))
    assert long == pytest.approx(10 * short)
    assert short > 0


TABLE = {
    "schema": {"fields": [{"name": "layers"}, {"name": "loss"}]},
    "data": [{"loss": 0.5, "layers": 1}, {"loss": 0.25, "layers": 2}, {"loss": 0.125, "layers": 3}],
}


@pytest.mark.parametrize(("row", "value"), [("first", 0.5), ("last", 0.125), ("layers", 0.25)])
def test_a_headline_names_its_row(row: str, value: float) -> None:
    assert Headline("table", "loss", "a loss", row).value(TABLE, {"layers": 2}) == value


def test_a_headline_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="table:gain: has no such column, but layers, loss"):
        Headline("table", "gain", "a gain").value(TABLE, {})
    with pytest.raises(ValueError, match="table:loss: has no row for layers = 4"):
        Headline("table", "loss", "a loss", "layers").value(TABLE, {"layers": 4})
