"""How many layers a damped Newton step should have: the construction run with few and with many inversion steps.

A step has 11 + 2k layers. With k Newton-Schulz steps from X_0 = alpha H the direction is X_k g with
X_k = (I - (I - alpha H^2)^(2^k)) H^-1: zero where g is, so that the minimiser stays the only point at rest, for every
k >= 0. What too small a k costs is speed, see ``tfnewton.theory.width.gap_factor``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfnewton import checks
from tfnewton.algorithms import logistic_regression as algorithms
from tfnewton.constructions.logistic_regression import damped_newton

__all__ = ["Descent", "descend", "layers_to", "unit_problems"]


class Descent(NamedTuple):
    """``gaps`` (steps + 1, problems), f(x_t) - min f, of a transformer with ``layers`` layers a step, from x_0 = 0."""

    layers: int
    gaps: np.ndarray


def descend(
    A: np.ndarray, y: np.ndarray, mu: float, layers: int, *, error: float = 1e-3, inversion_steps: int | None = None
) -> Descent:
    """Run the construction on problems A (problems, n, d), y (problems, n) for as many steps as ``layers`` allow.

    Rows of norm at most one; ``error`` and ``inversion_steps`` as ``damped_newton`` takes them: for k below the error's
    own the bound on the step is void, which is what is looked at here. Raises ValueError naming what is wrong.
    """
    step = damped_newton(A.shape[-1], A.shape[-2], mu, 1, error, inversion_steps=inversion_steps)
    least = algorithms.loss(algorithms.minimize(A, y, mu), A, y, mu)
    H, gaps = step.pack(A, y), []
    for _ in range(checks.integer("layers", layers, minimum=0) // step.depth + 1):
        gaps.append(algorithms.loss(step.unpack(H)["x"], A, y, mu) - least)
        H = step(H)
    return Descent(step.depth, np.array(gaps))


def layers_to(target: float, found: Descent) -> int | None:
    """Return the layers after which the mean gap is at most ``target`` > 0 for the first time; None if it never is."""
    below = found.gaps.mean(axis=1) <= checks.real("target", target, above=0.0)
    return int(below.argmax()) * found.layers if below.any() else None


def unit_problems(seed: int, count: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return A (count, n, d) with rows even on the unit sphere and y (count, n), the side of a random plane."""
    rng = np.random.default_rng(checks.integer("seed", seed, minimum=0))
    A = rng.standard_normal((count, n, d))
    A /= np.linalg.norm(A, axis=-1, keepdims=True)
    return A, np.where((A @ rng.standard_normal((count, d, 1)))[..., 0] > 0, 1.0, -1.0)
