"""Least squares directly, by Newton-Schulz on the normal equations, and by iterations that take a step a product.

The latter, with residuals rho(R) of the weights from w0, R = A^T A: gradient descent, (1 - eta R)^T; GD++, a product
of L factors whose degree is (3^L - 1)/2; Chebyshev's iteration, the least polynomial of degree T on an interval; and
conjugate gradients, the best one of degree T for the prompt at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tfnewton.algorithms.inversion import newton_schulz
from tfnewton.algorithms.normal_equations import apply, in_units, scaled_problem
from tfnewton.checks import Array, batch, integer, like, real, tensor
from tfnewton.scaling import admissible_step, normal_matrix, normal_ridge, times_two_to

__all__ = [
    "chebyshev_iteration",
    "conjugate_gradients",
    "gradient_descent",
    "gradient_descent_plus_plus",
    "least_squares",
    "newton_least_squares",
]


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
    p = scaled_problem(A, y, ridge)
    U, s, Vh = torch.linalg.svd(p.A, full_matrices=False)
    cutoff = max(p.A.shape[-2:]) * torch.finfo(s.dtype).eps * s[..., :1]
    penalty = normal_ridge(ridge, p.scale, s)[..., None]
    inverse = torch.where(s > cutoff, s / (s**2 + penalty), torch.zeros_like(s))
    return like(p.weights(apply(Vh.mT, inverse * apply(U.mT, p.y))), A, y)


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
    p = scaled_problem(A, y, ridge)
    R = normal_matrix(p.A, ridge, p.scale)  # (d, d)
    step = admissible_step("step_size", step_size, R, p.scale, 2, "A^T A" if ridge == 0.0 else "A^T A + ridge I")
    X = newton_schulz(R, steps, order, X0=step[..., None, None] * R)
    # ``newton_schulz`` rounds R X: its X is off by X D, |D| ~ u kappa(R). Read from the right this is w^T D, from the
    # left X D R w, larger by kappa(R).
    return like(p.weights(apply(torch.as_tensor(X).mT, apply(p.A.mT, p.y))), A, y)


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
    p = scaled_problem(A, y, 0.0, w0)
    R = normal_matrix(p.A, 0.0, p.scale)
    step = admissible_step("learning_rate", learning_rate, R, p.scale, 1, "A^T A")[..., None]
    w = p.start
    for _ in range(steps):
        w = w + step * apply(p.A.mT, p.y - apply(p.A, w))
    return like(p.weights(w), A, y, w0)


def gradient_descent_plus_plus(
    A: Array, y: Array, learning_rates: Sequence[float], curvatures: Sequence[float]
) -> Array:
    """Return w after L steps of GD++ from zero: gradient steps between which the points are transformed, too.

    Step l: w <- w + eta_l Q A_l^T (y - A w), then A_l <- A_l (I - gamma_l A_l^T A_l) and Q likewise, from A_1 = A and
    Q = I. With R_1 = A^T A and R_{l+1} = R_l (I - gamma_l R_l)^2 the weights' residual is the product of I - eta_l R_l.

    Args:
        A: (n, d) with n >= d, leading batch axes allowed. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        learning_rates: eta_1, ..., eta_L, finite; none is no step.
        curvatures: gamma_1, ..., gamma_{L-1}: after the last step there is nothing to transform for.

    Returns:
        w, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges, or a result that is not finite.

    Source: von Oswald et al. (2023), section on GD++, with scalars of its own for each layer.
    """
    if len(curvatures) != max(0, len(learning_rates) - 1):
        raise ValueError(
            f"curvatures has {len(curvatures)} entries: must have one less than learning_rates, {len(learning_rates)}"
        )
    p = scaled_problem(A, y, 0.0)
    rates = [in_units(p, f"learning_rates[{i}]", rate) for i, rate in enumerate(learning_rates)]
    bends = [in_units(p, f"curvatures[{i}]", bend) for i, bend in enumerate(curvatures)]
    identity = torch.eye(p.A.shape[-1], dtype=p.A.dtype, device=p.A.device)
    w, points, Q = p.start, p.A, identity
    for i, rate in enumerate(rates):
        w = w + rate * apply(Q, apply(points.mT, p.y - apply(p.A, w)))
        if i < len(bends):
            bent = identity - bends[i][..., None] * (points.mT @ points)
            points, Q = points @ bent, Q @ bent
    return like(p.weights(w), A, y)


def chebyshev_iteration(A: Array, y: Array, steps: int, interval: Array) -> Array:
    """Return w after ``steps`` steps of Chebyshev's iteration from zero: the residual is T_k(t(R)) / T_k(t(0)).

    T_k is Chebyshev's polynomial and t the affine map of ``interval`` onto [1, -1]. Of all polynomials of degree k that
    are 1 at 0 it is the least in size on the interval. It converges where all nonzero eigenvalues of R = A^T A are
    below the sum of the two ends.

    Args:
        A: (n, d) with n >= d, leading batch axes allowed. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        steps: k, at least 0.
        interval: (2,), 0 < low < high, with batch axes that broadcast with those of A: where R is said to have its
            eigenvalues.

    Returns:
        w, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges, or a result that is not finite.

    Source: Saad (2003), Iterative Methods for Sparse Linear Systems, algorithm 12.1.
    """
    integer("steps", steps, minimum=0)
    p = scaled_problem(A, y, 0.0)
    ends = tensor("interval", interval, (2,), dtype=torch.float64, device=p.A.device)
    if not ((ends[..., 0] > 0.0) & (ends[..., 0] < ends[..., 1])).all():
        raise ValueError(f"interval = {ends.tolist()}: must have 0 < low < high")
    batch(A=p.A.shape[:-2], y=p.y.shape[:-1], interval=ends.shape[:-1])
    ends = times_two_to(ends, -2 * p.scale, 1)
    low, high = ends[..., :1], ends[..., 1:]
    middle, half = ((high + low) / 2).to(p.A), ((high - low) / 2).to(p.A)
    ratio, share = middle / half, half / middle
    w, step = p.start, apply(p.A.mT, p.y) / middle
    for _ in range(steps):
        w = w + step
        following = 1.0 / (2.0 * ratio - share)
        step = following * (share * step + 2.0 / half * apply(p.A.mT, p.y - apply(p.A, w)))
        share = following
    return like(p.weights(w), A, y, interval)


def conjugate_gradients(A: Array, y: Array, steps: int) -> Array:
    """Return w after ``steps`` steps of conjugate gradients on A^T A w = A^T y from zero.

    The best that a polynomial of degree ``steps`` in A^T A can do on these data, by ||A (w - w*)||, w* least squares;
    d steps give w* but for roundoff. Where the gradient has become zero it stays there.

    Args:
        A: (n, d) with n >= d, leading batch axes allowed. Its dtype is that of the computation.
        y: (n,), with batch axes that broadcast with those of A.
        steps: at least 0.

    Returns:
        w, (d,), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: Hestenes and Stiefel (1952), in the form for least squares (CGLS).
    """
    integer("steps", steps, minimum=0)
    p = scaled_problem(A, y, 0.0)
    w, residual = p.start, p.y
    slope = direction = apply(p.A.mT, residual)
    size = slope.square().sum(dim=-1, keepdim=True)
    for _ in range(steps):
        along = apply(p.A, direction)
        length = _over(size, along.square().sum(dim=-1, keepdim=True))
        w, residual = w + length * direction, residual - length * along
        slope = apply(p.A.mT, residual)
        before, size = size, slope.square().sum(dim=-1, keepdim=True)
        direction = slope + _over(size, before) * direction
    return like(p.weights(w), A, y)


def _over(above: Tensor, below: Tensor) -> Tensor:
    """Return the quotient, zero where ``below`` is."""
    return torch.where(below > 0.0, above / below, 0.0)
