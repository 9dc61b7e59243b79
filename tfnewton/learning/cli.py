"""The command line of the experiments; needs the extra ``learning`` (typer, tqdm)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfnewton.learning import experiments
from tfnewton.learning.recipes import SIZES

__all__ = ["run"]


def _experiments(
    names: Annotated[list[str], typer.Argument(help=f"any of {', '.join(experiments.EXPERIMENTS)}")],
    size: Annotated[str, typer.Option(help=f"one of {', '.join(SIZES)}")] = "default",
    workers: Annotated[int, typer.Option(help="processes, one thread each")] = 1,
    runs: Annotated[Path, typer.Option(help="folder of the runs and tables")] = Path("runs"),
) -> None:
    """Train what the named experiments lack, resumably, and write one table each."""
    try:
        experiments.main(names, size, workers, runs)
    except (TypeError, ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error


def run() -> None:
    """Entry point of ``python -m tfnewton.learning.experiments``."""
    typer.run(_experiments)
