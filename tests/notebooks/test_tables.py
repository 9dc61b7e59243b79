"""The rows for programs of every published table are what its page shows, entry by entry."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tfnewton.rerun.outputs import ROWS

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


class Cells(HTMLParser):
    """The rows of cells of an HTML table, the head first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._inside = tag in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def same(shown: str, value: Any) -> bool:
    if value is None:
        return shown == "–"
    if isinstance(value, bool):
        return shown == ("yes" if value else "no")
    if isinstance(value, str):
        return shown == value or (value, shown) in (("INF", "inf"), ("-INF", "-inf"))
    if shown.startswith("<"):
        return float(value) == 0.0
    return re.fullmatch(r"-?[\d.]+(e[+-]\d+)?", shown) is not None and float(shown) == value


@pytest.mark.parametrize(
    ("shown", "value", "agree"),
    [
        ("0.5", 0.5, True),
        ("0.5", 0.51, False),
        ("< 1e-09", 0.0, True),
        ("< 1e-09", 1e-12, False),
        ("–", None, True),
        ("0", None, False),
        ("yes", True, True),
        ("1", True, False),
        ("inf", "INF", True),
        ("1e+03", 1000.0, True),
        ("x", "x", True),
    ],
)
def test_entries_that_differ_are_noticed(shown: str, value: Any, agree: bool) -> None:
    assert same(shown, value) is agree


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_rows_are_what_is_shown(path: Path) -> None:
    outputs = [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", [])]
    tables = [output.data for output in outputs if ROWS in output.get("data", {})]
    assert tables
    for data in tables:
        resource = data[ROWS]
        head, *rows = Cells(data["text/html"]).rows
        fields = resource["schema"]["fields"]
        assert head == [of["name"] + (f" ({of['kind']})" if "kind" in of else "") for of in fields]
        assert len(rows) == len(resource["data"])
        names = [of["name"] for of in fields]
        wrong = [
            (name, shown, row[name])
            for cells, row in zip(rows, resource["data"], strict=True)
            for name, shown in zip(names, cells, strict=True)
            if not same(shown, row[name])
        ]
        assert wrong == [], resource["name"]
