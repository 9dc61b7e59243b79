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
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tests.helpers.tries import later
from tfnewton.learning import training
from tfnewton.learning.configuration import TrainingConfig, build
from tfnewton.learning.devices import bf16_pays
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.runs import RunFolder, read_checkpoint
from tfnewton.learning.tasks import Curriculum, LinearPrompts, LinearRegression, LogisticRegression, Prompts, generator
from tfnewton.learning.training import train

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def history(folder: Path) -> list[dict[str, str]]:
    with (folder / "history.csv").open() as file:
        return list(csv.DictReader(file))


def tensors(folder: Path, name: str) -> dict[str, Tensor]:
    return read_checkpoint(folder / f"{name}.safetensors").tensors


def state(folder: Path, name: str) -> dict[str, Any]:
    return read_checkpoint(folder / f"{name}.safetensors").state


def test_training_lowers_the_loss_and_leaves_a_complete_folder(tmp_path: Path) -> None:
    result = train(config(100, evaluate_every=20, batch=32, validation=256), tmp_path)
    rows = history(tmp_path)
    assert [int(row["step"]) for row in rows] == [0, 20, 40, 60, 80, 100]
    means = [float(row["validation_mean"]) for row in rows]
    assert min(means) < 0.6 * means[0]
    assert result["best"] == pytest.approx(min(means), rel=1e-5)
    assert json.loads((tmp_path / "environment.json").read_text())[0]["versions"]["torch"] == torch.__version__
    best = tensors(tmp_path, "best")
    assert state(tmp_path, "last")["step"] == 100
    assert state(tmp_path, "best")["step"] == result["step"]
    assert int(rows[int(np.argmin(means))]["step"]) == result["step"]
    assert torch.equal(tensors(tmp_path, "weights")["qkv"], best["model.qkv"])
    assert {"generator", "optimiser.qkv.exp_avg", "optimiser.out.exp_avg_sq"} <= set(tensors(tmp_path, "last"))


def test_the_best_is_kept_though_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = training.Trainer.advance

    def spoil(self: training.Trainer) -> float:
        if self.step == 25:
            with torch.no_grad():
                self.model.get_parameter("qkv").mul_(30.0)
        return advance(self)

    monkeypatch.setattr(training.Trainer, "advance", spoil)
    result = train(config(40), tmp_path)
    means = {int(row["step"]): float(row["validation_mean"]) for row in history(tmp_path)}
    step = min(means, key=means.__getitem__)
    assert 0 < step < 30, "spoilt"
    assert result["step"] == state(tmp_path, "best")["step"] == step
    assert result["best"] == state(tmp_path, "best")["best"] == state(tmp_path, "last")["best"]
    assert result["best"] == pytest.approx(means[step], rel=1e-5)
    for name, tensor in tensors(tmp_path, "weights").items():
        assert torch.equal(tensor, tensors(tmp_path, "best")[f"model.{name}"])
        assert not torch.equal(tensor, tensors(tmp_path, "last")[f"model.{name}"])
    assert TrainingConfig.model_validate(state(tmp_path, "weights"), strict=False) == config(40)


# the loop, written out


