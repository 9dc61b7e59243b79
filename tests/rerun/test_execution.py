"""A run carried out: what it returns, what a cell that fails is told by, and an interrupt that leaves no process."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.helpers.small_chapter import FIGURE, SHOW, small_chapter
from tfnewton.rerun import execution
from tfnewton.rerun.chapters import find
from tfnewton.rerun.execution import CellError, Progress, execute, headings
from tfnewton.rerun.legality import RefusedError

slow = pytest.mark.slow
quiet = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the kernel's client, not ours
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
pytestmark = quiet

ROOT = Path(__file__).parents[2]


def test_headings_are_those_above() -> None:
    assert headings(small_chapter("1", "2").notebook) == [
        *["Inverting a matrix with attention"] * 3,
        *["Part 1", "Part 1", "Part 2", "Part 2"],
    ]


def test_progress_counts_code_cells() -> None:
    progress = Progress(small_chapter("1", "2").notebook)
    assert (progress.number, progress.of, progress.heading) == (0, 4, "Inverting a matrix with attention")
    progress.enter(4)
    progress.leave()
    assert (progress.number, progress.heading) == (3, "Part 1")
    ((heading, seconds),) = progress.seconds
    assert heading == "Part 1"
    assert 0.0 <= seconds < 10.0


def test_a_long_cell_may_say_how_far_it_is(tmp_path: Path) -> None:
    progress = Progress(small_chapter("1", "2").notebook, tmp_path / "word")
    assert progress.inside() == ""
    (tmp_path / "word").write_text("step 3")
    assert progress.inside() == "step 3"
    progress.enter(4)
    assert progress.inside() == "", "of the cell before"
    assert Progress(small_chapter("1").notebook).inside() == ""


def test_a_failure_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(CellError("ValueError: no", "Running it")))
    assert str(error) == "under 'Running it': ValueError: no"
    assert (error.message, error.heading) == ("ValueError: no", "Running it")


@pytest.mark.parametrize("wrong", [{"kappa": 0.5}, {"kapa": 3.0}, {"d": 12.5}])
def test_nothing_starts_on_parameters_that_are_not_legal(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_carry_out", lambda *_: pytest.fail("a kernel is started"))
    chapter = find("3")
    with pytest.raises(RefusedError, match=next(iter(wrong))):
        execute(chapter, chapter.defaults() | wrong)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    word = "from tfnewton.learning.progress import leave_word; leave_word(7, 0.5, 0.1)"
    chapter = small_chapter(f"{word}\nimport time; time.sleep(1.0)", SHOW, FIGURE)
    chapter.notebook["cells"][-1]["metadata"] = {
        "mystnb": {"image": {"alt": "A line."}, "figure": {"caption": "It rises.", "name": "a-line"}}
    }
    heard: set[str] = set()

    def hear(progress: Progress) -> None:
        for _ in range(60):
            heard.add(progress.inside())
            time.sleep(0.05)

    def listen(progress: Progress) -> None:
        if progress.heading == "Part 1":
            threading.Thread(target=hear, args=[progress]).start()

    found = execute(chapter, chapter.defaults() | {"kappa": 1e3, "d": 12}, listen)
    assert "step 7, loss 0.5" in heard
    return found


@slow
def test_a_run_is_its_notebook_figures_tables_and_record(files: dict[str, bytes]) -> None:
    assert sorted(files) == [
        "03_matrix_inversion.ipynb",
        "figures/a-line.png",
        "figures/a-line.svg",
        "run.json",
        "tables/inverse-residuals-table.csv",
    ]
    assert files["figures/a-line.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["figures/a-line.svg"]
    assert b"<dc:date>" not in files["figures/a-line.svg"]
    assert b"DejaVu" in files["figures/a-line.svg"], "text is text"
    rows = list(csv.DictReader(io.StringIO(files["tables/inverse-residuals-table.csv"].decode())))
    assert rows == [{"step": "0", "error": "0.5"}, {"step": "1", "error": "0.1234567890123"}]


@slow
def test_the_notebook_holds_the_parameters_and_both_kinds_of_picture(files: dict[str, bytes]) -> None:
    notebook = nbformat.reads(files["03_matrix_inversion.ipynb"].decode(), as_version=4)
    nbformat.validate(notebook)
    (injected,) = [cell for cell in notebook.cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert injected.source == "# Parameters\nd = 12\nkappa = 1000.0\n"
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "nothing ran before the first cell"
    assert {"image/png", "image/svg+xml"} <= set(notebook.cells[-1].outputs[0].data)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@slow
def test_the_record_says_what_was_run_on_what(files: dict[str, bytes]) -> None:
    record = json.loads(files["run.json"])
    assert record["parameters"] == find("3").defaults() | {"kappa": 1e3, "d": 12}
    assert record["changed"] == ["d", "kappa"]
    assert record["headline"]["value"] == 0.1234567890123
    assert record["seeds"] == {"seed": 0}
    assert set(record["versions"]) == {"python", "numpy", "torch", "tfnewton"}
    assert record["versions"]["python"] == sys.version.split()[0]
    assert record["figures"] == [{"name": "a-line", "alt": "A line.", "caption": "It rises."}]
    assert [of["heading"] for of in record["cells"]][-3:] == ["Part 1", "Part 2", "Part 3"]
    assert sum(of["seconds"] for of in record["cells"]) <= record["seconds"]
    assert len(record["code"]) == 64
    assert record["threads"] >= 1
    assert record["device"] == "cpu"
    assert record["started"].endswith("+00:00")


@slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", "the process that ran the cell ended"),
        ("assert kappa < 5, 'kappa is large'", "AssertionError: kappa is large"),
    ],
)
def test_a_cell_that_fails_is_named_by_its_heading(source: str, message: str) -> None:
    chapter = small_chapter("1", source, SHOW)
    with pytest.raises(CellError, match=message) as failure:
        execute(chapter, chapter.defaults())
    assert failure.value.heading == "Part 2"


@slow
def test_a_headline_quantity_that_is_not_shown_is_none() -> None:
    """As the errors of chapter 3, where all are below what roundoff may do."""
    chapter = small_chapter("1")
    record = json.loads(execute(chapter, chapter.defaults())["run.json"])
    assert record["headline"]["value"] is None
    assert record["tables"] == []


WATCHED = """
import pathlib, signal, sys, threading
sys.path.insert(0, {root!r})
from tests.helpers.small_chapter import SHOW, small_chapter
from tfnewton.rerun.execution import execute
chapter = small_chapter("1", "import os, time; open({pid!r}, 'w').write(str(os.getpid())); time.sleep(600)", SHOW)
try:
    execute(chapter, chapter.defaults(), lambda progress: print(progress.number, progress.heading, flush=True))
