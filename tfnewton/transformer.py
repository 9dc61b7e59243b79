"""The model of the paper, eq:TF: layers of linear attention followed by a ReLU layer.

    Att(H) = H + sum_i W_V^(i) H (W_K^(i) H)^T (W_Q^(i) H),        TF(H) = Att(H) + W_2 relu(W_1 Att(H)).

H is (features, tokens) with any leading batch axes. This is the only forward pass of the package: constructed
transformers hold selections of named rows, trained ones dense matrices, and both are traced block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from tfnewton.checks import Array, like
from tfnewton.layout import Block, Layout, Rows, Write
from tfnewton.maps import Dense, LinearMap, Piece, Selection
from tfnewton.packing import Packing

__all__ = ["Frame", "Head", "Layer", "ReLU", "Transformer", "attention"]


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


@dataclass(frozen=True)
class Frame:
    """H at one point of a trace: the line that was carried out, its blocks by name, and which of them it wrote."""

    label: str
    blocks: dict[str, Array]
    written: tuple[str, ...]


class Transformer(nn.Module):
    """A stack of layers over named rows.

    Args:
        layout: the row blocks of H.
        layers: the layers, first to last; the same Layer object may stand several times (a looped transformer).
        packing: how named inputs become H and H becomes named outputs; without it ``pack`` and ``unpack`` refuse.

    A construction holds selections only, so ``parameters()`` lists its dense ReLU weights and nothing else;
    ``dense()`` gives the same transformer with trainable matrices.
    """

    layers: Sequence[Layer]
    _anchor: Tensor

    def __init__(self, layout: Layout, layers: Sequence[Layer], packing: Packing | None = None) -> None:
        super().__init__()
        self.layout = layout
        self.layers = cast("Sequence[Layer]", nn.ModuleList(layers))
        self.packing = packing
        self.register_buffer("_anchor", torch.zeros((), dtype=torch.float64), persistent=False)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def heads(self) -> int:
        """Largest number of heads in a layer."""
        return max((len(layer.heads) for layer in self.layers), default=0)

    @property
    def width(self) -> int:
        """Rows of H."""
        return self.layout.width

    @property
    def relu_width(self) -> int:
        """Units of the largest ReLU layer; 0 when there is none."""
        return max((layer.relu.width for layer in self.layers if layer.relu is not None), default=0)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that H must have; change it with ``.to(torch.float32)``."""
        return self._anchor.dtype

    @property
    def device(self) -> torch.device:
        """The device that H is brought to."""
        return self._anchor.device

    def forward(self, H: Array) -> Array:
        """Return H after the last layer, as an array of the kind that came in."""
        state = self._checked(H)
        for layer in self.layers:
            state = layer(state)
        return like(state, H)

    def trace(self, H: Array) -> list[Frame]:
        """Return H before the first layer and after each layer, ``depth + 1`` frames, cut into named blocks."""
        state = self._checked(H)
        frames = [self._frame("input", state, set(), H)]
        for layer in self.layers:
            state = layer(state)
            frames.append(self._frame(layer.label, state, layer.written_rows(), H))
        return frames

    def _frame(self, label: str, state: Tensor, rows: set[int], source: Array) -> Frame:
        blocks = {b.name: like(state.narrow(-2, b.start, b.size), source) for b in self.layout.blocks}
        spans = {b.name: range(b.start, b.start + b.size) for b in self.layout.blocks}
        return Frame(label, blocks, tuple(name for name, span in spans.items() if rows.intersection(span)))

    def _checked(self, H: Array) -> Tensor:
        if H.ndim < 2 or H.shape[-2] != self.width:
            raise ValueError(f"H has shape {tuple(H.shape)}: must be ({self.width}, n), leading batch axes allowed")
        state = torch.as_tensor(H, device=self.device)
        if state.dtype != self.dtype:
            raise TypeError(f"H has dtype {state.dtype}, the transformer {self.dtype}: use .to(...) on either")
        return state

    def pack(self, *inputs: object, **named: object) -> Array:
        """Return H for the inputs of this construction; see ``packing.inputs`` for their names and shapes."""
        return self._packing().pack(self.layout, inputs, named, self.dtype, self.device)

    def unpack(self, H: Array) -> dict[str, Array]:
        """Return the named outputs held in ``H``."""
        self._checked(H)
        return self._packing().unpack(self.layout, H)

    def _packing(self) -> Packing:
        if self.packing is None:
            raise ValueError("this transformer has no input format: build H by hand")
        return self.packing

    def dense(self) -> Transformer:
        """Return an equal transformer whose maps are trainable dense matrices; shared layers stay shared."""
        copies = {layer: _dense_layer(layer, self._anchor) for layer in self.layers}
        return Transformer(self.layout, [copies[layer] for layer in self.layers], self.packing).to(self._anchor)

    def save(self, path: str | Path) -> None:
        """Write weights, layout and input format to one safetensors file, atomically."""
        from tfnewton.checkpoint import save

        save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Transformer:
        """Read a transformer written by ``save``; ValueError names the file when it is not one."""
        from tfnewton.checkpoint import load

        return load(Path(path))


def _dense_layer(layer: Layer, like: Tensor) -> Layer:
    def dense(m: LinearMap) -> Dense:
        return Dense(m.dense(like).clone(), trainable=True)

    heads = [Head(dense(h.out), dense(h.value), dense(h.key), dense(h.query)) for h in layer.heads]
    relu = None if layer.relu is None else ReLU(dense(layer.relu.inner), dense(layer.relu.outer))
    return Layer(heads, relu, layer.label)
