"""The command line passes on what it was given, and ends with a code and a line that say what happened."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import nbformat
import pytest
from typer.testing import CliRunner

from tfnewton.campaign import experiments, results
from tfnewton.cluster import progress
from tfnewton.rerun import compare as comparing
from tfnewton.rerun import opening, page
from tfnewton.rerun import run as running
from tfnewton.rerun.chapters import chapters, find
from tfnewton.rerun.cli import app
from tfnewton.rerun.commands import _agree, _complete
from tfnewton.theory import certificates


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["lsa-depth"], (["lsa-depth"], "default", 1, Path("runs"), None, "cpu", False)),
        (
            ["logistic", "ln-depth", "--size", "smoke", "--workers", "3", "--runs", "elsewhere", "--yes"],
            (["logistic", "ln-depth"], "smoke", 3, Path("elsewhere"), None, "cpu", True),
        ),
        (
            ["logistic", "--scheduler", "tcp://node:8786", "--device", "cuda"],
            (["logistic"], "default", 1, Path("runs"), "tcp://node:8786", "cuda", False),
        ),
    ],
)
def test_train_passes_on_what_is_asked_for(
    given: list[str], passed: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(experiments, "carry_out", lambda *arguments: seen.append(arguments))
    answer = CliRunner().invoke(app, ["train", *given])
    assert answer.exit_code == 0, answer.output
    assert seen == [passed]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("steps = 0: must be at least 1"), 2, "steps = 0: must be at least 1"),
        (TypeError("steps = '1'"), 2, "steps = '1'"),
        (OSError("disk full"), 2, "disk full"),
        (RuntimeError("2 runs were not trained"), 1, "2 runs were not trained"),
        (ModuleNotFoundError("No module named 'dask'"), 2, 'pip install "tfnewton[science,learning,cluster]"'),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_goes_wrong_is_a_line_and_a_code(
    error: BaseException, code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise error

    monkeypatch.setattr(experiments, "carry_out", fail)
    answer = CliRunner().invoke(app, ["train", "lsa-depth"])
    assert answer.exit_code == code
    assert told in answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.output


def test_an_unknown_experiment_is_named() -> None:
    answer = CliRunner().invoke(app, ["train", "lsa"])
    assert answer.exit_code == 2
    assert "experiment = 'lsa': must be one of 'lsa-depth'" in answer.stderr


def test_results_are_printed_or_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "main_table", lambda: "the table")
    monkeypatch.setattr(results, "ship", lambda root: [f"{root}/a", "b"])
    assert CliRunner().invoke(app, ["results"]).stdout == "the table\n"
    assert CliRunner().invoke(app, ["results", "--ship", "runs/default"]).stdout == "runs/default/a\nb\n"


@pytest.mark.parametrize(("decided", "code"), [(True, 0), (False, 1)])
def test_certify_fails_where_something_is_undecided(decided: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "report", lambda: decided)
    assert CliRunner().invoke(app, ["certify"]).exit_code == code


COMMANDS = ["list", "params", "run", "open", "sweep", "compare", "train", "results", "certify"]


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_help_lists_the_commands_those_on_chapters_first() -> None:
    listed = re.findall(r"^│ (\w+) ", call().output.partition("Commands")[2], re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_an_example(name: str) -> None:
    assert f"Example: tfnewton {name}" in call(name, "--help").output


def test_help_loads_nothing_heavy() -> None:
    heavy = ["torch", "numpy", "pydantic", "pandas", "matplotlib", "papermill", "nbformat", "jinja2", "dask", "yaml"]
    program = (
        "import sys; sys.argv[1:] = ['--help']\nfrom tfnewton.rerun.cli import main\n"
        f"try: main()\nexcept SystemExit: print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_list_tells_every_chapter() -> None:
    told = json.loads(call("list", "--json").stdout)
    assert [one["name"] for one in told] == [of.name for of in chapters()]
    assert told[2]["headline"] == "inverse-residuals-table:error"
    text = call("list").stdout
    assert " 3  matrix_inversion, about 15 s\n    two layers of linear attention are one Newton step" in text
    assert all(str(of.entry.headline) in text for of in chapters())


def test_params_tell_types_ranges_costs_and_presets() -> None:
    told = json.loads(call("params", "9", "--json").stdout)
    assert told["parameters"][0] == {
        "name": "layers",
        "type": "int",
        "default": 4,
        "allowed": "an integer from 1 to 12",
        "help": "depth of the model looked at closely, from 1 to 6, or from 1 to 12 with retrain",
    }
    assert told["presets"]["noisy"] == {"noise": 1.0}
    assert set(told["costly"]) == {"retrain"}
    text = call("params", "inversion").stdout
    assert re.search(r"^kappa +float +10 +a number from 1 to 1e6 +its condition number", text, re.MULTILINE)
    assert "--preset ill-conditioned: kappa = 10000, steps = 40" in text


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What a run is asked for; none is carried out."""
    seen: list[tuple[Any, ...]] = []

    def run(chapter: Any, values: Any, output: Any, again: bool, watch: Any) -> running.Run:
        seen.append((chapter.file, chapter.changed(values), output, again))
        return running.Run(tmp_path / "run", found=again)

    monkeypatch.setattr(running, "run", run)
    monkeypatch.setattr(page, "make", lambda folder: folder / "page.html")
    return seen


