"""Chapters and parameters as a person reads them on a terminal, and as programs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfnewton.cluster.progress import duration
from tfnewton.rerun.chapters import Chapter, told
from tfnewton.rerun.values import write

__all__ = ["chapter", "parameters", "show_chapters", "show_parameters"]

_NARROW = 100  # columns, where the output goes to no terminal


def chapter(of: Chapter) -> dict[str, Any]:
    """Return what ``tfnewton list --json`` says of a chapter."""
    return {
        "number": of.number,
        "name": of.name,
        "title": of.title,
        "shows": of.entry.shows,
        "headline": str(of.entry.headline),
        "quantity": of.entry.headline.label,
        "seconds": of.entry.seconds,
    }


def parameters(of: Chapter) -> dict[str, Any]:
    """Return what ``tfnewton params --json`` says of a chapter."""
    costly = dict(of.entry.costly)
    presets = {name: dict(values) for name, values in of.entry.presets.items()}
    return {**chapter(of), "parameters": of.described(), "costly": costly, "presets": presets}


def show_chapters(found: Sequence[Chapter]) -> None:
    """Print three lines a chapter."""
    for of in found:
        print(f"{of.number:2}  {of.name}, about {duration(of.entry.seconds)}")
        print(f"    {of.entry.shows}")
        print(f"    headline quantity: {of.entry.headline.label} ({of.entry.headline})")


def show_parameters(of: Chapter) -> None:
    """Print a line a parameter, then what costs more and the presets."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("name", "type", "default", "takes", "is"):
        table.add_column(heading, overflow="fold")
    for one in of.described():
        cells = (one["name"], one["type"], write(one["default"]), one["allowed"], one["help"])
        table.add_row(*map(Text, cells))
    console = _console()
    console.print(Text(f"{of.number}  {of.title}: about {duration(of.entry.seconds)} at the defaults"))
    console.print(table)
    for names, cost in of.entry.costly.items():
        console.print(Text(f"{names}: {cost}"))
    console.print(Text("presets"))
    for name, values in of.entry.presets.items():
        console.print(Text(f"  --preset {name}: {told(values)}"))


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_NARROW)
