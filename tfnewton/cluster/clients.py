"""Clients of dask: of a scheduler that is started here with its workers, or of one that exists."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import dask.config
from distributed import Client, LocalCluster, Security, rpc
from distributed.core import Status

from tfnewton.cluster import task

__all__ = ["local_client", "quiet", "remote_client"]

_ANSWER = 5  # seconds in which a scheduler must answer
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_SETTINGS = {
    # Without dask's MALLOC_TRIM_THRESHOLD_, with which every array above 128 KB is a new mapping of pages.
    "distributed.nanny.pre-spawn-environ": _ONE_THREAD,
    "distributed.deploy.lost-worker-timeout": "1 hour",  # else a worker that starts anew slowly is given up
    "distributed.scheduler.worker-saturation": 1.0,  # a worker that is killed holds one task, which is to blame
}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep dask from writing its log to the terminal."""
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def local_client(workers: int) -> Iterator[tuple[Client, Callable[[], None]]]:
    """Yield a client of so many processes of one thread on this machine, which end with it, and what tends them.

    A process that ends is started anew by its nanny, unless it ended while starting: this is left to ``tend``.
    """
    with dask.config.set(_SETTINGS):
        yield from _tended(workers)


def _tended(workers: int) -> Iterator[tuple[Client, Callable[[], None]]]:
    with _environment(_ONE_THREAD):  # read at once, also for workers that start later
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
    replaced: set[object] = set()

    def tend() -> None:
        ended = (Status.closed, Status.failed)
        gone = {name for name, nanny in cluster.workers.items() if nanny.status in ended} - replaced
        if gone:
            replaced.update(gone)
            cluster.scale(len(cluster.worker_spec) + len(gone))

    try:
        with Client(cluster, set_as_default=False, name="tfnewton") as client:
            yield client, tend
    finally:
        cluster.close(timeout=10)


@contextmanager
def remote_client(address: str) -> Iterator[tuple[Client, Callable[[], None]]]:
    """Yield a client of the scheduler at an address, whose workers others tend; ConnectionError where none answers."""
    _check_scheduler(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions, which are refused later
        client = Client(address, timeout=_ANSWER, set_as_default=False, name="tfnewton")
    try:
        yield client, lambda: None
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
