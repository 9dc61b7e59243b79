"""Least squares three ways: directly, by Newton-Schulz on the normal equations, and by gradient descent."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tfnewton.algorithms.inversion import newton_schulz
from tfnewton.checks import Array, batch, integer, like, real, tensor

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
    data, target = _data(A, y, ridge)
    U, s, Vh = torch.linalg.svd(data, full_matrices=False)
    cutoff = max(data.shape[-2:]) * torch.finfo(s.dtype).eps * s[..., :1]
    inverse = torch.where(s > cutoff, s / (s**2 + ridge), torch.zeros_like(s))
    return like(_apply(Vh.mT, inverse * _apply(U.mT, target)), A, y)


def newton_least_squares(A: Array, y: Array, steps: int, step_size: float, order: int = 2, ridge: float = 0.0) -> Array:
    """Return w_T = X_T A^T y, X_T after T steps of ``newton_schulz`` on R = A^T A + ridge I from step_size R.

    The prediction of thm:main_linear at a_test is a_test^T w_T. When R is singular, more steps than convergence
    needs let roundoff grow by the factor ``order`` a step.

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
    data, target = _data(A, y, ridge)
    R = data.mT @ data + ridge * torch.eye(data.shape[-1], dtype=data.dtype, device=data.device)  # (d, d)
    _check_step("step_size", step_size, R, power=2)
    X = newton_schulz(R, steps, order, X0=step_size * R)
    return like(_apply(torch.as_tensor(X), _apply(data.mT, target)), A, y)


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
    data, target = _data(A, y, ridge=0.0)
    _check_step("learning_rate", learning_rate, data.mT @ data, power=1)
    if w0 is None:
        w = torch.zeros_like(data[..., 0, :])
    else:
        w = tensor("w0", w0, (data.shape[-1],), dtype=data.dtype, device=data.device).clone()
    batch(A=data.shape[:-2], y=target.shape[:-1], w0=w.shape[:-1])
    for _ in range(steps):
        w = w + learning_rate * _apply(data.mT, target - _apply(data, w))
    return like(w, A, y, w0)


def _data(A: Array, y: Array, ridge: float) -> tuple[Tensor, Tensor]:
    sizes: dict[str, int] = {}
    data = tensor("A", A, ("n", "d"), sizes)
    target = tensor("y", y, ("n",), sizes, dtype=data.dtype, device=data.device)
    if sizes["n"] < sizes["d"] and ridge == 0.0:
        raise ValueError(
            f"A has n = {sizes['n']} rows and d = {sizes['d']} columns: must have n >= d, or a ridge above 0"
        )
    batch(A=data.shape[:-2], y=target.shape[:-1])
    return data, target


def _check_step(name: str, value: float, R: Tensor, power: int) -> None:
    step = real(name, value, above=0.0)
    top = torch.linalg.eigvalsh(R.double())[..., -1].max().item()
    limit = 2.0 * top**-power if top > 0.0 else math.inf  # a negative power underflows where a positive one overflows
    if step >= limit:
        exponent = "" if power == 1 else f"^{power}"
        raise ValueError(
            f"{name} = {step:g}: must lie in (0, 2/lambda_max{exponent}) = (0, {limit:.4g}) for these data, "
            f"whose lambda_max is {top:.4g}"
        )


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (vector[..., None, :] @ matrix.mT)[..., 0, :]  # rows: many vectors and one matrix are a single product
