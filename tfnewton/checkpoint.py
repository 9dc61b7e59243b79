"""Transformers as safetensors files: dense matrices as tensors; layout, selections and input format as metadata."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from tfnewton.layers import PLAIN, AttentionOptions, Head, Layer, ReLU
from tfnewton.layout import Layout
from tfnewton.maps import Dense, LinearMap, Piece, Selection
from tfnewton.packing import Packing
from tfnewton.transformer import Transformer

__all__ = ["load", "save", "write_atomically"]

_KEY = "tfnewton"
_Dtype: TypeAlias = Literal["float32", "float64"]
_DTYPES: dict[_Dtype, torch.dtype] = {"float32": torch.float32, "float64": torch.float64}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Map(_Record):
    shape: tuple[int, int]
    pieces: tuple[Piece, ...] = ()
    tensor: str | None = None
    trainable: bool = False


class _Layer(_Record):
    label: str
    heads: tuple[tuple[_Map, _Map, _Map, _Map], ...]  # out, value, key, query
    relu: tuple[_Map, _Map] | None  # inner, outer
    options: AttentionOptions = PLAIN


class _File(_Record):
    version: Literal[1]
    dtype: _Dtype
    blocks: dict[str, int]
    layers: tuple[_Layer, ...]
    order: tuple[int, ...]  # a looped transformer repeats an index
    packing: Packing | None


def save(model: Transformer, path: Path) -> None:
    """Write ``model`` to ``path``; the old file stays whole until the new one is complete."""
    dtype = next((name for name, value in _DTYPES.items() if value == model.dtype), None)
    if dtype is None:
        raise TypeError(f"dtype = {model.dtype}: only {' and '.join(_DTYPES)} can be saved")
    distinct = list(dict.fromkeys(model.layers))
    tensors: dict[str, torch.Tensor] = {}
    record = _File(
        version=1,
        dtype=dtype,
        blocks=model.layout.sizes,
        layers=tuple(_layer_record(layer, f"layers.{i}", tensors) for i, layer in enumerate(distinct)),
        order=tuple(distinct.index(layer) for layer in model.layers),
        packing=model.packing,
    )
    write_atomically(path, to_bytes(tensors, metadata={_KEY: record.model_dump_json()}))


def load(path: Path) -> Transformer:
    """Return the transformer stored at ``path``.

    Raises FileNotFoundError, or ValueError when the file is truncated, foreign or inconsistent.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as handle:
            text = (handle.metadata() or {}).get(_KEY)
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118  (not a mapping)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: not a readable safetensors file, truncated or of another kind ({error})") from error
    if text is None:
        raise ValueError(f"{path}: a safetensors file, but its metadata has no {_KEY!r} entry")
    try:
        record = _File.model_validate_json(text)
        layout = Layout(**record.blocks)
        layers = [_layer(entry, layout.width, tensors) for entry in record.layers]
        _check(record, layout, tensors)
    except (ValidationError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: the description of the transformer is not valid: {error}") from error
    return Transformer(layout, [layers[i] for i in record.order], record.packing).to(_DTYPES[record.dtype])


def _check(record: _File, layout: Layout, unused: dict[str, torch.Tensor]) -> None:
    if any(not 0 <= index < len(record.layers) for index in record.order):
        raise ValueError("the order of layers names a layer that is not there")
    if unused:
        raise ValueError(f"no map uses the tensors {', '.join(sorted(unused))}")
    if record.packing is not None:
        named = {entry.block for entry in record.packing.inputs} | {entry.block for entry in record.packing.outputs}
        unknown = named.union(record.packing.constants) - set(layout.sizes)
        if unknown:
            raise ValueError(f"the input format fills the blocks {', '.join(sorted(unknown))}, which are not there")


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a neighbour of ``path`` and rename it into place."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder does not exist")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's files are private, a saved model is an ordinary file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _map_record(m: LinearMap, name: str, tensors: dict[str, torch.Tensor]) -> _Map:
    if isinstance(m, Selection):
        return _Map(shape=m.shape, pieces=m.pieces)
    tensors[name] = m.weight.detach().cpu().contiguous()
    return _Map(shape=m.shape, tensor=name, trainable=m.weight.requires_grad)


def _layer_record(layer: Layer, name: str, tensors: dict[str, torch.Tensor]) -> _Layer:
    heads = tuple(
        (
            _map_record(head.out, f"{name}.heads.{i}.out", tensors),
            _map_record(head.value, f"{name}.heads.{i}.value", tensors),
            _map_record(head.key, f"{name}.heads.{i}.key", tensors),
            _map_record(head.query, f"{name}.heads.{i}.query", tensors),
        )
        for i, head in enumerate(layer.heads)
    )
    relu = None
    if layer.relu is not None:
        relu = (
            _map_record(layer.relu.inner, f"{name}.relu.inner", tensors),
            _map_record(layer.relu.outer, f"{name}.relu.outer", tensors),
        )
    return _Layer(label=layer.label, heads=heads, relu=relu, options=layer.options)


def _map(record: _Map, tensors: dict[str, torch.Tensor]) -> LinearMap:
    if record.tensor is None:
        return Selection(record.pieces, record.shape)
    weight = tensors.pop(record.tensor)
    if not weight.is_floating_point():
        raise ValueError(f"{record.tensor} has dtype {weight.dtype}, weights are floating-point numbers")
    if tuple(weight.shape) != record.shape:
        raise ValueError(f"{record.tensor} has shape {tuple(weight.shape)}, the description says {record.shape}")
    return Dense(weight, trainable=record.trainable)


def _layer(record: _Layer, width: int, tensors: dict[str, torch.Tensor]) -> Layer:
    heads = []
    for maps in record.heads:
        out, value, key, query = (_map(m, tensors) for m in maps)
        outside = (out.shape[0], value.shape[1], key.shape[1], query.shape[1]) != (width,) * 4
        if outside or out.shape[1] != value.shape[0] or key.shape[0] != query.shape[0]:
            raise ValueError(f"the maps of a head do not fit together in {width} rows")
        heads.append(Head(out, value, key, query))
    if record.relu is None:
        return Layer(heads, None, record.label, record.options)
    inner, outer = (_map(m, tensors) for m in record.relu)
    if (inner.shape[1], outer.shape[0]) != (width, width) or inner.shape[0] != outer.shape[1]:
        raise ValueError(f"the maps of a ReLU layer do not fit together in {width} rows")
    return Layer(heads, ReLU(inner, outer), record.label, record.options)
