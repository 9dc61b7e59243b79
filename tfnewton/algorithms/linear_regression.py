"""Least squares three ways: directly, by Newton-Schulz on the normal equations, and by gradient descent."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tfnewton.algorithms.inversion import newton_schulz
from tfnewton.checks import Array, batch, integer, like, real, tensor
from tfnewton.scaling import (
    admissible_step,
    common_exponent,
    exponent,
    normal_exponent,
    normal_matrix,
    normal_ridge,
    rescaled,
    times_two_to,
)

__all__ = ["gradient_descent", "least_squares", "newton_least_squares"]


def least_squares(A: Array, y: Array, ridge: float = 0.0) -> Array:
    """Return the minimiser w of ||A w - y||^2 + ridge ||w||^2, by a singular value decomposition.

    Rank-deficient A without ridge gives the minimiser of smallest norm.

    Args:
        A: (n, d), leading batch axes allowed; n >= d, or ridge above 0. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        ridge: at least 0.

    Returns:
        w, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: eq:sol-linear; the ridge is the remark after thm:main_linear.
    """
    ridge = real("ridge", ridge, minimum=0.0)
    p = _problem(A, y, ridge)
    U, s, Vh = torch.linalg.svd(p.A, full_matrices=False)
    cutoff = max(p.A.shape[-2:]) * torch.finfo(s.dtype).eps * s[..., :1]
    penalty = normal_ridge(ridge, p.scale, s)[..., None]
    inverse = torch.where(s > cutoff, s / (s**2 + penalty), torch.zeros_like(s))
    return like(p.weights(_apply(Vh.mT, inverse * _apply(U.mT, p.y))), A, y)


def newton_least_squares(A: Array, y: Array, steps: int, step_size: float, order: int = 2, ridge: float = 0.0) -> Array:
    """Return w_T = X_T A^T y, X_T after T steps of ``newton_schulz`` on R = A^T A + ridge I from step_size R.

    The prediction of thm:main_linear at a_test is a_test^T w_T. Roundoff in w_T is of the order of kappa(R) times
    machine precision. When R is singular, more steps than convergence needs let it grow by the factor ``order`` a step.

    Args:
        A: (n, d), leading batch axes allowed; n >= d, or ridge above 0. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        steps: T, at least 0.
        step_size: inside (0, 2 / lambda_max(R)^2), for each matrix of the batch.
        order: p of the step, at least 2.
        ridge: at least 0.

    Returns:
        w_T, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: thm:main_linear (order 2) and the remark after it (ridge); eq:high_order_newton.
    """
    ridge = real("ridge", ridge, minimum=0.0)
    p = _problem(A, y, ridge)
    R = normal_matrix(p.A, ridge, p.scale)  # (d, d)
    step = admissible_step("step_size", step_size, R, p.scale, 2, "A^T A" if ridge == 0.0 else "A^T A + ridge I")
    X = newton_schulz(R, steps, order, X0=step[..., None, None] * R)
    # ``newton_schulz`` rounds R X: its X is off by X D, |D| ~ u kappa(R). Read from the right this is w^T D, from the
    # left X D R w, larger by kappa(R).
    return like(p.weights(_apply(torch.as_tensor(X).mT, _apply(p.A.mT, p.y))), A, y)


def gradient_descent(A: Array, y: Array, steps: int, learning_rate: float, w0: Array | None = None) -> Array:
    """Return w after ``steps`` steps w <- w + learning_rate A^T (y - A w) on ||A w - y||^2 / 2.

    Args:
        A: (n, d) with n >= d, leading batch axes allowed. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        steps: at least 0.
        learning_rate: inside (0, 2 / lambda_max(A^T A)), for each matrix of the batch.
        w0: (d,), the starting point, zero by default.

    Returns:
        w, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: the gradient step of the remark on memory after thm:main_linear, with its sign corrected.
    """
    integer("steps", steps, minimum=0)
    p = _problem(A, y, 0.0, w0)
    R = normal_matrix(p.A, 0.0, p.scale)
    step = admissible_step("learning_rate", learning_rate, R, p.scale, 1, "A^T A")[..., None]
    w = p.start
    for _ in range(steps):
        w = w + step * _apply(p.A.mT, p.y - _apply(p.A, w))
    return like(p.weights(w), A, y, w0)


class _Problem(NamedTuple):
    """The data over powers of two that bring them near one: A 2^-k, y 2^-m and w0 2^(k-m)."""

    A: Tensor
    y: Tensor
    start: Tensor
    scale: Tensor  # k
    target_scale: Tensor  # m

    def weights(self, w: Tensor) -> Tensor:
        """Return w for the data as they were given."""
        return rescaled("w", w, self.target_scale - self.scale, 1, "A and y must not differ so much in scale")


def _problem(A: Array, y: Array, ridge: float, w0: Array | None = None) -> _Problem:
    sizes: dict[str, int] = {}
    data = tensor("A", A, ("n", "d"), sizes)
    dtype, device = data.dtype, data.device
    target = tensor("y", y, ("n",), sizes, dtype=dtype, device=device)
    if sizes["n"] < sizes["d"] and ridge == 0.0:
        raise ValueError(
            f"A has n = {sizes['n']} rows and d = {sizes['d']} columns: must have n >= d, or a ridge above 0"
        )
    start = data.new_zeros(sizes["d"]) if w0 is None else tensor("w0", w0, ("d",), sizes, dtype=dtype, device=device)
    batch(A=data.shape[:-2], y=target.shape[:-1], w0=start.shape[:-1])
    k = normal_exponent(data, ridge)
    present = (target != 0).any(dim=-1), (start != 0).any(dim=-1)
    m = common_exponent((present[0], exponent(target, 1)), (present[1], exponent(start, 1) + k))
    unit, unit_target = times_two_to(data, -k, 2), times_two_to(target, -m, 1)
    return _Problem(unit, unit_target, times_two_to(start, k - m, 1), k, m)


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (vector[..., None, :] @ matrix.mT)[..., 0, :]  # rows: many vectors and one matrix are a single product
