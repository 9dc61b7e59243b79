"""Every chapter run again through papermill: with other parameters, with one that is refused, and asked for help.

``parameters.json`` gives both settings for each chapter; a chapter without an entry fails here.
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
from papermill.cli import papermill as command
from papermill.exceptions import PapermillExecutionError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of papermill and the kernel's client, not ours
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SETTINGS: dict[str, dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_name("parameters.json").read_text())

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def run(path: Path, to: Path, parameters: dict[str, Any]) -> None:
    papermill.execute_notebook(path, to, parameters, cwd=path.parent, progress_bar=False)


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


@each_notebook
def test_other_parameters_change_the_numbers(path: Path, tmp_path: Path) -> None:
    defaults = papermill.inspect_notebook(path)
    parameters = SETTINGS[path.stem]["run"]
    assert all(repr(value) != defaults[name]["default"] for name, value in parameters.items()), "a default is no change"
    run(path, tmp_path / "out.ipynb", parameters)
    before, after = printed(path), printed(tmp_path / "out.ipynb")
    numbers = [re.findall(r"\d+\.?\d*(?:e[+-]\d+)?", "".join(text)) for text in (before, after)]
    assert numbers[0] != numbers[1]
    assert numbers[1]
    streams = [output for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in streams if output.get("name") == "stderr"]


@each_notebook
def test_bad_parameter_is_refused_by_name_before_any_computing(path: Path, tmp_path: Path) -> None:
    ((name, value),) = SETTINGS[path.stem]["refused"].items()
    with pytest.raises(PapermillExecutionError) as refusal:
        run(path, tmp_path / "out.ipynb", {name: value})
    assert re.search(rf"\b{name}\b", refusal.value.evalue), refusal.value.evalue
    assert str(value) in refusal.value.evalue
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
