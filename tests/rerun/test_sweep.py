"""Sweeps as they are carried out: real kernels, real workers, killed ones, and what is found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers.dask_processes import a_scheduler
from tests.helpers.small_chapter import FIGURE, SHOW, small_chapter
from tfnewton.cluster.progress import Progress
from tfnewton.rerun import saving
from tfnewton.rerun.chapters import find
from tfnewton.rerun.points import read_points
from tfnewton.rerun.sweep import earlier, left, place, sweep

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the kernel's client, not ours
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CHAPTER = small_chapter(
    f"from IPython.display import display\nif kappa == 3: raise ValueError('three')\n{SHOW}", FIGURE
)
SLOW = small_chapter(f"import time\ntime.sleep(1.5)\nfrom IPython.display import display\n{SHOW}", FIGURE)


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "points").iterdir())


@pytest.mark.slow
def test_a_point_that_fails_stops_no_other_and_what_is_there_is_found_again(tmp_path: Path) -> None:
    points = read_points(CHAPTER, ["kappa=2,3,4"])
    outcomes = {of.values["kappa"]: of for of in sweep(CHAPTER, points.points, tmp_path)}
    assert outcomes[3.0].folder is None
    assert outcomes[3.0].fault == "under 'Part 1': ValueError: three"
    assert folders(tmp_path) == ["kappa=2", "kappa=4"]
    for kappa in (2.0, 4.0):
        assert saving.record(tmp_path / "points" / f"kappa={kappa:g}")["parameters"] == outcomes[kappa].values
    wider = read_points(CHAPTER, ["kappa=4,3,5"])
    found = earlier(CHAPTER, wider, tmp_path)
    assert [(of.values["kappa"], of.folder) for of in found] == [(4.0, tmp_path / "points" / "kappa=4")]
    assert [values["kappa"] for values in left(wider, found)] == [3.0, 5.0]
    other = small_chapter(SHOW)  # of other code
    assert earlier(other, wider, tmp_path) == []


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with a_scheduler(2) as found:
        yield found


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_point_and_doubles_none(tmp_path: Path, address: str) -> None:
    """Its results come over the wire: nothing but this process writes below the sweep's folder."""
    points = read_points(SLOW, ["kappa=2:7"])
    victims = [of for of in psutil.process_iter(["cmdline"]) if {"worker", address} <= set(of.info["cmdline"] or [])]
    assert len(victims) == 2
    killed: list[psutil.Process] = []

    def watch(progress: Progress) -> None:
        if progress.running and progress.done >= 1 and not killed:
            killed.append(victims[0])
            family = victims[0].children(recursive=True)
            for process in [*family, victims[0]]:
                process.kill()

    ended = Counter(of.values["kappa"] for of in sweep(SLOW, points.points, tmp_path, scheduler=address, watch=watch))
    assert killed
    assert ended == Counter({float(kappa): 1 for kappa in range(2, 8)})
    assert folders(tmp_path) == [f"kappa={kappa}" for kappa in range(2, 8)]


@pytest.mark.long
def test_an_interrupted_sweep_leaves_whole_runs_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfnewton", "sweep", "1", "-g", "n=5:8", "--workers", "2"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("n = "), first
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert [of for of in psutil.process_iter(["cwd", "cmdline"]) if of.info["cwd"] == str(tmp_path)] == []
    there = folders(tmp_path / "runs/01_linear_transformer/sweep,n")
    assert 1 <= len(there) < 4
    begun = time.time()
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert f"4 points, {len(there)} there already" in answer.stderr
    place = tmp_path / "runs/01_linear_transformer/sweep,n"
    assert folders(place) == ["n=5", "n=6", "n=7", "n=8"]
    assert all((place / "points" / name / "run.json").stat().st_mtime < begun for name in there)
    assert (place / "sweep.html").is_file()


def test_place_is_by_what_is_swept_and_set_and_not_by_the_values() -> None:
    def named(*grid: str, **given: str) -> str:
        return place(find("3"), read_points(find("3"), grid, given=list(given.items()))).as_posix()

    assert named("kappa=10,100", "seed=0:1") == "runs/03_matrix_inversion/sweep,kappa,seed"
    assert named("kappa=7,8", "seed=3", d="12") == "runs/03_matrix_inversion/sweep,kappa,seed,d=12"
