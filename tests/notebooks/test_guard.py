"""What every committed chapter must be: executed from top to bottom, clean, described, and small."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import nbformat
import pytest
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|root|tmp|work|usr|opt|var|mnt|Users|private)/")
PARAMETER = re.compile(r"(?P<name>[a-z]\w*): (?P<type>[a-z\[\], ]+) = (?P<value>[^=#]+?)  # (?P<help>[^=#]+)")

WIDTH = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?\d")  # at the start of a format's specification; "9" stands for a field
PERCENT = re.compile(r"%(?:\(\w+\))?[-+ #0]*[\d*]")
PADDING = {"ljust", "rjust", "center", "zfill", "expandtabs"}

TABLE = "application/vnd.dataresource+json"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def code_cells(path: Path) -> list[NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def texts(path: Path) -> Iterator[str]:
    """Every text that a cell of the notebook has put out."""
    for cell in code_cells(path):
        for output in cell.outputs:
            yield output.get("text", "")
            yield from (value for kind, value in output.get("data", {}).items() if kind.startswith("text/"))


def has_image(output: NotebookNode) -> bool:
    return any(kind.startswith("image/") for kind in output.get("data", {}))


def has_numbers(output: NotebookNode) -> bool:
    shown = output.get("data", {})
    text: str = shown["text/plain"] if TABLE in shown else shown.get("text/markdown", output.get("text", ""))
    return re.search(r"\d", text) is not None


def hand_padded(source: str) -> list[str]:
    """The pieces of code that line up columns by hand: widths in format specifications, and methods that pad."""
    found = []
    for node in ast.walk(ast.parse(source)):
        padded = False
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            parts = node.format_spec.values
            padded = bool(WIDTH.match("".join(p.value if isinstance(p, ast.Constant) else "9" for p in parts)))  # type: ignore[misc]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = node.func.value
            if node.func.attr == "format" and isinstance(text, ast.Constant) and isinstance(text.value, str):
                padded = any(
                    WIDTH.match(spec.replace("{}", "9")) for *_, spec, _ in Formatter().parse(text.value) if spec
                )
            else:
                padded = node.func.attr in PADDING
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            padded = isinstance(node.left.value, str) and bool(PERCENT.search(node.left.value))
        found += [ast.unparse(node)] if padded else []
    return found


@pytest.mark.parametrize(
    "source",
    [
        'print(f"{x:6d}")',
        'print(f"{x:<8}")',
        "print(f\"{'':10}\")",
        'print(f"{x:*^9.2f}")',
        'print(f"{x:>{width}}")',
        'print("{:6d} {:12d}".format(1, 2))',
        'print("x".ljust(9))',
        "print(name.rjust(3), name.center(4))",
        'print("%6.2f" % x)',
    ],
)
def test_padding_by_hand_is_noticed(source: str) -> None:
    assert hand_padded(source)


@pytest.mark.parametrize(
    "source",
    [
        'print(f"{x:.3g} {y:,} {z:+.2e} {w!r} {v:d}")',
        'print(f"{x:.{digits}g}")',
        'print("{:.2f} and {}".format(1.0, 2))',
        'print("%.3g" % x, 7 % 5)',
        'ax.text(0, 0, "p", ha="center")',
        "layout.centers(3)",
    ],
)
def test_what_pads_nothing_is_left_alone(source: str) -> None:
    assert not hand_padded(source)


@each_notebook
def test_no_column_is_lined_up_by_hand(path: Path) -> None:
    """Tables are tfnewton.figures.tables': text padded with blanks is no table to a screen reader or a program."""
    assert not [piece for cell in code_cells(path) for piece in hand_padded(cell.source)]


def test_there_are_chapters() -> None:
    assert NOTEBOOKS


@each_notebook
def test_executed_from_top_to_bottom(path: Path) -> None:
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_no_error_and_no_complaint(path: Path) -> None:
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in texts(path) if re.search(r"\b\w*Warning\b", text)]


@each_notebook
def test_nothing_of_one_run_or_one_machine(path: Path) -> None:
    sources = [cell.source for cell in read(path).cells]
    assert not [text for text in texts(path) if re.search(r"\b0x[0-9a-f]{6,}", text)]
    assert not [text for text in [*sources, *texts(path)] if MACHINE_PATH.search(text)]


@each_notebook
def test_file_is_what_make_notebooks_writes(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("execute", path.parent / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    notebook = read(path)
    nbformat.validate(notebook)
    execute.normalise(notebook)
    assert nbformat.writes(notebook) + "\n" == path.read_text(encoding="utf-8"), "run `make notebooks`"


@each_notebook
def test_small(path: Path) -> None:
    assert path.stat().st_size < 500_000


@each_notebook
def test_cells_are_short(path: Path) -> None:
    for cell in code_cells(path):
        lines = [line for line in cell.source.splitlines() if line and not line.startswith(("import ", "from "))]
        assert len(lines) <= 15, cell.source


@each_notebook
def test_one_title_and_it_comes_first(path: Path) -> None:
    cells = read(path).cells
    titles = [
        (number, line)
        for number, cell in enumerate(cells)
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("# ")
    ]
    assert [number for number, _ in titles] == [0]
    assert not re.match(r"# (\d|chapter)", titles[0][1], re.IGNORECASE), "the table of contents numbers the chapters"


@each_notebook
def test_figures_have_alternative_text_caption_and_name(path: Path) -> None:
    for cell in code_cells(path):
        images = [output for output in cell.outputs if has_image(output)]
        if not images:
            continue
        assert len(images) == 1, "one figure a cell"
        described = cell.metadata.get("mystnb", {})
        assert len(described.get("image", {}).get("alt", "").split()) >= 5, cell.source
        assert described.get("figure", {}).get("caption", "").strip(), cell.source
        assert re.fullmatch(r"[a-z0-9-]+", described.get("figure", {}).get("name", "")), cell.source


@each_notebook
def test_figures_are_backed_by_printed_numbers(path: Path) -> None:
    """Pictures are not compared when chapters are run again; the series behind them, in a table nearby, are."""
    cells = code_cells(path)
    printed = [any(map(has_numbers, cell.outputs)) for cell in cells]
    for number, cell in enumerate(cells):
        if any(map(has_image, cell.outputs)):
            assert any(printed[max(number - 1, 0) : number + 2]), f"nothing printed beside: {cell.source}"


@each_notebook
def test_parameters_are_plain(path: Path) -> None:
    """One cell, one ``name: type = literal  # help`` a line: what papermill can list and replace."""
    tagged = [cell for cell in code_cells(path) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert tagged[0] == code_cells(path)[0], "the parameters come first"
    names = []
    for line in tagged[0].source.splitlines():
        match = PARAMETER.fullmatch(line)
        assert match, f"not `name: type = literal  # help`: {line}"
        ast.literal_eval(match["value"])
        names.append(match["name"])
    assert len(set(names)) == len(names)
    assert names
