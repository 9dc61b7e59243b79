"""What came of a sweep: one CSV a table with the parameters as columns, the headline quantity, a picture, a page."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tfnewton.files import write_atomically
from tfnewton.rerun import saving
from tfnewton.rerun.chapters import Chapter, folder, told
from tfnewton.rerun.outputs import tables
from tfnewton.rerun.pages import render
from tfnewton.rerun.points import Points, key
from tfnewton.rerun.sweep import Outcome
from tfnewton.rerun.values import write

__all__ = ["Quantity", "gather", "quantity"]


class Quantity(NamedTuple):
    """What a sweep draws: a column of a table in its last row, or where both are empty the chapter's headline."""

    table: str
    column: str
    label: str

    def of(self, run: Path) -> float | None:
        """Return its number in the folder of a run; None where there is none."""
        if not self.table:
            return _number(saving.record(run)["headline"]["value"])
        rows = saving.table(run, self.table)
        return _number(rows[-1].get(self.column)) if rows else None


def quantity(chapter: Chapter, text: str | None) -> Quantity:
    """Return what ``TABLE:COLUMN`` names, or the chapter's headline quantity for None.

    Raises:
        ValueError: the published chapter has no such table, or no such column of numbers in it; the message has those.
    """
    if text is None:
        headline = chapter.entry.headline
        return Quantity("", headline.column, headline.label)
    table, colon, column = text.partition(":")
    tables = _published(chapter)
    if not colon or table not in tables or not column:
        known = ", ".join(f"{name}:{names[-1]}" for name, names in tables.items())
        raise ValueError(f"plot = {text}: must be TABLE:COLUMN, with a table of the chapter, such as {known}")
    numbers = tables[table]
    if column not in numbers and not any(digit in column for digit in "0123456789"):  # some are named by parameters
        near = get_close_matches(column, numbers, n=1)
        meant = f"did you mean {table}:{near[0]}?" if near else f"its columns of numbers are {', '.join(numbers)}"
        raise ValueError(f"plot = {text}: the table has no such column of numbers; {meant}")
    return Quantity(table, column, f"{column}, last row of {table}")


def gather(chapter: Chapter, points: Points, outcomes: Sequence[Outcome], drawn: Quantity, root: Path) -> Path:
    """Write the tables, the picture and the page of a sweep below ``root``, and return the page.

    Args:
        chapter: what was run.
        points: what was swept.
        outcomes: each point once, in any order.
        drawn: the number that stands for a run.
        root: the folder of the sweep, which its runs are in.

    Raises:
        ValueError: the quantity to draw is in none of the runs.
    """
    order = {key(values): number for number, values in enumerate(points.points)}
    outcomes = sorted(outcomes, key=lambda of: order[key(of.values)])
    numbers = [drawn.of(of.folder) if of.folder else None for of in outcomes]
    runs = [of for of in outcomes if of.folder]
    if drawn.table and runs and all(number is None for number in numbers):
        raise ValueError(f"plot = {drawn.table}:{drawn.column}: is a number in none of the runs, which are in {root}")
    (root / "tables").mkdir(parents=True, exist_ok=True)
    titles = _titles(runs)
    for name in titles:
        write_atomically(root / "tables" / f"{name}.csv", _table(name, points, runs))
    write_atomically(root / "headline.csv", _headline(points, outcomes, numbers, drawn, root))
    picture = _draw(points, outcomes, numbers, drawn, root)
    fixed = {name: value for name, value in chapter.changed(points.points[0]).items() if name not in points.axes}
    page = render(
        "sweep.html",
        title=chapter.title,
        told=points.told,
        fixed=told(fixed) if fixed else "",
        faults=f"{len(outcomes) - len(runs)} of {len(outcomes)}" if len(runs) < len(outcomes) else "",
        label=drawn.label,
        column=drawn.column,
        names=list(points.axes),
        picture=picture,
        alt=_alt(points, numbers, drawn),
        caption=_caption(points),
        rows=[_row(points, of, number, root) for of, number in zip(outcomes, numbers, strict=True)],
        tables=list(titles.items()),
    )
    write_atomically(root / "sweep.html", page.encode())
    return root / "sweep.html"


