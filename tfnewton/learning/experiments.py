"""Every figure of section 6 as a named experiment: the runs that it needs, trained one after another or side by side.

    python -m tfnewton.learning.experiments lsa-depth --size default --workers 2

trains what is missing and goes on with what was interrupted; runs that another process is training are left to it.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from tfnewton.learning.recipes import Run, Size, layer_norm_attention, linear_attention, logistic_encoder
from tfnewton.learning.training import train

__all__ = ["EXPERIMENTS", "Experiment", "run_all"]

SEEDS = (0, 1, 2)
LSA_DEPTHS = (1, 2, 3, 4, 5, 6)
LN_DEPTHS = (1, 2, 3, 4, 5, 7, 8, 10, 12)
LOGISTIC_DEPTHS = (1, 2, 4, 8, 12)
DEEP_LOGISTIC_DEPTHS = (16, 20, 30, 40)
LSA_GRID = ((5.0, 0.0), (50.0, 0.0), (10.0, 1.0), (50.0, 1.0))
LN_GRID = tuple((kappa, noise) for noise in (0.0, 1.0) for kappa in (1.0, 5.0, 10.0, 50.0, 100.0))


class Experiment(NamedTuple):
    """A figure: what it shows, its label in the paper, and its runs by size."""

    title: str
    label: str
    runs: Callable[[Size], list[Run]]


def _seeds(size: Size) -> tuple[int, ...]:
    return SEEDS[:1] if size == "smoke" else SEEDS


def _depths(depths: tuple[int, ...], size: Size) -> tuple[int, ...]:
    return depths[:2] if size == "smoke" else depths


def _lsa(size: Size) -> list[Run]:
    depths = _depths(LSA_DEPTHS, size)
    return [linear_attention(L, s, size, q) for s in _seeds(size) for q in (True, False) for L in depths]


def _ln(size: Size) -> list[Run]:
    return [layer_norm_attention(L, s, size) for s in _seeds(size) for L in _depths(LN_DEPTHS, size)]


def _logistic(size: Size) -> list[Run]:
    return [logistic_encoder(L, s, size) for s in _seeds(size) for L in _depths(LOGISTIC_DEPTHS, size)]


def _deep_logistic(size: Size) -> list[Run]:
    return [logistic_encoder(L, 0, size) for L in _depths(DEEP_LOGISTIC_DEPTHS, size)]


def _lsa_grid(size: Size) -> list[Run]:
    depths = _depths(LSA_DEPTHS, size)
    return [linear_attention(L, 0, size, True, kappa, noise) for kappa, noise in LSA_GRID for L in depths]


def _ln_grid(size: Size) -> list[Run]:
    depths = _depths(LN_DEPTHS, size)
    return [layer_norm_attention(L, 0, size, True, kappa, noise) for kappa, noise in LN_GRID for L in depths]


EXPERIMENTS: dict[str, Experiment] = {
    "lsa-depth": Experiment("loss of linear attention against depth", "fig:lsa-loss", _lsa),
    "ln-depth": Experiment("loss of linear attention with LayerNorm against depth", "fig:lsa-loss", _ln),
    "logistic": Experiment("logistic regression against depth", "fig:logistic_regression", _logistic),
    "logistic-deep": Experiment("logistic regression, deep encoders", "fig:logistic_regression", _deep_logistic),
    "lsa-grid": Experiment("linear attention by condition number and noise", "fig:lsa-full", _lsa_grid),
    "ln-grid": Experiment("linear attention with LayerNorm, likewise", "fig:lsa-ln-full", _ln_grid),
}


def run_all(runs: Iterable[Run], root: Path, workers: int = 1) -> None:
    """Train what is missing of ``runs`` in folders below ``root``, in this order, one thread a worker."""
    missing = [run for run in dict.fromkeys(runs) if not (root / run.name / "weights.safetensors").exists()]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for line in pool.map(_train, missing, [root] * len(missing)):
            print(line, flush=True)


def _train(run: Run, root: Path) -> str:
    try:
        result = train(run.config, root / run.name)
    except RuntimeError as error:
        return f"{run.name}: {error}"
    return f"{run.name}: best validation loss {result['best']:.6g} at step {result['step']}, {result['seconds']:.0f} s"


if __name__ == "__main__":
    size: Size = "default"
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        run_all(EXPERIMENTS[name].runs(size), Path(sys.argv[1]) / size)
