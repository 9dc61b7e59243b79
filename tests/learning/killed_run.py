"""Train a tiny run in its own process; the test kills it. Arguments: folder, steps."""

import sys

import torch

from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.tasks import LinearRegression
from tfnewton.learning.training import train


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


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(config(int(sys.argv[2])), sys.argv[1])
