"""What book/rerunning.md says about papermill's two ways of reading a value is what papermill does."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner
from papermill.cli import papermill

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
    assert all(f"`{word}`" in PAGE for word in ("-p", "-y", "Passed unknown parameter"))


@pytest.mark.parametrize(("written", "by_p", "by_y"), ROWS)
def test_papermill_reads_as_the_page_says(written: str, by_p: str, by_y: str, tmp_path: Path) -> None:
    for given, said in ((["-p", "kappa", written], by_p), (["-y", f"kappa: {written}"], by_y)):
        found = read(tmp_path, *given)
        assert (found, type(found)) == (ast.literal_eval(said), type(ast.literal_eval(said))), given


def test_every_chapter_calls_papermill_as_the_page_does() -> None:
    pages = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.md"), ROOT / "README.md"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        calls = [text[: found.start()] for found in re.finditer(r"papermill (?=notebooks/|--)", text)]
        assert all(before.endswith(".venv/bin/") for before in calls), page.name
