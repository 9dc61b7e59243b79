"""Polynomials in a matrix as products one after another: an algebra in which every multiplication is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import zip_longest
from operator import add
from typing import TypeAlias

import numpy as np

from tfnewton.checks import Array, like, tensor

__all__ = ["Scheme", "Sum", "close", "inside", "multiply", "start", "total"]

Row: TypeAlias = tuple[Fraction, ...]  # a combination of I, E and the products so far; what is missing is zero
Polynomial: TypeAlias = Sequence[Fraction]  # lowest power first


@dataclass(frozen=True)
class Scheme:
    """Products one after another, each of two combinations of I, E and those before; ``result`` combines them all."""

    factors: tuple[tuple[Row, Row], ...]
    result: Row

    @property
    def products(self) -> int:
        """Return the products of a step of Newton's iteration: the sum's, A X before them, X times the sum after."""
        return len(self.factors) + 2

    def coefficients(self) -> tuple[Fraction, ...]:
        """Return the result as a polynomial in E, in rational numbers without rounding, lowest power first."""
        values: list[Polynomial] = [[Fraction(1)], [Fraction(0), Fraction(1)]]
        for left, right in self.factors:
            values.append(multiply(_polynomial(left, values), _polynomial(right, values)))
        found = _polynomial(self.result, values)
        while found[-1] == 0:
            found.pop()
        return tuple(found)

    def __call__(self, E: Array) -> Array:
        """Return the result for E, (d, d), leading batch axes allowed, computed in the precision of E.

        Raises TypeError or ValueError for what is not a finite square matrix.
        """
        M = tensor("E", E, ("d", "d")).numpy()
        values = [np.broadcast_to(np.eye(M.shape[-1], dtype=M.dtype), M.shape), M]
        for left, right in self.factors:
            values.append(_matrix(left, values) @ _matrix(right, values))
        return like(tensor("sum", _matrix(self.result, values), ("d", "d")), E)


class Sum:
    """A combination of I, E and the products of ``line``; ``@`` multiplies, and so adds a product to the line."""

    def __init__(self, line: list[tuple[Row, Row]], row: Row) -> None:
        self.line, self.row = line, row

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.line, tuple(a + b for a, b in zip_longest(self.row, other.row, fillvalue=Fraction(0))))

    def __sub__(self, other: Sum) -> Sum:
        return self + -1 * other

    def __rmul__(self, factor: Fraction | int) -> Sum:
        return Sum(self.line, tuple(factor * c for c in self.row))

    def __matmul__(self, other: Sum) -> Sum:
        self.line.append((self.row, other.row))
        return Sum(self.line, (*[Fraction(0)] * (len(self.line) + 1), Fraction(1)))


def start() -> tuple[Sum, Sum]:
    """Return I and E, of a line that has no products yet."""
    line: list[tuple[Row, Row]] = []
    return Sum(line, (Fraction(1),)), Sum(line, (Fraction(0), Fraction(1)))


def close(result: Sum) -> Scheme:
    """Return the scheme whose products are those of the line so far."""
    return Scheme(tuple(result.line), result.row)


def inside(part: Scheme, one: Sum, E: Sum) -> Sum:
    """Return the result of ``part`` for another E, its products added to the line."""
    values = [one, E]
    for left, right in part.factors:
        values.append(total(left, values) @ total(right, values))
    return total(part.result, values)


def total(coefficients: Polynomial, values: Sequence[Sum]) -> Sum:
    """Return the sum of coefficients times values, as far as both go."""
    terms = [c * value for c, value in zip(coefficients, values, strict=False) if c]
    return reduce(add, terms, Sum(values[0].line, ()))


def multiply(a: Polynomial, b: Polynomial) -> list[Fraction]:
    """Return the product of two polynomials."""
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def _polynomial(row: Row, values: Sequence[Polynomial]) -> list[Fraction]:
    terms = [[c * x for x in value] for c, value in zip(row, values, strict=False)]
    return [sum(column, Fraction(0)) for column in zip_longest(*terms, fillvalue=Fraction(0))]


def _matrix(row: Row, values: Sequence[np.ndarray]) -> np.ndarray:
    terms = [V if c == 1 else float(c) * V for c, V in zip(row, values, strict=False) if c]
    return np.asarray(reduce(add, terms))
