"""Runs are trained where there is room: in this process, in others, on a scheduler's workers; each once, resumably."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.helpers.dask_processes import a_scheduler
from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tfnewton.campaign import estimate
from tfnewton.campaign.estimate import announcement, seconds_a_step, seconds_to_train
from tfnewton.campaign.experiments import EXPERIMENTS, write_table
from tfnewton.campaign.recipes import linear_attention
from tfnewton.campaign.tables import load_model
from tfnewton.campaign.workers import _train, missing, run_all
from tfnewton.cluster.task import UnfitError
from tfnewton.learning.devices import one_thread
from tfnewton.learning.runs import RunFolder, read_checkpoint
from tfnewton.learning.training import train
from tfnewton.rerun.cli import app

SMOKE = EXPERIMENTS["lsa-depth"].runs("smoke")


@pytest.mark.slow
def test_command_trains_what_is_missing(tmp_path: Path) -> None:
    first, *others = SMOKE
    train(first.config, tmp_path / "smoke" / first.name)
    options = ["--size", "smoke", "--workers", "2", "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, ["train", "lsa-depth", *options])
    assert result.exit_code == 0, result.output
    assert "lsa-depth: 4 of 4 runs complete" in result.output
    assert first.name not in result.output
    assert all(f"{run.name}: best validation loss" in result.output for run in others)
    model, stored = load_model(tmp_path / "smoke" / first.name)
    assert stored == first.config
    assert model.options == first.config.model


def test_costs_are_layers_times_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time left weighs a run by them."""
    seen: dict[str, float] = {}

    class Idle:
        def map(self, function: object, tasks: object, watch: object, costs: dict[str, float]) -> Iterator[Any]:
            seen.update(costs)
            return iter(())

        def everywhere(self, *_: object) -> dict[str, Any]:
            return {}

    monkeypatch.setattr("tfnewton.campaign.workers.connect", lambda *_: nullcontext(Idle()))
    runs = [linear_attention(layers, 0, "default") for layers in (1, 4)]
    assert run_all(runs, tmp_path) == 0
    assert seen == {run.name: run.config.steps * run.config.model.layers for run in runs}


def test_one_failed_run_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One folder holds another run, another one is held by another process."""
    foreign, held, free = SMOKE[:3]
    train(foreign.config.model_copy(update={"seed": 9, "steps": 10}), tmp_path / foreign.name)
    (tmp_path / foreign.name / "weights.safetensors").unlink()
    threads = torch.get_num_threads()
    with RunFolder(tmp_path / held.name).locked():
        assert run_all([foreign, held, free], tmp_path) == 2
    assert torch.get_num_threads() == threads
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{foreign.name}: not trained: {tmp_path / foreign.name} holds another run: seed is 9")
    assert lines[1].startswith(f"{held.name}: not trained: ")
    assert lines[1].endswith("another process is training in this run folder")
    assert lines[2].startswith(f"{free.name}: best validation loss")
    assert [run.name for run in missing([held, free, held], tmp_path)] == [held.name]
    assert write_table("logistic", tmp_path, "smoke") is None


def test_runs_that_cannot_be_trained_are_no_success(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = ["--size", "smoke", "--runs", str(tmp_path / "file")]
    result = CliRunner().invoke(app, ["train", "lsa-depth", *options])
    assert result.exit_code == 1, result.output
    assert "4 runs were not trained" in result.output


@pytest.mark.parametrize("device", ["cuda:99", "nowhere"])
@pytest.mark.parametrize("names", [["lsa-depth"], ["ln-depth", "logistic"]])
def test_a_device_is_refused_before_compute(names: list[str], device: str, tmp_path: Path) -> None:
    options = ["--device", device, "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, ["train", *names, *options])
    assert result.exit_code == 2
    assert result.output.startswith(f"device = '{device}': must be one that torch can use here")
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_only_on_its_kind_of_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StopError):
        train(config(), tmp_path, stop_at(15))
    monkeypatch.setattr("tfnewton.learning.training.generator", lambda *_: _Other())
    with pytest.raises(ValueError, match=r"begun on another kind of device than 'cpu', and goes on only there"):
        train(config(), tmp_path)


class _Other(torch.Generator):
    """A generator whose state is of another kind."""

    def set_state(self, state: torch.Tensor) -> torch.Generator:
        raise RuntimeError("RNG state is wrong size")


# estimates


def test_what_takes_long_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are left times seconds a step, each kind timed once."""
    timed: list[int] = []

    def a_second_a_layer(timed_config: object, device: str) -> float:
        timed.append(timed_config.model.layers)  # type: ignore[attr-defined]
        return float(timed[-1])

    monkeypatch.setattr(estimate, "seconds_a_step", a_second_a_layer)
    runs = [linear_attention(layers, seed, "default") for seed in range(3) for layers in (1, 2)]
    assert seconds_to_train(runs, tmp_path) == 3 * (2000 * 1 + 3000 * 2)
    assert timed == [1, 2]
    (tmp_path / runs[0].name).mkdir()
    (tmp_path / runs[0].name / "history.csv").write_text("step,rate\n250,0.1\n1500,0.1\n")
    assert seconds_to_train(runs, tmp_path) == 3 * (2000 * 1 + 3000 * 2) - 1500
    words = "6 runs to train, 13500 steps"
    assert announcement(runs, tmp_path) == f"{words}: about 6.2 h with 1 worker, by a few steps timed now"
    assert announcement(runs, tmp_path, 2) == f"{words}: about 3.1 h with 2 workers, by a few steps timed now"
    assert announcement(runs, tmp_path, 1, "tcp://a:1") == (
        f"{words}: about 6.2 h for one thread of this machine, shared out by tcp://a:1"
    )
    assert announcement(runs, tmp_path, 1, "tcp://a:1", "cuda") == f"{words}, on the workers of tcp://a:1"
    assert announcement(SMOKE, tmp_path) is None
    monkeypatch.setattr(estimate, "seconds_a_step", lambda *_: 1e-3)
    assert announcement(runs, tmp_path) is None


