"""The end-to-end theorem for inexact damped Newton, with every constant named.

thm:convergence-of-approximate-updates in corrected form: steps x_{t+1} = x_t - (hess f)^-1 grad f / (1 + M lambda_f)
+ eps_t with ||eps_t||_2 <= error, rows of norm at most one, M = ``damping_constant(mu, damping)``, g = M^2 f,
G = hess g, lambda = M lambda_f. With sigma = M sqrt(mu) and nu = M sqrt(mu + 1/4),
sigma ||v||_2 <= ||v||_G <= nu ||v||_2. The constants of the theorem depend on x_0 as well as on mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tfnewton import checks
from tfnewton.damping import damping_constant
from tfnewton.theory.phases import PHASE_ONE_THETA, PHASE_TWO_ERROR
from tfnewton.theory.radii import iterate_radius

__all__ = ["Convergence", "convergence", "error_limit", "final_distance", "printed_final_distance"]

_CURVATURE_CHANGE = 1 / (6 * math.sqrt(3))  # max |sigma''|: the Hessian's Lipschitz constant


@dataclass(frozen=True)
class Convergence:
    """What the theorem promises: after ``phase_one`` + ``phase_two`` steps, and for ever after, the three bounds.

    decrement bounds lambda_g, distance ||x - argmin f||_2 and gap g(x) - min g; radius bounds every ||x_t||_2 and
    largest_decrement every lambda_g.
    """

    radius: float
    largest_decrement: float
    phase_one: int
    phase_two: int
    decrement: float
    distance: float
    gap: float

    @property
    def steps(self) -> int:
        """Return phase_one + phase_two."""
        return self.phase_one + self.phase_two


def error_limit(mu: float, start: float = 0.0, damping: str = "paper") -> float:
    """Return the largest per-step error under which ``convergence`` speaks, from ||x_0||_2 = start.

    min{1, 0.02 / nu, 0.069 / ((1 + Lambda) nu)}, with Lambda = sigma (1 + mu R) / mu for the radius R of the iterates.
    """
    _, nu = _norm_ratios(mu, damping)
    return min(1.0, PHASE_TWO_ERROR / nu, PHASE_ONE_THETA / ((1 + _largest_decrement(mu, start, damping)) * nu))


def convergence(mu: float, error: float, gap: float, start: float = 0.0, damping: str = "paper") -> Convergence:
    """Return the constants and the step count of the theorem.

    Args:
        mu: above 0.
        error: the bound on every ||eps_t||_2, above 0 and at most ``error_limit(mu, start, damping)``.
        gap: g(x_0) - min g, or any bound on it, such as M^2 ln 2 for x_0 = 0; at least 0.
        start: ||x_0||_2, at least 0.
        damping: "paper" or "sharp".

    Raises ValueError for values out of range.
    """
    limit = error_limit(mu, start, damping)
    error = checks.real("error", error, above=0.0, maximum=limit)
    sigma, nu = _norm_ratios(mu, damping)
    b = 1.75 * nu * error
    # u = 2 lambda obeys u+ <= u^2 + 2 b from u <= 1/3, hence u_k <= 3^(-2^k) + 2.6 b.
    phase_two = math.ceil(math.log2(math.log(1 / math.sqrt(2 * b), 3))) + 1
    decrement = 2.3 * b
    return Convergence(
        radius=iterate_radius(mu, 1.0, start),
        largest_decrement=_largest_decrement(mu, start, damping),
        phase_one=math.floor(100 * checks.real("gap", gap, minimum=0.0)),
        phase_two=phase_two,
        decrement=decrement,
        distance=decrement / (1 - decrement) / sigma,
        gap=0.6 * decrement**2,
    )


def final_distance(mu: float, error: float, damping: str = "paper") -> float:
    """Return 2 error / (1 + sqrt(1 - 4 rho error)), a bound on limsup ||x_t - argmin f||_2.

    rho = nu + 1 / (12 sqrt(3) mu), from D+ <= rho D^2 + error for the distances D = ||x_t - argmin f||_2. At most
    2 error, and linear in it where the paper has its square root. Needs 4 rho error <= 1 (ValueError) and an iterate
    with rho D <= 1/2; both follow from ``error_limit``, where the bound is at most 1.06 error.
    """
    mu = checks.real("mu", mu, above=0.0)
    _, nu = _norm_ratios(mu, damping)
    rho = nu + _CURVATURE_CHANGE / (2 * mu)
    error = checks.real("error", error, minimum=0.0, maximum=1 / (4 * rho))
    return 2 * error / (1 + math.sqrt(max(0.0, 1 - 4 * rho * error)))


def printed_final_distance(mu: float, error: float) -> float:
    """Return sqrt(error (1 + mu) / (4 mu)), the accuracy of thm:main_logistic up to its unnamed constant."""
    mu = checks.real("mu", mu, above=0.0)
    return math.sqrt(checks.real("error", error, minimum=0.0) * (1 + mu) / (4 * mu))


def _norm_ratios(mu: float, damping: str) -> tuple[float, float]:
    """Return sigma and nu: M^2 mu I <= hess g <= M^2 (mu + 1/4) I."""
    M = damping_constant(mu, checks.choice("damping", damping, ("paper", "sharp")))
    return M * math.sqrt(mu), M * math.sqrt(mu + 0.25)


def _largest_decrement(mu: float, start: float, damping: str) -> float:
    sigma, _ = _norm_ratios(mu, damping)
    return sigma * (1 + mu * iterate_radius(mu, 1.0, start)) / mu
