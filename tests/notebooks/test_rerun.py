"""Every chapter run again through papermill: with other parameters, with one that is refused, and asked for help.

``parameters.json`` gives for each chapter a setting to ``run``, others at the ``edges`` of its ranges, and one that is
``refused``; a chapter without an entry fails here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from click.testing import CliRunner
from nbformat import NotebookNode
from papermill.cli import papermill as command
from papermill.exceptions import PapermillExecutionError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of papermill and the kernel's client, not ours
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SETTINGS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("parameters.json").read_text())

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run(path: Path, to: Path, parameters: dict[str, Any]) -> None:
    papermill.execute_notebook(path, to, parameters, cwd=path.parent, progress_bar=False)


def run_watched(path: Path, tmp_path: Path, parameters: dict[str, Any]) -> NotebookNode:
    """Run a chapter with every figure of it looked at, and return it; nothing may go to stderr."""
    notebook = nbformat.read(path, as_version=4)
    source = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.helpers.legible import watch\nwatch()"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, tmp_path / "watched.ipynb")
    papermill.execute_notebook(
        tmp_path / "watched.ipynb", tmp_path / "out.ipynb", parameters, cwd=path.parent, progress_bar=False
    )
    done: NotebookNode = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    streams = [output for cell in done.cells for output in cell.get("outputs", [])]
    assert not [output for output in streams if output.get("name") == "stderr"]
    return done


def edges() -> list[Any]:
    """Each chapter with each of its settings at the edges: three, so that with the one of ``run`` there are four."""
    return [
        pytest.param(path, parameters, id=f"{path.stem}-{number}")
        for path in NOTEBOOKS
        for number, parameters in enumerate(SETTINGS[path.stem]["edges"], 1)
    ]


def printed(path: Path) -> list[str]:
    """What the cells of an executed notebook print and return, as text."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for cell in cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def test_every_chapter_has_settings_and_every_setting_a_chapter() -> None:
    assert sorted(SETTINGS) == [path.stem for path in NOTEBOOKS]
    assert all(len(of["edges"]) >= 3 for of in SETTINGS.values())


@each_notebook
def test_other_parameters_change_the_numbers(path: Path, tmp_path: Path) -> None:
    defaults = papermill.inspect_notebook(path)
    parameters = SETTINGS[path.stem]["run"]
    assert all(repr(value) != defaults[name]["default"] for name, value in parameters.items()), "a default is no change"
    run_watched(path, tmp_path, parameters)
    before, after = printed(path), printed(tmp_path / "out.ipynb")
    numbers = [re.findall(r"\d+\.?\d*(?:e[+-]\d+)?", "".join(text)) for text in (before, after)]
    assert numbers[0] != numbers[1]
    assert numbers[1]


@pytest.mark.long
@pytest.mark.parametrize(("path", "parameters"), edges())
def test_edges_of_the_parameters(path: Path, parameters: dict[str, Any], tmp_path: Path) -> None:
    notebook = run_watched(path, tmp_path, parameters)
    tables = [
        output.data["application/vnd.dataresource+json"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "application/vnd.dataresource+json" in output.get("data", {})
    ]
    for table in tables:
        fields = [field["name"] for field in table["schema"]["fields"]]
        empty = [name for name in fields if all(row[name] is None for row in table["data"])]
        assert not empty, f"{table['name']} has nothing in {empty}"


@pytest.mark.parametrize(
    "path",
    [pytest.param(of, id=of.stem, marks=pytest.mark.long if i else ()) for i, of in enumerate(NOTEBOOKS)],
)
def test_bad_parameter_is_refused_by_name_before_any_computing(path: Path, tmp_path: Path) -> None:
    """A value that is not legal, and a name that the chapter does not have, of which papermill itself only warns."""
    ((name, value),) = SETTINGS[path.stem]["refused"].items()
    with pytest.raises(PapermillExecutionError) as refusal:
        run(path, tmp_path / "out.ipynb", {name: value, "sead": 3})
    assert "sead = 3: there is no such parameter; did you mean seed?" in refusal.value.evalue
    assert re.search(rf"\b{name}\b", refusal.value.evalue), refusal.value.evalue
    assert str(value).removesuffix(".0") in refusal.value.evalue
    # The parameters, the injected ones, and the cell that checks them.
    assert refusal.value.exec_count == 3


@each_notebook
def test_help_lists_every_parameter(path: Path) -> None:
    parameters = papermill.inspect_notebook(path)
    source = next(
        cell.source for cell in nbformat.read(path, as_version=4).cells if "parameters" in cell.metadata.get("tags", [])
    )
    assert list(parameters) == [line.partition(":")[0] for line in source.splitlines()]
    answer = CliRunner().invoke(command, ["--help-notebook", str(path)])
    assert answer.exit_code == 0, answer.output
    for name, parameter in parameters.items():
        assert parameter["help"].strip(), name
        assert parameter["inferred_type_name"], name
        assert f"{name}: {parameter['inferred_type_name']}" in answer.output
        assert parameter["help"].split()[0] in answer.output
