"""The training loop: resumable to the last bit, safe against crashes and divergence.

A run folder holds

- ``config.json``: the TrainingConfig; ``environment.json``: the versions of each session that worked on the run;
- ``history.csv``: one line an evaluation;
- ``last.safetensors``, ``best.safetensors``: weights, optimiser, generator; each with its ``previous`` generation;
- ``weights.safetensors``: the best weights, written when the run is complete.

All randomness of the data comes from one generator whose state is in the checkpoint, and every decision depends on what
is in there, so that a run killed anywhere ends, resumed on the same machine and number of threads, in the same bytes.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from tfnewton.learning.configuration import Model, TrainingConfig, build, check_same, read_config
from tfnewton.learning.devices import bf16_pays, check_device
from tfnewton.learning.progress import leave_word
from tfnewton.learning.runs import Checkpoint, RunFolder, stop_signals
from tfnewton.learning.tasks import Prompts, generator

__all__ = ["Report", "Trainer", "train"]

_PATIENCE = 20  # steps in a row without a finite gradient
_MAX_RESTARTS = 10
_COLUMNS = (
    *("step", "learning_rate", "training_median", "validation_mean", "validation_median"),
    *("overflows", "restarts", "seconds"),
)


class Report(Protocol):
    """Told of each step: its number, the training loss and the learning rate."""

    def __call__(self, step: int, loss: float, rate: float) -> None: ...


def train(
    config: TrainingConfig,
    folder: str | Path,
    report: Report = leave_word,
    device: str = "cpu",
    stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Train, or go on training, in ``folder`` until ``config.steps``; return the state of the best checkpoint.

    A deep linear network is a polynomial of high degree, and overflows on a rare prompt while being sound on all
    others: the gradient of such a batch is computed in float64. One that is not finite even there is skipped; when that
    happens 20 times in a row, the run goes back to its best checkpoint with half the learning rate. SIGINT and SIGTERM,
    and ``stop`` once it returns True, finish the step, save and raise KeyboardInterrupt.

    Raises:
        ValueError: the folder holds a run with another config, no whole checkpoint is left, or there is no ``device``.
        RuntimeError: another process trains there, or ten restarts did not help.
        OSError: the folder cannot be written; what was saved before is unharmed.
    """
    check_device(device)
    run = RunFolder(folder)
    with run.locked():
        if (run.path / "config.json").exists():
            check_same(read_config(run.path / "config.json"), config, run.path)
        else:
            run.check_empty()
            run.write("config.json", config.model_dump_json(indent=2))
        trainer = Trainer(config, run, device)
        trainer.prepare()
        with stop_signals() as stopped:
            while trainer.step < config.steps:
                if stopped or (stop is not None and stop()):
                    trainer.save("last")
                    raise KeyboardInterrupt(f"stopped at step {trainer.step}; saved in {run.path}")
                loss = trainer.advance()
                report(trainer.step, loss, trainer.rate())
        return trainer.finish()


