"""Which polynomial trained models apply to the context: residuals, errors by scale, and whose errors they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfnewton.figures.style import BOUND, DIVERGING, REFERENCE, TRAINED, finish, label, outer_labels, panels

__all__ = ["Residuals", "errors_by_scale", "residuals", "similarities"]

Curve = Mapping[float, float]

_GROUPS: tuple[dict[str, Any], ...] = (  # dark to light with distinct markers, for greyscale
    {"color": "#7F2704", "marker": "o"},
    {"color": "#D55E00", "marker": "s"},
    {"color": "#FDAE6B", "marker": "^"},
)
_CEILING = 10.0  # of relative errors that are drawn
_DOTS = 150  # of a group in a panel; more hide one another


class Residuals(NamedTuple):
    """Residuals at one depth: ``groups`` has (eigenvalues, residuals), each (points,), by the prompts' lambda_max.

    ``best`` is the best fixed polynomial on ``grid``, both (points,); ``power`` the exponent of Newton's residual.
    """

    groups: Mapping[float, tuple[np.ndarray, np.ndarray]]
    grid: np.ndarray
    best: np.ndarray
    power: int


def errors_by_scale(
    query_out: Mapping[str, Curve], others: Mapping[str, Curve], references: Mapping[str, Curve], floor: float = 1e-4
) -> Figure:
    """Return relative errors against the largest eigenvalue to which the same prompts are scaled, log-log.

    Curves by name, trained models with the query out hollow; what is above 10 or below ``floor`` leaves the panel, its
    name does not.
    """
    figure, (ax,) = panels(width=5.2, height=3.7)
    styled = [(references, REFERENCE), (others, TRAINED), (query_out, TRAINED | {"markerfacecolor": "white"})]
    for group, style in styled:
        for curve in group.values():
            ax.plot(list(curve), list(curve.values()), **style)
    right = {name: curve for group in (references, others) for name, curve in group.items()}
    for name, at in _apart({name: curve[max(curve)] for name, curve in right.items()}, floor).items():
        style = REFERENCE if name in references else TRAINED
        label(ax, max(right[name]), at, name, style, xytext=(5, 0), va="center")
    for name, at in _apart({name: curve[min(curve)] for name, curve in query_out.items()}, floor).items():
        label(ax, min(query_out[name]), at, name, TRAINED, xytext=(-7, 0), ha="right", va="center")
    ends = [curve for group in (query_out, right) for curve in group.values()]
    ax.set(xscale="log", yscale="log", ylim=(floor, _CEILING))
    ax.set_xlim(0.4 * min(map(min, ends)), 3.2 * max(map(max, ends)))
    ax.set(xlabel=r"largest eigenvalue $\lambda_{\max}$ of the prompt", ylabel="median relative error")
    return finish(figure)


def _apart(values: Mapping[str, float], floor: float) -> dict[str, float]:
    """Return where to write the names of ``values``: in their order, in the panel, and no two on one another."""
    gap, top = 0.32, math.log10(_CEILING) - 0.15  # in decades
    heights: dict[str, float] = {}
    last = math.log10(floor) + 0.15 - gap
    for name in sorted(values, key=values.__getitem__):
        heights[name] = last = max(last + gap, min(math.log10(max(values[name], floor)), top))
    for name in reversed(heights):  # from the top down
        heights[name] = min(heights[name], top)
        top = heights[name] - gap
    return {name: 10.0**height for name, height in heights.items()}


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


def similarities(maps: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Return a panel a family of algorithms: the cosine between errors, a row a model, a column a degree.

    ``maps`` has, by title, rows by name, and cosines by degree. The largest of each row is framed.
    """
    figure, axes = panels(columns=min(2, len(maps)), rows=-(-len(maps) // 2), width=4.3, height=4.0)
    image = None
    for ax, (title, rows) in zip(axes, maps.items(), strict=False):
        degrees = list(next(iter(rows.values())))
        values = np.array([[row[m] for m in degrees] for row in rows.values()])
        image = ax.imshow(values, cmap=DIVERGING, vmin=-1.0, vmax=1.0, aspect="auto")
        for i, best in enumerate(values.argmax(axis=1)):
            ax.add_patch(Rectangle((best - 0.5, i - 0.5), 1.0, 1.0, fill=False, edgecolor="black", linewidth=1.4))
        ax.set_xticks(range(len(degrees)), [str(m) for m in degrees], rotation=90, fontsize=7)
        ax.set_yticks(range(len(rows)), list(rows), fontsize=9)
        ax.grid(visible=False)
        ax.set_title(title, fontsize=11)
        ax.set_xlabel("degree")
    for ax in axes[len(maps) :]:
        ax.set_visible(False)
    if image is not None:
        figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, label="cosine between errors")
    return finish(figure)
