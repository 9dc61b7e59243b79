"""The encoder of the logistic experiments: pre-LayerNorm blocks of softmax attention over all tokens and a GELU MLP."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor, nn
from torch.nn import functional

from tfnewton.checks import integer
from tfnewton.learning.tasks import LogisticPrompts, Record

__all__ = ["Encoder", "EncoderOptions"]


class EncoderOptions(Record):
    """Options of ``Encoder``.

    Args:
        layers, width, heads: ``width`` must be a multiple of ``heads``.
        mlp: hidden units of the MLP, as a multiple of ``width``.
        input_scale: factor on x in the tokens.
        init: standard deviation of all weights; those that write to the residual are divided by sqrt(2 layers).
    """

    kind: Literal["encoder"] = "encoder"
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)] = 32
    heads: Annotated[int, Field(ge=1)] = 4
    mlp: Annotated[int, Field(ge=1)] = 4
    input_scale: Annotated[float, Field(gt=0.0)] = 0.3
    init: Annotated[float, Field(gt=0.0)] = 0.1

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width}: must be a multiple of heads = {self.heads}")
        return self


class Block(nn.Module):
    """h <- h + attention(LN(h)), then h <- h + MLP(LN(h))."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        D = options.width
        self.heads = options.heads
        self.before_attention, self.before_mlp = nn.LayerNorm(D), nn.LayerNorm(D)
        self.query, self.key_value, self.project = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.widen, self.narrow = nn.Linear(D, options.mlp * D), nn.Linear(options.mlp * D, D)

    def forward(self, h: Tensor, queries: int) -> Tensor:
        """Return the last ``queries`` tokens of h, (B, queries, width), after this block; all of them are keys."""
        source, h = self.before_attention(h), h[:, -queries:]
        q = self._by_head(self.query(source[:, -queries:]))  # (B, heads, queries, width / heads)
        k, v = (self._by_head(part) for part in self.key_value(source).chunk(2, dim=-1))
        attention = torch.softmax(q * q.shape[-1] ** -0.5 @ k.mT, dim=-1)  # (B, heads, queries, tokens)
        h = h + self.project((attention @ v).transpose(1, 2).flatten(2))
        result: Tensor = h + self.narrow(functional.gelu(self.widen(self.before_mlp(h))))
        return result

    def _by_head(self, part: Tensor) -> Tensor:
        return part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)


class Encoder(nn.Module):
    """Reads n tokens (x_i, y_i) and a learned read-out token, from which it predicts the weights of the regression."""

    def __init__(self, options: EncoderOptions, d: int, source: Generator) -> None:
        super().__init__()
        integer("d", d, minimum=1)
        self.options, self.d = options, d
        self.embed = nn.Linear(d + 1, options.width)
        self.read_out = nn.Parameter(torch.empty(options.width))
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.head = nn.Linear(options.width, d)
        for name, parameter in self.named_parameters():
            self._initialise(name, parameter, source)

    def _initialise(self, name: str, parameter: nn.Parameter, source: Generator) -> None:
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif ".before_" in name:
            nn.init.ones_(parameter)
        else:
            residual = name.endswith(("project.weight", "narrow.weight"))
            std = self.options.init / ((2 * self.options.layers) ** 0.5 if residual else 1.0)
            nn.init.normal_(parameter, std=std, generator=source)

    def forward(self, prompts: LogisticPrompts) -> Tensor:
        """Return the predicted weights, (B, d)."""
        tokens = torch.cat([self.options.input_scale * prompts.x, prompts.y.unsqueeze(-1)], dim=-1)  # (B, n, d + 1)
        read_out = self.read_out.expand(len(tokens), 1, -1)
        h = torch.cat([self.embed(tokens), read_out], dim=1)  # (B, n + 1, width)
        last = len(self.blocks) - 1
        for i, block in enumerate(self.blocks):
            h = block(h, 1 if i == last else h.shape[1])  # the prediction reads one token of the last block
        result: Tensor = self.head(h[:, -1])
        return result
