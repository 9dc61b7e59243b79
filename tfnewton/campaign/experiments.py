"""Every figure of section 6 as a named experiment: the runs that it needs and the table that it shows.

    tfnewton train lsa-depth ln-depth --size default --workers 2

trains what is missing, goes on with what was interrupted, leaves to other processes what they are training, and writes
one table an experiment from all runs that are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tfnewton.campaign.estimate import announcement
from tfnewton.campaign.mechanism import mechanism
from tfnewton.campaign.recipes import (
    ABLATIONS,
    ENCODER_VARIATIONS,
    SIZES,
    Run,
    Size,
    ablated,
    fourfold,
    layer_norm_attention,
    linear_attention,
    logistic_encoder,
    varied_encoder,
)
from tfnewton.campaign.tables import (
    INSIDE,
    OUTSIDE,
    Row,
    curves,
    functions,
    logistic,
    losses_and_functions,
    to_csv,
)
from tfnewton.campaign.workers import is_complete, missing, run_all
from tfnewton.checks import choice, integer
from tfnewton.cluster.progress import agreed
from tfnewton.files import write_atomically

__all__ = ["EXPERIMENTS", "Experiment", "carry_out", "command", "write_table"]

SEEDS = (0, 1, 2)
LSA_DEPTHS = (1, 2, 3, 4, 5, 6)
LN_DEPTHS = (1, 2, 3, 4, 5, 7, 8, 10, 12)
FINAL_NORM_DEPTHS = (2, 4)
DEEP_FINAL_NORM_DEPTHS = (8,)  # one seed
LONGER_DEPTH = 4  # where the plateau begins
LOGISTIC_DEPTHS = (1, 2, 4, 8, 12)
DEEP_LOGISTIC_DEPTHS = (16, 20, 30, 40)  # one seed
LSA_GRID_DEPTHS = (2, 4, 6)  # with three seeds; the others with one
LSA_GRID = ((5.0, 0.0), (50.0, 0.0), (10.0, 1.0), (50.0, 1.0))
LN_GRID_DEPTHS = (1, 2, 4, 8)  # one seed
LN_GRID_MORE_SEEDS = 4  # layers, with three seeds
LN_GRID = tuple((kappa, noise) for noise in (0.0, 1.0) for kappa in (1.0, 5.0, 10.0, 50.0, 100.0))
TEST_PROMPTS: dict[Size, int] = {"smoke": 256, "default": 8192, "paper": 65536}
MECHANISM_PROMPTS: dict[Size, int] = {"smoke": 64, "default": 1000, "paper": 4000}
POINTS: dict[Size, int] = {"smoke": 3, "default": 41, "paper": 101}


class Experiment(NamedTuple):
    """A figure: what it shows, its label in the paper, its runs by size, and its table from the finished runs."""

    title: str
    label: str
    runs: Callable[[Size], list[Run]]
    table: Callable[[list[Run], Path, Size], Iterator[Row]]


def _seeds(size: Size) -> tuple[int, ...]:
    return SEEDS[:1] if size == "smoke" else SEEDS


def _depths(depths: tuple[int, ...], size: Size) -> tuple[int, ...]:
    return depths[:2] if size == "smoke" else depths


def _lsa(size: Size) -> list[Run]:
    depths = _depths(LSA_DEPTHS, size)
    return [linear_attention(L, s, size, q) for s in _seeds(size) for q in (True, False) for L in depths]


def _query_out(size: Size) -> list[Run]:
    return [run for run in _lsa(size) if "-out-" in run.name]


def _ln(size: Size) -> list[Run]:
    return [layer_norm_attention(L, s, size) for s in _seeds(size) for L in _depths(LN_DEPTHS, size)]


def _final_norm(size: Size) -> list[Run]:
    runs = [(L, s) for s in _seeds(size) for L in _depths(FINAL_NORM_DEPTHS, size)]
    runs += [] if size == "smoke" else [(L, 0) for L in DEEP_FINAL_NORM_DEPTHS]
    return [layer_norm_attention(L, s, size, final_norm=1e-5) for L, s in runs]


def _logistic(size: Size) -> list[Run]:
    runs = [logistic_encoder(L, s, size) for s in _seeds(size) for L in _depths(LOGISTIC_DEPTHS, size)]
    return runs if size == "smoke" else [*runs, *(logistic_encoder(L, 0, size) for L in DEEP_LOGISTIC_DEPTHS)]


def _logistic_recipe(size: Size) -> list[Run]:
    shallow, deep = (2, 3) if size == "smoke" else (4, 12)
    runs = []
    for s in _seeds(size):
        runs += [logistic_encoder(shallow, s, size), logistic_encoder(deep, s, size)]
        runs += [varied_encoder(shallow, variation, s, size) for variation in ENCODER_VARIATIONS]
        runs += [varied_encoder(deep, "small-both", s, size)]
    return [*runs, varied_encoder(deep, "fourfold-steps", 0, size)]


def _lsa_grid(size: Size) -> list[Run]:
    runs = [(L, 0) for L in _depths(LSA_DEPTHS, size)]
    runs += [(L, s) for s in _seeds(size)[1:] for L in LSA_GRID_DEPTHS]
    return [linear_attention(L, s, size, True, kappa, noise) for L, s in runs for kappa, noise in LSA_GRID]


def _ln_grid(size: Size) -> list[Run]:
    runs = [(L, 0) for L in (LN_DEPTHS if size == "paper" else _depths(LN_GRID_DEPTHS, size))]
    runs += [(LN_GRID_MORE_SEEDS, s) for s in _seeds(size)[1:]]
    return [layer_norm_attention(L, s, size, True, kappa, noise) for L, s in runs for kappa, noise in LN_GRID]


def _stability(size: Size) -> list[Run]:
    return [linear_attention(3, 0, size), *(ablated(3, ablation, 0, size) for ablation in ABLATIONS)]


def _longer(size: Size) -> list[Run]:
    usual = [linear_attention(LONGER_DEPTH, s, size) for s in _seeds(size)]
    return [*usual, *map(fourfold, usual)]


def _curves(runs: list[Run], root: Path, size: Size) -> Iterator[Row]:
    return curves(runs, root, TEST_PROMPTS[size])


def _mechanism(runs: list[Run], root: Path, size: Size) -> Iterator[Row]:
    return mechanism(runs, root, MECHANISM_PROMPTS[size])


def _logistic_curves(runs: list[Run], root: Path, size: Size) -> Iterator[Row]:
    return logistic(runs, root, TEST_PROMPTS[size])


def _losses_and_functions(runs: list[Run], root: Path, size: Size) -> Iterator[Row]:
    return losses_and_functions(runs, root, TEST_PROMPTS[size], OUTSIDE, POINTS[size])


def _functions(reach: float) -> Callable[[list[Run], Path, Size], Iterator[Row]]:
    return lambda runs, root, size: functions(runs, root, reach, POINTS[size])


EXPERIMENTS: dict[str, Experiment] = {
    "lsa-depth": Experiment("linear attention: loss against depth", "fig:lsa-loss", _lsa, _curves),
    "logistic": Experiment("logistic regression: loss, error", "fig:logistic_regression", _logistic, _logistic_curves),
    "ln-depth": Experiment("with LayerNorm: loss against depth", "fig:lsa-loss", _ln, _curves),
    "logistic-recipe": Experiment(
        "encoders trained otherwise", "fig:logistic_regression", _logistic_recipe, _logistic_curves
    ),
    "lsa-inside": Experiment("outputs, in distribution", "fig:lsa_func", _lsa, _functions(INSIDE)),
    "lsa-outside": Experiment("outputs, out of it", "fig:lsa_func_out", _lsa, _functions(OUTSIDE)),
    "ln-inside": Experiment("with LayerNorm, in it", "fig:lsa_ln_func", _ln, _functions(INSIDE)),
    "ln-outside": Experiment("with LayerNorm, out of it", "fig:lsa_ln_func_out", _ln, _functions(OUTSIDE)),
    "mechanism": Experiment("which polynomial, with the query out", "sec:experiments", _query_out, _mechanism),
    "final-norm": Experiment("LayerNorm before the read-out", "sec:experiments", _final_norm, _losses_and_functions),
    "stability": Experiment("what makes training stable", "sec:experiments", _stability, _curves),
    "longer": Experiment("on the plateau, four times as long", "sec:experiments", _longer, _curves),
    "lsa-grid": Experiment("linear attention by kappa and noise", "fig:lsa-full", _lsa_grid, _curves),
    "ln-grid": Experiment("with LayerNorm, by kappa and noise", "fig:lsa-ln-full", _ln_grid, _curves),
}


def command(name: str, size: Size) -> str:
    """Return the command that makes the runs and the table of the experiment ``name``."""
    return f"tfnewton train {name} --size {size}"


def write_table(name: str, root: Path, size: Size) -> Path | None:
    """Write the table of the experiment ``name`` below ``root``; None if no run is complete."""
    experiment = EXPERIMENTS[choice("experiment", name, list(EXPERIMENTS))]
    choice("size", size, SIZES)
    finished = [run for run in experiment.runs(size) if is_complete(run, root)]
    if not finished:
        return None
    path = root / f"{name}.csv"
    write_atomically(path, to_csv(experiment.table(finished, root, size)).encode())
    return path


def carry_out(
    names: list[str],
    size: str,
    workers: int,
    runs: Path,
    scheduler: str | None = None,
    device: str = "cpu",
    yes: bool = False,
) -> None:
    """Train what the experiments ``names`` lack and write their tables, all below ``runs`` / ``size``.

    Where the runs will take more than two minutes, says so first and asks, unless ``yes``. Raises RuntimeError, after
    the tables are written, where a run could not be trained, and KeyboardInterrupt where the answer is no.
    """
    for name in names:
        choice("experiment", name, list(EXPERIMENTS))
    chosen: Size = SIZES[SIZES.index(choice("size", size, SIZES))]
    integer("workers", workers, minimum=1)
    root = runs / chosen
    wanted = missing((run for name in names for run in EXPERIMENTS[name].runs(chosen)), root)

    def ask() -> None:
        warning = announcement(wanted, root, workers, scheduler, device)
        if warning is not None and not agreed(warning, yes):
            raise KeyboardInterrupt("not begun")

    failed = run_all(wanted, root, workers, scheduler, device, ask)
    for name in names:
        all_runs = EXPERIMENTS[name].runs(chosen)
        done = sum(is_complete(run, root) for run in all_runs)
        print(f"{name}: {done} of {len(all_runs)} runs complete; evaluating them", flush=True)
        print(f"{name}: table {write_table(name, root, chosen)}", flush=True)
    if failed:
        raise RuntimeError(f"{failed} runs were not trained; the lines above say why")
