"""A least squares problem as the algorithms compute with it: scaled by powers of two, exactly."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tfnewton.checks import Array, batch, real, tensor
from tfnewton.scaling import common_exponent, exponent, normal_exponent, rescaled, times_two_to

__all__ = ["Problem", "apply", "in_units", "scaled_problem"]


class Problem(NamedTuple):
    """The data over powers of two that bring them near one: A 2^-k, y 2^-m and w0 2^(k-m)."""

    A: Tensor
    y: Tensor
    start: Tensor
    scale: Tensor  # k
    target_scale: Tensor  # m

    def weights(self, w: Tensor) -> Tensor:
        """Return w for the data as they were given."""
        return rescaled("w", w, self.target_scale - self.scale, 1, "A and y must not differ so much in scale")


def scaled_problem(A: Array, y: Array, ridge: float, w0: Array | None = None) -> Problem:
    """Return the problem of these data; TypeError or ValueError where they do not fit, or n < d without a ridge."""
    sizes: dict[str, int] = {}
    data = tensor("A", A, ("n", "d"), sizes)
    dtype, device = data.dtype, data.device
    target = tensor("y", y, ("n",), sizes, dtype=dtype, device=device)
    if sizes["n"] < sizes["d"] and ridge == 0.0:
        raise ValueError(
            f"A has n = {sizes['n']} rows and d = {sizes['d']} columns: must have n >= d, or a ridge above 0"
        )
    start = data.new_zeros(sizes["d"]) if w0 is None else tensor("w0", w0, ("d",), sizes, dtype=dtype, device=device)
    batch(A=data.shape[:-2], y=target.shape[:-1], w0=start.shape[:-1])
    k = normal_exponent(data, ridge)
    present = (target != 0).any(dim=-1), (start != 0).any(dim=-1)
    m = common_exponent((present[0], exponent(target, 1)), (present[1], exponent(start, 1) + k))
    unit, unit_target = times_two_to(data, -k, 2), times_two_to(target, -m, 1)
    return Problem(unit, unit_target, times_two_to(start, k - m, 1), k, m)


def apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the product of each matrix of a batch and its vector."""
    return (vector[..., None, :] @ matrix.mT)[..., 0, :]  # rows: many vectors and one matrix are a single product


def in_units(p: Problem, name: str, value: float) -> Tensor:
    """Return ``value``, one over an eigenvalue of A^T A, as the scaled data take it, (1,) with the batch axes of A."""
    given = torch.full(p.scale.shape, real(name, value), dtype=torch.float64, device=p.A.device)
    return times_two_to(given, 2 * p.scale).to(p.A)[..., None]
