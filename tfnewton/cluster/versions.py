"""What must be the same where tasks are given out and where they are carried out."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path

import tfnewton

__all__ = ["differences", "versions"]

_PACKAGES = ("numpy", "torch", "distributed")


def versions() -> dict[str, str]:
    """Return the versions of Python, numpy, torch, distributed and tfnewton here, and a hash of tfnewton's sources.

    Builds of the same torch for other devices, such as 2.13.0+cpu, count as the same.
    """
    found = {name: importlib.metadata.version(name).partition("+")[0] for name in _PACKAGES}
    return {"python": platform.python_version(), **found, "tfnewton": tfnewton.__version__, "sources": _sources()}


@cache
def _sources() -> str:
    root, digest = Path(tfnewton.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(data)} ".encode() + data)
    return digest.hexdigest()[:12]


def differences(there: dict[str, str], here: dict[str, str]) -> list[str]:
    """Return in words each version that is not the same ``there`` and ``here``."""
    words = {"sources": "tfnewton's sources of hash"}
    return [
        f"{words.get(name, name)} {there.get(name)} there, {here[name]} here"
        for name in here
        if there.get(name) != here[name]
    ]
