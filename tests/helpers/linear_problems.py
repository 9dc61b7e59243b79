"""Matrices, regression data and the plain iterations that the linear constructions are held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

TRUTH: dict[str, Any] = json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text())


def truth_matrix(d: int, kind: str) -> np.ndarray:
    A = np.sin(1 + np.arange(d)[:, None] * d + np.arange(d)) + 2 * np.eye(d)
    return np.asarray((A + A.T) / 2 if kind == "sym" else A)


def truth_regression() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    row, column = np.arange(6)[:, None], np.arange(2)
    return np.sin((row + 1) * (column + 1) + column), np.cos(np.arange(6)), 1 / (1 + column)


def orthonormal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


def matrix(d: int, kappa: float, rng: np.random.Generator, scale: float = 1.0, rows: int | None = None) -> np.ndarray:
    """(rows, d) with singular values from ``scale`` down to ``scale / kappa``."""
    values = scale * np.geomspace(1.0, 1.0 / kappa, d)
    return np.asarray(orthonormal(rng, d if rows is None else rows, d) * values @ orthonormal(rng, d, d).T)


def symmetric(d: int, kappa: float, rng: np.random.Generator, scale: float = 1.0) -> np.ndarray:
    """Symmetric and indefinite, with eigenvalues of both signs of these sizes."""
    Q = orthonormal(rng, d, d)
    S = Q * (scale * np.geomspace(1.0, 1.0 / kappa, d) * rng.choice([-1.0, 1.0], d)) @ Q.T
    return np.asarray((S + S.T) / 2)


def newton_schulz(A: np.ndarray, X: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        X = 2 * X - X @ (A @ X)
    return X


def gradient_descent(A: np.ndarray, y: np.ndarray, w: np.ndarray, steps: int, rate: float) -> np.ndarray:
    for _ in range(steps):
        w = w + rate * A.T @ (y - A @ w)
    return w


def norm(X: np.ndarray) -> float:
    """Spectral norm of a matrix, Euclidean norm of a vector."""
    return float(np.linalg.norm(X, 2))


def regression_inputs(d: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A of condition number ten and norm one, y and a_test."""
    return matrix(d, 10.0, rng, rows=n), rng.standard_normal(n), rng.standard_normal(d)
