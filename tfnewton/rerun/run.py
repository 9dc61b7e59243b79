"""One run of a chapter into a folder of its own, found again when the same is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tfnewton.rerun import saving
from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.execution import Watch, execute
from tfnewton.rerun.provenance import fingerprint

__all__ = ["RUNS", "Run", "place", "run"]

RUNS = Path("runs")


class Run(NamedTuple):
    """A run folder, and whether it was there before."""

    folder: Path
    found: bool


def place(chapter: Chapter, values: Mapping[str, Any], output: Path | None = None) -> Path:
    """Return where a run goes: ``output``, or by the changed parameters under ``runs/`` in the current folder.

    ValueError where ``output`` names no folder that could come to be.
    """
    if output is not None and output.name in ("", ".."):
        raise ValueError(f"output = {output}: must be the name of a folder that is to be made")
    return output if output is not None else RUNS / chapter.file / saving.name_of(chapter, values)


def run(
    chapter: Chapter,
    values: Mapping[str, Any],
    output: Path | None = None,
    again: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Run a chapter into its folder, or return the folder of an earlier run of the same parameters and code.

    Args:
        chapter: what to run.
        values: typed values of all its parameters.
        output: the run's folder, instead of the one under ``runs/``.
        again: run in any case, into a folder of its own.
        watch: is told again and again where the run is.

    Raises:
        RefusedError: values that are not legal.
        FileExistsError: ``output`` is there, and holds no run of the same.
        OSError: no folder can be made there; nothing is run.
        RuntimeError: a cell failed (CellError), or the disk is full; nothing is left of the run.
    """
    values = chapter.settle(values)
    target = place(chapter, values, output)
    if not again:
        same = saving.earlier(target, chapter, values, fingerprint(chapter))
        if same is not None:
            return Run(same, found=True)
        if output is not None and output.exists():
            raise FileExistsError(f"{output}: is there, and is not of these parameters and this code; name another")
    saving.writable(target)
    return Run(saving.save(execute(chapter, values, watch), target), found=False)
