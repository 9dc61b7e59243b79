"""The heads that a student hands in, as matrices: what they compute is found out here, and not by calling them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grading.marks import observe
from grading.trials import Real
from tfnewton import Transformer
from tfnewton.model.attention import PLAIN
from tfnewton.model.feed_forward import UnitGroup
from tfnewton.model.layers import Head, Layer
from tfnewton.model.maps import Dense, Selection

__all__ = ["Matrices", "layer_of", "layers_of", "run", "units_of"]


class Matrices(NamedTuple):
    """W_V, W_K and W_Q of a head, (D, D), (k, D) and (k, D)."""

    value: Real
    key: Real
    query: Real


def layers_of(model: object, layout: dict[str, int]) -> list[list[Matrices]]:
    """Return the heads of each layer of a submitted transformer, which must have these blocks."""
    observe(type(model) is Transformer, f"what came back is a {type(model).__name__}, not a Transformer")
    assert isinstance(model, Transformer)
    sizes = model.layout.sizes
    observe(list(sizes.items()) == list(layout.items()), f"the layout is {sizes}, asked for was {layout}")
    return [layer_of(layer, model.layout.width) for layer in model.layers]


def layer_of(layer: object, width: int, units: bool = False) -> list[Matrices]:
    """Return the heads of a submitted layer: plain attention of the package, with ``width`` rows, and nothing else.

    With ``units`` it may have ReLU units as well, for ``units_of`` to read.
    """
    observe(type(layer) is Layer, f"what came back is a {type(layer).__name__}, not a Layer")
    assert isinstance(layer, Layer)
    observe(layer.options == PLAIN, "the layer has options that linear attention has not")
    observe(units or layer.relu is None, "the layer has ReLU units")
    found = []
    for head in layer.heads:
        observe(type(head) is Head, f"a head is a {type(head).__name__}, not a Head")
        out, value, key, query = (_matrix(m) for m in (head.out, head.value, head.key, head.query))
        observe(
            (out.shape[0], value.shape[1], key.shape[1], query.shape[1]) == (width,) * 4,
            f"a head is not made for {width} rows",
        )
        found.append(Matrices(out @ value, key, query))
    return found


def units_of(layer: object, width: int) -> tuple[Real, Real]:
    """Return W_1, (units, width), and W_2, (width, units), of a submitted layer of the package, as matrices."""
    assert isinstance(layer, Layer)
    first, second = [np.zeros((0, width))], [np.zeros((width, 0))]
    for group in () if layer.relu is None else layer.relu.groups:
        observe(type(group) is UnitGroup, f"a group of ReLU units is a {type(group).__name__}")
        read, inner, outer, write = (_matrix(m) for m in (group.read, group.inner, group.outer, group.write))
        observe(read.shape[1] == write.shape[0] == width, f"a group of ReLU units is not made for {width} rows")
        first.append(inner @ read)
        second.append(write @ outer)
    return np.concatenate(first), np.concatenate(second, axis=1)


def _matrix(m: object) -> Real:
    if type(m) is Dense:
        return np.array(m.weight.detach().numpy(), dtype=float)
    observe(type(m) is Selection, f"a map of a head is a {type(m).__name__}, not a selection or a matrix")
    assert isinstance(m, Selection)
    matrix = np.zeros(m.shape)
    for out, start, size, coefficient in m.pieces:
        matrix[out : out + size, start : start + size] += coefficient * np.eye(size)
    return matrix


def run(layers: list[list[Matrices]], H: Real) -> Real:
    """Return H, (D, n), after these layers, by the formula of chapter 1 and in the precision of H."""
    for heads in layers:
        small = [[W.astype(H.dtype) for W in head] for head in heads]
        H = H + sum((V @ H @ ((K @ H).T @ (Q @ H)) for V, K, Q in small), np.zeros_like(H))
    return H
