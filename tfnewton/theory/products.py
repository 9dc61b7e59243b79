"""How few matrix products evaluate I + E + ... + E^(p-1), the sum in a step of order p of Newton's iteration.

A step multiplies A X for E = I - A X, then powers and factors of the sum, then X times the sum. Products are counted,
sums and multiples are free. ``scheme`` gives a way for each order up to 20, ``products_needed`` what no way goes below;
the two agree. Outside this count are steps that multiply by X or A in between.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, count

from tfnewton.checks import integer
from tfnewton.theory.straight_lines import Scheme, Sum, close, inside, multiply, start, total

__all__ = ["LARGEST_ORDER", "completed_square", "products_needed", "reachable_degrees", "scheme"]

LARGEST_ORDER = 20
_ONE = Fraction(1)


@cache
def scheme(order: int) -> Scheme:
    """Return a scheme with as few products as any has for this order, from 2 to 20; see ``products_needed``.

    Its coefficients are rational and the sum is exact; except at order 19, where they are algebraic numbers, here to 40
    digits, and the sum has each coefficient one to 1e-35.

    Raises TypeError or ValueError for another order.
    """
    if integer("order", order, minimum=2) > LARGEST_ORDER:
        raise ValueError(f"order = {order}: must be at most {LARGEST_ORDER}")
    found = [_BY_HAND[order]()] if order in _BY_HAND else []
    if order % 4 == 1:
        found.append(close(completed_square([_ONE] * order)[0]))
    found += [_twice(scheme(p), scheme(order // p)) for p in range(2, order // 2 + 1) if order % p == 0]
    return min(found, key=lambda candidate: candidate.products)


# no fewer


@cache
def reachable_degrees(products: int) -> frozenset[int]:
    """Return the degrees that polynomials in E can have when they take this many products, from 0 to 6.

    Found by trying all. The combinations of I, E and k products have at most k + 2 different degrees. One more product
    adds one more: the sum of two of them or, if that is there already, a lower one, where leading terms cancel. Degrees
    that are not returned are impossible; those that are, may be.

    Raises TypeError or ValueError for another number.
    """
    if integer("products", products, minimum=0) > 6:
        raise ValueError(f"products = {products}: must be at most 6")
    return frozenset[int]().union(*_degrees(products))


@cache
def _degrees(products: int) -> frozenset[frozenset[int]]:
    if products == 0:
        return frozenset({frozenset({0, 1})})
    before = _degrees(products - 1)
    after = set(before)
    for degrees in before:
        for reached in {a + b for a, b in combinations_with_replacement(degrees, 2)}:
            after |= {degrees | {new} for new in (range(reached) if reached in degrees else [reached])}
    return frozenset(after)


def products_needed(order: int) -> int:
    """Return a number of products below which no step of this order goes, for orders from 2 to 65.

    It is two more than the least m with order - 1 among ``reachable_degrees(m)``. For order 2^m + 1 with m >= 4 it is
    one more again: there every product would have to double the degree, and the sum is too far from a square.

    Raises TypeError or ValueError for another order.
    """
    if integer("order", order, minimum=2) > 65:
        raise ValueError(f"order = {order}: must be at most 65")
    least = next(m for m in count() if order - 1 in reachable_degrees(m))
    return 2 + least + (least >= 4 and order == 2**least + 1)


# so few


def completed_square(wanted: list[Fraction], free: Fraction | None = None) -> tuple[Sum, list[Sum], Sum]:
    """Return a monic polynomial of degree 4r in r + 1 products; also I, E, ..., E^r, and y of degree 2r, on its way.

    It is (y + w + v)(y + w - v) + t y + rest, with y = E^r (E^r + ...) and v, w, rest of degree r: y + w is the square
    root of ``wanted`` down to the power one, and v is such that t y - v^2 + rest is what the square leaves. All
    coefficients are rational functions of those of ``wanted``, lowest power first, and of the leading one of v, which
    is ``free``; by default that of w, so that y + w - v has no power r.

    Raises ValueError if the degree is no positive multiple of four, the polynomial is not monic, or free = 0.
    """
    r, remainder = divmod(len(wanted) - 1, 4)
    if remainder or r < 1 or wanted[-1] != 1:
        raise ValueError(f"wanted has degree {len(wanted) - 1}: must be monic, of degree 4, 8, 12, ...")
    if free == 0:
        raise ValueError("free = 0: must not be zero")
    root = [Fraction(0)] * (2 * r) + [_ONE]
    for k in range(1, 2 * r):
        root[2 * r - k] = (wanted[4 * r - k] - multiply(root, root)[4 * r - k]) / 2
    left = [a - b for a, b in zip(wanted, multiply(root, root), strict=True)]
    v = [Fraction(0)] * r + [free or root[r] or _ONE]
    t = left[2 * r] + v[r] ** 2
    for j in range(1, r):
        v[r - j] = (t * root[2 * r - j] - left[2 * r - j] - multiply(v, v)[2 * r - j]) / (2 * v[r])
    powers = list(start())
    while len(powers) <= r:
        powers.append(powers[-1] @ powers[1])
    y = powers[r] @ total([Fraction(0), *root[r + 1 :]], powers)
    w = root[: r + 1]
    square = (y + total([a + b for a, b in zip(w, v, strict=True)], powers)) @ (
        y + total([a - b for a, b in zip(w, v, strict=True)], powers)
    )
    rest = total([a + b for a, b in zip(left[: r + 1], multiply(v, v), strict=False)], powers)
    return square + t * y + rest, powers, y


def _twice(first: Scheme, second: Scheme) -> Scheme:
    """Return two steps as one: with S the first sum and E^p = I - (I - E) S, it is S times the second sum at E^p."""
    one, E = start()
    S = inside(first, one, E)
    power = one + (E - one) @ S
    return close(S @ inside(second, one, power))


def _two() -> Scheme:
    one, E = start()
    return close(one + E)


def _three() -> Scheme:
    one, E = start()
    return close(one + E + E @ E)


def _seven() -> Scheme:
    one, E = start()
    E2 = E @ E
    E4 = E2 @ E2
    return close(one + (E + E2) @ (one + E2 + E4))


def _eleven() -> Scheme:
    one, E = start()
    E2 = E @ E
    return close(one + (E + E2) @ inside(scheme(5), one, E2))


def _sixteen() -> Scheme:
    thirteen, (one, E, E2, E3), _ = completed_square([_ONE] * 13)
    return close(E3 @ thirteen + E2 + E + one)


def _nineteen() -> Scheme:
    """Return a quotient of degree 12, times the divisor below, plus a remainder: no power 5 and no power 4 is in it.

    The divisor's leading coefficients 1, 1/3, 2/9 make the y of the quotient its own.
    """
    divisor = [*_DIVISOR, Fraction(2, 9), Fraction(1, 3), _ONE]
    rest, quotient = [_ONE] * 19, [Fraction(0)] * 13
    for k in reversed(range(13)):
        quotient[k] = rest[k + 6]
        for i, c in enumerate(divisor):
            rest[k + i] -= quotient[k] * c
    value, powers, y = completed_square(quotient)
    return close(value @ (y + total(_DIVISOR, powers)) + total(rest, powers))


_DIVISOR = [  # lowest power first
    Fraction("0.0577589800283122931392050955720278545743625"),
    Fraction("0.5889286764388199913850676167791688464298148"),
    Fraction(1, 2),
    Fraction(-1, 2),
]
_BY_HAND: dict[int, Callable[[], Scheme]] = {
    2: _two,
    3: _three,
    7: _seven,
    11: _eleven,
    16: _sixteen,
    19: _nineteen,
}
