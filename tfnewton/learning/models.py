"""Linear self-attention, with or without LayerNorm, as trained in section 6.

It reads one prompt as n tokens (x_i, y_i) and a query token (x_query, 0) in the first d + 1 of ``width``
rows, and its prediction is what the query token's y row holds after the last layer. A learned embedding of full
column rank would be the same model in another basis. ``LinearAttention.transformer`` is the package's ``Transformer``
with the same function.

**The Gram form.** Without LayerNorm and clipping, H = T^T Z all along, where Z (d + 1, n + 1) are the tokens and
T (d + 1, width) depends on them only through G = Z_k Z_k^T / (number of keys), Z_k being the tokens that are keys.
For if H = T^T Z, then V H_k (K H_k)^T Q H = (V T^T) G (K T^T)^T Q T^T Z: again a matrix times Z. So d + 1 columns do
the work of n + 1 tokens, exactly.
With LayerNorm, this holds for what the first layer adds. Of the last layer only what the prediction reads is computed:
one query, and one row of the output.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor, nn
from torch.nn import functional

from tfnewton.checks import integer
from tfnewton.layers import AttentionOptions, Head, Layer
from tfnewton.layout import Layout
from tfnewton.learning.tasks import LinearPrompts, Record
from tfnewton.maps import Dense
from tfnewton.packing import Input, Output, Packing
from tfnewton.transformer import Transformer

__all__ = ["LinearAttention", "LinearAttentionOptions"]


class LinearAttentionOptions(Record):
    """Options of ``LinearAttention``.

    Args:
        layers, width, heads: ``width`` must be a multiple of ``heads``.
        query_as_key: whether the query token is among the keys and values.
        scaling: "keys" divides by their number, "head_size" by the root of width / heads.
        layer_norm: epsilon of a LayerNorm, without gain or bias, on what the heads read; None for no LayerNorm.
        clip: bound on the activations after each layer; None for no bound.
        input_scale: factor on the tokens; the prediction is divided by it.
        init, init_out: standard deviations of the weights of queries, keys and values, and of the heads' output.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=2)] = 64
    heads: Annotated[int, Field(ge=1)] = 4
    query_as_key: bool = True
    scaling: Literal["keys", "head_size"] = "keys"
    layer_norm: Annotated[float, Field(gt=0.0)] | None = None
    clip: Annotated[float, Field(gt=0.0)] | None = None
    input_scale: Annotated[float, Field(gt=0.0)] = 0.1
    init: Annotated[float, Field(gt=0.0)]
    init_out: Annotated[float, Field(gt=0.0)]

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width}: must be a multiple of heads = {self.heads}")
        return self


