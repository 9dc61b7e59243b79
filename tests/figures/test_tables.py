"""The table helper: what it shows, what it gives to programs, and what it refuses."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.figures.tables import Table, table

HTML, ROWS = "text/html", "application/vnd.dataresource+json"
COLUMNS: dict[str, Any] = {
    "order": [2, 3, None],
    "error <co>": [1e-17, np.float64(0.123456), math.inf],
    "mean": np.array([1.5, 2.0, 3e9]),
    "holds": [True, np.bool_(False), None],
}


def example(**changed: Any) -> Table:
    given: dict[str, Any] = {"data": COLUMNS, "name": "orders", "caption": "Errors & orders."}
    return table(**given | changed)


def mimes(shown: Table) -> dict[str, Any]:
    return shown._repr_mimebundle_()


def cells(shown: Table) -> list[list[str]]:
    page = BeautifulSoup(mimes(shown)[HTML], "html.parser")
    return [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in page.find_all("tr")]


def test_text_and_html_say_the_same() -> None:
    shown = example(digits={"error <co>": 2}, floor={"error <co>": 1e-12}, kinds={"mean": "sample"})
    expected = [
        ["order", "error <co>", "mean (sample)", "holds"],
        ["2", "< 1e-12", "1.5", "yes"],
        ["3", "0.12", "2", "no"],
        ["–", "inf", "3e+09", "–"],
    ]
    assert cells(shown) == expected
    caption, *lines = mimes(shown)["text/plain"].splitlines()
    assert caption == "Errors & orders."
    assert [line.replace(" ", "") for line in lines] == ["".join(row).replace(" ", "") for row in expected]


def test_html_is_accessible() -> None:
    page = BeautifulSoup(mimes(example())[HTML], "html.parser")
    region, inner = page.select_one("div"), page.select_one("table")
    assert region is not None
    assert inner is not None
    assert (region["role"], region["tabindex"], region["aria-label"]) == ("region", "0", "Errors & orders.")
    assert inner["id"] == "orders"
    assert inner.caption is not None
    assert inner.caption.get_text() == "Errors & orders."
    assert [th["scope"] for th in page.select("thead th")] == ["col"] * 4
    assert [th["scope"] for th in page.select("tbody th")] == ["row"] * 3
    assert [tag["id"] for tag in page.find_all(id=True)] == ["orders"]


def test_columns_of_words_are_set_to_the_left() -> None:
    shown = table({"k": [1, 2], "verdict": ["holds", "fails"]}, name="v", caption="Verdicts.")
    assert "#v .col0" in mimes(shown)[HTML]
    assert "text-align: left" not in mimes(example(data={"k": [1], "error": [2.0]}))[HTML]


def test_rows_hold_what_is_shown() -> None:
    resource = mimes(example(digits={"error <co>": 2}, floor=1e-12, kinds={"mean": "expectation"}))[ROWS]
    assert json.loads(json.dumps(resource, allow_nan=False)) == resource
    assert resource["schema"]["fields"] == [
        {"name": "order", "type": "integer"},
        {"name": "error <co>", "type": "number"},
        {"name": "mean", "type": "number", "kind": "expectation"},
        {"name": "holds", "type": "boolean"},
    ]
    assert resource["data"][0] == {"order": 2, "error <co>": 0.0, "mean": 1.5, "holds": True}
    assert resource["data"][2] == {"order": None, "error <co>": "INF", "mean": 3e9, "holds": None}


def test_rows_or_columns_make_the_same_table() -> None:
    rows = [{name: column[i] for name, column in COLUMNS.items()} for i in range(3)]
    assert mimes(example(data=rows)) == mimes(example())
    assert mimes(example()) == mimes(example())


def test_rows_may_share_a_name() -> None:
    shown = table({"method": ["Newton", "Newton"], "error": [1.0, 2.0]}, name="m", caption="Errors.")
    assert [row[0] for row in cells(shown)] == ["method", "Newton", "Newton"]


def test_the_frame_keeps_the_numbers() -> None:
    pd.testing.assert_series_equal(example().frame["mean"].astype(float), pd.Series(COLUMNS["mean"], name="mean"))


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 9))
@settings(max_examples=tries(50))
def test_a_number_is_shown_to_its_digits(value: float, digits: int) -> None:
    shown = table({"k": [1], "value": [value]}, name="t", caption="A number.", digits=digits)
    (_, text), exact = cells(shown)[1], Decimal(value)
    unit = Decimal(10) ** (exact.adjusted() - digits + 1) if value else Decimal(0)
    assert abs(Decimal(text) - exact) <= Decimal("0.5001") * unit
    assert len(text.lstrip("-").split("e")[0].replace(".", "").strip("0")) <= digits


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "Orders of 2"}, "name = 'Orders of 2'"),
        ({"caption": " "}, "caption"),
        ({"data": {}}, "at least 1"),
        ({"data": []}, "at least 1"),
        ({"data": {"a": []}}, "at least 1"),
        ({"data": {"a": [1], "b": [1, 2]}}, r"\{'a': 1, 'b': 2\}"),
        ({"data": [{"a": 1}, {"b": 1}]}, r"\['a'\] and \['b'\]"),
        ({"digits": {"median": 2}}, "column of digits"),
        ({"digits": 0}, "digits of order"),
        ({"floor": {"median": 2.0}}, "column of floor"),
        ({"floor": -1.0}, "floor of order"),
        ({"floor": math.nan}, "floor of order"),
        ({"kinds": {"median": "sample"}}, "column of kinds"),
        ({"kinds": {"mean": "guess"}}, "kind of mean"),
    ],
)
def test_refusals(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        example(**changed)


def test_entries_that_are_no_numbers_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"column 'b' holds \[1\]"):
        table({"a": [1], "b": [[1]]}, name="t", caption="Lists.")
