"""The tool that tries whether the quick tests notice faults: what it leaves out, and what its table says."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from benchmarks import mutants

SOURCE = textwrap.dedent('''
    def half(x: int = 2) -> "list[3]":
        """Return 4."""
        if x < 5:
            raise ValueError(f"x = {x - 6}")
        return x - 7


    class Sizes:
        d: Annotated[int, Field(ge=8)]
        n: Literal[9] = 10
''')


def test_raise_and_annotations_without_a_call_are_left_out() -> None:
    spans = mutants.left_out(SOURCE)
    lines = SOURCE.splitlines()
    places = {
        digit: (row, line.index(digit)) for row, line in enumerate(lines, 1) for digit in "235678" if digit in line
    }
    left = {digit for digit, place in places.items() if any(start <= place < end for start, end in spans)}
    assert left == {"3", "6"}
    nine = next((row, line.index("9")) for row, line in enumerate(lines, 1) if "9" in line)
    assert any(start <= nine < end for start, end in spans)


def test_tests_of_the_module_come_first_and_all_last() -> None:
    assert mutants.stages("tfnewton/theory/width.py") == ["tests/theory/test_width.py", "tests/theory", "tests"]
    assert mutants.stages("tfnewton/campaign/recipes.py")[:1] == ["tests/campaign/test_recipes.py"]
    assert mutants.stages("tfnewton/campaign/without_tests.py") == ["tests/campaign", "tests"]


def test_rows_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "TABLE", tmp_path / "mutants.csv")
    assert mutants.read() == []
    rows = [mutants.Outcome("tfnewton/a.py", 'x = "1, 2"', "x = 3", 1, "survived", "", "equivalent: not used")]
    mutants.write(rows)
    assert mutants.read() == rows


def test_survivors_in_the_table_have_a_reason_and_the_others_the_test_that_noticed() -> None:
    for of in mutants.read():
        assert of.result in {"noticed", "survived", "too long"}
        assert (of.result == "survived") == (of.by == "")
        if of.result == "survived":
            assert of.reason, f"{of.module}: {of.before} -> {of.after}: equivalent, or which test notices it now?"


def test_a_killed_run_goes_on_and_survivors_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {mutants.Mutant("tfnewton/theory/width.py", f"x = {i}", "x = 9", 0): f"x = 9  # {i}" for i in range(3)}
    seen: list[str] = []

    def copied(to: Path) -> None:
        (to / "tfnewton" / "theory").mkdir(parents=True)
        (to / "tfnewton" / "theory" / "width.py").write_text("whole")

    def first_failure(copy: Path, tests: str) -> str:
        source = (copy / "tfnewton" / "theory" / "width.py").read_text()
        if tests == "tests":
            seen.append(source)
            if source == "x = 9  # 1" and seen.count(source) == 1:
                raise KeyboardInterrupt
        return "tests/test_it.py::test_it" if source == "x = 9  # 2" else ""

    monkeypatch.setattr(mutants, "TABLE", tmp_path / "mutants.csv")
    monkeypatch.setattr(mutants, "sample", lambda count, seed: chosen)
    monkeypatch.setattr(mutants, "copy_of_the_project", copied)
    monkeypatch.setattr(mutants, "first_failure", first_failure)
    with pytest.raises(KeyboardInterrupt):
        mutants.run(3, 0, again=False)
    assert [of.result for of in mutants.read()] == ["survived"]
    mutants.run(3, 0, again=False)
    assert [(of.before, of.result) for of in mutants.read()] == [
        ("x = 0", "survived"),
        ("x = 1", "survived"),
        ("x = 2", "noticed"),
    ]
    assert seen == ["whole", "x = 9  # 0", "x = 9  # 1", "whole", "x = 9  # 1"], "only what was left, after the whole"
    mutants.run(3, 0, again=True)
    assert seen[5:] == ["whole", "x = 9  # 0", "x = 9  # 1"]
