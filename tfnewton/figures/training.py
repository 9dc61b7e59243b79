"""What training finds: test losses by depth, and the plateau of models whose query is among its own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.figures.style import BOUND, REFERENCE, TRAINED, finish, label, panels

__all__ = ["losses_by_depth", "plateau", "shrinkage"]

Curve = Mapping[int, float]  # loss by depth
Runs = Mapping[int, Sequence[float]]  # the loss of each run by depth

_QUERY_IN: dict[str, Any] = TRAINED
_QUERY_OUT: dict[str, Any] = TRAINED | {"markerfacecolor": "white"}
_ABOVE: dict[str, Any] = {"xytext": (6, 4), "va": "bottom"}
_BELOW: dict[str, Any] = {"xytext": (6, -4), "va": "top"}
_FLOOR = 1e-3  # of a loss in the figures: Newton's iteration of order 3 goes on to roundoff


def losses_by_depth(query_in: Curve, query_out: Curve, references: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """Return one panel a group of ``references``, with the losses of the same trained models in each.

    Args:
        query_in: loss of the models whose query is among the keys and values, by number of layers.
        query_out: the same of those whose query is not.
        references: by the name of the panel, the loss of each named algorithm by number of steps.
    """
    figure, axes = panels(columns=len(references), width=4.6, height=3.9, sharey=True)
    for ax, (title, algorithms) in zip(axes, references.items(), strict=True):
        for name, curve in algorithms.items():
            _draw(ax, curve, REFERENCE)
            last = max(depth for depth, loss in curve.items() if loss >= _FLOOR)
            offset = (4, 6) if name == "descent" else (4, -5)
            label(ax, last, curve[last], name, REFERENCE, xytext=offset, va="center")
        _draw(ax, query_in, _QUERY_IN)
        _draw(ax, query_out, _QUERY_OUT)
        ax.set(yscale="log", ylim=(_FLOOR, None), xlabel="layers or steps")
        ax.set_title(title, fontsize=11)
        ax.set_xlim(right=max(max(curve) for curve in algorithms.values()) + 1.8)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("trimmed mean of squared errors")
    _name(axes[0], query_in, "query in", _ABOVE)
    _name(axes[-1], query_out, "query out", _BELOW)
    return finish(figure)


def plateau(statistics: Mapping[str, tuple[Runs, Runs, float]]) -> Figure:
    """Return a panel a statistic: losses of trained models by depth and the predicted one as a horizontal line.

    ``statistics`` has, by its name, the losses of all runs with the query in, of those with the query out, and the
    predicted loss. A curve goes through the median of the runs at a depth.
    """
    figure, axes = panels(columns=len(statistics), width=4.4, height=3.7)
    for ax, (name, (query_in, query_out, predicted)) in zip(axes, statistics.items(), strict=True):
        ax.axhline(predicted, **REFERENCE)
        for runs, style, text, side in (
            (query_in, _QUERY_IN, "query in", _ABOVE),
            (query_out, _QUERY_OUT, "query out", _BELOW),
        ):
            middle = {depth: float(np.median(losses)) for depth, losses in runs.items()}
            _draw(ax, middle, style | {"marker": "none"})
            _name(ax, middle, text, side)
            for depth, losses in runs.items():
                ax.plot([depth] * len(losses), losses, **(style | {"linestyle": "none"}))
        ax.set(yscale="log", xlabel="layers", ylabel=f"{name} squared error")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlim(right=max(*query_in, *query_out) + 1.2)
        label(ax, 1.0, predicted, "predicted", REFERENCE, va="bottom", xytext=(-4, 3))
    return finish(figure)


def shrinkage(leverage: np.ndarray, ratios: Mapping[str, np.ndarray], constant: float) -> Figure:
    """Return a panel for each named model: prediction over target against the leverage h of the query.

    Args:
        leverage: h of each prompt, (B,).
        ratios: prediction over target, (B,), by the name of the model.
        constant: c of the curve c / (1 + h), which least squares with the false sample follows without noise.
    """
    figure, axes = panels(columns=len(ratios), width=4.2, height=3.4, sharey=True)
    grid = np.linspace(0.0, float(leverage.max()), 101)
    for ax, (name, ratio) in zip(axes, ratios.items(), strict=True):
        ax.plot(leverage, ratio, **(TRAINED | {"linestyle": "none", "markersize": 2.5, "alpha": 0.5}))
        ax.axhline(1.0, **BOUND)
        ax.plot(grid, constant / (1.0 + grid), **REFERENCE)
        ax.set(xlabel="leverage $h$ of the query", ylim=(0.4, 1.6))
        ax.set_title(name, fontsize=11)
    label(axes[0], grid[-1], constant / (1.0 + grid[-1]), "$c/(1+h)$", REFERENCE, ha="right", va="top", xytext=(0, -6))
    axes[0].set_ylabel("prediction / target")
    return finish(figure)


def _draw(ax: Axes, curve: Curve, style: dict[str, Any]) -> None:
    depths = sorted(curve)
    ax.plot(depths, [curve[depth] for depth in depths], **style)


def _name(ax: Axes, curve: Curve, text: str, side: dict[str, Any]) -> None:
    label(ax, max(curve), curve[max(curve)], text, TRAINED, **side)
