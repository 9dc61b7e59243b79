"""A real scheduler of dask and real workers, each started by its command, on the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tfnewton.cluster.pool import connect

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def a_scheduler(workers: int, before: Sequence[str] = ()) -> Iterator[str]:
    """Yield the address of a scheduler with so many workers of one thread; ``before`` stands before their command."""
    port = free_port()
    address, local = f"tcp://127.0.0.1:{port}", ["--host", "127.0.0.1", "--no-dashboard"]
    with ExitStack() as stack:
        scheduler = ["scheduler", "--port", str(port), *local, "--dashboard-address", "127.0.0.1:0"]
        stack.enter_context(_running([sys.executable, "-m", "dask", *scheduler]))
        for _ in range(workers):
            worker = ["worker", address, *local, "--nthreads", "1", "--memory-limit", "0"]
            stack.enter_context(_running([*before, sys.executable, "-m", "dask", *worker]))
        _wait_for(address, port, workers)
        yield address


@contextmanager
def _running(command: Sequence[str]) -> Iterator[None]:
    """Run a command, and end it and its children with the test."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield
    finally:
        if process.poll() is None:
            family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
            for member in family:
                member.kill()
        process.wait()


def _wait_for(address: str, port: int, workers: int) -> None:
    end = time.monotonic() + 60
    while True:
        assert time.monotonic() < end, f"no scheduler with {workers} workers at {address}"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    with connect(scheduler=address) as pool:
        while len(pool.everywhere(os.getpid)) < workers:
            assert time.monotonic() < end, f"fewer than {workers} workers at {address}"
            time.sleep(0.05)
