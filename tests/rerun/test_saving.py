"""Run folders are named by what was changed, appear whole or not at all, and are never written over."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.rerun import saving
from tfnewton.rerun.chapters import find
from tfnewton.rerun.saving import earlier, name_of, record, save, writable

FILES = {"run.json": b"{}", "figures/a.png": b"picture", "tables/t.csv": b"a,b\n"}
INVERSION, ITERATION, QUIET = find("3"), find("2"), find("13")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("chapter", "changed", "name"),
    [
        (INVERSION, {}, "defaults"),
        (INVERSION, {"kappa": 1000.0, "d": 12}, "d=12,kappa=1000"),
        (INVERSION, {"kappa": 10.0, "symmetric": True}, "symmetric=True"),
        (ITERATION, {"orders": [2, 5], "tolerance": 1e-13}, "orders=2+5,tolerance=1e-13"),
        (QUIET, {"kappas": [0.5, 2e6]}, "kappas=0.5+2e6"),
    ],
)
def test_a_folder_is_named_by_what_was_changed(chapter: Any, changed: dict[str, Any], name: str) -> None:
    assert name_of(chapter, chapter.defaults() | changed) == name


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6), st.integers(-(10**30), 10**30))
def test_every_file_system_takes_the_name(kappas: list[float], seed: int) -> None:
    name = name_of(QUIET, QUIET.defaults() | {"kappas": kappas, "seed": seed})
    assert re.fullmatch(r"[A-Za-z0-9=,.+_-]{1,100}", name)
    assert not name.startswith((".", "-"))


def test_long_names_of_different_values_differ() -> None:
    values = [[1 / 3, 1 / 7, 1 / 9, 1 / 11, 1 / 13, last] for last in (0.123456789, 0.987654321)]
    one, other = (name_of(QUIET, QUIET.defaults() | {"kappas": of}) for of in values)
    assert one != other


def test_a_folder_holds_what_it_is_given_and_nothing_is_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "run"
    assert save(FILES, place) == place
    assert contents(place) == FILES
    assert [path.name for path in place.parent.iterdir()] == ["run"]
    assert place.stat().st_mode & 0o777 == 0o777 & ~saving._umask()


def test_a_second_one_gets_a_number(tmp_path: Path) -> None:
    folders = [save({"run.json": bytes(str(number), "ascii")}, tmp_path / "run") for number in range(3)]
    assert [of.name for of in folders] == ["run", "run-2", "run-3"]
    assert [(of / "run.json").read_text() for of in folders] == ["0", "1", "2"]


def test_one_that_another_process_makes_meanwhile_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, rename = tmp_path / "run", Path.rename

    def later(part: Path, target: Path) -> Path:
        if target == place and not place.exists():
            place.mkdir()
            (place / "run.json").write_bytes(b"theirs")
        return rename(part, target)

    monkeypatch.setattr(Path, "rename", later)
    assert save(FILES, place) == tmp_path / "run-2"
    assert contents(place) == {"run.json": b"theirs"}
    assert contents(tmp_path / "run-2") == FILES


@pytest.mark.parametrize("at", range(3))
def test_a_disk_that_fills_up_leaves_nothing(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, fsync = [], os.fsync

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) > at:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RuntimeError, match=r"run: could not be written, and nothing is left of it \(No space left"):
        save(FILES, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_limit_of_file_size_leaves_nothing(tmp_path: Path) -> None:
    """The real thing, without root: the kernel refuses to make a file longer."""
    program = """
import resource, sys
from pathlib import Path
from tfnewton.rerun.saving import save
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    save({"run.json": b"short", "figures/a.png": bytes(5000)}, Path(sys.argv[1]) / "run")
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("nothing is left of it (File too large)\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", range(1, 4))
@pytest.mark.parametrize("call", ["mkdir", "fsync", "chmod", "rename"])
def test_an_interrupt_just_after_any_call_leaves_nothing_half_written(
    call: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = getattr(os, call), count(1)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        if next(calls) == at:
            raise KeyboardInterrupt
        return found

    (tmp_path / "sweep").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(os, call, interrupted)
        with suppress(KeyboardInterrupt):
            save(FILES, tmp_path / "sweep" / "run")
    left = list((tmp_path / "sweep").iterdir())
    assert left in ([], [tmp_path / "sweep" / "run"])
    assert all(contents(folder) == FILES for folder in left)


def test_a_place_that_takes_no_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="run: no folder can be made there"):
        writable(tmp_path / "file" / "run")
    with pytest.raises(OSError, match="/proc/nothing/run: no folder can be made there"):
        writable(Path("/proc/nothing/run"))
    writable(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_what_a_dead_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for owner in (process.pid, os.getpid()):
        part = tmp_path / f".x.{socket.gethostname()}.{owner}.part"
        part.mkdir()
        (part / "run.json").write_text("half")
    foreign = tmp_path / f".x.elsewhere.{process.pid}.part"
    foreign.mkdir()
    save(FILES, tmp_path / "run")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"run", f".x.{socket.gethostname()}.{os.getpid()}.part", foreign.name}


def write_record(folder: Path, **changed: Any) -> None:
    folder.mkdir(parents=True)
    found = {"chapter": INVERSION.file, "parameters": INVERSION.defaults(), "code": "abc"} | changed
    (folder / "run.json").write_text(json.dumps(found))


def test_an_earlier_run_is_one_of_the_same_parameters_and_code(tmp_path: Path) -> None:
    place, values = tmp_path / "defaults", INVERSION.defaults()
    assert earlier(place, INVERSION, values, "abc") is None
    write_record(place, code="old")
    assert earlier(place, INVERSION, values, "abc") is None
    (tmp_path / "defaults-2").mkdir()
    write_record(tmp_path / "defaults-3")
    assert earlier(place, INVERSION, values, "abc") == tmp_path / "defaults-3"
    assert earlier(place, INVERSION, values | {"seed": 1}, "abc") is None
    assert earlier(place, ITERATION, values, "abc") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "run: is no folder of a run, it has no run.json"),
        ("{", "run.json: cannot be read"),
        ("[]", "run.json: is no record of a run"),
        ('{"chapter": "x"}', "run.json: is no record of a run"),
        ("\ud800", "run.json: cannot be read"),
    ],
)
def test_a_folder_that_is_no_run_is_told(text: str | None, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if text is not None:
        (folder / "run.json").write_bytes(text.encode("utf-16", "surrogatepass") if text == "\ud800" else text.encode())
    with pytest.raises(ValueError, match=message):
        record(folder)
