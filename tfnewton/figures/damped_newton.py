"""Figures of the chapter on damped Newton: dampings, the two phases, the final accuracy, and what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.checks import Array
from tfnewton.figures.style import BOUND, PRINTED, REFERENCE, finish, label, panels, slope_triangle

__all__ = ["accuracy", "cycle", "dampings", "growth", "phases"]

_MARKERS = {"paper": "o", "sharp": "^", "full": "s"}
_LEAST = 1e-16  # a zero is drawn here


def _measured(marker: str) -> dict[str, Any]:
    return REFERENCE | {"marker": marker, "markersize": 4.0, "linewidth": 1.0}


def _steps(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step $t$")


def dampings(gaps: Mapping[str, Array]) -> Figure:
    """Return f(x_t) - min f against the step, one curve a damping ("paper", "sharp", "full"), down to roundoff."""
    figure, (ax,) = panels(height=3.0)
    for name, gap in gaps.items():
        values = np.asarray(gap)
        last = int(np.argmax(values < 1e-14)) or len(values)
        values = values[:last]
        ax.semilogy(values, **_measured(_MARKERS[name]), markevery=max(1, len(values) // 25))
        at = len(values) - 1
        label(ax, at, values[at], name, {"color": "0.2"}, xytext=(6, 2))
    ax.margins(x=0.12)
    ax.set_ylabel("$f(x_t) - \\min f$")
    _steps(ax)
    return finish(figure)


def phases(gap: tuple[Array, Array, Array], decrement: tuple[Array, Array, Array], threshold: float) -> Figure:
    """Return gap of g (above) and decrement (below) of one run against the step, under their bounds.

    ``gap`` is measured, bounded by phase I and by phase II; ``decrement`` is measured, bounded finely and by the
    quadratic form; all (steps + 1,), infinite where nothing is claimed. ``threshold`` is where the phases meet.
    """
    figure, axes = panels(rows=2, height=2.6)
    for ax, (measured, first, second) in zip(axes, (gap, decrement), strict=True):
        ax.semilogy(_drawn(first), **BOUND)
        ax.semilogy(_drawn(second), **(BOUND | {"linestyle": "-."}))
        ax.semilogy(_drawn(measured), **_measured("o"), markevery=max(1, len(np.asarray(measured)) // 25))
        _steps(ax)
    above, below = axes
    above.set_ylabel("gap  $g(x_t) - \\min g$")
    below.set_ylabel("decrement  $\\lambda(x_t)$")
    below.axhline(threshold, color="0.6", linewidth=0.8)
    label(below, 0, threshold, "1/6", {"color": "0.3"}, xytext=(0, 2))
    for ax, bound, at, text in ((above, gap[1], -1, "phase I"), (below, decrement[1], 0, "phase II")):
        claimed = np.flatnonzero(np.isfinite(np.asarray(bound)))
        if claimed.size > 1:
            label(ax, claimed[at], _drawn(bound)[claimed[at]], text, BOUND, xytext=(5, 1))
    return finish(figure)


def _drawn(values: Array) -> np.ndarray:
    """Return the values from _LEAST on, with NaN where they are infinite."""
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array), np.maximum(array, _LEAST), np.nan)


def accuracy(errors: Array, measured: Array, proved: Array, printed: Array) -> Figure:
    """Return the distance that remains against the error of each step, on logarithmic axes.

    All (k,); ``proved`` is infinite where nothing is.
    """
    x = np.asarray(errors)
    figure, (ax,) = panels(height=3.8)
    ax.loglog(x, np.asarray(printed), **(PRINTED | {"marker": None, "linewidth": 2.2}))
    label(ax, x[0], float(np.asarray(printed)[0]), "printed order", PRINTED, xytext=(0, 24))
    ax.loglog(x, _drawn(proved), **BOUND)
    ax.loglog(x, np.asarray(measured), **(REFERENCE | {"marker": "o", "markersize": 5.0, "linestyle": "none"}))
    middle = len(x) // 2
    text = "measured, and proved" if np.isfinite(np.asarray(proved)[middle]) else "measured"
    label(ax, x[middle], float(np.asarray(measured)[middle]), text, REFERENCE, xytext=(-8, 6), ha="right")
    slope_triangle(ax, x[middle], float(np.asarray(measured)[middle]) / 4, 1.0, factor=8.0)
    slope_triangle(ax, x[middle], 6 * float(np.asarray(printed)[middle]), 0.5, factor=8.0)
    ax.set(xlabel="error of each step  $\\epsilon$", ylabel="distance left  $\\|x_t - x^*\\|$")
    return finish(figure)


def growth(norms: Mapping[float, Sequence[float]], printed_from: float) -> Figure:
    """Return ||x_t|| against t on logarithmic axes, one curve a penalty mu; red where the printed lemma fails."""
    figure, (ax,) = panels(height=3.0)
    for mu, curve in norms.items():
        t = np.arange(len(curve))[1:]
        fails = mu >= printed_from
        style = PRINTED | {"marker": None, "linewidth": 2.0} if fails else REFERENCE
        ax.loglog(t, curve[1:], **style)
        label(ax, t[-1], curve[-1], f"$\\mu = {mu:.4g}$", style, xytext=(4, 0), va="center")
    ax.set_xlim(right=len(next(iter(norms.values()))) * 4)
    ax.set(xlabel="step $t$", ylabel="norm  $\\|x_t\\|$")
    return finish(figure)


def cycle(paths: Mapping[str, Array], minimizer: float) -> Figure:
    """Return x_t of one-dimensional runs against t, one curve a damping, on a symmetric logarithmic axis."""
    figure, (ax,) = panels(height=3.0)
    for name, path in paths.items():
        values = np.asarray(path)
        style = _measured(_MARKERS[name]) | {"linewidth": 0.8, "markersize": 2.0 if name == "full" else 4.0}
        ax.plot(values, **style, markevery=max(1, len(values) // 25))
    for name, at, offset in (("full", 7, (10, -4)), ("sharp", 22, (0, 8)), ("paper", 40, (0, -16))):
        at = min(at, len(np.asarray(paths[name])) - 1)
        label(ax, at, float(np.asarray(paths[name])[at]), name, {"color": "0.2"}, xytext=offset)
    ax.axhline(minimizer, **BOUND)
    ax.set_yscale("symlog", linthresh=10.0)
    ax.set_ylim(-400.0, 20000.0)
    ax.set_ylabel("iterate $x_t$")
    _steps(ax)
    return finish(figure)
