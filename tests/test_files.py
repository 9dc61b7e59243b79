"""Seals fit one set of tensors and one text, and what is written and read again is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.helpers.tries import tries
from tfnewton.files import checked_text, read_tensors, sealed, tensors_to_bytes

DTYPES = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16])
SHAPES = st.lists(st.integers(0, 3), max_size=3)


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Tensor]:
    names = draw(st.lists(st.text("ab.", min_size=1, max_size=4), unique=True, max_size=3))
    return {name: torch.arange(64)[: draw(st.integers(0, 5))].to(draw(DTYPES)) for name in names}


@given(tensors(), st.text(max_size=20))
@settings(deadline=None, max_examples=tries(30))
def test_what_is_sealed_comes_back(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, Tensor], text: str
) -> None:
    path = tmp_path_factory.mktemp("files") / "f"
    path.write_bytes(tensors_to_bytes(held, "key", sealed(held, text)))
    found, seal = read_tensors(path, "key")
    assert checked_text(path, found, seal) == text
    assert set(found) == set(held)
    for name, tensor in held.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


HELD = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, 3), "c": torch.zeros(0)}
CHANGES: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "two names": lambda t: t.update(a=t["b"], b=t["a"]),
    "another name": lambda t: t.update(d=t.pop("a")),
    "a name, in the same order": lambda t: t.update(d=t.pop("c")),
    "one more": lambda t: t.update(d=torch.zeros(0)),
    "one less": lambda t: t.pop("c"),
    "a value": lambda t: t.update(b=t["b"] * (1 + 2**-23)),
    "the sign of zero": lambda t: t.update(a=torch.where(t["a"] == 0.0, -0.0, t["a"])),
    "the shape": lambda t: t.update(a=t["a"].reshape(3, 2)),
    "the order of rows": lambda t: t.update(a=t["a"].flip(0)),
    "the dtype": lambda t: t.update(a=t["a"].view(torch.int32)),
    "the dtype of nothing": lambda t: t.update(c=torch.zeros(0, dtype=torch.float64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_seal_fits_nothing_else(change: str) -> None:
    seal, other = sealed(HELD, "the text"), dict(HELD)
    assert checked_text(Path("f"), {name: tensor.clone() for name, tensor in reversed(HELD.items())}, seal)
    CHANGES[change](other)
    with pytest.raises(ValueError, match=r"^f: edited or damaged, its checksum does not fit$"):
        checked_text(Path("f"), other, seal)


@pytest.mark.parametrize("other", ["the texT", "the text ", "", "the"])
def test_a_seal_fits_no_other_text(other: str) -> None:
    digest = sealed(HELD, "the text").partition(" ")[0]
    assert len(digest) == 64
    with pytest.raises(ValueError, match="its checksum does not fit"):
        checked_text(Path("f"), HELD, f"{digest} {other}")
