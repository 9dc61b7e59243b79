"""The command line, ``tfnewton`` or ``python -m tfnewton``: to the commands on chapters it adds those on training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tfnewton.rerun.commands import app
from tfnewton.rerun.endings import ending

__all__ = ["app", "main"]


@app.command()
def train(
    names: Annotated[list[str], typer.Argument(help="experiments, such as lsa-depth; an unknown name lists them all")],
    size: Annotated[str, typer.Option(help="smoke (seconds a run), default (the book's) or paper")] = "default",
    workers: Annotated[int, typer.Option(help="processes on this machine, one thread each")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="a dask scheduler, such as tcp://127.0.0.1:8786")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda, where the runs are trained")] = "cpu",
    runs: Annotated[Path, typer.Option(help="folder of the runs and tables, which all workers see")] = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask before long training")] = False,
) -> None:
    """Train what the named experiments lack, resumably, and write one table each.

    Example: tfnewton train lsa-depth --size smoke --workers 2

    Past one machine: tfnewton train ln-depth --scheduler tcp://node1:8786 --runs /shared/runs
    """
    with ending("science,learning,cluster"):
        from tfnewton.campaign import experiments

        experiments.carry_out(names, size, workers, runs, scheduler, device, yes)


@app.command()
def results(
    ship: Annotated[Path | None, typer.Option(help="copy models and tables from this folder of runs instead")] = None,
) -> None:
    """Print the main table of section 6, computed now from the shipped weights.

    Example: tfnewton results
    """
    with ending("science,learning"):
        import torch

        from tfnewton.campaign import results as shipped

        torch.set_num_threads(1)
        print("\n".join(shipped.ship(ship)) if ship else shipped.main_table())


@app.command()
def certify() -> None:
    """Decide the scalar inequalities of the convergence proof by interval arithmetic.

    Example: tfnewton certify
    """
    with ending("science,learning"):
        from tfnewton.theory import certificates

        decided = certificates.report()
    if not decided:
        raise typer.Exit(1)


def main() -> None:
    """Run the command line."""
    sys.exit(app())
