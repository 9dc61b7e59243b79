"""What book/rerunning.md says of commands, values and files is what they do."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner
from papermill.cli import papermill
from typer.testing import CliRunner as TyperRunner

from tfnewton.rerun.chapters import find
from tfnewton.rerun.cli import app
from tfnewton.rerun.points import read_points
from tfnewton.rerun.saving import name_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # papermill's own

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "rerunning.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \|$", PAGE, flags=re.MULTILINE)


def read(tmp_path: Path, *options: str) -> Any:
    """The value that papermill would inject for one parameter."""
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    notebook.cells = [nbformat.v4.new_code_cell("kappa: float = 1.0", metadata={"tags": ["parameters"]})]
    nbformat.write(notebook, tmp_path / "chapter.ipynb")
    paths = [str(tmp_path / name) for name in ("chapter.ipynb", "out.ipynb")]
    answer = CliRunner().invoke(papermill, [*paths, "--prepare-only", *options])
    assert answer.exit_code == 0, answer.output
    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    (injected,) = [cell.source for cell in cells if "injected-parameters" in cell.metadata.get("tags", [])]
    return ast.literal_eval(injected.partition(" = ")[2].strip())


def test_the_page_has_its_table() -> None:
    assert {"1e3", "yes", "010", "1:30"} <= {written for written, _, _ in ROWS}
    assert all(f"`{word}`" in PAGE for word in ("-p", "-y"))


@pytest.mark.parametrize(("written", "by_p", "by_y"), ROWS)
def test_papermill_reads_as_the_page_says(written: str, by_p: str, by_y: str, tmp_path: Path) -> None:
    for given, said in ((["-p", "kappa", written], by_p), (["-y", f"kappa: {written}"], by_y)):
        found = read(tmp_path, *given)
        assert (found, type(found)) == (ast.literal_eval(said), type(ast.literal_eval(said))), given


def test_every_page_calls_the_papermill_of_the_environment() -> None:
    pages = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.md"), ROOT / "README.md"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        calls = [text[: found.start()] for found in re.finditer(r"papermill (?=notebooks/|--)", text)]
        assert all(before.endswith(".venv/bin/") for before in calls), page.name


def commands(text: str) -> list[list[str]]:
    """Each call of tfnewton in a code block, as the shell gives it."""
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(".venv/bin/tfnewton ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def words_of(path: Path) -> str:
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")


PAGES = [ROOT / "README.md", ROOT / "book" / "rerunning.md", *sorted(ROOT.glob("notebooks/*.ipynb"))]
CALLS = [pytest.param(call, id=" ".join(call)) for page in PAGES for call in commands(words_of(page))]


def test_every_chapter_has_a_command_of_its_own_number() -> None:
    for page in PAGES[2:]:
        runs = [call for call in commands(words_of(page)) if call[0] == "run"]
        assert runs, page.name
        assert {find(call[1]).file for call in runs} == {page.stem}


@pytest.mark.parametrize("call", CALLS)
def test_every_command_of_the_pages_is_one(call: list[str]) -> None:
    """Its chapter and its parameters exist and are legal; nothing is run."""
    command, *rest = call
    answer = TyperRunner().invoke(app, [command, "--help"])
    assert answer.exit_code == 0
    assert all(option in answer.output for option in rest if option.startswith("--"))
    if command in ("run", "open", "params"):
        chapter = find(rest[0])
        given = [rest[at + 1] for at, word in enumerate(rest) if word == "-p"]
        chapter.read([(name, text) for name, _, text in (one.partition("=") for one in given)])
    if command == "sweep":
        assert read_points(find(rest[0]), [rest[at + 1] for at, word in enumerate(rest) if word == "-g"]).points


def test_the_refusal_of_the_page_is_what_is_said() -> None:
    ((call, said),) = re.findall(r"```text\n\$ \.venv/bin/tfnewton ([^\n]*)\n(.*?)```", PAGE, flags=re.DOTALL)
    answer = TyperRunner().invoke(app, shlex.split(call))
    assert answer.exit_code == 2
    assert sorted(answer.stderr.splitlines()) == sorted(said.splitlines())


def test_the_folder_that_the_page_compares_is_that_of_its_run() -> None:
    chapter = find("3")
    values = chapter.read([("kappa", "1000"), ("d", "12")])
    (comparing,) = [call for call in commands(PAGE) if call[0] == "compare"]
    assert comparing[1:] == [f"runs/{chapter.file}/{name_of(chapter, of)}" for of in (chapter.defaults(), values)]


WRITTEN = [
    *(("1e3", "kappa", 1000.0), ("1_000", "kappa", 1000.0), ("12.0", "d", 12)),
    *(("yes", "symmetric", True), ("off", "symmetric", False), ("float32", "dtype", "float32")),
]


@pytest.mark.parametrize(("text", "name", "value"), WRITTEN)
def test_values_are_read_as_the_page_says(text: str, name: str, value: Any) -> None:
    assert f"`{text}`" in PAGE
    assert find("3").read([(name, text)])[name] == value


@pytest.mark.parametrize("text", ["2,3", "[2,3]"])
def test_lists_are_read_as_the_page_says(text: str) -> None:
    assert f"`{text}`" in PAGE
    assert find("2").read([("orders", text)])["orders"] == [2, 3]
