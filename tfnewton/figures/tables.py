"""The tables of the book: one helper, which shows a table as text, as accessible HTML and as rows for programs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, get_args

import pandas as pd

from tfnewton.checks import choice, integer, real

__all__ = ["Kind", "Table", "table"]

Kind: TypeAlias = Literal["sample", "expectation", "bound"]
Columns: TypeAlias = Mapping[str, Sequence[Any]]
Entry: TypeAlias = str | bool | int | float | None
MISSING = "–"
_ROWS = "application/vnd.dataresource+json"


class Table:
    """A table as a notebook displays it; ``str`` gives its text.

    ``frame`` has the numbers as they were given, one row a line, the first column being the rows' names.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        name: str,
        caption: str,
        digits: Mapping[str, int],
        floor: Mapping[str, float],
        kinds: Mapping[str, Kind],
    ) -> None:
        self.frame, self.name, self.caption = frame, name, caption
        self._digits, self._floor, self._kinds = digits, floor, kinds
        self._columns = [str(column) for column in frame]

    def __str__(self) -> str:
        return f"{self.caption}\n{self._shown().to_string(index=False)}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self._html(), _ROWS: self._rows(self._rounded)}

    def with_all_digits(self) -> dict[str, Any]:
        """Return what a notebook displays, but with all digits in the rows for programs: for runs beside the book."""
        return {**self._repr_mimebundle_(), _ROWS: self._rows(self._exact)}

    def _shown(self) -> pd.DataFrame:
        """Return the frame with all entries as text, and kinds beside the names of the columns."""
        shown = {
            f"{column} ({self._kinds[column]})" if column in self._kinds else column: [
                self._entry(column, value) for value in self.frame[column]
            ]
            for column in self._columns
        }
        return pd.DataFrame(shown, dtype=object)

    def _entry(self, column: str, value: Any) -> str:
        number = self._rounded(column, value)
        if number is None:
            return MISSING
        if isinstance(number, bool):
            return "yes" if number else "no"
        if isinstance(number, float):
            if number == 0.0 and value != 0:
                return f"< {self._floor[column]:g}"
            return f"{number:.{self._digits[column]}g}"
        return str(number)

    def _exact(self, column: str, value: Any) -> Entry:
        """Return ``value`` as Python's own type, None where there is none."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's as well
            return bool(value)
        if isinstance(value, Integral):
            return int(value)
        if not isinstance(value, Real):
            raise TypeError(f"column {column!r} holds {value!r}: must hold numbers, text or None")
        number = float(value)
        return None if math.isnan(number) else number

    def _rounded(self, column: str, value: Any) -> Entry:
        """Return ``value`` as it is shown: 0 for what is less than the floor."""
        number = self._exact(column, value)
        if not isinstance(number, float):
            return number
        if abs(number) < self._floor.get(column, 0.0):
            return 0.0
        shown = float(f"{number:.{self._digits[column]}g}")
        return number if math.isinf(shown) else shown  # rounded up beyond the range

    def _html(self) -> str:
        """Return the table in a region that scrolls, by keyboard too: on a phone wide tables need it."""
        shown = self._shown()
        first, *others = map(str, shown)
        style = shown.set_index(first).style.hide(axis="index", names=True).set_uuid(self.name)
        style = style.format(escape="html").format_index(escape="html").format_index(escape="html", axis="columns")
        fields = self._rows(self._rounded)["schema"]["fields"][1:]
        words = [name for name, field in zip(others, fields, strict=True) if field["type"] == "string"]
        if words:
            left: Any = {name: [{"selector": "", "props": "text-align: left"}] for name in words}
            style = style.set_table_styles(left)
        html = style.set_caption(escape(self.caption)).to_html().replace(f"T_{self.name}", self.name)
        html = re.sub(r' id="[^"]*_(row|level)\d[^"]*"', "", html)  # of cells: nothing refers to them
        html = html.replace('class="blank level0" >&nbsp;', f'class="row_heading" scope="col">{escape(first)}')
        for heading, scope in (("col_heading", "col"), ("row_heading level0", "row")):
            html = html.replace(f'class="{heading}', f'scope="{scope}" class="{heading}')
        html = re.sub(r'class="(?:data row\d+|col_heading level0) (col\d+)" ?', r'class="\1"', html)  # half the size
        html = re.sub(r'class="row_heading level0 row\d+" ?|\n +', _shorter, html)
        region = f'role="region" aria-label="{escape(self.caption)}" tabindex="0"'
        return f'<div class="tfnewton-table" {region}>\n{html}</div>'

    def _rows(self, entry: Callable[[str, Any], Entry]) -> dict[str, Any]:
        """Return the rows by the Frictionless data resource that notebooks display."""
        entries = {column: [entry(column, value) for value in self.frame[column]] for column in self._columns}
        fields = [
            {"name": column, "type": _type(values)} | ({"kind": self._kinds[column]} if column in self._kinds else {})
            for column, values in entries.items()
        ]
        rows = [dict(zip(entries, map(_special, row), strict=True)) for row in zip(*entries.values(), strict=True)]
        return {"name": self.name, "title": self.caption, "schema": {"fields": fields}, "data": rows}


def table(
    data: Columns | Sequence[Mapping[str, Any]],
    *,
    name: str,
    caption: str,
    digits: int | Mapping[str, int] = 3,
    floor: float | Mapping[str, float] = 0.0,
    kinds: Mapping[str, Kind] | None = None,
) -> Table:
    """Return a table to display: as the last line of a cell of a notebook, it is.

    Args:
        data: columns by name, all of one length, or rows with the same names; numbers, text, bool or None. The first
            column names the rows. NaN and None are shown as a dash.
        name: of lower-case letters, digits and hyphens; the table's anchor, one of its kind on a page.
        caption: what the table shows, in a sentence.
        digits: significant digits, at least 1, for all columns or by column, where 3 is the default.
        floor: what is smaller in size is shown as "< floor", so that round-off looks the same on each machine; for all
            columns or by column.
        kinds: says of columns whether they hold samples (they vary from draw to draw), expectations or bounds.

    Raises:
        ValueError: no rows, columns of different lengths, or a setting for a column that is not there.
        TypeError: an entry that is no number, text, bool or None.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"name = {name!r}: must be of lower-case letters, digits and hyphens")
    if not caption.strip():
        raise ValueError("caption = '': must say what the table shows")
    frame = _frame(data)
    columns = [str(column) for column in frame]
    for given, settings in (("digits", digits), ("floor", floor), ("kinds", kinds or {})):
        for column in settings if isinstance(settings, Mapping) else ():
            choice(f"column of {given}", column, columns)
    for column, kind in (kinds or {}).items():
        choice(f"kind of {column}", kind, get_args(Kind))
    by_column = dict.fromkeys(columns, 3) | _for_each(columns, digits)
    for column, count in by_column.items():
        integer(f"digits of {column}", count, minimum=1)
    floors = _for_each(columns, floor)
    for column, least in floors.items():
        real(f"floor of {column}", least, minimum=0.0)
    result = Table(frame, name, caption, by_column, floors, kinds or {})
    result._shown()  # refuses what cannot be shown here, and not when the cell has ended
    return result


def _frame(data: Columns | Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    columns = dict(data) if isinstance(data, Mapping) else {key: [row[key] for row in data] for key in _names(data)}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1 or not all(lengths.values()):
        raise ValueError(f"data has columns of the lengths {lengths}: must have one length, at least 1")
    # as objects, or pandas turns integers beside None into floats
    return pd.DataFrame({str(name): pd.Series(list(column), dtype=object) for name, column in columns.items()})


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names = list(rows[0]) if rows else []
    for row in rows:
        if list(row) != names:
            raise ValueError(f"data has rows with the names {names} and {list(row)}: must have the same")
    return names


def _for_each(columns: Sequence[str], setting: Any) -> dict[str, Any]:
    return dict(setting) if isinstance(setting, Mapping) else dict.fromkeys(columns, setting)


def _shorter(found: re.Match[str]) -> str:
    return "\n" if found[0].startswith("\n") else 'class="row_heading"'


def _special(value: Entry) -> Entry:
    """Return infinity as a data resource writes it: JSON has none."""
    if isinstance(value, float) and math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return value


def _type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    for kind, name in ((bool, "boolean"), (int, "integer")):
        if kinds == {kind}:
            return name
    return "number" if kinds and kinds <= {int, float} else "string"
