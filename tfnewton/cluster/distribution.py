"""Tasks given out through dask.distributed: what stands behind ``tfnewton.cluster.pool.connect``.

A batch is one call of ``map``. Workers tell of its tasks through an event topic of the batch's name; the outcome of a
task is the result of its future, of which there is one, however many workers began the task and were killed.
"""

from __future__ import annotations

import pickle
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import cloudpickle
from distributed import Client, KilledWorker, as_completed, get_worker

from tfnewton.cluster import task
from tfnewton.cluster.clients import local_client, quiet, remote_client
from tfnewton.cluster.interrupts import Interrupts
from tfnewton.cluster.progress import Key, Ledger, Watch
from tfnewton.cluster.versions import differences, versions

__all__ = ["DistributedPool", "distributed_pool"]

_SAVE = 20.0  # seconds for coming to an end, of tasks that are asked to
_TICK = 0.05


@contextmanager
def distributed_pool(where: int | str, signals: Interrupts) -> Iterator[DistributedPool]:
    """Yield a pool of so many processes of this machine, or of the workers of the scheduler at an address."""
    with quiet(), local_client(where) if isinstance(where, int) else remote_client(where) as (client, tend):
        pool = DistributedPool(client, signals, tend)
        if isinstance(where, str):
            _check_versions(pool, where)
        try:
            yield pool
        finally:
            pool.close()


def _check_versions(pool: DistributedPool, address: str) -> None:
    faults = []
    for worker, there in pool.everywhere(versions).items():
        if isinstance(there, task.Failure):
            faults.append(f"{worker} cannot run this tfnewton ({there})")
        else:
            faults += [f"{worker}: {words}" for words in differences(there, versions())]
    if faults:
        raise ValueError("\n".join([f"scheduler = {address!r}: its workers are not as this process is", *faults]))


class DistributedPool:
    """The workers that a client's scheduler has."""

    def __init__(self, client: Client, signals: Interrupts, tend: Callable[[], None] = lambda: None) -> None:
        self.client, self.signals, self.tend = client, signals, tend
        self.batches: dict[str, list[Any]] = {}  # those that have not ended, with their futures

    def map(
        self,
        function: Callable[..., Any],
        tasks: Mapping[Key, tuple[Any, ...]],
        watch: Watch | None = None,
        costs: Mapping[Key, float] | None = None,
    ) -> Generator[tuple[Key, Any], None, None]:
        """Yield each key with its outcome; see ``tfnewton.cluster.pool.Pool``."""
        batch = f"tfnewton-{secrets.token_hex(6)}"
        keys, ledger, notes = list(tasks), Ledger(tasks, watch, costs), _Notes()
        payloads = [cloudpickle.dumps((function, tasks[key])) for key in keys]
        self.client.subscribe_topic(batch, notes)
        futures = self.client.map(
            _carry_out,
            payloads,
            key=[(batch, number) for number in range(len(keys))],
            pure=False,
            batch=batch,
            expected=versions(),
        )
        self.batches[batch] = futures
        try:
            ended = as_completed(futures, self.client.loop, with_results=True, raise_errors=False)
            while not ledger.complete:
                with self.signals.held():
                    notes.enter(ledger, keys)
                    outcomes = [self._outcome(*pair) for pair in ended.next_batch(block=False)]
                    ledger.tick()
                    self.tend()
                    time.sleep(0.0 if outcomes else _TICK)
                self.signals.check()
                for number, outcome in outcomes:
                    ledger.end(keys[number], outcome)
                    yield keys[number], outcome
        finally:
            self._end(batch)

    def _outcome(self, future: Any, result: Any) -> tuple[int, Any]:
        """Return the number of a task in its batch, and its outcome.

        What has come is what counts: the future may have changed since, where its worker was killed.
        """
        number = future.key[1]
        future.release()
        if isinstance(result, BaseException):  # that it was cancelled
            raise RuntimeError("the scheduler is gone, and with it what had not ended")
        if not _is_raised(result):
            return number, result
        error = result[1]
        if isinstance(error, task.UnfitError):
            raise error
        if isinstance(error, KilledWorker):
            what = "every worker that tried it was killed, perhaps for want of memory"
            return number, task.Failure("KilledWorker", what)
        return number, task.Failure(type(error).__name__, str(error))

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return what the function returned, or its ``Failure``, on each worker, by its address."""
        answers = self.client.run(function, *arguments, on_error="return")
        return {
            f"worker {worker}": task.Failure(type(answer).__name__, str(answer))
            if isinstance(answer, Exception)
            else answer
            for worker, answer in answers.items()
        }

    def _end(self, batch: str) -> None:
        """Stop what is under way of a batch, giving those that listen time to save, and drop the rest."""
        futures = self.batches.pop(batch, [])
        with suppress(Exception):  # the scheduler may be gone
            if self.client.status == "running":
                self.client.unsubscribe_topic(batch)
            if any(future.status == "pending" for future in futures):
                self.client.run(task.stop, batch, on_error="ignore")
                end = time.monotonic() + _SAVE
                while time.monotonic() < end and any(
                    self.client.run(task.listening, batch, on_error="ignore").values()
                ):
                    time.sleep(_TICK)
                self.client.cancel(futures)

    def close(self) -> None:
        """End all batches that were left."""
        for batch in list(self.batches):
            self._end(batch)


def _is_raised(result: Any) -> bool:
    """Whether dask tells by ``result`` that the task, or its worker, raised: type, exception, traceback."""
    return type(result) is tuple and len(result) == 3 and isinstance(result[1], BaseException)


class _Notes:
    """What workers tell, from the client's thread to that of ``map``."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, str, str, float | None]] = deque()
        self.places: dict[str, int] = {}  # the last task of each thread of a worker

    def __call__(self, event: tuple[float, Any]) -> None:
        number, place, text, fraction = event[1]
        self.waiting.append((number, place, text, fraction))

    def enter(self, ledger: Ledger, keys: Sequence[Any]) -> None:
        """Take down what has come."""
        while self.waiting:
            number, place, text, fraction = self.waiting.popleft()
            before, self.places[place] = self.places.get(place, number), number
            if before != number:  # it has ended there, though its outcome is not here yet
                ledger.leave(keys[before])
            ledger.note(keys[number], text, fraction)


def _carry_out(payload: bytes, batch: str, expected: dict[str, str]) -> Any:
    """On a worker: carry out one task, whose number in its batch is the second part of its key."""
    worker = get_worker()
    faults = differences(versions(), expected)
    if faults:
        raise task.UnfitError(f"worker {worker.address}: {'; '.join(faults)}")
    _, number = cast("tuple[str, int]", worker.get_current_task())

    place = f"{worker.address} {threading.get_ident()}"

    def tell(text: str, fraction: float | None) -> None:
        worker.log_event(batch, (number, place, text, fraction))

    tell("", None)
    function, arguments = pickle.loads(payload)
    return task.carry_out(function, arguments, batch, tell)
