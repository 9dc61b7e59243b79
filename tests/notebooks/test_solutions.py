"""The exercises at the end of the chapters: their form, the commands in them, and the code of their solutions."""

from __future__ import annotations

import ast
import re
import shlex
import symtable
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import nbformat
import pytest
import yaml

from tfnewton.rerun.chapters import find

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KINDS = ("Compute", "Prove", "Build", "Predict, then rerun")

DIRECTIVE = re.compile(r"^(:{3,})\{(\w+)\}[ \t]*([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:(\w+): (.+)$", re.MULTILINE)
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


class Directive(NamedTuple):
    name: str
    argument: str
    options: dict[str, str]
    body: str


class Exercise(NamedTuple):
    label: str
    kind: str
    title: str
    text: str
    solution: str


def prose(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def directives(text: str) -> list[Directive]:
    """What exercises are made of: they, their hints and their solutions, in order."""
    found = []
    for _, name, argument, inside in DIRECTIVE.findall(text):
        if name in ("exercise", "solution") or (name, argument) == ("admonition", "Hint"):
            lines = inside.splitlines()
            head = list(takewhile(OPTION.fullmatch, lines))
            body = "\n".join(lines[len(head) :]) + "\n"
            found.append(Directive(name, argument.strip(), dict(OPTION.findall("\n".join(head))), body.lstrip()))
    return found


def exercises(path: Path) -> list[Exercise]:
    """The exercises of a chapter, each of which must be followed by its hint and its solution."""
    parts = directives(prose(path))
    order = ["exercise", "admonition", "solution"] * (len(parts) // 3)
    assert [of.name for of in parts] == order, "an exercise is followed by its one hint and its one solution"
    found = []
    for task, hint, solution in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        label = task.options.get("label", "")
        assert re.fullmatch(r"[a-z0-9-]+", label), f"no label: {task.argument}"
        assert solution.argument == label, f"{label} is followed by the solution of {solution.argument}"
        assert solution.options == {"class": "dropdown"}, label
        assert hint.options == {"class": "tip dropdown"}, label
        assert hint.body, f"{label} has an empty hint"
        kind, _, title = task.argument.partition(": ")
        found.append(Exercise(label, kind, title, task.body, solution.body))
    return found


def commands(text: str) -> list[str]:
    lines = [line for block in COMMANDS.findall(text) for line in block.splitlines()]
    return [line for line in lines if line.startswith(".venv/bin/tfnewton run")]


def settings(command: str) -> tuple[str, list[tuple[str, str]]]:
    """The chapter that a command runs, and the parameters that it sets, as text."""
    _, run, chapter, *words = shlex.split(command)
    assert run == "run", command
    assert words[::2] == ["-p"] * len(words[1::2]), command
    pairs = [word.partition("=") for word in words[1::2]]
    return chapter, [(name, value) for name, _, value in pairs]


@each_notebook
def test_exercises_have_label_kind_title_hint_and_solution(path: Path) -> None:
    found = exercises(path)
    assert 2 <= len(found) <= 4
    for exercise in found:
        assert exercise.kind in KINDS, exercise
        assert re.match(r"[A-Z]", exercise.title), exercise.label
        assert "*Hint" not in exercise.text, f"the hint of {exercise.label} stands in the open"


def test_labels_are_used_once() -> None:
    labels = Counter(exercise.label for path in NOTEBOOKS for exercise in exercises(path))
    assert [label for label, times in labels.items() if times > 1] == []


def test_every_part_of_the_book_has_every_kind() -> None:
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    for part in parts:
        files = [ROOT / f"{of['file']}.ipynb" for of in part["chapters"] if of["file"].startswith("notebooks/")]
        kinds = {exercise.kind for file in files for exercise in exercises(file)}
        assert not files or kinds == set(KINDS), part["caption"]


@each_notebook
def test_commands_are_legal_and_change_something(path: Path) -> None:
    """Those of "Change it yourself" as those of the exercises."""
    found = commands(prose(path))
    assert found
    for command in found:
        name, pairs = settings(command)
        chapter = find(name)
        assert chapter.file == path.stem, command
        assert set(chapter.changed(chapter.read(pairs))) == {name for name, _ in pairs}, command


@each_notebook
def test_predictions_are_held_against_one_run_of_at_most_two_minutes(path: Path) -> None:
    for exercise in exercises(path):
        found = commands(exercise.text)
        assert len(found) == (exercise.kind == "Predict, then rerun"), exercise.label
        for command in found:
            name, pairs = settings(command)
            chapter = find(name)
            assert chapter.seconds(chapter.defaults() | chapter.read(pairs)) <= 120, exercise.label


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from scopes(child)


def assigned(source: str) -> set[str]:
    symbols = symtable.symtable(source, "code", "exec").get_symbols()
    return {of.get_name() for of in symbols if of.is_assigned() or of.is_imported()}


def mentioned(source: str) -> set[str]:
    top, *inner = scopes(symtable.symtable(source, "code", "exec"))
    deep = {of.get_name() for scope in inner for of in scope.get_symbols() if of.is_global()}
    return deep | {of.get_name() for of in top.get_symbols() if of.is_referenced()}


def run_as_far_as(path: Path, needed: set[str]) -> dict[str, Any]:
    """The variables of a chapter after its last cell that sets one of the names; figures are not drawn."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    last = max((number for number, cell in enumerate(cells) if assigned(cell.source) & needed), default=0)
    names: dict[str, Any] = {"display": lambda *shown: None}
    for cell in cells[: last + 1]:
        *body, end = ast.parse(cell.source).body
        draws = isinstance(end, ast.Expr) and "mystnb" in cell.metadata
        exec(compile(ast.Module(body if draws else [*body, end], []), path.stem, "exec"), names)
    return names


# `make test` runs one chapter's, `make test-long` all.
SOLVED = [
    pytest.param(path, id=path.stem, marks=() if path.stem.startswith("03") else pytest.mark.long)
    for path in NOTEBOOKS
    if any(CODE.search(of.solution) for of in exercises(path))
]


@pytest.mark.slow
@pytest.mark.parametrize("path", SOLVED)
def test_the_code_of_the_solutions_runs_after_the_chapter(path: Path) -> None:
    """In the order of the page and in one namespace, as a reader does who appends the cells."""
    matplotlib.use("Agg")
    blocks = [(of.label, block) for of in exercises(path) for block in CODE.findall(of.solution)]
    needed: set[str] = set()
    own: set[str] = set()
    for _, block in blocks:
        needed |= mentioned(block) - own
        own |= assigned(block)
    names = run_as_far_as(path, needed)
    for label, block in blocks:
        try:
            exec(compile(block, label, "exec"), names)
        except Exception as fault:
            raise AssertionError(f"{path.stem}, solution of {label}: {fault!r}") from fault
