"""The fewest products of a step: schemes by exact algebra and run, bounds by trying all, and the roots of order 19."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.algorithms import inversion as algorithms
from tfnewton.theory import inversion, products
from tfnewton.theory.straight_lines import Scheme, close, start

ORDERS = range(2, products.LARGEST_ORDER + 1)
LEAST = dict(zip(ORDERS, [2, 3, 4, 4, 5, 5, 6, 5, 6, 6, 7, 6, 7, 7, 7, 7, 7, 7, 8], strict=True))


@pytest.mark.parametrize("order", ORDERS)
def test_each_scheme_is_the_sum_in_the_fewest_products(order: int) -> None:
    scheme = products.scheme(order)
    ones = scheme.coefficients()
    assert len(ones) == order
    error = max(abs(c - 1) for c in ones)
    assert error == 0 or (order == 19 and error < Fraction(1, 10**35))
    assert scheme.products == products.products_needed(order) == LEAST[order]


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 8), rows=st.integers(1, 3))
@settings(deadline=None, max_examples=tries(10))
@pytest.mark.parametrize("order", ORDERS)
def test_run_on_matrices_they_sum_powers_with_as_many_products_as_they_say(
    order: int, seed: int, d: int, rows: int
) -> None:
    E = np.random.default_rng(seed).standard_normal((rows, d, d)) / (2 * d)
    expected = sum(np.linalg.matrix_power(E, k) for k in range(order))
    scheme = products.scheme(order)
    np.testing.assert_allclose(scheme(E), expected, atol=1e-12)
    assert len(scheme.factors) + 2 == scheme.products


@pytest.mark.parametrize("order", ORDERS)
def test_in_float32_and_on_a_residual_near_one(order: int) -> None:
    E = np.diag([0.999, -0.5, 0.0, 1e-3]).astype(np.float32)
    found = products.scheme(order)(E)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    expected = sum(np.linalg.matrix_power(E.astype(float), k) for k in range(order))
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5)


def test_a_step_is_that_of_the_algorithm() -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((6, 6))
    X = algorithms.initial(A, "spectral")
    for order in ORDERS:
        step = X @ products.scheme(order)(np.eye(6) - A @ X)
        np.testing.assert_allclose(step, algorithms.newton_schulz(A, 1, order, X), rtol=1e-10, atol=1e-12)


def test_orders_nine_and_five_as_the_chapter_prints_them() -> None:
    one, E = start()
    q = E @ E
    y = q @ (q + Fraction(1, 2) * E)
    left, right = y + Fraction(3, 4) * q - Fraction(1, 4) * E, y + Fraction(7, 8) * E
    nine = close(left @ right + Fraction(11, 16) * y + Fraction(39, 32) * q + E + one)
    assert nine == products.scheme(9)
    assert nine.products == 5
    one, E = start()
    q = E @ E
    five = close(one + (E + q) @ (one + q))
    assert set(five.coefficients()) == set(products.scheme(5).coefficients()) == {1}
    assert five.products == products.scheme(5).products == 4


@given(free=st.fractions(-4, 4, max_denominator=50).filter(lambda x: x != 0), r=st.integers(1, 5))
@settings(deadline=None, max_examples=tries(30))
def test_squares_are_completed_with_every_free_coefficient(free: Fraction, r: int) -> None:
    value = close(products.completed_square([Fraction(1)] * (4 * r + 1), free)[0])
    assert value.coefficients() == (1,) * (4 * r + 1)
    assert value.products == r + 3


@given(st.lists(st.fractions(-3, 3, max_denominator=9), min_size=12, max_size=12))
@settings(deadline=None, max_examples=tries(30))
def test_squares_are_completed_for_every_monic_polynomial(lower: list[Fraction]) -> None:
    wanted = [*lower, Fraction(1)]
    assert list(close(products.completed_square(wanted)[0]).coefficients()) == wanted


Surd = tuple[Fraction, Fraction]  # a + b sqrt(22)


def times(x: list[Surd], y: list[Surd]) -> list[Surd]:
    result = [(Fraction(0), Fraction(0))] * (len(x) + len(y) - 1)
    for (i, (a, b)), (j, (c, d)) in product(enumerate(x), enumerate(y)):
        result[i + j] = (result[i + j][0] + a * c + 22 * b * d, result[i + j][1] + a * d + b * c)
    return result


def test_the_scheme_with_the_root_of_22_is_one_of_the_family() -> None:
    """(y + (3/4 - e) q + (5/8) E)(y + e q) + (2 - 5e/4) y + q + E + I with e = (sqrt 22 - 1)/4, exactly."""
    e = (Fraction(-1, 4), Fraction(1, 4))
    zero, one = (Fraction(0), Fraction(0)), (Fraction(1), Fraction(0))
    half = (Fraction(1, 2), Fraction(0))
    y = [zero, zero, zero, half, one]
    left = [zero, (Fraction(5, 8), Fraction(0)), (Fraction(3, 4) - e[0], -e[1]), half, one]
    right = [zero, zero, e, half, one]
    total = times(left, right)
    for k, c in enumerate(times([(2 - 5 * e[0] / 4, -5 * e[1] / 4)], y)):
        total[k] = (total[k][0] + c[0], total[k][1] + c[1])
    for k in range(3):
        total[k] = (total[k][0] + 1, total[k][1])
    assert total == [one] * 9


def test_two_steps_are_never_dearer_than_their_schemes_together() -> None:
    for p in range(2, 11):
        for q in range(2, products.LARGEST_ORDER // p + 1):
            together = products.scheme(p).products + products.scheme(q).products
            assert products.scheme(p * q).products <= together


# no fewer


def test_no_random_line_of_products_has_another_degree() -> None:
    """Over the field of three elements, where leading terms cancel often."""
    rng = np.random.default_rng(11)
    seen: dict[int, set[int]] = {m: set() for m in range(1, 6)}
    for _ in range(400):
        values = [np.array([1]), np.array([0, 1])]
        for m in seen:
            left, right = (combination(rng.integers(3, size=len(values)), values) for _ in range(2))
            values.append(np.convolve(left, right) % 3)
            result = combination(rng.integers(3, size=len(values)), values)
            seen[m] |= {len(np.trim_zeros(of, "b")) - 1 for of in (result, values[-1]) if of.any()}
    assert all(seen[m] <= products.reachable_degrees(m) for m in seen)
    assert seen[3] == products.reachable_degrees(3)


def combination(coefficients: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    total = np.zeros(max(map(len, values)), dtype=int)
    for c, value in zip(coefficients, values, strict=True):
        total[: len(value)] += c * value
    return total % 3


def test_degrees_of_few_products() -> None:
    assert products.reachable_degrees(0) == {0, 1}
    assert products.reachable_degrees(2) == {0, 1, 2, 3, 4}
    assert products.reachable_degrees(3) == {*range(7), 8}
    assert products.reachable_degrees(4) == {*range(11), 12, 16}
    assert products.reachable_degrees(5) == {*range(19), 20, 24, 32}


def test_order_17_is_no_square_up_to_degree_six() -> None:
    """What keeps 1 + E + ... + E^16 from four products: the square root leaves 2 C(18, 9) / 4^9 E^7, exactly."""
    root = [Fraction(math.comb(2 * k, k), 4**k) for k in range(9)]  # of E^8, ..., E^0
    square = [sum((root[i] * root[k - i] for i in range(max(0, k - 8), min(k, 8) + 1)), Fraction(0)) for k in range(17)]
    assert square[:9] == [1] * 9
    assert 1 - square[9] == 2 * Fraction(math.comb(18, 9), 4**9) != 0
    assert products.products_needed(17) == 7
    assert products.products_needed(33) == 8


def test_order_nine_is_the_cheapest_up_to_24() -> None:
    price = {p: inversion.work_per_doubling(p, products.products_needed(p)) for p in range(2, 26)}
    assert min(range(2, 25), key=lambda p: price[p]) == 9
    assert price[9] == pytest.approx(1.57732, abs=1e-5)
    assert all(price[p] > price[9] + 0.01 for p in range(2, 25) if p != 9)
    assert price[25] < price[9], "where the argument ends"


def counted(order: int, kappa: float) -> int:
    return products.scheme(order).products * inversion.steps(kappa, 1e-6, order, "optimal")


def test_products_spent_to_six_digits() -> None:
    assert [counted(p, 1e3) for p in (2, 3, 5, 7, 9)] == [46, 45, 40, 45, 40]
    assert [counted(p, 1e4) for p in (2, 3, 5, 9)] == [60, 57, 52, 50]
    assert [counted(p, 1e6) for p in (2, 3, 5, 9)] == [86, 81, 76, 70]
    mean = {p: np.mean([counted(p, 10.0**k) for k in range(1, 7)]) for p in (2, 3, 5, 7, 9)}
    assert sorted(mean, key=lambda p: mean[p]) == [9, 5, 7, 3, 2]


# the coefficients of order 19 exist: a test of Krawczyk's in interval arithmetic


def over(divisor: list[Any], dividend: list[Any]) -> list[Any]:
    """The first terms of dividend / divisor as power series, the divisor's constant term being one."""
    quotient: list[Any] = []
    for k, value in enumerate(dividend):
        quotient.append(value - sum(divisor[j] * quotient[k - j] for j in range(1, min(k, 6) + 1)))
    return quotient


