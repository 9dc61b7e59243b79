"""What is given as text reaches every chapter's class as meant, or is refused with all its faults."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.ranges import Open, Range
from tests.helpers.tries import tries
from tests.rerun.test_ranges import CHAPTERS
from tfnewton.rerun.legality import Parameters, RefusedError, parse, settle
from tfnewton.rerun.parameters import LinearRegression, MainTheorem, MatrixInversion, NewtonIteration
from tfnewton.rerun.values import write

INVERSION: dict[str, Any] = CHAPTERS[MatrixInversion][0]
ASK = "tfnewton params 3"


def numbers(of: Range, legal: bool) -> st.SearchStrategy[Any]:
    """Numbers within a range, or beyond its ends."""
    if isinstance(of.low, int):
        inside = st.integers(of.low, of.high)
        return inside if legal else st.integers(max_value=of.low - 1) | st.integers(min_value=of.high + 1)
    low, high, excluded = float(of.low), float(of.high), (isinstance(of.low, Open), isinstance(of.high, Open))
    if legal:
        return st.floats(low, high, exclude_min=excluded[0], exclude_max=excluded[1])
    below = st.floats(max_value=low, exclude_max=not excluded[0], allow_nan=False, allow_infinity=False)
    above = st.floats(min_value=high, exclude_min=not excluded[1], allow_nan=False, allow_infinity=False)
    return below | above


def values(range_: Any, legal: bool) -> st.SearchStrategy[Any]:
    if isinstance(range_, Range):
        return numbers(range_, legal)
    if isinstance(range_, tuple):
        entries, shortest, longest = range_
        inside = numbers(entries, legal=True)
        if legal:
            return st.lists(inside, min_size=shortest, max_size=longest)
        return st.lists(inside, min_size=longest + 1, max_size=longest + 3) | st.tuples(
            inside, numbers(entries, legal=False)
        ).map(list)
    options = sorted(range_)
    words = st.text(max_size=8) if isinstance(options[0], str) else st.integers(2, 50)
    return st.sampled_from(options) if legal else words.filter(lambda value: value not in options)


def texts(value: Any) -> st.SearchStrategy[str]:
    """Ways to write a value that all mean the same."""
    ways = [write(value)]
    if isinstance(value, bool):
        ways += ["yes", "on", "TRUE"] if value else ["no", "off", "false"]
    elif isinstance(value, int):
        ways += [f"{value}.0", f"{value:_}", f"+{value}", f"{value}e0"]
    elif isinstance(value, float):
        ways += [repr(value), f"{value:.17e}".upper()]
    elif isinstance(value, list):
        ways += [str(value), ",".join(map(repr, value)), f"({', '.join(map(write, value))})"]
    return st.sampled_from(ways)


@st.composite
def cases(draw: st.DrawFn, legal: bool) -> tuple[type[Parameters], dict[str, Any], str, Any]:
    chapter = draw(st.sampled_from(list(CHAPTERS)))
    usual, ranges = CHAPTERS[chapter]
    name = draw(st.sampled_from(list(ranges)))
    beside = dict(ranges[name].beside) if isinstance(ranges[name], Range) else {}
    return chapter, usual | beside, name, draw(values(ranges[name], legal))


@settings(max_examples=tries(60), deadline=None)
@given(cases(legal=True), st.data())
def test_every_legal_value_is_taken_however_it_is_written(case: Any, data: st.DataObject) -> None:
    chapter, usual, name, value = case
    found = parse(chapter, [(name, data.draw(texts(value)))], usual, ASK)
    assert found == {name: value}
    assert type(found[name]) is type(value)
    assert getattr(chapter(**usual | found), name) == value
    assert parse(chapter, [(name, write(found[name]))], usual, ASK) == found


@settings(max_examples=tries(60), deadline=None)
@given(cases(legal=False))
def test_every_illegal_value_is_refused_by_name(case: Any) -> None:
    chapter, usual, name, value = case
    for refuse in (
        lambda: parse(chapter, [(name, write(value))], usual, ASK),
        lambda: settle(chapter, usual | {name: value}, ASK),
    ):
        with pytest.raises(RefusedError, match=rf"(?s)^{name} = .*must be.*\n{ASK} lists what may be set$"):
            pytest.fail(repr(refuse()))


@settings(max_examples=tries(30), deadline=None)
@given(st.sampled_from(list(CHAPTERS)), st.text("abcdefgimnopst_", min_size=1, max_size=9))
def test_every_unknown_name_is_refused(chapter: type[Parameters], name: str) -> None:
    usual = CHAPTERS[chapter][0]
    if name not in usual:
        with pytest.raises(RefusedError, match=rf"^{name} = 1: there is no such parameter; (did you mean|there are)"):
            parse(chapter, [(name, "1")], usual, ASK)


def refusal(record: type[Parameters], usual: dict[str, Any], *given: str) -> list[str]:
    pairs = [(name, text) for name, _, text in (one.partition("=") for one in given)]
    with pytest.raises(RefusedError) as refused:
        pytest.fail(repr(parse(record, pairs, usual, ASK)))
    *faults, last = str(refused.value).split("\n")
    assert last == f"{ASK} lists what may be set"
    return faults


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    (fault,) = refusal(MatrixInversion, INVERSION, "kapa=3")
    assert fault == "kapa = 3: there is no such parameter; did you mean kappa?"
    (fault,) = refusal(MatrixInversion, INVERSION, "zzz=3")
    assert fault.endswith("there are d, kappa, steps, symmetric, dtype, seed")


def test_all_faults_are_told_at_once() -> None:
    faults = refusal(
        *(MatrixInversion, INVERSION),
        *("d=12.5", "kapa=3", "kappa=0.5", "dtype=float16", "symmetric=maybe", "seed=1_000", "steps=3", "steps=4"),
    )
    assert sorted(faults) == [
        "d = 12.5: must be an integer from 1 to 64",
        "dtype = float16: must be float64 or float32",
        "kapa = 3: there is no such parameter; did you mean kappa?",
        "kappa = 0.5: must be a number from 1 to 1e6",
        "steps = 4: is given twice, before as 3",
        "symmetric = maybe: must be True or False",
    ]


def test_rules_between_parameters_are_told_beside_other_faults() -> None:
    usual = CHAPTERS[MainTheorem][0] | {"d": 5, "n": 26, "mu": 0.1, "error": 1e-3}
    assert refusal(MainTheorem, usual, "n=3", "mu=100") == [
        "mu = 100: must be a number from 0.001 to 10",
        "n = 3: must be at least d = 5",
    ]
    faults = refusal(MainTheorem, usual, "d=40", "n=600", "dataset=breast_cancer")
    assert [fault.partition(" =")[0] for fault in faults] == ["error", "d", "n"]


def test_a_rule_says_nothing_of_a_value_that_could_not_be_read() -> None:
    usual = CHAPTERS[LinearRegression][0]
    assert refusal(LinearRegression, usual, "d=many", "n=2") == ["d = many: must be an integer from 1 to 64"]


def test_a_list_given_as_text_to_papermill_is_refused() -> None:
    usual = CHAPTERS[NewtonIteration][0]
    with pytest.raises(RefusedError, match=re.escape("orders = '[2, 3]': must be a list of 1 to 7 integers from 2")):
        settle(NewtonIteration, usual | {"orders": "[2, 3]"}, ASK)


def injected(**values: Any) -> dict[str, Any]:
    """The names of a notebook after papermill's cell, as IPython keeps them."""
    cell = "# Parameters\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return INVERSION | values | {"In": ["", "d: int = 4  # size", cell, "imports"], "np": re, "helper": 3}


