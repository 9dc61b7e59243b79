"""Saved transformers that were damaged, replaced while they are read, or written by the first edition."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.helpers.tries import later
from tfnewton import Transformer
from tfnewton.constructions.logistic_regression import damped_newton
from tfnewton.files import sealed
from tfnewton.learning.conversion import to_transformer
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import generator

HERE = Path(__file__).parent


def trained() -> Transformer:
    options = LinearAttentionOptions(
        layers=1, width=4, heads=2, layer_norm=1e-5, clip=10.0, constant=True, init=0.3, init_out=0.3
    )
    return to_transformer(LinearAttention(options, 2, generator(0, "weights")))


MODELS: dict[str, Callable[[], Transformer]] = {
    "constructed": lambda: damped_newton(1, 2, 1.0, 2, 0.05),
    "dense": lambda: damped_newton(1, 2, 1.0, 1, 0.05).dense(),
    "trained": trained,
}


def damage(data: bytes, chance: random.Random) -> bytes:
    """One of the ways in which a file goes bad: a flipped bit, a zeroed block, a swap, a cut, something added."""
    broken = bytearray(data)
    at = chance.randrange(len(data))
    kind = chance.choice(["bit", "byte", "zeros", "swap", "cut", "added", "inserted"])
    if kind == "bit":
        broken[at] ^= 1 << chance.randrange(8)
    elif kind == "byte":
        broken[at] = (broken[at] + chance.randrange(1, 256)) % 256
    elif kind == "zeros":
        size = chance.choice([1, 64, 4096])
        broken[at : at + size] = bytes(len(broken[at : at + size]))
    elif kind == "swap":
        other = chance.randrange(len(data))
        broken[at], broken[other] = broken[other], broken[at]
    elif kind == "cut":
        del broken[at:]
    elif kind == "added":
        broken += chance.randbytes(chance.randrange(1, 20))
    else:
        broken[at:at] = chance.randbytes(chance.randrange(1, 20))
    return bytes(broken)


@pytest.mark.parametrize("count", [40, *later(200)])
@pytest.mark.parametrize("name", MODELS)
def test_corruptions_are_all_refused(name: str, count: int, tmp_path: Path) -> None:
    MODELS[name]().save(tmp_path / "whole")
    data, chance, tried = (tmp_path / "whole").read_bytes(), random.Random(name), 0
    path = tmp_path / "damaged.safetensors"
    while tried < count:
        broken = damage(data, chance)
        if broken != data:
            path.write_bytes(broken)
            with pytest.raises(ValueError, match=r"damaged\.safetensors: "):
                Transformer.load(path)
            tried += 1


def test_the_bits_of_every_kind_of_weight_are_held_by_the_checksum(tmp_path: Path) -> None:
    """Tensors changed behind the back of the description: finite, of the same shape, and refused all the same."""
    path = tmp_path / "m.safetensors"
    for make in MODELS.values():
        make().save(path)
        text = json.loads(path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")])["__metadata__"]
        tensors = load_file(path)
        for name in {re.sub(r"\d+", "", name): name for name in tensors}.values():  # the last of each kind
            other = {**tensors, name: tensors[name] * 1.0000001}
            save_file(other, path, metadata=text)
            with pytest.raises(ValueError, match="its checksum does not fit"):
                Transformer.load(path)


Edit = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]
INVALID: dict[str, Edit] = {
    "NaN weight": lambda d, t: t["layers.0.relu.0.inner"].view(-1)[0:1].fill_(torch.nan),
    "infinite weight": lambda d, t: t["layers.1.heads.0.out"].view(-1)[0:1].fill_(torch.inf),
    "clip below zero": lambda d, t: d["layers"][1]["options"].update(clip=-1.0),
    "clip is a string": lambda d, t: d["layers"][1]["options"].update(clip="1"),
    "layer_norm below zero": lambda d, t: d["layers"][1]["options"].update(layer_norm=-5.0),
    "layer_norm is zero": lambda d, t: d["layers"][1]["options"].update(layer_norm=0.0),
    "average is a number": lambda d, t: d["layers"][1]["options"].update(average=1),
    "rows outside": lambda d, t: d["layers"][1]["options"].update(rows=[4, 40]),
    "rows below zero": lambda d, t: d["layers"][1]["options"].update(rows=[-1, 2]),
    "unknown option": lambda d, t: d["layers"][1]["options"].update(dropout=0.1),
    "size is a string": lambda d, t: d["blocks"].update(x="2"),
    "size of the format": lambda d, t: d["packing"]["sizes"].update(d=0),
    "tokens without an input": lambda d, t: d["packing"].update(tokens="m"),
    "constant of no kind": lambda d, t: d["packing"]["constants"].update(one="twos"),
    "axes of an input": lambda d, t: d["packing"]["inputs"][1].update(shape=["n", "d"]),
    "axes of an output": lambda d, t: d["packing"]["outputs"][0].update(shape=["n"]),
    "largest norm": lambda d, t: d["packing"]["inputs"][0].update(largest_norm=-1.0),
    "step of zero": lambda d, t: d["packing"]["inputs"][0].update(step={"name": "s", "step": 0.0, "power": 1}),
    "trainable is a string": lambda d, t: d["layers"][1]["heads"][0][0].update(trainable="no"),
    "a map of both kinds": lambda d, t: d["layers"][1]["heads"][0][0].update(pieces=[[0, 0, 1, 1.0]]),
    "half precision": lambda d, t: t.update({"layers.1.heads.0.out": t["layers.1.heads.0.out"].half()}),
    "a layer left out": lambda d, t: d.update(order=[0]),
    "unknown field of an input": lambda d, t: d["packing"]["inputs"][0].update(colour="blue"),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_no_constructor_accepts_does_not_load(name: str, tmp_path: Path) -> None:
    path = tmp_path / "edited.safetensors"
    trained().save(path)
    data = path.read_bytes()
    text = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["tfnewton"]
    description, tensors = json.loads(text.partition(" ")[2]), load_file(path)
    for edit in (lambda d, t: None, INVALID[name]):
        edit(description, tensors)
        save_file(tensors, path, metadata={"tfnewton": sealed(tensors, json.dumps(description))})
        if edit is not INVALID[name]:
            assert Transformer.load(path).depth == 2  # the same tools, without the edit
    with pytest.raises(ValueError, match=r"edited\.safetensors: the description of the transformer is not valid: "):
        Transformer.load(path)


@pytest.mark.parametrize("kind", ["constructed", "trained"])
def test_files_of_the_first_edition_load_and_predict_the_same(kind: str, tmp_path: Path) -> None:
    """Written, with their results, by the package before its files had checksums."""
    stored = {k: np.array(v) for k, v in json.loads((HERE / "first_edition.json").read_text())[kind].items()}
    model = Transformer.load(HERE / f"first_edition_{kind}.safetensors")
    np.testing.assert_allclose(model(stored["H"]), stored["result"], rtol=1e-12, atol=1e-13)
    model.save(tmp_path / "again")
    np.testing.assert_array_equal(Transformer.load(tmp_path / "again")(stored["H"]), model(stored["H"]))


SAVE = """
import os, sys
from tfnewton.constructions.inversion import newton_schulz
small, large = newton_schulz(2, 3), newton_schulz(40, 2).dense()
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    small.save(sys.argv[1])
    large.save(sys.argv[1])
"""


@pytest.mark.parametrize(
    "loads", [pytest.param(100, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.long)]
)
def test_loading_while_three_processes_save(tmp_path: Path, loads: int) -> None:
    path, stop = tmp_path / "m.safetensors", tmp_path / "stop"
    command = [sys.executable, "-c", SAVE, str(path), str(stop)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        while not path.exists():
            time.sleep(0.01)
        depths = {Transformer.load(path).depth for _ in range(loads)}
    finally:
        stop.touch()
        for writer in writers:
            writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert depths <= {4, 6}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m.safetensors", "stop"]
