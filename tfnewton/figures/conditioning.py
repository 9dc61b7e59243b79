"""What conditioning and noise do to trained models and to the algorithms beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from tfnewton.checks import Array, tensor
from tfnewton.figures.style import BOUND, REFERENCE, TRAINED, finish, label, outer_labels, panels, runs_by_depth

__all__ = ["Setting", "losses_by_kappa", "losses_by_setting", "robustness"]

Curve = Mapping[int, float]  # loss by number of layers or steps
Runs = Mapping[int, Sequence[float]]  # the loss of each run by number of layers

_TRAINED: dict[str, dict[str, Any]] = {"LSA": TRAINED, "LSA+LN": TRAINED | {"markerfacecolor": "white"}}
_FLOOR = 3e-3  # of a loss by depth: Newton's iteration of order 3 goes on to roundoff
_LEAST_FRACTION = 1e-5  # of a loss by condition number
_MARKERS = "oD^vP"
_NOTHING = 1e-7  # percent: roundoff
_PERCENT = (0.01, 1000.0)  # of the colours of ``robustness``, as percent of the loss of predicting zero


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


def robustness(fractions: Mapping[str, Array], kappas: Sequence[float], noises: Sequence[float]) -> Figure:
    """Return a panel a method, two a row: its loss in percent of that of predicting zero, a cell for each setting.

    Args:
        fractions: by the name of the method, loss over loss of predicting zero, (kappas, noises); infinity is allowed.
        kappas: condition numbers, the rows from top to bottom.
        noises: standard deviations, the columns.

    Raises TypeError or ValueError for arrays of another shape.
    """
    shape = (len(kappas), len(noises))
    capped = {name: np.minimum(np.asarray(values, dtype=float), 1e9) for name, values in fractions.items()}
    percents = {name: 100.0 * tensor(name, values, shape).numpy() for name, values in capped.items()}
    rows, height = -(-len(fractions) // 2), 1.3 + 0.36 * len(kappas)
    figure, axes = panels(min(2, len(fractions)), rows, width=3.75, height=height, sharex=True, sharey=True)
    norm = LogNorm(*_PERCENT)
    for ax, (name, percent) in zip(axes, percents.items(), strict=False):
        ax.imshow(np.clip(percent, *_PERCENT), norm=norm, cmap="cividis_r", aspect="auto")
        for (row, column), value in np.ndenumerate(percent):
            dark: Any = "white" if value > np.sqrt(_PERCENT[0] * _PERCENT[1]) else "black"
            ax.text(column, row, _percent(value), ha="center", va="center", fontsize=10, color=dark)
        ax.set_title(name, fontsize=11)
        ax.grid(visible=False)
        ax.set_xticks(range(len(noises)), [f"{noise:g}" for noise in noises])
        ax.set_yticks(range(len(kappas)), [f"{kappa:g}" for kappa in kappas])
    outer_labels(axes, len(fractions), "test noise", r"test $\kappa$")
    bar = figure.colorbar(ScalarMappable(norm, "cividis_r"), ax=axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("loss in percent of that of predicting zero")
    return finish(figure)


def _percent(value: float) -> str:
    if value > _PERCENT[1]:
        return f">{_PERCENT[1]:.0f}"
    if value < _NOTHING:
        return "0"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"
