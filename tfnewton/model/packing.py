"""Input and output formats: how named arrays become the rows of H and come back, shapes and ranges checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from tfnewton.checks import Array, batch, boolean, choice, integer, like, real, tensor
from tfnewton.model.layout import Layout
from tfnewton.scaling import admissible_step, normal_exponent, normal_matrix, times_two_to

__all__ = ["Input", "Output", "Packing", "StepBound"]


@dataclass(frozen=True)
class StepBound:
    """A step size that the data must admit: ``step * lambda_max(A^T A + ridge I)^power < 2``."""

    name: str
    step: float
    power: int
    ridge: float = 0.0

    def __post_init__(self) -> None:
        real(self.name, self.step, above=0.0)
        integer("power", self.power, minimum=1)
        real("ridge", self.ridge, minimum=0.0)

    def check(self, A: Tensor) -> None:
        k, matrix = normal_exponent(A, self.ridge), f"A^T A + {self.ridge:g} I" if self.ridge else "A^T A"
        R = normal_matrix(times_two_to(A, -k, 2), self.ridge, k)
        admissible_step(self.name, self.step, R, k, self.power, matrix)


@dataclass(frozen=True)
class Input:
    """One input: its name, its axes, the block that it fills and how it lies there.

    ``matrix`` and ``transposed`` fill the leading tokens, ``row`` lays a vector along them and ``repeated``
    puts the same column at every token. What is left of the block is zero. An input may have to be symmetric,
    to hold ``allowed`` values only, to have rows (a vector: itself) of Euclidean norm up to ``largest_norm``,
    or to admit a step size.
    """

    name: str
    shape: tuple[str, ...]
    block: str
    place: Literal["matrix", "transposed", "row", "repeated", "query"]
    default: float | None = None
    symmetric: bool = False
    allowed: tuple[float, ...] | None = None
    largest_norm: float | None = None
    step: StepBound | None = None

    def __post_init__(self) -> None:
        choice(f"place of {self.name}", self.place, list(_AXES))
        if len(self.shape) not in _AXES[self.place]:
            raise ValueError(f"{self.name} has {len(self.shape)} axes: cannot lie as {self.place!r}")
        boolean(f"symmetric of {self.name}", self.symmetric)
        for value in (self.default, *(self.allowed or ())):
            if value is not None:
                real(f"value of {self.name}", value)
        if self.largest_norm is not None:
            real(f"largest norm of {self.name}", self.largest_norm, above=0.0)

    def check(self, value: Tensor) -> None:
        if self.allowed is not None:
            self._check_allowed(value, self.allowed)
        if self.largest_norm is not None:
            self._check_norm(value, self.largest_norm)
        if self.step is not None:
            self.step.check(value)
        if self.symmetric:
            skew = (value - value.mT).abs().amax(dim=(-2, -1))  # each matrix of a batch by its own size
            if (skew > 1e3 * torch.finfo(value.dtype).eps * value.abs().amax(dim=(-2, -1))).any():
                raise ValueError(f"{self.name} is not symmetric (largest difference {skew.max():.3g}): it must be")

    def _check_allowed(self, value: Tensor, allowed: tuple[float, ...]) -> None:
        foreign = ~torch.isin(value, torch.tensor(allowed, dtype=value.dtype, device=value.device))
        if foreign.any():
            first = tuple(foreign.nonzero()[0].tolist())
            listed = ", ".join(f"{v:g}" for v in allowed)
            raise ValueError(f"{self.name}{list(first)} = {value[first].item():g}: must be one of {listed}")

    def _check_norm(self, value: Tensor, largest: float) -> None:
        norms = torch.linalg.vector_norm(value, dim=-1)
        norm = norms.max().item()
        if norm > largest * (1.0 + 8.0 * torch.finfo(value.dtype).eps):
            where = f" in row {int(norms.argmax()) % value.shape[-2]}" if len(self.shape) == 2 else ""
            remedy = f": divide {self.name} by {norm:.6g}" if len(self.shape) == 2 else ""
            raise ValueError(f"{self.name} has norm {norm:.6g}{where}, at most {largest:.6g} is allowed{remedy}")


@dataclass(frozen=True)
class Output:
    """One output: its name, its axes and where it lies: a leading matrix, row or column, or the first or last entry."""

    name: str
    shape: tuple[str, ...]
    block: str
    place: Literal["matrix", "row", "column", "scalar", "query"]

    def __post_init__(self) -> None:
        choice(f"place of {self.name}", self.place, list(_ENDS))
        if len(self.shape) != _ENDS[self.place]:
            raise ValueError(f"{self.name} has {len(self.shape)} axes: cannot lie as {self.place!r}")


_AXES = {"matrix": (2,), "transposed": (1, 2), "row": (1,), "repeated": (1,), "query": (1,)}  # of an input so placed
_ENDS = {"matrix": 2, "row": 1, "column": 1, "scalar": 0, "query": 0}  # axes of an output so placed

Constant: TypeAlias = Literal["identity", "ones", "mean"]  # mean: 1/n at the first token


@dataclass(frozen=True)
class Packing:
    """The format of a construction: inputs, constant blocks (all others start at zero) and outputs.

    ``sizes`` fixes letters such as d; ``tokens`` is the letter that counts the tokens, to which an input placed
    at ``query`` adds one, the last.
    """

    sizes: dict[str, int]
    tokens: str
    inputs: tuple[Input, ...]
    constants: dict[str, Constant]
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        for letter, size in self.sizes.items():
            integer(f"size {letter}", size, minimum=1)
        for name, constant in self.constants.items():
            choice(f"constant of {name}", constant, ("identity", "ones", "mean"))
        letters = {letter for entry in self.inputs for letter in entry.shape} | set(self.sizes)
        unknown = {letter for out in self.outputs for letter in out.shape} | {self.tokens}
        if not unknown <= letters:
            raise ValueError(f"no input has the size {', '.join(sorted(unknown - letters))}")

    def check(self, layout: Layout) -> None:
        """Refuse, by ValueError, a format that fills or reads blocks which ``layout`` does not have."""
        named = {*(i.block for i in self.inputs), *(o.block for o in self.outputs), *self.constants}
        unknown = named - set(layout.sizes)
        if unknown:
            raise ValueError(f"the input format fills the blocks {', '.join(sorted(unknown))}, which are not there")
        for entry in self.inputs:
            rows = 1 if entry.place == "row" else self.sizes.get(entry.shape[-1 if entry.place == "transposed" else 0])
            if rows is not None and rows != layout[entry.block].size:
                raise ValueError(
                    f"{entry.name} fills {rows} rows of {entry.block}, which has {layout[entry.block].size}"
                )

    def least_tokens(self, layout: Layout) -> int:
        """Return the fewest tokens of an H: an identity block needs as many as it has rows."""
        return max((layout[name].size for name, kind in self.constants.items() if kind == "identity"), default=1)

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
                value = given[entry.name]
                values[entry.name] = tensor(entry.name, value, entry.shape, sizes, dtype=dtype, device=device)
        self._check_tokens(layout, sizes)
        for entry in self.inputs:
            if entry.name in values:
                entry.check(values[entry.name])
        leading = {e.name: values[e.name].shape[: -len(e.shape)] for e in self.inputs if e.name in values}
        n = sizes[self.tokens] + any(entry.place == "query" for entry in self.inputs)
        H = torch.zeros(*batch(**leading), layout.width, n, dtype=dtype, device=device)
        for name, constant in self.constants.items():
            _fill_constant(_rows(layout, H, name), constant)
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
        n, needed = sizes[self.tokens], self.least_tokens(layout)
        if n < needed:
            raise ValueError(f"{self.tokens} = {n}: must be at least d = {needed}, the identity block needs d tokens")

    def unpack(self, layout: Layout, H: Array) -> dict[str, Array]:
        """Return the outputs held in H, of the kind of H."""
        return {out.name: _read(_rows(layout, H, out.block), out, self.sizes) for out in self.outputs}


def _rows(layout: Layout, H: Any, name: str) -> Any:
    block = layout[name]
    return H[..., block.start : block.start + block.size, :]


def _fill_constant(rows: Tensor, constant: Constant) -> None:
    if constant == "identity":
        rows.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    elif constant == "ones":
        rows.fill_(1.0)
    else:
        rows[..., 0] = 1.0 / rows.shape[-1]


def _fill(rows: Tensor, entry: Input, value: Tensor | None) -> None:
    if value is None:
        rows.fill_(entry.default or 0.0)
    elif entry.place == "repeated":
        rows.copy_(value.unsqueeze(-1))
    elif entry.place == "query":
        rows[..., -1] = value
    else:
        laid = {"matrix": value, "transposed": value.mT if value.ndim > 1 else value, "row": value.unsqueeze(-2)}
        block = laid[entry.place]
        rows[..., : block.shape[-1]] = block


def _read(rows: Array, out: Output, sizes: dict[str, int]) -> Array:
    if out.place == "scalar":
        return rows[..., 0, 0]
    if out.place == "query":
        return rows[..., 0, -1]
    if out.place == "column":
        return rows[..., :, 0]
    if out.place == "row":
        return rows[..., 0, : sizes[out.shape[0]]]
    return rows[..., : sizes[out.shape[1]]]
