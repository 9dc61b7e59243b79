"""How large gradients, Hessians and iterates get: the lemmas of appendix B, printed and corrected.

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
    "growth_example",
    "hessian_bounds",
    "iterate_radius",
    "minimizer_radius",
    "newton_point_radius",
    "norm_descent_radius",
    "printed_decrement_bounds",
    "printed_hessian_bounds",
]

_LARGEST_PULL = 0.27846454276107380  # max of m / (1 + e^m), Lambert's W(1/e): p m at the minimiser cannot exceed it


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


def newton_point_radius(mu: float) -> float:
    """Return 1 / mu: a full Newton step, from any x, lands strictly inside this radius.

    x - H^-1 grad f = H^-1 (1/n) sum_i (p_i + p_i (1 - p_i) m_i) y_i a_i, and the weight of each a_i lies in (0, 1).
    """
    return 1 / checks.real("mu", mu, above=0.0)


def minimizer_radius(mu: float) -> float:
    """Return min{sqrt(W(1/e) / mu), 1 / (2 mu)}, which bounds ||argmin f||; sqrt(W(1/e)) = 0.5277.

    The first is attained for mu <= 0.1704: d = n = 1 and a = m sqrt(mu / W(1/e)) with the margin m = 1 + W(1/e).
    """
    mu = checks.real("mu", mu, above=0.0)
    return min(math.sqrt(_LARGEST_PULL / mu), 1 / (2 * mu))


def iterate_radius(mu: float, error: float, start: float = 0.0) -> float:
    """Return max{start, (1 + 2 e (1 + mu) / (2 - e)) / mu}, which bounds every iterate of inexact damped Newton.

    Args:
        mu: above 0.
        error: e, the bound on every ||errors_t||_2, at least 0 and below 2.
        start: ||x_0||_2, at least 0.

    True for the damping factor of the paper and every larger one up to 1 (lem:norm_constraint, corrected). For an
    e of 2 or more there is no such radius: see ``growth_example``.
    """
    mu = checks.real("mu", mu, above=0.0)
    e = checks.real("error", error, minimum=0.0, below=2.0)
    return max(checks.real("start", start, minimum=0.0), (1 + 2 * e * (1 + mu) / (2 - e)) / mu)


def norm_descent_radius(mu: float) -> float:
    """Return a C with ||x'|| <= ||x|| for one step from ||x|| >= C under an error of norm mu^2 (lem:norm_descent).

    Raises ValueError for mu >= sqrt(2), where the printed lemma claims a C and none exists.
    """
    mu = checks.real("mu", mu, above=0.0, below=math.sqrt(2))
    return iterate_radius(mu, mu**2)


def growth_example(mu: float, steps: int, start: float = 1.0) -> list[float]:
    """Return ||x_0||, ..., ||x_steps|| for A = 0 and errors of norm mu^2 along x: r -> r - 2 r / (2 + r) + mu^2.

    For mu >= sqrt(2) this grows without bound, against lem:norm_descent and lem:norm_constraint.
    """
    mu = checks.real("mu", mu, above=0.0)
    norms = [checks.real("start", start, minimum=0.0)]
    for _ in range(checks.integer("steps", steps, minimum=0)):
        norms.append(norms[-1] - 2 * norms[-1] / (2 + norms[-1]) + mu**2)
    return norms


def _norm_and_mu(norm: object, mu: object) -> tuple[torch.Tensor, float]:
    r = checks.tensor("norm", norm, ())
    if bool((r < 0).any()):
        raise ValueError(f"norm = {float(r.min()):g}: must be at least 0")
    return r, checks.real("mu", mu, above=0.0)
