"""Watches which operations torch carries out and how large their results are."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "matmul", "einsum", "dot", "mv", "addmv", "addmm_", "baddbmm_"}


class Spy(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the name of every operation and the shape of every tensor that it returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.append(func.overloadpacket.__name__)
        self.shapes += [tuple(leaf.shape) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        return result
