"""The loop: resumes to the last bit, survives kills, damage and divergence, and refuses what it must."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tests.helpers.tries import later
from tfnewton.learning import training
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.runs import RunFolder, read_checkpoint
from tfnewton.learning.tasks import Curriculum, LinearPrompts, LogisticRegression
from tfnewton.learning.training import train

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def history(folder: Path) -> list[dict[str, str]]:
    with (folder / "history.csv").open() as file:
        return list(csv.DictReader(file))


def test_training_lowers_the_loss_and_leaves_a_complete_folder(tmp_path: Path) -> None:
    result = train(config(200), tmp_path)
    rows = history(tmp_path)
    assert [int(row["step"]) for row in rows] == list(range(0, 201, 10))
    means = [float(row["validation_mean"]) for row in rows]
    assert min(means) < 0.6 * means[0]
    assert result["best"] == pytest.approx(min(means), rel=1e-5)
    assert json.loads((tmp_path / "environment.json").read_text())[0]["versions"]["torch"] == torch.__version__
    last, best = (read_checkpoint(tmp_path / f"{name}.safetensors") for name in ("last", "best"))
    assert last.state["step"] == 200
    assert best.state["step"] == result["step"]
    assert torch.equal(read_checkpoint(tmp_path / "weights.safetensors").tensors["qkv"], best.tensors["model.qkv"])
    assert {"generator", "optimiser.qkv.exp_avg", "optimiser.out.exp_avg_sq"} <= set(last.tensors)


@pytest.mark.parametrize("step", [33, *later(1, 10, 59)])
def test_interrupted_runs_end_in_the_same_bytes(tmp_path: Path, step: int) -> None:
    train(config(), tmp_path / "whole")
    with pytest.raises(StopError):
        train(config(), tmp_path / "cut", stop_at(step))
    train(config(), tmp_path / "cut")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
    for ours, theirs in zip(history(tmp_path / "cut"), history(tmp_path / "whole"), strict=True):
        assert {**ours, "seconds": ""} == {**theirs, "seconds": ""}


def start(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    script = Path(__file__).parents[1] / "helpers" / "tiny_run.py"
    return subprocess.Popen([sys.executable, str(script), str(folder), str(steps)], env=os.environ | ONE_THREAD)


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.long)])
def test_kills_end_in_the_same_bytes(tmp_path: Path, count: int) -> None:
    steps, chance, kills = 2000, random.Random(0), 0
    assert start(tmp_path / "whole", steps).wait() == 0
    for number in range(count):
        folder = tmp_path / f"killed{number}"
        process = start(folder, steps)
        while not (folder / "last.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.8))
        kills += process.poll() is None
        process.kill()
        process.wait()
        assert not (folder / "weights.safetensors").exists() or process.returncode == 0
        assert start(folder, steps).wait() == 0
        assert weights(folder) == weights(tmp_path / "whole"), folder
    assert kills == count


def test_interrupt_finishes_the_step_and_saves(tmp_path: Path) -> None:
    def report(step: int, loss: float, rate: float) -> None:
        if step == 17:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped at step 17; saved in"):
        train(config(), tmp_path / "cut", report)
    assert read_checkpoint(tmp_path / "cut" / "last.safetensors").state["step"] == 17
    train(config(), tmp_path / "cut")
    train(config(), tmp_path / "whole")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (config(learning_rate=0.02), r"learning_rate is 0\.01 there, 0\.02 was asked for"),
        (config(steps=61), "steps is 60 there, 61 was asked for"),
        (config(seed=1, batch=9), "seed is 0 there, 1 was asked for; batch is 8 there, 9 was asked for"),
        (config(curriculum=Curriculum(every=5)), r"curriculum\.every is None there, 5 was asked for"),
    ],
)
def test_changed_config_is_refused_by_field(tmp_path: Path, changed: object, message: str) -> None:
    train(config(), tmp_path)
    before = weights(tmp_path)
    with pytest.raises(ValueError, match=message):
        train(changed, tmp_path)  # type: ignore[arg-type]
    assert weights(tmp_path) == before


def test_changed_model_field_is_named(tmp_path: Path) -> None:
    train(config(10), tmp_path)
    other = LinearAttentionOptions(layers=3, width=16, heads=2, init=0.02, init_out=0.02)
    with pytest.raises(ValueError, match=r"model\.layers is 2 there, 3 was asked for"):
        train(config(10, model=other), tmp_path)


def test_batches_that_overflow_are_computed_in_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(config(), tmp_path / "plain")
    calls, forward = 0, LinearAttention.forward

    def overflow(self: LinearAttention, prompts: LinearPrompts) -> Tensor:
        nonlocal calls
        single = prompts.x.dtype == torch.float32
        calls += single and len(prompts.x) == 8
        return forward(self, prompts) * (float("inf") if single and calls in (5, 6, 12) else 1.0)

    monkeypatch.setattr(LinearAttention, "forward", overflow)
    result = train(config(), tmp_path / "overflown")
    assert (result["overflows"], result["restarts"]) == (3, [])
    plain, rescued = (read_checkpoint(tmp_path / name / "last.safetensors") for name in ("plain", "overflown"))
    torch.testing.assert_close(rescued.tensors["model.qkv"], plain.tensors["model.qkv"], rtol=1e-3, atol=1e-4)


def test_divergence_goes_back_to_the_best_with_half_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diverged = False
    advance = training._Trainer.advance

    def diverge(self: training._Trainer) -> float:
        nonlocal diverged
        if self.step == 33 and not diverged:
            diverged = True
            with torch.no_grad():
                self.model.get_parameter("qkv").fill_(float("nan"))
        return advance(self)

    monkeypatch.setattr(training._Trainer, "advance", diverge)
    result = train(config(), tmp_path)
    assert result["restarts"] == [{"step": 53, "factor": 0.5}]
    last = history(tmp_path)[-1]
    assert last["restarts"] == "1"
    assert float(last["learning_rate"]) == pytest.approx(0.5 * config().rate(60), rel=1e-5)
    assert all(torch.isfinite(t).all() for t in read_checkpoint(tmp_path / "weights.safetensors").tensors.values())


def test_hopeless_divergence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_gradient", "_gradient_in_double"):
        monkeypatch.setattr(training._Trainer, name, lambda self, prompts: (float("inf"), False))
    with pytest.raises(RuntimeError, match=r"diverged at step .*, after 10 restarts"):
        train(config(), tmp_path)


def test_bfloat16_then_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LinearAttentionOptions(layers=2, width=16, heads=2, layer_norm=1e-5, init=0.05, init_out=0.05)
    seen: list[tuple[int, bool]] = []
    forward = LinearAttention.forward

    def watch(self: LinearAttention, prompts: LinearPrompts) -> Tensor:
        if len(prompts.x) == 8:  # a training step, not an evaluation
            seen.append((len(seen), torch.is_autocast_enabled("cpu")))
        return forward(self, prompts)

    monkeypatch.setattr(LinearAttention, "forward", watch)
    for pays, low in ((True, 5), (False, 0)):  # with instructions for bfloat16, and without
        seen.clear()
        monkeypatch.setattr(training, "_bf16_pays", lambda device, pays=pays: pays)
        train(config(20, model=model, bf16=0.25), tmp_path / str(pays))
        assert seen == [(step, step < low) for step in range(20)]
        assert RunFolder(tmp_path / str(pays)).sessions()[0]["bf16"] is pays
    first, second = (read_checkpoint(tmp_path / name / "last.safetensors") for name in ("True", "False"))
    difference = (first.tensors["model.qkv"] - second.tensors["model.qkv"]).abs().max()
    assert first.tensors["model.qkv"].dtype == torch.float32
    assert 0.0 < difference < 0.05


def test_encoder_and_curriculum_train(tmp_path: Path) -> None:
    task, model = LogisticRegression(d=2, n=6), EncoderOptions(layers=1, width=8, heads=2)
    train(config(30, task=task, model=model, curriculum=Curriculum(every=5)), tmp_path)
    assert len(history(tmp_path)) == 4


def test_schedule() -> None:
    rates = [config(100, warm_up=0.1, final_rate=0.01).rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.001)
    assert rates[9] == rates[10] == pytest.approx(0.01)
    assert rates[55] == pytest.approx(0.01 * (0.01 + 0.99 / 2))
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert config(100, warm_up=0.0).rate(0) == 0.01


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"batch": 0}, "batch"),
        ({"bf16": 1.5}, "bf16"),
        ({"clip": -1.0}, "clip"),
        ({"betas": (1.0, 0.9)}, "betas"),
        ({"task": LogisticRegression()}, "does not fit the task 'logistic'"),
    ],
)
def test_configs_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(**changes)  # type: ignore[arg-type]
