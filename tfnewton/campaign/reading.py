"""The shipped tables as numbers: losses and outputs by method and depth, with every seed that a table has."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from tfnewton.campaign import results
from tfnewton.checks import choice

__all__ = ["METHODS", "Outputs", "losses", "outputs", "rms", "rows", "seeds"]

METHODS: Mapping[tuple[str, str], str] = {  # how chapters call what stands in the tables
    ("LSA", "query in"): "query in",
    ("LSA", "query out"): "query out",
    ("LSA+LN", "query in"): "LayerNorm",
    ("LSA+LN, final norm", "query in"): "final norm",
    ("Newton order 2", "I/lambda_max"): "order 2",
    ("Newton order 3", "I/lambda_max"): "order 3",
}
ByDepth: TypeAlias = dict[int, np.ndarray]


class Outputs(NamedTuple):
    """Outputs against the query's first coordinate: x1 and target (points,), the others (seeds, points).

    ``low`` and ``high`` are the 5 and 95 percent quantiles over the prompts, ``rmse`` the root mean squared error.
    """

    x1: np.ndarray
    target: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rmse: np.ndarray


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of the shipped table ``name``; where it has no column "seed", all are of seed 0."""
    return [{"seed": "0"} | row for row in csv.DictReader(results.table(name).splitlines())]


def _method(row: Mapping[str, str]) -> str | None:
    return METHODS.get((row["method"], row["variant"]))


def losses(name: str, statistic: str = "trimmed_mean") -> dict[str, ByDepth]:
    """Return the losses of a table by method, as in ``METHODS``, and depth, (seeds,); of kappa = 10 and no noise.

    ``statistic`` is "mean", "median" or "trimmed_mean".
    """
    choice("statistic", statistic, ("mean", "median", "trimmed_mean"))
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows(name):
        method = _method(row)
        if method and row.get("shows", "loss") == "loss" and (float(row["kappa"]), float(row["noise"])) == (10.0, 0.0):
            found.setdefault(method, {}).setdefault(int(row["depth"]), []).append(float(row[statistic]))
    return {method: {L: np.array(of) for L, of in sorted(by.items())} for method, by in found.items()}


def outputs(name: str) -> dict[str, dict[int, Outputs]]:
    """Return the outputs of a table by method, as in ``METHODS``, and depth."""
    found: dict[str, dict[int, dict[str, list[dict[str, str]]]]] = {}
    for row in rows(name):
        method = _method(row)
        if method and row.get("shows", "output") == "output":
            found.setdefault(method, {}).setdefault(int(row["depth"]), {}).setdefault(row["seed"], []).append(row)
    return {method: {L: _outputs(of) for L, of in sorted(by.items())} for method, by in found.items()}


def _outputs(by_seed: Mapping[str, list[dict[str, str]]]) -> Outputs:
    def column(name: str) -> np.ndarray:
        return np.array([[float(row[name]) for row in of] for of in by_seed.values()])

    return Outputs(column("x1")[0], column("target")[0], *(column(name) for name in ("mean", "low", "high", "rmse")))


def rms(by_depth: Mapping[int, Outputs]) -> ByDepth:
    """Return the root mean squared error over all points, by depth, (seeds,)."""
    return {L: np.sqrt((of.rmse**2).mean(axis=1)) for L, of in by_depth.items()}


def seeds(by_depth: Mapping[int, np.ndarray] | Mapping[int, Outputs]) -> int:
    """Return the number of seeds that every depth has."""
    return min(len(of.mean) if isinstance(of, Outputs) else len(of) for of in by_depth.values())
