"""Training many runs, several at a time: what is missing is trained, what was interrupted goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from tfnewton.campaign.recipes import Run
from tfnewton.learning.configuration import check_same, read_config
from tfnewton.learning.training import train

__all__ = ["is_complete", "run_all"]


def is_complete(run: Run, root: Path) -> bool:
    """Whether ``run`` has been trained to its end in a folder below ``root``.

    ValueError where the folder holds a run of another config, of another size for example.
    """
    folder = root / run.name
    if not (folder / "weights.safetensors").exists():
        return False
    check_same(read_config(folder / "config.json"), run.config, folder)
    return True


def run_all(runs: Iterable[Run], root: Path, workers: int = 1) -> int:
    """Train what is missing of ``runs`` in folders below ``root``, in this order, one thread a worker.

    Returns how many could not be trained.
    """
    missing = [run for run in dict.fromkeys(runs) if not is_complete(run, root)]
    # every step frees and takes the same memory: glibc must not give it back to the system in between
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**31 - 1))
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**30))
    context = multiprocessing.get_context("spawn")
    failed = 0
    with ProcessPoolExecutor(workers, context, initializer=_start_worker) as pool:
        try:
            for line, trained in pool.map(_train, missing, [root] * len(missing)):
                print(line, flush=True)
                failed += not trained
        except KeyboardInterrupt:  # the workers got it too, and save
            pool.shutdown(cancel_futures=True)
            raise
    return failed


def _start_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Save and end when the process that gives out the runs is gone, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # a run finishes its step and saves
        time.sleep(10.0)
        os._exit(1)


def _train(run: Run, root: Path) -> tuple[str, bool]:
    from tqdm import tqdm

    bar = tqdm(total=run.config.steps, desc=run.name, mininterval=2.0, dynamic_ncols=True)

    def report(step: int, loss: float, rate: float) -> None:
        bar.n = step
        bar.set_postfix_str(f"loss {loss:.3g}, rate {rate:.2g}", refresh=False)
        bar.update(0)

    try:
        result = train(run.config, root / run.name, report)
    except (OSError, RuntimeError, ValueError) as error:  # one run that cannot go on must not stop the others
        return f"{run.name}: not trained: {error}", False
    finally:
        bar.close()
    best, step, seconds = result["best"], result["step"], result["seconds"]
    return f"{run.name}: best validation loss {best:.6g} at step {step}, {seconds:.0f} s", True
