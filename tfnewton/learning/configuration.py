"""What defines a training run: task, model and optimisation, as one frozen record that a run folder stores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator
from torch import Generator

from tfnewton.learning.encoder import Encoder, EncoderOptions
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import Curriculum, LinearRegression, LogisticRegression, Record

__all__ = ["Model", "TrainingConfig", "build", "check_same", "read_config"]

Model: TypeAlias = LinearAttention | Encoder


class TrainingConfig(Record):
    """One training run.

    Args:
        steps, batch: number of steps, prompts a step, all of them fresh.
        learning_rate: its largest value: it rises linearly over the fraction ``warm_up`` of the steps and falls as a
            cosine to ``final_rate`` times the largest.
        betas, weight_decay: of AdamW.
        clip: bound on the global norm of the gradient; None for none.
        bf16: fraction of the steps, from the first, whose products are in bfloat16, where the machine does that fast.
        evaluate_every: steps between two evaluations, each of which writes a checkpoint.
        validation: prompts that choose the best checkpoint; they are never used for a reported loss.
    """

    task: Annotated[LinearRegression | LogisticRegression, Field(discriminator="kind")]
    model: Annotated[LinearAttentionOptions | EncoderOptions, Field(discriminator="kind")]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    steps: Annotated[int, Field(ge=1)]
    batch: Annotated[int, Field(ge=1)] = 128
    learning_rate: Annotated[float, Field(gt=0.0)]
    warm_up: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    final_rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.01
    betas: tuple[Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]] = (0.9, 0.98)
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    clip: Annotated[float, Field(gt=0.0)] | None = 1.0
    bf16: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    evaluate_every: Annotated[int, Field(ge=1)] = 250
    validation: Annotated[int, Field(ge=1)] = 2048
    curriculum: Curriculum | None = None

    @model_validator(mode="after")
    def _model_fits_task(self) -> Self:
        linear = isinstance(self.task, LinearRegression)
        if linear != isinstance(self.model, LinearAttentionOptions):
            raise ValueError(f"model = {self.model.kind!r}: does not fit the task {self.task.kind!r}")
        return self

    def rate(self, step: int) -> float:
        """The learning rate of step ``step``, from 0."""
        rising = self.warm_up * self.steps
        if step < rising:
            return self.learning_rate * (step + 1) / math.ceil(rising)
        done = (step - rising) / (self.steps - rising)
        return self.learning_rate * (self.final_rate + (1.0 - self.final_rate) * 0.5 * (1.0 + math.cos(math.pi * done)))


def build(config: TrainingConfig, source: Generator) -> Model:
    """Return the untrained model of ``config``, its weights drawn from ``source``."""
    if isinstance(config.model, LinearAttentionOptions):
        return LinearAttention(config.model, config.task.d, source)
    return Encoder(config.model, config.task.d, source)


def read_config(path: Path) -> TrainingConfig:
    """Return the config stored at ``path``; ValueError names the file if it is not one."""
    try:
        return TrainingConfig.model_validate_json(path.read_text())
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: not a training config ({error})") from error


def check_same(stored: TrainingConfig, asked: TrainingConfig, folder: Path) -> None:
    """Refuse, by ValueError, to go on in ``folder`` with another config; the message names each field that differs."""
    old, new = _flat(json.loads(stored.model_dump_json())), _flat(json.loads(asked.model_dump_json()))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if names:
        listed = "; ".join(f"{name} is {old.get(name)} there, {new.get(name)} was asked for" for name in names)
        raise ValueError(f"{folder} holds another run: {listed}")


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in values.items():
        result |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return result
