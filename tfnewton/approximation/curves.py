"""Scalar functions that a damped Newton step needs, each with what bounding its approximation needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tfnewton import checks

__all__ = ["PROBABILITY", "SQUARE", "VARIANCE", "Curve", "step_size"]

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Curve:
    """A scalar function with its first two derivatives, each a map of float64 arrays.

    ``turning`` lists the points where the curvature changes sign or ``weight`` stops being monotone: between two of
    them the function is convex or concave. Errors are measured as weight(z) · |approximation - value|.
    """

    value: Function
    slope: Function
    curvature: Function
    turning: tuple[float, ...] = ()
    weight: Function = np.ones_like

    def weighted(self, weight: Function, turning: tuple[float, ...] = ()) -> Curve:
        """Return the same function with errors measured by ``weight``, which is monotone between ``turning``."""
        return replace(self, weight=weight, turning=self.turning + turning)


def _probability(z: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.abs(z))
    return np.asarray(np.where(z > 0, tail, 1.0) / (1.0 + tail))


def _variance(z: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.abs(z))
    return np.asarray(tail / (1.0 + tail) ** 2)


_INFLECTION = math.log(2.0 + math.sqrt(3.0))  # where p(1-p) = 1/6

#: p(z) = 1/(1+e^z), in (0, 1): the factor of the gradient at margin z.
PROBABILITY = Curve(
    _probability,
    lambda z: -_variance(z),
    lambda z: _variance(z) * np.tanh(0.5 * z),
    turning=(0.0,),
)
#: d(z) = p(1-p), even, in (0, 1/4]: the weight in the Hessian at margin z.
VARIANCE = Curve(
    _variance,
    lambda z: -_variance(z) * np.tanh(0.5 * z),
    lambda z: _variance(z) * (1.0 - 6.0 * _variance(z)),
    turning=(-_INFLECTION, _INFLECTION),
)
#: z^2, of which two make a product.
SQUARE = Curve(np.square, lambda z: 2.0 * z, lambda z: np.full_like(z, 2.0))


def step_size(mu: float) -> Curve:
    """Return eta(s) = 2 sqrt(mu)/(2 sqrt(mu) + sqrt(s)) on s >= 0, the damping as a function of s = lambda_f^2.

    Convex and decreasing from 1, with infinite slope at 0. Raises ValueError unless mu > 0.
    """
    c = 2.0 * math.sqrt(checks.real("mu", mu, above=0.0))

    def curvature(s: np.ndarray) -> np.ndarray:
        root = np.sqrt(s)
        return np.asarray(c * (c + 3.0 * root) / (4.0 * root**3 * (c + root) ** 3))

    return Curve(
        lambda s: c / (c + np.sqrt(s)),
        lambda s: -c / (2.0 * np.sqrt(s) * (c + np.sqrt(s)) ** 2),
        curvature,
    )
