"""Texts of a sweep become exactly the points that they mean, and what is wrong with them is told at once."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.rerun.grid import MOST_POINTS, read_grid
from tfnewton.rerun.values import read


def whole(text: str) -> int:
    if Decimal(text) % 1:
        raise ValueError(f"d = {text}: must be an integer")
    return int(Decimal(text))


PARSE: dict[str, Callable[[str], Any]] = {
    "kappa": float,
    "d": whole,
    "seed": whole,
    "orders": lambda text: [int(part) for part in text.strip("[]").split(",")],
    "word": str,
}


def points(*texts: str, zipped: bool = False) -> list[dict[str, Any]]:
    return read_grid(texts, PARSE, ["orders"], zipped).points


def values(text: str) -> list[Any]:
    name = text.partition("=")[0]
    return [point[name] for point in points(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kappa=10,100,1000", [10.0, 100.0, 1000.0]),
        ("d=4:16:4", [4, 8, 12, 16]),
        ("seed=0:9", list(range(10))),
        ("kappa=0:1:0.25", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("kappa=0:0.3:0.1", [0.0, 0.1, 0.2, 0.3]),  # not 0.30000000000000004
        ("kappa=1e-3:3e-3:1e-3", [0.001, 0.002, 0.003]),
        ("d=2,4:16:4,1", [2, 4, 8, 12, 16, 1]),
        ("d=3:1:-1", [3, 2, 1]),
        ("d=-2:2:2", [-2, 0, 2]),
        ("d=5:5", [5]),
        ("d=1_000:3e3:1e3", [1000, 2000, 3000]),
        (" d = 1 , 2 ", [1, 2]),
        ("d=2,1,2", [2, 1]),
        ("orders=[2];[2,3]", [[2], [2, 3]]),
        ("orders=2,3", [[2, 3]]),
        ("word=a=b;it's, so;x:y", ["a=b", "it's, so", "x:y"]),
        ("word=1:2:x", ["1:2:x"]),
    ],
)
def test_texts_mean_what_they_look_like(text: str, expected: list[Any]) -> None:
    found = values(text.strip().replace("d = ", "d=") if text.startswith(" ") else text)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("texts", "faults"),
    [
        (["kappa"], ["-g 'kappa': must be NAME=VALUES"]),
        (["kapa=3"], ["kapa = 3: there is no such parameter; did you mean kappa?"]),
        (["x=3"], ["x = 3: there is no such parameter; there are kappa, d, "]),
        (["kappa="], ["kappa=: a value is missing"]),
        (["d=1,,2"], ["d=1,,2: a value is missing"]),
        (["orders=[2];"], ["orders=[2];: a value is missing"]),
        (["d=4:15:4"], ["d=4:15:4: steps of 4 miss the end 15, and meet 12 and 16"]),
        (["d=9:0"], ["a step of 1 does not lead from 9 to 0"]),
        (["d=0:9:-1"], ["a step of -1 does not lead from 0 to 9"]),
        (["d=0:9:0"], ["a step of 0 does not lead from 0 to 9"]),
        (["d=0:1e12"], [f"d=0:1e12: must be at most {MOST_POINTS} values"]),
        (["d=0:1:0.125"], ["d = 0.125", "d = 0.25", "d = 0.375", "d: 4 more values are refused"]),
        (["d=0.25,0.5,0.75"], ["d = 0.25", "d = 0.5", "d = 0.75"]),
        (["d=1", "d=2"], ["d: given twice"]),
        (["kapa=3", "d=9:0", "seed=x"], ["did you mean kappa?", "a step of 1", "seed"]),
        ([], ["nothing to sweep"]),
    ],
)
def test_all_faults_are_told_at_once(texts: list[str], faults: list[str]) -> None:
    parse = PARSE | {"seed": lambda text: int(text) if text.isdigit() else _refuse(f"seed = {text}: not an integer")}
    with pytest.raises(ValueError, match=re.escape(faults[0])) as told:
        read_grid(texts, parse, ["orders"])
    lines = str(told.value).splitlines()
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert fault in line


def _refuse(text: str) -> None:
    raise ValueError(text)


def test_points_are_every_combination_and_their_number_is_told() -> None:
    grid = read_grid(["kappa=1,10", "seed=0:2"], PARSE)
    assert grid.points == [{"kappa": k, "seed": s} for k in (1.0, 10.0) for s in (0, 1, 2)]
    assert str(grid) == "6 points: 2 kappa x 3 seed"
    assert str(read_grid(["kappa=1,1.0,10", "seed=0:2"], PARSE)) == "6 points: 2 kappa x 3 seed (3 named twice)"
    assert str(read_grid(["kappa=1"], PARSE)) == "1 point"
    with pytest.raises(ValueError, match=r"^1000000 points: must be at most 100000$"):
        read_grid(["d=1:1000", "seed=1:1000"], PARSE)


def test_minus_zero_is_zero() -> None:
    """Else two points of one name, of which one would be lost."""
    found = read_grid(["mu=0,-0"], {"mu": lambda text: read(text, float)})
    assert (str(found), found.axes) == ("1 point (1 named twice)", {"mu": [0.0]})


def test_zipped_values_are_paired() -> None:
    assert points("d=1,1,2", "seed=5:7", zipped=True) == [{"d": 1, "seed": 5}, {"d": 1, "seed": 6}, {"d": 2, "seed": 7}]
    assert str(read_grid(["d=1,1", "seed=5,5"], PARSE, zipped=True)) == "1 point (1 named twice)"
    with pytest.raises(ValueError, match=r"^--zip pairs .* equally many: d has 2, seed has 3$"):
        points("d=1,2", "seed=0:2", zipped=True)


decimals = st.decimals(-1000, 1000, places=3, allow_nan=False)


@given(first=decimals, step=decimals.filter(bool), count=st.integers(0, 60))
@settings(max_examples=tries(100), deadline=None)
def test_a_range_holds_exactly_its_multiples(first: Decimal, step: Decimal, count: int) -> None:
    """Every value is the float of the exact decimal, however it is written, and both ends are there."""
    exact = [first + k * step for k in range(count + 1)]
    for spelled in (str, "{:e}".format):
        found = values(f"kappa={spelled(first)}:{spelled(exact[-1])}:{spelled(step)}")
        assert found == list(dict.fromkeys(map(float, exact)))


@given(first=decimals, last=decimals, step=decimals)
@settings(max_examples=tries(100), deadline=None)
def test_a_range_that_misses_its_end_is_refused(first: Decimal, last: Decimal, step: Decimal) -> None:
    reached = step != 0 and (last - first) / step >= 0 and (last - first) % step == 0
    if reached and (last - first) / step < MOST_POINTS:
        assert values(f"kappa={first}:{last}:{step}")[-1] == float(last)
    else:
        with pytest.raises(ValueError, match=rf"^kappa={first}:{last}:{step}: "):
            values(f"kappa={first}:{last}:{step}")


@given(
    axes=st.dictionaries(
        st.sampled_from(["kappa", "d", "orders", "word"]),
        st.lists(st.integers(-3, 3), min_size=1, max_size=5),
        min_size=1,
    )
)
@settings(max_examples=tries(100), deadline=None)
def test_points_are_the_product_of_distinct_values(axes: dict[str, list[int]]) -> None:
    """Against itertools, with JSON for lists; in the order in which the values first came."""
    separators = {name: ";" if name in ("orders", "word") else "," for name in axes}
    texts = [f"{name}={separators[name].join(map(str, numbers))}" for name, numbers in axes.items()]
    parse = PARSE | {"orders": lambda text: [json.loads(text)]}
    grid = read_grid(texts, parse, ["orders"])
    distinct = [[(name, parse[name](str(number))) for number in dict.fromkeys(axes[name])] for name in axes]
    assert grid.points == [dict(combination) for combination in itertools.product(*distinct)]
    given_points = 1
    for numbers in axes.values():
        given_points *= len(numbers)
    assert grid.dropped == given_points - len(grid.points)
