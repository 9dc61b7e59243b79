"""How far from zero minimisers and iterates get: the lemmas of appendix B, printed and corrected, in numbers.

All for rows of norm at most one (asm:bounded) and mu > 0. Values out of range raise ValueError.
"""

from __future__ import annotations

import math

import numpy as np

from tfnewton import checks

__all__ = [
    "growth_example",
    "iterate_radius",
    "minimizer_radius",
    "newton_point_radius",
    "norm_descent_radius",
    "outward",
]

_LARGEST_PULL = 0.27846454276107380  # max of m / (1 + e^m), Lambert's W(1/e): p m at the minimiser cannot exceed it


def newton_point_radius(mu: float) -> float:
    """Return 1 / mu: a full Newton step, from any x, lands strictly inside this radius.

    x - H^-1 grad f = H^-1 (1/n) sum_i (p_i + p_i (1 - p_i) m_i) y_i a_i, and the weight of each a_i lies in (0, 1).
    """
    return 1 / checks.real("mu", mu, above=0.0)


def minimizer_radius(mu: float) -> float:
    """Return min{sqrt(W(1/e) / mu), 1 / (2 mu)}, which bounds ||argmin f||; sqrt(W(1/e)) = 0.5277.

    The first is attained for mu <= 0.1704: d = n = 1 and a = m sqrt(mu / W(1/e)) with the margin m = 1 + W(1/e).
    """
    mu = checks.real("mu", mu, above=0.0)
    return min(math.sqrt(_LARGEST_PULL / mu), 1 / (2 * mu))


def iterate_radius(mu: float, error: float, start: float = 0.0) -> float:
    """Return max{start, (1 + 2 error (1 + mu) / (2 - error)) / mu}: it bounds each iterate of inexact damped Newton.

    Args:
        mu: above 0.
        error: the bound on every ||errors_t||_2, at least 0 and below 2.
        start: ||x_0||_2, at least 0.

    True for the damping factor of the paper and every larger one up to 1 (lem:norm_constraint, corrected). For
    errors of 2 or more there is no such radius: see ``growth_example``.
    """
    mu = checks.real("mu", mu, above=0.0)
    error = checks.real("error", error, minimum=0.0, below=2.0)
    return max(checks.real("start", start, minimum=0.0), (1 + 2 * error * (1 + mu) / (2 - error)) / mu)


def norm_descent_radius(mu: float) -> float:
    """Return a C with ||x'|| <= ||x|| for one step from ||x|| >= C under an error of norm mu^2 (lem:norm_descent).

    Raises ValueError for mu >= sqrt(2), where the printed lemma claims a C and none exists.
    """
    mu = checks.real("mu", mu, above=0.0, below=math.sqrt(2))
    return iterate_radius(mu, mu**2)


def growth_example(mu: float, steps: int, start: float = 1.0) -> list[float]:
    """Return ||x_0||, ..., ||x_steps|| for A = 0 and errors of norm mu^2 along x: r -> r - 2 r / (2 + r) + mu^2.

    For mu >= sqrt(2) this grows without bound, against lem:norm_descent and lem:norm_constraint.
    """
    mu = checks.real("mu", mu, above=0.0)
    norms = [checks.real("start", start, minimum=0.0)]
    for _ in range(checks.integer("steps", steps, minimum=0)):
        norms.append(norms[-1] - 2 * norms[-1] / (2 + norms[-1]) + mu**2)
    return norms


def outward(points: np.ndarray, size: float) -> np.ndarray:
    """Return errors of norm ``size`` (at least 0) that point from zero through the points, (..., d) to (..., d).

    At zero, where all directions are alike, along the first axis: no other error of this norm lengthens a point more.
    """
    size = checks.real("size", size, minimum=0.0)
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    first = np.eye(points.shape[-1])[0]
    return np.asarray(size * np.where(lengths > 0.0, points / np.where(lengths > 0.0, lengths, 1.0), first))
