"""A task and who gave it out: how far it is, whether it shall stop, and what became of it.

``tfnewton.cluster`` gives out tasks; this is what a task itself uses, in whichever process it runs.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Failure", "UnfitError", "carry_out", "dask_setup", "listening", "note", "stop", "stopping"]

_OFTEN = 0.5  # seconds between two notes of one task that are passed on

Tell: TypeAlias = Callable[[str, float | None], None]


class Failure(NamedTuple):
    """What a task raised, as text: the exception need not exist where the text is read."""

    kind: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class UnfitError(RuntimeError):
    """Raised by a task: this worker can carry out none of its kind, so that all the work ends with this message."""


class Stopped(NamedTuple):
    """The outcome of a task that was asked to stop, and did."""


class _Task:
    """A task under way."""

    def __init__(self, batch: str, tell: Tell) -> None:
        self.batch, self.tell = batch, tell
        self.told, self.listens = -_OFTEN, False


_here: dict[int, _Task] = {}  # by thread
_stopped: set[str] = set()  # batches


def note(text: str, fraction: float | None = None) -> None:
    """Tell who waits for the current task what it does, and which fraction (0 to 1) is done; outside a task, nothing.

    Cheap: what comes within half a second of another note is dropped.
    """
    task = _here.get(threading.get_ident())
    if task is not None and time.monotonic() - task.told >= _OFTEN:
        task.told = time.monotonic()
        task.tell(text, fraction)


def stopping() -> bool:
    """Whether the current task shall come to an end; False outside a task.

    A task that asks again and again, and raises KeyboardInterrupt after saving its work, is waited for.
    """
    task = _here.get(threading.get_ident())
    if task is None:
        return False
    task.listens = True
    return task.batch in _stopped


def carry_out(function: Callable[..., Any], arguments: tuple[Any, ...], batch: str, tell: Tell) -> Any:
    """Return what ``function`` returns, or as a ``Failure`` what it raises; ``UnfitError`` passes."""
    if batch in _stopped:
        return Stopped()
    task = _here[threading.get_ident()] = _Task(batch, tell)
    try:
        return function(*arguments)
    except UnfitError:
        raise
    except Exception as error:
        return Failure(type(error).__name__, str(error), traceback.format_exc())
    except KeyboardInterrupt:
        if not stopping():
            raise
        return Stopped()
    finally:
        if _here.get(threading.get_ident()) is task:
            del _here[threading.get_ident()]


def stop(batch: str) -> None:
    """Ask the tasks of ``batch`` in this process to stop, also those that will begin."""
    _stopped.add(batch)


def listening(batch: str) -> int:
    """How many tasks of ``batch`` are under way in this process that ask whether they shall stop."""
    return sum(task.batch == batch and task.listens for task in list(_here.values()))


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C to who gave out the tasks: a terminal sends it to the workers of this machine too."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