def test_a_notebook_takes_what_papermill_injects() -> None:
    assert MatrixInversion.check(injected(kappa=100.0, d=8)) == MatrixInversion(**INVERSION | {"kappa": 100.0, "d": 8})
    assert MatrixInversion.check(INVERSION | {"other": 1}) == MatrixInversion(**INVERSION)


def test_a_notebook_refuses_a_name_that_papermill_injects_in_vain() -> None:
    with pytest.raises(ValueError, match="kapa = 3: there is no such parameter; did you mean kappa") as refused:
        MatrixInversion.check(injected(kapa=3, symmetric="yes"))
    assert "symmetric = 'yes': must be True or False" in str(refused.value)
    assert str(refused.value).endswith("\ntfnewton params matrix_inversion lists what may be set")


def test_a_notebook_refuses_what_is_missing() -> None:
    without = {name: value for name, value in INVERSION.items() if name != "seed"}
    with pytest.raises(ValueError, match="seed: is missing, must be an integer from 0 to 4294967295"):
        MatrixInversion.check(without)


def test_cells_of_a_session_that_are_not_papermills_are_no_parameters() -> None:
    session = INVERSION | {"In": ["", "kapa = 3", "#Parameters of mine\nmine = 1", "x = 2"], "kapa": 3}
    assert MatrixInversion.check(session) == MatrixInversion(**INVERSION)