def test_order_19_has_real_coefficients() -> None:
    """With g the divisor, highest power first, 1/((1 - z) g) must lack z^13 and z^14: then the remainder is a cubic."""
    with flint.ctx.workprec(300):
        arb = flint.arb
        g0, g1, g2, g3 = (arb(flint.fmpq(c.numerator, c.denominator)) for c in products._DIVISOR)

        def values_and_slopes(a: Any, b: Any) -> tuple[list[Any], list[list[Any]]]:
            g = [arb(1), arb(1) / 3, arb(2) / 9, g3, g2, a, b]
            inverse = over(g, [arb(1)] * 15)
            slope = over(g, inverse)  # of the coefficient that stands before z^i, minus z^i times this
            return inverse[13:], [[-slope[k - i] for i in (5, 6)] for k in (13, 14)]

        value, slopes = values_and_slopes(g1, g0)
        C = flint.arb_mat(slopes).inv()
        radius = arb(0, 1e-38)
        _, around = values_and_slopes(g1 + radius, g0 + radius)
        spread = flint.arb_mat([[1, 0], [0, 1]]) - C * flint.arb_mat(around)
        moved = -1 * (C * flint.arb_mat([[v] for v in value])) + spread * flint.arb_mat([[radius], [radius]])
        assert all(radius.contains_interior(moved[i, 0]) for i in range(2))


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: products.scheme(1), ValueError, "order = 1: must be at least 2"),
    (lambda: products.scheme(21), ValueError, "order = 21: must be at most 20"),
    (lambda: products.scheme(2.0), TypeError, "order = 2.0: must be an integer"),
    (lambda: products.products_needed(66), ValueError, "order = 66: must be at most 65"),
    (lambda: products.reachable_degrees(7), ValueError, "products = 7: must be at most 6"),
    (lambda: products.reachable_degrees(-1), ValueError, "products = -1: must be at least 0"),
    (lambda: products.completed_square([Fraction(1)] * 4), ValueError, "wanted has degree 3: must be monic"),
    (lambda: products.completed_square([Fraction(1)]), ValueError, "wanted has degree 0: must be monic"),
    (lambda: products.completed_square([Fraction(1)] * 4 + [Fraction(2)]), ValueError, "must be monic"),
    (lambda: products.completed_square([Fraction(1)] * 5, Fraction(0)), ValueError, "free = 0: must not be zero"),
    (lambda: products.scheme(3)(np.ones((2, 3))), ValueError, "E has shape"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_scheme_is_a_value() -> None:
    assert products.scheme(4) == products.scheme(4)
    assert isinstance(products.scheme(4), Scheme)