class LinearAttention(nn.Module):
    """Linear self-attention on prompts of linear regression in ``d`` dimensions.

    Weights: ``qkv`` (layers, 3, width, width), with the heads' rows of W_Q, W_K and W_V below one another, and
    ``out`` (layers, width, width), with the heads' columns side by side.
    """

    def __init__(self, options: LinearAttentionOptions, d: int, source: Generator) -> None:
        super().__init__()
        integer("d", d, minimum=1)
        if options.width <= d:
            raise ValueError(f"width = {options.width}: must be above d = {d}, to hold x and y")
        self.options, self.d = options, d
        L, D = options.layers, options.width
        self.qkv = nn.Parameter(options.init * torch.randn(L, 3, D, D, generator=source))
        self.out = nn.Parameter(options.init_out * torch.randn(L, D, D, generator=source))

    def forward(self, prompts: LinearPrompts) -> Tensor:
        """Return the predictions for the query points, (B,)."""
        scale = self.options.input_scale
        tokens = scale * torch.cat([prompts.x, prompts.y.unsqueeze(-1)], dim=-1)  # (B, n, d + 1)
        query = scale * functional.pad(prompts.x_query, (0, 1))  # (B, d + 1)
        tokens = torch.cat([tokens, query.unsqueeze(1)], dim=1)  # (B, n + 1, d + 1)
        exact = self.options.layer_norm is None and self.options.clip is None
        return (self._by_gram if exact else self._by_tokens)(tokens) / scale

    def _by_gram(self, tokens: Tensor) -> Tensor:
        gram = self._gram(tokens)
        T = torch.eye(self.d + 1, self.options.width, dtype=gram.dtype, device=gram.device).unsqueeze(0)
        *inner, (qkv, out) = zip(self.qkv.unbind(0), self.out.unbind(0), strict=True)
        for weights, projection in inner:  # T has a batch axis of one in the first layer
            T = T + self._update(T, gram, weights, projection)
        query = (tokens[:, -1:] @ T).squeeze(1)  # (B, width)
        scores, values = self._readout(T, query, qkv, out)
        return (scores * (gram @ values)).sum(dim=(1, 2)) + query[:, self.d]

    def _gram(self, tokens: Tensor) -> Tensor:
        """Return G, (B, rows, rows), for tokens of so many rows."""
        keys = tokens[:, : self._keys(tokens)]
        return keys.mT @ keys / self._divisor(keys.shape[1])

    def _update(self, T: Tensor, gram: Tensor, qkv: Tensor, out: Tensor) -> Tensor:
        """Return what the heads add to T, (B, rows, width), when H = T^T Z."""
        q, k, v = (T @ qkv.flatten(0, 1).mT).chunk(3, dim=-1)
        q, k, v = (self._by_head(part) for part in (q, k, gram @ v))  # (B, heads, rows, width / heads)
        return ((q @ k.mT) @ v).transpose(1, 2).flatten(2) @ out.mT

    def _by_head(self, part: Tensor) -> Tensor:
        return part.view(*part.shape[:2], self.options.heads, -1).transpose(1, 2)

    def _by_tokens(self, tokens: Tensor) -> Tensor:
        count = self._keys(tokens)
        divisor = self._divisor(count)
        h = functional.pad(tokens, (0, self.options.width - tokens.shape[-1]))  # (B, n + 1, width)
        *inner, (qkv, out) = zip(self.qkv.unbind(0), self.out.unbind(0), strict=True)
        for i, (weights, projection) in enumerate(inner):
            if i == 0:  # what the heads read has rank d + 1 still
                read, T = self._first_read(tokens)
                update = read @ self._update(T, self._gram(read), weights, projection)
            else:
                q, k, v = (self._normalised(h) @ weights.flatten(0, 1).mT).chunk(3, dim=-1)
                q, k, v = (self._by_head(part) for part in (q, k, v))  # (B, heads, n + 1, width / heads)
                state = k[:, :, :count].mT @ v[:, :, :count] / divisor  # (B, heads, width / heads, width / heads)
                update = (q @ state).transpose(1, 2).flatten(2) @ projection.mT
            h = self._clipped(h + update.to(h.dtype))  # a sum of two dtypes is four times slower
        read = self._normalised(h)
        scores, values = self._readout(read[:, :count], read[:, -1], qkv, out)
        return self._clipped((scores * values).sum(dim=(1, 2)) / divisor + h[:, -1, self.d])

    def _first_read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return Z, (B, n + 1, d + 1), and T, (1, d + 1, width), with T^T Z what the heads of the first layer read.

        LayerNorm over the width divides each token by its deviation, and its mean leaves every row.
        """
        rows, width, epsilon = self.d + 1, self.options.width, self.options.layer_norm
        T = torch.eye(rows, width, dtype=tokens.dtype, device=tokens.device).unsqueeze(0)
        if epsilon is None:
            return tokens, T
        mean = tokens.sum(dim=-1, keepdim=True) / width  # over the width, whose other rows are zero
        variance = ((tokens - mean).square().sum(dim=-1, keepdim=True) + (width - rows) * mean.square()) / width
        return tokens * torch.rsqrt(variance + epsilon), T - 1.0 / width

    def _readout(self, keys: Tensor, query: Tensor, qkv: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Return each head's scores of the query and values of the y row in the last layer, both (B, keys, heads)."""
        by_head = (self.options.heads, -1)
        Wq, Wk, Wv = (weights.view(*by_head, weights.shape[-1]) for weights in qkv)  # (heads, width / heads, width)
        q = torch.einsum("bi,hji->bhj", query, Wq)
        values = torch.einsum("hj,hji->ih", out[self.d].view(by_head), Wv)
        return keys @ torch.einsum("bhj,hji->bih", q, Wk), keys @ values

    def _keys(self, tokens: Tensor) -> int:
        return tokens.shape[1] - (not self.options.query_as_key)

    def _divisor(self, keys: int) -> float:
        return math.sqrt(self.options.width / self.options.heads) if self.options.scaling == "head_size" else keys

    def _normalised(self, h: Tensor) -> Tensor:
        epsilon, device = self.options.layer_norm, h.device.type
        if torch.is_autocast_enabled(device):  # products are to be in low precision: so may be what they read
            h = h.to(torch.get_autocast_dtype(device))
        return h if epsilon is None else functional.layer_norm(h, h.shape[-1:], eps=epsilon)

    def _clipped(self, h: Tensor) -> Tensor:
        bound = self.options.clip
        return h if bound is None else h.clamp(-bound, bound)

    def transformer(self) -> Transformer:
        """Return the same function as a ``Transformer`` on raw tokens, with ``pack(A, y, a_test)`` and output y_hat.

        The input scale s moves into the weights: eq:TF is cubic in H, so that a factor s on H is a factor s^2 on the
        heads' output; with LayerNorm, which undoes it, 1 / s there and 1 / s^2 on the epsilon.
        """
        options, D, d = self.options, self.options.width, self.d
        s = options.input_scale
        attention = AttentionOptions(
            average=options.scaling == "keys",
            layer_norm=None if options.layer_norm is None else options.layer_norm / s**2,
            query_as_key=options.query_as_key,
            clip=None if options.clip is None else options.clip / s,
        )
        factor = (s**2 if options.layer_norm is None else 1 / s) / (1.0 if attention.average else self._divisor(0))
        spare = {"scratch": D - d - 1} if d + 1 < D else {}
        layers = [
            Layer(self._heads(qkv, factor * out), label=f"layer {i + 1}", options=attention)
            for i, (qkv, out) in enumerate(zip(self.qkv.detach(), self.out.detach(), strict=True))
        ]
        model = Transformer(Layout(x=d, y=1, **spare), layers, _packing(d))
        return model.to(dtype=self.qkv.dtype, device=self.qkv.device)

    @staticmethod
    def from_transformer(source: Transformer) -> LinearAttention:
        """Return the model that ``transformer`` turned into ``source``, its input scale moved into the weights."""
        heads = [layer.heads for layer in source.layers]
        attention = source.layers[0].options
        options = LinearAttentionOptions(
            layers=source.depth,
            width=source.width,
            heads=source.heads,
            query_as_key=attention.query_as_key,
            scaling="keys" if attention.average else "head_size",
            layer_norm=attention.layer_norm,
            clip=attention.clip,
            input_scale=1.0,
            init=1.0,
            init_out=1.0,
        )
        model = LinearAttention(options, source.layout["x"].size, Generator()).to(source.device, source.dtype)
        like = model.out.detach()
        factor = 1.0 if attention.average else model._divisor(0)
        with torch.no_grad():
            for i, layer in enumerate(heads):
                for j, part in enumerate(("query", "key", "value")):
                    model.qkv[i, j] = torch.cat([getattr(head, part).dense(like) for head in layer])
                model.out[i] = factor * torch.cat([head.out.dense(like) for head in layer], dim=1)
        return model

    def _heads(self, qkv: Tensor, out: Tensor) -> list[Head]:
        def dense(weight: Tensor) -> Dense:
            return Dense(weight.clone(), trainable=True)

        count = self.options.heads
        parts = zip(out.chunk(count, dim=1), *(w.chunk(count) for w in qkv), strict=True)
        return [Head(dense(o), dense(v), dense(k), dense(q)) for o, q, k, v in parts]


def _packing(d: int) -> Packing:
    return Packing(
        sizes={"d": d},
        tokens="n",
        inputs=(
            Input(name="A", shape=("n", "d"), block="x", place="transposed"),
            Input(name="y", shape=("n",), block="y", place="row"),
            Input(name="a_test", shape=("d",), block="x", place="query"),
        ),
        constants={},
        outputs=(Output(name="y_hat", shape=(), block="y", place="query"),),
    )
