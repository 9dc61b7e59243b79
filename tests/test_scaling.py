"""What does not depend on the scale of the data on paper: bit by bit the same over the range of float, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.algorithms import inversion, linear_regression, logistic_regression
from tfnewton.constructions.linear_regression import least_squares as construction
from tfnewton.constructions.logistic_regression import scale_rows
from tfnewton.scaling import exponent, rescaled, times_two_to

RANGE: dict[Any, int] = {np.float32: 110, np.float64: 1000}  # exponents that leave room for the data's own spread
dtypes = st.sampled_from([np.float32, np.float64])


def data(d: int, n: int, seed: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal(n).astype(dtype)


def scaled(array: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(np.ldexp(array, k))


def representable(array: np.ndarray, k: int) -> bool:
    """Whether array · 2^k keeps every digit."""
    with np.errstate(over="ignore", under="ignore"):
        return bool((np.ldexp(np.ldexp(array, k), -k) == array).all())


def same_or_refused(compute: Callable[[], object], expected: np.ndarray, k: int) -> None:
    """The computation gives expected · 2^k to the last bit; where float cannot hold that it is refused by name."""
    if representable(expected, k):
        np.testing.assert_array_equal(np.asarray(compute()), scaled(expected, k))
    else:
        try:
            result = np.asarray(compute())
        except ValueError:
            return
        with np.errstate(under="ignore"):  # some entries are below the normal numbers, the largest is not
            tiny = np.finfo(result.dtype).smallest_subnormal
            np.testing.assert_allclose(result, scaled(expected, k), rtol=0, atol=tiny)


@given(st.integers(1, 5), st.integers(-1100, 1100), st.integers(0, 99), dtypes, st.sampled_from(inversion.INITS))
@settings(deadline=None, max_examples=tries(40))
def test_inversion(d: int, k: int, seed: int, dtype: Any, init: str) -> None:
    k = max(-RANGE[dtype], min(RANGE[dtype], k))
    A = data(d, d, seed, dtype)[0]
    A = (A @ A.T + np.eye(d)).astype(dtype) if init == "identity" else A + 2 * np.eye(d, dtype=dtype)
    assume(representable(A, k))
    start = np.asarray(inversion.initial(A, init))
    same_or_refused(lambda: inversion.initial(scaled(A, k), init), start, -k)
    for order in (2, 3):
        expected = np.asarray(inversion.newton_schulz(A, 12, order, start))
        if representable(start, -k):
            again = partial(inversion.newton_schulz, scaled(A, k), 12, order, scaled(start, -k))
            same_or_refused(again, expected, -k)


@given(
    *(st.integers(1, 4), st.integers(0, 6), st.integers(-500, 500), st.integers(-500, 500), st.integers(0, 99)),
    *(dtypes, st.booleans()),
)
@settings(deadline=None, max_examples=tries(40))
def test_least_squares(d: int, more: int, k: int, m: int, seed: int, dtype: Any, ridged: bool) -> None:
    reach = RANGE[dtype] // 2
    k, m = max(-reach, min(reach, k)), max(-reach, min(reach, m))
    A, y = data(d, d + more, seed, dtype)
    ridge = 0.25 if ridged else 0.0
    assume(representable(A, k) and representable(y, m))
    expected = np.asarray(linear_regression.least_squares(A, y, ridge))
    np.testing.assert_allclose(
        expected, np.linalg.solve(*normal(A, y, ridge)), rtol=2e3 * np.finfo(dtype).eps * np.linalg.cond(A) ** 2
    )
    same_or_refused(
        lambda: linear_regression.least_squares(scaled(A, k), scaled(y, m), math.ldexp(ridge, 2 * k)), expected, m - k
    )
    step = float(1.0 / (np.linalg.norm(A.astype(float), 2) ** 2 + ridge) ** 2)
    newton = np.asarray(linear_regression.newton_least_squares(A, y, 8, step, 3, ridge))
    if abs(4 * k) < 900:
        again = math.ldexp(step, -4 * k)
        same_or_refused(
            lambda: linear_regression.newton_least_squares(
                scaled(A, k), scaled(y, m), 8, again, 3, math.ldexp(ridge, 2 * k)
            ),
            newton,
            m - k,
        )
    rate = math.sqrt(step)
    w0: np.ndarray = np.ones(d, dtype=dtype)
    descended = np.asarray(linear_regression.gradient_descent(A, y, 5, rate, w0))
    if representable(w0, m - k):
        same_or_refused(
            lambda: linear_regression.gradient_descent(
                scaled(A, k), scaled(y, m), 5, math.ldexp(rate, -2 * k), scaled(w0, m - k)
            ),
            descended,
            m - k,
        )


@given(
    *(st.integers(1, 4), st.integers(0, 6), st.integers(-500, 500), st.integers(-500, 500), st.integers(0, 99)), dtypes
)
@settings(deadline=None, max_examples=tries(30))
def test_gradient_methods(d: int, more: int, k: int, m: int, seed: int, dtype: Any) -> None:
    reach = RANGE[dtype] // 2
    k, m = max(-reach, min(reach, k)), max(-reach, min(reach, m))
    A, y = data(d, d + more, seed, dtype)
    assume(representable(A, k) and representable(y, m))
    top = float(np.linalg.norm(A.astype(float), 2) ** 2)
    big, large = scaled(A, k), scaled(y, m)

    def per_eigenvalue(*values: float) -> list[float]:
        return [math.ldexp(value / top, -2 * k) for value in values]

    expected = np.asarray(linear_regression.conjugate_gradients(A, y, d))
    same_or_refused(lambda: linear_regression.conjugate_gradients(big, large, d), expected, m - k)
    ends = np.array([0.1 * top, top])
    expected = np.asarray(linear_regression.chebyshev_iteration(A, y, 5, ends))
    again = np.ldexp(ends, 2 * k)
    same_or_refused(lambda: linear_regression.chebyshev_iteration(big, large, 5, again), expected, m - k)
    rates, bends = (1.0 / top, 2.0 / top), (0.5 / top,)
    expected = np.asarray(linear_regression.gradient_descent_plus_plus(A, y, rates, bends))
    same_or_refused(
        lambda: linear_regression.gradient_descent_plus_plus(big, large, per_eigenvalue(1.0, 2.0), per_eigenvalue(0.5)),
        expected,
        m - k,
    )


def normal(A: np.ndarray, y: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    exact = A.astype(float)
    return exact.T @ exact + ridge * np.eye(A.shape[1]), exact.T @ y


@given(st.integers(1, 4), st.integers(1, 6), st.integers(-480, 480), st.integers(0, 99))
@settings(deadline=None, max_examples=tries(30))
def test_logistic_regression(d: int, n: int, k: int, seed: int) -> None:
    """x -> x 2^-k, A -> A 2^k, mu -> mu 4^k is the same problem."""
    A, y = data(d, n, seed, np.float64)
    y, mu = np.sign(y), 0.125
    larger, strength = scaled(A, k), math.ldexp(mu, 2 * k)
    best = np.asarray(logistic_regression.minimize(A, y, mu))
    same_or_refused(lambda: logistic_regression.minimize(larger, y, strength), best, -k)
    path = np.asarray(logistic_regression.damped_newton(A, y, mu, 3, damping="full"))
    same_or_refused(lambda: logistic_regression.damped_newton(larger, y, strength, 3, damping="full"), path, -k)
    x = np.ones(d)
    decrement = np.asarray(logistic_regression.newton_decrement(x, A, y, mu))
    same_or_refused(lambda: logistic_regression.newton_decrement(scaled(x, -k), larger, y, strength), decrement, 0)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(-1000, 1000), st.integers(0, 99), dtypes)
@settings(deadline=None, max_examples=tries(30))
def test_scale_rows(d: int, n: int, k: int, seed: int, dtype: Any) -> None:
    k = max(-RANGE[dtype], min(RANGE[dtype], k))
    A = data(d, n, seed, dtype)[0]
    rows, divisor = scale_rows(scaled(A, k))
    longest = np.linalg.norm(A.astype(float), axis=1).max()
    assert divisor == pytest.approx(max(1.0, math.ldexp(longest, k)), rel=1e-12)
    expected = A / longest if math.ldexp(longest, k) > 1.0 else scaled(A, k)
    np.testing.assert_allclose(np.asarray(rows), expected, rtol=4 * np.finfo(dtype).eps)
    assert np.asarray(rows).dtype == dtype


@pytest.mark.parametrize("size", [1e20, 1e-20, 3e37])
def test_single_precision_far_from_one(size: float) -> None:
    A = np.float32(size) * np.eye(3, dtype=np.float32)
    w = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    np.testing.assert_allclose(linear_regression.least_squares(A, A @ w), w, rtol=1e-6)
    rows, divisor = scale_rows(A)
    assert divisor == pytest.approx(max(1.0, size), rel=1e-6)
    assert np.abs(rows).max() == pytest.approx(min(1.0, size), rel=1e-6)


@pytest.mark.parametrize("size", [1e-100, 1e-60, 1e60, 1e200])
def test_double_precision_far_from_one(size: float) -> None:
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal((6, 2)), np.array([1.0, -2.0])
    y = A @ w
    w_again = linear_regression.least_squares(size * A, size * y)
    np.testing.assert_allclose(w_again, w, rtol=1e-12)
    top = float(np.linalg.norm(A, 2)) ** 2
    if 1e-70 < size < 1e70:  # the step is a float
        result = linear_regression.newton_least_squares(size * A, size * y, 30, 1.0 / (top * size**2) ** 2)
        np.testing.assert_allclose(result, w, rtol=1e-10)
    elif size > 1.0:
        with pytest.raises(ValueError, match=r"^step_size = 1: must lie in \(0, 2/lambda_max\^2\)"):
            linear_regression.newton_least_squares(size * A, size * y, 30, 1.0)
    else:
        with pytest.raises(ValueError, match=r"^step_size = 1: must be larger for data so small"):
            linear_regression.newton_least_squares(size * A, size * y, 30, 1.0)
    labels = np.sign(y)
    if size < 1.0:
        np.testing.assert_allclose(
            logistic_regression.minimize(size * A, labels, 0.1), size * (A.T @ labels / 12) / 0.1
        )
    elif size < 1e100:
        assert np.linalg.norm(size * np.asarray(logistic_regression.minimize(size * A, labels, 0.1))) > 10.0
    else:
        with pytest.raises(ValueError, match=r"^mu = 0\.1: must be larger beside so large an A"):
            logistic_regression.minimize(size * A, labels, 0.1)


def test_batches_of_very_different_scale() -> None:
    rng = np.random.default_rng(1)
    A, y = rng.standard_normal((3, 5, 2)), rng.standard_normal((3, 5))
    k = np.array([-400, 0, 300])
    larger = np.ldexp(A, k[:, None, None])
    expected = np.asarray(linear_regression.least_squares(A, y))
    np.testing.assert_array_equal(linear_regression.least_squares(larger, y), np.ldexp(expected, -k[:, None]))
    square = A[:, :2] + 2 * np.eye(2)
    inverse = np.asarray(inversion.newton_schulz(square, 20))
    again = inversion.newton_schulz(np.ldexp(square, k[:, None, None]), 20)
    np.testing.assert_allclose(again, np.ldexp(inverse, -k[:, None, None]), rtol=1e-13)


def test_step_bounds_of_constructions_hold_far_from_one() -> None:
    """Packing judges a step size by the same rule, without overflow on the way."""
    A, y = np.eye(2), np.ones(2)
    for k in (-100, 0, 100):
        model = construction(2, 1, math.ldexp(1.9, -4 * k))
        model.pack(np.ldexp(A, k), y, y)
        with pytest.raises(ValueError, match=r"must lie in \(0, 2/lambda_max\^2\)"):
            model.pack(1.05 * np.ldexp(A, k), y, y)


def test_the_smallest_normal_number_is_a_step_still() -> None:
    """For A = 1, whose exponent is 1, the step is taken four times as large."""
    one = np.ones((1, 1))
    assert linear_regression.gradient_descent(one, np.ones(1), 1, 2.0**-1024) == 2.0**-1024
    with pytest.raises(ValueError, match=r"^learning_rate = .*: must be larger for data so small"):
        linear_regression.gradient_descent(one, np.ones(1), 1, 2.0**-1025)


SINGULAR = np.array([[2.0, 4.0, 6.0], [2.0, 0.0, 2.0], [6.0, 8.0, 14.0]])


@pytest.mark.parametrize("order", [2, 3])
def test_singular_matrices_do_what_the_docstring_says(order: int) -> None:
    """The pseudo-inverse first; then roundoff outside the range grows by ``order`` a step; then a refusal."""
    exact = np.linalg.pinv(SINGULAR)
    errors = [
        np.abs(np.asarray(X) - exact).max()
        for X in inversion.newton_schulz_iterates(SINGULAR, 60 if order == 2 else 38, order)
    ]
    best = int(np.argmin(errors))
    assert errors[best] < 1e-10
    for step in range(best + 5, len(errors) - 1):
        assert errors[step + 1] / errors[step] == pytest.approx(order, rel=0.3)
    with pytest.raises(ValueError, match=r"^X_\d+ contains NaN or infinity.*a singular A takes few steps"):
        inversion.newton_schulz(SINGULAR, 4000, order)
    with pytest.raises(ValueError, match=r"^X_\d+ contains NaN or infinity"):
        inversion.newton_schulz(np.outer([0.3, 0.7], [0.3, 0.7]), 4000, order)


def test_a_start_outside_the_basin_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^X_\d+ contains NaN or infinity as torch.float64: the eigenvalues"):
        inversion.newton_schulz(np.eye(2), 40, X0=3.0 * np.eye(2))


def test_results_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^X0 contains NaN or infinity"):
        inversion.initial(1e-310 * np.eye(2), "spectral")
    with pytest.raises(ValueError, match=r"^w contains NaN or infinity"):
        linear_regression.least_squares(1e-200 * np.eye(2), 1e200 * np.ones(2))
    with pytest.raises(ValueError, match=r"^w is below the smallest normal number"):
        linear_regression.least_squares(1e200 * np.eye(2), 1e-200 * np.ones(2))
    with pytest.raises(ValueError, match=r"^f\(x\) contains NaN or infinity"):
        logistic_regression.loss(np.full(2, 1e200), np.full((1, 2), 1e200), -np.ones(1), 0.1)
    with pytest.raises(ValueError, match=r"^the Hessian contains NaN or infinity"):
        logistic_regression.hessian(np.zeros(2), np.full((1, 2), 1e200), np.ones(1), 0.1)


@given(st.floats(width=64, allow_nan=False, allow_infinity=False), st.integers(-2000, 2000))
@settings(max_examples=tries(100))
def test_powers_of_two(value: float, k: int) -> None:
    """Against the C library's ldexp, up to one rounding where the result is subnormal."""
    array = torch.tensor([value], dtype=torch.float64)
    try:
        expected = math.ldexp(value, k)
    except OverflowError:
        expected = math.copysign(math.inf, value)
    assert times_two_to(array, k).item() == pytest.approx(expected, rel=1e-16, abs=5e-324)
    assert int(exponent(array, 1)) == math.frexp(value)[1]
    if math.isinf(expected):
        with pytest.raises(ValueError, match=r"^w contains NaN or infinity as torch.float64: smaller"):
            rescaled("w", array, k, 0, "smaller")


