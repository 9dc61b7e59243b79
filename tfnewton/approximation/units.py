"""Piecewise-linear functions of a row, and products of two rows, as units of a ReLU layer.

A ReLU layer maps H to H + W2 relu(W1 H) and has NO bias vectors: a bias is the column of W1 that reads a row of ones.
Everything here therefore ends as ``Units``: unit k computes out_k · relu(sum_r weight_rk · row_r + bias_k), with
``weight`` for the columns of W1 that read the input rows, ``bias`` for the column that reads the row of ones, and
``out`` for the row of W2 that is written. A constant is one more unit, which reads the row of ones alone.

Which knots reach a requested error is the matter of ``tfnewton.approximation.knots``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tfnewton import checks
from tfnewton.checks import Array

__all__ = ["PiecewiseLinear", "Product", "Units"]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a ReLU layer that write one row; see the head of this module.

    ``weight`` (r, width): factors of the r input rows; ``bias`` (width,): factor of the row of ones; ``out`` (width,).
    """

    weight: np.ndarray
    bias: np.ndarray
    out: np.ndarray

    @property
    def width(self) -> int:
        """Number of ReLU units."""
        return len(self.out)

    def __call__(self, *rows: Array) -> Array:
        """Return sum_k out_k relu(weight_k · rows + bias_k) for r rows of equal shape (any shape)."""
        z = torch.stack([checks.tensor(f"row {r}", row, ()) for r, row in enumerate(rows)], dim=-1)
        weight, bias, out = (torch.as_tensor(a).to(z) for a in (self.weight, self.bias, self.out))
        return checks.like(torch.relu(z @ weight + bias) @ out, *rows)


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """The continuous piecewise-linear function through (knots, values), constant outside [knots[0], knots[-1]].

    ``knots`` (K,) strictly increasing, ``values`` (K,), K >= 2; both are copied and made read-only.
    Raises ValueError for fewer knots, unequal lengths, knots that do not increase, NaN or infinity.
    """

    knots: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        for name in ("knots", "values"):
            array = checks.tensor(name, getattr(self, name), ("K",), dtype=torch.float64).numpy().copy()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.knots.ndim != 1 or len(self.knots) < 2 or not (np.diff(self.knots) > 0).all():
            raise ValueError(f"knots with shape {self.knots.shape}: must be at least two, strictly increasing")
        if self.values.shape != self.knots.shape:
            raise ValueError(f"values has shape {self.values.shape}: must be {self.knots.shape}, as knots")

    @property
    def interval(self) -> tuple[float, float]:
        """The interval outside which the function is constant."""
        return float(self.knots[0]), float(self.knots[-1])

    @property
    def slopes(self) -> np.ndarray:
        """Slope of each piece, (K-1,)."""
        return np.asarray(np.diff(self.values) / np.diff(self.knots))

    @property
    def width(self) -> int:
        """Number of ReLU units, the constant's included."""
        return self.units().width

    def __call__(self, z: Array) -> Array:
        """Return the function at z (any shape), by looking up the piece and not by the units."""
        given = checks.tensor("z", z, ())
        t = given.double()  # in float32 knots may coincide
        knots, values = (torch.tensor(array, device=t.device) for array in (self.knots, self.values))
        right = torch.searchsorted(knots, t.contiguous()).clamp(1, len(knots) - 1)
        part = ((t - knots[right - 1]) / (knots[right] - knots[right - 1])).clamp(0.0, 1.0)
        return checks.like(torch.lerp(values[right - 1], values[right], part).to(given.dtype), z)

    def units(self) -> Units:
        """Return the function as ReLU units on one row, one for each kink and one for the constant unless it is zero.

        A kink c at t is c·relu(z - t) for all knots, or c·relu(t - z) for all: the side is taken on which the terms
        stay small, since the other loses digits next to a very steep piece; see ``roundoff``.
        """
        kinks = self._kinks()
        left, right = self._sizes(kinks)
        sign, constant = (1.0, self.values[0]) if left <= right else (-1.0, self.values[-1])
        used = kinks != 0.0
        weight, bias, out = np.full(used.sum(), sign), -sign * self.knots[used], kinks[used]
        if constant != 0.0:
            weight, bias, out = np.append(weight, 0.0), np.append(bias, 1.0), np.append(out, constant)
        return Units(weight[None], bias, out)

    @property
    def roundoff(self) -> float:
        """Bound on the float64 rounding error of ``units`` on the interval: width · 2.2e-16 · size of the terms."""
        size = min(self._sizes(self._kinks())) + 2.0 * float(np.abs(self.values).max())
        return (len(self.knots) + 4) * float(np.finfo(np.float64).eps) * size

    def _kinks(self) -> np.ndarray:
        return np.diff(self.slopes, prepend=0.0, append=0.0)

    def _sizes(self, kinks: np.ndarray) -> tuple[float, float]:
        """Largest sum of the units' absolute values, for units that open to the right and to the left."""
        size = np.abs(kinks)
        return float(size @ (self.knots[-1] - self.knots)), float(size @ (self.knots - self.knots[0]))


@dataclass(frozen=True, eq=False)
class Product:
    """x·y as (S(cx + y/c) - S(cx - y/c))/4, with S the approximated square and c = ``scale``.

    Zero (to rounding) where y is zero; constant where cx ± y/c leaves the interval of S.
    """

    square: PiecewiseLinear
    scale: float

    @property
    def width(self) -> int:
        """Number of ReLU units."""
        return self.units().width

    def __call__(self, x: Array, y: Array) -> Array:
        """Return the approximate product of x and y (equal shapes), by looking up the pieces of S."""
        u, v = (checks.tensor(name, row, ()) for name, row in (("x", x), ("y", y)))
        plus, minus = (self.square(self.scale * u + sign * v / self.scale) for sign in (1.0, -1.0))
        return checks.like(torch.as_tensor((plus - minus) / 4.0), x, y)

    def units(self) -> Units:
        """Return the product as ReLU units on the two rows (x, y)."""
        half = self.square.units()
        kept = half.weight[0] != 0.0  # the constants of the two squares cancel
        weight, bias, out = half.weight[0, kept], half.bias[kept], half.out[kept]
        # plus and minus side by side: for y = 0 they cancel before anything else is added
        return Units(
            np.stack([np.repeat(weight * self.scale, 2), np.outer(weight, [1.0, -1.0]).ravel() / self.scale]),
            np.repeat(bias, 2),
            np.outer(out, [0.25, -0.25]).ravel(),
        )
