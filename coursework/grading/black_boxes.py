"""Predictors of known law, in numpy: what the coursework's functions are tried on.

A rule is a residual: from eigenvalues of R = A^T A / n, (..., d), to what is missing of the weights along each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tfnewton.learning.tasks import LinearPrompts

__all__ = [
    "Answer", "Rule", "best_steps", "chebyshev", "false_sample", "families", "half_context", "loss", "power", "ridge",
    "spectral", "steps", "strangers", "tired_by_labels", "trained",
]  # fmt: skip

Rule: TypeAlias = Callable[[np.ndarray], np.ndarray]
Answer: TypeAlias = Callable[[LinearPrompts], Tensor]


def _arrays(p: LinearPrompts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x (B, n, d), y (B, n) and x_query (B, d)."""
    x, y, query = (np.asarray(torch.as_tensor(part).detach(), dtype=np.float64) for part in p[:3])
    if not (x.ndim == 3 and y.shape == x.shape[:2] and query.shape == (len(x), x.shape[2])):
        raise ValueError(f"prompts have x {x.shape}, y {y.shape}, x_query {query.shape}: not (B, n, d), (B, n), (B, d)")
    return x, y, query


def power(exponent: int) -> Rule:
    """Newton's iteration from I / lambda_max, ``exponent`` = order ** steps."""
    return lambda values: (1 - values / values.max(axis=-1, keepdims=True)) ** exponent


def steps(lengths: Sequence[float] | np.ndarray) -> Rule:
    """Gradient steps on R, of these lengths."""
    return lambda values: np.prod([1 - length * values for length in lengths], axis=0)


def ridge(rho: float) -> Rule:
    """Ridge regression with the penalty n rho."""
    return lambda values: rho / (values + rho)


def chebyshev(degree: int) -> Rule:
    """Chebyshev's polynomial between the ends of each spectrum."""

    def rule(values: np.ndarray) -> np.ndarray:
        low, high = values.min(axis=-1, keepdims=True), values.max(axis=-1, keepdims=True)
        of = np.polynomial.chebyshev.Chebyshev.basis(degree)
        residual: np.ndarray = of((high + low - 2 * values) / (high - low)) / of((high + low) / (high - low))
        return residual

    return rule


def spectral(rule: Rule) -> Answer:
    """Return the predictor whose weights are (1 - rule) of those of least squares, along each eigenvector."""

    def answer(p: LinearPrompts) -> Tensor:
        x, y, query = _arrays(p)
        values, vectors = np.linalg.eigh(np.swapaxes(x, 1, 2) @ x / x.shape[1])
        moment = np.einsum("bij,bni,bn->bj", vectors, x, y) / x.shape[1]
        along = np.einsum("bij,bi->bj", vectors, query)
        return torch.as_tensor((along * moment * (1 - rule(values)) / values).sum(axis=1))

    return answer


def tired_by_labels(rule: Rule, size: float) -> Answer:
    """Return a predictor that is not linear in the labels: divided by 1 + (mean of y^2) / size."""
    plain = spectral(rule)
    return lambda p: plain(p) / (1 + torch.as_tensor(p.y).double().square().mean(dim=1) / size)


def _leverage(x: np.ndarray, query: np.ndarray) -> np.ndarray:
    inverse = np.linalg.solve(np.swapaxes(x, 1, 2) @ x, query[..., None])[..., 0]
    leverage: np.ndarray = (query * inverse).sum(axis=1)
    return leverage


def false_sample(c: float, weight: float) -> Answer:
    """Return c times least squares with the sample (x_query, 0), which counts as ``weight`` samples."""
    return _shrunk(c, weight, 1)


def half_context(c: float, weight: float) -> Answer:
    """Return the same, of the first half of the examples."""
    return _shrunk(c, weight, 2)


def _shrunk(c: float, weight: float, part: int) -> Answer:
    def answer(p: LinearPrompts) -> Tensor:
        x, y, query = _arrays(p)
        x, y = x[:, : x.shape[1] // part], y[:, : x.shape[1] // part]
        moment = np.swapaxes(x, 1, 2) @ y[..., None]
        w = np.linalg.solve(np.swapaxes(x, 1, 2) @ x, moment)[..., 0]
        return torch.as_tensor(c * (w * query).sum(axis=1) / (1 + weight * _leverage(x, query)))

    return answer


def trained(model: Any) -> Answer:
    """Return a shipped model as a predictor that can be asked and no more."""

    def answer(p: LinearPrompts) -> Tensor:
        with torch.no_grad():
            found: Tensor = model(LinearPrompts(*(torch.as_tensor(part).double() for part in p)))
        return found

    return answer


def families(rng: np.random.Generator) -> dict[str, list[Answer]]:
    """Return four predictors of each family, with random constants."""

    def apart(count: int) -> np.ndarray:
        ratios = rng.uniform(1.4, 1.9, count).cumprod()
        return np.asarray(rng.permutation(0.05 * ratios / ratios.max() * rng.uniform(0.5, 1)))

    return {
        "newton": [spectral(power(m)) for m in (2, 3, 8, 9)],
        "descent": [spectral(steps(np.full(m, rng.uniform(0.003, 0.03)))) for m in (1, 2, 3, 4)],
        "tuned": [spectral(steps(apart(m))) for m in (2, 3, 3, 4)],
        "ridge": [spectral(ridge(rho)) for rho in rng.uniform(0.5, 30, 4)],
        "false sample": [false_sample(c, 1.0) for c in rng.uniform(1, 1.5, 4)],
    }


def strangers(rng: np.random.Generator) -> list[Answer]:
    """Return predictors of no family: one that sees both ends of the spectrum, and one that minds large labels."""
    return [spectral(chebyshev(3)), tired_by_labels(ridge(rng.uniform(2, 10)), 200.0)]


def _parts(p: LinearPrompts) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues of R and squared parts of the query along the eigenvectors, both (B, d)."""
    x, _, query = _arrays(p)
    values, vectors = np.linalg.eigh(np.swapaxes(x, 1, 2) @ x / x.shape[1])
    return values, np.einsum("bij,bi->bj", vectors, query) ** 2


def loss(rule: Rule, p: LinearPrompts) -> float:
    """Return the mean squared error of a rule on noiseless prompts, in the mean over standard Gaussian weights."""
    values, shares = _parts(p)
    return float((shares * rule(values) ** 2).sum(axis=1).mean())


def best_steps(p: LinearPrompts, count: int) -> Rule:
    """Return the polynomial r of this degree, r(0) = 1, of least ``loss`` on ``p``: no gradient steps do better."""
    values, shares = _parts(p)
    top, root = values.max(), np.sqrt(shares.ravel())
    columns = np.stack([(values.ravel() / top) ** k for k in range(1, count + 1)], axis=1)
    found = np.linalg.lstsq(root[:, None] * columns, -root, rcond=None)[0]
    return lambda at: 1 + sum(c * (at / top) ** (k + 1) for k, c in enumerate(found))
