"""A tiny run, and ways to cut it short; as a script, with a folder and a number of steps, it is there to be killed."""

import sys
from pathlib import Path

import torch

from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.tasks import LinearRegression
from tfnewton.learning.training import Report, train


def config(steps: int = 60, **changes: object) -> TrainingConfig:
    """A run of a second: two layers, width 16, three dimensions."""
    values: dict[str, object] = {
        "task": LinearRegression(d=3, n=8),
        "model": LinearAttentionOptions(layers=2, width=16, heads=2, init=0.02, init_out=0.02),
        "steps": steps,
        "batch": 8,
        "learning_rate": 1e-2,
        "evaluate_every": 10,
        "validation": 32,
    }
    return TrainingConfig(**(values | changes))  # type: ignore[arg-type]


class StopError(Exception):
    pass


def stop_at(last: int) -> Report:
    def report(step: int, loss: float, rate: float) -> None:
        if step == last:
            raise StopError

    return report


def weights(folder: Path) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(config(int(sys.argv[2])), sys.argv[1])
