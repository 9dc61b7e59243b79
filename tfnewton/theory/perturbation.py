"""What an error in the Hessian or in the decrement does to the inverse, the condition number and the step size.

Matrices are (..., d, d) with leading axes that broadcast; norms are spectral. B = H + E is the Hessian with the
error E that the transformer makes; E is not symmetric, so singular values count, not eigenvalues.
"""

from __future__ import annotations

import math

import torch

from tfnewton import checks
from tfnewton.checks import Array
from tfnewton.theory.inequality import Inequality, compare

__all__ = [
    "condition_number",
    "condition_number_bounds",
    "hessian_inverse_bound",
    "inverse_bounds",
    "printed_condition_number_bounds",
    "printed_step_size_threshold",
    "step_size",
    "step_size_bound",
    "step_size_threshold",
]


def step_size(squared_decrement: Array | float, mu: float) -> Array:
    """Return eta(z) = 2 sqrt(mu) / (2 sqrt(mu) + sqrt(z)) at z = lambda_f^2 >= 0 (thm:logistic)."""
    z, mu = _nonnegative("squared_decrement", squared_decrement), checks.real("mu", mu, above=0.0)
    return checks.like(1 / (1 + z.sqrt() / (2 * math.sqrt(mu))), squared_decrement)


def step_size_bound(z: Array | float, other: Array | float, mu: float) -> Inequality:
    """Return |eta(z) - eta(other)| <= 1 - eta(|z - other|), an equality where one of the two is zero."""
    first, second = _nonnegative("z", z), _nonnegative("other", other)
    change = torch.as_tensor(step_size(first, mu)) - torch.as_tensor(step_size(second, mu))
    bound = 1 - torch.as_tensor(step_size((first - second).abs(), mu))
    return compare(change.abs(), bound, z, other)


def step_size_threshold(error: float, mu: float) -> float:
    """Return 4 mu e^2 / (1 - e)^2, the largest change of lambda_f^2 that moves eta by at most e, 0 <= e < 1.

    Sharp: from z = 0, any larger change moves eta by more (app:auxiliary-control-error).
    """
    e, mu = checks.real("error", error, minimum=0.0, below=1.0), checks.real("mu", mu, above=0.0)
    return 4 * mu * (e / (1 - e)) ** 2


def printed_step_size_threshold(error: float, mu: float) -> float:
    """Return 4 mu e^2 / (1 - e), eq:bound-for-lambda: true, smaller than need be by the factor 1 - e."""
    return step_size_threshold(error, mu) * (1 - error)


def inverse_bounds(A: Array, E: Array) -> dict[str, Inequality]:
    """Evaluate the bounds of thm:errorinverse on A and A + E, both non-singular; shapes (...).

    Keys: "change" ||(A+E)^-1 - A^-1|| <= kappa(A) ||E|| ||(A+E)^-1|| / ||A||; and with q = kappa(A) ||E|| / ||A||,
    infinite where q >= 1: "norm" ||(A+E)^-1|| <= ||A^-1|| / (1 - q) and "relative"
    ||(A+E)^-1 - A^-1|| <= q ||A^-1|| / (1 - q).
    """
    base, error = _pair(A, E)
    perturbed, size = base + error, _norm(error)
    largest, least, least_after = _norm(base), _least(base), _least(perturbed)
    if bool((least == 0).any() or (least_after == 0).any()):
        raise ValueError("A or A + E is singular: both must have an inverse")
    change = _norm(torch.linalg.inv(perturbed) - torch.linalg.inv(base))
    q = size / least  # kappa(A) ||E|| / ||A||
    room = (1 - q).clamp(min=0)
    return {
        "change": compare(change, (largest / least) * size / least_after / largest, A, E),
        "norm": compare(1 / least_after, 1 / least / room, A, E),
        "relative": compare(change, torch.where(q < 1, q / room / least, math.inf), A, E),
    }


def hessian_inverse_bound(error: float, mu: float) -> float:
    """Return e / (mu (mu - e)), a bound on ||(H + E)^-1 - H^-1|| for H >= mu I and ||E|| <= e < mu (cor:inverse)."""
    mu = checks.real("mu", mu, above=0.0)
    e = checks.real("error", error, minimum=0.0, below=mu)
    return e / (mu * (mu - e))


def condition_number(A: Array) -> Array:
    """Return the largest singular value over the least, (...); infinite for a singular matrix."""
    matrix = checks.tensor("A", A, ("d", "d"))
    return checks.like(_norm(matrix) / _least(matrix), A)


def condition_number_bounds(A: Array, E: Array) -> tuple[Inequality, Inequality]:
    """Return (s1 - e) / (sd + e) <= kappa(A + E) <= (s1 + e) / (sd - e), e = ||E||, s1 and sd singular values of A.

    The upper bound is infinite where e >= sd. This is app:auxiliary-condition for an E that need not be symmetric.
    """
    base, error = _pair(A, E)
    kappa, size = torch.as_tensor(condition_number(base + error)), _norm(error)
    lower = (_norm(base) - size) / (_least(base) + size)
    upper = (_norm(base) + size) / (_least(base) - size).clamp(min=0)
    return compare(lower, kappa, A, E), compare(kappa, upper, A, E)


def printed_condition_number_bounds(A: Array, E: Array) -> tuple[Inequality, Inequality]:
    """Return the bounds on kappa(A + E) that app:auxiliary-condition derives from the eigenvalues of A and E.

    Weyl's inequality needs symmetric matrices; for another E the real parts of its eigenvalues are taken, as if it
    applied, and the bounds are false. Symmetric positive definite A only.
    """
    base, error = _pair(A, E)
    eigenvalues = torch.linalg.eigvalsh(base)
    if not torch.allclose(base, base.mT) or bool((eigenvalues <= 0).any()):
        raise ValueError("A is not symmetric positive definite: must be, like a Hessian")
    shifts = torch.linalg.eigvals(error).real.sort(dim=-1).values
    kappa = torch.as_tensor(condition_number(base + error))
    lower = (eigenvalues[..., -1] + shifts[..., 0]) / (eigenvalues[..., 0] + shifts[..., -1])
    upper = (eigenvalues[..., -1] + shifts[..., -1]) / (eigenvalues[..., 0] + shifts[..., 0]).clamp(min=0)
    return compare(lower, kappa, A, E), compare(kappa, upper, A, E)


def _pair(A: object, E: object) -> tuple[torch.Tensor, torch.Tensor]:
    sizes: dict[str, int] = {}
    base = checks.tensor("A", A, ("d", "d"), sizes)
    return base, checks.tensor("E", E, ("d", "d"), sizes, dtype=base.dtype, device=base.device)


def _norm(matrix: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = torch.linalg.svdvals(matrix)
    return values[..., 0]


def _least(matrix: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = torch.linalg.svdvals(matrix)
    return values[..., -1]


def _nonnegative(name: str, value: object) -> torch.Tensor:
    z = checks.tensor(name, value, ())
    if bool((z < 0).any()):
        raise ValueError(f"{name} = {float(z.min()):g}: must be at least 0")
    return z
