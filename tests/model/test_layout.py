"""Blocks, products and writes say what they compute, and refuse what they cannot mean."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from tfnewton.model.attention import AttentionOptions
from tfnewton.model.feed_forward import erase
from tfnewton.model.layout import Block, Layout, stack
from tfnewton.model.maps import Selection
from tfnewton.model.packing import Input, Output, Packing, StepBound
from tfnewton.model.transformer import Frame


@pytest.fixture
def layout() -> Layout:
    return Layout(X=3, A_T=3, y=1)


def test_blocks_lie_below_one_another(layout: Layout) -> None:
    assert layout.width == 7
    assert layout.sizes == {"X": 3, "A_T": 3, "y": 1}
    assert [(block.name, block.start, block.size) for block in layout.blocks] == [
        ("X", 0, 3),
        ("A_T", 3, 3),
        ("y", 6, 1),
    ]
    assert layout["A_T"] == layout.blocks[1]
    assert repr(layout) == "Layout(X=3, A_T=3, y=1)"


def test_unknown_block_is_named(layout: Layout) -> None:
    with pytest.raises(KeyError, match="no block 'Z': the blocks are X, A_T, y"):
        layout["Z"]


@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-2, ValueError), (2.0, TypeError), (True, TypeError), ("2", TypeError)]
)
def test_sizes_are_positive_integers(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^size of block X = .*at least 1$"):
        Layout(X=size)


def test_a_layout_needs_a_block() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        Layout()


@pytest.mark.parametrize(
    ("index", "name", "start", "size"),
    [
        (0, "X[0]", 0, 1),
        (2, "X[2]", 2, 1),
        (-1, "X[-1]", 2, 1),
        (slice(1, 3), "X[1:3]", 1, 2),
        (slice(None, -1), "X[0:2]", 0, 2),
    ],
)
def test_some_rows_of_a_block(layout: Layout, index: int | slice, name: str, start: int, size: int) -> None:
    assert layout["X"][index] == Block(name, start, size)
    assert layout["A_T"][index].start == 3 + start


@pytest.mark.parametrize("index", [3, -4, slice(2, 2), slice(0, 3, 2), slice(None, None, -1)])
def test_rows_outside_a_block_are_refused(layout: Layout, index: int | slice) -> None:
    with pytest.raises(IndexError, match=r"^X\[.*must select at least one of its 3 rows, in order$"):
        layout["X"][index]


def test_products_print_as_they_are_written(layout: Layout) -> None:
    X, A_T, y = layout.blocks
    assert str(X.add(-X @ A_T.T @ X)) == "X += -X · A_T^T · X"
    assert str(X.add((X - 0.5 * A_T) @ y.T @ (2.0 * y))) == "X += X-0.5 A_T · y^T · 2 y"
    assert str(y.add(y @ stack(X, y).T @ stack(A_T, -y))) == "y += y · (X; y)^T · (A_T; -y)"


def test_linear_combinations(layout: Layout) -> None:
    X, A_T, _ = layout.blocks
    assert (3.0 * (X - 2.0 * A_T)).parts == (((3.0, X), (-6.0, A_T)),)
    assert (-X + A_T).parts == (((-1.0, X), (1.0, A_T)),)
    assert stack(X, A_T + X).sizes == (3, 3)
    assert (stack(X, A_T) - stack(A_T, X)).parts == (((1.0, X), (-1.0, A_T)), ((1.0, A_T), (-1.0, X)))


def test_sizes_must_agree(layout: Layout) -> None:
    X, A_T, y = layout.blocks
    with pytest.raises(ValueError, match=r"cannot add rows of sizes \(3,\) and \(1,\)"):
        X + y
    with pytest.raises(ValueError, match="key y has 1 rows, query X has 3"):
        X @ y.T @ X
    with pytest.raises(ValueError, match="X has 3 rows, the value y has 1"):
        X.add(y @ X.T @ A_T)


def test_a_head_is_value_key_transposed_query(layout: Layout) -> None:
    X, A_T, _ = layout.blocks
    untyped: Any = A_T
    with pytest.raises(TypeError, match=r"^cannot multiply X by A_T: a head is value @ key\.T @ query$"):
        X @ untyped @ X
    query: Any = X.T
    with pytest.raises(TypeError, match=r"^cannot multiply X @ A_T\.T by .*: a head is value @ key\.T @ query$"):
        X @ A_T.T @ query
    incomplete: Any = X @ A_T.T
    with pytest.raises(TypeError, match=r"^X\.add: must be value @ key.T @ query"):
        X.add(incomplete)


def test_descriptions_are_never_changed() -> None:
    """They are compared, shared and looked up by their content; only the modules of a transformer are edited."""
    X, A_T, _ = Layout(X=2, A_T=2, y=1).blocks
    write = X.add(X @ A_T.T @ X)
    bound = StepBound("step_size", 0.1, 2)
    entry = Input(name="A", shape=("n", "d"), block="X", place="matrix")
    out = Output(name="A", shape=("n", "d"), block="X", place="matrix")
    described: list[Any] = [
        *(X, X.rows, X.T, X @ A_T.T, write.product, write, bound, entry, out),
        Packing(sizes={"d": 2}, tokens="n", inputs=(entry,), constants={}, outputs=(out,)),
        *(Selection.identity(2), AttentionOptions(), Frame("input", {}, ()), erase(X)[0]),
    ]
    for of in described:
        for field in fields(of):
            with pytest.raises(FrozenInstanceError):
                setattr(of, field.name, None)
