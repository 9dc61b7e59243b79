"""Ask for an error on an interval: the knots of a piecewise-linear function, hence a ReLU width, follow.

With N pieces the three placements of knots err as follows (a smooth function, its interval fixed):

- ``staircase``: flat treads of equal rise, as the paper has it (step 1 of the proof of thm:logistic): c/N;
- ``uniform``: interpolation at equal distances: c/N^2, but only N^-1/2 for a square root at 0;
- ``curvature`` (the default): interpolation at knots equidistributed in sqrt|f''|: (∫ sqrt|f''|)^2/8 / N^2, the
  smallest possible in the leading order (de Boor 1973).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tfnewton import checks
from tfnewton.approximation.curves import SQUARE, Curve
from tfnewton.approximation.units import PiecewiseLinear, Product

__all__ = ["SCHEMES", "approximate", "error_bound", "interpolate", "product", "width_constant"]

Interval = tuple[float, float]

MAX_PIECES = 2**20
RAMP = 0.01  # a step of the staircase rises over this part of the shorter neighbouring tread
BISECTIONS = 20
SWEEPS = 3


def interpolate(curve: Curve, interval: Interval, pieces: int, scheme: str = "curvature") -> PiecewiseLinear:
    """Return the approximation of ``curve`` on ``interval`` = (a, b), a < b, by the given number of pieces."""
    place = SCHEMES[checks.choice("scheme", scheme, list(SCHEMES))]
    return place(curve, _interval("interval", interval), checks.integer("pieces", pieces, minimum=1))


def approximate(curve: Curve, interval: Interval, error: float, scheme: str = "curvature") -> PiecewiseLinear:
    """Return the approximation with the fewest pieces whose error on ``interval`` is proved to be at most ``error``.

    The proof is ``error_bound`` plus the float64 ``roundoff`` of the units. Beyond 512 pieces the count is the fewest
    to within 0.2 percent. Raises ValueError where 2^20 pieces do not reach the error in float64.
    """

    def achieved(pieces: int) -> float:
        found = interpolate(curve, interval, pieces, scheme)
        return error_bound(curve, found) + found.roundoff * float(curve.weight(found.knots).max())

    pieces = _fewest(achieved, checks.real("error", error, above=0.0))
    return interpolate(curve, interval, pieces, scheme)


def product(x_interval: Interval, y_bound: float, error: float, scheme: str = "curvature") -> Product:
    """Return x·y for x in ``x_interval`` and |y| <= ``y_bound`` with the fewest pieces that keep ``error``.

    An interpolated square errs by 0..h^2/4 with h the length of a piece, so the product errs by at most h^2/16. The
    scale c = sqrt(2 y_bound/length of x_interval) makes the square's interval, hence h, shortest: N pieces give the
    error y_bound · length/(2 N^2).
    """
    low, high = _interval("x_interval", x_interval)
    bound = checks.real("y_bound", y_bound, above=0.0)
    scale = math.sqrt(2.0 * bound / (high - low))
    domain = (scale * low - bound / scale, scale * high + bound / scale)

    def achieved(pieces: int) -> float:
        found = interpolate(SQUARE, domain, pieces, scheme)
        below, above = _deviation(SQUARE, found)
        return float(above.max() - below.min()) / 4.0 + found.roundoff

    pieces = _fewest(achieved, checks.real("error", error, above=0.0))
    return Product(interpolate(SQUARE, domain, pieces, scheme), scale)


def width_constant(curve: Curve, interval: Interval) -> float:
    """Return c of the law error = c/pieces^2 of the curvature scheme: (∫ sqrt(weight |f''|))^2 / 8."""
    return float(_bending(curve, _grid(_interval("interval", interval))).sum() ** 2 / 8.0)


def error_bound(curve: Curve, found: PiecewiseLinear) -> float:
    """Return a proved bound (in exact arithmetic) on weight · |found - curve| over the interval of ``found``."""
    return float(_piece_errors(curve, found).max())


def _stretches(curve: Curve, found: PiecewiseLinear) -> np.ndarray:
    """Return points between which ``found`` is linear, ``curve`` convex or concave and the weight almost constant."""
    low, high = found.interval
    inside = [t for t in curve.turning if low < t < high]
    graded = low + (high - low) * np.logspace(-12, 0, 300)[:-1]  # for the weight next to a square root
    return np.unique(np.concatenate([found.knots, inside, graded]))


def _piece_errors(curve: Curve, found: PiecewiseLinear) -> np.ndarray:
    """Return the bound of weight · |found - curve| on each piece."""
    below, above = _deviation(curve, found)
    points = _stretches(curve, found)
    weight = curve.weight(points)
    errors = np.maximum(weight[1:], weight[:-1]) * np.maximum(-below, above)
    return np.asarray(np.maximum.reduceat(errors, np.searchsorted(points, found.knots[:-1])))


def _deviation(curve: Curve, found: PiecewiseLinear) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest value of found - curve on each stretch.

    Where the curve is convex the difference is concave: its least value is at an end, its greatest where the slopes
    agree. Bisection brackets that point, and the tangent at the bracket's right end bounds the difference on it.
    """
    points = _stretches(curve, found)
    a, b = points[:-1], points[1:]
    line = np.interp(points, found.knots, found.values)
    gap = line - curve.value(points)
    slope = np.diff(line) / (b - a)
    sign = np.sign(curve.curvature(0.5 * (a + b)))
    low, high = a, b
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        left = sign * (curve.slope(middle) - slope) < 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    inner = line[:-1] + slope * (high - a) - curve.value(high)
    margin = np.abs(curve.slope(high) - slope) * (high - low)
    below = np.minimum(np.minimum(gap[1:], gap[:-1]), inner - margin * (sign < 0))
    above = np.maximum(np.maximum(gap[1:], gap[:-1]), inner + margin * (sign > 0))
    return below, above


