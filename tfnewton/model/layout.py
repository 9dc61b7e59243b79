"""Named row blocks of H, and heads written as the product that they compute.

One head of linear attention, eq:att of the paper, adds ``W_V H (W_K H)^T (W_Q H)`` to H. With rows named,

    layout = Layout(X=d, A_T=d, I=d)
    X, A_T, I = layout.blocks
    X.add(-X @ A_T.T @ X)        # X <- X - X A X,  a head with value -X, key A^T and query X

says the same, and the layout turns names into rows. Nothing here computes: these are descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tfnewton.checks import integer, real

__all__ = ["Block", "Layout", "Product", "Rows", "Write", "stack"]


class _Selectable:
    """What blocks and rows have in common: linear combinations, keys, values and queries."""

    @property
    def rows(self) -> Rows:
        raise NotImplementedError

    def __rmul__(self, factor: float) -> Rows:
        factor = real(f"factor of {self}", factor)
        return Rows(tuple(tuple((real(f"factor of {b}", factor * c), b) for c, b in part) for part in self.rows.parts))

    def __neg__(self) -> Rows:
        return -1.0 * self

    def __add__(self, other: Expression) -> Rows:
        mine, theirs = self.rows, other.rows
        if mine.sizes != theirs.sizes:
            raise ValueError(f"cannot add rows of sizes {mine.sizes} and {theirs.sizes}: sizes must agree")
        return Rows(tuple(p + q for p, q in zip(mine.parts, theirs.parts, strict=True)))

    def __sub__(self, other: Expression) -> Rows:
        return self + (-other)

    @property
    def T(self) -> Key:
        """These rows as the key of a head: the middle factor of ``value @ key.T @ query``."""
        return Key(self.rows)

    def __matmul__(self, key: Key) -> Association:
        if not isinstance(key, Key):  # rows have .rows too: `X @ A @ Y` would pass for `X @ A.T @ Y`
            raise TypeError(f"cannot multiply {self} by {key}: a head is value @ key.T @ query")
        return Association(self.rows, key.rows)


@dataclass(frozen=True)
class Block(_Selectable):
    """A named run of rows of H; ``block[i]`` and ``block[i:j]`` are some of its rows."""

    name: str
    start: int
    size: int

    @property
    def rows(self) -> Rows:
        return Rows((((1.0, self),),))

    def __getitem__(self, index: int | slice) -> Block:
        chosen = range(self.size)[index if isinstance(index, slice) else slice(index, index + 1 or None)]
        if len(chosen) == 0 or chosen.step != 1:
            raise IndexError(f"{self.name}[{index}]: must select at least one of its {self.size} rows, in order")
        text = f"{index}" if isinstance(index, int) else f"{chosen.start}:{chosen.stop}"
        return Block(f"{self.name}[{text}]", self.start + chosen.start, len(chosen))

    def add(self, product: Product) -> Write:
        """This block plus ``product``: the residual update of one head."""
        if not isinstance(product, Product):
            raise TypeError(f"{self.name}.add: must be value @ key.T @ query, got {product}")
        if product.value.size != self.size:
            raise ValueError(f"{self.name} has {self.size} rows, the value {product.value} has {product.value.size}")
        return Write(self, product)

    def __str__(self) -> str:
        return self.name


Terms: TypeAlias = tuple[tuple[float, Block], ...]


@dataclass(frozen=True)
class Rows(_Selectable):
    """Stacked linear combinations of blocks: part after part, each a sum of coefficient times block."""

    parts: tuple[Terms, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if len({block.size for _, block in part}) != 1:
                raise ValueError(f"cannot add blocks of different sizes: {[str(block) for _, block in part]}")

    @property
    def rows(self) -> Rows:
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(part[0][1].size for part in self.parts)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def __str__(self) -> str:
        parts = ["".join(_signed(c, block) for c, block in part).removeprefix("+") for part in self.parts]
        return parts[0] if len(parts) == 1 else f"({'; '.join(parts)})"


def _signed(coefficient: float, block: Block) -> str:
    size = "" if abs(coefficient) == 1.0 else f"{abs(coefficient):.4g} "
    return f"{'-' if coefficient < 0 else '+'}{size}{block}"


Expression: TypeAlias = Block | Rows


def stack(*rows: Expression) -> Rows:
    """Stack rows on top of one another: a key or a query that joins two products in one head."""
    return Rows(tuple(part for entry in rows for part in entry.rows.parts))


@dataclass(frozen=True)
class Key:
    """Transposed rows, waiting for a value on the left and a query on the right."""

    rows: Rows


@dataclass(frozen=True)
class Association:
    """``value @ key.T``: a head that lacks its query."""

    value: Rows
    key: Rows

    def __matmul__(self, query: Expression) -> Product:
        if not isinstance(query, _Selectable):
            raise TypeError(f"cannot multiply {self.value} @ {self.key}.T by {query}: a head is value @ key.T @ query")
        if self.key.size != query.rows.size:
            raise ValueError(f"key {self.key} has {self.key.size} rows, query {query} has {query.rows.size}")
        return Product(self.value, self.key, query.rows)


@dataclass(frozen=True)
class Product:
    """``value @ key.T @ query``, the whole of one head."""

    value: Rows
    key: Rows
    query: Rows

    def __str__(self) -> str:
        return f"{self.value} · {self.key}^T · {self.query}"


@dataclass(frozen=True)
class Write:
    """``target <- target + product``."""

    target: Block
    product: Product

    def __str__(self) -> str:
        return f"{self.target} += {self.product}"


class Layout:
    """The named row blocks of H, top to bottom: ``Layout(X=d, A_T=d, I=d)``.

    Raises TypeError or ValueError for a size that is not a positive integer.
    """

    def __init__(self, **sizes: int) -> None:
        if not sizes:
            raise ValueError("a layout needs at least one block")
        start, blocks = 0, []
        for name, size in sizes.items():
            blocks.append(Block(name, start, integer(f"size of block {name}", size, minimum=1)))
            start += size
        self.blocks: tuple[Block, ...] = tuple(blocks)
        self.width: int = start

    def __getitem__(self, name: str) -> Block:
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(f"no block {name!r}: the blocks are {', '.join(self.sizes)}")

    @property
    def sizes(self) -> dict[str, int]:
        """Rows of each block, in order."""
        return {block.name: block.size for block in self.blocks}

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"
