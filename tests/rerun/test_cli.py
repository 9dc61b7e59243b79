"""The command line passes on what it was given, and ends with a code and a line that say what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from tfnewton.campaign import experiments, results
from tfnewton.rerun.cli import app
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


def test_help_lists_the_commands() -> None:
    answer = CliRunner().invoke(app, [])
    assert all(name in answer.output for name in ("train", "results", "certify"))
