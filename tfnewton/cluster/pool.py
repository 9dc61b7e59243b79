"""Give out tasks that do not depend on each other, to this process, to others of this machine, or to a cluster::

    with connect(workers=2) as pool:
        for key, outcome in pool.map(function, {key: arguments, ...}):
            ...

yields what ``function(*arguments)`` returned for every key, or a ``Failure``, in the order in which they end. A worker
that is killed costs no task and doubles no outcome. ``function`` is found by its name where it runs, so it stands in a
module; there it may use ``note`` and ``stopping`` of ``tfnewton.cluster.task``. Arguments and outcomes travel as
pickles, of some megabytes at most; workers need no disk in common with this process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from tfnewton.cluster.interrupts import interrupts
from tfnewton.cluster.progress import Key, Ledger, Watch
from tfnewton.cluster.task import carry_out

__all__ = ["Pool", "check_workers", "connect", "scheduler_address"]

_ADDRESS = re.compile(r"(?:tcp|tls)://(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


class Pool(Protocol):
    """A place that carries out tasks."""

    def map(
        self,
        function: Callable[..., Any],
        tasks: Mapping[Key, tuple[Any, ...]],
        watch: Watch | None = None,
        costs: Mapping[Key, float] | None = None,
    ) -> Generator[tuple[Key, Any], None, None]:
        """Yield each key with what ``function(*tasks[key])`` returned, or a ``Failure``, as they end.

        Tasks begin in the order given. ``watch`` is called with a ``Progress``, in this thread, when something has
        changed; ``costs``, in any unit, make the time left right where tasks differ in length. Leaving the loop early
        stops what is under way and drops the rest.

        Raises RuntimeError where a worker is unfit for the tasks, or the scheduler is lost.
        """

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return what ``function(*arguments)`` returned, or a ``Failure``, on each worker there is, by its name."""


class _Here:
    """This process, one task after the other."""

    def map(
        self,
        function: Callable[..., Any],
        tasks: Mapping[Key, tuple[Any, ...]],
        watch: Watch | None = None,
        costs: Mapping[Key, float] | None = None,
    ) -> Generator[tuple[Key, Any], None, None]:
        ledger = Ledger(tasks, watch, costs)
        for key, arguments in tasks.items():
            ledger.note(key, "", None)

            def tell(text: str, fraction: float | None, key: Key = key) -> None:
                ledger.note(key, text, fraction)

            outcome = carry_out(function, arguments, "", tell)
            ledger.end(key, outcome)
            yield key, outcome

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        return {"this process": carry_out(function, arguments, "", lambda *_: None)}


def scheduler_address(text: str) -> str:
    """Return ``text`` where it is the address of a scheduler, such as ``tcp://127.0.0.1:8786``; else ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= 65535:
        raise ValueError(f"scheduler = {text!r}: must be an address such as 'tcp://127.0.0.1:8786'")
    return text


def check_workers(workers: int, scheduler: str | None = None) -> None:
    """Raise ValueError unless ``connect`` takes so many workers, or this address of a scheduler instead."""
    if not isinstance(workers, int) or isinstance(workers, bool):
        raise ValueError(f"workers = {workers!r}: must be an integer, at least 1")
    if workers < 1:
        raise ValueError(f"workers = {workers}: must be at least 1")
    if scheduler is not None:
        scheduler_address(scheduler)
        if workers != 1:
            raise ValueError(f"workers = {workers}: {scheduler} has workers of its own, so one of the two must go")


@contextmanager
def connect(workers: int = 1, scheduler: str | None = None) -> Iterator[Pool]:
    """Yield a pool: this process, ``workers`` processes of one thread each, or the workers of a ``scheduler``.

    Worker processes end with the pool, and with this process, however it ends. SIGTERM is taken as Ctrl-C is.

    Raises:
        ValueError: no such number, no address, or other versions at the scheduler's workers than here.
        ConnectionError: no dask scheduler answers at the address within seconds.
        ModuleNotFoundError: dask.distributed is needed, of the extra ``cluster``.
    """
    check_workers(workers, scheduler)
    with interrupts() as signals:
        if scheduler is None and workers == 1:
            yield _Here()
            return
        from tfnewton.cluster.distribution import distributed_pool

        with distributed_pool(workers if scheduler is None else scheduler, signals) as pool:
            yield pool
