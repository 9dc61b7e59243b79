"""Tasks given out through dask.distributed: what stands behind ``tfnewton.cluster.pool.connect``.

A batch is one call of ``map``. Workers tell of its tasks through an event topic of the batch's name; the outcome of a
task is the result of its future, of which there is one, however many workers began the task and were killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import secrets
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, cast

import cloudpickle
from distributed import Client, KilledWorker, LocalCluster, Security, as_completed, get_worker, rpc

from tfnewton.cluster import task
from tfnewton.cluster.progress import Key, Ledger, Watch
from tfnewton.cluster.versions import differences, versions

__all__ = ["DistributedPool", "distributed_pool"]

_ANSWER = 5  # seconds in which a scheduler must answer
_SAVE = 20.0  # seconds for coming to an end, of tasks that are asked to
_TICK = 0.05
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def distributed_pool(where: int | str) -> Iterator[DistributedPool]:
    """Yield a pool of so many processes of this machine, or of the workers of the scheduler at an address."""
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with _local(where) if isinstance(where, int) else _remote(where) as client:
            pool = DistributedPool(client)
            if isinstance(where, str):
                _check_versions(pool, where)
            try:
                yield pool
            finally:
                pool.close()
    finally:
        log.setLevel(level)


@contextmanager
def _local(workers: int) -> Iterator[Client]:
    with _environment(dict.fromkeys(_ONE_THREAD, "1")):  # read at once, also for workers that start later
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # a worker that is paused for its memory would not go on
            preload=[task.__name__],
        )
    try:
        with Client(cluster, set_as_default=False, name="tfnewton") as client:
            yield client
    finally:
        cluster.close(timeout=10)


@contextmanager
def _remote(address: str) -> Iterator[Client]:
    _check_scheduler(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions, which are refused later
        client = Client(address, timeout=_ANSWER, set_as_default=False, name="tfnewton")
    try:
        yield client
    finally:
        client.close(timeout=5)


def _check_scheduler(address: str) -> None:
    """Raise ConnectionError unless a scheduler answers in time; a client would wait for one that says nothing."""

    async def kind() -> str:
        keys = Security().get_connection_args("client")  # of dask's configuration, for tls
        async with rpc(address, timeout=_ANSWER, connection_args=keys) as there:
            return str((await there.identity())["type"])

    with ThreadPoolExecutor(1) as thread:  # this one may have an event loop, in a notebook
        try:
            found = thread.submit(lambda: asyncio.run(asyncio.wait_for(kind(), _ANSWER))).result()
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(
                f"scheduler = {address!r}: no dask scheduler answers there within {_ANSWER} s; "
                "`dask scheduler` starts one"
            ) from error
        except TypeError as error:
            raise ConnectionError(f"scheduler = {address!r}: dask is not configured for tls ({error})") from error
    if found != "Scheduler":
        raise ConnectionError(f"scheduler = {address!r}: a {found} of dask answers there, not a scheduler")


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


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

    def __init__(self, client: Client) -> None:
        self.client = client
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
        places: dict[str, int] = {}  # the last task of each thread of a worker
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
                for number, place, text, fraction in notes.take():
                    before, places[place] = places.get(place, number), number
                    if before != number:  # it has ended there, though its outcome is not here yet
                        ledger.leave(keys[before])
                    ledger.note(keys[number], text, fraction)
                for future, result in ended.next_batch(block=False):
                    key, outcome = keys[future.key[1]], self._outcome(future, result)
                    future.release()
                    ledger.end(key, outcome)
                    yield key, outcome
                ledger.tick()
                time.sleep(_TICK)
        finally:
            self._end(batch)

    def _outcome(self, future: Any, result: Any) -> Any:
        if future.status == "finished":
            return result
        if future.status != "error":
            raise RuntimeError("the scheduler is gone, and with it what had not ended")
        error = result[1]
        if isinstance(error, task.UnfitError):
            raise error
        if isinstance(error, KilledWorker):
            return task.Failure("KilledWorker", "every worker that tried it was killed, perhaps for want of memory")
        return task.Failure(type(error).__name__, str(error))

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


class _Notes:
    """What workers tell, from the client's thread to that of ``map``."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, str, str, float | None]] = deque()

    def __call__(self, event: tuple[float, Any]) -> None:
        number, place, text, fraction = event[1]
        self.waiting.append((number, place, text, fraction))

    def take(self) -> Iterator[tuple[int, str, str, float | None]]:
        while self.waiting:
            yield self.waiting.popleft()


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
