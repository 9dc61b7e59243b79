"""The headline quantity of a sweep against what was swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfnewton.figures.style import BAND, finish, panels

__all__ = ["headline"]

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
_MARKERS, _DASHES = "os^DvxP*<>", ("-", "--", "-.", ":")
_TICKS = 12  # so many integers have a tick each
_LONG = 40  # characters of words below the axis, beyond which they are turned
_WIDE = 9.0  # from the least to the largest: a logarithmic axis


def headline(rows: Sequence[tuple[Mapping[str, Any], float]], names: Sequence[str], label: str) -> Figure:
    """Return the figure of a sweep: the first parameter below, a line for each value of the others.

    Args:
        rows: the swept values of each point, by name, and its finite headline quantity.
        names: the swept parameters. Points that differ in ``seed`` alone are one: a line through their medians, with a
            band from the least to the largest.
        label: what the headline quantity is.

    Raises ValueError where there is no row.
    """
    if not rows:
        raise ValueError("rows = []: no point of the sweep has a number to draw")
    others = [name for name in names if name != "seed"]
    below, *lines = others or ["seed"]
    figure, (ax,) = panels(width=6.4, height=4.0)
    places = _places(ax, [at[below] for at, _ in rows])
    groups: dict[str, dict[float, list[float]]] = {}
    for at, value in rows:
        group = groups.setdefault(", ".join(f"{name} = {_text(at[name])}" for name in lines), {})
        group.setdefault(places[_text(at[below])], []).append(value)
    for number, (title, group) in enumerate(groups.items()):
        _line(ax, group, title, _style(number))
    if lines:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    values = [value for _, value in rows]
    if min(values) > 0.0 and max(values) > _WIDE * min(values):
        ax.set_yscale("log")
    ax.set(xlabel=below, ylabel=label)
    return finish(figure)


def _style(number: int) -> dict[str, Any]:
    """Return how a line is drawn: colours come again after six lines, with other markers and dashes."""
    turn, at = divmod(number, len(_COLORS))
    return {
        "color": _COLORS[at],
        "marker": _MARKERS[(at + turn) % len(_MARKERS)],
        "linestyle": _DASHES[(at + turn) % len(_DASHES)],
        "markersize": 5.0,
        "linewidth": 1.6,
    }


def _line(ax: Axes, group: Mapping[float, Sequence[float]], title: str, style: dict[str, Any]) -> None:
    at = sorted(group)
    ax.plot(at, [float(np.median(group[x])) for x in at], label=title, **style)
    if any(len(group[x]) > 1 for x in at):
        ax.fill_between(at, [min(group[x]) for x in at], [max(group[x]) for x in at], color=style["color"], **BAND)


def _places(ax: Axes, values: Sequence[Any]) -> dict[str, float]:
    """Return where each value stands below: numbers at themselves, anything else one beside the other."""
    distinct = list({_text(value): value for value in values}.items())
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for _, value in distinct):
        numbers = [float(value) for _, value in distinct]
        if min(numbers) > 0.0 and max(numbers) > _WIDE * min(numbers):
            ax.set_xscale("log")
        elif len(numbers) <= _TICKS and all(isinstance(value, int) for _, value in distinct):
            ax.set_xticks(numbers)
        return {text: float(value) for text, value in distinct}
    ax.set_xticks(range(len(distinct)), [text for text, _ in distinct])
    if sum(len(text) for text, _ in distinct) > _LONG:
        ax.tick_params(axis="x", labelrotation=30.0)
        for word in ax.get_xticklabels():
            word.set(horizontalalignment="right", rotation_mode="anchor")
    return {text: float(place) for place, (text, _) in enumerate(distinct)}


def _text(value: Any) -> str:
    """Return a value as text, which tells it from every other."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text, value))}]"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
