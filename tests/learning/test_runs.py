"""Run folders: damage is named, one process at a time, and a full disk loses nothing."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tfnewton.learning.runs import RunFolder, read_checkpoint
from tfnewton.learning.training import train


@pytest.mark.parametrize("damage", ["truncated", "edited", "empty", "foreign"])
def test_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path, damage: str) -> None:
    train(config(), tmp_path / "whole")
    with pytest.raises(StopError):
        train(config(), tmp_path / "cut", stop_at(35))
    last = tmp_path / "cut" / "last.safetensors"
    data = bytearray(last.read_bytes())
    data[-3] ^= 1
    damaged = {"truncated": data[:-100], "edited": data, "empty": bytearray(), "foreign": bytearray(b"{}" * 50)}
    last.write_bytes(damaged[damage])
    with pytest.warns(UserWarning, match=r"last\.safetensors: .* using .*last\.previous\.safetensors"):
        train(config(), tmp_path / "cut")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_no_whole_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        train(config(), tmp_path, stop_at(35))
    for name in ("last", "last.previous"):
        (tmp_path / f"{name}.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"no whole checkpoint 'last' is left: .*last\.safetensors.*last\.previous"):
        train(config(), tmp_path)


def _hold(folder: Path, ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    with RunFolder(folder).locked():
        ready.set()
        done.wait(60)


def test_second_process_is_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready, done))
    process.start()
    assert ready.wait(60)
    with pytest.raises(RuntimeError, match="another process is training in this run folder"):
        train(config(), tmp_path)
    done.set()
    process.join()
    train(config(10), tmp_path)


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match="the run folder cannot be written"):
        train(config(), tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="the run folder cannot be written"):
        train(config(), tmp_path / "run")


def test_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(config(), tmp_path / "whole")
    run = tmp_path / "cut"

    def fill(step: int, loss: float, rate: float) -> None:
        if step == 34:
            monkeypatch.setattr(os, "fsync", full)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"new\.safetensors: cannot be written \(No space left on device\)"):
        train(config(), run, fill)
    monkeypatch.undo()
    assert read_checkpoint(run / "last.safetensors").state["step"] == 30
    assert not list(run.glob(".*"))
    train(config(), run)
    assert weights(run) == weights(tmp_path / "whole")
