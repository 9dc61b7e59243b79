"""Run folders: one process at a time, checkpoints that are whole or refused, and the one before the last kept.

A checkpoint is a safetensors file whose metadata holds a JSON state after a SHA-256 of state and tensors. It is written
beside its place and renamed, so a crash at any moment leaves a whole file; the file that it replaces becomes the
``previous`` one.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import tfnewton
from tfnewton.files import checked_text, read_tensors, sealed, tensors_to_bytes, write_atomically

__all__ = ["Checkpoint", "RunFolder", "read_checkpoint", "stop_signals"]

_KEY = "checkpoint"  # the one entry of the metadata: safetensors writes several in random order


class Checkpoint(NamedTuple):
    """Tensors by name and whatever else JSON can hold."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def to_bytes(self) -> bytes:
        return tensors_to_bytes(self.tensors, _KEY, sealed(self.tensors, json.dumps(self.state)))


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path``; ValueError names the file if it is truncated, edited or of another kind."""
    tensors, seal = read_tensors(path, _KEY)
    try:
        state = json.loads(checked_text(path, tensors, seal))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: the state of the run is no JSON ({error})") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path}: the state of the run is no record")
    return Checkpoint(tensors, state)


class RunFolder:
    """The folder of one run: config.json, history.csv, environment.json and checkpoints in two generations each."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._whole: set[Path] = set()  # files that were written or read here

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against other processes; the lock dies with the process.

        Raises RuntimeError when another process holds it, PermissionError when the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise PermissionError(f"{self.path}: the run folder cannot be written ({error.strerror})") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(f"{self.path}: another process is training in this run folder") from None
            yield
        finally:
            os.close(descriptor)

    def write(self, name: str, data: str | bytes) -> None:
        """Write the file ``name`` atomically; OSError says what could not be written, and the old file stays."""
        target = self.path / name
        try:
            write_atomically(target, data.encode() if isinstance(data, str) else data)
        except OSError as error:
            raise OSError(
                error.errno, f"{target}: cannot be written ({error.strerror}); what was there before is unharmed"
            ) from error

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Write the checkpoint ``name``, such as "last"; the file that was there becomes its previous generation."""
        current, previous = self._generations(name)
        fresh = f"{name}.new.safetensors"
        self.write(fresh, checkpoint.to_bytes())
        if current.exists() and self._is_whole(current):  # a damaged file must not replace a whole one
            current.replace(previous)
        (self.path / fresh).replace(current)
        self._whole.add(current)

    def load(self, name: str) -> Checkpoint | None:
        """Return the newest whole checkpoint ``name``, None if there never was one.

        Warns of each damaged file by name; ValueError if there are files and none is whole.
        """
        faults = []
        for path in (p for p in self._generations(name) if p.exists()):
            try:
                checkpoint = read_checkpoint(path)
            except ValueError as error:
                faults.append(str(error))
                self._whole.discard(path)
                continue
            self._whole.add(path)
            for fault in faults:
                warnings.warn(f"{fault}; using {path}", stacklevel=2)
            return checkpoint
        if faults:
            raise ValueError(f"no whole checkpoint {name!r} is left: {'; '.join(faults)}")
        return None

    def record_session(self, step: int, bf16: bool) -> None:
        """Add to environment.json with which versions, from which step, and whether in bfloat16, the run goes on."""
        versions = {
            "tfnewton": tfnewton.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        session = {"from_step": step, "threads": torch.get_num_threads(), "machine": platform.machine(), "bf16": bf16}
        self.write("environment.json", json.dumps([*self.sessions(), session | {"versions": versions}], indent=2))

    def sessions(self) -> list[dict[str, Any]]:
        """Return what each session that worked on the run recorded; ValueError names the file where it is damaged."""
        path = self.path / "environment.json"
        try:
            sessions = json.loads(path.read_text()) if path.exists() else []
        except ValueError as error:
            raise ValueError(f"{path}: damaged ({error}); it says only which versions the run had") from error
        if not isinstance(sessions, list) or not all(isinstance(session, dict) for session in sessions):
            raise ValueError(f"{path}: damaged, not a list of sessions; it says only which versions the run had")
        return sessions

    def check_empty(self) -> None:
        """Refuse, by ValueError, a folder with checkpoints: without a config nobody knows of which run they are."""
        if any(self.path.glob("*.safetensors")):
            raise ValueError(f"{self.path}: holds checkpoints, but no config.json to say of which run")

    def _is_whole(self, path: Path) -> bool:
        if path not in self._whole:
            try:
                read_checkpoint(path)
            except ValueError:
                return False
        return True

    def _generations(self, name: str) -> tuple[Path, Path]:
        return self.path / f"{name}.safetensors", self.path / f"{name}.previous.safetensors"


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yield a list that SIGINT and SIGTERM append to, so that a step is never cut in two."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield received
        return
    old = {number: signal.signal(number, lambda s, _: received.append(s)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
