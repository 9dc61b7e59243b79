"""Figures of the model itself: the weights of a layer as block matrices, and what a forward pass costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tfnewton.checks import integer, tensor
from tfnewton.figures.filmstrip import symbol
from tfnewton.figures.style import BOUND, CONSTRUCTED, DIVERGING, REFERENCE, finish, label, panels
from tfnewton.model.layers import Layer
from tfnewton.model.layout import Layout
from tfnewton.model.maps import LinearMap, Selection

__all__ = ["operations", "weights"]

Span: TypeAlias = tuple[int, int]  # first row or column, and how many


def weights(layer: Layer, layout: Layout) -> Figure:
    """Return the dense W_V, W_K, W_Q of every head of ``layer``, one row a head, cut at the blocks of ``layout``.

    Columns are the rows of H that a matrix reads; the rows of W_V are the rows of H that it writes, those of W_K and
    W_Q are the head's own coordinates. A block that is a multiple of the identity carries its coefficient.

    Raises ValueError for a layer without heads or of another width than the layout.
    """
    dense = layer.weights()
    if not dense:
        raise ValueError("layer has no heads: there are no weights to draw")
    width = dense[0]["W_V"].shape[0]
    if width != layout.width:
        raise ValueError(f"layout has {layout.width} rows, the layer {width}: they must agree")
    largest = max(float(W.abs().max()) for matrices in dense for W in matrices.values()) or 1.0
    norm = Normalize(-1.25 * largest, 1.25 * largest)
    blocks = [(block.start, block.size) for block in layout.blocks]
    names = [symbol(block.name) for block in layout.blocks]
    figure, axes = panels(3, len(dense), width=2.3, height=2.25)
    for number, (head, matrices) in enumerate(zip(layer.heads, dense, strict=True)):
        rows = {"W_V": blocks, "W_K": _coordinates(head.key, blocks), "W_Q": _coordinates(head.query, blocks)}
        for ax, (name, W) in zip(axes[3 * number : 3 * number + 3], matrices.items(), strict=True):
            mark = f"^{{({number + 1})}}" if len(dense) > 1 else ""
            _block_matrix(ax, W.detach().numpy(), rows[name], blocks, norm)
            ax.set_title(f"$W_{name[-1]}{mark}$", fontsize=12, pad=8)
            ax.set_xticks([_middle(span) for span in blocks], names)
            ax.set_yticks([_middle(span) for span in blocks] if name == "W_V" else [], names if name == "W_V" else [])
    return finish(figure)


def _coordinates(m: LinearMap, blocks: list[Span]) -> list[Span]:
    """Where to cut the rows of a key or query: at the blocks, like the paper, unless the selection does not fit."""
    spans = sorted({(piece.out, piece.size) for piece in m.pieces}) if isinstance(m, Selection) else []
    return blocks if set(spans) <= set(blocks) else spans


def _middle(span: Span) -> float:
    start, size = span
    return start + (size - 1) / 2


def _block_matrix(ax: Axes, W: np.ndarray, rows: list[Span], columns: list[Span], norm: Normalize) -> None:
    ax.imshow(W, norm=norm, cmap=DIVERGING, interpolation="nearest")
    ax.grid(visible=False)
    for side in ax.spines.values():
        side.set(visible=True, color="0.6")
    for spans, line in ((rows, ax.axhline), (columns, ax.axvline)):
        for cut in {end for start, size in spans for end in (start, start + size)} - {0, W.shape[0]}:
            line(cut - 0.5, color="0.8", linewidth=0.8)
    ax.tick_params(length=0)
    for top, height in rows:
        for left, size in columns:
            _coefficient(ax, W[top : top + height, left : left + size], top, left)


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
