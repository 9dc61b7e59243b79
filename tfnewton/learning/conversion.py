"""Trained linear attention as the package's ``Transformer``, and back: the same function, row by row.

The rows are x, y, hidden and y_hat, and one after y where the model has a constant. The first layer writes the
embedding into hidden; one layer for each of the model's works there; the last of them also writes the prediction into
y_hat. Embedding and read-out are linear, and stand in the ReLU layers as v = relu(v) - relu(-v).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.model.layers import AttentionOptions, Head, Layer, ReLU
from tfnewton.model.layout import Block, Layout
from tfnewton.model.maps import Dense
from tfnewton.model.packing import Input, Output, Packing
from tfnewton.model.transformer import Transformer

__all__ = ["from_transformer", "to_transformer"]


def to_transformer(model: LinearAttention) -> Transformer:
    """Return ``model`` as a ``Transformer`` on raw tokens, with ``pack(A, y, a_test)`` and the output y_hat.

    Raises ValueError for a model with a LayerNorm before its read-out, which no layer of a ``Transformer`` has.
    """
    options, scale, d = model.options, model.options.input_scale, model.d
    if options.final_norm is not None:
        raise ValueError(
            f"final_norm = {options.final_norm:g}: must be None; a Transformer normalises only for its heads"
        )
    one = {"one": 1} if options.constant else {}
    layout = Layout(x=d, y=1, **one, hidden=options.width, y_hat=1)
    hidden = layout["hidden"]
    attention = AttentionOptions(
        average=options.scaling == "keys",
        layer_norm=options.layer_norm,
        query_as_key=options.query_as_key,
        clip=options.clip,
        rows=(hidden.start, hidden.size),
    )
    embed, read_out = model.embed.detach().clone(), model.read_out.detach()[None] / scale
    embed[:, : d + 1] *= scale
    layers = [Layer([], _linear(layout, Block("token", 0, hidden.start), hidden, embed), "embedding")]
    for i, (qkv, out) in enumerate(zip(model.qkv.detach(), _divided(model, model.out.detach()), strict=True)):
        last = i == options.layers - 1
        relu = _linear(layout, hidden, layout["y_hat"], read_out) if last else None
        layers.append(Layer(_heads(layout, options.heads, qkv, out), relu, f"layer {i + 1}", attention))
    return Transformer(layout, layers, _packing(d, one)).to(dtype=model.qkv.dtype, device=model.qkv.device)


def from_transformer(source: Transformer) -> LinearAttention:
    """Return the model that ``to_transformer`` turned into ``source``, its input scale moved into the weights.

    Raises ValueError when ``source`` is none, or was edited into something else.
    """
    try:
        model = _from_transformer(source)
        again = to_transformer(model)
        alike = [layer.options for layer in again.layers] == [layer.options for layer in source.layers]
        pairs = list(zip(again.state_dict().items(), source.state_dict().items(), strict=True))
    except (RuntimeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(f"source must come from a trained model, unedited ({error})") from error
    for (name, ours), (other, theirs) in pairs:
        alike = alike and name == other and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-12)
    if not alike:
        raise ValueError("source computes something else than a model of its size: it must come from one, unedited")
    return model


def _from_transformer(source: Transformer) -> LinearAttention:
    names = [name for name in source.layout.sizes if name != "one"]
    if names != ["x", "y", "hidden", "y_hat"] or source.depth < 2:
        raise ValueError(f"source has the rows {source.layout}: must come from a trained model, x, y, hidden, y_hat")
    hidden, attention, d = source.layout["hidden"], source.layers[1].options, source.layout["x"].size
    options = LinearAttentionOptions(
        layers=source.depth - 1,
        width=hidden.size,
        heads=source.heads,
        query_as_key=attention.query_as_key,
        scaling="keys" if attention.average else "head_size",
        layer_norm=attention.layer_norm,
        clip=attention.clip,
        input_scale=1.0,
        constant="one" in source.layout.sizes,
        init=1.0,
        init_out=1.0,
    )
    model = LinearAttention(options, d, Generator()).to(source.device, source.dtype)
    rows, like = slice(hidden.start, hidden.start + hidden.size), model.out.detach()
    first, last = (relu.weights(like)[0] for relu in (source.layers[0].relu, source.layers[-1].relu) if relu)
    with torch.no_grad():
        model.embed.copy_(first[: hidden.size, : hidden.start])
        model.read_out.copy_(last[0, rows])
        for i, layer in enumerate(source.layers[1:]):
            for j, part in enumerate(("query", "key", "value")):
                model.qkv[i, j] = torch.cat([getattr(head, part).dense(like)[:, rows] for head in layer.heads])
            model.out[i] = torch.cat([head.out.dense(like)[rows] for head in layer.heads], dim=1)
        model.out.div_(_divided(model, torch.ones_like(model.out)))
    return model


def _divided(model: LinearAttention, out: Tensor) -> Tensor:
    """Return ``out`` by the root of the head size, where the model divides by that: a layer has no such option."""
    options = model.options
    return out if options.scaling == "keys" else out * (options.heads / options.width) ** 0.5


def _dense(weight: Tensor) -> Dense:
    return Dense(weight.clone(), trainable=True)


def _linear(layout: Layout, read: Block, written: Block, weight: Tensor) -> ReLU:
    """Return the ReLU layer that adds ``weight`` times the rows ``read`` to the rows ``written``."""
    inner = pad(weight, (read.start, layout.width - read.start - read.size))  # (size of written, rows of H)
    identity = torch.eye(written.size, dtype=weight.dtype, device=weight.device)
    outer = pad(identity, (0, 0, written.start, layout.width - written.start - written.size))
    return ReLU.dense(torch.cat([inner, -inner]), torch.cat([outer, -outer], dim=1), trainable=True)


def _heads(layout: Layout, count: int, qkv: Tensor, out: Tensor) -> list[Head]:
    hidden = layout["hidden"]
    before, after = hidden.start, layout.width - hidden.start - hidden.size
    parts = zip(out.chunk(count, dim=1), *(w.chunk(count) for w in qkv), strict=True)
    heads = []
    for o, *qkv_of_head in parts:
        q, k, v = (_dense(pad(w, (before, after))) for w in qkv_of_head)  # (width / heads, rows of H)
        heads.append(Head(_dense(pad(o, (0, 0, before, after))), v, k, q))
    return heads


def _packing(d: int, ones: Iterable[str]) -> Packing:
    return Packing(
        sizes={"d": d},
        tokens="n",
        inputs=(
            Input(name="A", shape=("n", "d"), block="x", place="transposed"),
            Input(name="y", shape=("n",), block="y", place="row"),
            Input(name="a_test", shape=("d",), block="x", place="query"),
        ),
        constants=dict.fromkeys(ones, "ones"),
        outputs=(Output(name="y_hat", shape=(), block="y_hat", place="query"),),
    )
