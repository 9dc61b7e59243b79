"""Figures of the model itself: the weights of a layer as block matrices, and what a forward pass costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tfnewton.checks import integer, tensor
from tfnewton.figures.filmstrip import symbol
from tfnewton.figures.style import BOUND, CONSTRUCTED, DIVERGING, REFERENCE, finish, label, panels
from tfnewton.layers import Layer
from tfnewton.layout import Block, Layout

__all__ = ["operations", "weights"]


def weights(layer: Layer, layout: Layout) -> Figure:
    """Return the dense W_V, W_K, W_Q of every head of ``layer``, one row a head, cut at the blocks of ``layout``.

    Columns are the rows of H that a matrix reads; the rows of W_V are the rows of H that it writes, those of W_K and
    W_Q are the head's own coordinates. A block that is a multiple of the identity carries its coefficient.

    Raises ValueError for a layer without heads or of another width than the layout.
    """
    heads = [{name: W.detach().numpy() for name, W in head.items()} for head in layer.weights()]
    if not heads:
        raise ValueError("layer has no heads: there are no weights to draw")
    width = heads[0]["W_V"].shape[0]
    if width != layout.width:
        raise ValueError(f"layout has {layout.width} rows, the layer {width}: they must agree")
    largest = max(float(np.abs(W).max()) for head in heads for W in head.values()) or 1.0
    norm = Normalize(-1.25 * largest, 1.25 * largest)
    figure, axes = panels(3, len(heads), width=2.3, height=2.25)
    for number, head in enumerate(heads):
        for ax, (name, W) in zip(axes[3 * number : 3 * number + 3], head.items(), strict=True):
            mark = f"^{{({number + 1})}}" if len(heads) > 1 else ""
            _block_matrix(ax, W, layout.blocks, norm)
            ax.set_title(f"$W_{name[-1]}{mark}$", fontsize=12, pad=8)
            if name == "W_V":
                ax.set_yticks([_middle(b) for b in layout.blocks], [symbol(b.name) for b in layout.blocks])
    return finish(figure)


def _middle(block: Block) -> float:
    return block.start + (block.size - 1) / 2


def _block_matrix(ax: Axes, W: np.ndarray, blocks: Sequence[Block], norm: Normalize) -> None:
    ax.imshow(W, norm=norm, cmap=DIVERGING, interpolation="nearest")
    ax.grid(visible=False)
    for side in ax.spines.values():
        side.set(visible=True, color="0.6")
    for block in blocks[1:]:
        ax.axhline(block.start - 0.5, color="0.8", linewidth=0.8)
        ax.axvline(block.start - 0.5, color="0.8", linewidth=0.8)
    ax.set_xticks([_middle(b) for b in blocks], [symbol(b.name) for b in blocks])
    ax.set_yticks([])
    ax.tick_params(length=0)
    for target in blocks:
        for source in blocks:
            part = W[target.start : target.start + target.size, source.start : source.start + source.size]
            _coefficient(ax, part, target.start, source.start)


def _coefficient(ax: Axes, part: np.ndarray, top: int, left: int) -> None:
    """Write ``c I`` on a block that is c times an identity: beside the diagonal if there is room, else on it."""
    size, c = part.shape[0], part[0, 0]
    if part.shape != (size, size) or c == 0.0 or not np.array_equal(part, c * np.eye(size)):
        return
    number = f"{c:.3g}".replace("-", "−")
    if size == 1:
        ax.text(left, top, number, ha="center", va="center", fontsize=10, color="white")
        return
    factor = number.removesuffix("1") if abs(c) == 1.0 else number
    x, y = left + 0.74 * size - 0.5, top + 0.26 * size - 0.5
    ax.text(x, y, f"{factor}$I$", ha="center", va="center", fontsize=10, color="black")


def operations(tokens: Sequence[int], all_pairs: Sequence[int], measured: Sequence[int], crossing: int) -> Figure:
    """Return the multiplications of one head against the number of tokens, in the two orders of multiplication.

    Args:
        tokens: numbers of tokens n, increasing, at least two.
        all_pairs: multiplications of V (K^T Q), which forms an n x n matrix, one a number of tokens.
        measured: multiplications that the package's forward pass carries out.
        crossing: the n at which both orders cost the same.

    Raises TypeError or ValueError for sequences that are not of one length, or not positive.
    """
    sizes: dict[str, int] = {}
    named = {"tokens": tokens, "all_pairs": all_pairs, "measured": measured}
    n, naive, counted = (tensor(name, values, ("points",), sizes).numpy() for name, values in named.items())
    for name, values in (("tokens", n), ("all_pairs", naive), ("measured", counted)):
        if len(values) < 2 or (values <= 0).any():
            raise ValueError(f"{name} = {values.tolist()}: must be at least two positive numbers")
    integer("crossing", crossing, minimum=1)
    figure, (ax,) = panels()
    ax.loglog(n, naive, **REFERENCE)
    ax.loglog(n, counted, **CONSTRUCTED)
    ax.axvline(crossing, **BOUND)
    for slope, values, text in ((2, naive, "$V(K^TQ)$"), (1, counted, "package")):
        guide = values[-1] / 4 * np.array([1 / 16, 1.0]) ** slope  # parallel to the curve, a quarter of it
        ax.plot([n[-1] / 16, n[-1]], guide, **BOUND)
        label(ax, n[-1], guide[-1], f"slope {slope}", BOUND, xytext=(5, 0), va="center")
        style = REFERENCE if slope == 2 else CONSTRUCTED
        label(ax, n[-1], values[-1], text, style, xytext=(7, 0), va="center")
    ax.set_xlim(right=n[-1] ** 1.3)
    label(ax, crossing, ax.get_ylim()[1], f"$n = {crossing}$", BOUND, xytext=(4, -10))
    ax.set_xlabel("tokens $n$")
    ax.set_ylabel("multiplications of one head")
    return finish(figure)
