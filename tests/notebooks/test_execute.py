"""``make notebooks``: the same bytes on a second run, and a notebook that fails is left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "notebooks" / "execute.py"


def written(path: Path, *sources: str) -> Path:
    cells = [new_markdown_cell("# Title"), *map(new_code_cell, sources)]
    cells[1].metadata.update({"tags": ["parameters"], "scrolled": True, "execution": {"iopub.status.busy": "now"}})
    notebook = new_notebook(cells=cells, metadata={"papermill": {"duration": 1.0}})
    nbformat.write(notebook, path)
    return path


def execute(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *paths], capture_output=True, text=True, check=False)


def test_second_run_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "chapter.ipynb", "n: int = 3  # how many", "print(n)\nprint(n + 1)", "n * 2")
    assert execute(path).returncode == 0
    first = path.read_bytes()
    assert execute(path).returncode == 0
    assert path.read_bytes() == first
    notebook = nbformat.read(path, as_version=4)
    code = notebook.cells[1:]
    assert [cell.execution_count for cell in code] == [1, 2, 3]
    assert code[1].outputs[0].text == "3\n4\n"
    assert code[2].outputs[0].data["text/plain"] == "6"
    assert [dict(cell.metadata) for cell in code] == [{"tags": ["parameters"]}, {}, {}]
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert [file.name for file in tmp_path.iterdir()] == ["chapter.ipynb"]


def test_failing_notebook_is_left_alone_and_the_others_are_run(tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.ipynb", "n: int = 0  # how many", "1 / n")
    good = written(tmp_path / "good.ipynb", "n: int = 1  # how many", "1 / n")
    before = bad.read_bytes()
    answer = execute(bad, good)
    assert answer.returncode == 1
    assert "bad.ipynb is left as it was" in answer.stderr
    assert "ZeroDivisionError" in answer.stderr
    assert bad.read_bytes() == before
    assert nbformat.read(good, as_version=4).cells[2].execution_count == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.ipynb", "good.ipynb"]
