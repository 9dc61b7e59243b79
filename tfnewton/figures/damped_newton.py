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
    """Return f(x_t) - min f against the step, one curve a damping ("paper", "sharp", "full")."""
    figure, (ax,) = panels()
    for name, gap in gaps.items():
        values = np.maximum(np.asarray(gap), _LEAST)
        ax.semilogy(values, **_measured(_MARKERS[name]), markevery=max(1, len(values) // 25))
        at = int(np.argmax(values < values[0] ** 0.4 * _LEAST**0.6)) or len(values) - 1
        label(ax, at, values[at], name, {"color": "0.2"}, xytext=(6, 2))
    ax.set_ylabel("$f(x_t) - \\min f$")
    _steps(ax)
    return finish(figure)


def phases(
    gap: Array, gap_bound: Array, decrement: Array, decrement_bound: Array, quadratic: Array, threshold: float
) -> Figure:
    """Return the gap of g (above) and the decrement (below) of one run against the step, under their bounds.

    All (steps + 1,); a bound is infinite where nothing is claimed. ``threshold`` is where the phases meet.
    """
    figure, (above, below) = panels(rows=2, height=2.9)
    every = max(1, len(np.asarray(gap)) // 25)
    above.semilogy(_drawn(gap_bound), **BOUND)
    above.semilogy(_drawn(gap), **_measured("o"), markevery=every)
    above.set_ylabel("gap  $g(x_t) - \\min g$")
    last = int(np.flatnonzero(np.isfinite(np.asarray(gap_bound)))[-1])
    label(above, last, _drawn(gap_bound)[last], "phase I bound", BOUND, xytext=(4, 2))
    below.semilogy(_drawn(decrement_bound), **BOUND)
    below.semilogy(_drawn(quadratic), **(BOUND | {"linestyle": "-."}))
    below.semilogy(_drawn(decrement), **_measured("o"), markevery=every)
    below.axhline(threshold, color="0.6", linewidth=0.8)
    label(below, 0, threshold, "1/6", {"color": "0.3"}, xytext=(0, 2))
    claimed = np.flatnonzero(np.isfinite(np.asarray(decrement_bound)))
    if claimed.size:
        at = int(claimed[len(claimed) // 2])
        label(below, at, _drawn(decrement_bound)[at], "phase II bound", BOUND, xytext=(4, 5))
    below.set_ylabel("decrement  $\\lambda(x_t)$")
    for ax in (above, below):
        _steps(ax)
    return finish(figure)


def _drawn(values: Array) -> np.ndarray:
    """Return the values from _LEAST on, with NaN where they are infinite."""
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array), np.maximum(array, _LEAST), np.nan)


def accuracy(errors: Array, measured: Array, proved: Array, printed: Array) -> Figure:
    """Return the distance that remains against the error of each step, on logarithmic axes; all (k,)."""
    x = np.asarray(errors)
    figure, (ax,) = panels(height=3.8)
    ax.loglog(x, np.asarray(printed), **(PRINTED | {"marker": None, "linewidth": 2.2}))
    label(ax, x[0], float(np.asarray(printed)[0]), "printed order", PRINTED, xytext=(0, 8))
    ax.loglog(x, _drawn(proved), **BOUND)
    ax.loglog(x, np.asarray(measured), **(REFERENCE | {"marker": "o", "markersize": 5.0, "linestyle": "none"}))
    middle = len(x) // 2
    label(
        ax,
        x[middle],
        float(np.asarray(measured)[middle]),
        "measured, and proved",
        REFERENCE,
        xytext=(-8, 6),
        ha="right",
    )
    slope_triangle(ax, x[middle], float(np.asarray(measured)[middle]) / 4, 1.0, factor=8.0)
    slope_triangle(ax, x[1], float(np.asarray(printed)[1]) / 4, 0.5, factor=8.0)
    ax.set(xlabel="error of each step  $\\epsilon$", ylabel="distance left  $\\|x_t - x^*\\|$")
    return finish(figure)


def growth(norms: Mapping[float, Sequence[float]], printed_from: float) -> Figure:
    """Return ||x_t|| against t on logarithmic axes, one curve a penalty mu; red where the printed lemma fails."""
    figure, (ax,) = panels()
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
    figure, (ax,) = panels()
    for name, path in paths.items():
        values = np.asarray(path)
        ax.plot(values, **_measured(_MARKERS[name]), markevery=max(1, len(values) // 25))
        label(ax, 1, float(values[1]), name, {"color": "0.2"}, xytext=(6, 4))
    ax.axhline(minimizer, **BOUND)
    ax.set_yscale("symlog", linthresh=10.0)
    ax.set_ylabel("iterate $x_t$")
    _steps(ax)
    return finish(figure)
