"""What checks of matrices and of predicted numbers share: random matrices, norms, and quiet."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grading.marks import observe

__all__ = ["Real", "Student", "matrix", "number", "quietly", "residual", "same", "spectral"]

Real = NDArray[Any]
Student = Callable[..., Any]


def quietly(check: Callable[..., float]) -> Callable[..., float]:
    """Give a check its own random numbers in place of the variant, the last argument, and keep warnings from stderr.

    nbgrader takes whatever a graded cell writes to stderr for an error.
    """

    @wraps(check)
    def quiet(*arguments: Any) -> float:
        *submitted, variant = arguments
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return check(*submitted, np.random.default_rng([variant, 1000]))

    return quiet


def number(found: object, what: str) -> float:
    """Return a submitted number as a float, or refuse what is none."""
    right = isinstance(found, (int, float, np.integer, np.floating)) and not isinstance(found, bool)
    observe(right, f"{what} is a {type(found).__name__}, not a number")
    return float(found)  # type: ignore[arg-type]


def spectral(M: Real) -> float:
    """Return the spectral norm, infinite if an entry is not finite."""
    return float(np.linalg.norm(M, 2)) if np.isfinite(M).all() else np.inf


def same(found: Real, truth: Real, what: str) -> None:
    """Refuse a matrix that is not ``truth``, but for roundoff."""
    observe(found.shape == truth.shape, f"{what} has the shape {found.shape}")
    apart = spectral(found - truth) / max(spectral(truth), 1.0)
    observe(apart < 1e-8, f"{what} is off by {apart:.2g}")


def matrix(kappa: float, d: int, rng: np.random.Generator) -> Real:
    """Return a (d, d) matrix with this condition number, random singular vectors and a norm from 0.5 to 2."""
    left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return np.asarray(rng.uniform(0.5, 2.0) * left * np.geomspace(1.0, 1.0 / kappa, d) @ right.T)


def residual(A: Real, X: Real) -> float:
    """Return the norm of I - A X, in float64."""
    return spectral(np.eye(len(A)) - A.astype(float) @ X.astype(float))
