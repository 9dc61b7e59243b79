"""Transformers as safetensors files: dense matrices as tensors; layout, selections and input format as metadata.

The metadata is a JSON record after a checksum of record and tensors. Files of the first edition, version 1, have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from tfnewton.files import checked_text, read_tensors, sealed, tensors_to_bytes, write_atomically
from tfnewton.model.attention import PLAIN, AttentionOptions
from tfnewton.model.feed_forward import ReLU, UnitGroup
from tfnewton.model.layers import Head, Layer
from tfnewton.model.layout import Layout
from tfnewton.model.maps import Dense, LinearMap, Piece, Selection
from tfnewton.model.packing import Packing

__all__ = ["Parts", "load", "save"]

_KEY = "tfnewton"
_Dtype: TypeAlias = Literal["float32", "float64"]
_DTYPES: dict[_Dtype, torch.dtype] = {"float32": torch.float32, "float64": torch.float64}
_Tensors: TypeAlias = dict[str, torch.Tensor]


class Parts(NamedTuple):
    """What a file holds: all that makes a ``Transformer``."""

    layout: Layout
    layers: Sequence[Layer]
    packing: Packing | None
    dtype: torch.dtype


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class _Map(_Record):
    shape: tuple[int, int]
    pieces: tuple[Piece, ...] = ()
    tensor: str | None = None
    trainable: bool = False


_Quadruple: TypeAlias = tuple[_Map, _Map, _Map, _Map]


class _Layer(_Record):
    label: str
    heads: tuple[_Quadruple, ...]  # out, value, key, query
    relu: tuple[_Quadruple, ...] | tuple[_Map, _Map] | None  # read, inner, outer, write; in version 1 inner, outer
    options: AttentionOptions = PLAIN


class _File(_Record):
    version: Literal[1, 2]
    dtype: _Dtype
    blocks: dict[str, int]
    layers: tuple[_Layer, ...]
    order: tuple[int, ...]  # a looped transformer repeats an index
    packing: Packing | None


def save(path: Path, parts: Parts) -> None:
    """Write ``parts`` to ``path``; the old file stays whole until the new one is complete."""
    dtype = next((name for name, value in _DTYPES.items() if value == parts.dtype), None)
    if dtype is None:
        raise TypeError(f"dtype = {parts.dtype}: only {' and '.join(_DTYPES)} can be saved")
    distinct = list(dict.fromkeys(parts.layers))
    tensors = _Weights()
    record = _File(
        version=2,
        dtype=dtype,
        blocks=parts.layout.sizes,
        layers=tuple(_layer_record(layer, f"layers.{i}", tensors) for i, layer in enumerate(distinct)),
        order=tuple(distinct.index(layer) for layer in parts.layers),
        packing=parts.packing,
    )
    held = tensors.by_name
    write_atomically(path, tensors_to_bytes(held, _KEY, sealed(held, record.model_dump_json())))


def load(path: Path) -> Parts:
    """Return what is stored at ``path``.

    Raises FileNotFoundError, or ValueError when the file is damaged, foreign or inconsistent.
    """
    tensors, text = read_tensors(path, _KEY)
    first_edition = text.startswith("{")
    text = text if first_edition else checked_text(path, tensors, text)
    try:
        record = _File.model_validate_json(text)
        if (record.version == 1) != first_edition:
            raise ValueError(f"version {record.version} {'without' if first_edition else 'with'} a checksum")
        if any(not 0 <= index < len(record.layers) for index in record.order):
            raise ValueError("the order of layers names a layer that is not there")
        if set(record.order) != set(range(len(record.layers))):
            raise ValueError("the order of layers leaves one out")
        layout, known = Layout(**record.blocks), _Known(tensors, _DTYPES[record.dtype])
        layers = [_layer(entry, known, layout.width) for entry in record.layers]
        if set(tensors) != set(known.dense):
            raise ValueError(f"no map uses the tensors {', '.join(sorted(set(tensors) - set(known.dense)))}")
    except (ValidationError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: the description of the transformer is not valid: {error}") from error
    return Parts(layout, [layers[i] for i in record.order], record.packing, _DTYPES[record.dtype])


class _Weights:
    """The matrices of a file by name, each once however often it is used."""

    def __init__(self) -> None:
        self.by_name: _Tensors = {}
        self._names: dict[torch.Tensor, str] = {}

    def name(self, weight: torch.Tensor, name: str) -> str:
        if weight not in self._names:
            if not torch.isfinite(weight).all():
                raise ValueError(f"{name} contains NaN or infinity: cannot be saved")
            self._names[weight], self.by_name[name] = name, weight.detach().cpu().contiguous()
        return self._names[weight]


def _map_record(m: LinearMap, name: str, tensors: _Weights) -> _Map:
    if isinstance(m, Selection):
        return _Map(shape=m.shape, pieces=m.pieces)
    return _Map(shape=m.shape, tensor=tensors.name(m.weight, name), trainable=m.weight.requires_grad)


def _layer_record(layer: Layer, name: str, tensors: _Weights) -> _Layer:
    def quadruple(part: Head | UnitGroup, at: str, names: tuple[str, str, str, str]) -> _Quadruple:
        a, b, c, d = (_map_record(getattr(part, n), f"{name}.{at}.{n}", tensors) for n in names)
        return a, b, c, d

    heads = tuple(quadruple(h, f"heads.{i}", ("out", "value", "key", "query")) for i, h in enumerate(layer.heads))
    groups = () if layer.relu is None else layer.relu.groups
    units = tuple(quadruple(g, f"relu.{i}", ("read", "inner", "outer", "write")) for i, g in enumerate(groups))
    return _Layer(label=layer.label, heads=heads, relu=units or None, options=layer.options)


class _Known:
    """The maps of a file, each made once: what shared a map or a matrix before it was saved shares it again."""

    def __init__(self, tensors: _Tensors, dtype: torch.dtype) -> None:
        self.tensors, self.dtype = tensors, dtype
        self.dense: dict[str, Dense] = {}
        self.selections: dict[Selection, Selection] = {}

    def linear(self, entry: _Map) -> LinearMap:
        if (entry.tensor is None) == (not entry.pieces):
            raise ValueError("a map is either a selection or a matrix")
        if entry.tensor is None:
            selection = Selection(entry.pieces, entry.shape)
            return self.selections.setdefault(selection, selection)
        if entry.tensor not in self.dense:
            self.dense[entry.tensor] = Dense(self._weight(entry), trainable=entry.trainable)
        return self.dense[entry.tensor]

    def _weight(self, entry: _Map) -> torch.Tensor:
        weight = self.tensors[str(entry.tensor)]
        if weight.dtype != self.dtype:
            raise ValueError(f"{entry.tensor} has dtype {weight.dtype}, the description says {self.dtype}")
        if tuple(weight.shape) != entry.shape:
            raise ValueError(f"{entry.tensor} has shape {tuple(weight.shape)}, the description says {entry.shape}")
        return weight


def _layer(record: _Layer, known: _Known, width: int) -> Layer:
    heads = [Head(*map(known.linear, maps)) for maps in record.heads]
    units = _quadruples(record.relu, width)
    relu = None if units is None else ReLU(UnitGroup(*map(known.linear, maps)) for maps in units)
    return Layer(heads, relu, record.label, record.options)


def _quadruples(relu: tuple[_Quadruple, ...] | tuple[_Map, _Map] | None, width: int) -> Sequence[_Quadruple] | None:
    """Return the groups of units of a ReLU layer; in version 1 all units read and write all rows."""
    if relu is None or not isinstance(relu[0], _Map):
        return cast("Sequence[_Quadruple] | None", relu)
    inner, outer = relu
    everything = _Map(shape=(width, width), pieces=(Piece(0, 0, width, 1.0),))
    return [(everything, inner, outer, everything)]
