"""Input and output formats: where arrays lie in H, what comes back, and what is refused before any compute."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.linear_problems import matrix, symmetric
from tests.helpers.tries import tries
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.model.layout import Layout
from tfnewton.model.packing import Input, Output, Packing
from tfnewton.model.transformer import Transformer

A32 = np.arange(6.0).reshape(3, 2)


def format_of(*inputs: Input, outputs: tuple[Output, ...] = (), **constants: Any) -> Transformer:
    """A transformer without layers over the blocks M (2 rows), r (1 row) and s (1 row), d = 2."""
    packing = Packing(sizes={"d": 2}, tokens="n", inputs=inputs, constants=constants, outputs=outputs)
    return Transformer(Layout(M=2, r=1, s=1), [], packing)


A_INPUT = Input(name="A", shape=("n", "d"), block="M", place="transposed")


def test_places_of_inputs() -> None:
    y = np.array([7.0, 8.0, 9.0])
    H = format_of(A_INPUT, Input(name="y", shape=("n",), block="s", place="row"), r="ones").pack(A32, y)
    np.testing.assert_array_equal(H, np.vstack([A32.T, np.ones(3), y]))


def test_rows_shorter_than_the_tokens_are_padded_with_zeros() -> None:
    H = format_of(A_INPUT, Input(name="a", shape=("d",), block="s", place="row")).pack(A32, np.array([5.0, 6.0]))
    np.testing.assert_array_equal(H, np.vstack([A32.T, np.zeros(3), [5.0, 6.0, 0.0]]))


def test_a_matrix_and_an_identity_fill_the_leading_tokens() -> None:
    y = Input(name="y", shape=("n",), block="r", place="row")
    matrix_input = Input(name="X", shape=("d", "d"), block="M", place="matrix")
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    H = format_of(matrix_input, y).pack(X, np.ones(3))
    np.testing.assert_array_equal(H, [[1, 2, 0], [3, 4, 0], [1, 1, 1], [0, 0, 0]])
    H = format_of(y, M="identity").pack(np.ones(3))
    np.testing.assert_array_equal(H, [[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]])


@pytest.mark.parametrize(("given_w", "column"), [(None, 0.5), (np.array([3.0, 4.0]), None)])
def test_a_repeated_column_and_its_default(given_w: np.ndarray | None, column: float | None) -> None:
    w = Input(name="w", shape=("d",), block="M", place="repeated", default=0.5)
    y = Input(name="y", shape=("n",), block="s", place="row")
    pack = format_of(y, w).pack
    H = pack(np.ones(3)) if given_w is None else pack(np.ones(3), given_w)
    expected = np.full((2, 3), column) if given_w is None else np.tile(given_w[:, None], 3)
    np.testing.assert_array_equal(H, np.vstack([expected, np.zeros(3), np.ones(3)]))


def test_places_of_outputs() -> None:
    outputs = (
        Output(name="leading", shape=("d", "d"), block="M", place="matrix"),
        Output(name="column", shape=("d",), block="M", place="column"),
        Output(name="row", shape=("d",), block="s", place="row"),
        Output(name="first", shape=(), block="s", place="scalar"),
    )
    H = np.arange(24.0).reshape(2, 4, 3)
    out = format_of(A_INPUT, outputs=outputs).unpack(H)
    np.testing.assert_array_equal(out["leading"], H[:, :2, :2])
    np.testing.assert_array_equal(out["column"], H[:, :2, 0])
    np.testing.assert_array_equal(out["row"], H[:, 3, :2])
    np.testing.assert_array_equal(out["first"], H[:, 3, 0])
    assert all(
        isinstance(value, torch.Tensor)
        for value in format_of(A_INPUT, outputs=outputs).unpack(torch.tensor(H)).values()
    )


def test_numpy_stays_numpy_and_a_tensor_makes_tensors() -> None:
    model = gradient_descent(2, 1, 0.01)
    y = np.ones(3)
    for H in (
        model.pack(A32, y),
        model.pack(A32.tolist(), [1, 1, 1]),
        model.pack(A32.astype(int), y.astype(np.float16)),
    ):
        assert isinstance(H, np.ndarray)
        assert H.dtype == np.float64
        np.testing.assert_array_equal(H, model.pack(A32, y))
    for H in (model.pack(torch.tensor(A32), y), model.pack(A32, torch.tensor(y))):
        assert isinstance(H, torch.Tensor)
        np.testing.assert_array_equal(H.numpy(), model.pack(A32, y))


@given(st.lists(st.integers(1, 3), max_size=2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 99))
@settings(deadline=None, max_examples=tries(30))
def test_batch_axes_broadcast(batch: list[int], keep_y: int, keep_w: int, seed: int) -> None:
    """Each slice of the batch is what packing that slice alone gives."""
    rng = np.random.default_rng(seed)
    A = matrix(2, 2.0, rng, rows=3) * np.ones((*batch, 1, 1))
    y = rng.standard_normal((*batch[len(batch) - min(keep_y, len(batch)) :], 3))
    w = rng.standard_normal((*batch[len(batch) - min(keep_w, len(batch)) :], 2))
    model = gradient_descent(2, 1, 0.1)
    H = model.pack(A, y, w)
    assert H.shape == (*batch, model.width, 3)
    Y, W = np.broadcast_to(y, (*batch, 3)), np.broadcast_to(w, (*batch, 2))
    for index in np.ndindex(*batch):
        np.testing.assert_array_equal(H[index], model.pack(A[index], Y[index], W[index]))


def test_batch_axes_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"^batch axes do not agree: A \(2,\), y \(3,\); they must broadcast$"):
        gradient_descent(2, 1, 0.01).pack(np.ones((2, 3, 2)), np.ones((3, 3)))


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        (("A",), {}, "pack(A, y, a_test): y, a_test missing"),
        (("A", "y", "a", "a"), {}, "pack(A, y, a_test) takes 3 inputs, 4 were given"),
        (("A", "y"), {"a": "a"}, "pack(A, y, a_test): 'a' is not one of its inputs"),
        (("A", "y"), {"y": "y"}, "pack(A, y, a_test): 'y' is given twice"),
    ],
)
def test_inputs_are_bound_by_name(positional: tuple[str, ...], named: dict[str, str], message: str) -> None:
    values = {"A": A32, "y": np.ones(3), "a": np.ones(2)}
    model = least_squares(2, 1, 1e-4)
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        model.pack(*(values[key] for key in positional), **{name: values[key] for name, key in named.items()})


def test_inputs_by_position_and_by_name_agree() -> None:
    model = least_squares(2, 1, 1e-4)
    y, a = np.ones(3), np.ones(2)
    np.testing.assert_array_equal(model.pack(A32, a_test=a, y=y), model.pack(A32, y, a))


@pytest.mark.parametrize(
    ("A", "y", "a_test", "message"),
    [
        (np.ones((3, 4)), np.ones(3), np.ones(2), "A has shape (3, 4): must be (n = 3, d = 2)"),
        (np.ones(3), np.ones(3), np.ones(2), "A has shape (3,): must be (n, d = 2)"),
        (A32, np.ones(4), np.ones(2), "y has shape (4,): must be (n = 3,)"),
        (A32, np.ones((3, 1)), np.ones(2), "y has shape (3, 1): must be (n = 3,)"),
        (A32, np.ones(3), np.ones(3), "a_test has shape (3,): must be (d = 2,)"),
        (np.ones((0, 2)), np.ones(0), np.ones(2), "A has shape (0, 2): must be (n, d = 2), every axis at least 1"),
        (np.ones((1, 2)), np.ones(1), np.ones(2), "n = 1: must be at least d = 2, the identity block needs d tokens"),
    ],
)
def test_shapes_are_named(A: np.ndarray, y: np.ndarray, a_test: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        least_squares(2, 1, 1e-4).pack(A, y, a_test)


@pytest.mark.parametrize(
    "bad",
    [
        A32.astype(complex),
        A32 > 2,
        A32.astype(str),
        A32.astype(object),
        np.full((3, 2), Fraction(1, 2)),
        [[1.0, 2.0], [3.0]],
        None,
        "A",
        torch.tensor(A32, dtype=torch.complex128),
        torch.tensor(A32) > 2,
    ],
)
def test_wrong_dtypes_are_named(bad: object) -> None:
    with pytest.raises(TypeError, match=r"^A (has dtype .*|is ragged): must be an array of real numbers$"):
        least_squares(2, 1, 1e-4).pack(bad, np.ones(3), np.ones(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["A", "y", "a_test"])
def test_values_must_be_finite(name: str, bad: float) -> None:
    inputs = {"A": A32.copy(), "y": np.ones(3), "a_test": np.ones(2)}
    inputs[name].flat[-1] = bad
    with pytest.raises(
        ValueError, match=f"^{name} contains NaN or infinity as torch.float64: every entry must be finite$"
    ):
        least_squares(2, 1, 1e-4).pack(**inputs)


def test_float32_transformers_pack_float32_and_refuse_what_overflows_it() -> None:
    model = gradient_descent(2, 1, 0.01).to(torch.float32)
    assert model.pack(A32, np.ones(3)).dtype == np.float32
    with pytest.raises(ValueError, match=r"^y contains NaN or infinity as torch.float32"):
        model.pack(A32, np.array([1.0, 1.0, 1e300]))


@given(st.integers(1, 6), st.integers(0, 6), st.floats(-3, 3), st.sampled_from([0.0, 0.3, 10.0]), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(20))
def test_step_sizes_end_where_the_iteration_diverges(
    d: int, more: int, log_scale: float, ridge: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A, y, a = matrix(d, 3.0, rng, 10.0**log_scale, d + more), np.ones(d + more), np.ones(d)
    largest = np.linalg.eigvalsh(A.T @ A + ridge * np.eye(d))[-1]
    least_squares(d, 1, 1.999999 / largest**2, ridge).pack(A, y, a)
    with pytest.raises(
        ValueError, match=r"^step_size = .*: must lie in \(0, 2/lambda_max\^2\) = \(0, .*\) for these data"
    ):
        least_squares(d, 1, 2.000001 / largest**2, ridge).pack(A, y, a)
    largest = np.linalg.eigvalsh(A.T @ A)[-1]
    gradient_descent(d, 1, 1.999999 / largest).pack(A, y)
    with pytest.raises(
        ValueError, match=r"^learning_rate = .*: must lie in \(0, 2/lambda_max\) = \(0, .*\) for these data"
    ):
        gradient_descent(d, 1, 2.000001 / largest).pack(A, y)


def test_step_size_message_states_limit_and_eigenvalue() -> None:
    message = "step_size = 0.6: must lie in (0, 2/lambda_max^2) = (0, 0.5) for these data, whose lambda_max(A^T A) is 2"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        least_squares(1, 1, 0.6).pack(np.ones((2, 1)), np.ones(2), np.ones(1))
    with pytest.raises(ValueError, match=re.escape("(0, 0.08) for these data, whose lambda_max(A^T A + 3 I) is 5")):
        least_squares(1, 1, 0.6, ridge=3.0).pack(np.ones((2, 1)), np.ones(2), np.ones(1))


def test_one_matrix_of_a_batch_can_rule_out_the_step_size() -> None:
    model = least_squares(1, 1, 0.1)
    model.pack(np.ones((2, 3, 1)), np.ones(3), np.ones(1))
    with pytest.raises(ValueError, match=r"^step_size = 0\.1: must lie in"):
        model.pack(np.stack([np.ones((3, 1)), 2 * np.ones((3, 1))]), np.ones(3), np.ones(1))


@pytest.mark.parametrize("size", [1e100, 1e200])
def test_data_whose_eigenvalues_overflow_admit_no_step(size: float) -> None:
    with pytest.raises(ValueError, match=r"^step_size = 1e-300: must lie in \(0, 2/lambda_max\^2\) = \(0, 0\)"):
        least_squares(2, 1, 1e-300).pack(np.full((3, 2), size), np.ones(3), np.ones(2))


@pytest.mark.parametrize(
    ("place", "shape", "block", "fault"),
    [
        ("row", ("n",), "s", None),
        ("row", ("n",), "M", "v fills 1 rows of M, which has 2"),
        ("transposed", ("n", "d"), "M", None),
        ("transposed", ("n", "d"), "s", "v fills 2 rows of s, which has 1"),
        ("matrix", ("d", "n"), "M", None),
        ("matrix", ("d", "n"), "r", "v fills 2 rows of r, which has 1"),
        ("repeated", ("d",), "M", None),
        ("repeated", ("d",), "r", "v fills 2 rows of r, which has 1"),
        ("query", ("d",), "M", None),
        ("query", ("d",), "s", "v fills 2 rows of s, which has 1"),
    ],
)
def test_inputs_fill_their_blocks(place: Any, shape: tuple[str, ...], block: str, fault: str | None) -> None:
    y = Input(name="y", shape=("n",), block="r", place="row")
    if fault is None:
        format_of(y, Input(name="v", shape=shape, block=block, place=place))
    else:
        with pytest.raises(ValueError, match=f"^{fault}$"):
            format_of(y, Input(name="v", shape=shape, block=block, place=place))


def test_norms_are_named_by_row_where_there_are_rows() -> None:
    """A unit in the last place is roundoff, a thousand are not; a vector is itself what is too long."""
    rows = Input(name="A", shape=("n", "d"), block="X", place="matrix", largest_norm=1.0)
    vector = Input(name="w", shape=("d",), block="X", place="repeated", largest_norm=2.0)
    A = np.array([[1.0, 0.0], [0.0, 1.0 + 2**-52], [0.6, 0.8]])
    rows.check(torch.tensor(A))
    A[1, 1] = 1.0 + 1000 * 2**-52
    with pytest.raises(ValueError, match=r"^A has norm 1 in row 1, at most 1 is allowed: divide A by 1$"):
        rows.check(torch.tensor(A))
    with pytest.raises(ValueError, match=r"^A has norm 3 in row 2, at most 1 is allowed: divide A by 3$"):
        rows.check(torch.tensor([A.tolist(), [[0.0, 0.0], [0.0, 0.0], [0.0, -3.0]]]))
    vector.check(torch.tensor([[2.0, 0.0], [0.0, -2.0]]))
    with pytest.raises(ValueError, match=r"^w has norm 5, at most 2 is allowed$"):
        vector.check(torch.tensor([[2.0, 0.0], [3.0, 4.0]]))


def test_zero_data_admit_any_step() -> None:
    model = least_squares(2, 3, 1e6)
    assert model.unpack(model(model.pack(np.zeros((3, 2)), np.ones(3), np.ones(2))))["y_hat"] == 0.0


@given(st.integers(2, 8), st.floats(-6, 6), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(30))
def test_symmetric_transformers_refuse_other_matrices(d: int, log_scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = symmetric(d, 10.0, rng, 10.0**log_scale)
    rounding = 4 * np.finfo(float).eps * np.abs(A).max() * rng.standard_normal((d, d))
    model = newton_schulz(d, symmetric=True)
    model.pack(A, A + rounding)
    skewed = A.copy()
    skewed[0, 1] += 1e-9 * np.abs(A).max()
    huge = 1e12 * np.eye(d)
    for bad in (skewed, np.stack([huge, skewed])):  # each matrix by its own size
        with pytest.raises(ValueError, match=r"^A is not symmetric \(largest difference .*\): it must be$"):
            model.pack(A, bad)
    newton_schulz(d).pack(A, skewed)


def test_unpack_checks_h() -> None:
    model = newton_schulz(2)
    with pytest.raises(ValueError, match=r"^H has shape \(7, 2\): must be \(8, n\)"):
        model.unpack(np.zeros((7, 2)))
    with pytest.raises(TypeError, match=r"^H has dtype float32: must be torch.float64"):
        model.unpack(np.zeros((8, 2), dtype=np.float32))


def test_without_a_format_there_is_no_packing() -> None:
    model = Transformer(Layout(X=2), [])
    with pytest.raises(ValueError, match="no input format"):
        model.pack(np.ones(2))
    with pytest.raises(ValueError, match="no input format"):
        model.unpack(np.ones((2, 1)))
