"""The command line and its commands on chapters: list them, tell their parameters, run, open and compare them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tfnewton.rerun.endings import FAILED, INTERRUPTED, ending

__all__ = ["app"]

app = typer.Typer(
    help="Transformers that run Newton's method in context: chapters to run again, training, results, certificates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _complete(incomplete: str) -> list[str]:
    """Return the names of chapters that begin so, for the shell."""
    from tfnewton.rerun.catalogue import CATALOGUE

    return [name for name in CATALOGUE if name.startswith(incomplete)]


Name = Annotated[
    str, typer.Argument(help="number, file name, or part of the name", metavar="CHAPTER", autocompletion=_complete)
]
Settings = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="a parameter; may be repeated")
]
Preset = Annotated[str | None, typer.Option(help="a named set of parameters, which -p goes over")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask before a long run")]
Again = Annotated[bool, typer.Option("--again", help="also where there is one of the same parameters and code")]

ASK_FROM = 120.0  # seconds that a run may take without being asked about


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the chapters: what each shows, its headline quantity, how long it runs.

    Example: tfnewton list
    """
    with ending("book"):
        from tfnewton.rerun import listing
        from tfnewton.rerun.chapters import chapters

        found = chapters()
        print(json.dumps([listing.chapter(of) for of in found], indent=2, ensure_ascii=False)) if as_json else (
            listing.show_chapters(found)
        )


@app.command()
def params(chapter: Name, as_json: AsJson = False) -> None:
    """List the parameters of a chapter: type, default, range, help, what costs more, and the presets.

    Example: tfnewton params 3
    """
    with ending("book"):
        from tfnewton.rerun import listing
        from tfnewton.rerun.chapters import find

        found = find(chapter)
        if as_json:
            print(json.dumps(listing.parameters(found), indent=2, ensure_ascii=False))
        else:
            listing.show_parameters(found)


