"""Where a run comes from: versions, commit, and a hash of the chapter with the package that it ran on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import tfnewton
from tfnewton.rerun.chapters import Chapter

__all__ = ["commit", "fingerprint", "threads", "versions"]

PACKAGE = Path(tfnewton.__file__).parent


def versions() -> dict[str, str]:
    """Return the versions of what decides the numbers of a run."""
    installed = {name: importlib.metadata.version(name) for name in ("numpy", "torch")}
    return {"python": platform.python_version(), **installed, "tfnewton": tfnewton.__version__}


def commit() -> str | None:
    """Return the commit of the repository that the package is in, with "+" where files have changed; None for none."""
    git = ["git", "-C", str(PACKAGE.parent)]
    try:
        if not (PACKAGE.parent / ".git").exists():  # of another repository that it happens to lie in
            return None
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10)
        changes = [*git, "status", "--porcelain", "--untracked-files=no"]
        changed = subprocess.run(changes, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def threads() -> int:
    """Return how many threads the computation may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fingerprint(chapter: Chapter) -> str:
    """Return a hash of the chapter's cells and of every file of the package: equal code, equal hash."""
    digest = hashlib.sha256(_canonical([_cell(cell) for cell in chapter.notebook["cells"]]))
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(_canonical([path.relative_to(PACKAGE).as_posix(), path.stat().st_size]))
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _cell(cell: dict[str, Any]) -> list[Any]:
    return [cell["cell_type"], "".join(cell["source"]), cell["metadata"]]


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, ensure_ascii=True).encode()
