"""One layer of the model, eq:TF of the paper: linear attention, then a ReLU layer.

Att(H) = H + sum_i W_V^(i) H (W_K^(i) H)^T (W_Q^(i) H),        TF(H) = Att(H) + W_2 relu(W_1 Att(H)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from tfnewton.layout import Block, Layout, Rows, Write
from tfnewton.maps import LinearMap, Piece, Selection

__all__ = ["PLAIN", "AttentionOptions", "Head", "Layer", "ReLU", "attention", "select"]


@dataclass(frozen=True)
class AttentionOptions:
    """What trained layers do beyond eq:TF; constructions use none of it.

    Args:
        average: divide by the number of keys.
        layer_norm: the epsilon of a LayerNorm, without gain or bias, on what the heads read; None for no LayerNorm.
        query_as_key: whether the last token, the query of a prompt, is among the keys and values.
        clip: bound on the absolute value of the entries of the result; None for no bound.
        rows: first row and number of the rows that LayerNorm and clip are about; None for all.
    """

    average: bool = False
    layer_norm: float | None = None
    query_as_key: bool = True
    clip: float | None = None
    rows: tuple[int, int] | None = None


PLAIN = AttentionOptions()


class Head(nn.Module):
    """One head, ``out(value(H) key(H)^T query(H))``; eq. (1) has ``W_V = out value``."""

    out: LinearMap
    value: LinearMap
    key: LinearMap
    query: LinearMap

    def __init__(self, out: LinearMap, value: LinearMap, key: LinearMap, query: LinearMap) -> None:
        super().__init__()
        self.out, self.value, self.key, self.query = out, value, key, query


class _Shared:
    """Heads that share their value and their output: their sum is formed before it is written."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads, self.out, self.value = heads, heads[0].out, heads[0].value
        v, k = self.value.shape[0], sum(head.key.shape[0] for head in heads)
        self.few = 2 * v * k / (v + k)  # up to so many tokens the n x n products K_i^T Q_i are the cheaper way

    def attend(self, H: Tensor, keys: Tensor) -> Tensor:
        """Return ``sum_i V K_i^T Q_i``, in the cheaper order of multiplication; no factor is n x n when n > width.

        Queries are read from ``H``, keys and values from ``keys``: H itself, or its tokens without the last.
        """
        V: Tensor = self.value(keys)  # (v, n)
        few = V.shape[-1] < self.few and V.shape[-1] <= H.shape[-2]
        total: Tensor | None = None
        for head in self.heads:
            left, right = head.key(keys).mT, head.query(H)
            if not few:
                left = V @ left  # (v, k)
            if total is None:
                total = left @ right
            elif total.ndim == 2:
                total = torch.addmm(total, left, right)  # saves a pass, but takes no batch axes
            else:
                total = total + left @ right
        assert total is not None
        return V @ total if few else total


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

    def __init__(
        self, heads: Iterable[Head], relu: ReLU | None = None, label: str = "", options: AttentionOptions = PLAIN
    ) -> None:
        super().__init__()
        self.heads = cast("Sequence[Head]", nn.ModuleList(heads))
        self.relu = relu
        self.label = label
        self.options = options
        shared: dict[tuple[LinearMap, LinearMap], list[Head]] = {}
        for head in self.heads:
            shared.setdefault((head.out, head.value), []).append(head)
        self._shared = tuple(map(_Shared, shared.values()))

    def forward(self, H: Tensor) -> Tensor:
        result = self._attention(H, H.clone())
        return result if self.relu is None else result + cast(Tensor, self.relu(result))

    def forward_(self, H: Tensor) -> Tensor:
        """Carry out the layer in place: without a copy of H, but nothing can be differentiated through it."""
        result = self._attention(H, H)
        return result if self.relu is None else result.add_(cast(Tensor, self.relu(result)))

    def _attention(self, H: Tensor, target: Tensor) -> Tensor:
        options = self.options
        source = H if options.layer_norm is None else _normalised(H, options)
        keys = source if options.query_as_key else source[..., :-1]
        # every head reads before one writes
        updates = [(shared.out, shared.attend(source, keys)) for shared in self._shared]
        for out, update in updates:
            out.add_to(target, update / keys.shape[-1] if options.average else update)
        if options.clip is not None:
            _chosen(target, options).clamp_(-options.clip, options.clip)
        return target

    def weights(self) -> list[dict[str, Tensor]]:
        """The dense W_V, W_K, W_Q of each head, D x D as the paper prints them (selected rows on top)."""
        return [{"W_V": V, "W_K": K, "W_Q": Q} for V, K, Q in map(_paper_weights, self.heads)]

    def written_rows(self) -> set[int]:
        """The rows of H that this layer can change."""
        maps = [head.out for head in self.heads] + ([] if self.relu is None else [self.relu.outer])
        return {row for out in maps for row in _written(out)}


def _chosen(H: Tensor, options: AttentionOptions) -> Tensor:
    return H if options.rows is None else H.narrow(-2, *options.rows)


def _normalised(H: Tensor, options: AttentionOptions) -> Tensor:
    chosen, result = _chosen(H, options), H.clone()
    normalised = nn.functional.layer_norm(chosen.mT, chosen.shape[-2:-1], eps=cast(float, options.layer_norm))
    _chosen(result, options).copy_(normalised.mT)
    return result


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
