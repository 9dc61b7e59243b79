"""The table of symbols: every line names a chapter of the book, and the symbol is used there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<symbols>\$.*?\$) \| (?P<meaning>.+) \| (?P<first>.+) \|$", re.MULTILINE)
CHAPTER = re.compile(r"\{doc\}`chapter \d+ <\.\./notebooks/(\w+)>`")

ROWS = list(ROW.finditer(PAGE[: PAGE.index("## Heads")]))


def tokens(formula: str) -> list[str]:
    """Words, commands and signs of a formula, without the braces and spaces that make no difference."""
    return re.findall(r"\\(?:mathrm|operatorname)\{\w+\}|\\[A-Za-z]+|\\(?![,;!])\S|[^\s{}\\]", formula)


@cache
def formulas(chapter: str) -> tuple[list[str], ...]:
    cells = nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", text, re.DOTALL)
    return tuple(tokens(display or inline) for display, inline in found)


def occurs(symbol: str, chapter: str) -> bool:
    wanted = tokens(symbol)
    return any(wanted == of[k : k + len(wanted)] for of in formulas(chapter) for k in range(len(of)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["symbols"])
def test_symbol_is_used_where_the_table_says(row: re.Match[str]) -> None:
    chapters = CHAPTER.findall(row["first"])
    assert len(chapters) == 1
    assert (ROOT / "notebooks" / f"{chapters[0]}.ipynb").is_file()
    assert row["meaning"].strip()
    for symbol in re.findall(r"\$(.+?)\$", row["symbols"]):
        assert occurs(symbol, chapters[0]), f"{symbol} is not in {chapters[0]}"


def test_every_line_of_the_tables_is_read_and_chapters_come_in_order() -> None:
    tables = re.split(r"^### ", PAGE[: PAGE.index("## Heads")], flags=re.MULTILINE)[1:]
    assert len(tables) == 3
    for table in tables:
        lines = [
            line for line in table.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| symbol"))
        ]
        found = list(ROW.finditer(table))
        assert len(found) == len(lines) >= 10
        chapters = [CHAPTER.findall(row["first"])[0] for row in found]
        assert chapters == sorted(chapters)


def test_a_symbol_that_is_not_there_is_noticed() -> None:
    assert occurs("W_V", "01_linear_transformer")
    assert not occurs("\\Sigma", "01_linear_transformer")
    assert not occurs("q_i", "01_linear_transformer")