def test_run_passes_on_what_is_asked_for(asked: list[Any], tmp_path: Path) -> None:
    answer = call("run", "3", "-p", "kappa=1e3", "-p", "symmetric=yes", "--preset", "symmetric", "-o", "here", "--html")
    assert answer.exit_code == 0, answer.output
    changed = {"d": 8, "kappa": 1000.0, "steps": 20, "symmetric": True}
    assert asked == [("03_matrix_inversion", changed, Path("here"), False)]
    assert answer.stdout == f"{tmp_path / 'run' / 'page.html'}\n"
    answer = call("run", "3", "--again", "--json")
    assert json.loads(answer.stdout) == {"folder": str(tmp_path / "run"), "found": True, "page": None}


@pytest.mark.parametrize(("options", "terminal", "answer", "runs"), [
    ((), False, "", True),
    ((), True, "y\n", True),
    ((), True, "n\n", False),
    (("--yes",), True, "", True),
])  # fmt: skip
def test_a_long_run_is_told_and_asked_about_where_somebody_is(
    options: tuple[str, ...], terminal: bool, answer: str, runs: bool, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "somebody_is_there", lambda: terminal)
    long = ("-p", "retrain=yes", "-p", "layers=12", "-p", "steps=10000")
    done = CliRunner().invoke(app, ["run", "9", *long, *options], input=answer)
    assert re.search(r"This takes about \d+(\.\d)? (min|h) on one core\.", done.stderr)
    assert ("Begin?" in done.output) is (terminal and not options)
    assert (len(asked), done.exit_code) == ((1, 0) if runs else (0, 130))


def test_runs_take_no_less_than_the_longest_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """More workers than runs do not help; how many a scheduler has is not known."""
    told: list[str] = []

    def agreed(words: str, yes: bool) -> bool:
        told.append(words)
        return True

    monkeypatch.setattr(progress, "agreed", agreed)
    for seconds, workers, scheduler in (
        ([400.0, 200.0], 16, None),
        ([200.0] * 8, 4, None),
        ([100.0, 100.0], 16, None),
        ([200.0], 1, "tcp://a:1"),
        ([], 4, None),
    ):
        _agree(seconds, False, workers, scheduler)
    assert told == [
        "This takes about 7 min on 2 cores.",
        "This takes about 7 min on 4 cores.",
        "This takes about 3 min on one core, shared out by tcp://a:1.",
    ]


@pytest.mark.parametrize("workers", ["0", "-3"])
def test_no_workers_are_refused(workers: str) -> None:
    answer = call("sweep", "3", "-g", "d=5,6", "--workers", workers)
    assert (answer.exit_code, answer.stderr) == (2, f"workers = {workers}: must be at least 1\n")


@pytest.mark.parametrize("place", [".", "..", "/"])
def test_a_run_needs_a_folder_that_is_to_be_made(place: str) -> None:
    answer = call("run", "3", "-p", "d=5", "-o", place, "--again")
    assert (answer.exit_code, answer.stderr.splitlines()[-1]) == (
        2,
        f"output = {place}: must be the name of a folder that is to be made",
    )


