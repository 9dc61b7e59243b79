"""How the error of one damped Newton step is shared among its approximations, with a proof that the shares suffice.

One step computes x - eta H^-1 g (H = hess f(x), g = grad f(x), eta = eta(lambda^2)) from four approximations. With
d = p(1-p) at the margins z_i = a_i·x, ||a_i|| <= 1, their tolerances are

    e_p:    |p^ - p|        <= e_p sqrt(1 + d/mu)           e_m:  each product d^ a_ij to within e_m
    e_d:    |d^ - d|        <= e_d (1 + d/mu)               e_eta: |eta^ - eta|(s) <= e_eta sqrt(mu/s), and <= 1
    rho:    ||I - B X|| <= rho for the computed inverse X of B = H + E, E = mean(u_i a_i a_i^T) + mean(a_i v_i^T)

with |u_i| <= e_d (1 + d_i/mu), ||v_i|| <= sqrt(d) e_m. Write M = 1/4 + mu, so mu I <= H <= M I; c = 2 sqrt(mu);
y = H^(-1/2) g, so |y| = lambda; and, for b^ = g + e3 the computed gradient and q^ = X b^ the computed direction,
m = H^(-1/2) b^, y^ = H^(1/2) q^, f = m - y^. The computed decrement is s^ = b^·q^ = m·y^, negative s^ read as zero.

1. mean (d_i + mu)(a_i·w)^2 <= w^T H w. By Cauchy-Schwarz e = H^(-1/2) e3 has |e| <= e_p/sqrt(mu), and
   F = H^(-1/2) E H^(-1/2) has norm at most phi = (e_d + sqrt(d) e_m)/mu.
2. B q^ = b^ - R b^ with ||R|| <= rho gives f = F y^ + r, |r| <= psi |m|, psi = rho sqrt(M/mu); with y^ = m - f:
   |f| <= chi |m|, chi = (phi + psi)/(1 - phi), and |m| <= lambda + |e|.
3. Let w = (m + y^)/2, so |w|^2 = s^ + |f|^2/4, and T(v) = v/(1 + |v|/c), which is eta·y at y. T is the gradient of a
   convex function; its Jacobian at v has norm 1/(1 + |v|/c). The damped step in these coordinates is T(y), and
   eta(s^) y^ = T(w) + [eta(s^) - eta(|w|^2)] w - eta(s^) f/2, with w - y = e - f/2.
4. On the segment from y to w, and for sqrt(s^), the argument is at least lambda - |e| - |f|. Hence both the Lipschitz
   constant of T there and eta(s^) are at most eta/(1 - k), k = chi + (1 + chi) e_p/(2 mu).
5. The bracket times |w| is at most eta(s^) (|w| - sqrt(s^)) <= eta(s^) |f|^2/(4 |w|) <= eta(s^) |f| chi/(4 - 2 chi).
   So |eta(s^) y^ - T(y)| <= eta/(1 - k) · (|e| + |f| (1 + chi/(4 - 2 chi))).
6. |y^| <= sqrt(s^) + |f| and |f| <= phi |y^| + |r|, so |eta^ - eta|(s^)·|y^| <= (sqrt(mu) e_eta + |r|)/(1 - phi).
7. Divide by sqrt(mu) to pass to the 2-norm. With u = lambda/c and eta lambda/sqrt(mu) = 2u/(1 + u) <= 2U:

    error <= [e_p/mu + chi (1 + chi/(4 - 2 chi)) (2U + e_p/mu)]/(1 - k) + [e_eta + psi (2u + e_p/mu)]/(1 - phi)

that is e_p/mu + 2U (e_d + sqrt(d) e_m)/mu + e_eta to first order. No square root of the error in lambda^2 is lost
(the paper's eq:boundonbound loses one): an error of eta matters only in proportion to the length of the direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tfnewton import checks
from tfnewton.approximation import knots
from tfnewton.approximation.curves import PROBABILITY, VARIANCE, Curve, step_size
from tfnewton.approximation.units import PiecewiseLinear, Product
from tfnewton.theory.width import inversion_residual, inversion_scale, inversion_steps

__all__ = ["ErrorBudget", "ReluLayers", "error_budget", "leading_width", "step_error", "sublevel_radius"]

LEAST_MU, LARGEST_MU = 1e-9, 1e12  # beyond, the tolerances leave the reach of float64
INVERSION_SHARE = 0.1  # of the error, left to the inversion: one more step squares what it leaves
FLAT = 50.0  # beyond this margin p and d are constant to e^-50, which is taken off their tolerances
PROBABILITY_COPIES = 2  # p is gated on the label: one copy of its units for each sign
OTHER_UNITS = 16  # of a step: they erase the row s six times (12) and multiply it by the labels once (4)


def step_error(
    d: int, mu: float, radius: float, e_p: float, e_d: float, e_m: float, e_eta: float, residual: float
) -> float:
    """Return the proved bound on the 2-norm error of one step from any x with ||x|| <= radius; infinite out of range.

    The formula of step 7 in the head of this module, all tolerances as defined there (``residual`` is rho).
    """
    u = _decrement(mu, radius) / (2.0 * math.sqrt(mu))
    phi = (e_d + math.sqrt(d) * e_m) / mu
    psi = residual * math.sqrt((0.25 + mu) / mu)
    chi = (phi + psi) / (1.0 - phi) if phi < 1.0 else math.inf
    k = chi + (1.0 + chi) * e_p / (2.0 * mu)
    if not k < 1.0:
        return math.inf
    direction = e_p / mu + chi * (1.0 + chi / (4.0 - 2.0 * chi)) * (2.0 * u / (1.0 + u) + e_p / mu)
    return direction / (1.0 - k) + (e_eta + psi * (2.0 * u + e_p / mu)) / (1.0 - phi)


class ReluLayers(NamedTuple):
    """The four approximations of a step: p(z), d(z), the product d·a (one a coordinate) and eta(lambda^2)."""

    probability: PiecewiseLinear
    variance: PiecewiseLinear
    product: Product
    step_size: PiecewiseLinear


@dataclass(frozen=True)
class ErrorBudget:
    """``error`` bounds the step from any x with ||x|| <= ``radius``; e_p, e_d, e_m, e_eta as in the module's head."""

    d: int
    mu: float
    error: float
    radius: float
    order: int
    inversion_steps: int
    e_p: float
    e_d: float
    e_m: float
    e_eta: float

    @property
    def margins(self) -> tuple[float, float]:
        """Where z = a·x lies and p or d is not constant: the interval of p and d."""
        return _margins(self.radius)

    @property
    def variances(self) -> tuple[float, float]:
        """Where d^ lies, whichever scheme: the first factor of the product; the second is in [-1, 1]."""
        return float(VARIANCE.value(np.array(self.margins[1]))), 0.25

    @property
    def decrements(self) -> tuple[float, float]:
        """Where the computed lambda^2 lies: the interval of eta. ((lambda_max + |e|)(1 + chi/2))^2, chi < 1."""
        phi = (self.e_d + self.perturbation) / self.mu
        psi = self.residual * math.sqrt((0.25 + self.mu) / self.mu)
        longest = _decrement(self.mu, self.radius) + self.e_p / math.sqrt(self.mu)
        return 0.0, (longest * (1.0 + 0.5 * (phi + psi) / (1.0 - phi))) ** 2

    @property
    def perturbation(self) -> float:
        """By how much a singular value of B may leave [mu, 1/4 + mu]: sqrt(d) e_m, as d^ stays within d's range."""
        return math.sqrt(self.d) * self.e_m

    @property
    def alpha(self) -> float:
        """Factor of X0 = alpha B^T."""
        return inversion_scale(self.mu, self.perturbation)

    @property
    def residual(self) -> float:
        """Bound on ||I - B X|| after the inversion."""
        return inversion_residual(self.mu, self.inversion_steps, self.order, self.perturbation)

    @property
    def bound(self) -> float:
        """The proved bound on the step's error, at most ``error``."""
        return step_error(self.d, self.mu, self.radius, self.e_p, self.e_d, self.e_m, self.e_eta, self.residual)

    def layers(self, scheme: str = "curvature") -> ReluLayers:
        """Return the four approximations that meet the tolerances, with knots placed by ``scheme``."""
        try:
            return _approximate(self, scheme)
        except ValueError as fault:
            raise ValueError(f"error = {self.error:g}: must be larger at mu = {self.mu:g} ({fault})") from fault

    def relu_width(self, scheme: str = "curvature") -> int:
        """Return the ReLU units of one step: two copies of p, d, d products, eta, d to clear an identity, 16 others."""
        p, d, m, eta = (layer.width for layer in self.layers(scheme))
        return PROBABILITY_COPIES * p + d + self.d * m + eta + self.d + OTHER_UNITS


