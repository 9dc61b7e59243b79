"""Run folders: damage is named, one process at a time, and a full disk loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
from pathlib import Path

import pytest
import torch

from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tests.helpers.tries import later
from tfnewton.files import sealed, tensors_to_bytes
from tfnewton.learning.runs import RunFolder, read_checkpoint
from tfnewton.learning.training import train


@pytest.mark.parametrize("damage", ["truncated", "edited", *later("empty", "foreign")])
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


@pytest.mark.slow
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


def test_a_damaged_best_checkpoint_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    """What would be published are the weights of an earlier step under the loss of a later one."""
    train(config(), tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    best = tmp_path / "best.safetensors"
    assert (tmp_path / "best.previous.safetensors").exists()
    best.write_bytes(best.read_bytes()[:-8])
    with (
        pytest.warns(UserWarning, match=r"best\.safetensors: "),
        pytest.raises(ValueError, match="the best checkpoint is damaged; remove the folder to begin anew"),
    ):
        train(config(), tmp_path)
    assert not (tmp_path / "weights.safetensors").exists()


@pytest.mark.parametrize("content", ["{", "3", '["a"]', ""])
def test_a_damaged_record_of_the_environment_is_named(tmp_path: Path, content: str) -> None:
    with pytest.raises(StopError):
        train(config(), tmp_path, stop_at(35))
    (tmp_path / "environment.json").write_text(content)
    with pytest.raises(ValueError, match=r"environment\.json: damaged"):
        train(config(), tmp_path)
    (tmp_path / "environment.json").unlink()
    train(config(), tmp_path)


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "nowhere", "meta"])
def test_a_missing_device_is_refused_and_leaves_nothing(tmp_path: Path, device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(ValueError, match=rf"^device = '{device}': must be one that torch can use here"):
        train(config(), tmp_path / "run", device=device)
    assert not list(tmp_path.iterdir())


def test_checkpoints_hold_every_bit_of_what_they_store(tmp_path: Path) -> None:
    train(config(10), tmp_path)
    path = tmp_path / "last.safetensors"
    data, chance = path.read_bytes(), random.Random(0)
    for _ in range(100):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"last\.safetensors: "):
            read_checkpoint(path)


def test_checkpoints_without_their_config_are_adopted_by_none(tmp_path: Path) -> None:
    train(config(), tmp_path)
    (tmp_path / "config.json").unlink()
    before = weights(tmp_path)
    with pytest.raises(ValueError, match=r"holds checkpoints, but no config\.json to say of which run"):
        train(config(seed=1), tmp_path)
    assert weights(tmp_path) == before


def test_a_device_is_given_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="device = None: must be a name"):
        train(config(), tmp_path / "run", device=None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["no JSON", "[1]", "3"])
def test_a_sealed_file_that_is_no_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "last.safetensors"
    path.write_bytes(tensors_to_bytes({}, "checkpoint", sealed({}, text)))
    with pytest.raises(ValueError, match=r"last\.safetensors: the state of the run is no"):
        read_checkpoint(path)
