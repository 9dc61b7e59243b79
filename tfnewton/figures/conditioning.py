"""What conditioning and noise do to trained models and to the algorithms beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tfnewton.figures.style import BOUND, REFERENCE, TRAINED, finish, label, outer_labels, panels, runs_by_depth

__all__ = ["Setting", "losses_by_kappa", "losses_by_setting"]

Curve = Mapping[int, float]  # loss by number of layers or steps
Runs = Mapping[int, Sequence[float]]  # the loss of each run by number of layers

_TRAINED: dict[str, dict[str, Any]] = {"LSA": TRAINED, "LSA+LN": TRAINED | {"markerfacecolor": "white"}}
_FLOOR = 3e-3  # of a loss by depth: Newton's iteration of order 3 goes on to roundoff
_LEAST_FRACTION = 1e-5  # of a loss by condition number
_MARKERS = "oD^vP"


class Setting(NamedTuple):
    """Losses at one condition number and noise: of all runs, of named algorithms, and named constant levels."""

    trained: Runs
    references: Mapping[str, Curve]
    levels: Mapping[str, float]


def losses_by_setting(settings: Mapping[str, Setting], depth: int) -> Figure:
    """Return a panel a setting, two a row: losses against layers or steps up to ``depth``, logarithmic.

    A dot is a run, the line goes through their medians, the band is their range.
    """
    rows = -(-len(settings) // 2)
    figure, axes = panels(min(2, len(settings)), rows, width=3.75, height=2.7, sharex=True, sharey=True)
    for ax, (title, setting) in zip(axes, settings.items(), strict=False):
        ax.set_title(title, fontsize=11)
        _setting(ax, setting, depth)
    least = min(map(_least, settings.values()), default=_FLOOR)
    axes[0].set(yscale="log", ylim=(max(_FLOOR, 0.4 * least), None), xlim=(0.7, 1.25 * depth))
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    outer_labels(axes, len(settings), "layers or steps", "squared error")
    return finish(figure)


def _setting(ax: Axes, setting: Setting, depth: int) -> None:
    for name, level in setting.levels.items():
        ax.axhline(level, **BOUND)
        label(ax, 0.7, level, name, BOUND, va="top", xytext=(2, -1), fontsize=9)
    floor = max(_FLOOR, 1.3 * _least(setting))  # below, curves lie on each other
    for (name, curve), marker in zip(setting.references.items(), _MARKERS, strict=False):
        steps = [step for step in sorted(curve) if 1 <= step <= depth]
        ax.plot(steps, [curve[step] for step in steps], **REFERENCE, marker=marker, markersize=3.5)
        last = max(step for step in steps if curve[step] >= floor or step == steps[0])
        label(ax, last, curve[last], name, REFERENCE, xytext=(5, 0), va="center", fontsize=9)
    shown = {layers: losses for layers, losses in setting.trained.items() if layers <= depth}
    if shown:
        runs_by_depth(ax, shown, TRAINED)


def _least(setting: Setting) -> float:
    return min((loss for curve in setting.references.values() for loss in curve.values()), default=_FLOOR)


def losses_by_kappa(groups: Mapping[str, Mapping[str, Mapping[float, float | Sequence[float]]]]) -> Figure:
    """Return a panel a group, two a row: losses against the condition number of the covariance, both logarithmic.

    Each group has, by the name of the method, its loss by condition number; "LSA" and "LSA+LN" are the trained ones,
    which have a loss for each run.
    """
    rows = -(-len(groups) // 2)
    figure, axes = panels(min(2, len(groups)), rows, width=3.75, height=3.4, sharex=True, sharey=True)
    kappas = sorted({kappa for curves in groups.values() for curve in curves.values() for kappa in curve})
    for ax, (title, curves) in zip(axes, groups.items(), strict=False):
        ax.set_title(title, fontsize=11)
        for (name, curve), marker in zip(curves.items(), _MARKERS, strict=False):
            _by_kappa(ax, name, {kappa: np.atleast_1d(losses) for kappa, losses in curve.items()}, marker)
    if kappas:
        axes[0].set(xscale="log", yscale="log", xlim=(kappas[0] / 8.0, 7.0 * kappas[-1]))
        axes[0].set_xticks(kappas, [f"{kappa:g}" if _power_of_ten(kappa) else "" for kappa in kappas])
        axes[0].xaxis.set_minor_locator(NullLocator())
    outer_labels(axes, len(groups), r"$\kappa$ of the covariance", "loss / loss of zero")
    return finish(figure)


def _by_kappa(ax: Axes, name: str, curve: Mapping[float, np.ndarray], marker: str) -> None:
    shown = {kappa: curve[kappa] for kappa in sorted(curve) if np.median(curve[kappa]) >= _LEAST_FRACTION}
    trained = name in _TRAINED
    style = _TRAINED[name] if trained else REFERENCE | {"marker": marker, "markersize": 3.5}
    if not shown:
        return
    middle = {kappa: float(np.median(losses)) for kappa, losses in shown.items()}
    if trained:
        runs_by_depth(ax, {kappa: list(losses) for kappa, losses in shown.items()}, style)
    else:
        ax.plot(list(middle), list(middle.values()), **style)
    # trained ones are named on the left, where there is no other name
    end, side = (min(middle), (-6, "right")) if trained else (max(middle), (6, "left"))
    ground: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    place: Any = {"xytext": (side[0], 0), "ha": side[1], "va": "center", "fontsize": 9, "bbox": ground}
    label(ax, end, middle[end], name, style, **place)


def _power_of_ten(value: float) -> bool:
    return math.log10(value).is_integer()