class Trainer:
    """The state of one run between two steps."""

    def __init__(self, config: TrainingConfig, run: RunFolder, device: str) -> None:
        self.config, self.run, self.device = config, run, device
        self.model: Model = build(config, generator(config.seed, "initial weights")).to(device)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), betas=config.betas, weight_decay=config.weight_decay, fused=True
        )
        self.source = generator(config.seed, "training", device)
        self.validation = config.task.sample(generator(config.seed, "validation", device), config.validation)
        self.step, self.factor, self.best, self.seconds = 0, 1.0, math.inf, 0.0
        self.overflows, self.failures = 0, 0  # of float32; of float64 too, in a row
        self.bf16 = config.bf16 if bf16_pays(device) else 0.0
        self._bound = math.inf if config.clip is None else config.clip
        self.restarts: list[dict[str, float]] = []
        self.history: list[list[float]] = []
        self.losses: list[float] = []  # of the steps since the last evaluation
        self._clock = time.monotonic()

    def prepare(self) -> None:
        """Go to the last checkpoint, or make the first."""
        checkpoint = self.run.load("last")
        if checkpoint is not None:
            self._restore(checkpoint)
        self.run.record_session(self.step, self.bf16 > 0.0)
        if checkpoint is None:
            self._evaluate()

    def rate(self) -> float:
        return self.factor * self.config.rate(self.step)

    def advance(self) -> float:
        """Take one step, or go back to the best checkpoint; return the training loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        curriculum, task = self.config.curriculum, self.config.task
        stage = task if curriculum is None else curriculum.stage(task, self.step)
        prompts = stage.sample(self.source, self.config.batch)
        loss, finite = self._gradient(prompts)
        if not finite:
            self.overflows += 1
            loss, finite = self._gradient_in_double(prompts)
        if finite:
            self.optimiser.step()
        self.failures = 0 if finite else self.failures + 1
        self.step += 1
        self.losses.append(loss)
        if self.failures == _PATIENCE:
            self._go_back()
        elif self.step % self.config.evaluate_every == 0 or self.step == self.config.steps:
            self._evaluate()
        return loss

    def _gradient(self, prompts: Prompts) -> tuple[float, bool]:
        """Set the clipped gradient; return the loss, and whether all is finite."""
        with torch.autocast(
            torch.device(self.device).type, torch.bfloat16, enabled=self.step < self.bf16 * self.config.steps
        ):
            prediction = self.model(prompts)
        loss = (prediction.float() - prompts.target).square().mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._bound)
        return loss.item(), math.isfinite(norm.item())

    def _gradient_in_double(self, prompts: Prompts) -> tuple[float, bool]:
        """The same in float64, which holds what overflows in float32: such prompts are the ones to learn from."""
        model = copy.deepcopy(self.model).double()
        doubled = type(prompts)(*(field.double() for field in prompts))
        loss = (model(doubled) - doubled.target).square().mean()
        model.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), self._bound)
        for mine, exact in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.grad = None if exact.grad is None else exact.grad.to(mine.dtype)
        finite = math.isfinite(norm.item()) and all(
            bool(torch.isfinite(p.grad).all()) for p in self.model.parameters() if p.grad is not None
        )
        return loss.item(), finite

    def _evaluate(self) -> None:
        with torch.no_grad():
            errors = (self.model(self.validation) - self.validation.target).square()
        errors = errors.flatten(1).mean(1) if errors.ndim > 1 else errors
        mean, median = errors.mean().item(), errors.median().item()
        training = statistics.median(self.losses) if self.losses else math.nan
        self.losses = []
        self._tick()
        self.history.append(
            [self.step, self.rate(), training, mean, median, self.overflows, len(self.restarts), self.seconds]
        )
        if mean < self.best or not math.isfinite(self.best):
            self.best = mean
            self.save("best")
        self.save("last")
        lines = [",".join(_COLUMNS), *(",".join(f"{value:.6g}" for value in row) for row in self.history)]
        self.run.write("history.csv", "\n".join(lines) + "\n")

    def _go_back(self) -> None:
        """Return to the best checkpoint with half the rate and fresh data; saved at once, so that it happens once."""
        if len(self.restarts) == _MAX_RESTARTS:
            raise RuntimeError(f"{self.run.path}: diverged at step {self.step}, after {_MAX_RESTARTS} restarts")
        kept = self.factor / 2.0, self.seconds, self.overflows, self.source.get_state()
        restarts = [*self.restarts, {"step": self.step, "factor": self.factor / 2.0}]
        checkpoint = self.run.load("best")
        if checkpoint is None:
            raise ValueError(f"{self.run.path}: no best checkpoint to go back to")
        self._restore(checkpoint)
        self.factor, self.seconds, self.overflows, source = kept
        self.source.set_state(source)
        self.restarts = restarts
        self.save("last")

    def save(self, name: str) -> None:
        self._tick()
        tensors = {f"model.{key}": value for key, value in self.model.state_dict().items()}
        for key, parameter in self.model.named_parameters():
            tensors |= {f"optimiser.{key}.{k}": v for k, v in self.optimiser.state.get(parameter, {}).items()}
        tensors["generator"] = self.source.get_state()
        names = (
            *("step", "factor", "best", "seconds", "overflows", "failures"),
            *("restarts", "history", "losses"),
        )
        self.run.save(name, Checkpoint(tensors, {key: getattr(self, key) for key in names}))

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        self.model.load_state_dict({key: tensors[f"model.{key}"] for key in self.model.state_dict()})
        self.optimiser.state.clear()
        for key, parameter in self.model.named_parameters():
            prefix = f"optimiser.{key}."
            state = {k.removeprefix(prefix): v.to(self.device) for k, v in tensors.items() if k.startswith(prefix)}
            if state:
                self.optimiser.state[parameter] = state
        try:
            self.source.set_state(tensors["generator"])
        except (RuntimeError, TypeError) as error:  # of a generator of another kind
            raise ValueError(
                f"{self.run.path}: begun on another kind of device than {self.device!r}, and goes on only there"
            ) from error
        for name, value in checkpoint.state.items():
            setattr(self, name, value)
        self._clock = time.monotonic()

    def _tick(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._clock
        self._clock = now

    def finish(self) -> dict[str, Any]:
        """Write the best weights on their own and return the state that goes with them."""
        best = self.run.load("best")
        if best is None or best.state["best"] != self.best:  # an older one in place of a damaged one
            raise ValueError(f"{self.run.path}: the best checkpoint is damaged; remove the folder to begin anew")
        weights = {k.removeprefix("model."): v for k, v in best.tensors.items() if k.startswith("model.")}
        self.run.write("weights.safetensors", Checkpoint(weights, self.config.model_dump(mode="json")).to_bytes())
        now = {"overflows": self.overflows, "restarts": self.restarts, "seconds": self.seconds}
        return {key: best.state[key] for key in ("step", "best")} | now
