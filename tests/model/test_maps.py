"""Selections act as the sparse matrices that they stand for, without a matrix product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.torch_spy import PRODUCTS, Spy
from tests.helpers.tries import tries
from tfnewton.model.maps import Dense, Piece, Selection

COEFFICIENTS = st.sampled_from([1.0, -1.0, 0.0, 0.25, -3.0])


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, min(rows, columns)))
        out, start = draw(st.integers(0, rows - size)), draw(st.integers(0, columns - size))
        pieces.append(Piece(out, start, size, draw(COEFFICIENTS)))
    return Selection(tuple(pieces), (rows, columns))


def oracle(selection: Selection) -> np.ndarray:
    matrix = np.zeros(selection.shape)
    for out, start, size, coefficient in selection.pieces:
        for i in range(size):
            matrix[out + i, start + i] += coefficient
    return matrix


@given(
    selections(),
    st.sampled_from([(), (2,), (2, 3)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 99),
)
@example(Selection((Piece(0, 1, 2, 0.25),), (2, 4)), (), torch.float64, 0)
@example(Selection((Piece(0, 1, 2, 0.25), Piece(2, 0, 1, -3.0)), (3, 4)), (2,), torch.float64, 0)
@settings(deadline=None, max_examples=tries(40))
def test_selection_equals_its_matrix(
    selection: Selection, batch: tuple[int, ...], dtype: torch.dtype, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = selection.shape
    H = torch.tensor(rng.integers(-8, 9, (*batch, columns, 3)), dtype=dtype)  # small integers: sums are exact
    target = torch.tensor(rng.integers(-8, 9, (*batch, rows, 3)), dtype=dtype)
    expected, before = oracle(selection) @ H.double().numpy(), target.double().clone().numpy()
    with Spy() as spy:
        result = selection(H)
        selection.add_to(target, H)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.double().numpy(), expected)
    np.testing.assert_array_equal(target.double().numpy(), before + expected)
    assert not PRODUCTS.intersection(spy.names)
    dense = selection.dense(H)
    assert dense.dtype == dtype
    np.testing.assert_array_equal(dense.double().numpy(), oracle(selection))


def test_reading_one_run_of_rows_shares_memory() -> None:
    H = torch.zeros(4, 2, dtype=torch.float64)
    Selection((Piece(0, 1, 2, 1.0),), (2, 4))(H).fill_(7.0)
    assert H[1:3].eq(7.0).all()


@pytest.mark.parametrize(
    "piece", [Piece(0, 0, 0, 1.0), Piece(-1, 0, 1, 1.0), Piece(0, -1, 1, 1.0), Piece(2, 0, 2, 1.0), Piece(0, 3, 2, 1.0)]
)
def test_pieces_must_fit(piece: Piece) -> None:
    with pytest.raises(ValueError, match=r"^piece \(.*\) does not fit into a map of shape \(3, 4\)$"):
        Selection((piece,), (3, 4))


def test_a_selection_needs_a_piece() -> None:
    with pytest.raises(ValueError, match="at least one piece"):
        Selection((), (3, 4))


def test_selections_compare_by_value() -> None:
    first, second = (Selection((Piece(0, 1, 2, -1.0),), (2, 4)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Selection((Piece(0, 1, 2, -1.0),), (3, 4))
    assert first != Selection((Piece(0, 1, 2, 1.0),), (2, 4))


@pytest.mark.parametrize("trainable", [True, False])
def test_dense_map(trainable: bool) -> None:
    W, H = torch.arange(6.0, dtype=torch.float64).reshape(2, 3), torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    dense = Dense(W, trainable=trainable)
    assert dense.shape == (2, 3)
    assert dense.weight.requires_grad is trainable
    np.testing.assert_array_equal(dense(H).detach().numpy(), W.numpy() @ H.numpy())
    with torch.no_grad():
        target = torch.ones(2, 4, dtype=torch.float64)
        dense.add_to(target, H)
    np.testing.assert_array_equal(target.numpy(), 1.0 + W.numpy() @ H.numpy())
    assert dense.dense(torch.empty(0, dtype=torch.float32)).dtype == torch.float32
