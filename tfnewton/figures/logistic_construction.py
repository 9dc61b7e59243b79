"""Figures of chapters 07 and 08: the ReLU approximations of a damped Newton step, its error, whole runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from tfnewton.approximation.curves import PROBABILITY, VARIANCE, Curve, step_size
from tfnewton.approximation.units import PiecewiseLinear
from tfnewton.checks import choice
from tfnewton.figures.style import BAND, BOUND, CONSTRUCTED, PRINTED, REFERENCE, finish, label, panels, slope_triangle
from tfnewton.theory.error_budget import ReluLayers

__all__ = ["accuracy", "approximations", "coordinates", "error_against_width", "gaps_by_layers", "trajectory"]

_SCHEME_STYLES = {
    "curvature": CONSTRUCTED,
    "uniform": CONSTRUCTED | {"color": "#56B4E9", "marker": "^", "linestyle": "--"},
    "staircase": PRINTED,
}
#: Of lines by the number of inversion steps, few to many.
_K_STYLES: tuple[dict[str, Any], ...] = (
    {"marker": "v", "linestyle": ":"},
    {"marker": "^", "linestyle": "--", "color": "#56B4E9"},
    {},
)


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
        ax.set_title(f"{found.width} unit{'' if found.width == 1 else 's'}", fontsize=10, loc="right")
    return finish(figure)


def error_against_width(measured: Mapping[str, tuple[Sequence[int], Sequence[float], Sequence[float]]]) -> Figure:
    """Return the error of one step against the widest ReLU layer, log-log: worst measured and proved, by scheme.

    Args:
        measured: scheme to (widths, largest measured errors, proved bounds), all positive.

    Raises ValueError for an unknown scheme.
    """
    styles = {scheme: _SCHEME_STYLES[choice("scheme", scheme, list(_SCHEME_STYLES))] for scheme in measured}
    figure, (ax,) = panels(height=4.0)
    for scheme, (widths, errors, bounds) in measured.items():
        style = styles[scheme]
        ax.loglog(widths, errors, **style, label=scheme)
        thin = {key: style[key] for key in ("linestyle", "marker") if key in style} | {"markersize": 3.0}
        ax.loglog(widths, bounds, **(BOUND | thin), label=f"{scheme}, proved")
    widths, errors, _ = measured["curvature"]
    slope_triangle(ax, widths[0], min(errors) / 2.0, -2.0)
    every = [width for widths, _, _ in measured.values() for width in widths]
    ax.set_xlim(min(every) / 1.5, max(3.0 * max(every), 30.0 * min(every)))
    ax.xaxis.set_minor_formatter(NullFormatter())  # between few units they would touch
    ax.set(xlabel="units of the widest ReLU layer", ylabel="error of one step, $\\|\\varepsilon\\|_2$")
    ax.legend(fontsize=9, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False)
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
    ends = [("exact", max(exact[-1], floor), REFERENCE)]
    for name, values in runs.items():
        ax.semilogy(np.maximum(values, floor), **(CONSTRUCTED | {"markersize": 4.0}))
        ends.append((name, max(values[-1], floor), CONSTRUCTED))
    ax.set(xlabel="damped Newton steps", ylabel="$\\|x_t - x^*\\|_2$", xlim=(0, 1.25 * (len(exact) - 1)))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _name_ends(ax, len(exact) - 1, ends)
    return finish(figure)


def accuracy(errors: Sequence[float], distances: Sequence[float], limit: float) -> Figure:
    """Return the final distance to the minimiser against the error of a step: measured, 2 eps, and sqrt(eps).

    Args:
        errors: error a step, increasing or decreasing, positive.
        distances: final distances, positive.
        limit: error up to which 2 eps is proved: the line is solid there.
    """
    figure, (ax,) = panels(height=3.6)
    e = np.geomspace(min(errors) / 2.0, 2.0 * max(errors), 100)
    last = float(e[-1])
    for part, line in ((e <= limit, "-"), (e > limit, ":")):
        if part.any():
            ax.loglog(e[part], 2.0 * e[part], **BOUND, linestyle=line)
    ax.loglog(e, np.sqrt(e), **(PRINTED | {"marker": "none"}))
    ax.loglog(errors, distances, **CONSTRUCTED)
    ends = [("2ε, proved where solid", 2.0 * last, BOUND), ("√ε, printed", math.sqrt(last), PRINTED)]
    _name_ends(ax, last, [*ends, ("transformer", distances[int(np.argmax(errors))], CONSTRUCTED)])
    ax.set_xlim(right=last * (last / float(e[0])) ** 0.6)
    ax.set(xlabel="requested error of one step, $\\varepsilon$", ylabel="final $\\|x_T - x^*\\|_2$")
    return finish(figure)


def gaps_by_layers(panel: Mapping[str, Mapping[str, tuple[int, np.ndarray]]]) -> Figure:
    """Return the loss above the least against the layers, a panel a setting and a line a number of inversion steps.

    Args:
        panel: title to (name of a line to (layers a step, gaps (steps + 1, seeds))): lines at the median of the seeds,
            bands from least to largest; gaps below 1e-9 are drawn at it.
    """
    figure, axes = panels(len(panel), height=3.6)
    for ax, (title, lines) in zip(axes, panel.items(), strict=True):
        ends = []
        for (name, (layers, gaps)), extra in zip(lines.items(), _K_STYLES, strict=False):
            at, drawn = layers * np.arange(len(gaps)), np.maximum(gaps, 1e-9)
            style = CONSTRUCTED | extra | {"markevery": max(1, len(gaps) // 12)}
            ax.semilogy(at, np.median(drawn, axis=1), **style)
            ax.fill_between(at, drawn.min(axis=1), drawn.max(axis=1), color=style["color"], **BAND)
            ends.append((name, float(np.median(drawn[-1])), style))
        last = max(layers * (len(gaps) - 1) for layers, gaps in lines.values())
        ax.set(xlabel="layers", xlim=(0, 1.3 * last))
        ax.set_title(title, fontsize=10, loc="left")
        _name_ends(ax, last, ends)
    axes[0].set_ylabel("$f(x) - \\min f$")
    return finish(figure)


def _name_ends(ax: Axes, x: float, ends: Sequence[tuple[str, float, dict[str, Any]]]) -> None:
    """Write each (name, y, style) to the right of x at the height y of a logarithmic axis, and no name on another."""
    low, high = (math.log(end) for end in ax.get_ylim())
    placed = sorted(ends, key=lambda end: end[1])
    heights = [(math.log(y) - low) / (high - low) for _, y, _ in placed]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + 0.075)
    heights[-1] = min(heights[-1], 0.97)
    for i in range(len(heights) - 1, 0, -1):
        heights[i - 1] = min(heights[i - 1], heights[i] - 0.075)
    for (name, _, style), height in zip(placed, heights, strict=True):
        options: Any = {"xycoords": ("data", "axes fraction"), "xytext": (6, 0), "va": "center"}
        label(ax, x, height, name, style, **options)


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
