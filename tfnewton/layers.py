"""One layer of the model, eq:TF of the paper: linear attention, then a ReLU layer.

Att(H) = H + sum_i W_V^(i) H (W_K^(i) H)^T (W_Q^(i) H),        TF(H) = Att(H) + W_2 relu(W_1 Att(H)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from tfnewton.layout import Block, Layout, Rows, Write
from tfnewton.maps import LinearMap, Piece, Selection

__all__ = ["Head", "Layer", "ReLU", "attention", "select"]


class Head(nn.Module):
    """One head, ``out(value(H) key(H)^T query(H))``; eq. (1) has ``W_V = out value``."""

    out: LinearMap
    value: LinearMap
    key: LinearMap
    query: LinearMap

    def __init__(self, out: LinearMap, value: LinearMap, key: LinearMap, query: LinearMap) -> None:
        super().__init__()
        self.out, self.value, self.key, self.query = out, value, key, query


def _attend(heads: Sequence[Head], H: Tensor) -> Tensor:
    """Return ``sum_i V K_i^T Q_i`` for heads that share their value, in the cheaper order of multiplication."""
    V: Tensor = heads[0].value(H)  # (v, n)
    v, k, n = heads[0].value.shape[0], sum([head.key.shape[0] for head in heads]), H.shape[-1]
    if n * (v + k) < 2 * v * k:  # few tokens: sum the n x n products K_i^T Q_i, then multiply by V once
        return V @ _total([head.key(H).mT @ head.query(H) for head in heads])
    return _total([(V @ head.key(H).mT) @ head.query(H) for head in heads])  # many: nothing is n x n


def _total(terms: list[Tensor]) -> Tensor:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


class ReLU(nn.Module):
    """The feed-forward part, ``outer(relu(inner(H)))``: W_1 is ``inner``, W_2 is ``outer``; its width is W_1's rows."""

    inner: LinearMap
    outer: LinearMap

    def __init__(self, inner: LinearMap, outer: LinearMap) -> None:
        super().__init__()
        self.inner, self.outer = inner, outer

    @property
    def width(self) -> int:
        return self.inner.shape[0]

    def forward(self, H: Tensor) -> Tensor:
        result: Tensor = self.outer(torch.relu(self.inner(H)))
        return result


class Layer(nn.Module):
    """Linear attention, then an optional ReLU layer; ``label`` is the line that the layer carries out."""

    heads: Sequence[Head]
    relu: ReLU | None

    def __init__(self, heads: Iterable[Head], relu: ReLU | None = None, label: str = "") -> None:
        super().__init__()
        self.heads = cast("Sequence[Head]", nn.ModuleList(heads))
        self.relu = relu
        self.label = label
        shared: dict[tuple[LinearMap, LinearMap], list[Head]] = {}
        for head in self.heads:
            shared.setdefault((head.out, head.value), []).append(head)
        self._shared = tuple(shared.values())  # heads with equal value and output are summed before they are written

    def forward(self, H: Tensor) -> Tensor:
        result = H.clone()
        for heads in self._shared:  # every head reads the old H
            heads[0].out.add_to(result, _attend(heads, H))
        return result if self.relu is None else result + cast(Tensor, self.relu(result))

    def weights(self) -> list[dict[str, Tensor]]:
        """The dense W_V, W_K, W_Q of each head, D x D as the paper prints them (selected rows on top)."""
        return [{"W_V": V, "W_K": K, "W_Q": Q} for V, K, Q in map(_paper_weights, self.heads)]

    def written_rows(self) -> set[int]:
        """The rows of H that this layer can change."""
        maps = [head.out for head in self.heads] + ([] if self.relu is None else [self.relu.outer])
        return {row for out in maps for row in _written(out)}


def _paper_weights(head: Head) -> tuple[Tensor, Tensor, Tensor]:
    like = torch.empty(0, dtype=torch.float64)
    V = head.out.dense(like) @ head.value.dense(like)  # (D, D)
    K, Q = (torch.zeros_like(V) for _ in range(2))
    K[: head.key.shape[0]] = head.key.dense(like)
    Q[: head.query.shape[0]] = head.query.dense(like)
    return V, K, Q


def _written(out: LinearMap) -> Iterable[int]:
    if isinstance(out, Selection):
        return (row for piece in out.pieces for row in range(piece.out, piece.out + piece.size))
    return (int(row) for row in out.weight.any(dim=1).nonzero())


def attention(layout: Layout, *writes: Write, label: str = "", relu: ReLU | None = None) -> Layer:
    """Return the layer that carries out ``writes`` at once; writes with the same key and query share a head."""
    grouped: dict[tuple[Rows, Rows], list[Write]] = {}
    for write in writes:
        grouped.setdefault((write.product.key, write.product.query), []).append(write)
    heads = [_head(layout, key, query, group) for (key, query), group in grouped.items()]
    return Layer(heads, relu, label or "; ".join(map(str, writes)))


def _head(layout: Layout, key: Rows, query: Rows, writes: list[Write]) -> Head:
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
    return Head(
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