def _published(chapter: Chapter) -> dict[str, list[str]]:
    """Return the names of the columns of numbers of each table that the published chapter shows."""
    notebook = json.loads((folder() / f"{chapter.file}.ipynb").read_text(encoding="utf-8"))
    return {
        name: [field["name"] for field in of["schema"]["fields"] if field["type"] in ("number", "integer", "boolean")]
        for name, of in tables(notebook)
    }


def _number(value: object) -> float | None:
    """Return what a table or a record holds as a number, None for what is none; infinity is none to draw."""
    if isinstance(value, bool):
        return float(value)
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _titles(runs: Iterable[Outcome]) -> dict[str, str]:
    """Return the tables of all runs, with the title that they give it, "" where it is not the same in all."""
    found: dict[str, str] = {}
    for of in runs:
        assert of.folder is not None
        for table in saving.record(of.folder)["tables"]:
            if found.setdefault(table["name"], table["title"]) != table["title"]:
                found[table["name"]] = ""
    return found


def _table(name: str, points: Points, runs: Iterable[Outcome]) -> bytes:
    """Return the rows of a table at all points, after the parameters; a column of a parameter's name is ``table.``."""
    rows = []
    for of in runs:
        assert of.folder is not None
        at = {axis: write(of.values[axis]) for axis in points.axes}
        rows += [
            at | {_apart(column, at): value for column, value in row.items()}
            for row in saving.table(of.folder, name) or []
        ]
    return _csv(rows)


def _apart(column: str, names: Mapping[str, str]) -> str:
    return f"table.{column}" if column in names else column


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _headline(
    points: Points, outcomes: Sequence[Outcome], numbers: Sequence[float | None], drawn: Quantity, root: Path
) -> bytes:
    return _csv(
        [
            {name: write(of.values[name]) for name in points.axes}
            | {
                _apart(drawn.column, dict.fromkeys(points.axes, "")): "" if number is None else repr(number),
                "run": of.folder.relative_to(root).as_posix() if of.folder else "",
                "fault": of.fault,
            }
            for of, number in zip(outcomes, numbers, strict=True)
        ]
    )


def _draw(
    points: Points, outcomes: Sequence[Outcome], numbers: Sequence[float | None], drawn: Quantity, root: Path
) -> bool:
    from tfnewton.figures.sweep import headline

    rows = [(points.at(of.values), n) for of, n in zip(outcomes, numbers, strict=True) if n is not None]
    if not rows:
        for name in ("headline.svg", "headline.png"):
            (root / name).unlink(missing_ok=True)
        return False
    figure = headline(rows, list(points.axes), drawn.label)
    for kind in ("svg", "png"):
        data = io.BytesIO()
        figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None)
        write_atomically(root / f"headline.{kind}", data.getvalue())
    return True


def _alt(points: Points, numbers: Iterable[float | None], drawn: Quantity) -> str:
    values = [number for number in numbers if number is not None]
    if not values:
        return ""
    others = [name for name in points.axes if name != "seed"] or ["seed"]
    return (
        f"{drawn.label} against {others[0]}, from {min(values):.3g} to {max(values):.3g}; the table below has it all."
    )


def _caption(points: Points) -> str:
    others = [name for name in points.axes if name != "seed"]
    words = f"A line for each {' and '.join(others[1:])}." if others[1:] else ""
    band = (
        "Lines are medians over the seeds, bands reach from the least to the largest." if "seed" in points.axes else ""
    )
    return f"{words} {band if others else ''}".strip()


def _row(points: Points, outcome: Outcome, number: float | None, root: Path) -> dict[str, Any]:
    link = quote(outcome.folder.relative_to(root).as_posix()) + "/" if outcome.folder else ""
    return {
        "at": [write(outcome.values[name]) for name in points.axes],
        "value": "–" if number is None else f"{number:.4g}",
        "link": link,
        "words": "folder" if outcome.folder else f"failed {outcome.fault}",
    }
