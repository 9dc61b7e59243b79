"""A run tells what it ran on: any change of chapter or package is another code, and nothing else is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tfnewton
from tests.helpers.small_chapter import small_chapter
from tfnewton.rerun import provenance


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tfnewton"
    shutil.copytree(provenance.PACKAGE / "theory", folder / "theory")
    monkeypatch.setattr(provenance, "PACKAGE", folder)
    return folder


def changed(**of_cell: Any) -> Any:
    chapter = small_chapter("1 + 1", "2")
    chapter.notebook["cells"][4] |= of_cell
    return chapter


def test_the_same_code_has_the_same_hash(package: Path) -> None:
    first = provenance.fingerprint(small_chapter("1 + 1", "2"))
    assert re.fullmatch(r"[0-9a-f]{64}", first)
    assert provenance.fingerprint(changed(outputs=["seen"], execution_count=3, id="other")) == first
    assert provenance.fingerprint(changed(source=["1 +", " 1"])) == first
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "x.pyc").write_bytes(b"compiled")
    assert provenance.fingerprint(small_chapter("1 + 1", "2")) == first


def test_every_change_is_another_hash(package: Path) -> None:
    seen = {provenance.fingerprint(small_chapter("1 + 1", "2"))}
    for chapter in (
        changed(source="1 + 2"),
        changed(metadata={"tags": ["x"]}),
        small_chapter("1 + 1"),
        small_chapter("2"),
    ):
        seen.add(provenance.fingerprint(chapter))
    file = package / "theory" / "inversion.py"
    file.write_bytes(file.read_bytes() + b"\n")
    seen.add(provenance.fingerprint(small_chapter("1 + 1", "2")))
    file.rename(file.with_name("inverse.py"))
    seen.add(provenance.fingerprint(small_chapter("1 + 1", "2")))
    (package / "data.bin").write_bytes(b"")
    seen.add(provenance.fingerprint(small_chapter("1 + 1", "2")))
    assert len(seen) == 8


def test_versions_are_those_that_are_loaded() -> None:
    assert provenance.versions() == {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "torch": torch.__version__,
        "tfnewton": tfnewton.__version__,
    }
    json.dumps(provenance.versions())


@pytest.mark.parametrize(("given", "threads"), [("1", 1), ("3", 3), ("0", None), ("", None), ("many", None)])
def test_threads_are_those_of_the_environment(given: str, threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert provenance.threads() == threads or (threads is None and provenance.threads() >= 1)


def test_a_commit_is_told_and_whether_files_have_changed(package: Path) -> None:
    assert provenance.commit() is None
    root = package.parent
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert provenance.commit() is None, "nothing is committed"
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    assert re.fullmatch(r"[0-9a-f]{40}", provenance.commit() or "")
    (package / "theory" / "inversion.py").write_text("changed")
    assert re.fullmatch(r"[0-9a-f]{40}\+", provenance.commit() or "")
