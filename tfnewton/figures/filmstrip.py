"""The film-strip: H before the first layer and after each, its named blocks, and the line that wrote them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfnewton.checks import integer
from tfnewton.figures.style import DIVERGING, finish, panels
from tfnewton.model.transformer import Frame

__all__ = ["filmstrip", "pretty", "symbol"]

_MOST_SIGNS = 600  # entries of H up to which the signs can be drawn legibly


def filmstrip(
    frames: Sequence[Frame],
    names: dict[str, str] | None = None,
    columns: int = 3,
    layers: Sequence[int] | None = None,
) -> Figure:
    """Return the film-strip of a trace, left to right and top to bottom.

    Args:
        frames: of ``Transformer.trace`` on an unbatched H, all or some; at least one.
        names: block name to the label drawn beside it, for names that are not their own symbol.
        columns: frames a row, at least 1; three are legible on a phone.
        layers: the number of layers before each frame, drawn above it; 0, 1, 2, ... if the trace is shown whole.

    One symmetric diverging scale serves all frames: linear near zero, within a hundredth of the largest entry or, if a
    block has none as large, within its own largest; logarithmic beyond. So small entries show and zero stays white.
    Negative entries carry a minus sign, for print in grey, where the cells are large enough. Blocks that a layer wrote
    are outlined.

    Raises TypeError or ValueError without frames, for batched ones, or for numbers that are not one a frame.
    """
    if not frames:
        raise ValueError("frames is empty: a film-strip needs at least one")
    integer("columns", columns, minimum=1)
    numbers = range(len(frames)) if layers is None else layers
    if len(numbers) != len(frames):
        raise ValueError(f"layers has {len(numbers)} numbers: must have one for each of the {len(frames)} frames")
    states = [{name: np.asarray(block) for name, block in frame.blocks.items()} for frame in frames]
    if any(block.ndim != 2 for block in states[0].values()):
        raise ValueError("frames are batched: trace a single H")
    largest = max(float(np.abs(block).max()) for state in states for block in state.values()) or 1.0
    linear = _least_block(states, largest)
    norm = SymLogNorm(linthresh=linear, vmin=-largest, vmax=largest)
    columns = min(columns, len(frames))
    rows = math.ceil(len(frames) / columns)
    features = sum(block.shape[0] for block in states[0].values())
    tokens = next(iter(states[0].values())).shape[1]
    tall = float(np.clip(1.6 * features / tokens, 1.7, 4.0))
    figure, axes = panels(columns, rows, width=1.75 / (0.82 if columns > 1 else 0.6), height=tall + 0.8)
    for position, (ax, frame, state, number) in enumerate(zip(axes, frames, states, numbers, strict=False)):
        _frame(ax, frame, state, norm, names or {}, labelled=position % columns == 0)
        ax.set_title(f"layer {number}" if number else "input", fontsize=10, pad=5)
    for ax in axes[len(frames) :]:
        ax.set_visible(False)
    _scale(figure, axes, norm, linear, largest)
    return finish(figure)


def _least_block(states: list[dict[str, np.ndarray]], largest: float) -> float:
    """Return the largest entry of the block whose is least, but at most largest / 100; below 1e-9 it is roundoff."""
    sizes = [max(float(np.abs(state[name]).max()) for state in states) for name in states[0]]
    return min(largest / 100, *(size for size in sizes if size > 1e-9 * largest), largest)


def _scale(figure: Figure, axes: list[Axes], norm: Normalize, linear: float, largest: float) -> None:
    bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=axes, location="bottom", shrink=0.8, aspect=40, pad=0.03)
    bar.set_ticks([-largest, -linear, 0.0, linear, largest])
    bar.set_ticklabels([f"{v:.2g}".replace("-", "−") for v in bar.get_ticks()])
    bar.ax.minorticks_off()


def _frame(
    ax: Axes, frame: Frame, state: dict[str, np.ndarray], norm: Normalize, names: dict[str, str], *, labelled: bool
) -> None:
    H = np.concatenate(list(state.values()))
    ax.imshow(H, norm=norm, cmap=DIVERGING, aspect="auto", interpolation="nearest")
    if H.size <= _MOST_SIGNS:
        _signs(ax, H, norm)
    ax.grid(visible=False)
    for side in ax.spines.values():
        side.set(visible=True, color="0.6", zorder=1.5)
    start, ticks = 0, []
    for name, block in state.items():
        size = block.shape[0]
        ticks.append(start + (size - 1) / 2)
        if start:
            ax.axhline(start - 0.5, color="0.6", linewidth=0.8, zorder=1.5)
        if name in frame.written:
            box = Rectangle((-0.5, start - 0.5), H.shape[1], size, fill=False, edgecolor="black", linewidth=2.2)
            box.set(clip_on=False, zorder=3)
            ax.add_patch(box)
        start += size
    ax.set_yticks(ticks, [names.get(name, symbol(name)) for name in state] if labelled else [""] * len(ticks))
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.set_xlabel("" if frame.label == "input" else pretty(frame.label), fontsize=10)


def _signs(ax: Axes, H: np.ndarray, norm: Normalize) -> None:
    depth = np.asarray(norm(H))  # 0 for the most negative entry, 0.5 for zero
    for shade, chosen in (("white", depth < 0.2), ("0.35", (depth >= 0.2) & (depth < 0.45))):
        row, column = np.nonzero(chosen)
        ax.hlines(row, column - 0.18, column + 0.18, colors=shade, linewidth=1.1)


def symbol(name: str) -> str:
    """Return a block name as mathematics: ``A_T`` is A transposed, ``a_test`` has a subscript, words stay words."""
    base, _, mark = name.partition("_")
    if mark == "T":
        return f"${base}^T$"
    if mark:
        return f"${base}_\\mathrm{{{mark}}}$"
    return f"${name}$" if len(name) == 1 else name


def pretty(line: str) -> str:
    """Return a layer's line for display: arrows, minus signs and Greek letters, one assignment a line."""
    signs = {"<-": "←", "-": "−", "^T": "ᵀ", "eps": "ε", "mu": "μ", "eta": "η", "alpha": "α", "; ": "\n", ", ": "\n"}
    signs["a_test"] = "$a_\\mathrm{test}$"
    for plain, sign in signs.items():
        line = line.replace(plain, sign)
    return line
