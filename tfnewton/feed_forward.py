"""ReLU layers over named rows: units of ``tfnewton.relu``, each told which rows it reads and which it writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from tfnewton.layers import ReLU
from tfnewton.layout import Block, Layout
from tfnewton.maps import Dense
from tfnewton.relu import Units

__all__ = ["UnitWrite", "erase", "feed_forward", "gate"]


@dataclass(frozen=True)
class UnitWrite:
    """``target += units(rows)``: a single row written by ReLU units that read single rows.

    Raises ValueError for a block of several rows (take ``block[i]``) or a number of rows other than the units'.
    """

    target: Block
    units: Units
    rows: tuple[Block, ...]

    def __post_init__(self) -> None:
        tall = [row.name for row in (self.target, *self.rows) if row.size != 1]
        if tall:
            raise ValueError(f"{', '.join(tall)}: units read and write single rows, such as block[0]")
        if len(self.rows) != len(self.units.weight):
            raise ValueError(f"units read {len(self.units.weight)} rows, {len(self.rows)} are given")


def erase(block: Block) -> list[UnitWrite]:
    """Return the writes that set ``block`` to zero exactly, whatever its signs: -relu(v) + relu(-v) for each row."""
    signs = np.array([1.0, -1.0])
    minus = Units(weight=signs[None], bias=np.zeros(2), out=-signs)
    return [UnitWrite(row, minus, (row,)) for row in (block[i] for i in range(block.size))]


def gate(units: Units, label: float, size: float) -> Units:
    """Return ``units`` with one more input row y in {-1, 1}: as they were where y = ``label``, zero elsewhere.

    ``size`` bounds the units' arguments from above: where the label differs, 2 size is subtracted from them.
    """
    switch = np.full(units.width, label * size)
    return Units(weight=np.vstack([units.weight, switch]), bias=units.bias - size, out=units.out)


def feed_forward(layout: Layout, ones: Block, *writes: UnitWrite | Iterable[UnitWrite]) -> ReLU:
    """Return the ReLU layer that carries out all ``writes`` at once; ``ones`` is the row that holds the biases."""
    flat = [write for group in writes for write in ([group] if isinstance(group, UnitWrite) else group)]
    width = sum(write.units.width for write in flat)
    W1 = np.zeros((width, layout.width))
    W2 = np.zeros((layout.width, width))
    first = 0
    for write in flat:
        span = slice(first, first + write.units.width)
        for row, weight in zip(write.rows, write.units.weight, strict=True):
            W1[span, row.start] += weight
        W1[span, ones.start] += write.units.bias
        W2[write.target.start, span] = write.units.out
        first = span.stop
    return ReLU(Dense(torch.as_tensor(W1), trainable=False), Dense(torch.as_tensor(W2), trainable=False))
