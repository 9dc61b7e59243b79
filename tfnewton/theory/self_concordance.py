"""Self-concordance of the regularised logistic loss: the sharp constant, and what it bounds.

f is self-concordant with constant M if |phi'''(0)| <= 2 M phi''(0)^(3/2) for phi(t) = f(x + t u), whatever x and u
(def:self-concordant); then M^2 f is standard self-concordant. For the logistic loss with rows of norm at most one
the smallest such M is ``sharp_constant(mu)``, and everything below is true for every ``constant`` from there on.
Norms are those of the Hessian at x: r = ||step||_H, H = hess f(x).

Shapes are those of ``algorithms.logistic_regression``: x, step, u (..., d), A (..., n, d), y (..., n). A row of
norm above one, mu <= 0 or a constant <= 0 raises ValueError.
"""

from __future__ import annotations

import math

import torch

from tfnewton import checks
from tfnewton.algorithms.logistic_regression import Problem, minimize, problem
from tfnewton.checks import Array
from tfnewton.damping import damping_constant
from tfnewton.theory.inequality import Inequality, compare

__all__ = [
    "dikin_boundary",
    "distance_bound",
    "extremal_margin",
    "function_bounds",
    "gap_bounds",
    "hessian_bounds",
    "local_constant",
    "mean_hessian_bounds",
    "omega",
    "omega_star",
    "printed_constant",
    "self_concordance",
    "sharp_constant",
    "standard_constant",
]

_SERIES_BELOW, _SERIES_TERMS = 0.03, 12  # omega(t) by its power series, where t - ln(1 + t) would cancel


def sharp_constant(mu: float) -> float:
    """Return 1 / (3 sqrt(3 mu) (1 + 4 mu)), the smallest M for which the loss is self-concordant on all data."""
    return damping_constant(mu, "sharp")


def standard_constant(mu: float) -> float:
    """Return 1 / (2 sqrt(mu)): the M with which f / (4 mu) = M^2 f is standard self-concordant."""
    return damping_constant(mu, "paper")


def printed_constant(mu: float) -> float:
    """Return 1 / sqrt(mu), the constant of prop:self-conc-constant; true, but it makes only f / mu standard."""
    return 1 / math.sqrt(checks.real("mu", mu, above=0.0))


def extremal_margin(mu: float) -> float:
    """Return the x > 0 where d = n = a = y = 1 attains ``sharp_constant``: p (1 - p) = 2 mu / (1 + 12 mu)."""
    mu = checks.real("mu", mu, above=0.0)
    root = math.sqrt((1 + 4 * mu) / (1 + 12 * mu))  # 1 - 2 p = tanh(x / 2)
    return 2 * math.log1p(root) - math.log(8 * mu / (1 + 12 * mu))  # 2 artanh(root) without cancellation


def omega(t: Array | float) -> Array:
    """Return t - ln(1 + t) for t > -1, to full relative accuracy (thm:constant-decrement)."""
    value = checks.tensor("t", t, ())
    if bool((value <= -1).any()):
        raise ValueError(f"t = {float(value.min()):g}: must be above -1")
    series = torch.zeros_like(value)
    for k in range(_SERIES_TERMS, 1, -1):
        series = 1 / k - value * series  # t^2 (1/2 - t/3 + t^2/4 - ...)
    direct = value - torch.log1p(value)
    return checks.like(torch.where(value.abs() < _SERIES_BELOW, series * value.square(), direct), t)


def omega_star(t: Array | float) -> Array:
    """Return -t - ln(1 - t) for t < 1 and infinity from there on (thm:constant-decrement)."""
    value = checks.tensor("t", t, ())
    inside = value < 1
    result = torch.as_tensor(omega(-torch.where(inside, value, 0.0)))
    return checks.like(torch.where(inside, result, math.inf), t)


def unit_problem(A: object, y: object, mu: object, *points: tuple[str, object]) -> tuple[Problem, list[torch.Tensor]]:
    """Validate like ``problem`` and refuse a row of norm above one (asm:bounded), naming it."""
    data, arrays = problem(A, y, mu, *points)
    norms = data.A.norm(dim=-1)
    if bool((norms > 1 + 8 * torch.finfo(norms.dtype).eps).any()):
        where = ", ".join(str(int(i)) for i in torch.nonzero(norms == norms.max())[0])
        longest = float(norms.max())
        raise ValueError(f"A has norm {longest:.6g} in row {where}: must be at most 1, so divide A by {longest:.6g}")
    return data, arrays


