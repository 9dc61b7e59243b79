"""Linear attention, eq:att of the paper: the sum of heads V H (K H)^T (Q H), each map a selection or a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from tfnewton.checks import boolean, integer, real
from tfnewton.model.maps import Dense, LinearMap

__all__ = ["PLAIN", "AttentionOptions", "Head", "attend"]


@dataclass(frozen=True)
class AttentionOptions:
    """What trained layers do beyond eq:TF; constructions use none of it.

    Args:
        average: divide by the number of keys.
        layer_norm: the epsilon of a LayerNorm, without gain or bias, on what the heads read; None for no LayerNorm.
        query_as_key: whether the last token, the query of a prompt, is among the keys and values.
        clip: bound on the absolute value of the entries of the result; None for no bound.
        rows: first row and number of the rows that LayerNorm and clip are about; None for all.

    Raises TypeError or ValueError for another type, an epsilon or a bound that is not positive, and rows below zero.
    """

    average: bool = False
    layer_norm: float | None = None
    query_as_key: bool = True
    clip: float | None = None
    rows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        boolean("average", self.average)
        boolean("query_as_key", self.query_as_key)
        for name, value in (("layer_norm", self.layer_norm), ("clip", self.clip)):
            if value is not None:
                real(name, value, above=0.0)
        if self.rows is not None:
            if not isinstance(self.rows, (tuple, list)) or len(self.rows) != 2:
                raise TypeError(f"rows = {self.rows!r}: must be the first row and the number of rows")
            first, size = self.rows
            integer("first of rows", first, minimum=0)
            integer("number of rows", size, minimum=1)

    def fits(self, width: int) -> bool:
        """Whether ``rows`` are among ``width`` rows."""
        return self.rows is None or sum(self.rows) <= width


PLAIN = AttentionOptions()


class Head(nn.Module):
    """One head, ``out(value(H) key(H)^T query(H))``; eq. (1) has ``W_V = out value``.

    A map may be replaced by another one, of either kind, at any time.
    """

    out: LinearMap
    value: LinearMap
    key: LinearMap
    query: LinearMap

    def __init__(self, out: LinearMap, value: LinearMap, key: LinearMap, query: LinearMap) -> None:
        super().__init__()
        self.out, self.value, self.key, self.query = out, value, key, query

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Head.__annotations__:
            if not isinstance(value, LinearMap):
                raise TypeError(f"{name} is a {type(value).__name__}: must be a Selection or a Dense map")
            self.__dict__.pop(name, None)  # a map of the other kind stands elsewhere
            self._modules.pop(name, None)
        super().__setattr__(name, value)

    def fits(self, width: int, like: Tensor) -> bool:
        """Whether the maps fit together and into ``width`` rows, and their matrices are of the kind of ``like``."""
        for m in (self.out, self.value, self.key, self.query):
            if isinstance(m, Dense) and not m.matches(like):
                return False
        (rows, inner), value, key, query = self.out.shape, self.value.shape, self.key.shape, self.query.shape
        return (rows, value[1], key[1], query[1]) == (width,) * 4 and (inner, key[0]) == (value[0], query[0])


def attend(heads: Iterable[Head], options: AttentionOptions, H: Tensor, target: Tensor) -> None:
    """Add what ``heads`` make of H to ``target``, in place: a copy of H, or H itself if no gradient is taken."""
    source = H if options.layer_norm is None else _normalised(H, options)
    keys = source if options.query_as_key else source[..., :-1]
    divisor = max(keys.shape[-1], 1) if options.average else 1  # without keys there is nothing to divide
    # every head reads before one writes
    updates = [(group[0].out, _product(group, source, keys)) for group in _sharing(heads)]
    for out, (update, factor) in updates:
        out.add_to(target, update, factor / divisor)
    if options.clip is not None:
        _chosen(target, options).clamp_(-options.clip, options.clip)


def _sharing(heads: Iterable[Head]) -> Iterable[list[Head]]:
    """Return the heads, those with the same output and value map together: their sum is formed before it is written."""
    groups: dict[tuple[int, int], list[Head]] = {}
    for head in heads:
        groups.setdefault((id(head.out), id(head.value)), []).append(head)
    return groups.values()


def _product(heads: list[Head], H: Tensor, keys: Tensor) -> tuple[Tensor, float]:
    """Return a tensor and a number with product ``sum_i V K_i^T Q_i``; no factor is n x n when n > width.

    Queries are read from ``H``, keys and values from ``keys``: H itself, or its tokens without the last. The products
    are taken in the cheaper order; a coefficient of a key or query costs no pass over its rows.
    """
    V = heads[0].value(keys)
    v, n = V.shape[-2:]
    k = 0
    for head in heads:
        k += head.key.shape[0]
    few = n * (v + k) < 2 * v * k and n <= H.shape[-2]  # then the n x n products K_i^T Q_i are the cheaper way
    flat = V.ndim == 2
    times = torch.mm if flat else torch.matmul  # the former starts sooner, and takes no batch axes
    total, factor = V, 0.0
    for head in heads:
        K, a = head.key.factor(keys)
        Q, b = head.query.factor(H)
        left, c = (K.mT if few else times(V, K.mT)), a * b
        if factor == 0.0:
            total, factor = times(left, Q), c
            continue
        if abs(c) > abs(factor):  # the sum is kept in units of the largest coefficient
            total, factor = total.mul_(factor / c), c
        if flat:
            total.addmm_(left, Q, alpha=c / factor)  # saves a pass
        else:
            total.add_(times(left, Q), alpha=c / factor)
    return times(V, total) if few else total, factor


def _chosen(H: Tensor, options: AttentionOptions) -> Tensor:
    return H if options.rows is None else H.narrow(-2, *options.rows)


def _normalised(H: Tensor, options: AttentionOptions) -> Tensor:
    chosen, result = _chosen(H, options), H.clone()
    normalised = nn.functional.layer_norm(chosen.mT, chosen.shape[-2:-1], eps=cast(float, options.layer_norm))
    _chosen(result, options).copy_(normalised.mT)
    return result
