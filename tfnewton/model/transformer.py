"""The model of the paper: a stack of layers of linear attention and ReLU, eq:TF, over named rows.

H is (features, tokens) with any leading batch axes. This is the only forward pass of the package: constructed
transformers hold selections of named rows, trained ones dense matrices, and both are traced block by block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from tfnewton.checks import Array, like, plain
from tfnewton.model.layers import Head, Layer, ReLU
from tfnewton.model.layout import Layout
from tfnewton.model.maps import Dense, LinearMap, Selection
from tfnewton.model.packing import Packing

__all__ = ["Frame", "Transformer"]


_NUMPY: dict[torch.dtype, object] = {
    torch.float64: np.dtype(np.float64),
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
}


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

    Raises TypeError or ValueError for layers or a packing that do not fit the layout. Heads, maps, ReLU groups and
    layers may be edited, replaced or removed at any time: each call computes from what is there.

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
        first = next(self.parameters(), torch.zeros(0, dtype=torch.float64))
        self.register_buffer("_anchor", first.detach().new_zeros(()), persistent=False)
        self._check()
        if packing is not None:
            packing.check(layout)

    def _check(self) -> None:
        width, anchor, layers = self.layout.width, self._anchor, self._modules.get("layers")
        if not isinstance(layers, nn.ModuleList):
            raise TypeError(f"layers = {layers!r}: must be a ModuleList")
        for layer in set(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"a layer is a {type(layer).__name__}: must be a Layer")
            layer.check(width, anchor)

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
        """The device to which H is brought."""
        return self._anchor.device

    def forward(self, H: Array) -> Array:
        """Return H after the last layer, as an array of the kind that came in.

        Raises TypeError or ValueError for an H that is not a finite array of ``width`` rows in this dtype, for edited
        layers that do not fit together, and for a result that is not finite.
        """
        state = self._input(H)
        if isinstance(H, torch.Tensor) and self._differentiated(H):
            state = state if self.depth else state.clone()
            for layer in self.layers:
                state = layer(state)
        else:
            # inference mode is faster, but drops the derivatives that forward differentiation carries with a tensor
            with torch.inference_mode() if isinstance(H, np.ndarray) else torch.no_grad():
                state, watched = state.clone(), self._watched()
                for layer in self.layers:
                    state = layer(state) if watched and layer in watched else layer.forward_(state)
        if not _is_finite(state):
            raise ValueError("the result contains NaN or infinity: trace(H) shows after which layer")
        return like(state, H)

    def _watched(self) -> set[Layer]:
        """The layers to call as modules: with hooks, which may keep what they see, or a forward of their own."""
        everywhere = _has_any_global_hook()  # type: ignore[no-untyped-call]
        return {layer for layer in set(self.layers) if everywhere or _has_its_own_ways(layer)}

    def _differentiated(self, H: Tensor) -> bool:
        return torch.is_grad_enabled() and (H.requires_grad or any(p.requires_grad for p in self.parameters()))

    def trace(self, H: Array) -> list[Frame]:
        """Return H before the first layer and after each layer, ``depth + 1`` frames, cut into named blocks."""
        state = self._input(H).clone()
        frames = [self._frame("input", state, set(), H)]
        for layer in self.layers:
            state = layer(state)
            frames.append(self._frame(layer.label, state, layer.written_rows(self.width), H))
        return frames

    def _frame(self, label: str, state: Tensor, rows: set[int], source: Array) -> Frame:
        blocks = {b.name: like(state.narrow(-2, b.start, b.size), source) for b in self.layout.blocks}
        spans = {b.name: range(b.start, b.start + b.size) for b in self.layout.blocks}
        return Frame(label, blocks, tuple(name for name, span in spans.items() if rows.intersection(span)))

    def _input(self, H: Array) -> Tensor:
        self._check()
        state = self._checked(H)
        if not _is_finite(state):
            raise ValueError("H contains NaN or infinity: every entry must be finite")
        return state

    def _checked(self, H: Array) -> Tensor:
        if not isinstance(H, Array):
            raise TypeError(f"H is a {type(H).__name__}: must be a numpy array or a tensor")
        plain("H", H)
        dtype = self.dtype
        if H.dtype != (dtype if isinstance(H, torch.Tensor) else _NUMPY.get(dtype, "one that numpy has not")):
            raise TypeError(f"H has dtype {H.dtype}: must be {self.dtype}, which .to(...) of the transformer changes")
        if H.ndim < 2 or H.shape[-2] != self.width or 0 in H.shape:
            raise ValueError(
                f"H has shape {tuple(H.shape)}: must be ({self.width}, n), leading batch axes allowed, none empty"
            )
        needed = 1 if self.packing is None else self.packing.least_tokens(self.layout)
        if H.shape[-1] < needed:
            raise ValueError(f"H has n = {H.shape[-1]} tokens: must be at least {needed}, the size of its identity")
        if isinstance(H, np.ndarray):
            shared = H.flags.c_contiguous and H.flags.writeable  # what torch can share; anything else is copied
            H = torch.from_numpy(H if shared else np.require(H, requirements=["C", "W"]))
        return H.to(self.device)

    def pack(self, *inputs: object, **named: object) -> Array:
        """Return H for the inputs of this construction; see ``packing.inputs`` for their names and shapes."""
        given = (*inputs, *named.values())
        if self.dtype not in _NUMPY and not any(isinstance(value, torch.Tensor) for value in given):
            raise TypeError(f"numpy has no {self.dtype}: an input must be a tensor")
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
        self._check()
        shared: dict[LinearMap, Dense] = {}  # what is tied stays tied
        copies = {layer: _dense_layer(layer, self._anchor, shared) for layer in self.layers}
        return Transformer(self.layout, [copies[layer] for layer in self.layers], self.packing).to(self._anchor)

    def save(self, path: str | Path) -> None:
        """Write weights, layout and input format to one safetensors file, atomically."""
        from tfnewton.model.checkpoint import Parts, save  # pydantic and safetensors load only where files are

        self._check()
        if self.packing is not None:
            self.packing.check(self.layout)
        save(Path(path), Parts(self.layout, tuple(self.layers), self.packing, self.dtype))

    @staticmethod
    def load(path: str | Path) -> Transformer:
        """Read a transformer written by ``save``.

        Raises FileNotFoundError, or ValueError that names the file where it is damaged or not a valid transformer.
        """
        from tfnewton.model.checkpoint import load

        parts = load(Path(path))
        try:
            return Transformer(parts.layout, parts.layers, parts.packing).to(parts.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: the description of the transformer is not valid: {error}") from error


def _is_finite(state: Tensor) -> bool:
    low, high = torch.aminmax(state.detach())  # NaN if there is one; isfinite(state) would need copies of it
    return -math.inf < low.item() <= high.item() < math.inf


def _has_its_own_ways(layer: Layer) -> bool:
    return (
        bool(layer._forward_hooks or layer._forward_pre_hooks) or type(layer) is not Layer or "forward" in vars(layer)
    )


def _dense_layer(layer: Layer, like: Tensor, copies: dict[LinearMap, Dense]) -> Layer:
    def dense(m: LinearMap) -> Dense:
        if isinstance(m, Selection):  # equal ones stand in many places, and are trained apart
            return Dense(m.dense(like), trainable=True)
        return copies.setdefault(m, Dense(m.dense(like).detach().clone(), trainable=True))

    heads = [Head(dense(h.out), dense(h.value), dense(h.key), dense(h.query)) for h in layer.heads]
    units = None if layer.relu is None or not layer.relu.groups else layer.relu.weights(like)
    relu = None if units is None else ReLU.dense(*(W.clone() for W in units), trainable=True)
    return Layer(heads, relu, layer.label, layer.options)
