"""Run folders: damage is named, one process at a time, and a full disk loses nothing."""

from __future__ import annotations

import importlib.metadata
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.tiny_run import StopError, config, stop_at, weights
from tests.helpers.tries import later, tries
from tfnewton.files import sealed, tensors_to_bytes
from tfnewton.learning.runs import Checkpoint, RunFolder, read_checkpoint
from tfnewton.learning.training import train


@pytest.mark.parametrize("damage", ["truncated", "edited", *later("empty", "foreign")])
def test_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path, whole: Path, damage: str) -> None:
    """Twice: the damaged file must not become the previous one of what is saved next."""
    with pytest.raises(StopError):
        train(config(), tmp_path, stop_at(35))
    last, before = tmp_path / "last.safetensors", (tmp_path / "last.previous.safetensors").read_bytes()
    data = bytearray(last.read_bytes())
    data[-3] ^= 1
    damaged = {"truncated": data[:-100], "edited": data, "empty": bytearray(), "foreign": bytearray(b"{}" * 50)}
    last.write_bytes(damaged[damage])
    with (
        pytest.warns(UserWarning, match=r"last\.safetensors: .* using .*last\.previous\.safetensors"),
        pytest.raises(StopError),
    ):
        train(config(), tmp_path, stop_at(30))  # the first that is saved from here
    assert (tmp_path / "last.previous.safetensors").read_bytes() == before
    assert read_checkpoint(last).state["step"] == 30
    train(config(), tmp_path)
    assert weights(tmp_path) == weights(whole)
    assert read_checkpoint(tmp_path / "last.previous.safetensors").state["step"] == 50


@given(data=st.data())
@settings(deadline=None, max_examples=tries(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_damaged_a_whole_checkpoint_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    """Saves, damage to the newest, new sessions and loads in any order: against the numbers of what is whole."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nothing here is about a power cut
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    run, newest, previous = RunFolder(folder), None, None
    for number in range(data.draw(st.integers(3, 7))):
        run.save("last", Checkpoint({"weight": torch.full((2,), float(number))}, {"number": number}))
        newest, previous = number, previous if newest is None else newest
        damaged, again, loaded = (data.draw(st.booleans()) for _ in range(3))
        if damaged:
            (folder / "last.safetensors").write_bytes(data.draw(st.sampled_from([b"", b"{}", b"\0" * 100])))
            newest = None
        if again:
            run = RunFolder(folder)
        if not loaded and (again or not damaged):  # who wrote a file takes it for whole until reading it
            continue
        if newest is None and previous is None:
            with pytest.raises(ValueError, match="no whole checkpoint 'last' is left"):
                run.load("last")
            continue
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = run.load("last")
        assert [str(w.message).rpartition("using ")[2] for w in told] == damaged * [
            str(folder / "last.previous.safetensors")
        ]
        assert found is not None
        assert found.state["number"] == found.tensors["weight"][1] == (previous if newest is None else newest)


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


def test_full_disk_loses_nothing(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert weights(run) == weights(whole)


def test_a_damaged_best_checkpoint_is_not_replaced_by_an_older_one(tmp_path: Path, whole: Path) -> None:
    """What would be published are the weights of an earlier step under the loss of a later one."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
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
def test_a_damaged_record_of_the_environment_is_named(tmp_path: Path, whole: Path, content: str) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    (tmp_path / "environment.json").write_text(content)
    with pytest.raises(ValueError, match=r"environment\.json: damaged"):
        train(config(), tmp_path)
    (tmp_path / "environment.json").unlink()
    train(config(), tmp_path)
    assert [session["from_step"] for session in RunFolder(tmp_path).sessions()] == [60]


def test_every_session_is_recorded(tmp_path: Path) -> None:
    for stop in (13, 17):
        with pytest.raises(StopError):
            train(config(20), tmp_path, stop_at(stop))
    train(config(20), tmp_path)
    train(config(20), tmp_path)
    sessions = json.loads((tmp_path / "environment.json").read_text())
    assert [session["from_step"] for session in sessions] == [0, 10, 10, 20]
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "tfnewton")}
    for session in sessions:
        assert session["threads"] == 1
        assert session["bf16"] is False
        assert session["machine"] == os.uname().machine
        assert session["versions"] == versions | {"python": sys.version.split()[0]}


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "nowhere", "meta"])
def test_a_missing_device_is_refused_and_leaves_nothing(tmp_path: Path, device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(ValueError, match=rf"^device = '{device}': must be one that torch can use here"):
        train(config(), tmp_path / "run", device=device)
    assert not list(tmp_path.iterdir())


def test_checkpoints_hold_every_bit_of_what_they_store(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "last.safetensors"
    data, chance = (whole / "last.safetensors").read_bytes(), random.Random(0)
    for _ in range(100):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"last\.safetensors: "):
            read_checkpoint(path)


def test_the_state_is_under_the_checksum_too(tmp_path: Path, whole: Path) -> None:
    """A number of the state that becomes another one, in a file that is sound as safetensors."""
    checkpoint = read_checkpoint(whole / "last.safetensors")
    seal = sealed(checkpoint.tensors, json.dumps(checkpoint.state))
    other = seal.replace('"step": 60', '"step": 61')
    assert other != seal
    path = tmp_path / "last.safetensors"
    path.write_bytes(tensors_to_bytes(checkpoint.tensors, "checkpoint", other))
    with pytest.raises(ValueError, match=r"last\.safetensors: edited or damaged, its checksum does not fit"):
        read_checkpoint(path)
    path.write_bytes(tensors_to_bytes(checkpoint.tensors, "checkpoint", seal))
    assert read_checkpoint(path).state == checkpoint.state


def test_checkpoints_without_their_config_are_adopted_by_none(tmp_path: Path, whole: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
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
