"""How large gradients, Hessians and decrements get: the lemmas of appendix B, printed and corrected.

All for rows of norm at most one (asm:bounded) and mu > 0. ``norm`` is ||x||_2, a float or an array of values >= 0;
lambda_f is the Newton decrement. Values out of range raise ValueError.
"""

from __future__ import annotations

import math

import torch

from tfnewton import checks
from tfnewton.checks import Array
from tfnewton.theory.inequality import Inequality, compare
from tfnewton.theory.self_concordance import unit_problem

__all__ = [
    "decrement_bounds",
    "derivative_bounds",
    "gradient_bounds",
    "hessian_bounds",
    "printed_decrement_bounds",
    "printed_hessian_bounds",
]


def gradient_bounds(norm: Array | float, mu: float) -> tuple[Array, Array]:
    """Return (max(mu norm - 1, 0), 1 + mu norm), which enclose ||grad f(x)||_2 (cor:gradient-bounds)."""
    r, mu = _norm_and_mu(norm, mu)
    return checks.like((mu * r - 1).clamp(min=0), norm), checks.like(1 + mu * r, norm)


def hessian_bounds(mu: float) -> tuple[float, float]:
    """Return (mu, mu + 1/4), which enclose every eigenvalue of hess f, because p (1 - p) <= 1/4."""
    mu = checks.real("mu", mu, above=0.0)
    return mu, mu + 0.25


def printed_hessian_bounds(mu: float) -> tuple[float, float]:
    """Return (mu, 1 + mu), the bounds of cor:gradient-bounds; true, four times loose at small mu."""
    mu = checks.real("mu", mu, above=0.0)
    return mu, 1 + mu


def decrement_bounds(norm: Array | float, mu: float) -> tuple[Array, Array]:
    """Return (max(mu norm - 1, 0) / sqrt(mu + 1/4), (1 + mu norm) / sqrt(mu)), which enclose lambda_f(x)."""
    (least, largest), (low, high) = gradient_bounds(norm, mu), hessian_bounds(mu)
    return least / math.sqrt(high), largest / math.sqrt(low)


def printed_decrement_bounds(norm: Array | float, mu: float) -> tuple[Array, Array]:
    """Return ((mu norm - 1) / sqrt(1 + mu), (1 + mu norm) / (2 sqrt(mu))) as in cor:gradient-bounds.

    The upper one is false for lambda_f: with A = 0, lambda_f = sqrt(mu) norm exceeds it once mu norm > 1.
    Divided by 2 sqrt(mu) as well it would be a true bound, of lambda_g with g = f / (4 mu).
    """
    r, mu = _norm_and_mu(norm, mu)
    return checks.like((mu * r - 1) / math.sqrt(1 + mu), norm), checks.like((1 + mu * r) / (2 * math.sqrt(mu)), norm)


def derivative_bounds(x: Array, A: Array, y: Array, mu: float) -> dict[str, Inequality]:
    """Return the six inequalities of ``gradient_bounds``, ``hessian_bounds`` and ``decrement_bounds`` on data.

    Keys are "gradient", "hessian" and "decrement" with " below" or " above"; shapes (...) each.
    """
    data, (point,) = unit_problem(A, y, mu, ("x", x))
    norm, eigenvalues = point.norm(dim=-1), torch.linalg.eigvalsh(data.hessian(point))
    low, high = (torch.full_like(norm, bound) for bound in hessian_bounds(data.mu))
    values = {
        "gradient": (data.gradient(point).norm(dim=-1),) * 2,
        "hessian": (eigenvalues[..., 0], eigenvalues[..., -1]),
        "decrement": (data.newton(point)[1],) * 2,
    }
    bounds = {
        "gradient": gradient_bounds(norm, data.mu),
        "hessian": (low, high),
        "decrement": decrement_bounds(norm, data.mu),
    }
    result = {}
    for name, (least, largest) in values.items():
        lower, upper = (torch.as_tensor(bound) for bound in bounds[name])
        result[f"{name} below"] = compare(lower, least, x, A, y)
        result[f"{name} above"] = compare(largest, upper, x, A, y)
    return result


def _norm_and_mu(norm: object, mu: object) -> tuple[torch.Tensor, float]:
    r = checks.tensor("norm", norm, ())
    if bool((r < 0).any()):
        raise ValueError(f"norm = {float(r.min()):g}: must be at least 0")
    return r, checks.real("mu", mu, above=0.0)
