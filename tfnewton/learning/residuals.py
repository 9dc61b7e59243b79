"""Residuals along the eigenvectors of R = A^T A / n: how large they are, and what they are functions of.

An algorithm that answers u^T x_query with u = g(R) w leaves the residual r(lambda) = 1 - g(lambda) of the weights along
an eigenvector, and errs by the sum of -q_i r(lambda_i) w_i, with q_i and w_i the parts of query and weights along it.
Newton's iteration and gradient descent from I / lambda_max leave powers of 1 - lambda / lambda_max.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tfnewton.checks import integer, real
from tfnewton.learning.probes import best_fixed_residual
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

__all__ = [
    "REACH",
    "Parts",
    "Residual",
    "best_fixed",
    "chebyshev",
    "error",
    "parts",
    "power",
    "rms",
    "sign_changes",
    "similarity",
    "training_eigenvalues",
    "unexplained",
    "within",
]

Residual: TypeAlias = Callable[[np.ndarray], np.ndarray]  # of eigenvalues
REACH = 150.0  # lambda_max of R: beyond it training prompts are rare


class Parts(NamedTuple):
    """Of prompts along the eigenvectors of R: eigenvalues, ascending, and parts of query and weights; all (B, d)."""

    eigenvalues: np.ndarray
    query: np.ndarray
    weights: np.ndarray


def parts(prompts: LinearPrompts) -> Parts:
    """Return eigenvalues and parts of ``prompts``, in float64."""
    x = prompts.x.double()
    eigenvalues, vectors = torch.linalg.eigh(x.mT @ x / x.shape[1])
    query, w = (torch.einsum("bij,bi->bj", vectors, part.double()) for part in (prompts.x_query, prompts.w))
    return Parts(eigenvalues.numpy(), query.numpy(), w.numpy())


def within(prompts: LinearPrompts, reach: float = REACH) -> Tensor:
    """Return which prompts have lambda_max below ``reach``, (B,)."""
    x = prompts.x.double()
    largest: Tensor = torch.linalg.matrix_norm(x, ord=2) ** 2 / x.shape[1]
    return largest < real("reach", reach, above=0.0)


def power(eigenvalues: np.ndarray, exponent: int) -> np.ndarray:
    """Return (1 - lambda / lambda_max)^exponent, (B, d): residuals of gradient descent after ``exponent`` steps.

    Newton's iteration of order p from I / lambda_max leaves them after k steps, with the exponent p^k.
    """
    integer("exponent", exponent, minimum=0)
    base: np.ndarray = 1.0 - eigenvalues / eigenvalues[:, -1:]
    return base**exponent


def chebyshev(eigenvalues: np.ndarray, degree: int) -> np.ndarray:
    """Return the residuals, (B, d), of the polynomial of ``degree`` that keeps the largest one of each prompt small.

    It is told the ends of each spectrum, the first and the last of ``eigenvalues``, which ascend; no polynomial of this
    degree has a smaller largest residual on the interval between them. Of a single point it leaves next to nothing.
    """
    integer("degree", degree, minimum=1)
    least, top = eigenvalues[:, :1], eigenvalues[:, -1:]
    width = np.maximum(top - least, 1e-12 * top)
    at = np.clip((top + least - 2.0 * eigenvalues) / width, -1.0, 1.0)
    size = np.minimum(degree * np.arccosh((top + least) / width), 700.0)  # T_degree at 0 is its hyperbolic cosine
    residuals: np.ndarray = np.cos(degree * np.arccos(at)) / np.cosh(size)
    return residuals


def training_eigenvalues(count: int = 3000, reach: float = REACH) -> np.ndarray:
    """Return the eigenvalues of R of ``count`` prompts like those of training, less the prompts beyond ``reach``.

    They are drawn as training draws, without noise at a condition number of 10, from a stream of their own; (points,).
    """
    prompts = LinearRegression().sample(generator(0, "training spectrum"), integer("count", count, minimum=1))
    x = prompts.x[within(prompts, reach)].double()
    found: np.ndarray = torch.linalg.eigvalsh(x.mT @ x / x.shape[1]).numpy().ravel()
    return found


def best_fixed(degree: int, fitted_to: np.ndarray) -> Residual:
    """Return ``best_fixed_residual`` as a function of eigenvalues of any shape."""
    residual = best_fixed_residual(fitted_to, degree)
    return lambda eigenvalues: residual(eigenvalues.ravel()).reshape(eigenvalues.shape)


def error(of: Parts, residuals: np.ndarray) -> np.ndarray:
    """Return the errors, (B,), answer less target, of an algorithm that leaves ``residuals``, (B, d)."""
    errors: np.ndarray = -(of.query * residuals * of.weights).sum(axis=1)
    return errors


def rms(eigenvalues: np.ndarray, residuals: np.ndarray) -> float:
    """Return the root mean square of ``residuals``, weighted by lambda as the loss weighs them; both of one shape."""
    size: float = np.sqrt((eigenvalues * residuals**2).sum() / eigenvalues.sum())
    return float(size)


def unexplained(key: np.ndarray, eigenvalues: np.ndarray, residuals: np.ndarray, bins: int = 50) -> float:
    """Return the fraction of the variance of ``residuals`` that is left within ``bins`` bins of equal count of ``key``.

    It is near zero for a smooth function of ``key``, and near one for what ``key`` says nothing of. All arrays have one
    shape; variances are weighted by lambda.
    """
    integer("bins", bins, minimum=1)
    order = np.argsort(key, axis=None, kind="stable")
    r, weight = residuals.ravel()[order], eigenvalues.ravel()[order]

    def spread(r: np.ndarray, weight: np.ndarray) -> float:
        return float((weight * (r - np.average(r, weights=weight)) ** 2).sum())

    pieces = zip(np.array_split(r, bins), np.array_split(weight, bins), strict=True)
    return sum(spread(*piece) for piece in pieces if len(piece[0])) / spread(r, weight)


def sign_changes(residuals: np.ndarray, leakage: np.ndarray) -> np.ndarray:
    """Return the sign changes along the spectrum of each prompt, (B,), of residuals larger than their leakage.

    Both are (B, d), by ascending eigenvalue.
    """
    clear = (row[np.abs(row) > leak] for row, leak in zip(residuals, leakage, strict=True))
    return np.array([(row[1:] * row[:-1] < 0.0).sum() for row in clear])


def similarity(first: np.ndarray, second: np.ndarray) -> float:
    """Return the cosine between the errors of two algorithms on the same prompts, both (B,).

    Raises ValueError where one of them makes no errors.
    """
    directions = []
    for errors in (first, second):
        largest = np.abs(errors).max()
        if largest == 0.0:
            raise ValueError("errors are all zero: they point nowhere; must be of an algorithm that errs")
        scaled = np.asarray(errors, dtype=np.float64) / largest
        directions.append(scaled / np.linalg.norm(scaled))
    return float(directions[0] @ directions[1])
