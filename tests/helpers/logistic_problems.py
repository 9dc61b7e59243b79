"""Random and adversarial problems of logistic regression, for the tests that attack bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

MUS = (1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, 10.0)


class Problems(NamedTuple):
    """A batch of problems with rows of norm at most one: A (k, n, d), y (k, n), points x and directions u (k, d)."""

    A: np.ndarray
    y: np.ndarray
    x: np.ndarray
    u: np.ndarray


def random_problems(seed: int, count: int, mu: float, n: int = 6, d: int = 3) -> Problems:
    """Return ``count`` problems in equal parts: rows in the ball, unit, parallel, tiny, zero; points near and far."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(count, n, d))
    A /= np.linalg.norm(A, axis=-1, keepdims=True) * (1 + 1e-12)
    kind = np.arange(count) % 5
    A[kind == 0] *= rng.uniform(size=(np.sum(kind == 0), n, 1))
    A[kind == 2] = A[kind == 2][:, :1] * rng.uniform(-1, 1, size=(np.sum(kind == 2), n, 1))
    A[kind == 3] *= 10.0 ** rng.uniform(-4, 0, size=(np.sum(kind == 3), n, 1))
    A[kind == 4] *= rng.uniform(size=(np.sum(kind == 4), n, 1)) < 0.5
    y = rng.choice([-1.0, 1.0], size=(count, n))
    separable = rng.uniform(size=count) < 0.5
    target = rng.normal(size=(count, d, 1))
    y[separable] = np.where((A @ target)[separable, :, 0] > 0, 1.0, -1.0)
    scale = 10.0 ** rng.uniform(-2, 2.5, size=(count, 1)) * max(1.0, mu**-0.5 / 3)
    x = scale * rng.normal(size=(count, d)) / d**0.5
    return Problems(A, y, x, rng.normal(size=(count, d)))


def reference(x: np.ndarray, A: np.ndarray, y: np.ndarray, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients (..., d) and Hessians (..., d, d), written with scipy."""
    margins = y * np.einsum("...nd,...d->...n", A, x)
    p, n = expit(-margins), A.shape[-2]
    gradient = mu * x - np.einsum("...nd,...n->...d", A, y * p) / n
    hessian = np.einsum("...nd,...n,...ne->...de", A, expit(margins) * p, A) / n + mu * np.eye(A.shape[-1])
    return gradient, hessian


def norm(hessian: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return sqrt(v^T hessian v), (...)."""
    return np.asarray(np.sqrt(np.einsum("...d,...de,...e->...", v, hessian, v)))


def climb(score: Callable[[np.ndarray], np.ndarray], start: np.ndarray, seed: int, rounds: int = 150) -> float:
    """Return the best score that random hill climbing finds; ``score`` maps candidates (k, p) to values (k,)."""
    rng = np.random.default_rng(seed)
    best, value = start.copy(), score(start)
    for step in range(rounds):
        size = 10.0 ** rng.uniform(-4 * step / rounds - 1, 0, size=(len(best), 1))
        trial = best + size * rng.normal(size=best.shape) * np.maximum(1, np.abs(best) / 4)
        found = score(trial)
        better = found > value
        best[better], value[better] = trial[better], found[better]
        worst = np.argsort(value)[: len(value) // 10]  # the weakest tenth starts again from the best
        best[worst], value[worst] = best[np.argmax(value)], value.max()
    return float(value.max())
