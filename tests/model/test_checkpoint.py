"""Saved transformers come back bit for bit; damaged, foreign and edited files are refused by name."""

from __future__ import annotations

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tfnewton import Transformer
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.files import sealed
from tfnewton.model.layers import AttentionOptions, Layer, ReLU, attention
from tfnewton.model.layout import Layout


def with_relu() -> Transformer:
    rng = np.random.default_rng(0)
    layout = Layout(X=2, s=1)
    X, s = layout.blocks
    W1, W2 = (torch.tensor(rng.standard_normal(shape)) for shape in ((5, 3), (3, 5)))
    relu = ReLU.dense(W1, W2, trainable=False)
    return Transformer(layout, [attention(layout, s.add(s @ X.T @ X), relu=relu, label="s <- s + s X^T X, relu")])


def with_options() -> Transformer:
    options = AttentionOptions(average=True, layer_norm=1e-5, query_as_key=False, clip=0.5)
    layer = with_relu().layers[0]
    return Transformer(Layout(X=2, s=1), [Layer(layer.heads, layer.relu, "trained", options)]).dense()


MODELS: dict[str, Callable[[], Transformer]] = {
    "inversion": lambda: newton_schulz(3, 4),
    "symmetric": lambda: newton_schulz(3, 2, symmetric=True),
    "least squares": lambda: least_squares(2, 3, 0.1 + 0.2, ridge=1 / 3),
    "gradient descent": lambda: gradient_descent(2, 5, 0.1),
    "no steps": lambda: newton_schulz(2, 0),
    "dense": lambda: least_squares(2, 2, 1 / 3).dense(),
    "single precision": lambda: newton_schulz(3, 2).dense().to(torch.float32),
    "relu": with_relu,
    "options": with_options,
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_saved_comes_back(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path = tmp_path / "model.safetensors"
    model.save(str(path))
    loaded = Transformer.load(str(path))
    kind = np.float32 if model.dtype == torch.float32 else np.float64
    H = np.random.default_rng(0).standard_normal((2, model.width, 4)).astype(kind)
    np.testing.assert_array_equal(loaded(H), model(H))
    assert loaded.packing == model.packing
    assert loaded.layout.sizes == model.layout.sizes
    assert (loaded.depth, loaded.heads, loaded.width, loaded.relu_width, loaded.dtype) == (
        (model.depth, model.heads, model.width, model.relu_width, model.dtype)
    )
    assert [layer.label for layer in loaded.layers] == [layer.label for layer in model.layers]
    assert [layer.options for layer in loaded.layers] == [layer.options for layer in model.layers]
    assert len(set(loaded.layers)) == len(set(model.layers))  # shared layers are shared again
    for ours, theirs in zip(model.layers, loaded.layers, strict=True):
        for head, other in zip(ours.weights(), theirs.weights(), strict=True):
            assert all(torch.equal(head[key], other[key]) for key in head)
    assert [p.requires_grad for p in loaded.parameters()] == [p.requires_grad for p in model.parameters()]
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_input_format_works_after_loading(tmp_path: Path) -> None:
    least_squares(2, 30, 0.01).save(tmp_path / "m")
    model = Transformer.load(tmp_path / "m")
    A, a = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    H = model.pack(A=A, y=A @ [2.0, 3.0], a_test=a)
    assert model.unpack(model(H))["y_hat"] == pytest.approx(-1.0, abs=1e-12)
    with pytest.raises(ValueError, match="step_size"):
        model.pack(10 * A, np.ones(3), a)


def test_loading_needs_no_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newton_schulz(2).dense().save(tmp_path / "m")

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert Transformer.load(tmp_path / "m").depth == 2


def test_only_two_precisions_are_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^dtype = torch.float16: only float32 and float64 can be saved$"):
        newton_schulz(2).to(torch.float16).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors: no such file$"):
        Transformer.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Transformer.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"m\.safetensors: the folder does not exist$"):
        newton_schulz(2).save(tmp_path / "nowhere" / "m.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -8, -1])
def test_truncated_files_are_refused(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    newton_schulz(2).dense().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"cut\.safetensors: not a readable safetensors file"):
        Transformer.load(path)


@pytest.mark.parametrize("content", [b"hello", b"\x80\x04K\x01.", b"PK\x03\x04" * 20, b"\xff" * 64, b"{}" * 50])
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign\.safetensors: not a readable safetensors file"):
        Transformer.load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_other_safetensors_files_are_refused(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"other\.safetensors: a safetensors file, but its metadata has no 'tfnewton'"):
        Transformer.load(path)


Edit = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]
EDITS: dict[str, Edit] = {
    "version": lambda d, t: d.update(version=3),
    "version of the first edition": lambda d, t: d.update(version=1),
    "unknown field": lambda d, t: d.update(extra=1),
    "missing field": lambda d, t: d.pop("blocks"),
    "dtype": lambda d, t: d.update(dtype="float16"),
    "block of size zero": lambda d, t: d["blocks"].update(X=0),
    "block too large": lambda d, t: d["blocks"].update(X=3),
    "no blocks": lambda d, t: d.update(blocks={}),
    "layer that is not there": lambda d, t: d.update(order=[0, 7]),
    "negative layer": lambda d, t: d.update(order=[-1]),
    "tensor that is not there": lambda d, t: t.pop("layers.0.heads.0.key"),
    "tensor that is not used": lambda d, t: t.update(more=torch.zeros(1)),
    "tensor of another shape": lambda d, t: t.update({"layers.0.heads.0.key": torch.zeros(2, 3)}),
    "tensor of integers": lambda d, t: t.update({"layers.0.heads.0.key": torch.zeros(2, 8, dtype=torch.int64)}),
    "shape": lambda d, t: d["layers"][0]["heads"][0][2].update(shape=[3, 8]),
    "map without content": lambda d, t: d["layers"][0]["heads"][0][2].update(tensor=None),
    "key and query of different heights": lambda d, t: (
        d["layers"][0]["heads"][0][2].update(shape=[1, 8]),
        t.update({"layers.0.heads.0.key": torch.zeros(1, 8, dtype=torch.float64)}),
    ),
    "head of three maps": lambda d, t: d["layers"][0]["heads"][0].pop(),
    "input into a block that is not there": lambda d, t: d["packing"]["inputs"][0].update(block="Z"),
    "constant in a block that is not there": lambda d, t: d["packing"]["constants"].update(Z="identity"),
    "output from a block that is not there": lambda d, t: d["packing"]["outputs"][0].update(block="Z"),
    "place": lambda d, t: d["packing"]["inputs"][0].update(place="diagonal"),
}


def edited(path: Path, edit: Edit) -> None:
    """Rewrite a saved transformer with one thing changed."""
    with safe_open(path, framework="pt") as handle:
        description = json.loads(handle.metadata()["tfnewton"].partition(" ")[2])
        tensors = {name: handle.get_tensor(name) for name in list(handle.keys())}
    edit(description, tensors)
    save_file(tensors, path, metadata={"tfnewton": sealed(tensors, json.dumps(description))})  # by one who knows how


@pytest.mark.parametrize("name", EDITS)
def test_edited_files_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "edited.safetensors"
    newton_schulz(2).dense().save(path)
    edited(path, lambda d, t: None)
    assert Transformer.load(path).depth == 2
    edited(path, EDITS[name])
    with pytest.raises(ValueError, match=r"edited\.safetensors: the description of the transformer is not valid: "):
        Transformer.load(path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda d, t: d["layers"][0]["heads"][0][2]["pieces"][0].__setitem__(1, 7),
        lambda d, t: d["layers"][0]["heads"][0][2].update(pieces=[]),
        lambda d, t: d["layers"][0]["heads"][0][2]["pieces"][0].pop(),
        lambda d, t: d["layers"][0]["heads"][0][2]["pieces"][0].__setitem__(3, "x"),
    ],
)
def test_edited_selections_are_refused(edit: Edit, tmp_path: Path) -> None:
    path = tmp_path / "edited.safetensors"
    newton_schulz(2).save(path)
    edited(path, edit)
    with pytest.raises(ValueError, match=r"edited\.safetensors: the description of the transformer is not valid: "):
        Transformer.load(path)


