"""Figures of the chapter on self-concordance: the constant, the bounds that it gives, and Dikin ellipsoids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfnewton.checks import Array
from tfnewton.figures.style import BAND, BOUND, PRINTED, REFERENCE, finish, label, panels

__all__ = ["bounds", "constants", "dikin", "local_constants"]

_PRINTED_LINE = PRINTED | {"marker": None, "linewidth": 2.2}
_STANDARD = BOUND | {"linestyle": "-."}


def local_constants(
    margins: Array, curves: Mapping[str, Array], unpenalised: Array, peaks: Mapping[str, tuple[float, float]]
) -> Figure:
    """Return the constant that one point of norm one needs, against its margin, on a logarithmic axis.

    Args:
        margins: the grid, (k,).
        curves: name of a penalty to the local constants (k,).
        unpenalised: those without a penalty, (k,).
        peaks: for each of ``curves`` the margin and the value of the sharp constant.
    """
    grid = np.asarray(margins)
    figure, (ax,) = panels(height=3.8)
    ax.semilogy(grid, np.asarray(unpenalised), color="0.7", linewidth=1.8)
    top = int(0.72 * len(grid))
    label(
        ax, grid[top], float(np.asarray(unpenalised)[top]), "no penalty", {"color": "0.4"}, xytext=(-8, 4), ha="right"
    )
    for name, values in curves.items():
        ax.semilogy(grid, np.asarray(values), **REFERENCE)
        margin, sharp = peaks[name]
        ax.plot([margin], [sharp], color="black", marker="o", markersize=5)
        label(ax, margin, sharp, name, {"color": "0.2"}, xytext=(0, -16), ha="center")
    ax.set_ylim(bottom=min(sharp for _, sharp in peaks.values()) / 30)
    ax.set(xlabel="margin $m = y\\,a^\\top x$", ylabel="constant needed  $|\\phi'''| / 2\\phi''^{\\,3/2}$")
    return finish(figure)


def constants(
    mus: Sequence[float], measured: Mapping[str, Sequence[float]], stated: Mapping[str, Sequence[float]]
) -> Figure:
    """Return constants in units of the sharp one against mu, on logarithmic axes.

    ``measured`` has "random" and "climbed", largest values on data; ``stated`` has "standard" and "printed".
    """
    figure, (ax,) = panels()
    ax.loglog(mus, np.ones(len(mus)), **BOUND)
    label(ax, mus[0], 1.0, "sharp, proved", BOUND)
    ax.loglog(mus, stated["printed"], **_PRINTED_LINE)
    label(ax, mus[0], stated["printed"][0], "printed $1/\\sqrt{\\mu}$", PRINTED)
    ax.loglog(mus, stated["standard"], **_STANDARD)
    label(ax, mus[0], stated["standard"][0], "$1/2\\sqrt{\\mu}$", BOUND)
    for name, marker in (("climbed", "o"), ("random", "v")):
        ax.loglog(mus, measured[name], **(REFERENCE | {"marker": marker, "markersize": 5.0, "linestyle": "none"}))
    label(ax, mus[-1], measured["random"][-1], "random directions", REFERENCE, xytext=(4, -17), ha="right")
    label(ax, mus[-1], measured["climbed"][-1], "climbing", REFERENCE, xytext=(4, 6), ha="right")
    ax.set_ylim(bottom=0.3 * min(measured["random"]))
    ax.set(xlabel="penalty $\\mu$", ylabel="constant / sharp constant")
    return finish(figure)


def bounds(reach: Array, rise: Mapping[str, Array], hessian: Mapping[str, Array]) -> Figure:
    """Return the two-sided bounds along lines through x against M r, M the sharp constant.

    ``rise`` is that of f over its tangent, in units of r^2 / 2 (above), ``hessian`` the eigenvalues relative to the
    Hessian at x (below).
    Each has pairs (2, k) of least and largest values on the grid ``reach`` (k,): "sharp" and "standard", the bounds
    with these constants, infinite or zero where nothing is claimed; "data", the extremes over lines; and "example",
    the extremal example to either side.
    """
    x = np.asarray(reach)
    figure, axes = panels(rows=2, height=2.9)
    for ax, sides in zip(axes, (rise, hessian), strict=True):
        ax.fill_between(x, *_finite(sides["data"]), **(BAND | {"color": "0.3", "alpha": 0.35}))
        for kind, style in (("standard", _STANDARD), ("example", REFERENCE), ("sharp", BOUND)):
            ax.plot(x, _finite(sides[kind]).T, **style)
        at = len(x) // 2
        spread = max(3 * float(np.nanmax(_finite(sides["example"]))), 2 * float(_finite(sides["sharp"])[1, at]))
        ticks = [t for decade in (0.01, 0.1, 1.0, 10.0, 100.0) for t in (decade, 2 * decade, 5 * decade)]
        ax.set_yscale("log")
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        ax.set_ylim(1 / spread, spread)
        label(ax, x[-1], _finite(sides["example"])[0, -1], "example", REFERENCE, xytext=(-2, -14), ha="right")
        label(ax, x[-1], _finite(sides["data"])[1, -1], "data", {"color": "0.2"}, xytext=(-4, 3), ha="right")
        label(ax, x[at], _finite(sides["sharp"])[1, at], "sharp $M$", BOUND, xytext=(-4, 8), ha="right")
    for ax, sides in ((axes[1], hessian), (axes[0], rise)):
        if _label_standard(ax, x, _finite(sides["standard"])):
            break
    axes[0].set_ylabel("rise of $f$, over $r^2/2$")
    axes[1].set(ylabel="Hessian, relative to $x$", xlabel="$M r$, with the sharp $M$")
    return finish(figure)


def _label_standard(ax: Axes, x: np.ndarray, sides: np.ndarray) -> bool:
    """Name the bounds with 1/(2 sqrt(mu)), where at least two points of one are in sight; tell whether they are."""
    low, high = ax.get_ylim()
    for values, offset in ((sides[1], (4, -4)), (sides[0], (4, 2))):
        seen = np.flatnonzero((values > low) & (values < high))
        if seen.size > 1:
            at = seen[-1]
            label(ax, x[at], values[at], r"$M = 1/2\sqrt{\mu}$", BOUND, xytext=offset)
            return True
    return False


def _finite(values: Array) -> np.ndarray:
    """Return the values with NaN, which is not drawn, where nothing is claimed."""
    array = np.asarray(values)
    return np.where(np.isfinite(array) & (array != 0), array, np.nan)


def dikin(
    grid: tuple[Array, Array, Array], points: Array, boundaries: Mapping[str, Sequence[Array]], minimizer: Array
) -> Figure:
    """Return Dikin ellipsoids in the plane over level lines of f.

    Args:
        grid: the two coordinates and f minus its minimum, (k, k) each.
        points: centres of the ellipsoids, (m, 2).
        boundaries: "sharp" and "standard" to the m boundaries (angles, 2) of radius 1 / M.
        minimizer: (2,).
    """
    first, second, gap = (np.asarray(part) for part in grid)
    extent = np.ptp(second) / np.ptp(first)
    figure, (ax,) = panels(height=float(np.clip(4.5 * extent + 0.9, 2.5, 6.0)))
    levels = np.geomspace(max(float(gap.min()), 1e-6 * float(gap.max())), float(gap.max()), 14)
    ax.contour(first, second, gap, levels=levels, colors="0.8", linewidths=0.8)
    for name, style in (("standard", _STANDARD), ("sharp", BOUND | {"linewidth": 1.4})):
        for boundary in boundaries[name]:
            ax.plot(*np.asarray(boundary).T, **style)
    centres = np.asarray(points)
    ax.plot(*centres.T, **(REFERENCE | {"marker": "o", "markersize": 5}))
    ax.plot(*np.asarray(minimizer), color="black", marker="+", markersize=11, markeredgewidth=1.6)
    outer, start = np.asarray(boundaries["sharp"][0]), centres[0]
    below = start[1] < centres[-1][1]  # the name stands outside, on the side from which the path comes
    edge, offset = (outer[np.argmin(outer[:, 1])], -14) if below else (outer[np.argmax(outer[:, 1])], 5)
    right = start[0] > first.mean()
    text = "radius $1/M$, sharp; inside, $2\\sqrt{\\mu}$"
    label(ax, edge[0], edge[1], text, BOUND, xytext=(0, offset), ha="right" if right else "left")
    ax.set_aspect("equal")
    ax.grid(visible=False)
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    return finish(figure)
