"""The linear maps inside a layer: a selection of rows, applied without a matrix product, or a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from tfnewton.checks import boolean, integer, plain, real

__all__ = ["Dense", "LinearMap", "Piece", "Selection"]


class Piece(NamedTuple):
    """``output[out : out + size] += coefficient * input[start : start + size]``."""

    out: int
    start: int
    size: int
    coefficient: float


@dataclass(frozen=True)
class Selection:
    """A sparse linear map made of row slices with coefficients; exact, free of matrix products, and never changed.

    Args:
        pieces: the slices; pieces that write the same output rows add up.
        shape: (rows of the output, rows of the input).

    Raises TypeError or ValueError for a piece that leaves the shape or whose coefficient is not finite, and for a map
    without pieces.
    """

    pieces: tuple[Piece, ...]
    shape: tuple[int, int]
    _tiles: bool = field(init=False, repr=False, compare=False)  # consecutive pieces: slices, and nothing to sum
    _single: Piece | None = field(init=False, repr=False, compare=False)  # the only slice

    def __post_init__(self) -> None:
        pieces = tuple(Piece(*piece) for piece in self.pieces)
        rows, columns = (integer("rows of a selection", size, minimum=1) for size in self.shape)
        for p in pieces:
            for part in (p.out, p.start, p.size):
                integer("place or size of a piece", part, minimum=-(2**62))  # the range is checked below
            real("coefficient of a piece", p.coefficient)
            inside = p.size >= 1 and 0 <= p.out <= rows - p.size and 0 <= p.start <= columns - p.size
            if not inside:
                raise ValueError(f"piece {tuple(p)} does not fit into a map of shape {(rows, columns)}")
        if not pieces:
            raise ValueError("a selection needs at least one piece")
        ends = [0, *(p.out + p.size for p in pieces)]
        for name, value in (("pieces", pieces), ("shape", (rows, columns))):
            object.__setattr__(self, name, value)
        tiles = [p.out for p in pieces] == ends[:-1] and ends[-1] == rows
        object.__setattr__(self, "_tiles", tiles)
        object.__setattr__(self, "_single", pieces[0] if tiles and len(pieces) == 1 else None)

    @classmethod
    def identity(cls, rows: int) -> Selection:
        """The map that keeps all of ``rows`` rows."""
        return cls((Piece(0, 0, rows, 1.0),), (rows, rows))

    def __deepcopy__(self, memo: object) -> Selection:
        return self

    def __call__(self, H: Tensor) -> Tensor:
        rows, coefficient = self.factor(H)
        return rows if coefficient == 1.0 else rows * coefficient

    def factor(self, H: Tensor) -> tuple[Tensor, float]:
        """Return rows and a number whose product is this map of H: a view of H where one slice is all there is."""
        if self._single is not None:
            _, start, size, coefficient = self._single
            return (H[start : start + size] if H.ndim == 2 else H.narrow(-2, start, size)), coefficient
        if not self._tiles:
            result = H.new_zeros(*H.shape[:-2], self.shape[0], H.shape[-1])
            self.add_to(result, H)
            return result, 1.0
        return torch.cat([_read(H, piece) for piece in self.pieces], dim=-2), 1.0

    def add_to(self, target: Tensor, source: Tensor, factor: float = 1.0) -> None:
        """Add ``factor`` times this map of ``source`` to ``target`` in place, touching only the rows it writes."""
        for out, start, size, coefficient in self.pieces:
            rows = source if size == source.shape[-2] else _rows(source, start, size)
            _rows(target, out, size).add_(rows, alpha=coefficient * factor)

    def dense(self, like: Tensor) -> Tensor:
        """This map as a matrix of ``shape``, in the dtype and on the device of ``like``."""
        matrix = like.new_zeros(self.shape)
        for p in self.pieces:
            matrix[p.out : p.out + p.size, p.start : p.start + p.size].diagonal().add_(p.coefficient)
        return matrix


class Dense(nn.Module):
    """A linear map given by its matrix, of shape (rows of the output, rows of the input).

    Raises TypeError or ValueError for a weight that is not a finite matrix of floating-point numbers.
    """

    def __init__(self, weight: Tensor, *, trainable: bool) -> None:
        super().__init__()
        plain("weight", weight)
        if not isinstance(weight, Tensor):
            raise TypeError(f"weight is a {type(weight).__name__}: must be a tensor")
        if weight.ndim != 2 or not weight.is_floating_point() or 0 in weight.shape:
            raise ValueError(f"weight has shape {tuple(weight.shape)} and dtype {weight.dtype}: must be a real matrix")
        if not torch.isfinite(weight).all():
            raise ValueError("weight contains NaN or infinity: every entry must be finite")
        self.weight = nn.Parameter(weight, requires_grad=boolean("trainable", trainable))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._matrix().shape
        return rows, columns

    def matches(self, like: Tensor) -> bool:
        """Whether the weight is a plain matrix of the dtype and on the device of ``like``."""
        weight = self._matrix()
        if not isinstance(weight, Tensor) or weight.ndim != 2 or weight.layout != torch.strided:
            return False
        return weight.dtype == like.dtype and weight.device == like.device

    def _matrix(self) -> Tensor:
        found = self._parameters.get("weight")  # quicker than self.weight, which pruning and the like redefine
        return self.weight if found is None else found

    def forward(self, H: Tensor) -> Tensor:
        return self.weight @ H

    def factor(self, H: Tensor) -> tuple[Tensor, float]:
        """Return this map of H, and one."""
        result: Tensor = self(H)
        return result, 1.0

    def add_to(self, target: Tensor, source: Tensor, factor: float = 1.0) -> None:
        """Add ``factor`` times this map of ``source`` to ``target`` in place."""
        target.add_(self(source), alpha=factor)

    def dense(self, like: Tensor) -> Tensor:
        """The matrix itself, in the dtype and on the device of ``like``."""
        return self.weight.to(like)


LinearMap: TypeAlias = Selection | Dense


def _read(H: Tensor, piece: Piece) -> Tensor:
    _, start, size, coefficient = piece
    rows = _rows(H, start, size)
    return rows if coefficient == 1.0 else rows * coefficient


def _rows(H: Tensor, start: int, size: int) -> Tensor:
    # the same view twice: slicing takes half the time of narrow, but works along the first axis only
    return H[start : start + size] if H.ndim == 2 else H.narrow(-2, start, size)