def _problem_and_constant(
    A: object, y: object, mu: object, constant: object, *points: tuple[str, object]
) -> tuple[Problem, list[torch.Tensor], float]:
    data, arrays = unit_problem(A, y, mu, *points)
    return data, arrays, checks.real("constant", constant, above=0.0)


def _norm(hessian: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return sqrt(v^T hessian v), (...)."""
    return (v * (hessian @ v.unsqueeze(-1)).squeeze(-1)).sum(dim=-1).clamp(min=0).sqrt()


def local_constant(x: Array, u: Array, A: Array, y: Array, mu: float) -> Array:
    """Return |phi'''(0)| / (2 phi''(0)^(3/2)), shape (...): the M that x in direction u != 0 needs."""
    data, (point, direction) = unit_problem(A, y, mu, ("x", x), ("u", u))
    if bool((direction == 0).all(dim=-1).any()):
        raise ValueError("u has a zero direction: must be non-zero")
    margins = data.y * (data.A @ point.unsqueeze(-1)).squeeze(-1)  # (..., n)
    along = data.y * (data.A @ direction.unsqueeze(-1)).squeeze(-1)
    weights = torch.sigmoid(margins) * torch.sigmoid(-margins)
    second = (weights * along.square()).mean(dim=-1) + data.mu * direction.square().sum(dim=-1)
    third = (weights * torch.tanh(margins / 2) * along**3).mean(dim=-1)
    return checks.like(third.abs() / (2 * second**1.5), x, u, A, y)


def self_concordance(x: Array, u: Array, A: Array, y: Array, mu: float, constant: float) -> Inequality:
    """Return |phi'''(0)| / (2 phi''(0)^(3/2)) <= constant (def:self-concordant)."""
    left = local_constant(x, u, A, y, mu)
    return Inequality(left, left * 0 + checks.real("constant", constant, above=0.0))


def function_bounds(
    x: Array, step: Array, A: Array, y: Array, mu: float, constant: float
) -> tuple[Inequality, Inequality]:
    """Return omega(M r) / M^2 <= f(x + step) - f(x) - grad f^T step <= omega_*(M r) / M^2 (thm:constant-decrement)."""
    data, (point, shift), M = _problem_and_constant(A, y, mu, constant, ("x", x), ("step", step))
    rise = data.loss(point + shift) - data.loss(point) - (data.gradient(point) * shift).sum(dim=-1)
    r = M * _norm(data.hessian(point), shift)
    lower, upper = (torch.as_tensor(function(r)) / M**2 for function in (omega, omega_star))
    return compare(lower, rise, x, step, A, y), compare(rise, upper, x, step, A, y)


def hessian_bounds(
    x: Array, step: Array, A: Array, y: Array, mu: float, constant: float
) -> tuple[Inequality, Inequality]:
    """Return (1 - M r)^2 H <= hess f(x + step) <= H / (1 - M r)^2, as eigenvalues (thm:cound-hessian).

    The sides are the least and the largest eigenvalue of H^(-1/2) hess f(x + step) H^(-1/2); nothing is claimed
    (0 and infinity) outside the Dikin ellipsoid M r < 1.
    """
    data, (point, shift), M = _problem_and_constant(A, y, mu, constant, ("x", x), ("step", step))
    hessian = data.hessian(point)
    room = (1 - M * _norm(hessian, shift)).clamp(min=0)
    least, largest = _relative_extremes(hessian, data.hessian(point + shift))
    return compare(room**2, least, x, step, A, y), compare(largest, 1 / room**2, x, step, A, y)


def mean_hessian_bounds(
    x: Array, step: Array, A: Array, y: Array, mu: float, constant: float
) -> tuple[Inequality, Inequality]:
    """Return (1 - M r + M^2 r^2 / 3) H <= mean Hessian from x to x + step <= H / (1 - M r) (cor:bound-hessian).

    As eigenvalues, like ``hessian_bounds``; the mean over the segment is taken in closed form.
    """
    data, (point, shift), M = _problem_and_constant(A, y, mu, constant, ("x", x), ("step", step))
    hessian = data.hessian(point)
    r = M * _norm(hessian, shift)
    lower = torch.where(r < 1, 1 - r + r**2 / 3, 0.0)
    upper = 1 / (1 - r).clamp(min=0)
    least, largest = _relative_extremes(hessian, mean_hessian(data, point, shift))
    return compare(lower, least, x, step, A, y), compare(largest, upper, x, step, A, y)


def mean_hessian(data: Problem, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Return the integral of hess f(x + s step) over s in [0, 1], shape (..., d, d).

    The mean of sigma' from z to z + w is (sigma(z + w) - sigma(z)) / w = sinhc(w/2) / (4 cosh(z/2) cosh((z+w)/2)).
    """
    start, change = ((data.A @ v.unsqueeze(-1)).squeeze(-1) for v in (x, step))  # (..., n)
    first, last = start / 2, (start + change) / 2
    half = change.abs() / 2
    tiny = half < 1e-4
    safe = torch.where(tiny, 1.0, half)
    # sinh(h) / h = e^h (1 - e^(-2h)) / (2 h); cosh(s) = e^|s| (1 + e^(-2|s|)) / 2: the exponentials are joined.
    sinhc = torch.where(tiny, (1 + half.square() / 6) * torch.exp(-half), -torch.expm1(-2 * safe) / (2 * safe))
    growth = torch.exp(half - first.abs() - last.abs())
    weights = sinhc * growth / ((1 + torch.exp(-2 * first.abs())) * (1 + torch.exp(-2 * last.abs())))
    identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return (data.A.mT * (weights / data.A.shape[-2]).unsqueeze(-2)) @ data.A + data.mu * identity


def _relative_extremes(base: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and largest eigenvalue of base^(-1/2) other base^(-1/2), each (...)."""
    factor = torch.linalg.cholesky(base)
    half = torch.linalg.solve_triangular(factor, other, upper=False)
    whitened = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    eigenvalues = torch.linalg.eigvalsh((whitened + whitened.mT) / 2)
    return eigenvalues[..., 0], eigenvalues[..., -1]


def gap_bounds(x: Array, A: Array, y: Array, mu: float, constant: float) -> tuple[Inequality, Inequality]:
    """Return omega(M lambda) / M^2 <= f(x) - min f <= omega_*(M lambda) / M^2 (thm:convergence to optimum).

    The upper side is infinite where M lambda >= 1; the lower one, which the paper leaves out, holds everywhere.
    """
    data, (point,), M = _problem_and_constant(A, y, mu, constant, ("x", x))
    gap = data.loss(point) - data.loss(torch.as_tensor(minimize(data.A, data.y, data.mu)))
    decrement = M * data.newton(point)[1]
    lower, upper = (torch.as_tensor(function(decrement)) / M**2 for function in (omega, omega_star))
    return compare(lower, gap, x, A, y), compare(gap, upper, x, A, y)


def distance_bound(x: Array, A: Array, y: Array, mu: float, constant: float) -> Inequality:
    """Return ||x - argmin f||_H <= lambda / (1 - M lambda), infinite where M lambda >= 1."""
    data, (point,), M = _problem_and_constant(A, y, mu, constant, ("x", x))
    distance = _norm(data.hessian(point), point - torch.as_tensor(minimize(data.A, data.y, data.mu)))
    decrement = data.newton(point)[1]
    bound = decrement / (1 - M * decrement).clamp(min=0)
    return compare(distance, bound, x, A, y)


def dikin_boundary(x: Array, directions: Array, A: Array, y: Array, mu: float, radius: float) -> Array:
    """Return the points of the Dikin ellipsoid's boundary, ||point - x||_H = radius, along directions (..., d).

    The ellipsoid of radius 1 / M is where ``hessian_bounds`` speaks; f itself is finite everywhere (thm:dikin).
    """
    data, (point, along) = unit_problem(A, y, mu, ("x", x), ("directions", directions))
    radius = checks.real("radius", radius, above=0.0)
    length = _norm(data.hessian(point), along).unsqueeze(-1)
    if bool((length == 0).any()):
        raise ValueError("directions has a zero direction: must be non-zero")
    return checks.like(point + radius * along / length, x, directions, A, y)