@app.command()
def run(
    chapter: Name,
    parameter: Settings = None,
    preset: Preset = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="the run's folder (else under runs/)")] = None,
    html: Annotated[bool, typer.Option("--html", help="make a page of the run as well")] = False,
    again: Again = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Run a chapter with other parameters, into a folder of its own: notebook, figures, tables, run.json.

    Example: tfnewton run 3 -p kappa=1000 -p d=12
    """
    with ending("book"):
        from tfnewton.rerun import display
        from tfnewton.rerun.chapters import find, told
        from tfnewton.rerun.run import run as carry_out

        found = find(chapter)
        values = found.read(_pairs(parameter), preset)
        _agree([found.seconds(values)], yes)
        print(f"{found.file}: {told(found.changed(values))}", file=sys.stderr)
        with display.on_stderr(found.title) as watch:
            done = carry_out(found, values, output, again, watch)
        page = _page(done.folder) if html else None
        if as_json:
            print(json.dumps({"folder": str(done.folder), "found": done.found, "page": page and str(page)}))
        else:
            if done.found:
                print("The same parameters were run on the same code; --again runs them once more.", file=sys.stderr)
            print(page or done.folder)


@app.command("open")
def open_(
    chapter: Name,
    parameter: Settings = None,
    preset: Preset = None,
    again: Again = False,
    lab: Annotated[bool, typer.Option(help="start JupyterLab on the copy")] = True,
) -> None:
    """Open a copy of a chapter with these parameters in JupyterLab; the published one stays as it is.

    Example: tfnewton open 3 -p kappa=1000
    """
    with ending("book"):
        from tfnewton.rerun import opening
        from tfnewton.rerun.chapters import find

        found = find(chapter)
        copy = opening.copy(found, found.read(_pairs(parameter), preset), again)
        print(copy, flush=True)
        if lab:
            raise typer.Exit(opening.start(copy))


@app.command()
def sweep(
    chapter: Name,
    grid: Annotated[
        list[str], typer.Option("--grid", "-g", metavar="NAME=VALUES", help="a,b,c or first:last:step; may be repeated")
    ],
    zipped: Annotated[bool, typer.Option("--zip", help="pair the values instead of combining them")] = False,
    parameter: Settings = None,
    preset: Preset = None,
    workers: Annotated[int, typer.Option(help="processes on this machine, one thread each")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="a dask scheduler, such as tcp://127.0.0.1:8786")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="the sweep's folder (else under runs/)")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="TABLE:COLUMN", help="what to draw (else the headline quantity)")
    ] = None,
    yes: Yes = False,
) -> None:
    """Run a chapter at every point of a grid: a folder each, one table, one picture; goes on where it was stopped.

    Example: tfnewton sweep 3 -g kappa=10,100,1000 -g d=4:16:4 -g seed=0:9 --workers 2
    """
    with ending("book"):
        from tfnewton.cluster.pool import check_workers
        from tfnewton.cluster.progress import shown
        from tfnewton.rerun import sweep as sweeping
        from tfnewton.rerun.chapters import find, told
        from tfnewton.rerun.gathering import gather, quantity
        from tfnewton.rerun.points import read_points

        check_workers(workers, scheduler)
        found = find(chapter)
        points = read_points(found, grid, zipped, _pairs(parameter), preset)
        drawn, root = quantity(found, plot), sweeping.place(found, points, output)
        outcomes = sweeping.earlier(found, points, root)
        left = sweeping.left(points, outcomes)
        print(f"{found.file}: {points.told}, {len(outcomes)} there already", file=sys.stderr)
        _agree(list(map(found.seconds, left)), yes, workers, scheduler)
        with shown(found.title) as display:
            for outcome in sweeping.sweep(found, left, root, workers, scheduler, display):
                outcomes.append(outcome)
                display.say(f"{told(points.at(outcome.values))}: {outcome.folder or f'failed {outcome.fault}'}")
        print(gather(found, points, outcomes, drawn, root))
    if any(outcome.folder is None for outcome in outcomes):
        typer.echo("Points failed, as said above; the same command tries them again", err=True)
        raise typer.Exit(FAILED)


@app.command()
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="folders of runs of one chapter, two or more", metavar="RUN RUN...")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="the page")] = Path("compare.html"),
) -> None:
    """Put two or more runs of a chapter side by side on one page: parameters, tables with differences, figures.

    Example: tfnewton compare runs/03_matrix_inversion/kappa=1000,d=12 runs/03_matrix_inversion/defaults
    """
    with ending("book"):
        from tfnewton.files import write_atomically
        from tfnewton.rerun.compare import page

        write_atomically(output, page(runs).encode())
        print(output)


def _pairs(settings: list[str] | None) -> list[tuple[str, str]]:
    """Split NAME=VALUE at the first "=", so that a value may hold others."""
    pairs = [(name.strip(), text) for name, _, text in (setting.partition("=") for setting in settings or [])]
    wrong = [setting for setting in settings or [] if not setting.partition("=")[0].strip() or "=" not in setting]
    if wrong:
        raise ValueError("\n".join(f"-p {setting}: must be NAME=VALUE, as in -p kappa=1000" for setting in wrong))
    return pairs


def _agree(seconds: Sequence[float], yes: bool, workers: int = 1, scheduler: str | None = None) -> None:
    """Say how long runs take that take long, and ask where somebody can answer.

    Runs are not shared out: they take no less than the longest of them.
    """
    from tfnewton.cluster.progress import agreed, duration

    cores = max(1, min(workers, len(seconds)))
    takes = max(sum(seconds) / cores, *seconds, 0.0)
    on = "one core" if cores == 1 else f"{cores} cores"
    on += f", shared out by {scheduler}" if scheduler is not None else ""
    if takes > ASK_FROM and not agreed(f"This takes about {duration(takes)} on {on}.", yes):
        raise typer.Exit(INTERRUPTED)


def _page(folder: Path) -> Path:
    from tfnewton.rerun.page import make

    return make(folder)
