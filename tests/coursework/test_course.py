"""Laying a course out, looking for leaks, and what is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from grading.course import lay_out
from grading.leaks import leaks, secrets
from tests.coursework.course_folder import ROOT, CourseFolder
from tests.coursework.small_master import NAME, SOLUTION, write_small_master

MASTERS = ROOT / "coursework" / "source"
SECRET = "product_of_the_number_with_itself = x * x"


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


@pytest.mark.parametrize(
    ("variant", "masters", "message"),
    [(-1, "private", "variant = -1: must be 0 or more"), (0, "nothing", "has no assignment")],
)
def test_what_cannot_be_laid_out_is_refused_and_nothing_is_written(
    variant: int, masters: str, message: str, tmp_path: Path
) -> None:
    write_small_master(tmp_path / "private")
    with pytest.raises(ValueError, match=message):
        lay_out(tmp_path / masters, tmp_path / "course", variant)
    assert not (tmp_path / "course").exists()


def test_a_master_without_a_cell_for_the_variant_is_refused(tmp_path: Path) -> None:
    path = write_small_master(tmp_path / "private")
    notebook = nbformat.read(path, as_version=4)
    del notebook.cells[0]
    nbformat.write(notebook, path)
    with pytest.raises(ValueError, match=r"must have one cell with the tag `parameters`"):
        lay_out(tmp_path / "private", tmp_path / "course", 0)
    assert not (tmp_path / "course").exists()


def test_the_variant_is_written_in_and_what_is_there_stays(tmp_path: Path) -> None:
    write_small_master(tmp_path / "private")
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "gradebook.db").write_bytes(b"grades")
    for variant in (0, 12):
        assert lay_out(tmp_path / "private", tmp_path / "course", variant) == [NAME]
        cells = sources(tmp_path / "course" / "source" / NAME / "small.ipynb")
        assert cells[0] == f"variant = {variant}"
        assert cells[1] == SOLUTION
    assert (tmp_path / "course" / "gradebook.db").read_bytes() == b"grades"


def test_another_variant_than_that_of_work_that_was_handed_in_is_refused(tmp_path: Path) -> None:
    write_small_master(tmp_path / "private")
    lay_out(tmp_path / "private", tmp_path / "course", 3)
    (tmp_path / "course" / "submitted" / "ada").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"variant = 4: .*course has work of variant 3; name another folder"):
        lay_out(tmp_path / "private", tmp_path / "course", 4)
    assert sources(tmp_path / "course" / "source" / NAME / "small.ipynb")[0] == "variant = 3"
    lay_out(tmp_path / "private", tmp_path / "course", 3)


@pytest.mark.parametrize("text", [b"garbage", b"\xff\xfe", b"{}"])
def test_a_master_that_is_no_notebook_is_named(text: bytes, tmp_path: Path) -> None:
    path = write_small_master(tmp_path / "private")
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"small\.ipynb: "):
        lay_out(tmp_path / "private", tmp_path / "course", 0)
    assert not (tmp_path / "course").exists()


def test_a_repository_is_installed_from_where_the_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_master(tmp_path / "private")
    lay_out(tmp_path / "private", tmp_path / "course", 0, "https://example.org/tfnewton.git")
    first, *_ = sources(tmp_path / "course" / "source" / NAME / "small.ipynb")
    installed: list[str] = []
    program = first.replace("%pip install --quiet ", "installed.append(") + ")"
    exec(program, {"installed": installed})
    assert installed == []  # it is there
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(program, {"installed": installed})
    assert installed == ["tfnewton[science,learning] @ git+https://example.org/tfnewton.git"]


@pytest.mark.parametrize("way", ["plain", "json", "html", "ascii"])
def test_a_leak_is_found_however_it_is_written(way: str, tmp_path: Path) -> None:
    path = write_small_master(tmp_path / "private")
    notebook = nbformat.read(path, as_version=4)
    line = 'result = "<é>" if x < 3 else product'
    notebook.cells[1].source = notebook.cells[1].source.replace(SECRET, line)
    nbformat.write(notebook, path)
    escaped = line.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    text = {
        "plain": line,
        "json": json.dumps({"source": line}, ensure_ascii=False),
        "ascii": json.dumps({"source": line}),
        "html": escaped,
    }
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "page").write_text(f"before {text[way]} after", encoding="utf-8")
    (found,) = leaks(tmp_path / "private", [shipped])
    assert str(shipped / "page") in found
    assert line in secrets(tmp_path / "private")
    (shipped / "page").write_text("nothing of it", encoding="utf-8")
    assert leaks(tmp_path / "private", [shipped]) == []


def test_lines_that_students_see_anyway_are_no_secret(tmp_path: Path) -> None:
    path = write_small_master(tmp_path / "private")
    assert SECRET in secrets(tmp_path / "private")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(f"# as in: {SECRET}"))
    nbformat.write(notebook, path)
    assert SECRET not in secrets(tmp_path / "private")


def test_every_master_has_secrets_and_no_output() -> None:
    for path in MASTERS.glob("*/*.ipynb"):
        assert len(secrets(path.parent)) > 20
        assert not [cell for cell in nbformat.read(path, as_version=4).cells if cell.get("outputs")]


@pytest.mark.parametrize("path", sorted(MASTERS.glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_cells_of_masters_are_short_and_narrow(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert max(map(len, cell.source.splitlines())) <= 78, cell.source
            shown = [line for line in cell.source.partition("### BEGIN HIDDEN")[0].splitlines() if line.strip()]
            assert cell.metadata.get("nbgrader", {}).get("solution") or len(shown) <= 15, cell.source


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["empty", "leaking"])
def test_a_release_that_students_must_not_get_is_refused(kind: str, tmp_path: Path) -> None:
    path = write_small_master(tmp_path / "private")
    notebook = nbformat.read(path, as_version=4)
    test: Any = notebook.cells[2]
    if kind == "empty":
        test.source = test.source.partition("\n")[2]
    else:  # an output that shows what the solution is
        notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text=SECRET)]
        notebook.metadata["remark"] = SECRET
    nbformat.write(notebook, path)
    course = CourseFolder(tmp_path / "c")
    said = course.make("--masters", str(tmp_path / "private"), code=1)
    assert {"empty": "the graded cell square-test is empty", "leaking": f"has '{SECRET}'"}[kind] in said


@pytest.mark.slow
def test_the_built_book_and_the_slides_hold_no_solution_and_no_hidden_test(tmp_path: Path) -> None:
    html = ROOT / "_build" / "html"
    if not (html / "index.html").is_file():
        pytest.skip("the book has not been built: make book")
    from book.slides.build import build

    build(tmp_path)
    assert (tmp_path / "lecture.html").is_file()
    public = "\n".join(path.read_text(encoding="utf-8") for path in _public())
    assert leaks(MASTERS, [html, tmp_path], public) == []


def _public() -> list[Path]:
    """Return what the book publishes anyway: its own chapters, pages and package."""
    kinds = ("notebooks/*.ipynb", "book/*.md", "book/slides/*.md", "tfnewton/**/*.py")
    return [path for kind in kinds for path in ROOT.glob(kind)]
