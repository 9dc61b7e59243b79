"""Width and depth of damped Newton as a transformer, as the paper states them and as they are.

The proved ReLU width for a requested error is ``tfnewton.theory.error_budget``'s.
"""

from __future__ import annotations

import math

from tfnewton import checks
from tfnewton.theory import inversion

__all__ = [
    "compact_depth",
    "depth",
    "gap_factor",
    "inversion_residual",
    "inversion_scale",
    "inversion_steps",
    "printed_inversion_steps",
    "printed_main_relu_width",
    "printed_relu_width",
    "printed_rows",
    "rows",
]


_LARGEST_LOGARITHM = math.log(1.7e308)  # of a float64


def rows(d: int) -> int:
    """Return 6d + 4, the rows of H in the construction of thm:logistic, as the remark after it says."""
    return 6 * checks.integer("d", d, minimum=1) + 4


def printed_rows(d: int) -> int:
    """Return 7d + 5, the rows that the proof of thm:logistic writes beside a matrix that has 6d + 4."""
    return 7 * checks.integer("d", d, minimum=1) + 5


def depth(steps: int, inversion_steps: int) -> int:
    """Return T (11 + 2k): the layers of T damped Newton steps with k Newton-Schulz steps each (thm:main_logistic)."""
    return _steps(steps) * (11 + 2 * checks.integer("inversion_steps", inversion_steps, minimum=0))


def compact_depth(steps: int, inversion_steps: int) -> int:
    """Return 1 + T (4 + k): the layers that suffice when independent operations share a layer (not in the paper)."""
    return 1 + _steps(steps) * (4 + checks.integer("inversion_steps", inversion_steps, minimum=0))


def printed_relu_width(d: int, mu: float, error: float) -> float:
    """Return d (1 + mu)^8/(error^4 mu^10), the width of thm:logistic with its constant taken as one.

    Infinite where that is beyond float64.
    """
    d = checks.integer("d", d, minimum=1)
    mu, error = checks.real("mu", mu, above=0.0), checks.real("error", error, above=0.0)
    logarithm = math.log(d) + 8.0 * math.log1p(mu) - 4.0 * math.log(error) - 10.0 * math.log(mu)
    return math.exp(logarithm) if logarithm < _LARGEST_LOGARITHM else math.inf


def printed_main_relu_width(d: int, mu: float, error: float) -> float:
    """Return d (1 + mu)^6/(error^4 mu^8), the width of thm:main_logistic with its constant taken as one."""
    return printed_relu_width(d, mu, error) * (mu / (1.0 + mu)) ** 2


def printed_inversion_steps(kappa: float, mu: float, error: float) -> float:
    """Return 2 log2 kappa + log2 log2((1 + mu)^3/(error^2 mu^2)), the bound on k of thm:logistic, logarithms to base 2.

    Raises ValueError for kappa < 1, mu <= 0 and an error for which the double logarithm does not exist.
    """
    kappa = checks.real("kappa", kappa, minimum=1.0)
    mu = checks.real("mu", mu, above=0.0)
    error = checks.real("error", error, above=0.0, below=(1.0 + mu) ** 1.5 / mu)
    return 2.0 * math.log2(kappa) + math.log2(math.log2((1.0 + mu) ** 3 / (error**2 * mu**2)))


def inversion_scale(mu: float, perturbation: float = 0.0) -> float:
    """Return alpha = 2/(s1^2 + sd^2), for X0 = alpha B^T and any B with singular values in [sd, s1].

    sd = mu - perturbation, s1 = 1/4 + mu + perturbation: B = hess f + E with ||E|| <= perturbation < mu.
    """
    smallest, largest = _singular_values(mu, perturbation)
    return 2.0 / (largest**2 + smallest**2)


def inversion_residual(mu: float, steps: int, order: int = 2, perturbation: float = 0.0) -> float:
    """Return ((kappa^2 - 1)/(kappa^2 + 1))^(order^k), kappa = s1/sd: a bound on ||I - B X_k||_2.

    k = ``steps`` Newton-Schulz steps of ``order`` from X0 = alpha B^T; s1, sd, alpha as in ``inversion_scale``.
    """
    rate = inversion.decay_rate(_kappa(mu, perturbation), "optimal")
    logarithm = _steps(steps) * math.log(checks.integer("order", order, minimum=2)) + math.log(rate)
    return math.exp(-math.exp(logarithm)) if logarithm < _LARGEST_LOGARITHM else 0.0


def gap_factor(mu: float, steps: int, eigenvalue: float) -> float:
    """Return (1 - alpha b^2)^(2^(k+1)), what damped Newton steps with k = ``steps`` inversion steps leave of a gap.

    Near the minimiser, where the loss falls by this factor a step in the direction in which the Hessian has the
    ``eigenvalue`` b, from mu to mu + 1/4: x+ - x* = (I - alpha H^2)^(2^k) (x - x*) up to squares of x - x*, and the
    smallest b is the slowest. Raises ValueError for b out of its range.
    """
    b = checks.real("eigenvalue", eigenvalue, minimum=mu * (1 - 1e-9), maximum=(mu + 0.25) * (1 + 1e-9))
    left = abs(1.0 - inversion_scale(mu) * b * b)
    return math.exp(2.0 ** min(_steps(steps) + 1, 1000) * math.log(left)) if left > 0.0 else 0.0


def inversion_steps(mu: float, tolerance: float, order: int = 2, perturbation: float = 0.0) -> int:
    """Return the fewest steps k with ``inversion_residual`` at most ``tolerance``, inside (0, 1).

    kappa is 1 + 1/(4 mu) when there is no perturbation: alpha cannot depend on the data, so neither can k, and the
    paper's kappa_f, the largest condition number of the data's Hessians, is too small.
    """
    return inversion.steps(_kappa(mu, perturbation), tolerance, order, "optimal")


def _steps(steps: int) -> int:
    return checks.integer("steps", steps, minimum=0)


def _kappa(mu: float, perturbation: float) -> float:
    smallest, largest = _singular_values(mu, perturbation)
    return largest / smallest


def _singular_values(mu: float, perturbation: float) -> tuple[float, float]:
    mu = checks.real("mu", mu, above=0.0)
    perturbation = checks.real("perturbation", perturbation, minimum=0.0, below=mu)
    return mu - perturbation, 0.25 + mu + perturbation
