"""How much damped Newton's method is damped: numbers alone, for the algorithm, its theory and what is built by it."""

from __future__ import annotations

import math

from tfnewton import checks

__all__ = ["DAMPINGS", "damping_constant"]

DAMPINGS = ("paper", "sharp", "full")


def damping_constant(mu: float, damping: str = "paper") -> float:
    """Return the M of the damping factor 1 / (1 + M lambda_f), for rows of norm at most one.

    - ``"paper"``: 1 / (2 sqrt(mu)), that is the factor 2 sqrt(mu) / (2 sqrt(mu) + lambda_f) of thm:logistic;
    - ``"sharp"``: 1 / (3 sqrt(3 mu) (1 + 4 mu)), the smallest constant with which f is self-concordant;
    - ``"full"``: 0, Newton's method without damping, which need not converge.
    """
    mu = checks.real("mu", mu, above=0.0)
    constants = {"paper": 1 / (2 * math.sqrt(mu)), "sharp": 1 / (3 * math.sqrt(3 * mu) * (1 + 4 * mu)), "full": 0.0}
    return constants[checks.choice("damping", damping, DAMPINGS)]
