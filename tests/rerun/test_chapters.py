"""A chapter is found by what a person calls it, and tells its parameters as its cell and its class have them."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path

import papermill
import pytest

import tfnewton
from tfnewton.rerun import chapters as module
from tfnewton.rerun import parameters as classes
from tfnewton.rerun.chapters import Chapter, chapters, find, folder, told
from tfnewton.rerun.legality import RefusedError

ROOT = Path(tfnewton.__file__).parents[1]
CHAPTERS = chapters()
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.file)


def test_all_notebooks_are_chapters_in_order() -> None:
    assert [of.file for of in CHAPTERS] == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert {of.parameters.__name__ for of in CHAPTERS} == set(classes.__all__) - {"Parameters", "least_error"}


@pytest.mark.parametrize(
    "name",
    [
        *("3", "03", "matrix_inversion", "03_matrix_inversion", "03_matrix_inversion.ipynb"),
        *("notebooks/03_matrix_inversion.ipynb", "inver", "Matrix-Inversion", "matrix inversion", " 3 "),
    ],
)
def test_a_chapter_has_many_names(name: str) -> None:
    assert find(name).file == "03_matrix_inversion"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("newton", "could be 02_newton_iteration, 06_damped_newton; name one of them"),
        ("training", "could be 09_training_linear_attention, 12_training_logistic"),
        ("41", "chapter = 41: is none of 01_linear_transformer, 02_newton"),
        ("softmax", "is none of"),
        ("", "is none of"),
        ("3.5", "is none of"),
    ],
)
def test_no_chapter_or_several_are_refused_with_the_candidates(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find(name)


def test_a_whole_name_goes_before_a_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for stem in ("01_linear", "02_linear_regression"):
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        (tmp_path / "notebooks" / f"{stem}.ipynb").write_text(
            json.dumps({"cells": [{"cell_type": "markdown", "source": "# T"}]})
        )
    monkeypatch.setattr(module, "folder", lambda: tmp_path / "notebooks")
    assert find("linear").file == "01_linear"
    assert find("linear").title == "T"


def test_chapters_are_found_beside_the_package_or_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert folder() == ROOT / "notebooks"
    monkeypatch.setattr(tfnewton, "__file__", str(tmp_path / "site" / "tfnewton" / "__init__.py"))
    monkeypatch.chdir(ROOT)
    assert folder() == ROOT / "notebooks"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no chapters here: .*clone.*make book"):
        folder()


@each_chapter
def test_parameters_are_those_of_the_cell(chapter: Chapter) -> None:
    """As papermill reads them, which has its own way to."""
    told_by_papermill = papermill.inspect_notebook(ROOT / "notebooks" / f"{chapter.file}.ipynb")
    described = {one["name"]: one for one in chapter.described()}
    assert list(described) == list(told_by_papermill)
    assert set(described) == set(chapter.parameters.model_fields)
    for name, one in told_by_papermill.items():
        assert described[name]["default"] == ast.literal_eval(one["default"])
        assert described[name]["type"] == one["inferred_type_name"]
        assert described[name]["help"] == one["help"]
    assert chapter.parameters(**chapter.defaults())


@each_chapter
def test_presets_are_legal_and_change_something(chapter: Chapter) -> None:
    assert len(chapter.entry.presets) >= 2
    for name, values in chapter.entry.presets.items():
        found = chapter.read([], name)
        assert chapter.parameters(**found)
        assert chapter.changed(found) == dict(values)
        assert all(type(found[of]) is type(default) for of, default in chapter.defaults().items())


def test_what_is_given_goes_over_a_preset_and_that_over_the_defaults() -> None:
    chapter = find("3")
    values = chapter.read([("steps", "7")], "ill-conditioned")
    assert values == chapter.defaults() | {"kappa": 1e4, "steps": 7}
    assert list(chapter.changed(values)) == ["kappa", "steps"]
    with pytest.raises(
        ValueError, match=r"preset = ill: there is no such preset; there are ill-conditioned, .*\ntfnewton params 3"
    ):
        chapter.read([], "ill")
    with pytest.raises(RefusedError, match="tfnewton params 3 lists what may be set"):
        chapter.read([("kapa", "3")])


def test_a_chapter_can_be_sent_to_another_process() -> None:
    chapter = find("9")
    copy = pickle.loads(pickle.dumps(chapter))
    assert copy == chapter
    assert copy.parameters is chapter.parameters
    assert len(pickle.dumps(chapter)) < 150_000, "without what the cells have put out"


def test_parameters_are_told_in_a_line() -> None:
    assert told({"kappa": 1000.0, "orders": [2, 3], "word": "a b"}) == "kappa = 1000, orders = [2,3], word = a b"
    assert told({}) == "the defaults"
