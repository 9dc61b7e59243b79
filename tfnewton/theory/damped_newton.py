"""One step of inexact damped Newton: how far the loss falls, and what becomes of the Newton decrement.

Everything is in standard scaling: g = M^2 f with any constant M from ``self_concordance.sharp_constant(mu)`` on
(the paper's g = f / (4 mu) is M = 1 / (2 sqrt(mu))), G = hess g, lambda = lambda_g = M lambda_f, and
s = ||eps||_G for the error of the step

    x+ = x - (hess f)^-1 grad f / (1 + lambda) + eps,        theta = (1 + lambda) s.

delta = ||x+ - x||_G is the length of the step and ell = lambda / (1 + lambda) that of an exact one, so that
|ell - s| <= delta <= ell + s.
``decrement`` stands for lambda and ``error`` for s: floats or arrays of values >= 0 that broadcast. Values out of
range raise ValueError. The two phases of the paper's proof meet at lambda = 1/6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from tfnewton import checks
from tfnewton.algorithms.logistic_regression import minimize
from tfnewton.checks import Array
from tfnewton.theory.inequality import Inequality, compare
from tfnewton.theory.phases import PHASE_TWO_BELOW, PHASE_TWO_ERROR
from tfnewton.theory.self_concordance import omega, omega_star, unit_problem

__all__ = [
    "DECREASING_BELOW",
    "Example",
    "cycle_example",
    "decrease_bound",
    "decrement_bound",
    "increase_example",
    "phase_one_decrease",
    "phase_one_steps",
    "printed_decrease",
    "printed_decrement_bound",
    "quadratic_bound",
    "step_bounds",
]

DECREASING_BELOW = (math.sqrt(5) - 1) / 2  # an exact step lowers lambda from here on: lambda (2 + lambda) < 1 + lambda


def decrease_bound(decrement: Array | float, error: Array | float = 0.0) -> Array:
    """Return omega(lambda) - omega_*(theta), at most g(x) - g(x+); minus infinity where theta >= 1 (phase I).

    At least 0.01 for lambda >= 1/6 and theta <= 0.06926: this replaces the plots of app:auxiliary-constant-decrease.
    """
    lam, s = _decrement_and_error(decrement, error)
    bound = torch.as_tensor(omega(lam)) - torch.as_tensor(omega_star((1 + lam) * s))
    return checks.like(bound, decrement, error)


def printed_decrease(decrement: Array | float, slope: Array | float, error: Array | float) -> Array:
    """Return -h(lambda), the decrease that the proof of thm:convergence-of-approximate-updates promises.

    h takes c = eps^T grad g for ``slope`` and applies omega_* to delta^2 where delta is due. The error's part of
    delta^2 is read here as c' = s^2 = eps^T G eps, in its favour: printed is eps^T G^-1 eps. It promises too much even
    so: with A = 0 and x = 0, g rises by s^2 / 2 and the promise is a rise of about s^4 / 2 at most.
    """
    lam, s = _decrement_and_error(decrement, error)
    c = checks.tensor("slope", slope, (), dtype=lam.dtype)
    squared = (lam / (1 + lam)).square() - 2 * c / (1 + lam) + s.square()
    promised = lam.square() / (1 + lam) - c - torch.as_tensor(omega_star(squared))
    return checks.like(promised, decrement, slope, error)


def decrement_bound(decrement: Array | float, error: Array | float = 0.0) -> Array:
    """Return a bound on lambda(x+): (lambda w + (1 + lambda)^2 s / (1 - theta)) / (1 - theta) (phase II).

    w = max(lambda + ell + s, (1 + lambda) theta / (1 - theta)). Infinite where theta >= 1;
    lambda^2 (2 + lambda) / (1 + lambda) for an exact step.
    """
    lam, s = _decrement_and_error(decrement, error)
    theta = (1 + lam) * s
    room = (1 - theta).clamp(min=0)
    spread = torch.maximum(lam + lam / (1 + lam) + s, (1 + lam) * theta / room)
    bound = (lam * spread + (1 + lam) ** 2 * s / room) / room
    return checks.like(torch.where(theta < 1, bound, math.inf), decrement, error)


def quadratic_bound(decrement: Array | float, error: Array | float = 0.0) -> Array:
    """Return 2 lambda^2 + 1.75 s, a bound on lambda(x+) for lambda <= 1/6 and s <= 0.02, and infinity beyond."""
    lam, s = _decrement_and_error(decrement, error)
    claimed = (lam <= PHASE_TWO_BELOW) & (s <= PHASE_TWO_ERROR)
    return checks.like(torch.where(claimed, 2 * lam.square() + 1.75 * s, math.inf), decrement, error)


def printed_decrement_bound(decrement: float, step: float, error: float, mu: float) -> float:
    """Return the printed bound on lambda(x+) before eq:suboptimality_bound is used again (phase II).

    ``step`` is delta = ||x+ - x||_G below 1, ``error`` is ||eps||_2. It multiplies the error by delta + lambda where
    1 + lambda is due, so it is false: at the minimiser it promises a lambda(x+) quadratic in the error.
    """
    lam, delta = checks.real("decrement", decrement, minimum=0.0), checks.real("step", step, minimum=0.0, below=1.0)
    mu = checks.real("mu", mu, above=0.0)
    factor = 0.5 + math.sqrt((1 + mu) / (4 * mu))
    share = lam / (1 + lam) + checks.real("error", error, minimum=0.0) * factor
    return (delta + lam) * share / (1 - delta)


def step_bounds(
    x: Array, A: Array, y: Array, mu: float, constant: float, error: Array | None = None
) -> dict[str, Inequality]:
    """Evaluate the bounds of one step of damped Newton with this constant M on data; shapes (...).

    Keys: "decrease" and "decrement" (``decrease_bound``, ``decrement_bound``), "quadratic" (``quadratic_bound``)
    and "gap" (``phase_one_decrease``, less the loss omega_*(theta) to the error; claimed where lambda >= 1/6).
    ``error`` (..., d) is eps, zero unless given.
    """
    M = checks.real("constant", constant, above=0.0)
    data, (point, shift) = unit_problem(A, y, mu, ("x", x), ("error", error))
    direction, decrement = data.newton(point)
    lam = M * decrement
    s = M * (shift * (data.hessian(point) @ shift.unsqueeze(-1)).squeeze(-1)).sum(dim=-1).clamp(min=0).sqrt()
    after = point - direction / (1 + lam).unsqueeze(-1) + shift
    best = data.loss(torch.as_tensor(minimize(data.A, data.y, data.mu)))
    fall, gap = M**2 * (data.loss(point) - data.loss(after)), M**2 * (data.loss(point) - best).clamp(min=0)
    promised = torch.as_tensor(phase_one_decrease(gap, data.mu)) - torch.as_tensor(omega_star((1 + lam) * s))
    lam_after = M * data.newton(after)[1]
    inputs = (x, A, y, error)
    return {
        "decrease": compare(torch.as_tensor(decrease_bound(lam, s)), fall, *inputs),
        "decrement": compare(lam_after, torch.as_tensor(decrement_bound(lam, s)), *inputs),
        "quadratic": compare(lam_after, torch.as_tensor(quadratic_bound(lam, s)), *inputs),
        "gap": compare(torch.where(lam >= PHASE_TWO_BELOW, promised, -math.inf), fall, *inputs),
    }


def phase_one_decrease(gap: Array | float, mu: float) -> Array:
    """Return max{omega(1/6), omega(sqrt(8 mu gap / (1 + 4 mu)))}: an exact step from lambda >= 1/6 lowers g by it.

    ``gap`` is g(x) - min g, at least 0. The second part is the larger one far from the minimiser, where it turns
    the paper's count, linear in the gap, into one that grows like its square root.
    """
    mu = checks.real("mu", mu, above=0.0)
    value = checks.tensor("gap", gap, ())
    if bool((value < 0).any()):
        raise ValueError(f"gap = {float(value.min()):g}: must be at least 0")
    least = (8 * mu * value / (1 + 4 * mu)).sqrt().clamp(min=PHASE_TWO_BELOW)
    return checks.like(torch.as_tensor(omega(least)), gap)


def phase_one_steps(gap: float, mu: float, theta: float = 0.0) -> int:
    """Return a bound on the steps with lambda >= 1/6 from g(x_0) - min g = ``gap``, when every theta is at most this.

    Found by stepping down from the gap, so it costs as much as it counts. Raises ValueError where theta is so large
    that the bound promises no decrease (about 0.15).
    """
    gap, mu = checks.real("gap", gap, minimum=0.0), checks.real("mu", mu, above=0.0)
    rate, least = 8 * mu / (1 + 4 * mu), PHASE_TWO_BELOW - math.log1p(PHASE_TWO_BELOW)
    theta = checks.real("theta", theta, minimum=0.0, below=1.0)
    lost = -theta - math.log1p(-theta)
    if lost >= least:
        raise ValueError(f"theta = {theta:g}: must keep omega_*(theta) below omega(1/6) = 0.0125")
    count = 0
    while gap >= least:  # lambda >= 1/6 implies gap >= omega(lambda) >= omega(1/6)
        t = max(PHASE_TWO_BELOW, math.sqrt(rate * gap))
        gap, count = gap - (t - math.log1p(t) - lost), count + 1
    return count


class Example(NamedTuple):
    """A one-dimensional problem and a starting point: x0 (1,), A (n, 1), y (n,), mu."""

    x0: np.ndarray
    A: np.ndarray
    y: np.ndarray
    mu: float


def increase_example() -> Example:
    """Return a point from where an exact damped step of the paper raises lambda, from 10.46 to 12.37."""
    return Example(np.array([-7.172]), np.array([[-1.0], [-0.02278]]), np.ones(2), 1e-4)


def cycle_example() -> Example:
    """Return a start from which Newton's method without damping cycles: -50, 4452.1, -50, ..."""
    return Example(np.array([-50.0]), np.array([[1.0], [0.01]]), np.array([1.0, -1.0]), 1e-4)


def _decrement_and_error(decrement: object, error: object) -> tuple[torch.Tensor, torch.Tensor]:
    lam = checks.tensor("decrement", decrement, ())
    s = checks.tensor("error", error, (), dtype=lam.dtype, device=lam.device)
    for name, value in (("decrement", lam), ("error", s)):
        if bool((value < 0).any()):
            raise ValueError(f"{name} = {float(value.min()):g}: must be at least 0")
    return lam, s