def test_all_faults_of_a_call_are_told() -> None:
    answer = call("run", "3", "--preset", "symetric", "-p", "kapa=3", "-p", "d=99")
    assert answer.stderr.splitlines()[:3] == [
        "preset = symetric: there is no such preset; did you mean symmetric?",
        "kapa = 3: there is no such parameter; did you mean kappa?",
        "d = 99: must be an integer from 1 to 64",
    ]
    answer = call("sweep", "3", "-g", "kapa=1,2", "--preset", "symetric", "-p", "steps=500")
    assert {line.partition(":")[0] for line in answer.stderr.splitlines()[:3]} == {
        "kapa = 1,2",
        "preset = symetric",
        "steps = 500",
    }
    answer = call("run", "3", "-p", "kapa", "-p", "dd")
    assert [line.partition(":")[0] for line in answer.stderr.splitlines()] == ["-p kapa", "-p dd"]


def test_another_notebook_is_no_chapter(tmp_path: Path) -> None:
    copy = tmp_path / "03_matrix_inversion.ipynb"
    copy.write_text("{}")
    answer = call("params", str(copy))
    assert answer.exit_code == 2
    assert f"chapter = {copy}: is no chapter of" in answer.stderr


def test_a_shell_completes_the_names_of_chapters() -> None:
    assert _complete("matrix") == ["matrix_inversion"]


def test_help_says_what_is_done_without_an_option() -> None:
    text = " ".join(call("sweep", "--help").stdout.replace("│", " ").split())
    assert "(else under runs/)" in text
    assert "(else the headline quantity)" in text


def test_a_short_run_is_not_asked_about(asked: list[Any]) -> None:
    assert "This takes" not in call("run", "3").stderr
    assert len(asked) == 1


@pytest.mark.parametrize("wrong", [["-p", "kappa"], ["-p", "=3"], ["-p", ""], ["-p", "kappa", "-p", "d=4"]])
def test_a_parameter_without_a_value_is_refused(wrong: list[str], asked: list[Any]) -> None:
    answer = call("run", "3", *wrong)
    assert answer.exit_code == 2
    assert "must be NAME=VALUE, as in -p kappa=1000" in answer.stderr
    assert not asked


def test_open_makes_a_copy_with_these_parameters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[Path] = []

    def start(path: Path) -> int:
        started.append(path)
        return 0

    monkeypatch.setattr(opening, "start", start)
    monkeypatch.chdir(tmp_path)
    answer = call("open", "3", "-p", "kappa=1000", "-p", "dtype=float32")
    copy = Path("runs/03_matrix_inversion/kappa=1000,dtype=float32.ipynb")
    assert (answer.exit_code, answer.stdout, started) == (0, f"{copy}\n", [copy])
    notebook = nbformat.read(copy, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "kappa: float = 1000.0  # its condition number, from 1 to 1e6" in cells[0].source.splitlines()
    assert "dtype: str = 'float32'  # precision of the transformer, float64 or float32" in cells[0].source.splitlines()
    assert cells[0].source.count("\n") == len(find("3").defaults()) - 1
    assert not any(cell.outputs for cell in cells)


def test_open_leaves_a_copy_that_was_worked_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    first = Path(call("open", "3", "--no-lab").stdout.strip())
    first.write_text("mine")
    assert call("open", "3", "--no-lab").stdout.strip() == str(first)
    second = Path(call("open", "3", "--no-lab", "--again").stdout.strip())
    assert (first.read_text(), second.name) == ("mine", "defaults-2.ipynb")
    assert call("open", "3", "-p", "kappa=0.5").exit_code == 2


def test_compare_writes_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(comparing, "page", lambda runs: f"<p>{[str(of) for of in runs]}</p>")
    answer = call("compare", "a", "b", "-o", str(tmp_path / "page.html"))
    assert answer.stdout == f"{tmp_path / 'page.html'}\n"
    assert (tmp_path / "page.html").read_text() == "<p>['a', 'b']</p>"


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, asked: list[Any]) -> None:
    def missing(*_: object) -> NoReturn:
        raise ModuleNotFoundError("No module named 'papermill'")

    monkeypatch.setattr(running, "run", missing)
    answer = call("run", "3")
    assert answer.exit_code == 2
    assert """No module named 'papermill': it comes with an extra, pip install "tfnewton[book]\"""" in answer.stderr
