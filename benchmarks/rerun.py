"""What ``tfnewton run`` costs beside bare papermill, and how soon the command says what it can do.

    python -m benchmarks.rerun [REPETITIONS]

The two take turns on one chapter, in processes of their own. ``tfnewton run`` also draws each figure a second time, as
SVG, and writes tables and record.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tfnewton.rerun.chapters import find, folder

CHAPTER = "3"
MOST = {"overhead of tfnewton run": 1.5, "tfnewton --help": 0.5}  # seconds


def _seconds(command: list[str], at: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], cwd=at, check=True, capture_output=True)
    return time.perf_counter() - start


def main(repetitions: int) -> None:
    notebook = folder() / f"{find(CHAPTER).file}.ipynb"
    commands = {
        "papermill": ["papermill", str(notebook), "out.ipynb", "-p", "seed", "1", "--cwd", str(notebook.parent)],
        "tfnewton run": ["tfnewton", "run", CHAPTER, "-p", "seed=1", "--again"],
        "tfnewton --help": ["tfnewton", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    with TemporaryDirectory() as temporary:
        for _ in range(repetitions):
            for name, command in commands.items():
                times[name].append(_seconds(command, Path(temporary)))
    overheads = [run - bare for run, bare in zip(times["tfnewton run"], times["papermill"], strict=True)]
    print(f"{'seconds':28}{'median':>8}{'least':>8}{'at most':>9}")
    for name, values in {**times, "overhead of tfnewton run": overheads}.items():
        wanted = f"{MOST[name]:9.1f}" if name in MOST else ""
        print(f"{name:28}{median(values):8.2f}{min(values):8.2f}{wanted}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