def test_a_step_is_timed() -> None:
    assert 0.0 < seconds_a_step(config()) < 1.0


def test_the_answer_no_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "seconds_a_step", lambda *_: 1.0)
    monkeypatch.setattr("tfnewton.campaign.experiments.agreed", lambda text, yes: False)
    result = CliRunner().invoke(app, ["train", "lsa-depth", "--runs", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (130, "")
    assert list(tmp_path.iterdir()) == []


# a scheduler


@pytest.mark.slow
def test_runs_are_trained_by_the_workers_of_a_scheduler(tmp_path: Path) -> None:
    """The same weights, to the last bit, as in this process."""
    with a_scheduler(2) as address:
        options = ["--size", "smoke", "--scheduler", address, "--runs", str(tmp_path)]
        result = CliRunner().invoke(app, ["train", "lsa-depth", *options])
        assert result.exit_code == 0, result.output
        assert "lsa-depth: 4 of 4 runs complete" in result.output
        options = ["--device", "cuda:99", "--scheduler", address, "--runs", str(tmp_path)]
        result = CliRunner().invoke(app, ["train", "lsa-depth", *options])
        assert result.exit_code == 2
        assert result.output.count(": device = 'cuda:99': must be one that torch can use here") == 2
    for run in SMOKE:
        with one_thread():
            train(run.config, tmp_path / "here" / run.name)
        assert weights(tmp_path / "here" / run.name) == weights(tmp_path / "smoke" / run.name)
    assert not list((tmp_path / "smoke").glob(".*"))


HIDING = ["unshare", "--mount", "sh", "-c"]


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*HIDING, "true"], capture_output=True, check=False).returncode != 0,
    reason="hides a folder from a process, for which it must be root",
)
def test_workers_that_do_not_see_the_folder_are_refused(tmp_path: Path) -> None:
    hide = [*HIDING, f'mount -t tmpfs none "{tmp_path}" && exec "$0" "$@"']
    with a_scheduler(1, hide) as address:
        options = ["--size", "smoke", "--scheduler", address, "--runs", str(tmp_path)]
        result = CliRunner().invoke(app, ["train", "lsa-depth", *options])
    assert result.exit_code == 2
    assert f"does not see the folder {tmp_path / 'smoke'} of this machine" in result.output
    assert "worker tcp://127.0.0.1:" in result.output
    assert [path.name for path in tmp_path.rglob("*")] == ["smoke"]


def test_a_worker_with_another_folder_in_its_place_is_unfit(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another")
    for name, text in (("token", "one"), ("absent", "one")):
        with pytest.raises(UnfitError, match=f"a worker that came later does not see the folder {tmp_path}"):
            _train(SMOKE[0], tmp_path, "cpu", (tmp_path / name, text))
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


# processes


def processes_with_files_in(folder: Path) -> list[str]:
    held = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            held += [entry.name for link in (entry / "fd").iterdir() if str(folder) in str(link.readlink())]
        except OSError:
            continue
    return held


LONG_RUNS = """
import sys
from pathlib import Path
from tests.helpers.tiny_run import config
from tfnewton.campaign.recipes import Run
from tfnewton.campaign.workers import run_all

runs = [Run(f"run-{seed}", config(1_000_000, seed=seed, evaluate_every=1_000_000)) for seed in range(3)]
try:
    run_all(runs, Path(sys.argv[1]), 2)
except KeyboardInterrupt:
    raise SystemExit(130)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_command_however_it_ends(how: signal.Signals, tmp_path: Path) -> None:
    """Interrupted, runs are saved at the step that they had reached, though an evaluation is far."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_RUNS, str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while len(list(tmp_path.glob("*/last.safetensors"))) < 2:
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1.0)
        if how is signal.SIGINT:
            os.killpg(process.pid, how)
            assert process.wait(100) == 130
            steps = [read_checkpoint(path).state["step"] for path in tmp_path.glob("*/last.safetensors")]
            assert len(steps) == 2
            assert all(steps)  # there is no evaluation after the first step
        else:
            process.kill()
            process.wait()
    finally:
        process.kill()
    end = time.monotonic() + 60
    while processes_with_files_in(tmp_path) and time.monotonic() < end:
        time.sleep(0.2)
    assert processes_with_files_in(tmp_path) == []