@lru_cache(maxsize=4)  # a search for a width, and what is built with it, ask for the same ones
def _approximate(budget: ErrorBudget, scheme: str) -> ReluLayers:
    probability, variance, eta = _curves(budget.mu)
    return ReluLayers(
        knots.approximate(probability, budget.margins, budget.e_p - math.exp(-FLAT), scheme),
        knots.approximate(variance, budget.margins, budget.e_d - math.exp(-FLAT), scheme),
        knots.product(budget.variances, 1.0, budget.e_m, scheme),
        knots.approximate(eta, budget.decrements, budget.e_eta, scheme),
    )


def sublevel_radius(mu: float) -> float:
    """Return sqrt(2 ln 2/mu), mu > 0: the ball of this radius holds every x with f(x) <= f(0) = ln 2."""
    return math.sqrt(2.0 * math.log(2.0) / checks.real("mu", mu, above=0.0))


def error_budget(d: int, mu: float, error: float, *, radius: float | None = None, order: int = 2) -> ErrorBudget:
    """Return tolerances for which one step of dimension ``d`` is proved to err by at most ``error`` in the 2-norm.

    Valid for every x with ||x|| <= ``radius``, by default sqrt(2 ln 2/mu), which holds the sublevel set of x = 0, and
    for every n. ``order`` is that of the Newton-Schulz iteration. The shares minimise the total width to first order.
    Raises ValueError for d < 1, mu outside [1e-9, 1e12], radius <= 0, error outside (0, radius], order < 2.
    """
    d, mu, error, radius = _problem(d, mu, error, radius)
    order = checks.integer("order", order, minimum=2)
    u = _decrement(mu, radius) / (2.0 * math.sqrt(mu))
    weight, constant, copies = _shares(d, mu, radius)
    tolerance = np.cbrt(constant * (copies / weight) ** 2)
    tolerance *= error / (weight @ tolerance)
    rho = min(INVERSION_SHARE * error / (2.0 * u + 2.0 * u / (1.0 + u)), 0.1) / math.sqrt((0.25 + mu) / mu)
    steps = inversion_steps(mu, rho, order, min(math.sqrt(d) * float(tolerance[2]), 0.5 * mu))  # for the largest E

    def scaled(part: float) -> ErrorBudget:
        return ErrorBudget(d, mu, error, radius, order, steps, *(float(part * t) for t in tolerance))

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        tried = scaled(middle)
        fits = tried.perturbation < mu and tried.bound <= error
        low, high = (middle, high) if fits else (low, middle)
    return scaled(low)


