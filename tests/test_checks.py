"""Refusals name the parameter, the value and what is allowed; what is let through arrives unchanged."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.checks import batch, choice, integer, like, real, tensor


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_integer_accepts_integers(value: object) -> None:
    result = integer("steps", value, minimum=3)
    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, 3 + 0j, [3]])
def test_integer_refuses_other_types(value: object) -> None:
    with pytest.raises(TypeError, match=r"^steps = .*: must be an integer, at least 0$"):
        integer("steps", value, minimum=0)


def test_integer_refuses_below_minimum() -> None:
    with pytest.raises(ValueError, match=r"^order = 1: must be at least 2$"):
        integer("order", 1, minimum=2)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), Fraction(2)])
def test_real_accepts_numbers(value: object) -> None:
    result = real("kappa", value, minimum=2.0, maximum=2.0)
    assert result == 2.0
    assert type(result) is float


@pytest.mark.parametrize("value", [True, "2", None, 2j, np.array([2.0])])
def test_real_refuses_other_types(value: object) -> None:
    with pytest.raises(TypeError, match=r"(?s)^kappa = .*: must be a finite number and at least 1$"):
        real("kappa", value, minimum=1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, Fraction(10**400)])
def test_real_refuses_what_is_not_finite(value: object) -> None:
    with pytest.raises(ValueError, match=r"^kappa = .*: must be a finite number$"):
        real("kappa", value)


def test_real_ends_of_the_range() -> None:
    assert real("x", 1.0, minimum=1.0) == 1.0
    assert real("x", 1.0, maximum=1.0) == 1.0
    for message, ends in [
        ("above 1", {"above": 1.0}),
        ("below 1", {"below": 1.0}),
        ("at least 2", {"minimum": 2.0}),
        ("at most 0", {"maximum": 0.0}),
    ]:
        with pytest.raises(ValueError, match=rf"^x = 1.0: must be a finite number and {message}$"):
            real("x", 1.0, **ends)


def test_choice() -> None:
    assert choice("init", "norms", ("norms", "spectral")) == "norms"
    for value in ("other", 3, None, ["norms"]):
        with pytest.raises(ValueError, match=r"^init = .*: must be one of 'norms', 'spectral'$"):
            choice("init", value, ("norms", "spectral"))


@given(
    dtype=st.sampled_from([np.float32, np.float64, np.float16, np.int32, np.uint8, np.longdouble]),
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    swapped=st.booleans(),
)
@settings(deadline=None, max_examples=tries(40))
def test_tensor_keeps_values_and_float32(dtype: type[np.generic], shape: list[int], swapped: bool) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    stored = array.astype(array.dtype.newbyteorder()) if swapped and dtype is not np.longdouble else array
    stored.setflags(write=False)
    result = tensor("A", stored[..., ::-1], ("n", "d"))
    assert result.dtype == (torch.float32 if dtype is np.float32 else torch.float64)
    np.testing.assert_array_equal(result.numpy(), array[..., ::-1].astype(np.float64))


def test_tensor_copies_numpy_and_lists() -> None:
    array = np.ones((2, 2))
    tensor("A", array, ("d", "d"))[0, 0] = 5.0
    assert array[0, 0] == 1.0
    assert tensor("A", [[1, 2], [3, 4]], ("d", "d")).dtype == torch.float64


@pytest.mark.parametrize(
    "value",
    [
        np.ones((2, 2), dtype=complex),
        np.ones((2, 2), dtype=bool),
        [["a", "b"], ["c", "d"]],
        None,
        [[1.0, 2.0], [3.0]],
        torch.ones(2, 2, dtype=torch.complex64),
        torch.ones(2, 2, dtype=torch.bool),
    ],
)
def test_tensor_refuses_what_is_not_real(value: object) -> None:
    with pytest.raises(TypeError, match=r"^A (has dtype .*|is ragged): must be an array of real numbers$"):
        tensor("A", value, ("d", "d"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_tensor_refuses_nan_and_infinity(bad: float) -> None:
    for value in ([[bad, 1.0]], np.array([[bad, 1.0]]), torch.tensor([[bad, 1.0]], dtype=torch.float64)):
        with pytest.raises(ValueError, match=r"^A contains NaN or infinity as torch.float64: every entry must be fin"):
            tensor("A", value, ("n", "d"))


def test_tensor_refuses_overflow_of_the_wanted_dtype() -> None:
    with pytest.raises(ValueError, match=r"^A contains NaN or infinity as torch.float32"):
        tensor("A", torch.full((1, 1), 1e300, dtype=torch.float64), ("d", "d"), dtype=torch.float32)


@pytest.mark.parametrize(
    ("shape", "wanted", "message"),
    [
        ((2, 3), ("d", "d"), r"A has shape \(2, 3\): must be \(d = 2, d = 2\)"),
        ((3,), ("n", "d"), r"A has shape \(3,\): must be \(n, d\)"),
        ((2, 0), ("n", "d"), r"A has shape \(2, 0\): must be \(n, d\), every axis at least 1"),
        ((5, 4), (5, 3), r"A has shape \(5, 4\): must be \(5, 3\)"),
        ((), ("n",), r"A has shape \(\): must be \(n,\)"),
    ],
)
def test_tensor_names_the_wrong_shape(shape: tuple[int, ...], wanted: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        tensor("A", np.ones(shape), wanted)


def test_tensor_remembers_sizes() -> None:
    sizes: dict[str, int] = {}
    tensor("A", np.ones((7, 5, 3)), ("n", "d"), sizes)
    assert sizes == {"n": 5, "d": 3}
    with pytest.raises(ValueError, match=r"^y has shape \(4,\): must be \(n = 5,\)"):
        tensor("y", np.ones(4), ("n",), sizes)


@given(axes=st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=3))
@settings(deadline=None, max_examples=tries(50))
def test_batch_agrees_with_numpy_arithmetic(axes: list[list[int]]) -> None:
    named = {f"x{i}": shape for i, shape in enumerate(axes)}
    try:
        expected = sum(np.ones(shape) for shape in axes)
    except ValueError:
        with pytest.raises(ValueError, match=r"^batch axes do not agree: x0 .*; they must broadcast$"):
            batch(**named)
    else:
        assert batch(**named) == np.shape(expected)


def test_like_follows_the_inputs() -> None:
    result = torch.ones(2, requires_grad=True)
    assert isinstance(like(result, np.ones(2), None), np.ndarray)
    assert like(result, np.ones(2), torch.ones(1)) is result
