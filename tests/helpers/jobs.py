"""Functions that tests give to workers, which find them here by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tfnewton.cluster.task import UnfitError, note, stopping


def double(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    if number % 2:
        raise ValueError(f"number = {number}: must be even")
    return number


def megabyte(number: int) -> dict[str, bytes]:
    return {"page.html": bytes([number]) * 1_000_000, "run.json": b"{}"}


def slow(number: int, seconds: float, folder: Path) -> tuple[int, int]:
    """Leave a file with the worker's process as name, then return number and process after some time."""
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(seconds)
    return number, os.getpid()


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def until_stopped(folder: Path) -> None:
    """Work until asked to stop, and then save."""
    (folder / f"begun-{os.getpid()}").touch()
    for step in range(10_000):
        note(f"step {step}", step / 10_000)
        if stopping():
            time.sleep(0.3)
            (folder / f"saved-{os.getpid()}").touch()
            raise KeyboardInterrupt
        time.sleep(0.02)


def unfit(number: int) -> int:
    if number == 3:
        raise UnfitError("no such folder here")
    return number


def talk(number: int) -> int:
    for part in range(4):
        note(f"part {part}", part / 4)
        time.sleep(0.6)
    return number


def process_and_threads() -> tuple[int, str | None]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")
