"""The ReLU part of a layer, W_2 relu(W_1 H), over named rows.

A construction's units read two or three rows and write one, so W_1 and W_2 are almost all zeros: units that read and
write the same rows form a group, which multiplies those rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from tfnewton.approximation.units import Units
from tfnewton.model.layout import Block, Layout
from tfnewton.model.maps import Dense, LinearMap, Piece, Selection

__all__ = ["ReLU", "UnitGroup", "UnitWrite", "erase", "feed_forward", "gate"]

_FEW = 64  # writes of fewer units share a group: its zeros cost less than a group of their own


class UnitGroup(nn.Module):
    """Units that read and write the same rows, ``write(outer(relu(inner(read(H)))))``.

    Shapes: ``read`` (r, D), ``inner`` (units, r), ``outer`` (t, units), ``write`` (D, t). Their share of W_1 is
    ``inner read``, that of W_2 ``write outer``.
    """

    read: Selection
    inner: Dense
    outer: Dense
    write: Selection

    def __init__(self, read: LinearMap, inner: LinearMap, outer: LinearMap, write: LinearMap) -> None:
        super().__init__()
        for name, m in (("read", read), ("inner", inner), ("outer", outer), ("write", write)):
            setattr(self, name, m)

    def forward(self, H: Tensor) -> Tensor:
        """Return what the units add to the rows that ``write`` takes it to, (t, n)."""
        result: Tensor = self.outer(self.inner(self.read(H)).relu_())
        return result

    def __setattr__(self, name: str, value: Any) -> None:
        kind = {"read": Selection, "write": Selection, "inner": Dense, "outer": Dense}.get(name)
        if kind is not None and not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}: must be a {kind.__name__} map")
        super().__setattr__(name, value)

    def fits(self, width: int, like: Tensor) -> bool:
        """Whether the maps fit together and into ``width`` rows, and their matrices are of the kind of ``like``."""
        if not (self.inner.matches(like) and self.outer.matches(like)):
            return False
        read, inner, outer, write = self.read.shape, self.inner.shape, self.outer.shape, self.write.shape
        inside = (inner[1], outer[1], write[1]) == (read[0], inner[0], outer[0])
        return inside and read[1] == write[0] == width


class ReLU(nn.Module):
    """The feed-forward part, the sum of its groups of units; all of them read H before one writes."""

    groups: Sequence[UnitGroup]

    def __init__(self, groups: Iterable[UnitGroup]) -> None:
        super().__init__()
        self.groups = cast("Sequence[UnitGroup]", nn.ModuleList(groups))

    @classmethod
    def dense(cls, W1: Tensor, W2: Tensor, *, trainable: bool) -> ReLU:
        """Return the layer of one group with the matrices W_1, (units, D), and W_2, (D, units)."""
        inner, outer = Dense(W1, trainable=trainable), Dense(W2, trainable=trainable)
        return cls([UnitGroup(Selection.identity(W1.shape[1]), inner, outer, Selection.identity(W2.shape[0]))])

    @property
    def width(self) -> int:
        """Number of units."""
        return sum(group.inner.shape[0] for group in self.groups)

    def weights(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the paper's W_1, (units, D), and W_2, (D, units), in the dtype and on the device of ``like``."""
        W1 = torch.cat([g.inner.dense(like) @ g.read.dense(like) for g in self.groups])
        return W1, torch.cat([g.write.dense(like) @ g.outer.dense(like) for g in self.groups], dim=1)

    def forward(self, H: Tensor) -> Tensor:
        """Return W_2 relu(W_1 H), (D, n)."""
        result = torch.zeros_like(H)
        self.add_to(result, H)
        return result

    def add_to(self, target: Tensor, source: Tensor) -> None:
        """Add W_2 relu(W_1 source) to ``target`` in place; they may be the same tensor unless gradients are taken."""
        for write, update in [(group.write, group(source)) for group in self.groups]:
            write.add_to(target, update)


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
    together: dict[tuple[Block, ...], list[UnitWrite]] = {}
    for write in flat:
        together.setdefault(write.rows if write.units.width >= _FEW else (), []).append(write)
    return ReLU(_group(layout, ones, group) for group in together.values())


def _group(layout: Layout, ones: Block, writes: list[UnitWrite]) -> UnitGroup:
    read = sorted({row.start for write in writes for row in (*write.rows, ones)})
    written = sorted({write.target.start for write in writes})
    W1 = np.zeros((sum(write.units.width for write in writes), len(read)))
    W2 = np.zeros((len(written), len(W1)))
    first = 0
    for write in writes:
        span = slice(first, first + write.units.width)
        for row, weight in zip(write.rows, write.units.weight, strict=True):
            W1[span, read.index(row.start)] += weight
        W1[span, read.index(ones.start)] += write.units.bias
        W2[written.index(write.target.start), span] = write.units.out
        first = span.stop
    inner, outer = (Dense(torch.as_tensor(W), trainable=False) for W in (W1, W2))
    back = tuple(Piece(row, at, size, 1.0) for at, row, size, _ in _runs(written))
    reading = Selection(tuple(_runs(read)), (len(read), layout.width))
    return UnitGroup(reading, inner, outer, Selection(back, (layout.width, len(written))))


def _runs(rows: list[int]) -> Iterable[Piece]:
    """Yield the pieces that read these ``rows``, in ascending order, neighbours together."""
    first = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or rows[i] != rows[i - 1] + 1:
            yield Piece(first, rows[first], i - first, 1.0)
            first = i
