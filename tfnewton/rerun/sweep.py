"""A sweep: a run of a chapter at each point of a grid, on one machine or many, and what came of them together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfnewton.cluster.pool import connect
from tfnewton.cluster.progress import Watch
from tfnewton.cluster.task import Failure, note, stopping
from tfnewton.rerun import saving
from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.execution import Progress, execute
from tfnewton.rerun.points import Points, key
from tfnewton.rerun.provenance import fingerprint
from tfnewton.rerun.run import RUNS

__all__ = ["POINTS", "Outcome", "earlier", "left", "place", "sweep"]

POINTS = "points"


class Outcome(NamedTuple):
    """A point of a sweep that has ended: the folder of its run, or what went wrong and under which heading."""

    values: dict[str, Any]
    folder: Path | None
    fault: str = ""


def place(chapter: Chapter, points: Points, output: Path | None = None) -> Path:
    """Return the folder of a sweep: ``output``, or under ``runs/`` by what is swept and by what else is changed.

    So a grid of other values of the same parameters comes into the same folder, and finds the points that it shares.
    """
    if output is not None:
        return output
    fixed = {name: value for name, value in points.points[0].items() if name not in points.axes}
    name = f"sweep,{','.join(points.axes)}"
    changed = saving.name_of(chapter, chapter.defaults() | fixed)
    return RUNS / chapter.file / (name if changed == "defaults" else f"{name},{changed}")


def earlier(chapter: Chapter, points: Points, root: Path) -> list[Outcome]:
    """Return the points that have been run before, below ``root``, on this code."""
    code, found = fingerprint(chapter), []
    for values in points.points:
        folder = saving.earlier(_folder(chapter, values, root), chapter, values, code)
        if folder is not None:
            found.append(Outcome(values, folder))
    return found


def left(points: Points, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the points that are in none of ``outcomes``."""
    there = {key(of.values) for of in outcomes}
    return [values for values in points.points if key(values) not in there]


def sweep(
    chapter: Chapter,
    points: list[dict[str, Any]],
    root: Path,
    workers: int = 1,
    scheduler: str | None = None,
    watch: Watch | None = None,
) -> Iterator[Outcome]:
    """Run a chapter at ``points``, and yield each as it ends, when its run folder stands below ``root``.

    A point that fails stops no other. Results come back from workers as bytes, and are written here alone.

    Args:
        chapter: what to run.
        points: typed values of all parameters, of each point.
        root: the folder of the sweep.
        workers: processes of this machine.
        scheduler: the address of a dask scheduler, whose workers are used instead.
        watch: is told how far the points are.

    Raises:
        ValueError, ConnectionError: no such number of workers, or no scheduler that fits; see ``cluster.pool``.
        OSError: no folder can be made below ``root``; nothing is run.
        RuntimeError: the disk is full, or the scheduler is lost; what has been yielded stays.
    """
    if not points:
        return
    saving.writable(root)
    named = {key(values): values for values in points}
    costs = {name: chapter.seconds(values) for name, values in named.items()}
    tasks = {name: (chapter, named[name]) for name in sorted(named, key=costs.__getitem__, reverse=True)}
    with connect(workers, scheduler) as pool:
        for name, outcome in pool.map(_run, tasks, watch, costs):
            values = named[name]
            if isinstance(outcome, Failure):
                yield Outcome(values, None, outcome.message or outcome.kind)
            else:
                yield Outcome(values, saving.save(outcome, _folder(chapter, values, root)))


def _folder(chapter: Chapter, values: Mapping[str, Any], root: Path) -> Path:
    return root / POINTS / saving.name_of(chapter, values)


def _run(chapter: Chapter, values: dict[str, Any]) -> dict[str, bytes]:
    """On a worker: run one point.

    How much of it is done goes by its time, since cells differ too much: the share that is left falls by a factor e in
    the time that a run is expected to take, so that what is said to be left never grows.
    """
    begin, expected = time.monotonic(), chapter.seconds(values)

    def tell(progress: Progress) -> None:
        inside = progress.inside()
        words = f"cell {progress.number} of {progress.of}: {progress.heading}{f', {inside}' if inside else ''}"
        note(words, 1.0 - math.exp((begin - time.monotonic()) / expected))
        if stopping():
            raise KeyboardInterrupt

    return execute(chapter, values, tell)
