"""Whether anything that is shipped holds a line of a solution or of a hidden test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

__all__ = ["leaks", "secrets", "telling"]

_BLOCKS = {
    f"### BEGIN {kind}": f"### END {kind}" for kind in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")
}  # as nbgrader has them
_SHORTEST = 24  # characters; shorter lines stand in any program


def telling(line: str) -> bool:
    """Return whether a line is long enough to give something away."""
    return len(line) > _SHORTEST


def secrets(masters: Path) -> set[str]:
    """Return the lines of more than 24 characters that masters below a folder have in their blocks and nowhere else."""
    lines = [
        found
        for path in masters.rglob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        for found in _lines(cell.source)
    ]
    shown = "\n".join(line for line, hidden in lines if not hidden)
    return {line for line, hidden in lines if hidden and telling(line) and line not in shown}


def _lines(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a cell with whether it stands in a block."""
    end = ""
    for line in map(str.strip, source.splitlines()):
        if line == end:
            end = ""
        else:
            yield line, bool(end)
            end = end or _BLOCKS.get(line, "")


def leaks(masters: Path, shipped: Iterable[Path], public: str = "") -> list[str]:
    """Return in words each line of ``masters`` that students must not see and a file below ``shipped`` holds.

    Lines are looked for as they are and as JSON and HTML write them; those that ``public`` holds are not secret.
    """
    hidden = {line for line in secrets(masters) if line not in public}
    found = []
    for folder in shipped:
        for path in sorted(of for of in folder.rglob("*") if of.is_file()):
            text = path.read_bytes().decode("utf-8", errors="replace")
            found += [f"{path}: has {line!r}" for line in sorted(hidden) if any(way in text for way in _ways(line))]
    return found


def _ways(line: str) -> set[str]:
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted = escaped.replace('"', "&quot;").replace("'", "&#39;")
    return {line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1], escaped, quoted}
