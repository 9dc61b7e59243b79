"""Where tasks run: here, in processes of this machine, on a real scheduler; whatever happens, each outcome once."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import tfnewton
from tests.helpers import jobs
from tests.helpers.dask_processes import a_scheduler, free_port
from tfnewton.cluster import versions as version_module
from tfnewton.cluster.interrupts import interrupts
from tfnewton.cluster.pool import Pool, connect, scheduler_address
from tfnewton.cluster.progress import Progress
from tfnewton.cluster.task import Failure
from tfnewton.cluster.versions import differences, versions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with a_scheduler(2) as address:
        yield address


@pytest.fixture(scope="module")
def local() -> Iterator[Pool]:
    with connect(workers=2) as pool:
        yield pool


# here


@pytest.mark.slow
def test_one_worker_is_this_process_and_loads_no_dask() -> None:
    script = (
        "import sys; from tests.helpers import jobs; from tfnewton.cluster.pool import connect\n"
        "with connect() as pool: print(list(pool.map(jobs.double, {'a': (1,), 'b': (2,)})))\n"
        "print({'dask', 'distributed', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[('a', 2), ('b', 4)]\nset()\n"


def test_failures_are_outcomes_and_the_others_go_on() -> None:
    with connect() as pool:
        outcomes = dict(pool.map(jobs.fail, {number: (number,) for number in range(4)}))
    assert (outcomes[0], outcomes[2]) == (0, 2)
    assert isinstance(outcomes[1], Failure)
    assert str(outcomes[3]) == "ValueError: number = 3: must be even"
    assert "jobs.py" in outcomes[3].traceback


def test_progress_is_told_here() -> None:
    seen: list[Progress] = []
    with connect() as pool:
        outcomes = dict(pool.map(jobs.fail, {number: (number,) for number in range(3)}, seen.append))
    assert len(outcomes) == 3
    assert [(p.done, p.failed, list(p.running)) for p in seen] == [
        *((0, 0, [0]), (1, 0, []), (1, 0, [1]), (2, 1, []), (2, 1, [2]), (3, 1, []))
    ]
    assert all(p.total == 3 for p in seen)
    assert seen[-1].left == 0.0


def test_an_unfit_worker_ends_the_work_here() -> None:
    with connect() as pool, pytest.raises(RuntimeError, match="no such folder here"):
        list(pool.map(jobs.unfit, {number: (number,) for number in range(9)}))


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://:8786", "tcp://host:0"),
        *("tcp://host:65536", "tcp://ho st:1", "tcp://host:8786/x", "", "tcp://host:8786\n"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^scheduler = .*: must be an address such as 'tcp://127\.0\.0\.1:8786'$"):
        scheduler_address(text)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:8786", "tls://node-1.cluster:1", "tcp://[::1]:65535"])
def test_addresses_are_taken_as_they_are(text: str) -> None:
    assert scheduler_address(text) == text


def test_workers_and_scheduler_are_checked_first() -> None:
    for workers, scheduler, message in (
        (0, None, "workers = 0: must be at least 1"),
        (2, "tcp://127.0.0.1:1", r"workers = 2: tcp://127\.0\.0\.1:1 has workers of its own"),
        (1, "nowhere", "must be an address"),
    ):
        with pytest.raises(ValueError, match=message), connect(workers, scheduler):
            pass


def test_versions_tell_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    here = versions()
    assert here["torch"] == importlib.metadata.version("torch").partition("+")[0]
    assert differences(here, here) == []
    there = here | {"numpy": "1.0", "sources": "0" * 12}
    assert differences(there, here) == [
        f"numpy 1.0 there, {here['numpy']} here",
        f"tfnewton's sources of hash 000000000000 there, {here['sources']} here",
    ]
    assert len(differences({}, here)) == len(here)


def test_the_hash_is_of_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part").mkdir()
    for name in ("__init__.py", "part/a.py"):
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(tfnewton, "__file__", str(tmp_path / "__init__.py"))
    hashes = set()
    for name, text in (("part/a.py", "x = 1\n"), ("part/a.py", "x = 2\n"), ("part/b.py", ""), ("notes.txt", "no")):
        (tmp_path / name).write_text(text)
        hashes.add(version_module._sources.__wrapped__())
    assert len(hashes) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_termination_is_an_interrupt(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    default = signal.getsignal(number)
    try:
        with pytest.raises(KeyboardInterrupt), connect():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is default
        with interrupts() as signals:
            with signals.held():
                os.kill(os.getpid(), number)
                reached = True
            with pytest.raises(KeyboardInterrupt):
                signals.check()
            signals.check()
            with signals.held():
                os.kill(os.getpid(), number)
                with pytest.raises(KeyboardInterrupt):  # who asks twice does not wait
                    os.kill(os.getpid(), number)
        assert reached
    finally:
        signal.signal(number, before)


def test_a_signal_that_somebody_else_handles_is_theirs() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with connect():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


# processes of this machine


@pytest.mark.slow
def test_local_workers_are_processes_of_one_thread_on_loopback(local: Pool) -> None:
    answers = local.everywhere(jobs.process_and_threads)
    assert len(answers) == 2
    processes = {process for process, _ in answers.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {threads for _, threads in answers.values()} == {"1"}
    for process in [psutil.Process(), *map(psutil.Process, processes)]:
        listening = [c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
        assert set(listening) <= {"127.0.0.1", "::1"}


@pytest.mark.slow
def test_outcomes_and_failures_come_over_the_wire(local: Pool) -> None:
    outcomes = dict(local.map(jobs.megabyte, {f"point {number}": (number,) for number in range(6)}))
    assert outcomes == {f"point {number}": jobs.megabyte(number) for number in range(6)}
    numbers = dict(local.map(jobs.fail, {number: (number,) for number in range(4)}))
    assert [str(outcome) for _, outcome in sorted(numbers.items())] == [
        *("0", "ValueError: number = 1: must be even", "2", "ValueError: number = 3: must be even")
    ]
    assert dict(local.map(jobs.double, {})) == {}


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_a_failure_and_costs_no_other(local: Pool) -> None:
    outcomes = dict(local.map(jobs.die, {number: (number,) for number in range(12)}))
    assert outcomes.pop(1).kind == "KilledWorker"
    assert outcomes == {number: number for number in range(12) if number != 1}


@pytest.mark.slow
def test_progress_and_notes_come_over_the_wire(local: Pool) -> None:
    seen: list[Progress] = []
    assert dict(local.map(jobs.talk, {"a": (1,), "b": (2,), "c": (3,)}, seen.append)) == {"a": 1, "b": 2, "c": 3}
    assert max(len(p.running) for p in seen) == 2
    told = {words for p in seen for words, _ in p.running.values()}
    assert {"part 1", "part 3"} <= told
    assert (seen[-1].done, seen[-1].failed, dict(seen[-1].running)) == (3, 0, {})
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert any(p.left is not None and 0.0 < p.left < 60.0 for p in seen)


@pytest.mark.slow
def test_leaving_early_stops_what_is_under_way(local: Pool, tmp_path: Path) -> None:
    tasks = local.map(jobs.slow, {number: (number, 0.05, tmp_path) for number in range(40)})
    next(tasks)
    tasks.close()
    time.sleep(0.3)
    begun = len(list(tmp_path.iterdir()))
    time.sleep(0.3)
    assert begun == len(list(tmp_path.iterdir())) < 30
    assert dict(local.map(jobs.double, {1: (1,)})) == {1: 2}


INTERRUPTED = """
import sys
from pathlib import Path
import tfnewton
from tests.helpers import jobs
from tests.helpers.dask_processes import a_scheduler, free_port
from tfnewton.cluster.interrupts import interrupts
from tfnewton.cluster.pool import connect

