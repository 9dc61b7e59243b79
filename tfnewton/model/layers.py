"""One layer of the model, eq:TF of the paper: linear attention, then a ReLU layer.

Att(H) = H + sum_i W_V^(i) H (W_K^(i) H)^T (W_Q^(i) H),        TF(H) = Att(H) + W_2 relu(W_1 Att(H)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from tfnewton.model.attention import PLAIN, AttentionOptions, Head, attend
from tfnewton.model.feed_forward import ReLU, UnitGroup
from tfnewton.model.layout import Block, Layout, Rows, Write
from tfnewton.model.maps import Dense, LinearMap, Piece, Selection

__all__ = ["AttentionOptions", "Head", "Layer", "ReLU", "attention", "select"]


class Layer(nn.Module):
    """Linear attention, then an optional ReLU layer; ``label`` is the line that the layer carries out."""

    heads: Sequence[Head]
    relu: ReLU | None

    def __init__(
        self, heads: Iterable[Head], relu: ReLU | None = None, label: str = "", options: AttentionOptions = PLAIN
    ) -> None:
        super().__init__()
        self.heads = cast("Sequence[Head]", nn.ModuleList(heads))
        self.relu = relu
        self.label = label
        self.options = options

    def forward(self, H: Tensor) -> Tensor:
        attended = H.clone()
        attend(self.heads, self.options, H, attended)
        if self.relu is None:
            return attended
        result = attended.clone()
        self.relu.add_to(result, attended)
        return result

    def forward_(self, H: Tensor) -> Tensor:
        """Carry out the layer in place: without a copy of H, but nothing can be differentiated through it."""
        attend(self.heads, self.options, H, H)
        if self.relu is not None:
            self.relu.add_to(H, H)
        return H

    def check(self, width: int, like: Tensor) -> None:
        """Refuse, by TypeError or ValueError, what editing can leave: parts of another kind, maps that do not fit.

        All maps must fit together and into ``width`` rows, and matrices have the dtype and device of ``like``.
        """
        must = f"do not fit together in {width} rows, as matrices of {like.dtype} on {like.device}"
        for i, head in enumerate(_parts(self, "heads")):
            if type(head) is not Head:
                raise TypeError(f"head {i} of {self.label!r} is a {type(head).__name__}: must be a Head")
            if not head.fits(width, like):
                raise ValueError(f"the maps of head {i} of {self.label!r} {must}")
        if self.relu is not None:
            for group in _parts(self.relu, "groups"):
                if type(group) is not UnitGroup:
                    raise TypeError(f"a group of {self.label!r} is a {type(group).__name__}: must be a UnitGroup")
                if not group.fits(width, like):
                    raise ValueError(f"the maps of the ReLU layer of {self.label!r} {must}")
        if not isinstance(self.options, AttentionOptions) or not isinstance(self.label, str):
            raise TypeError(f"options or label of {self.label!r}: must be AttentionOptions and a string")
        if not self.options.fits(width):
            raise ValueError(f"rows = {self.options.rows} of {self.label!r}: must lie in the {width} rows of H")

    def weights(self) -> list[dict[str, Tensor]]:
        """The dense W_V, W_K, W_Q of each head, D x D as the paper prints them (selected rows on top)."""
        return [{"W_V": V, "W_K": K, "W_Q": Q} for V, K, Q in map(_paper_weights, self.heads)]

    def written_rows(self, width: int) -> set[int]:
        """The rows of H, of ``width`` of them, that this layer can change."""
        maps: list[LinearMap] = [head.out for head in self.heads]
        rows = {row for out in maps for row in _written(out)}
        if self.options.clip is not None:
            first, size = self.options.rows or (0, width)
            rows.update(range(first, first + size))
        return rows if self.relu is None else rows.union(*(_written_by(group) for group in self.relu.groups))


def _parts(module: nn.Module, name: str) -> Iterable[nn.Module]:
    parts = module._modules.get(name)
    if not isinstance(parts, nn.ModuleList):
        raise TypeError(f"{name} of a {type(module).__name__} is {parts!r}: must be a ModuleList")
    return parts


def _paper_weights(head: Head) -> tuple[Tensor, Tensor, Tensor]:
    like = torch.empty(0, dtype=torch.float64)
    V = head.out.dense(like) @ head.value.dense(like)  # (D, D)
    K, Q = (torch.zeros_like(V) for _ in range(2))
    K[: head.key.shape[0]] = head.key.dense(like)
    Q[: head.query.shape[0]] = head.query.dense(like)
    return V, K, Q


def _written(out: LinearMap) -> set[int]:
    if isinstance(out, Dense):
        return {int(row) for row in out.weight.any(dim=1).nonzero()}
    return {row for piece in out.pieces for row in range(piece.out, piece.out + piece.size)}


def _written_by(group: UnitGroup) -> set[int]:
    like = group.outer.weight
    return {int(row) for row in (group.write.dense(like) @ like).any(dim=1).nonzero()}


def attention(layout: Layout, *writes: Write, label: str = "", relu: ReLU | None = None) -> Layer:
    """Return the layer that carries out ``writes`` at once; writes with the same key and query share a head."""
    grouped: dict[tuple[Rows, Rows], list[Write]] = {}
    for write in writes:
        grouped.setdefault((write.product.key, write.product.query), []).append(write)
    maps: dict[Selection, Selection] = {}  # heads share equal maps, and with them their products
    heads = [
        Head(*(maps.setdefault(m, m) for m in _maps(layout, key, query, group)))
        for (key, query), group in grouped.items()
    ]
    return Layer(heads, relu, label or "; ".join(map(str, writes)))


def _maps(layout: Layout, key: Rows, query: Rows, writes: list[Write]) -> tuple[Selection, ...]:
    sources: dict[Block, int] = {}  # value rows: each source block once, coefficients go to the output map
    out: list[Piece] = []
    height = 0
    for write in writes:
        first = write.target.start
        for part in write.product.value.parts:
            for coefficient, block in part:
                if block not in sources:
                    sources[block], height = height, height + block.size
                out.append(Piece(first, sources[block], block.size, coefficient))
            first += part[0][1].size
    value = tuple(Piece(at, block.start, block.size, 1.0) for block, at in sources.items())
    return (
        Selection(tuple(out), (layout.width, height)),
        Selection(value, (height, layout.width)),
        select(layout, key),
        select(layout, query),
    )


def select(layout: Layout, rows: Rows) -> Selection:
    """Return the selection that reads ``rows`` from an H of this layout."""
    pieces, out = [], 0
    for part in rows.parts:
        pieces += [Piece(out, block.start, block.size, coefficient) for coefficient, block in part]
        out += part[0][1].size
    return Selection(tuple(pieces), (out, layout.width))