def stages(c: TrainingConfig) -> list[LinearRegression | LogisticRegression]:
    """The task at each step, with three coordinates and four points at first and one more of each every other step."""
    if c.curriculum is None:
        return [c.task] * c.steps
    grown = [min(step // 2, 2) for step in range(c.steps)]
    return [c.task.model_copy(update={"active": 3 + more, "n": 4 + more}) for more in grown]


def rates(c: TrainingConfig) -> list[float]:
    """Up over the first two steps of eight, then down along half a cosine to a fifth."""
    falling = [0.5 * (1.0 + np.cos(np.pi * step / 6)) for step in range(6)]
    return [c.learning_rate * share for share in (0.5, 1.0, *(0.2 + 0.8 * share for share in falling))]


def decayed(p: Tensor, g: Tensor, moments: tuple[Tensor, Tensor], t: int, rate: float, decay: float) -> Tensor:
    """AdamW (Loshchilov and Hutter) with betas 0.8 and 0.95."""
    first, second = moments
    first.mul_(0.8).add_(0.2 * g)
    second.mul_(0.95).add_(0.05 * g * g)
    step = first / (1 - 0.8**t) / ((second / (1 - 0.95**t)).sqrt() + 1e-8)
    return p - rate * decay * p - rate * step


def written_out(c: TrainingConfig) -> tuple[list[dict[str, Tensor]], list[float], list[float]]:
    """The weights before and after each step, and the loss and the norm of the gradient of each."""
    model, stream = build(c, generator(c.seed, "initial weights")), generator(c.seed, "training")
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()}
    states, losses, norms = [{name: p.detach().clone() for name, p in model.named_parameters()}], [], []
    for step, (task, rate) in enumerate(zip(stages(c), rates(c), strict=True)):
        prompts = task.sample(stream, c.batch)
        loss = ((model(prompts) - prompts.target) ** 2).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = float(sum(g.square().sum() for g in gradients) ** 0.5)
        share = 1.0 if c.clip is None else min(1.0, c.clip / norm)
        with torch.no_grad():
            for (name, p), g in zip(model.named_parameters(), gradients, strict=True):
                p.copy_(decayed(p, share * g, moments[name], step + 1, rate, c.weight_decay))
        states.append({name: p.detach().clone() for name, p in model.named_parameters()})
        losses.append(loss.item())
        norms.append(norm)
    return states, losses, norms


def eight_steps(**changes: object) -> TrainingConfig:
    common: dict[str, object] = {"seed": 1, "batch": 5, "betas": (0.8, 0.95), "warm_up": 0.25, "final_rate": 0.2}
    return config(8, evaluate_every=3, validation=20, **common | changes)


LOOPS = {
    "linear attention, clipped and decayed": eight_steps(weight_decay=3.0, clip=60.0),
    "linear attention, neither": eight_steps(clip=None),
    "an encoder with a curriculum": eight_steps(
        task=LogisticRegression(d=5, n=6),
        model=EncoderOptions(layers=2, width=8, heads=2),
        curriculum=Curriculum(every=2, d_start=3, n_start=4, n_step=1),
        clip=0.25,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_loop_does_what_its_config_says(name: str, tmp_path: Path) -> None:
    """Against the same steps written out: streams, sizes of prompts, losses, clipping, AdamW, schedule, history."""
    c, told = LOOPS[name], []
    train(c, tmp_path, lambda step, loss, rate: told.append((step, loss)))
    states, losses, norms = written_out(c)
    assert c.clip is None or min(norms) < c.clip < max(norms), "else nothing is seen of clipping, or always the same"
    for key, expected in states[-1].items():
        if key.endswith("key_value.bias"):
            continue  # that of the keys cancels in a softmax: what moves it is roundoff
        torch.testing.assert_close(tensors(tmp_path, "last")[f"model.{key}"], expected, rtol=2e-4, atol=2e-6)
    assert [step for step, _ in told] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [loss for _, loss in told] == pytest.approx(losses, rel=1e-4)
    held_out, model = c.task.sample(generator(1, "validation"), 20), build(c, generator(0, "overwritten"))
    for row, step, since in zip(
        history(tmp_path), (0, 3, 6, 8), ([], losses[:3], losses[3:6], losses[6:]), strict=True
    ):
        model.load_state_dict(states[step])
        errors = (model(held_out) - held_out.target).square().detach().reshape(20, -1).mean(1).numpy()
        assert int(row["step"]) == step
        assert float(row["validation_mean"]) == pytest.approx(errors.mean(), rel=1e-3)
        assert float(row["validation_median"]) == pytest.approx(np.sort(errors)[9], rel=1e-3)
        assert float(row["learning_rate"]) == pytest.approx([*rates(c), 0.2 * c.learning_rate][step], rel=1e-5)
        assert float(row["training_median"]) == pytest.approx(
            np.median(since) if since else np.nan, nan_ok=True, rel=1e-4
        )


@pytest.mark.usefixtures("_still_clock")
@pytest.mark.parametrize("step", [33, *later(1, 10, 59)])
def test_interrupted_runs_end_in_the_same_bytes(tmp_path: Path, whole: Path, step: int) -> None:
    with pytest.raises(StopError):
        train(config(), tmp_path, stop_at(step))
    train(config(), tmp_path)
    assert weights(tmp_path) == weights(whole)
    for name in ("history.csv", "last.safetensors", "best.safetensors"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def start(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    script = Path(__file__).parents[1] / "helpers" / "tiny_run.py"
    return subprocess.Popen([sys.executable, str(script), str(folder), str(steps)], env=os.environ | ONE_THREAD)


@pytest.mark.parametrize(
    ("count", "steps"),
    [pytest.param(1, 1000, marks=pytest.mark.slow), pytest.param(20, 2000, marks=pytest.mark.long)],
)
def test_kills_end_in_the_same_bytes(tmp_path: Path, count: int, steps: int) -> None:
    chance, kills = random.Random(0), 0
    assert start(tmp_path / "whole", steps).wait() == 0
    for number in range(count):
        folder = tmp_path / f"killed{number}"
        process = start(folder, steps)
        while not (folder / "last.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.0004 * steps))
        kills += process.poll() is None
        process.kill()
        process.wait()
        assert not (folder / "weights.safetensors").exists() or process.returncode == 0
        assert start(folder, steps).wait() == 0
        assert weights(folder) == weights(tmp_path / "whole"), folder
    assert kills == count


@pytest.mark.usefixtures("_still_clock")
@pytest.mark.parametrize("number", [signal.SIGINT, *later(signal.SIGTERM)])
def test_interrupt_finishes_the_step_and_saves(tmp_path: Path, whole: Path, number: signal.Signals) -> None:
    """Between two evaluations, so that what has been gathered since the last one must be saved too."""

    def report(step: int, loss: float, rate: float) -> None:
        if step == 17:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 17; saved in"):
        train(config(), tmp_path, report)
    assert signal.getsignal(number) is before
    assert state(tmp_path, "last")["step"] == 17
    train(config(), tmp_path)
    assert weights(tmp_path) == weights(whole)
    for name in ("history.csv", "last.safetensors", "best.safetensors"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.usefixtures("_still_clock")
def test_a_run_stops_where_it_is_told_to(tmp_path: Path, whole: Path) -> None:
    asked = iter(range(100))
    with pytest.raises(KeyboardInterrupt, match="stopped at step 17; saved in"):
        train(config(), tmp_path, stop=lambda: next(asked) == 17)
    train(config(), tmp_path, stop=lambda: False)
    assert weights(tmp_path) == weights(whole)
    assert (tmp_path / "last.safetensors").read_bytes() == (whole / "last.safetensors").read_bytes()


def test_seconds_are_those_of_all_sessions_and_not_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now))

    def report(step: int, loss: float, rate: float) -> None:
        nonlocal now
        now += 2.0
        if step == 13 and (tmp_path / "last.safetensors").exists() and state(tmp_path, "last")["step"] == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(config(20), tmp_path, report)
    now += 5000.0
    result = train(config(20), tmp_path, report)
    assert result["seconds"] == 38.0  # the evaluation after step 20 comes before its report
    assert [float(row["seconds"]) for row in history(tmp_path)] == [0.0, 18.0, 38.0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (config(learning_rate=0.02), r"learning_rate is 0\.01 there, 0\.02 was asked for"),
        (config(steps=61), "steps is 60 there, 61 was asked for"),
        (config(seed=1, batch=9), "seed is 0 there, 1 was asked for; batch is 8 there, 9 was asked for"),
        (config(curriculum=Curriculum(every=5)), r"curriculum\.every is None there, 5 was asked for"),
    ],
)
def test_changed_config_is_refused_by_field(whole: Path, changed: TrainingConfig, message: str) -> None:
    before = {path: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(ValueError, match=message):
        train(changed, whole)
    assert {path: path.read_bytes() for path in whole.iterdir()} == before


def test_changed_model_field_is_named(whole: Path) -> None:
    other = LinearAttentionOptions(layers=3, width=16, heads=2, init=0.02, init_out=0.02)
    with pytest.raises(ValueError, match=r"model\.layers is 2 there, 3 was asked for"):
        train(config(model=other), whole)


def test_batches_that_overflow_are_computed_in_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on the gradient is passed by every step: one that is not clipped would show for long."""
    train(config(20, clip=0.05), tmp_path / "plain")
    calls, forward = 0, LinearAttention.forward

    def overflow(self: LinearAttention, prompts: LinearPrompts) -> Tensor:
        nonlocal calls
        single = prompts.x.dtype == torch.float32
        calls += single and len(prompts.x) == 8
        return forward(self, prompts) * (float("inf") if single and calls in (5, 6, 12) else 1.0)

    monkeypatch.setattr(LinearAttention, "forward", overflow)
    result = train(config(20, clip=0.05), tmp_path / "overflown")
    assert (result["overflows"], result["restarts"]) == (3, [])
    plain, rescued = (tensors(tmp_path / name, "last") for name in ("plain", "overflown"))
    torch.testing.assert_close(rescued["model.qkv"], plain["model.qkv"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("clip", "finite"), [(1.0, True), (None, False)])
def test_a_gradient_that_float32_cannot_hold_is_none(tmp_path: Path, clip: float | None, finite: bool) -> None:
    trainer = training.Trainer(config(clip=clip), RunFolder(tmp_path), "cpu")
    with torch.no_grad():
        trainer.model.get_parameter("read_out").fill_(1e25)
    prompts = trainer.config.task.sample(generator(0, "x"), 8)
    assert not trainer._gradient(prompts)[1]
    loss, found = trainer._gradient_in_double(prompts)
    assert 1e40 < loss < 1e60
    assert found == finite
    norm = sum(p.grad.double().square().sum() for p in trainer.model.parameters() if p.grad is not None) ** 0.5
    assert not finite or float(norm) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.usefixtures("_still_clock")
def test_divergence_goes_back_to_the_best_with_half_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never to prompts that were seen before: the stream of data goes on where the divergence ended."""
    diverged, seen = False, []
    advance, gradient = training.Trainer.advance, training.Trainer._gradient

    def diverge(self: training.Trainer) -> float:
        nonlocal diverged
        if self.step == 33 and not diverged:
            diverged = True
            with torch.no_grad():
                self.model.get_parameter("qkv").fill_(float("nan"))
        return advance(self)

    def watch(self: training.Trainer, prompts: Prompts) -> tuple[float, bool]:
        seen.append(prompts.x)
        return gradient(self, prompts)

    monkeypatch.setattr(training.Trainer, "advance", diverge)
    monkeypatch.setattr(training.Trainer, "_gradient", watch)

    def stop_after_going_back(step: int, loss: float, rate: float) -> None:
        if len(seen) == 53:
            raise StopError

    with pytest.raises(StopError):
        train(config(), tmp_path, stop_after_going_back)
    back, best = (read_checkpoint(tmp_path / f"{name}.safetensors") for name in ("last", "best"))
    assert back.state == best.state | {"factor": 0.5, "restarts": [{"step": 53, "factor": 0.5}], "overflows": 20}
    for key in best.tensors:
        assert torch.equal(back.tensors[key], best.tensors[key]) == (key != "generator"), key
    result = train(config(), tmp_path)
    assert result["restarts"] == [{"step": 53, "factor": 0.5}]
    rows = history(tmp_path)
    assert [row["step"] for row in rows] == ["0", "10", "20", "30", "40", "50", "60"]
    good = best.state["step"]
    assert [row["restarts"] for row in rows] == ["0" if int(row["step"]) <= good else "1" for row in rows]
    assert float(rows[-1]["learning_rate"]) == pytest.approx(0.5 * config().rate(60), rel=1e-5)
    assert all(torch.isfinite(t).all() for t in tensors(tmp_path, "weights").values())
    stream = generator(0, "training")
    assert len(seen) == 53 + 60 - good
    assert all(torch.equal(x, config().task.sample(stream, 8).x) for x in seen)


@pytest.mark.parametrize(("bad", "restarts"), [(19, 0), (20, 2)])
def test_only_failures_in_a_row_are_a_divergence(
    bad: int, restarts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nineteen, a step that succeeds, and nineteen again are none."""
    calls, gradient = 0, training.Trainer._gradient

    def fail(self: training.Trainer, prompts: Prompts) -> tuple[float, bool]:
        nonlocal calls
        calls += 1
        return gradient(self, prompts) if calls == bad + 1 or calls > 2 * bad + 1 else (float("nan"), False)

    monkeypatch.setattr(training.Trainer, "_gradient", fail)
    monkeypatch.setattr(training.Trainer, "_gradient_in_double", lambda self, prompts: (float("nan"), False))
    result = train(config(), tmp_path)
    assert len(result["restarts"]) == restarts
    assert result["overflows"] == 2 * bad


def test_hopeless_divergence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_gradient", "_gradient_in_double"):
        monkeypatch.setattr(training.Trainer, name, lambda self, prompts: (float("inf"), False))
    with pytest.raises(RuntimeError, match=r"diverged at step 20, after 10 restarts"):
        train(config(evaluate_every=30), tmp_path)
    assert state(tmp_path, "last")["restarts"] == [{"step": 20, "factor": 0.5**k} for k in range(1, 11)]


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
        monkeypatch.setattr(training, "bf16_pays", lambda device, pays=pays: pays)
        train(config(20, model=model, bf16=0.25), tmp_path / str(pays))
        assert seen == [(step, step < low) for step in range(20)]
        assert RunFolder(tmp_path / str(pays)).sessions()[0]["bf16"] is pays
    first, second = (read_checkpoint(tmp_path / name / "last.safetensors") for name in ("True", "False"))
    difference = (first.tensors["model.qkv"] - second.tensors["model.qkv"]).abs().max()
    assert first.tensors["model.qkv"].dtype == torch.float32
    assert 0.0 < difference < 0.05


@pytest.mark.parametrize("avx", [False, True])
@pytest.mark.parametrize("amx", [False, True])
def test_bfloat16_needs_instructions_for_it(avx: bool, amx: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: not avx)
    assert bf16_pays("cpu") is (avx or amx)
    assert bf16_pays("cuda:0") is not avx


def test_schedule() -> None:
    rates = [config(100, warm_up=0.1, final_rate=0.01).rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.001)
    assert rates[9] == rates[10] == pytest.approx(0.01)
    assert rates[55] == pytest.approx(0.01 * (0.01 + 0.99 / 2))
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert config(100, warm_up=0.0).rate(0) == 0.01
    rates = [config(10, warm_up=0.25, final_rate=0.0).rate(step) for step in range(11)]  # two and a half steps up
    assert rates[:3] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01])
    assert rates[3:] == pytest.approx([0.005 * (1 + np.cos(np.pi * (step - 2.5) / 7.5)) for step in range(3, 11)])
    assert rates[10] == pytest.approx(0.0, abs=1e-12)
