"""Losses of the assignment on damped Newton, by numpy alone: what hidden checks hold submissions against.

Two losses of rows a_i of A (n, d) with labels y_i in {-1, 1}, both with the penalty (mu/2) ||x||^2 and, at the margins
m_i = y_i a_i^T x, with the mean of

- ``soft``: sqrt(delta^2 + m^2) - m;
- ``weighted``: c ln(1 + e^-m), where c is weights[0] for y = 1 and weights[1] for y = -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import expit

__all__ = ["Loss", "curvature", "largest_need", "need", "soft", "weighted"]

Array = np.ndarray


class Loss(NamedTuple):
    """f, its gradient (d,) and its Hessian (d, d), each of a point (d,)."""

    value: Callable[[Array], float]
    gradient: Callable[[Array], Array]
    hessian: Callable[[Array], Array]

    def newton(self, x: Array) -> tuple[Array, float]:
        """Return the Newton direction (d,) and the decrement of f at x (d,)."""
        g = self.gradient(x)
        direction = np.linalg.solve(self.hessian(x), g)
        return direction, math.sqrt(max(float(g @ direction), 0.0))

    def step(self, x: Array, M: float) -> Array:
        """Return the point (d,) after one damped Newton step with the constant M."""
        direction, decrement = self.newton(x)
        return x - direction / (1 + M * decrement)

    def minimiser(self, x: Array, M: float) -> Array:
        """Return the minimiser (d,), by damped Newton from x with a constant that serves."""
        for _ in range(5000):
            if self.newton(x)[1] < 1e-13:
                break
            x = self.step(x, M)
        return x

    def steps(self, x: Array, M: float, accuracy: float) -> tuple[float, int]:
        """Return the gap at x and the number of damped steps until the gap is at most ``accuracy``."""
        least = self.value(self.minimiser(x, M))
        gap, count = self.value(x) - least, 0
        while self.value(x) - least > accuracy:
            x, count = self.step(x, M), count + 1
        return gap, count


def soft(A: Array, y: Array, mu: float, delta: float) -> Loss:
    """Return the soft loss of A (n, d), y (n,), mu > 0 and delta > 0."""
    n, d = A.shape

    def bent(x: Array) -> tuple[Array, Array]:
        m = y * (A @ x)
        return m, np.hypot(delta, m)

    def value(x: Array) -> float:
        m, r = bent(x)
        return float((r - m).mean() + mu / 2 * x @ x)

    def gradient(x: Array) -> Array:
        m, r = bent(x)
        return np.asarray(A.T @ (y * (m / r - 1)) / n + mu * x)

    def hessian(x: Array) -> Array:
        _, r = bent(x)
        return np.asarray((A.T * (delta**2 / r**3)) @ A / n + mu * np.eye(d))

    return Loss(value, gradient, hessian)


def weighted(A: Array, y: Array, mu: float, weights: tuple[float, float]) -> Loss:
    """Return the class-weighted logistic loss of A (n, d), y (n,), mu > 0 and the weights of y = 1 and y = -1."""
    n, d = A.shape
    c = np.where(y > 0, *weights)

    def value(x: Array) -> float:
        return float((c * np.logaddexp(0, -y * (A @ x))).mean() + mu / 2 * x @ x)

    def gradient(x: Array) -> Array:
        return np.asarray(-A.T @ (c * y * expit(-y * (A @ x))) / n + mu * x)

    def hessian(x: Array) -> Array:
        return np.asarray((A.T * (c * curvature(A @ x))) @ A / n + mu * np.eye(d))

    return Loss(value, gradient, hessian)


def curvature(z: Array) -> Array:
    """Return p (1 - p) at margins z of any shape."""
    return np.asarray(expit(z) * expit(-z))


def need(x: Array, u: Array, A: Array, y: Array, mu: float, delta: float) -> float:
    """Return |phi'''(0)| / (2 phi''(0)^(3/2)) of the soft loss along u at x, by automatic differentiation."""
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    points, labels, at, along = (torch.as_tensor(v, dtype=torch.float64) for v in (A, y, x, u))
    m = labels * (points @ (at + t * along))
    phi = (torch.sqrt(delta**2 + m**2) - m).mean() + mu / 2 * ((at + t * along) ** 2).sum()
    derivatives = []
    for _ in range(3):
        (phi,) = torch.autograd.grad(phi, t, create_graph=True)
        derivatives.append(phi)
    second, third = derivatives[1].item(), derivatives[2].item()
    return float(abs(third) / (2 * second**1.5))


def largest_need(mu: float, delta: float) -> float:
    """Return the largest need over all data: a share of examples of length one at one margin, all others zero.

    Found by search over share and margin; no closed form stands here.
    """

    def of_margin(m: float) -> float:
        second = delta**2 / (delta**2 + m**2) ** 1.5
        third = 3 * abs(m) * delta**2 / (delta**2 + m**2) ** 2.5

        def less(share: float) -> float:
            return float(-share * third / (2 * (mu + share * second) ** 1.5))

        return float(-minimize_scalar(less, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}).fun)

    found = minimize_scalar(lambda m: -of_margin(m), bounds=(0.0, 6 * delta), method="bounded")
    return float(-found.fun)