@pytest.mark.parametrize("metadata", ["", "[]", "null", "{", "1"])
def test_metadata_that_is_no_description(metadata: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file({}, path, metadata={"tfnewton": sealed({}, metadata)})
    with pytest.raises(ValueError, match=r"m\.safetensors: the description of the transformer is not valid: "):
        Transformer.load(path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("interruption", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file(
    step: str, interruption: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    newton_schulz(2, 3).save(path)
    before = path.read_bytes()

    def interrupt(*args: object) -> NoReturn:
        raise interruption

    monkeypatch.setattr({"fsync": os, "replace": Path}[step], step, interrupt)
    with pytest.raises(type(interruption)):
        newton_schulz(4, 5).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.safetensors"]


@pytest.mark.slow
def test_a_killed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    newton_schulz(2, 3).save(path)
    before = path.read_bytes()
    script = (
        "import os, signal, sys; from tfnewton.constructions.inversion import newton_schulz\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "newton_schulz(4, 5).dense().save(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert Transformer.load(path).depth == 6


def test_a_saved_file_has_ordinary_permissions(tmp_path: Path) -> None:
    newton_schulz(2).save(tmp_path / "m")
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_saving_follows_a_link_and_leaves_the_umask_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "m")
    before = os.umask(0o077)
    try:
        newton_schulz(2).save(link)
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "elsewhere" / "m").stat().st_mode) == 0o600
    newton_schulz(2).save(tmp_path / ("n" * 250))
    assert Transformer.load(tmp_path / ("n" * 250)).depth == 2
