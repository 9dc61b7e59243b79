"""How long the missing runs will train, from a few steps of each kind, timed now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tfnewton.campaign.recipes import Run
from tfnewton.cluster.progress import duration
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.devices import check_device, one_thread
from tfnewton.learning.runs import RunFolder
from tfnewton.learning.training import Trainer

__all__ = ["announcement", "seconds_a_step", "seconds_to_train"]

_WORTH_SAYING = 120.0  # seconds
_TIMED = 3  # steps of each kind
_FEW = 100  # steps of a run that is over sooner than it is timed


def announcement(
    runs: Sequence[Run], root: Path, workers: int = 1, scheduler: str | None = None, device: str = "cpu"
) -> str | None:
    """Return in words what ``runs`` will take, None where that is less than two minutes.

    What the workers of a scheduler do in a second is not known here: their time is told as that of one thread of this
    machine, or, where it lacks the device, as a number of steps.
    """
    steps = sum(max(run.config.steps - _steps_done(root / run.name), 0) for run in runs if run.config.steps > _FEW)
    if not steps:
        return None
    what = f"{len(runs)} runs to train, {steps} steps"
    if scheduler is not None and device != "cpu":
        return f"{what}, on the workers of {scheduler}"
    seconds = seconds_to_train(runs, root, device)
    if scheduler is not None:
        took = f"about {duration(seconds)} for one thread of this machine, shared out by {scheduler}"
    else:
        seconds /= min(workers, len(runs))
        took = f"about {duration(seconds)} with {workers} worker{'s' if workers > 1 else ''}, by a few steps timed now"
    return f"{what}: {took}" if seconds > _WORTH_SAYING else None


def seconds_to_train(runs: Sequence[Run], root: Path, device: str = "cpu") -> float:
    """Return about how long one thread of this machine trains what is left of ``runs``, whose folders are in ``root``.

    Runs of at most 100 steps count as nothing. Runs of the same model, task and batch are timed once; evaluations, some
    per cent of the time, are left out.
    """
    kinds: dict[str, float] = {}
    seconds = 0.0
    for run in runs:
        config = run.config
        if config.steps > _FEW:
            kind = f"{config.model} {config.task} {config.batch} {config.bf16 > 0.0}"
            if kind not in kinds:
                kinds[kind] = seconds_a_step(config, device)
            seconds += kinds[kind] * (config.steps - _steps_done(root / run.name))
    return seconds


def seconds_a_step(config: TrainingConfig, device: str = "cpu") -> float:
    """Return the median time of a training step of ``config``, from a few that nothing keeps."""
    check_device(device)
    times = []
    with one_thread():
        without = {"evaluate_every": config.steps + 1, "validation": 1}
        trainer = Trainer(config.model_copy(update=without), RunFolder("unused"), device)
        trainer.advance()
        for _ in range(_TIMED):
            start = time.perf_counter()
            trainer.advance()
            times.append(time.perf_counter() - start)
    return median(times)


def _steps_done(folder: Path) -> int:
    """Return the step of the last evaluation, 0 where none is known."""
    try:
        return int(float((folder / "history.csv").read_text().splitlines()[-1].partition(",")[0]))
    except (OSError, ValueError, IndexError):
        return 0
