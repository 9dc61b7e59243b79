"""What trained models compute: answers as the query moves, and the polynomial that they apply to the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from tfnewton.figures.style import BAND, BOUND, REFERENCE, TRAINED, finish, label, outer_labels, panels

__all__ = ["Answers", "Residuals", "answers", "errors_by_scale", "residuals"]

Curve = Mapping[float, float]

_GROUPS: tuple[dict[str, Any], ...] = (  # dark to light with distinct markers, for greyscale
    {"color": "#7F2704", "marker": "o"},
    {"color": "#D55E00", "marker": "s"},
    {"color": "#FDAE6B", "marker": "^"},
)
_DOTS = 150  # of a group in a panel; more hide one another


class Answers(NamedTuple):
    """Answers at values of the query's first coordinate: all arrays (points,), references by name.

    ``low`` and ``high`` bound the band of the trained model's answers over the prompts, ``median`` is their median.
    """

    x1: np.ndarray
    target: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    references: Mapping[str, np.ndarray]


class Residuals(NamedTuple):
    """Residuals at one depth: ``groups`` has (eigenvalues, residuals), each (points,), by the prompts' lambda_max.

    ``best`` is the best fixed polynomial on ``grid``, both (points,); ``power`` the exponent of Newton's residual.
    """

    groups: Mapping[float, tuple[np.ndarray, np.ndarray]]
    grid: np.ndarray
    best: np.ndarray
    power: int


def answers(shown: Mapping[str, Answers], inside: float) -> Figure:
    """Return a panel a title: median and band of a trained model's answers, the target, and references.

    ``inside`` is the reach of the training range, marked by vertical lines where a panel goes beyond it.
    """
    figure, axes = panels(columns=len(shown), width=3.8, height=2.9)
    for ax, (title, of) in zip(axes, shown.items(), strict=True):
        ax.fill_between(of.x1, of.low, of.high, color=TRAINED["color"], **BAND)
        ax.plot(of.x1, of.target, **BOUND)
        ax.plot(of.x1, of.median, **(TRAINED | {"markersize": 4.0}))
        by_end = sorted(of.references.items(), key=lambda item: float(item[1][-1]))
        for i, (name, values) in enumerate(by_end):  # the names apart, though the curves may end together
            ax.plot(of.x1, values, **REFERENCE)
            offset = 14.0 * (i - (len(by_end) - 1) / 2)
            label(ax, of.x1[-1], values[-1], name, REFERENCE, xytext=(5, offset), va="center")
        reach, height = float(of.x1.max()), 1.4 * float(np.abs(of.target).max())
        if reach > 1.01 * inside:
            for edge in (-inside, inside):
                ax.axvline(edge, color="0.6", linewidth=0.9, linestyle=":")
        ax.set(xlabel="first coordinate of the query", xlim=(-1.05 * reach, 1.5 * reach), ylim=(-height, height))
        ax.set_title(title, fontsize=11)
    axes[0].set_ylabel("answer")
    return finish(figure)


def errors_by_scale(
    query_out: Mapping[str, Curve], others: Mapping[str, Curve], references: Mapping[str, Curve], floor: float = 1e-4
) -> Figure:
    """Return relative errors against the largest eigenvalue to which the same prompts are scaled, log-log.

    Curves by name, trained models with the query out hollow; what is above 10 or below ``floor`` leaves the panel.
    """
    figure, (ax,) = panels(width=5.2, height=3.7)
    for name, curve in references.items():
        ax.plot(list(curve), list(curve.values()), **REFERENCE)
        label(ax, max(curve), curve[max(curve)], name, REFERENCE, xytext=(5, 0), va="center")
    for name, curve in others.items():
        ax.plot(list(curve), list(curve.values()), **TRAINED)
        label(ax, max(curve), curve[max(curve)], name, TRAINED, xytext=(5, -6), va="center")
    for i, (name, curve) in enumerate(query_out.items()):
        ax.plot(list(curve), list(curve.values()), **(TRAINED | {"markerfacecolor": "white"}))
        offset = (-7, 5 if i == 0 else 0)  # the first two curves start close together
        label(ax, min(curve), curve[min(curve)], name, TRAINED, xytext=offset, ha="right", va="center")
    ends = [curve for group in (query_out, others, references) for curve in group.values()]
    ax.set(xscale="log", yscale="log", ylim=(floor, 10.0))
    ax.set_xlim(0.4 * min(map(min, ends)), 3.2 * max(map(max, ends)))
    ax.set(xlabel=r"largest eigenvalue $\lambda_{\max}$ of the prompt", ylabel="median relative error")
    return finish(figure)


def residuals(by_depth: Mapping[int, Residuals]) -> Figure:
    """Return a panel a depth: the residual that a trained model leaves along eigenvectors, against the eigenvalue.

    A dot is one eigenvector of one prompt, its colour and marker the group of the prompt's lambda_max. Dashed: Newton's
    (1 - lambda/lambda_max)^power of order 2 for each group. Thin: the best fixed polynomial.
    """
    rows = -(-len(by_depth) // 2)
    figure, axes = panels(columns=2, rows=rows, width=3.7, height=2.5, sharex=True, sharey=True)
    for ax, (depth, of) in zip(axes, by_depth.items(), strict=False):
        for (top, (eigenvalues, values)), style in zip(of.groups.items(), _GROUPS, strict=False):
            grid = of.grid[of.grid <= top]
            newton = {"label": "Newton, order 2"} if top == max(of.groups) else {}
            ax.plot(grid, (1.0 - grid / top) ** of.power, **(REFERENCE | {"linewidth": 1.2} | newton))
            some = slice(None, None, 1 + len(values) // _DOTS)
            name = rf"$\lambda_{{\max}} \approx {top:g}$"
            ax.plot(eigenvalues[some], values[some], **style, linestyle="none", markersize=3.0, label=name)
        ax.plot(of.grid, of.best, **BOUND, label="best fixed")
        ax.set_title(f"{depth} layer{'s' * (depth > 1)}", fontsize=11)
        ax.set(xscale="log", ylim=(-0.75, 1.1))
    outer_labels(axes, len(by_depth), r"eigenvalue $\lambda$ of $A^\top A/n$", r"residual $1 - g(\lambda)$")
    axes[0].legend(loc="lower left", fontsize=9, handletextpad=0.4, markerscale=1.6, frameon=False)
    return finish(figure)