def leading_width(d: int, mu: float, error: float, *, radius: float | None = None) -> float:
    """Return S^1.5/sqrt(error), the leading term of ``ErrorBudget.relu_width``, O(d + d^(5/4)/sqrt(mu error)).

    S = sum of copies^(2/3) (weight · constant)^(1/3) over the approximations.
    """
    d, mu, error, radius = _problem(d, mu, error, radius)
    weight, constant, copies = _shares(d, mu, radius)
    return float(np.cbrt(copies**2 * weight * constant).sum() ** 1.5 / math.sqrt(error))


def _shares(d: int, mu: float, radius: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for p, d, product, eta: the step's error per tolerance, c of tolerance = c/pieces^2, and copies."""
    u = _decrement(mu, radius) / (2.0 * math.sqrt(mu))
    relative = 2.0 * u / (1.0 + u) / mu
    probability, variance, eta = _curves(mu)
    constants = (
        knots.width_constant(probability, _margins(radius)),
        knots.width_constant(variance, _margins(radius)),
        0.5 * (0.25 - float(VARIANCE.value(np.array(_margins(radius)[1])))),
        knots.width_constant(eta, (0.0, 4.0 * mu * u**2)),
    )
    return (
        np.array([1.0 / mu, relative, relative * math.sqrt(d), 1.0]),
        np.array(constants),
        np.array([PROBABILITY_COPIES, 1.0, 2.0 * d, 1.0]),
    )


def _curves(mu: float) -> tuple[Curve, Curve, Curve]:
    """Return p, d and eta with the weights by which the head of this module measures their errors."""
    return (
        PROBABILITY.weighted(lambda z: 1.0 / np.sqrt(1.0 + VARIANCE.value(z) / mu), (0.0,)),
        VARIANCE.weighted(lambda z: 1.0 / (1.0 + VARIANCE.value(z) / mu), (0.0,)),
        step_size(mu).weighted(lambda s: np.sqrt(s / mu)),
    )


def _margins(radius: float) -> tuple[float, float]:
    return -min(radius, FLAT), min(radius, FLAT)


def _decrement(mu: float, radius: float) -> float:
    """Return a bound of lambda_f on ||x|| <= radius: |H^(-1/2) mean(y p a)| + sqrt(mu) radius, by step 1.

    p/sqrt(d + mu) increases with p, so its largest value is at margin -radius.
    """
    p, d = (float(of.value(np.array(-radius))) for of in (PROBABILITY, VARIANCE))
    return p / math.sqrt(d + mu) + math.sqrt(mu) * radius


def _problem(d: int, mu: float, error: float, radius: float | None) -> tuple[int, float, float, float]:
    d, mu = checks.integer("d", d, minimum=1), checks.real("mu", mu, minimum=LEAST_MU, maximum=LARGEST_MU)
    radius = sublevel_radius(mu) if radius is None else checks.real("radius", radius, above=0.0)
    return d, mu, checks.real("error", error, above=0.0, maximum=radius), radius