def test_zeros_have_no_say_in_the_scale() -> None:
    """A start far smaller or larger than one beside targets that are all zero, and the other way round."""
    w0 = np.full(2, 1e-37, dtype=np.float32)
    A = 1e-10 * np.eye(2, dtype=np.float32)
    np.testing.assert_array_equal(linear_regression.gradient_descent(A, np.zeros(2, np.float32), 0, 1.0, w0), w0)
    small, start = np.ldexp(np.eye(2), -400), np.full(2, 2.0**-700)
    result = linear_regression.gradient_descent(small, np.zeros(2), 1, 2.0**799, start)
    np.testing.assert_array_equal(result, start / 2)
    for w in (None, np.zeros(2)):
        with pytest.raises(ValueError, match=r"^w is below the smallest normal number"):
            linear_regression.gradient_descent(np.ldexp(np.eye(2), 500), np.full(2, 2.0**-800), 3, 2.0**-1000, w)


def test_a_batch_refuses_what_each_of_its_entries_does() -> None:
    matrices, targets = np.stack([1e200 * np.eye(2), np.eye(2)]), np.stack([np.full(2, 1e-200), np.ones(2)])
    with pytest.raises(ValueError, match=r"^w is below the smallest normal number"):
        linear_regression.least_squares(matrices, targets)
    pair = np.stack([np.eye(2), 2.0**127 * np.eye(2)]).astype(np.float32)
    for A in (pair, pair[1]):
        with pytest.raises(ValueError, match=r"below the smallest normal number"):
            inversion.newton_schulz(A, 3)


def test_a_penalty_lost_in_roundoff_is_refused() -> None:
    A, y = np.ones((4, 2)), np.array([1.0, -1.0, 1.0, -1.0])
    for call in (logistic_regression.minimize, lambda A, y, mu: logistic_regression.damped_newton(A, y, mu, 2)):
        with pytest.raises(ValueError, match=r"mu is .* in units of A: must be larger"):
            call(A, y, 1e-20)
    with pytest.raises(TypeError, match="x = None: must be an array"):
        logistic_regression.loss(None, A, y, 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A has rows of a norm beyond float64"):
        scale_rows(np.full((1, 3), 1.7e308))
