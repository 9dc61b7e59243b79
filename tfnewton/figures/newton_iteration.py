"""Figures of the chapter on Newton's iteration: convergence, step counts, work and roundoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.figures.style import BOUND, PRINTED, REFERENCE, finish, label, panels, slope_triangle

__all__ = ["against_gradient_descent", "convergence", "roundoff", "step_counts", "work"]

STARTS = {"norms": "^", "spectral": "o", "optimal": "v", "identity": "s"}


def _order(order: int) -> dict[str, Any]:
    """The style of the reference algorithm of this order: one grey, another marker for each."""
    return REFERENCE | {"marker": "osDvPph"[(order - 2) % 7], "markersize": 4.5, "linewidth": 1.0}


def convergence(
    measured: Mapping[int, Sequence[float]], predicted: Mapping[int, Sequence[float]], tolerance: float
) -> Figure:
    """Return the residual ||I - A X_t|| against the step t, one curve an order, over its prediction rho_0^(p^t)."""
    figure, (ax,) = panels()
    for order, curve in measured.items():
        ax.semilogy(predicted[order], **BOUND)
        ax.semilogy(curve, **_order(order))
        at = next((t for t, value in enumerate(curve) if value < 1e-3), len(curve) - 1)
        first = order == max(measured)  # leftmost, with room on its left; the others get a digit on their right
        side: dict[str, Any] = {"xytext": (-7, 0), "ha": "right"} if first else {"xytext": (6, 0)}
        label(ax, at, curve[at], f"$p = {order}$" if first else f"${order}$", {"color": "0.2"}, **side)
    ax.axhline(tolerance, color="0.6", linewidth=0.8)
    label(ax, len(next(iter(measured.values()))) - 1, tolerance, "tolerance", {"color": "0.2"}, ha="right")
    ax.set_ylim(max(min(min(curve) for curve in measured.values()) / 30, 1e-18), 3.0)
    ax.set(xlabel="step $t$", ylabel="residual  $\\|I - A X_t\\|$")
    return _integer_axes(figure, ax.xaxis)


def step_counts(
    kappas: Sequence[float],
    measured: Mapping[str, Sequence[float]],
    fine: Sequence[float],
    bounds: Mapping[str, Sequence[float]],
    printed: Sequence[float],
) -> Figure:
    """Return steps to the tolerance against the condition number, one curve a start, with bounds and printed form.

    ``measured`` is on the grid ``kappas``, ``bounds`` and ``printed`` are on the grid ``fine``.
    """
    figure, (ax,) = panels(height=3.8)
    ax.semilogx(fine, printed, **(PRINTED | {"marker": None, "linewidth": 2.2}))
    middle = len(fine) // 2
    label(ax, fine[middle], printed[middle], "printed", PRINTED, xytext=(6, -15))
    shift = {"optimal": -6, "spectral": 2}
    for init, counts in measured.items():
        style = REFERENCE | {"marker": STARTS[init], "markersize": 5, "linestyle": "none"}
        ax.semilogx(fine, bounds[init], **BOUND)
        ax.semilogx(kappas, counts, **style)
        label(ax, fine[-1], bounds[init][-1], init, {"color": "0.2"}, xytext=(6, shift.get(init, 0)), va="center")
    ax.set_xlim(right=fine[-1] * (fine[-1] / fine[0]) ** 0.25)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="condition number $\\kappa$", ylabel="steps $T$")
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
    label(ax, kappas[-1], gradient[-1], "gradient descent", {"color": "0.2"}, xytext=(-28, -4), ha="right", va="bottom")
    slope_triangle(ax, kappas[-3], gradient[-3] / 4, 2.0)
    for order, counts in newton.items():
        ax.loglog(kappas, [max(count, 0.5) for count in counts], **_order(order))  # no zero on a logarithmic axis
    named = ", ".join(map(str, newton))
    last = max(counts[-1] for counts in newton.values())
    label(ax, kappas[-1], last, f"Newton, $p = {named}$", {"color": "0.2"}, xytext=(0, 8), ha="right")
    ax.set(xlabel="condition number $\\kappa$", ylabel="steps to the tolerance")
    return finish(figure)


def work(orders: Sequence[int], per_doubling: Sequence[float], spent: Sequence[float], factored: float) -> Figure:
    """Return products per doubling of the digits against the order p: p / log2 p, what was spent, order 7 factored."""
    figure, (ax,) = panels()
    smooth = np.linspace(min(orders), max(orders), 200)
    ax.plot(smooth, smooth / np.log2(smooth), **BOUND)
    ax.plot(orders, per_doubling, color="black", marker="o", markersize=3, linestyle="none")
    ax.plot(orders, spent, **(REFERENCE | {"marker": "s", "markersize": 5, "linewidth": 1.0}))
    label(ax, orders[3], per_doubling[3], "$p/\\log_2 p$", {"color": "black"}, xytext=(6, -14))
    label(ax, orders[-2], spent[-2], "whole steps", {"color": "0.2"}, xytext=(-6, 4), ha="right")
    ax.plot([7], [factored], color="black", marker="*", markersize=10)
    label(ax, 7, factored, "order 7, factored", {"color": "black"}, xytext=(0, -15), ha="center")
    ax.set_ylim(bottom=min(factored, *per_doubling, *spent) - 0.25)
    ax.set(xlabel="order $p$", ylabel="products per doubling")
    return finish(figure)


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
        label(above, 0, levels[dtype], f"{dtype}: $u\\kappa$", {"color": "0.2"}, xytext=(0, 4))
    for order, curve in singular.items():
        below.semilogy(curve, **_order(order))
        label(below, len(curve) - 1, curve[-1], f"$p = {order}$", {"color": "0.2"}, xytext=(6, 0), va="center")
    above.set(xlabel="step $t$", ylabel="residual, regular $A$")
    below.set(xlabel="step $t$", ylabel="error, singular $A$")
    return _integer_axes(figure, above.xaxis, below.xaxis)


def _integer_axes(figure: Figure, *axes: Axis) -> Figure:
    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))
    return finish(figure)
