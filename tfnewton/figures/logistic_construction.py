"""Figures of chapters 07 and 08: the ReLU approximations of a damped Newton step, its error, whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfnewton.approximation.curves import PROBABILITY, VARIANCE, Curve, step_size
from tfnewton.approximation.units import PiecewiseLinear
from tfnewton.figures.style import BOUND, CONSTRUCTED, PRINTED, REFERENCE, finish, label, panels, slope_triangle
from tfnewton.theory.error_budget import ReluLayers

__all__ = ["accuracy", "approximations", "coordinates", "error_against_width", "trajectory"]

_SCHEME_STYLES = {
    "curvature": CONSTRUCTED,
    "uniform": CONSTRUCTED | {"marker": "^", "linestyle": "--", "markerfacecolor": "white"},
    "staircase": PRINTED,
}


def approximations(layers: ReluLayers, mu: float) -> Figure:
    """Return three panels, d(z), p(z) and eta(s): the function, its piecewise-linear stand-in and the knots.

    Args:
        layers: the four approximations of a step, such as ``ErrorBudget.layers()``.
        mu: penalty, which fixes eta.
    """
    figure, axes = panels(1, 3, height=2.3)
    curves: list[tuple[Curve, PiecewiseLinear, str, str]] = [
        (VARIANCE, layers.variance, "margin $z$", "$d = p(1-p)$"),
        (PROBABILITY, layers.probability, "margin $z$", "$p = 1/(1+e^z)$"),
        (step_size(mu), layers.step_size, "$s = \\lambda^2$", "$\\eta(s)$"),
    ]
    for ax, (curve, found, x, y) in zip(axes, curves, strict=True):
        low, high = found.interval
        z = np.linspace(low, high, 600)
        ax.plot(z, curve.value(z), **REFERENCE)
        ax.plot(found.knots, found.values, **(CONSTRUCTED | {"markersize": 3.5, "linewidth": 0.9}))
        ax.set(xlabel=x, ylabel=y)
        ax.set_title(f"{found.width} units", fontsize=10, loc="right")
    return finish(figure)


def error_against_width(measured: dict[str, tuple[Sequence[int], Sequence[float], Sequence[float]]]) -> Figure:
    """Return the error of one step against the widest ReLU layer, log-log: worst measured and proved, by scheme.

    Args:
        measured: scheme to (widths, largest measured errors, proved bounds), all positive.

    Raises ValueError for an unknown scheme.
    """
    figure, (ax,) = panels(height=3.8)
    for scheme, (widths, errors, bounds) in measured.items():
        if scheme not in _SCHEME_STYLES:
            raise ValueError(f"scheme = {scheme!r}: must be one of {', '.join(map(repr, _SCHEME_STYLES))}")
        style = _SCHEME_STYLES[scheme]
        ax.loglog(widths, errors, **style)
        ax.loglog(widths, bounds, **BOUND, linestyle=style.get("linestyle", "-"))
        label(ax, widths[-1], errors[-1], scheme, style, xytext=(7, -3))
    widths, errors, _ = measured["curvature"]
    slope_triangle(ax, widths[0], errors[0] / 30.0, -2.0)
    ax.set_xlim(right=6.0 * max(widths[-1] for widths, _, _ in measured.values()))
    ax.set(xlabel="units of the widest ReLU layer", ylabel="error of one step, $\\|\\varepsilon\\|_2$")
    return finish(figure)


def trajectory(exact: Sequence[float], runs: dict[str, Sequence[float]], floor: float) -> Figure:
    """Return the distance to the minimiser against the step: exact damped Newton and transformers of given error.

    Args:
        exact: distances of the exact iterates, step 0 first.
        runs: label to the distances of a transformer's iterates.
        floor: distances below it are drawn at it.
    """
    figure, (ax,) = panels(height=3.6)
    ax.semilogy(np.maximum(exact, floor), **REFERENCE)
    last = len(exact) - 1
    label(ax, last, max(exact[-1], floor), "exact", REFERENCE)
    for name, values in runs.items():
        ax.semilogy(np.maximum(values, floor), **(CONSTRUCTED | {"markersize": 4.0}))
        label(ax, last, max(values[-1], floor), name, CONSTRUCTED)
    ax.set(xlabel="damped Newton steps", ylabel="$\\|x_t - x^*\\|_2$")
    ax.margins(x=0.15)
    return finish(figure)


def accuracy(errors: Sequence[float], distances: Sequence[float], ours: str = "2ε, proved") -> Figure:
    """Return the final distance to the minimiser against the error of a step: measured, 2 eps, and sqrt(eps).

    Args:
        errors: error a step, increasing or decreasing, positive.
        distances: final distances, positive.
        ours: label of the line 2 eps.
    """
    figure, (ax,) = panels(height=3.6)
    e = np.asarray(errors, dtype=float)
    ax.loglog(e, 2.0 * e, **BOUND)
    label(ax, e[len(e) // 2], 2.0 * e[len(e) // 2], ours, BOUND, xytext=(-8, 8), ha="right")
    ax.loglog(e, np.sqrt(e), **PRINTED)
    label(ax, e[len(e) // 2], np.sqrt(e[len(e) // 2]), "√ε, printed", PRINTED, xytext=(-8, 8), ha="right")
    ax.loglog(e, distances, **CONSTRUCTED)
    label(ax, e[len(e) // 2], distances[len(e) // 2], "transformer", CONSTRUCTED, xytext=(8, -12))
    ax.set(xlabel="requested error of one step, $\\varepsilon$", ylabel="final $\\|x_T - x^*\\|_2$")
    return finish(figure)


def coordinates(exact: np.ndarray, printed: np.ndarray, corrected: np.ndarray) -> Figure:
    """Return a vector coordinate by coordinate: exact, by the printed line and by the corrected one.

    Args:
        exact, printed, corrected: the vectors, shape (d,).
    """
    figure, (ax,) = panels(height=2.8)
    place = np.arange(len(exact))
    _points(ax, place, exact, "exact", REFERENCE | {"linestyle": "none", "marker": "_", "markersize": 22})
    _points(ax, place, corrected, "corrected", CONSTRUCTED | {"linestyle": "none"})
    _points(ax, place, printed, "as printed", PRINTED | {"linestyle": "none"})
    ax.set(xlabel="coordinate of $x_1$", xticks=place)
    ax.legend(fontsize=10)
    return finish(figure)


def _points(ax: Axes, x: np.ndarray, y: np.ndarray, name: str, style: dict[str, Any]) -> None:
    ax.plot(x, y, label=name, **style)
