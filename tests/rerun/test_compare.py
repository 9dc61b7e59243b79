"""A page that compares runs holds what they hold, row by row, whatever they are named, and stands alone."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

import pytest

from tfnewton.rerun.compare import differences, page, side_by_side

SCHEMA = {"fields": [{"name": "step", "type": "integer"}, {"name": "error", "type": "number"}]}


def run(folder: Path, parameters: dict[str, Any], rows: str, value: float, **changed: Any) -> Path:
    """A run folder of one table and one figure."""
    (folder / "tables").mkdir(parents=True)
    (folder / "figures").mkdir()
    (folder / "tables" / "errors.csv").write_text(rows)
    (folder / "figures" / "line.png").write_bytes(b"\x89PNG")
    record = {
        "chapter": "03_matrix_inversion",
        "title": "Inverting <a> matrix",
        "parameters": parameters,
        "code": "abc",
        "versions": {"numpy": "2.4"},
        "headline": {"label": "last error", "value": value},
        "tables": [{"name": "errors", "title": f"Errors, {len(rows)} characters.", "schema": SCHEMA}],
        "figures": [{"name": "line", "alt": 'A "line" falls.', "caption": "It falls."}],
    }
    (folder / "run.json").write_text(json.dumps(record | changed))
    return folder


def two(tmp_path: Path) -> list[Path]:
    return [
        run(tmp_path / "one", {"kappa": 10.0, "d": 4}, "step,error\n0,0.5\n1,0.25\n", 0.25),
        run(tmp_path / "two & <b>", {"kappa": 100.0, "d": 4}, "step,error\n0,0.5\n1,0.5\n2,\n", 0.5),
    ]


class Reader(html.parser.HTMLParser):
    """The cells of each table of a page, the pictures, and what the page loads from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.alts: list[str] = []
        self.headings: list[str] = []
        self.loaded: list[str] = []
        self._stack: list[str] = []
        self._rows: list[list[str]] = []
        self._name = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "div" and given.get("role") == "region":
            self._name, self._rows = str(given["aria-label"]), []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
            assert tag == "td" or given.get("scope") in ("row", "col")
        if tag == "img":
            self.alts.append(str(given["alt"]))
        self.loaded += [str(given[name]) for name in ("src", "href") if name in given]
        if tag not in ("meta", "img", "br", "link"):
            self._stack.append(tag)

    def handle_data(self, data: str) -> None:
        if self._stack and self._stack[-1] in ("td", "th"):
            self._rows[-1][-1] += data
        if self._stack and self._stack[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self._stack.pop() == tag, "well formed"
        if tag == "table":
            self.tables[self._name] = self._rows


def test_what_differs_comes_first() -> None:
    rows = differences([{"d": 4, "kappa": 10.0}, {"d": 4, "kappa": 1e6, "new": [1, 2]}])
    assert rows == [
        ("kappa", ["10", "1e6"], True),
        ("new", ["", "[1,2]"], True),
        ("d", ["4", "4"], False),
    ]


def test_rows_are_matched_by_their_name_and_repeated_names_in_order() -> None:
    one = [{"κ": "10", "loss": "1.0"}, {"κ": "10", "loss": "2.0"}, {"κ": "50", "loss": "-3.0"}]
    other = [{"κ": "50", "loss": "-4.5"}, {"κ": "10", "loss": "1.5"}, {"κ": "99", "loss": "x"}]
    ((column, rows),) = side_by_side([one, other])
    assert column == "loss"
    assert [(row.name, row.first, [tuple(of) for of in row.others]) for row in rows] == [
        ("10", "1", [("1.5", ("+0.5", "1.5"))]),
        ("10", "2", [("–", ("differs", ""))]),
        ("50", "-3", [("-4.5", ("-1.5", "1.5"))]),
        ("99", "–", [("x", ("differs", ""))]),
    ]


def test_columns_of_either_run_are_shown() -> None:
    columns = side_by_side([[{"t": "1", "a": "1"}], [{"t": "1", "b": "2"}], None])
    assert [column for column, _ in columns] == ["a", "b"]
    assert [len(rows[0].others) for _, rows in columns] == [2, 2]


def test_a_page_has_the_numbers_of_the_runs(tmp_path: Path) -> None:
    read = Reader(page(two(tmp_path)))
    assert read.tables["errors, error"] == [
        ["step", "run 1", "run 2", "difference", "ratio"],
        ["0", "0.5", "0.5", "none", ""],
        ["1", "0.25", "0.5", "+0.25", "2"],
        ["2", "–", "–", "none", ""],
    ]
    assert read.tables["Headline quantity"][1] == ["last error", "0.25", "0.5", "+0.25", "2"]
    assert read.tables["Parameters; those that differ come first."][1:] == [
        ["kappa (differs)", "10", "100"],
        ["d", "4", "4"],
    ]
    assert read.alts == ['run 1: A "line" falls.', 'run 2: A "line" falls.']
    assert read.headings[0] == "Inverting <a> matrix: 2 runs compared"
    assert {"Parameters", "Tables", "Figures", "errors", "line"} <= set(read.headings)


def test_a_page_stands_alone_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    text = page(two(tmp_path))
    assert all(of.startswith("data:image/png;base64,") for of in Reader(text).loaded)
    assert "two &amp; &lt;b&gt;" in text
    assert "<b>" not in text
    assert "prefers-color-scheme: dark" in text


def test_a_table_or_figure_that_one_run_lacks_is_said(tmp_path: Path) -> None:
    one, _ = two(tmp_path)
    bare = run(tmp_path / "three", {"kappa": 1.0, "d": 4}, "step,error\n", 1.0, tables=[], figures=[])
    (bare / "tables" / "errors.csv").unlink()
    text = page([one, bare])
    assert text.count("There is none in run 2.") == 2


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    one, other = two(tmp_path)
    with pytest.raises(ValueError, match="1 run: must be two or more"):
        page([one])
    with pytest.raises(ValueError, match=r"is no folder of a run, it has no run\.json"):
        page([one, tmp_path])
    foreign = run(tmp_path / "four", {}, "step,error\n", 1.0, chapter="02_newton_iteration")
    with pytest.raises(ValueError, match="runs of 02_newton_iteration, 03_matrix_inversion: must be of one chapter"):
        page([one, other, foreign])


def test_a_damaged_run_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    one, other = two(tmp_path)
    (other / "tables" / "errors.csv").unlink()
    with pytest.raises(ValueError, match=r"two & <b>: is damaged, it lacks tables/errors\.csv"):
        page([one, other])
    record = json.loads((one / "run.json").read_text())
    del record["headline"]
    (one / "run.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="one: is damaged, it lacks 'headline'"):
        page([one, other])
