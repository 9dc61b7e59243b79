"""Linear self-attention, with or without LayerNorm, as trained in section 6.

It reads one prompt as n tokens (x_i, y_i) and a query token (x_query, 0), embedded in ``width`` rows by a learned
matrix, and predicts with a learned read-out of what the query token holds after the last layer.
``conversion.to_transformer`` makes the package's ``Transformer`` with the same function of it.

**The Gram form.** Without LayerNorm, of either kind, and clipping, H = T^T Z all along, where Z (d + 1, n + 1) are the
tokens and T (d + 1, width) depends on them only through G = Z_k Z_k^T / (number of keys), Z_k being the tokens that are
keys. For if H = T^T Z, then V H_k (K H_k)^T Q H = (V T^T) G (K T^T)^T Q T^T Z: again a matrix times Z. So d + 1 columns
do the work of n + 1 tokens, exactly.
With LayerNorm, this holds for what the first layer adds. Of the last layer only what the prediction reads is computed:
one query, and one combination of the rows of the output; a LayerNorm before the read-out needs all rows of that query.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor, nn
from torch.nn import functional

from tfnewton.checks import integer
from tfnewton.learning.tasks import LinearPrompts, Record

__all__ = ["LinearAttention", "LinearAttentionOptions"]


class LinearAttentionOptions(Record):
    """Options of ``LinearAttention``.

    Args:
        layers, width, heads: ``width`` must be a multiple of ``heads``.
        query_as_key: whether the query token is among the keys and values.
        scaling: "keys" divides by their number, "head_size" by the root of width / heads.
        layer_norm: epsilon of a LayerNorm, without gain or bias, on what the heads read; None for no LayerNorm.
        clip: bound on the activations after each layer; None for no bound.
        input_scale: factor on x and y; the prediction is divided by it.
        final_norm: epsilon of a LayerNorm, without gain or bias, on what the read-out reads; None for none.
        constant: whether a token is (x, y, 1). LayerNorm hides the length of a token unless it holds a constant.
        init, init_out: standard deviations of the weights of queries, keys and values, and of the heads' output.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=2)] = 64
    heads: Annotated[int, Field(ge=1)] = 4
    query_as_key: bool = True
    scaling: Literal["keys", "head_size"] = "keys"
    layer_norm: Annotated[float, Field(gt=0.0)] | None = None
    final_norm: Annotated[float, Field(gt=0.0)] | None = None
    clip: Annotated[float, Field(gt=0.0)] | None = None
    input_scale: Annotated[float, Field(gt=0.0)] = 0.1
    constant: bool = False
    init: Annotated[float, Field(gt=0.0)]
    init_out: Annotated[float, Field(gt=0.0)]

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width}: must be a multiple of heads = {self.heads}")
        return self


