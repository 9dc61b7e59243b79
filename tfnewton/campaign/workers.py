"""Training many runs, several at a time: what is missing is trained, what was interrupted goes on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tfnewton.campaign.recipes import Run
from tfnewton.cluster.pool import Pool, connect
from tfnewton.cluster.progress import shown
from tfnewton.cluster.task import Failure, UnfitError, note, stopping
from tfnewton.learning.configuration import check_same, read_config
from tfnewton.learning.devices import check_device, one_thread
from tfnewton.learning.training import train

__all__ = ["is_complete", "missing", "run_all"]


def is_complete(run: Run, root: Path) -> bool:
    """Whether ``run`` has been trained to its end in a folder below ``root``.

    ValueError where the folder holds a run of another config, of another size for example.
    """
    folder = root / run.name
    if not (folder / "weights.safetensors").exists():
        return False
    check_same(read_config(folder / "config.json"), run.config, folder)
    return True


def missing(runs: Iterable[Run], root: Path) -> list[Run]:
    """Return each of ``runs``, once, that is not complete below ``root``."""
    return [run for run in dict.fromkeys(runs) if not is_complete(run, root)]


def run_all(
    runs: Iterable[Run],
    root: Path,
    workers: int = 1,
    scheduler: str | None = None,
    device: str = "cpu",
    begin: Callable[[], None] = lambda: None,
) -> int:
    """Train what is missing of ``runs`` in folders below ``root``, in this order, one thread a run.

    By ``workers`` processes, or by the workers of a ``scheduler`` of dask, which must see the same ``root``. When all
    that can be refused has been, ``begin`` is called. Returns how many could not be trained.

    Raises:
        ValueError: no such number, address or device, or workers that do not see ``root`` or have other versions.
        ConnectionError: no scheduler answers.
    """
    left, failed = missing(runs, root), 0
    if not left:
        return 0
    with connect(workers, scheduler) as pool, _token(root, scheduler) as token:
        _check_workers(pool, device, token)
        begin()
        tasks = {run.name: (run, root.resolve(), device, token) for run in left}
        costs = {run.name: float(run.config.steps * run.config.model.layers) for run in left}
        with shown("training") as display:
            for name, outcome in pool.map(_train, tasks, display, costs):
                failed += isinstance(outcome, Failure)
                display.say(f"{name}: not trained: {outcome.message}" if isinstance(outcome, Failure) else outcome)
    return failed


@contextmanager
def _token(root: Path, scheduler: str | None) -> Iterator[tuple[Path, str] | None]:
    """Yield a file below ``root`` and its text, by which workers elsewhere know whether they see the same folder."""
    if scheduler is None:
        yield None
        return
    root.mkdir(parents=True, exist_ok=True)
    path, text = root.resolve() / f".seen-{secrets.token_hex(8)}", secrets.token_hex(8)
    path.write_text(text)
    try:
        yield path, text
    finally:
        path.unlink(missing_ok=True)


def _check_workers(pool: Pool, device: str, token: tuple[Path, str] | None) -> None:
    faults = {
        worker: answer.message
        for worker, answer in pool.everywhere(_check, device, token).items()
        if isinstance(answer, Failure)
    }
    if faults and token is None:  # all processes are this machine's
        raise ValueError(next(iter(faults.values())))
    if faults:
        raise ValueError("\n".join(f"{worker}: {fault}" for worker, fault in faults.items()))


def _check(device: str, token: tuple[Path, str] | None) -> None:
    """On a worker: ValueError where it lacks the device or sees another folder."""
    check_device(device)
    if token is None:
        return
    path, text = token
    try:
        seen = path.read_text()
    except OSError:
        seen = ""
    if seen != text:
        raise ValueError(
            f"does not see the folder {path.parent} of this machine; runs are trained where they are stored, "
            "so give a folder on a disk that all share: --runs FOLDER"
        )


def _train(run: Run, root: Path, device: str, token: tuple[Path, str] | None) -> str:
    """On a worker: train ``run``, or go on, and say how it ended."""
    try:
        _check(device, token)
    except ValueError as error:
        raise UnfitError(f"a worker that came later {error}") from error

    def report(step: int, loss: float, rate: float) -> None:
        note(f"step {step} of {run.config.steps}, loss {loss:.3g}, rate {rate:.2g}", step / run.config.steps)

    with one_thread():
        result = train(run.config, root / run.name, report, device, stopping)
    best, step, seconds = result["best"], result["step"], result["seconds"]
    return f"{run.name}: best validation loss {best:.6g} at step {step}, {seconds:.0f} s"
