"""Text is read as what it looks like, by the type of the parameter, and what is written is read back."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.helpers.tries import tries
from tfnewton.rerun.values import allowed, read, write


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12", int, 12),
        ("12.0", int, 12),
        ("1e3", int, 1000),
        ("1_000", int, 1000),
        ("-3", int, -3),
        ("+3", int, 3),
        ("010", int, 10),
        (" 7 ", int, 7),
        ("100000000000000000001", int, 100000000000000000001),
        ("1e3", float, 1000.0),
        ("1_000.5", float, 1000.5),
        ("-0.5", float, -0.5),
        (".5", float, 0.5),
        ("5.", float, 5.0),
        ("1E-3", float, 1e-3),
        ("12", float, 12.0),
        ("yes", bool, True),
        ("No", bool, False),
        ("TRUE", bool, True),
        ("off", bool, False),
        ("0", bool, False),
        ("none", float | None, None),
        ("Null", int | None, None),
        ("3", int | None, 3),
        ("none", str | None, None),
        ("[2,3]", list[int], [2, 3]),
        ("2,3", list[int], [2, 3]),
        ("( 2 , 3 )", list[int], [2, 3]),
        ("[2, 3.0,]", list[int], [2, 3]),
        ("1e3", list[float], [1000.0]),
        ("[]", list[int], []),
        ("", list[int], []),
        ('["a, b", "c"]', list[str], ["a, b", "c"]),
        ("a,b", list[str], ["a", "b"]),
        ("float32", Literal["float64", "float32"], "float32"),
        ("4", Literal[1, 4], 4),
        ("a=b", str, "a=b"),
        (' it\'s "quoted" ', str, ' it\'s "quoted" '),
        ("3", Annotated[int, Field(ge=1)], 3),
    ],
)
def test_a_value_is_what_it_looks_like(text: str, kind: Any, value: Any) -> None:
    found = read(text, kind)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, list):
        assert list(map(type, found)) == list(map(type, value))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (text, int)
            for text in ("12.5", "", "x", "1e", "1__0", "_1", "1_", "0x10", "1/3", "1:30", "٣", "1e999999999")
        ),
        *((text, int) for text in ("inf", "nan", "1 2", "--1", "True", "none", "1e-1")),
        *((text, float) for text in ("nan", "inf", "-Infinity", "1e400", "", "1,5", "1.5.2", "yes", "1e1e1", "1j")),
        *((text, bool) for text in ("maybe", "", "2", "1.0", "y", "[yes]")),
        *((text, list[int]) for text in ("[2,x]", "2;3", "[2,,3]", "[2", "[[2],3]", "2 3", "yes")),
        *((text, list[str]) for text in ("[1, 2]", "[a", '["a"')),
        *((text, Literal["float64", "float32"]) for text in ("Float32", "float", "", " float32")),
        *((text, Literal[1, 4]) for text in ("2", "yes", "4.5")),
        ("", int | None),
    ],
)
def test_what_is_no_value_is_refused(text: str, kind: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  its words are never shown: the refusal says what is allowed
        pytest.fail(repr(read(text, kind)))


def test_a_kind_that_cannot_be_read_is_named() -> None:
    with pytest.raises(TypeError, match="dict"):
        read("{}", dict)


VALUES = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str: st.text(),
    list[int]: st.lists(st.integers()),
    list[float]: st.lists(st.floats(allow_nan=False, allow_infinity=False)),
    list[str]: st.lists(st.text(), min_size=1),
    float | None: st.none() | st.floats(allow_nan=False, allow_infinity=False),
}


@settings(max_examples=tries(60), deadline=None)
@given(st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_what_is_written_is_read_back(drawn: tuple[Any, Any]) -> None:
    kind, value = drawn
    found = read(write(value), kind)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, float) and value == 0.0:
        assert math.copysign(1.0, found) == 1.0  # so that -0 and 0 are one run


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1000.0, "1000"),
        (1e6, "1e6"),
        (1e-7, "1e-7"),
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (True, "True"),
        (None, "None"),
        ([2.0, 300.0], "[2,300]"),
        ("a b", "a b"),
    ],
)
def test_what_is_written_is_short(value: Any, text: str) -> None:
    assert write(value) == text


class Record(BaseModel):
    whole: Annotated[int, Field(ge=1, le=64)]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    open_: Annotated[float, Field(gt=1.0, le=1e6)]
    least: Annotated[float, Field(ge=0.5)]
    plain: int
    truth: bool
    word: Literal["a", "b"]
    one: Literal[1, 2, 3]
    entries: Annotated[list[Annotated[int, Field(ge=2, le=8)]], Field(min_length=1, max_length=7)]
    optional: Annotated[float, Field(ge=0.0)] | None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("whole", "an integer from 1 to 64"),
        ("seed", "an integer from 0 to 4294967295"),
        ("open_", "a number above 1 and at most 1e6"),
        ("least", "a number at least 0.5"),
        ("plain", "an integer"),
        ("truth", "True or False"),
        ("word", "a or b"),
        ("one", "one of 1, 2, 3"),
        ("entries", "a list of 1 to 7 integers from 2 to 8"),
        ("optional", "a number at least 0 or none"),
    ],
)
def test_what_is_allowed_is_said_in_words(name: str, words: str) -> None:
    assert allowed(Record.model_fields[name]) == words