class LinearAttention(nn.Module):
    """Linear self-attention on prompts of linear regression in ``d`` dimensions.

    Weights: ``embed`` (width, rows), for tokens of rows = d + 1 entries, or d + 2 with the constant;
    ``qkv`` (layers, 3, width, width), with the heads' rows of W_Q, W_K and W_V below one another;
    ``out`` (layers, width, width), with the heads' columns side by side; ``read_out`` (width,).
    """

    def __init__(self, options: LinearAttentionOptions, d: int, source: Generator) -> None:
        super().__init__()
        integer("d", d, minimum=1)
        self.options, self.d = options, d
        L, D = options.layers, options.width
        embed = torch.randn(D, d + 1, generator=source) / math.sqrt(D)
        self.embed = nn.Parameter(functional.pad(embed, (0, int(options.constant))))  # that of the constant is zero
        self.qkv = nn.Parameter(options.init * torch.randn(L, 3, D, D, generator=source))
        self.out = nn.Parameter(options.init_out * torch.randn(L, D, D, generator=source))
        self.read_out = nn.Parameter(torch.randn(D, generator=source) / math.sqrt(D))

    def forward(self, prompts: LinearPrompts) -> Tensor:
        """Return the predictions for the query points, (B,)."""
        scale = self.options.input_scale
        tokens = scale * torch.cat([prompts.x, prompts.y.unsqueeze(-1)], dim=-1)  # (B, n, d + 1)
        query = scale * functional.pad(prompts.x_query, (0, 1))  # (B, d + 1)
        tokens = torch.cat([tokens, query.unsqueeze(1)], dim=1)  # (B, n + 1, d + 1)
        if self.options.constant:
            tokens = functional.pad(tokens, (0, 1), value=1.0)
        exact = self.options.layer_norm is None and self.options.final_norm is None and self.options.clip is None
        return (self._by_gram if exact else self._by_tokens)(tokens) / scale

    def _by_gram(self, tokens: Tensor) -> Tensor:
        gram = self._gram(tokens)
        T = self.embed.mT.unsqueeze(0)  # (1, rows, width)
        *inner, (qkv, out) = zip(self.qkv.unbind(0), self.out.unbind(0), strict=True)
        for weights, projection in inner:  # T has a batch axis of one in the first layer
            T = T + self._update(T, gram, weights, projection)
        query = (tokens[:, -1:] @ T).squeeze(1)  # (B, width)
        scores, values = self._last(T, query, qkv, self.read_out @ out)
        return (scores * (gram @ values)).sum(dim=(1, 2)) + query @ self.read_out

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
        h = (tokens @ self.embed.mT).to(tokens.dtype)  # (B, n + 1, width)
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
        query, read = h[:, -1], self._normalised(h)
        if self.options.clip is not None or self.options.final_norm is not None:  # these act on all rows of the query
            scores, values = self._last(read[:, :count], read[:, -1], qkv, out)
            h = self._clipped(query + torch.einsum("bih,bihr->br", scores, values) / divisor)
            return (self._finally_normalised(h) * self.read_out).sum(dim=1)
        scores, values = self._last(read[:, :count], read[:, -1], qkv, self.read_out @ out)
        return (scores * values).sum(dim=(1, 2)) / divisor + (query * self.read_out).sum(dim=1)

    def _first_read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return Z, (B, n + 1, rows), and T, (1, rows, width), with T^T Z what the heads of the first layer read.

        LayerNorm takes its mean from T, and divides each token by its deviation.
        """
        T, epsilon = self.embed.mT, self.options.layer_norm
        if epsilon is None:
            return tokens, T.unsqueeze(0)
        T = T - T.mean(dim=1, keepdim=True)
        with torch.autocast(tokens.device.type, enabled=False):
            variance = (tokens @ (T @ T.mT) * tokens).sum(dim=-1, keepdim=True) / self.options.width
        return tokens * torch.rsqrt(variance.clamp(min=0.0) + epsilon), T.unsqueeze(0)

    def _last(self, keys: Tensor, query: Tensor, qkv: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Return each head's scores of the query, (B, keys, heads), and values times ``out``, (B, keys, heads, ...).

        ``out`` has its heads side by side in its last axis.
        """
        by_head = (self.options.heads, -1)
        Wq, Wk, Wv = (weights.view(*by_head, weights.shape[-1]) for weights in qkv)  # (heads, width / heads, width)
        q = torch.einsum("bi,hji->bhj", query, Wq)
        weights = torch.einsum("...hj,hji->ih...", out.view(*out.shape[:-1], *by_head), Wv)  # (width, heads, ...)
        values = (keys @ weights.flatten(1)).view(*keys.shape[:2], *weights.shape[1:])
        return keys @ torch.einsum("bhj,hji->bih", q, Wk), values

    def _keys(self, tokens: Tensor) -> int:
        return tokens.shape[1] - (not self.options.query_as_key)

    def _divisor(self, keys: int) -> float:
        return math.sqrt(self.options.width / self.options.heads) if self.options.scaling == "head_size" else keys

    def _normalised(self, h: Tensor) -> Tensor:
        epsilon, device = self.options.layer_norm, h.device.type
        if torch.is_autocast_enabled(device):  # products are to be in low precision: so may be what they read
            h = h.to(torch.get_autocast_dtype(device))
        return h if epsilon is None else functional.layer_norm(h, h.shape[-1:], eps=epsilon)

    def _finally_normalised(self, h: Tensor) -> Tensor:
        epsilon = self.options.final_norm
        return h if epsilon is None else functional.layer_norm(h, h.shape[-1:], eps=epsilon)

    def _clipped(self, h: Tensor) -> Tensor:
        bound = self.options.clip
        return h if bound is None else h.clamp(-bound, bound)
