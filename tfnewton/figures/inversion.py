"""Figures of the inverse by Newton-Schulz layers: residuals against steps, and products that should be identities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfnewton.checks import Array, real, tensor
from tfnewton.figures.style import BOUND, CONSTRUCTED, DIVERGING, REFERENCE, finish, label, panels

__all__ = ["products", "residuals"]


def residuals(rate: float, reference: Sequence[float], constructed: Sequence[float], rounding: float) -> Figure:
    """Return the residual ||I - A X_t|| against the step t, on a logarithmic axis.

    Args:
        rate: -ln of the residual at t = 0, positive, infinity for an exact start; exp(-rate 2^t) is drawn.
        reference: the residuals of the direct iteration, one a step from t = 0.
        constructed: those of the transformer.
        rounding: the size, positive, that rounding alone can give a residual; drawn as a line.

    Values below a thousandth of ``rounding`` are drawn there, so that an exact zero stays in sight.

    Raises TypeError or ValueError for sequences of different lengths, negative, or not finite.
    """
    if rate != math.inf:
        real("rate", rate, above=0.0)
    least = 1e-3 * real("rounding", rounding, above=0.0)
    sizes: dict[str, int] = {}
    named = {"reference": reference, "constructed": constructed}
    curves = [tensor(name, values, ("steps + 1",), sizes).numpy() for name, values in named.items()]
    for name, values in zip(named, curves, strict=True):
        if (values < 0).any():
            raise ValueError(f"{name} has the value {values.min():.3g}: must be at least 0, it is a norm")
    direct, transformer = (np.maximum(values, least) for values in curves)
    t = np.arange(len(direct))
    fine = np.linspace(0.0, t[-1], 50 * len(t))
    exact = np.exp(-np.minimum(rate, 1e3) * np.exp2(np.minimum(fine, 64.0)))
    figure, (ax,) = panels()
    ax.semilogy(fine[exact > least], exact[exact > least], **BOUND, label=r"proved: $\rho_0^{\,2^t}$")
    ax.semilogy(t, direct, **REFERENCE, label="direct iteration")
    ax.semilogy(t, transformer, **(CONSTRUCTED | {"linestyle": "none"}), label="transformer")
    ax.axhline(rounding, **(BOUND | {"linestyle": (0, (1, 2))}))
    label(ax, 0, rounding, "rounding", BOUND)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=3,
        columnspacing=1.0,
        handlelength=1.8,
        fontsize=10,
        frameon=False,
    )
    ax.set_xlabel("Newton–Schulz step $t$")
    ax.set_ylabel(r"$\Vert I - A X_t \Vert$")
    ax.set_xlim(-0.04 * max(t[-1], 5), 1.04 * max(t[-1], 5))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return finish(figure)


def products(matrices: Mapping[str, Array]) -> Figure:
    """Return one or two d x d matrices side by side on one symmetric diverging scale, each under its name.

    Made for products that a reader compares with the identity: entries are drawn, and printed where d <= 6. Beyond one
    the scale is logarithmic if there are entries of ten or more.

    Raises TypeError or ValueError for none, for more than two, or for matrices that are not square and of one size.
    """
    if not 1 <= len(matrices) <= 2:
        raise ValueError(f"matrices has {len(matrices)} entries: must be one or two")
    sizes: dict[str, int] = {}
    drawn = {name: tensor(name, M, ("d", "d"), sizes).numpy() for name, M in matrices.items()}
    if any(M.ndim != 2 for M in drawn.values()):
        raise ValueError("matrices are batched: give single ones")
    largest = max(1.0, *(float(np.abs(M).max()) for M in drawn.values()))
    end = 1.2 * largest  # an identity stays in sight of large entries
    norm = Normalize(-end, end) if largest < 10.0 else SymLogNorm(linthresh=1.0, vmin=-end, vmax=end)
    figure, axes = panels(len(drawn), width=3.1 if len(drawn) > 1 else 2.6, height=2.9)
    for ax, (name, M) in zip(axes, drawn.items(), strict=True):
        ax.imshow(M, norm=norm, cmap=DIVERGING, interpolation="nearest")
        ax.grid(visible=False)
        for side in ax.spines.values():
            side.set(visible=True, color="0.6")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(name)
        if M.shape[0] <= 6:
            for (i, j), entry in np.ndenumerate(M):
                text = f"{entry:.2f}".replace("-0.00", "0.00").replace("-", "−")
                dark = abs(float(norm(entry)) - 0.5) > 0.3
                ax.text(j, i, text, ha="center", va="center", fontsize=10, color="white" if dark else "black")
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.03)
    bar.set_ticks([-largest, 0.0, largest])
    bar.set_ticklabels([f"{v:.3g}".replace("-", "−") for v in bar.get_ticks()])
    return finish(figure)
