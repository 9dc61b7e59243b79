"""``tfnewton run`` as it is called: real chapters, signals, a full disk; a folder is whole or it is not there."""

from __future__ import annotations

import csv
import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.helpers.small_chapter import SHOW, small_chapter
from tests.helpers.tries import tries
from tfnewton.rerun import execution
from tfnewton.rerun import run as module
from tfnewton.rerun.chapters import find, folder
from tfnewton.rerun.legality import RefusedError
from tfnewton.rerun.outputs import ROWS
from tfnewton.rerun.run import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the kernel's client, not ours
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CHEAP = ["run", "1", "-p", "n=5"]


def tfnewton(*arguments: str, at: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfnewton", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, **options)


def visible(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_dir())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    at = tmp_path_factory.mktemp("runs")
    return at, tfnewton("run", "3", "-p", "kappa=1e3", "-p", "d=12.0", "--html", at=at)


def test_a_run_says_where_it_is_and_which_cells_it_went_through(done: Any) -> None:
    at, answer = done
    assert answer.returncode == 0, answer.stderr
    place = "runs/03_matrix_inversion/d=12,kappa=1000"
    assert answer.stdout == f"{place}/page/index.html\n"
    first, *cells = answer.stderr.splitlines()
    assert first == "03_matrix_inversion: d = 12, kappa = 1000"
    assert "cell 4 of 19: The lemma" in cells
    assert all(re.fullmatch(r"cell \d+ of 19: .+", line) for line in cells)
    assert (at / place / "run.json").is_file()


def test_tables_of_a_run_are_those_of_its_notebook(done: Any) -> None:
    """With more digits than the page shows, and otherwise the same."""
    at, _ = done
    place = at / "runs/03_matrix_inversion/d=12,kappa=1000"
    cells = nbformat.read(place / "03_matrix_inversion.ipynb", as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    tables = [output for output in outputs if ROWS in output.get("data", {})]
    assert sorted(of.data[ROWS]["name"] for of in tables) == sorted(of.stem for of in (place / "tables").iterdir())
    for output in tables:
        resource = output.data[ROWS]
        with (place / "tables" / f"{resource['name']}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        shown = output.data["text/plain"].splitlines()[2:]
        assert len(rows) == len(resource["data"]) == len(shown)
        for row, line in zip(rows, shown, strict=True):
            for entry, digits in re.findall(r"(?<![\w.])((\d\.\d+)e[+-]\d+)(?!\S)", line):
                near = [float(of) for of in row.values() if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", of)]
                tolerance = 10.0 ** -(len(digits) - 2)
                assert any(abs(of - float(entry)) <= tolerance * abs(float(entry)) for of in near), (entry, row)
    residuals = (place / "tables" / "inverse-residuals-table.csv").read_text().splitlines()
    assert any(len(re.sub(r"e.*|\D", "", entry)) > 12 for entry in residuals[-1].split(",")), "all digits"


def test_a_run_has_each_figure_in_both_formats_and_says_what_it_shows(done: Any) -> None:
    at, _ = done
    place = at / "runs/03_matrix_inversion/d=12,kappa=1000"
    record = json.loads((place / "run.json").read_text())
    names = {of["name"] for of in record["figures"]}
    assert {path.name for path in (place / "figures").iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("svg", "png")
    }
    assert all(len(of["alt"].split()) >= 5 for of in record["figures"])
    assert record["parameters"]["kappa"] == 1000.0
    assert record["parameters"]["d"] == 12
    assert isinstance(record["parameters"]["d"], int)
    assert record["commit"] is None or re.fullmatch(r"[0-9a-f]{40}\+?", record["commit"])


def test_the_page_of_a_run_loads_only_what_lies_beside_it(done: Any) -> None:
    at, _ = done
    page = at / "runs/03_matrix_inversion/d=12,kappa=1000/page/index.html"
    text = page.read_text()
    assert "A run of d = 12, kappa = 1000, started" in text
    linked = re.findall(r'(?:src|href)="([^"#?]+)', text)
    loaded = [link for link in linked if not link.startswith(("https://", "data:"))]
    missing = [link for link in loaded if not (page.parent / link).exists()]
    assert missing == []
    assert any("mathjax" in link for link in loaded)
    assert "http" not in "".join(re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(http[^"]*)"', text))
    assert "{prf:ref}" not in text
    assert "<em>The linear transformer</em>" in text
    assert (at / "runs" / "_static").is_dir()
    assert page.stat().st_size < 500_000, "what is shared is not in it"


def test_the_same_is_found_and_run_again_only_when_asked(done: Any) -> None:
    at, _ = done
    before = visible(at)
    answer = tfnewton("run", "matrix_inversion", "-p", "d=12", "-p", "kappa=1_000", "--json", at=at)
    assert answer.returncode == 0
    found = json.loads(answer.stdout)
    assert found == {"folder": "runs/03_matrix_inversion/d=12,kappa=1000", "found": True, "page": None}
    assert "cell" not in answer.stderr
    assert visible(at) == before


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Runs that take no time: what they are asked for, in order."""
    asked: list[dict[str, Any]] = []

    def execute(chapter: Any, values: Any, watch: Any = None) -> dict[str, bytes]:
        asked.append(dict(values))
        code = vars(module)["fingerprint"](chapter)  # a test may have changed it
        record = {"chapter": chapter.file, "parameters": dict(values), "code": code, "number": len(asked)}
        return {"run.json": json.dumps(record).encode()}

    monkeypatch.setattr(module, "execute", execute)
    monkeypatch.chdir(tmp_path)
    return asked


def test_earlier_runs_are_never_written_over(quick: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = find("3")
    values = chapter.defaults()
    first = run(chapter, values)
    assert run(chapter, values) == first._replace(found=True)
    assert run(chapter, values, again=True).folder == first.folder.with_name("defaults-2")
    monkeypatch.setattr(module, "fingerprint", lambda _: "other code")
    assert run(chapter, values).folder == first.folder.with_name("defaults-3")
    assert run(chapter, values).found
    assert len(quick) == 3
    numbers = [json.loads((path / "run.json").read_text())["number"] for path in sorted(first.folder.parent.iterdir())]
    assert numbers == [1, 2, 3]


def test_a_folder_of_ones_own(quick: list[dict[str, Any]], tmp_path: Path) -> None:
    chapter, place = find("3"), tmp_path / "mine"
    values = chapter.defaults()
    assert run(chapter, values, place).folder == place
    assert run(chapter, values, place).found
    with pytest.raises(FileExistsError, match="mine: is there, and is not of these parameters"):
        run(chapter, values | {"seed": 1}, place)
    assert run(chapter, values | {"seed": 1}, place, again=True).folder == tmp_path / "mine-2"
    assert [of["seed"] for of in quick] == [0, 1]


def test_nothing_is_made_for_parameters_that_are_not_legal(quick: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"kappa = 0\.5"):
        run(find("3"), find("3").defaults() | {"kappa": 0.5})
    assert not quick
    assert not list(tmp_path.iterdir())


def test_a_cell_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    chapter = small_chapter("1", "1 / 0", SHOW)
    with pytest.raises(execution.CellError, match="under 'Part 2': ZeroDivisionError"):
        run(chapter, chapter.defaults(), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "3", "-p", "kapa=3"), "kapa = 3: there is no such parameter; did you mean kappa?\ntfnewton params 3"),
        (("run", "3", "-p", "kappa"), "-p kappa: must be NAME=VALUE"),
        (("run", "newton"), "could be 02_newton_iteration, 06_damped_newton"),
        (
            ("run", "3", "--preset", "ill"),
            "there is no such preset; there are ill-conditioned, symmetric, single-precision",
        ),
        (("run", "3", "-o", "/proc/nowhere"), "/proc/nowhere: no folder can be made there"),
        (("run", "3", "-o", "/dev/null/run"), "/dev/null"),
        (("compare", "nowhere", "elsewhere"), "nowhere: is no folder of a run"),
        (("run", "9", "-p", "layers=7"), "layers = 7: must be one of 1, 2, 3, 4, 5, 6, the models that are shipped"),
    ],
)
def test_bad_usage_is_told_and_leaves_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    answer = tfnewton(*arguments, at=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "cell" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files, where there is no root to make a small disk: the notebook is larger."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); "
        "sys.argv[1:] = ['run', '1', '-o', 'run']; from tfnewton.rerun.cli import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 1, answer.stderr
    assert answer.stderr.endswith("run: could not be written, and nothing is left of it (File too large)\n")
    assert "Traceback" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [pytest.param("SIGINT", marks=pytest.mark.long), "SIGTERM"])
def test_an_interrupt_names_the_cell_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tfnewton", *CHEAP, "-o", "run"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stderr is not None
        seen = [process.stderr.readline() for _ in range(3)]
        process.send_signal(getattr(signal, name))
        rest = process.stderr.read()
    assert process.returncode == 130
    assert seen[0] == "01_linear_transformer: n = 5\n"
    assert re.search(r"^interrupted under '.+'$", rest, re.MULTILINE), rest
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(tries(1) if tries(1) > 1 else 10))
def test_a_run_killed_at_any_moment_leaves_nothing_or_a_whole_folder(attempt: int, tmp_path: Path) -> None:
    moment = random.Random(attempt).uniform(0.2, 12.0)
    name = ("SIGKILL", "SIGTERM", "SIGINT")[attempt % 3]
    with subprocess.Popen(
        [sys.executable, "-m", "tfnewton", *CHEAP], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path
    ) as process:
        time.sleep(moment)
        process.send_signal(getattr(signal, name))
        process.wait(timeout=60)
    place = tmp_path / "runs" / "01_linear_transformer" / "n=5"
    if place.exists():
        record = json.loads((place / "run.json").read_text())
        figures = {path.stem for path in (place / "figures").iterdir()}
        assert figures == {of["name"] for of in record["figures"]}
        assert {path.stem for path in (place / "tables").iterdir()} == {of["name"] for of in record["tables"]}
        nbformat.validate(nbformat.read(place / "01_linear_transformer.ipynb", as_version=4))
    answer = tfnewton(*CHEAP, at=tmp_path)
    assert answer.stdout == "runs/01_linear_transformer/n=5\n", answer.stderr
    assert [path.name for path in place.parent.iterdir()] == ["n=5"]


def test_the_published_chapters_stay_as_they_are(done: Any) -> None:
    listed = subprocess.run(
        ["git", "status", "--porcelain", "notebooks"], capture_output=True, text=True, check=False, cwd=folder().parent
    )
    assert not [line for line in listed.stdout.splitlines() if line.startswith("??")]
