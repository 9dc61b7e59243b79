"""Exact factors of two: what does not depend on the scale of the data on paper need not in floating point either."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tfnewton.checks import finite, real

__all__ = [
    "admissible_step",
    "common_exponent",
    "exponent",
    "normal_exponent",
    "normal_matrix",
    "normal_ridge",
    "rescaled",
    "times_two_to",
]


def exponent(array: Tensor, axes: int) -> Tensor:
    """Return k, one for each entry of the batch, with the largest absolute value in [2^(k-1), 2^k); 0 where all is 0.

    The last ``axes`` axes of ``array`` are no batch.
    """
    return torch.frexp(_largest(array, axes)).exponent


def common_exponent(*exponents: tuple[Tensor, Tensor]) -> Tensor:
    """Return the largest of the exponents; each comes with the array that it is of, and counts where that is not 0."""
    lowest = -(2**20)
    counted = [torch.where(present, k, lowest) for present, k in exponents]
    top = counted[0]
    for other in counted[1:]:
        top = torch.maximum(top, other)
    return torch.where(top == lowest, 0, top)


def _largest(array: Tensor, axes: int) -> Tensor:
    size = array.detach().abs()
    return size.flatten(-axes).amax(dim=-1) if axes else size


def times_two_to(array: Tensor, k: Tensor | int, axes: int = 0) -> Tensor:
    """Return array · 2^k, exact unless the result leaves the dtype's range; k has the batch axes of ``array``."""
    if isinstance(k, int):
        part = int(k / 3)  # 2^k itself may be out of range where the result is not
        return array if k == 0 else array * 2.0**part * 2.0**part * 2.0 ** (k - 2 * part)
    powers = torch.as_tensor(k, device=array.device)[(..., *[None] * axes)]
    third = torch.div(powers, 3, rounding_mode="trunc")
    for powers_of_two in (third, third, powers - 2 * third):
        array = array * torch.exp2(powers_of_two.double()).to(array.dtype)
    return array


def rescaled(name: str, array: Tensor, k: Tensor | int, axes: int, remedy: str) -> Tensor:
    """Return array · 2^k, the result of a computation; ValueError where float cannot hold it."""
    result = finite(name, times_two_to(array, k, axes), remedy)
    largest, before = (_largest(values, axes) for values in (result, array.expand(result.shape)))
    tiny = torch.finfo(result.dtype).tiny  # what is as small as its root before is zero but for roundoff
    if ((largest < tiny) & (before > tiny**0.5)).any():  # each entry of the batch for itself
        raise ValueError(f"{name} is below the smallest normal number of {result.dtype}: {remedy}")
    return result


def normal_exponent(A: Tensor, ridge: float) -> Tensor:
    """Return k, one for each matrix of the batch, for which A 2^-k and ridge 4^-k are near one or below it."""
    k = exponent(A, 2)
    return k if ridge == 0.0 else k.clamp(min=math.frexp(math.sqrt(ridge))[1])


def normal_ridge(ridge: float, k: Tensor, like: Tensor) -> Tensor:
    """Return ridge 4^-k, one for each entry of the batch, in the dtype and on the device of ``like``."""
    return times_two_to(torch.full(k.shape, ridge, dtype=torch.float64, device=like.device), -2 * k).to(like)


def normal_matrix(unit: Tensor, ridge: float, k: Tensor) -> Tensor:
    """Return R 4^-k, (d, d), for R = A^T A + ridge I and ``unit`` = A 2^-k, (n, d)."""
    penalty = normal_ridge(ridge, k, unit)[..., None, None]
    return unit.mT @ unit + penalty * torch.eye(unit.shape[-1], dtype=unit.dtype, device=unit.device)


def admissible_step(name: str, value: float, R: Tensor, k: Tensor, power: int, matrix: str) -> Tensor:
    """Return the step 4^(k power), one for each R 4^-k of the batch, as the iteration on that matrix takes it.

    ``matrix`` is how R is called. Raises TypeError or ValueError outside (0, 2/lambda_max(R)^power).
    """
    step = real(name, value, above=0.0)
    top = torch.linalg.eigvalsh(R.double())[..., -1].clamp(min=0.0)
    scaled = times_two_to(torch.full(top.shape, step, dtype=torch.float64, device=R.device), 2 * power * k)
    if not (scaled * top**power < 2.0).all():
        limit = times_two_to(2.0 / top**power, -2 * power * k).min().item()
        exponent_text = "" if power == 1 else f"^{power}"
        raise ValueError(
            f"{name} = {step:g}: must lie in (0, 2/lambda_max{exponent_text}) = (0, {limit:.4g}) for these data, "
            f"whose lambda_max({matrix}) is {times_two_to(top, 2 * k).max().item():.4g}"
        )
    if (scaled < torch.finfo(R.dtype).tiny).any():
        raise ValueError(f"{name} = {step:g}: must be larger for data so small, it vanishes beside 2/lambda_max")
    return scaled.to(R)