except KeyboardInterrupt as interrupt:
    print(interrupt, flush=True)
"""


@slow
@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGKILL", marks=pytest.mark.long)])
def test_an_interrupt_ends_the_process_of_the_chapter(name: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = WATCHED.format(root=str(ROOT), pid=str(pid))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        until(lambda: pid.exists() and pid.read_text() != "", 60.0)
        kernel = int(pid.read_text())
        assert Path(f"/proc/{kernel}").exists()
        process.send_signal(getattr(signal, name))
        out, _ = process.communicate(timeout=30)
    told = list(dict.fromkeys(line.split(" ")[0] for line in out.splitlines()))
    assert told[:3] == ["1", "2", "3"]
    if name == "SIGINT":
        assert out.endswith("interrupted under 'Part 2'\n") or out.endswith("interrupted under 'Part 1'\n")
    until(lambda: not alive(kernel), 20.0)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(happened: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "has not happened"
        time.sleep(0.05)


@slow
def test_the_chapter_runs_on_this_interpreter_and_package_from_anywhere(tmp_path: Path) -> None:
    source = "import sys, tfnewton, os; print(sys.executable, tfnewton.__file__, os.listdir())"
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.helpers.small_chapter import SHOW, small_chapter
from tfnewton.rerun.execution import execute
chapter = small_chapter({source!r}, SHOW)
sys.stdout.buffer.write(execute(chapter, chapter.defaults())["03_matrix_inversion.ipynb"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    cells = json.loads(done.stdout)["cells"]
    (printed,) = [output["text"] for cell in cells for output in cell.get("outputs", []) if "text" in output]
    executable, package, here = "".join(printed).strip().split(" ", 2)
    assert Path(executable).resolve() == Path(sys.executable).resolve()
    assert Path(package).parents[1] == ROOT
    assert here == "[]", "in an empty folder, where nothing is left"