@lru_cache(maxsize=8)
def _grid(interval: Interval) -> np.ndarray:
    """Return a fine grid from end to end, graded towards the left end, where a square root needs it."""
    part = np.union1d(np.linspace(0.0, 1.0, 2**14 + 1), np.geomspace(1e-30, 1.0, 2**12))
    grid = np.unique(interval[0] + (interval[1] - interval[0]) * part)
    grid[-1] = interval[1]
    return grid


def _bending(curve: Curve, grid: np.ndarray) -> np.ndarray:
    middle = 0.5 * (grid[1:] + grid[:-1])
    return np.asarray(np.sqrt(curve.weight(middle) * np.abs(curve.curvature(middle))) * np.diff(grid))


def _equidistribute(grid: np.ndarray, mass: np.ndarray, pieces: int) -> np.ndarray:
    """Return pieces + 1 knots with equal mass between neighbours, where ``mass`` belongs to the cells of ``grid``."""
    total = np.concatenate([[0.0], np.cumsum(mass)])
    total += (1e-9 * total[-1] or 1.0) * np.linspace(0.0, 1.0, len(grid))  # strictly increasing, whatever the mass
    return np.asarray(np.interp(np.linspace(0.0, total[-1], pieces + 1), total, grid))


def _staircase(curve: Curve, interval: Interval, pieces: int) -> PiecewiseLinear:
    grid = _grid(interval)
    edges = _equidistribute(grid, np.abs(np.diff(curve.value(grid))), pieces)
    tread = np.diff(edges)
    half = 0.5 * RAMP * np.minimum(tread[1:], tread[:-1])
    ramps = np.array([edges[1:-1] - half, edges[1:-1] + half]).T.ravel()
    levels = 0.5 * (curve.value(edges[1:]) + curve.value(edges[:-1]))
    return PiecewiseLinear(np.concatenate([edges[:1], ramps, edges[-1:]]), np.repeat(levels, 2))


def _uniform(curve: Curve, interval: Interval, pieces: int) -> PiecewiseLinear:
    knots = np.linspace(*interval, pieces + 1)
    return PiecewiseLinear(knots, curve.value(knots))


def _curvature(curve: Curve, interval: Interval, pieces: int) -> PiecewiseLinear:
    """Equidistribute sqrt(weight |f''|), then correct by the measured errors.

    Next to an inflection and at the start of a flat tail the pieces are too long for the leading order to hold.
    """
    grid = _grid(interval)
    mass = _bending(curve, grid)
    knots = _equidistribute(grid, mass, pieces)
    for _ in range(SWEEPS if pieces < len(grid) // 16 else 0):
        error = np.sqrt(_piece_errors(curve, PiecewiseLinear(knots, curve.value(knots))))
        if error.max() <= 1.001 * error.min():
            break
        mass = mass * error[np.searchsorted(knots, 0.5 * (grid[1:] + grid[:-1])) - 1]
        knots = _equidistribute(grid, mass, pieces)
    return PiecewiseLinear(knots, curve.value(knots))


#: Name of a scheme -> how it places the given number of pieces.
SCHEMES: dict[str, Callable[[Curve, Interval, int], PiecewiseLinear]] = {
    "staircase": _staircase,
    "uniform": _uniform,
    "curvature": _curvature,
}


def _interval(name: str, interval: Interval) -> Interval:
    if not isinstance(interval, (tuple, list)) or len(interval) != 2:
        raise TypeError(f"{name} = {interval!r}: must be (a, b) with a < b")
    low, high = (checks.real(name, end) for end in interval)
    if not low < high:
        raise ValueError(f"{name} = {interval}: must be (a, b) with a < b")
    return low, high


def _fewest(achieved: Callable[[int], float], error: float) -> int:
    """Return the smallest number of pieces with achieved(pieces) <= error, by doubling and bisection."""
    high, before = 1, math.inf
    while (reached := achieved(high)) > error:
        rounding = high > 1024 and reached > before  # more pieces only add to it
        if high >= MAX_PIECES or rounding:
            best = min(reached, before)
            raise ValueError(f"error = {error}: must be at least {best:.2g}, the best that {high} pieces do in float64")
        high, before = 2 * high, reached
    low = high // 2
    while high - low > max(1, high // 512):
        middle = (low + high) // 2
        low, high = (middle, high) if achieved(middle) > error else (low, middle)
    return high
