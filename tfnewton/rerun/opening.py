"""A copy of a chapter to work on by hand, with parameters of one's own where the published ones stood."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfnewton.files import write_atomically
from tfnewton.rerun import saving
from tfnewton.rerun.chapters import Chapter, text
from tfnewton.rerun.run import place

__all__ = ["copy", "start"]


def copy(chapter: Chapter, values: Mapping[str, Any], again: bool = False) -> Path:
    """Return a copy of the chapter under ``runs/`` whose parameters are ``values``; one that is there stays."""
    values = chapter.settle(values)
    folder = place(chapter, values)
    for candidate in saving.candidates(folder):
        target = candidate.with_name(f"{candidate.name}.ipynb")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, _notebook(chapter, values))
            return target
        if not again:
            return target
    raise AssertionError("there is always a next number")


def start(notebook: Path) -> int:
    """Start JupyterLab on a notebook, wait until it ends, and return its exit code."""
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        raise ModuleNotFoundError("No module named 'jupyterlab'")
    return subprocess.run([sys.executable, "-m", "jupyterlab", str(notebook)], check=False).returncode


def _notebook(chapter: Chapter, values: Mapping[str, Any]) -> bytes:
    notebook = json.loads(json.dumps(chapter.notebook))
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = "\n".join(_line(line, values) for line in text(cell).splitlines())
    return f"{json.dumps(notebook, indent=1, ensure_ascii=False)}\n".encode()


def _line(line: str, values: Mapping[str, Any]) -> str:
    """Return a line of the cell of parameters with the value that is asked for."""
    declared, _, rest = line.partition(" = ")
    return f"{declared} = {values[declared.partition(':')[0]]!r}  # {rest.partition('  # ')[2]}"
