"""Figures of the chapter on Newton's iteration: convergence, step counts, work and roundoff."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tfnewton.figures.style import BOUND, PRINTED, REFERENCE, finish, label, panels, slope_triangle

__all__ = ["against_gradient_descent", "convergence", "roundoff", "step_counts", "work"]

STARTS = {"norms": "^", "spectral": "o", "optimal": "v", "identity": "s"}


def _order(order: int) -> dict[str, Any]:
    """The style of the reference algorithm of this order: one grey, another marker for each."""
    return REFERENCE | {"marker": "osDvPX*"[(order - 2) % 7], "markersize": 4.5, "linewidth": 1.0}


def convergence(
    measured: Mapping[int, Sequence[float]], predicted: Mapping[int, Sequence[float]], tolerance: float
) -> Figure:
    """Return the residual ||I - A X_t|| against the step t, one curve an order, over its prediction rho_0^(p^t)."""
    figure, (ax,) = panels()
    for order, curve in measured.items():
        ax.semilogy(predicted[order], **BOUND)
        ax.semilogy(curve, **_order(order), label=f"$p = {order}$")
    ax.axhline(tolerance, color="0.6", linewidth=0.8)
    label(ax, len(next(iter(measured.values()))) - 1, tolerance, "tolerance", {"color": "0.2"}, ha="right")
    ax.set_ylim(max(min(min(curve) for curve in measured.values()) / 30, 1e-18), 3.0)
    ax.set(xlabel="step $t$", ylabel="residual  $\\|I - A X_t\\|$")
    _beside(ax)
    return _integer_axes(figure, ax.xaxis)


def step_counts(
    kappas: Sequence[float],
    measured: Mapping[str, Sequence[float]],
    fine: Sequence[float],
    bounds: Mapping[str, Sequence[float]],
    printed: Sequence[float],
) -> Figure:
    """Return steps to the goal against the condition number, one curve a start, with bounds and printed form.

    ``measured`` is on the grid ``kappas``, ``bounds`` and ``printed`` are on the grid ``fine``.
    """
    figure, (ax,) = panels(height=3.8)
    ax.semilogx(fine, np.maximum(printed, 0.0), **(PRINTED | {"marker": None, "linewidth": 2.2}))
    named = {"printed form": (max(printed[-1], 0.0), PRINTED["color"])}
    for init, counts in measured.items():
        style = REFERENCE | {"marker": STARTS[init], "markersize": 5, "linestyle": "none"}
        ax.semilogx(fine, bounds[init], **BOUND)
        ax.semilogx(kappas, counts, **style)
        named[init] = (bounds[init][-1], "0.2")
    _condition_numbers(ax, fine)
    ax.set_ylim(0.0, max(2.0, 1.04 * ax.get_ylim()[1]))
    ax.set(ylabel="steps $T$")
    _at_the_end(ax, fine[-1], named)
    return _integer_axes(figure, ax.yaxis)


def against_gradient_descent(
    kappas: Sequence[float],
    gradient: Sequence[int],
    verified: Sequence[int],
    newton: Mapping[int, Sequence[int]],
) -> Figure:
    """Return steps against the condition number on logarithmic axes: gradient descent's, and Newton's by order.

    ``verified`` holds the first counts of ``gradient``, those that were run.
    """
    figure, (ax,) = panels()
    ax.loglog(kappas, gradient, **BOUND)
    style = REFERENCE | {"marker": "^", "markersize": 5, "linestyle": "none"}
    ax.loglog(kappas[: len(verified)], verified, **style)
    named = {"gradient descent": (float(gradient[-1]), "0.2")}
    if kappas[-1] > 4.0:  # below, the axis is too short for a doubling
        slope_triangle(ax, kappas[-3], gradient[-3] / 4, 2.0)
    for order, counts in newton.items():
        ax.loglog(kappas, [max(count, 0.5) for count in counts], **_order(order))  # no zero on a logarithmic axis
    orders = ", ".join(map(str, newton))
    named[f"Newton,\n$p = {orders}$"] = (max(0.5, *(counts[-1] for counts in newton.values())), "0.2")
    _condition_numbers(ax, kappas)
    ax.set(ylabel="steps to the goal", ylim=(0.3, max(20.0, 3.0 * gradient[-1])))
    _at_the_end(ax, kappas[-1], named)
    return finish(figure)


def work(
    horner: Mapping[int, float], fewest: Mapping[int, float], spent: Mapping[int, float], cheapest: int = 9
) -> Figure:
    """Return products per doubling of the digits against the order: Horner's rule, the fewest, and what was spent.

    ``horner`` is drawn over p / log2 p; the order ``cheapest`` of ``fewest`` gets a label.
    """
    figure, (ax,) = panels()
    smooth = np.linspace(min(horner), max(horner), 200)
    ax.plot(smooth, smooth / np.log2(smooth), **BOUND)
    ax.plot(*_points(horner), color="black", marker="o", markersize=3, linestyle="none", label="Horner's rule")
    ax.plot(*_points(fewest), color="black", marker="*", markersize=8, linestyle="none", label="fewest products")
    style = REFERENCE | {"marker": "s", "markersize": 4, "linewidth": 1.0}
    ax.plot(*_points(spent), **style, label="fewest, whole steps")
    label(ax, cheapest, fewest[cheapest], f"order {cheapest}", {"color": "black"}, xytext=(0, -14), ha="center")
    low = min(*fewest.values(), *spent.values())
    high = max(*horner.values(), *fewest.values(), *spent.values())
    ax.set_ylim(low - 0.12 * (high - low), high + 0.45 * (high - low))  # room for a label below, names above
    ax.set(xlabel="order $p$", ylabel="products per doubling")
    ax.legend(loc="upper right", fontsize=10, frameon=False)
    return _integer_axes(figure, ax.xaxis)


def _points(by_order: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(by_order), list(by_order.values())


def roundoff(
    regular: Mapping[str, Sequence[float]],
    levels: Mapping[str, float],
    singular: Mapping[int, Sequence[float]],
) -> Figure:
    """Return what roundoff leaves: the residual in two precisions (above), the error for a singular A (below)."""
    figure, (above, below) = panels(rows=2, height=2.9)
    for (dtype, curve), marker in zip(regular.items(), "o^", strict=True):
        above.semilogy(curve, **(_order(2) | {"marker": marker}))
        above.axhline(levels[dtype], **BOUND)
        side: dict[str, Any] = {"xytext": (0, -4), "va": "top"} if levels[dtype] > 1e-3 else {"xytext": (0, 4)}
        label(above, 0, levels[dtype], f"{dtype}: $u\\kappa$", {"color": "0.2"}, **side)
    for order, curve in singular.items():
        below.semilogy(curve, **_order(order), label=f"$p = {order}$")
    above.set(xlabel="step $t$", ylabel="residual, regular $A$")
    below.set(xlabel="step $t$", ylabel="error, singular $A$")
    least = min((value for curve in singular.values() for value in curve if value), default=1e-16)
    below.set_ylim(least / 30, 8.0)
    _beside(below)
    return _integer_axes(figure, above.xaxis, below.xaxis)


def _beside(ax: Axes) -> None:
    """Name the curves beside the panel: inside, those of high orders lie too close."""
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10, frameon=False, handlelength=1.6)


def _condition_numbers(ax: Axes, kappas: Sequence[float]) -> None:
    """Make x the axis of condition numbers: near one, of a few plain numbers, since it holds no power of ten."""
    ax.set_xlabel("condition number $\\kappa$")
    if kappas[-1] < 20.0:
        ends = np.geomspace(kappas[0], kappas[-1], 3)
        digits = max(2, 2 - math.floor(math.log10(kappas[-1] - 1.0)))
        ax.set_xticks(ends, [f"{value:.{digits}f}" for value in ends])
        ax.xaxis.set_minor_locator(NullLocator())


def _at_the_end(ax: Axes, x: float, named: Mapping[str, tuple[float, str]]) -> None:
    """Write each name beside the end of its curve at x, given its height and colour, and no two on one another."""
    low, high = (ax.transData.transform((x, y))[1] for y in ax.get_ylim())
    tall = ax.get_window_extent().height * 72.0 / ax.figure.dpi  # of the panel, in points
    end = -math.inf
    for name, (y, colour) in sorted(named.items(), key=lambda item: item[1][0]):
        at = (ax.transData.transform((x, y))[1] - low) / (high - low) * tall
        lines = 1 + name.count("\n")
        middle = max(at, end + 7.0 * lines)
        shift = {"xytext": (6, middle - at), "va": "center", "annotation_clip": False}
        label(ax, x, y, name, {"color": colour}, **shift)
        end = middle + 7.0 * lines


def _integer_axes(figure: Figure, *axes: Axis) -> Figure:
    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))
    return finish(figure)