if __name__ == "__main__":
    with connect(workers=2) as pool:
        try:
            for _ in pool.map(jobs.until_stopped, {n: (Path(sys.argv[1]),) for n in range(4)}):
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise SystemExit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [*(pytest.param(how, marks=pytest.mark.long) for how in ("as a terminal does", signal.SIGTERM)), signal.SIGKILL],
)
def test_no_process_is_left_however_it_ends(how: str | signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group; asked to stop, tasks save; and a killed parent takes its workers with it."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, script, tmp_path],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(list(tmp_path.glob("begun-*"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    if isinstance(how, str):
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(how)
    out, err = process.communicate(timeout=30)
    if how is signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert (process.returncode, out, err) == (130, "interrupted\n", "")
        assert len(list(tmp_path.glob("saved-*"))) == 2
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


# a scheduler


@pytest.mark.slow
def test_a_scheduler_that_cannot_be_reached_is_refused_within_seconds() -> None:
    importlib.import_module("tfnewton.cluster.distribution")  # takes time of its own
    importlib.import_module("tfnewton.checks")
    with socket.socket() as silent:  # somebody who listens and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port in (free_port(), silent.getsockname()[1]):
            start = time.monotonic()
            address = f"tcp://127.0.0.1:{port}"
            refused = pytest.raises(ConnectionError, match=f"scheduler = '{address}': no dask scheduler answers there")
            with refused, connect(scheduler=address):
                pass
            assert time.monotonic() - start < 8.0


@pytest.mark.slow
def test_a_killed_worker_costs_no_task_and_doubles_none(scheduler: str, tmp_path: Path) -> None:
    """SIGKILL in mid-work, to the process that computes: every task has one outcome, by the worker that ended it."""
    tasks = {number: (number, 0.15, tmp_path) for number in range(24)}
    outcomes: list[tuple[int, tuple[int, int]]] = []
    with connect(scheduler=scheduler) as pool:
        before = set(pool.everywhere(os.getpid).values())
        victim = 0
        for key, outcome in pool.map(jobs.slow, tasks):
            assert not isinstance(outcome, Failure), str(outcome)
            outcomes.append((key, outcome))
            if len(outcomes) == 6:
                victim = outcome[1]
                os.kill(victim, signal.SIGKILL)
    assert sorted(key for key, _ in outcomes) == list(range(24))
    assert all(key == number for key, (number, _) in outcomes)
    assert victim in before
    begun = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    assert len(begun) > 24  # one was begun twice, and ended once
    assert len({process for _, (_, process) in outcomes}) >= 2


@pytest.mark.slow
def test_other_versions_are_refused_naming_both(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there, version = versions(), importlib.metadata.version
    monkeypatch.setattr(version_module, "_sources", lambda: "abc")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0" if name == "numpy" else version(name))
    with (
        pytest.raises(ValueError, match="its workers are not as this process is") as told,
        connect(scheduler=scheduler),
    ):
        pass
    assert f"numpy {there['numpy']} there, 1.0 here" in str(told.value)
    assert f"sources of hash {there['sources']} there, abc here" in str(told.value)
    assert str(told.value).count("worker tcp://127.0.0.1:") in (2, 4)  # one may be starting again


@pytest.mark.slow
def test_an_unfit_worker_ends_the_work(scheduler: str) -> None:
    with connect(scheduler=scheduler) as pool, pytest.raises(RuntimeError, match="no such folder here"):
        list(pool.map(jobs.unfit, {number: (number,) for number in range(9)}))


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_told(tmp_path: Path) -> None:
    with a_scheduler(1) as address, connect(scheduler=address) as pool:
        tasks = pool.map(jobs.slow, {number: (number, 0.2, tmp_path) for number in range(50)})
        next(tasks)
        (gone,) = [
            process
            for process in psutil.Process().children()
            if all(word in " ".join(process.cmdline()) for word in ("scheduler", address.rpartition(":")[2]))
        ]
        gone.kill()
        with pytest.raises(RuntimeError, match="the scheduler is gone"):
            list(tasks)
