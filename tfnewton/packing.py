"""Input and output formats: how named arrays become the rows of H and come back, shapes and ranges checked."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from tfnewton.checks import Array, like, tensor
from tfnewton.layout import Layout

__all__ = ["Input", "Output", "Packing", "StepBound"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StepBound(_Record):
    """A step size that the data must admit: ``step * lambda_max(A^T A + ridge I)^power < 2``."""

    name: str
    step: float
    power: int
    ridge: float = 0.0

    def check(self, A: Tensor) -> None:
        gram = torch.linalg.eigvalsh(A.mT.double() @ A.double())[..., -1].max().item() + self.ridge
        limit = 2.0 / gram**self.power if gram > 0 else math.inf
        if not self.step < limit:
            matrix = "A^T A" if self.ridge == 0.0 else f"A^T A + {self.ridge:g} I"
            power = "" if self.power == 1 else f"^{self.power}"
            raise ValueError(
                f"{self.name} = {self.step:g}: must lie in (0, 2/lambda_max{power}) = (0, {limit:.4g}) for these data, "
                f"whose lambda_max({matrix}) is {gram:.4g}"
            )


class Input(_Record):
    """One input: its name, its axes, the block that it fills and how it lies there.

    ``matrix`` and ``transposed`` fill the leading tokens, ``row`` lays a vector along them and ``repeated``
    puts the same column at every token. What is left of the block is zero.
    """

    name: str
    shape: tuple[str, ...]
    block: str
    place: Literal["matrix", "transposed", "row", "repeated"]
    default: float | None = None
    symmetric: bool = False
    step: StepBound | None = None

    def check(self, value: Tensor) -> None:
        if self.step is not None:
            self.step.check(value)
        if self.symmetric:
            skew = (value - value.mT).abs().max().item()
            if skew > 1e3 * torch.finfo(value.dtype).eps * value.abs().max().item():
                raise ValueError(f"{self.name} is not symmetric (largest difference {skew:.3g}): it must be")


class Output(_Record):
    """One output: its name, its axes and where it lies: a leading matrix, row or column, or the first entry."""

    name: str
    shape: tuple[str, ...]
    block: str
    place: Literal["matrix", "row", "column", "scalar"]


class Packing(_Record):
    """The format of a construction: inputs, constant blocks (all others start at zero) and outputs.

    ``sizes`` fixes letters such as d; ``tokens`` is the letter that counts the tokens.
    """

    sizes: dict[str, int]
    tokens: str
    inputs: tuple[Input, ...]
    constants: dict[str, Literal["identity", "ones"]]
    outputs: tuple[Output, ...]

    def pack(
        self,
        layout: Layout,
        inputs: tuple[object, ...],
        named: dict[str, object],
        dtype: torch.dtype,
        device: torch.device,
    ) -> Array:
        """Return H for these inputs: numpy unless one of them is a tensor."""
        given = self._bind(inputs, named)
        sizes = dict(self.sizes)
        values: dict[str, Tensor] = {}
        for entry in self.inputs:
            if entry.name in given:
                values[entry.name] = tensor(
                    entry.name, given[entry.name], entry.shape, sizes, dtype=dtype, device=device
                )
        self._check_tokens(layout, sizes)
        for entry in self.inputs:
            if entry.name in values:
                entry.check(values[entry.name])
        batch = _batch([(e.name, values[e.name], len(e.shape)) for e in self.inputs if e.name in values])
        H = torch.zeros(*batch, layout.width, sizes[self.tokens], dtype=dtype, device=device)
        for name, constant in self.constants.items():
            rows = _rows(layout, H, name)
            rows.diagonal(dim1=-2, dim2=-1).fill_(1.0) if constant == "identity" else rows.fill_(1.0)
        for entry in self.inputs:
            _fill(_rows(layout, H, entry.block), entry, values.get(entry.name))
        return like(H, *given.values())

    def _bind(self, inputs: tuple[object, ...], named: dict[str, object]) -> dict[str, object]:
        names = [entry.name for entry in self.inputs]
        signature = f"pack({', '.join(names)})"
        if len(inputs) > len(names):
            raise TypeError(f"{signature} takes {len(names)} inputs, {len(inputs)} were given")
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                fault = "is given twice" if name in given else "is not one of its inputs"
                raise TypeError(f"{signature}: {name!r} {fault}")
            given[name] = value
        missing = [entry.name for entry in self.inputs if entry.name not in given and entry.default is None]
        if missing:
            raise TypeError(f"{signature}: {', '.join(missing)} missing")
        return given

    def _check_tokens(self, layout: Layout, sizes: dict[str, int]) -> None:
        n = sizes[self.tokens]
        needed = max((layout[name].size for name, kind in self.constants.items() if kind == "identity"), default=1)
        if n < needed:
            raise ValueError(f"{self.tokens} = {n}: must be at least d = {needed}, the identity block needs d tokens")

    def unpack(self, layout: Layout, H: Array) -> dict[str, Array]:
        """Return the outputs held in H, of the kind of H."""
        return {out.name: _read(H[..., _span(layout, out.block), :], out, self.sizes) for out in self.outputs}


def _span(layout: Layout, name: str) -> slice:
    block = layout[name]
    return slice(block.start, block.start + block.size)


def _rows(layout: Layout, H: Tensor, name: str) -> Tensor:
    return H[..., _span(layout, name), :]


def _batch(values: list[tuple[str, Tensor, int]]) -> tuple[int, ...]:
    shapes = {name: tuple(value.shape)[: value.ndim - axes] for name, value, axes in values}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"batch axes do not agree: {listed}; they must broadcast") from None


def _fill(rows: Tensor, entry: Input, value: Tensor | None) -> None:
    if value is None:
        rows.fill_(entry.default or 0.0)
    elif entry.place == "repeated":
        rows.copy_(value.unsqueeze(-1))
    else:
        laid = {"matrix": value, "transposed": value.mT if value.ndim > 1 else value, "row": value.unsqueeze(-2)}
        block = laid[entry.place]
        rows[..., : block.shape[-1]] = block


def _read(rows: Array, out: Output, sizes: dict[str, int]) -> Array:
    if out.place == "scalar":
        return rows[..., 0, 0]
    if out.place == "column":
        return rows[..., :, 0]
    if out.place == "row":
        return rows[..., 0, : sizes[out.shape[0]]]
    return rows[..., : sizes[out.shape[1]]]
