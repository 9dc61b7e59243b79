"""Tables go into files with all their digits, in the order that they are shown in."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest

from tfnewton.figures.tables import table
from tfnewton.rerun import kernel
from tfnewton.rerun.outputs import ROWS, comma_separated


def shown(**options: Any) -> Any:
    data: dict[str, list[Any]] = {
        "name": ["a,b", 'say "c"', "last"],
        "number": [1 / 3, math.inf, 1e-20],
        "count": [1, None, 2**60],
        "truth": [True, False, None],
    }
    return table(data, name="a-table", caption="Three rows.", **options)


def test_rows_of_a_run_have_all_digits_and_what_is_displayed_stays() -> None:
    one = shown(digits={"number": 2}, floor={"number": 1e-9}, kinds={"number": "sample"})
    displayed, kept = one._repr_mimebundle_(), kernel._with_all_digits(one)
    assert [row["number"] for row in displayed[ROWS]["data"]] == [0.33, "INF", 0.0]
    assert [row["number"] for row in kept[ROWS]["data"]] == [1 / 3, "INF", 1e-20]
    for kind in ("text/plain", "text/html"):
        assert kept[kind] == displayed[kind]
    assert kept[ROWS]["schema"] == displayed[ROWS]["schema"]
    json.dumps(kept, allow_nan=False)


def test_a_csv_has_every_entry_of_the_table() -> None:
    resource = json.loads(json.dumps(shown().with_all_digits()[ROWS], sort_keys=True))  # as notebooks are written
    text = comma_separated(resource).decode()
    assert text.splitlines()[0] == "name,number,count,truth"
    rows = list(csv.reader(io.StringIO(text)))[1:]
    assert rows == [
        ["a,b", "0.3333333333333333", "1", "true"],
        ['say "c"', "inf", "", "false"],
        ["last", "1e-20", str(2**60), ""],
    ]


def test_numbers_of_a_csv_are_read_back_to_the_bit() -> None:
    values = np.random.default_rng(0).standard_normal(50) * 10.0 ** np.arange(-25, 25)
    one = table({"row": range(50), "value": values.tolist()}, name="a-table", caption="Numbers.")
    rows = list(csv.DictReader(io.StringIO(comma_separated(one.with_all_digits()[ROWS]).decode())))
    assert [float(row["value"]) for row in rows] == values.tolist()


def test_the_kernel_is_prepared_by_a_call_that_leaves_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr(kernel, "prepare", lambda: called.append(1))
    names: dict[str, Any] = {}
    exec(kernel.CALL, names)
    assert called == [1]
    assert set(names) == {"__builtins__"}
