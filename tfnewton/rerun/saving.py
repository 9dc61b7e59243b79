"""Run folders: their names, and how one comes to be there, whole and at once or not at all."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.values import write

__all__ = ["candidates", "earlier", "name_of", "record", "save", "table", "writable"]

_LONGEST = 100  # characters of a folder's name


def name_of(chapter: Chapter, values: Mapping[str, Any]) -> str:
    """Return the name of the folder of a run: its changed parameters, as every file system takes them."""
    parts = [f"{name}={_safe(write(value))}" for name, value in chapter.changed(values).items()]
    name = ",".join(parts) or "defaults"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 11]},{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def _safe(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "+", text.strip("[]"), flags=re.ASCII)


def candidates(place: Path) -> Iterator[Path]:
    """Yield ``place``, then ``place-2``, ``place-3`` and so on."""
    yield place
    number = 2
    while True:
        yield place.with_name(f"{place.name}-{number}")
        number += 1


def record(folder: Path) -> dict[str, Any]:
    """Return the ``run.json`` of a run folder.

    Raises:
        ValueError: the folder is none of a run.
    """
    try:
        found = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder}: is no folder of a run, it has no run.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{folder / 'run.json'}: cannot be read ({error})") from None
    if not isinstance(found, dict) or {"chapter", "parameters", "code"} - set(found):
        raise ValueError(f"{folder / 'run.json'}: is no record of a run")
    return found


def table(folder: Path, name: str) -> list[dict[str, str]] | None:
    """Return the rows of a table of a run folder, as its CSV has them; None where the run has no such table."""
    path = folder / "tables" / f"{name}.csv"
    if not path.exists():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def earlier(place: Path, chapter: Chapter, values: Mapping[str, Any], code: str) -> Path | None:
    """Return the folder, ``place`` or one numbered after it, of a run of the same parameters and code, if there is."""
    for folder in candidates(place):
        if not folder.exists():
            return None
        try:
            found = record(folder)
        except ValueError:
            continue  # something else has that name
        if (found["chapter"], found["parameters"], found["code"]) == (chapter.file, dict(values), code):
            return folder
    return None


def writable(place: Path) -> None:
    """Raise OSError, before anything is computed, where a folder cannot be made; nothing is left of the attempt."""
    there = next(of for of in place.absolute().parents if of.exists())
    try:
        with _hidden(there):
            pass
    except OSError as error:
        raise OSError(f"{place}: no folder can be made there ({error.strerror})") from error


def save(files: Mapping[str, bytes], place: Path) -> Path:
    """Write ``files`` into a new folder, ``place`` or the next number after it that is free, and return it.

    They are written into a hidden folder beside it, which is then renamed: a folder that exists is whole.

    Raises:
        RuntimeError: the folder cannot be written, as on a full disk; nothing is left of it.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place.parent)
    try:
        with _hidden(place.parent) as part:
            _fill(part, files)
            part.chmod(0o777 & ~_umask())
            for folder in candidates(place):
                if not folder.exists() and _renamed(part, folder):
                    return folder
    except OSError as error:
        raise RuntimeError(f"{place}: could not be written, and nothing is left of it ({error.strerror})") from error
    raise AssertionError("there is always a next number")


@contextmanager
def _hidden(parent: Path) -> Iterator[Path]:
    """Make a hidden folder that is not there afterwards, wherever the interrupt comes."""
    part = parent / f".{uuid4().hex[:12]}{_mark(os.getpid())}"
    try:
        part.mkdir(mode=0o700)
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fill(part: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _renamed(part: Path, folder: Path) -> bool:
    try:
        part.rename(folder)
    except OSError:
        if folder.exists():  # another process was there first
            return False
        raise
    return True


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _mark(process: int) -> str:
    return f".{socket.gethostname()}.{process}.part"


def _sweep(parent: Path) -> None:
    """Remove what processes of this machine that are no more have left half-written."""
    for part in parent.glob(f".*.{socket.gethostname()}.*.part"):
        process = part.name.split(".")[-2]
        if process.isdecimal() and not Path(f"/proc/{process}").exists() and Path("/proc").exists():
            shutil.rmtree(part, ignore_errors=True)
