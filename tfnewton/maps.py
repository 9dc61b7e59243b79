"""The linear maps inside a layer: a selection of rows, applied without a matrix product, or a dense matrix."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

__all__ = ["Dense", "LinearMap", "Piece", "Selection"]


class Piece(NamedTuple):
    """``output[out : out + size] += coefficient * input[start : start + size]``."""

    out: int
    start: int
    size: int
    coefficient: float


class Selection:
    """A sparse linear map made of row slices with coefficients; exact, and free of matrix products.

    Args:
        pieces: the slices; pieces that write the same output rows add up.
        shape: (rows of the output, rows of the input).

    Raises ValueError for a piece that leaves the shape or a map without pieces.
    """

    def __init__(self, pieces: tuple[Piece, ...], shape: tuple[int, int]) -> None:
        for p in pieces:
            if p.size < 1 or not (0 <= p.out <= shape[0] - p.size and 0 <= p.start <= shape[1] - p.size):
                raise ValueError(f"piece {tuple(p)} does not fit into a map of shape {shape}")
        if not pieces:
            raise ValueError("a selection needs at least one piece")
        self.pieces = pieces
        self.shape = shape
        ends = [0, *(p.out + p.size for p in pieces)]
        # consecutive pieces that tile the output can be sliced; anything else has to be summed
        self._tiles = [p.out for p in pieces] == ends[:-1] and ends[-1] == shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and (self.pieces, self.shape) == (other.pieces, other.shape)

    def __hash__(self) -> int:
        return hash((self.pieces, self.shape))

    def __call__(self, H: Tensor) -> Tensor:
        if not self._tiles:
            result = H.new_zeros(*H.shape[:-2], self.shape[0], H.shape[-1])
            self.add_to(result, H)
            return result
        if len(self.pieces) == 1:
            return _read(H, self.pieces[0])
        return torch.cat([_read(H, piece) for piece in self.pieces], dim=-2)

    def add_to(self, target: Tensor, source: Tensor) -> None:
        """Add this map of ``source`` to ``target`` in place, touching only the rows that are written."""
        for out, start, size, coefficient in self.pieces:
            rows = source if size == source.shape[-2] else _rows(source, start, size)
            _rows(target, out, size).add_(rows, alpha=coefficient)

    def dense(self, like: Tensor) -> Tensor:
        """This map as a matrix of ``shape``, in the dtype and on the device of ``like``."""
        matrix = like.new_zeros(self.shape)
        for p in self.pieces:
            matrix[p.out : p.out + p.size, p.start : p.start + p.size].diagonal().add_(p.coefficient)
        return matrix


class Dense(nn.Module):
    """A linear map given by its matrix, of shape (rows of the output, rows of the input)."""

    def __init__(self, weight: Tensor, *, trainable: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=trainable)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.weight.shape
        return rows, columns

    def forward(self, H: Tensor) -> Tensor:
        return self.weight @ H

    def add_to(self, target: Tensor, source: Tensor) -> None:
        """Add this map of ``source`` to ``target`` in place."""
        target.add_(self.weight @ source)

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
