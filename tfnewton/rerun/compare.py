"""Two or more runs of a chapter on one page, which stands alone: what differs, tables and figures side by side."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfnewton.rerun import saving
from tfnewton.rerun.pages import render
from tfnewton.rerun.values import write

__all__ = ["Row", "differences", "page", "side_by_side"]


class Change(NamedTuple):
    """How a number differs from that of the first run: by how much, and the ratio where the signs are the same."""

    difference: str
    ratio: str


class Row(NamedTuple):
    """A row of a table: its number in the first run, then in the others, each with its change."""

    name: str
    first: str
    others: list[tuple[str, Change]]


class _Run(NamedTuple):
    folder: Path
    label: str
    record: dict[str, Any]


def page(folders: Sequence[Path]) -> str:
    """Return the HTML page that compares run folders, the first being what the others are held against.

    Raises:
        ValueError: fewer than two folders, folders that are none of runs or not whole, or runs of different chapters.
    """
    if len(folders) < 2:
        raise ValueError(f"{len(folders)} run: must be two or more folders of runs")
    records = [_whole(folder) for folder in folders]
    chapters = sorted({record["chapter"] for record in records})
    if len(chapters) > 1:
        raise ValueError(f"runs of {', '.join(chapters)}: must be of one chapter")
    runs = [
        _Run(of, f"run {number}", record) for number, (of, record) in enumerate(zip(folders, records, strict=True), 1)
    ]
    return render(
        "compare.html",
        title=records[0]["title"],
        runs=runs,
        parameters=differences([record["parameters"] for record in records]),
        circumstances=differences([_circumstances(record) for record in records]),
        headline=_headline(records),
        tables=[_table(name, runs) for name in _names(records, "tables")],
        figures=[_figure(name, runs) for name in _names(records, "figures")],
    )


def _whole(folder: Path) -> dict[str, Any]:
    """Return the record of a run whose folder has what the record says."""
    record = saving.record(folder)
    missing = [repr(part) for part in ("title", "headline", "tables", "figures") if part not in record]
    if not missing:
        named = [Path("tables") / f"{of['name']}.csv" for of in record["tables"]]
        missing = [str(path) for path in named if not (folder / path).exists()]
    if missing:
        raise ValueError(f"{folder}: is damaged, it lacks {', '.join(missing)}")
    return record


def differences(settings: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], bool]]:
    """Return for each name its values in all runs, and whether they differ; those that do come first."""
    names = list(dict.fromkeys(name for of in settings for name in of))
    rows = []
    for name in names:
        values = [write(of[name]) if name in of else "" for of in settings]
        rows.append((name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row[2])


def side_by_side(tables: Sequence[Sequence[Mapping[str, str]] | None]) -> list[tuple[str, list[Row]]]:
    """Return for each column the rows of the same table in several runs, matched by their first column.

    Rows with one name are matched in their order. None stands for a run without the table.
    """
    keyed = [_keyed(rows or []) for rows in tables]
    keys = list(dict.fromkeys(key for of in keyed for key in of))
    columns = list(dict.fromkeys(column for rows in tables if rows for column in list(rows[0])[1:]))
    result = []
    for column in columns:
        rows = []
        for key in keys:
            rows.append(_row(key[0], [of[key].get(column, "") if key in of else "" for of in keyed]))
        result.append((column, rows))
    return result


def _keyed(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, int], Mapping[str, str]]:
    found: dict[tuple[str, int], Mapping[str, str]] = {}
    for row in rows:
        name = _shown(next(iter(row.values())))
        number = 0
        while (name, number) in found:
            number += 1
        found[name, number] = row
    return found


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _shown(cell: str) -> str:
    """Return a cell of a CSV as a table shows it: numbers with four digits, nothing as a dash."""
    number = _number(cell)
    if number is None or not math.isfinite(number):
        return {"": "–", "true": "yes", "false": "no"}.get(cell, cell)
    return cell if cell.lstrip("-").isdecimal() else f"{number:.4g}"


def _row(name: str, cells: Sequence[str]) -> Row:
    return Row(name, _shown(cells[0]), [(_shown(other), _change(cells[0], other)) for other in cells[1:]])


def _change(first: str, other: str) -> Change:
    if first == other:
        return Change("none", "")
    a, b = _number(first), _number(other)
    if a is None or b is None or not math.isfinite(a) or not math.isfinite(b):
        return Change("differs", "")
    return Change(f"{b - a:+.3g}", f"{b / a:.3g}" if a * b > 0 else "")


def _circumstances(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reader should know beside the parameters when numbers differ."""
    versions = dict(record.get("versions", {}))
    names = ("commit", "code", "threads", "device", "started", "seconds")
    short = {"code": str(record["code"])[:12]}
    return versions | {name: record.get(name) for name in names} | short


def _headline(records: Sequence[Mapping[str, Any]]) -> Row:
    values = [record["headline"]["value"] for record in records]
    cells = ["" if value is None else value if isinstance(value, str) else repr(value) for value in values]
    return _row(records[0]["headline"]["label"], cells)


def _names(records: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return list(dict.fromkeys(one["name"] for record in records for one in record[kind]))


def _table(name: str, runs: Sequence[_Run]) -> dict[str, Any]:
    titles = [next((of["title"] for of in run.record["tables"] if of["name"] == name), None) for run in runs]
    rows = [saving.table(run.folder, name) for run in runs]
    first = next((next(iter(of[0])) for of in rows if of), "")  # a table may have no rows in any
    missing = [run.label for run, of in zip(runs, rows, strict=True) if of is None]
    columns = [(column, of, any(_differs(row) for row in of)) for column, of in side_by_side(rows)]
    if len(set(filter(None, titles))) == 1:
        titles = [next(filter(None, titles))]
    else:
        titles = [f"{run.label.capitalize()}: {title}" for run, title in zip(runs, titles, strict=True) if title]
    return {"name": name, "titles": titles, "first": first, "columns": columns, "missing": missing}


def _differs(row: Row) -> bool:
    return any(change.difference != "none" for _, change in row.others)


def _figure(name: str, runs: Sequence[_Run]) -> dict[str, Any]:
    described = [next((of for of in run.record["figures"] if of["name"] == name), None) for run in runs]
    pictures = []
    for run, of in zip(runs, described, strict=True):
        path = run.folder / "figures" / f"{name}.png"
        data = base64.b64encode(path.read_bytes()).decode() if of is not None and path.exists() else None
        pictures.append((run.label, data, of["alt"] if of is not None else ""))
    caption = next(of["caption"] for of in described if of is not None)
    return {"name": name, "caption": caption, "pictures": pictures}
