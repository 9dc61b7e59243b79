"""Refusals that name the parameter, the value and what is allowed, before any compute."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch

Array: TypeAlias = np.ndarray | torch.Tensor
Shape: TypeAlias = Sequence[str | int]

__all__ = ["Array", "batch", "boolean", "choice", "finite", "integer", "like", "plain", "real", "tensor"]


def boolean(name: str, value: object) -> bool:
    """Return ``value`` as a bool; a string or a number, which would pass for one, is refused (TypeError)."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return bool(value)


def integer(name: str, value: object, *, minimum: int) -> int:
    """Return ``value`` as an int of at least ``minimum``; a bool, float or string is refused (TypeError)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} = {value!r}: must be an integer, at least {minimum}")
    if value < minimum:
        raise ValueError(f"{name} = {value}: must be at least {minimum}")
    return int(value)


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    minimum: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
) -> float:
    """Return ``value`` as a finite float inside the stated range (``above``/``below`` exclude the end)."""
    ends = [(above, "above"), (minimum, "at least"), (below, "below"), (maximum, "at most")]
    allowed = " and ".join(["a finite number", *(f"{word} {end:g}" for end, word in ends if end is not None)])
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} = {value!r}: must be {allowed}")
    try:
        number = float(value)
    except OverflowError:  # an int or fraction beyond float64
        number = math.inf
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (minimum is None or number >= minimum)
        and (below is None or number < below)
        and (maximum is None or number <= maximum)
    )
    if not inside:
        raise ValueError(f"{name} = {value}: must be {allowed}")
    return number


def finite(name: str, result: torch.Tensor, remedy: str) -> torch.Tensor:
    """Return ``result``; where a computation left the range of its dtype, ValueError says what to change."""
    if not torch.isfinite(result).all():
        raise ValueError(f"{name} contains NaN or infinity as {result.dtype}: {remedy}")
    return result


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed`` (ValueError otherwise)."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(repr, allowed))}")
    return value


def tensor(
    name: str,
    value: object,
    shape: Shape,
    sizes: dict[str, int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> torch.Tensor:
    """Return a real, finite array as a tensor whose last axes have ``shape``; leading axes are a batch.

    ``shape`` names its axes: a number is required as it stands, a letter is looked up in ``sizes`` and,
    where not there yet, entered, so that ``("n", "d")`` for A fixes ``n`` for the ``("n",)`` of y.
    float32 and float64 are kept unless ``dtype`` is given, every other real dtype becomes float64.

    Raises TypeError for anything that is not a plain real array, ValueError for a wrong shape, NaN or infinity.
    """
    sizes = {} if sizes is None else sizes
    plain(name, value)
    result = value if isinstance(value, torch.Tensor) else torch.as_tensor(_numpy(name, value))
    if result.is_complex() or result.dtype == torch.bool:
        raise TypeError(f"{name} has dtype {result.dtype}: must be an array of real numbers")
    if dtype is None:
        dtype = result.dtype if result.dtype == torch.float32 else torch.float64
    _check_shape(name, tuple(result.shape), shape, sizes)
    result = result.to(dtype=dtype, device=device)
    if not torch.isfinite(result).all():  # after the conversion: 1e300 is infinite in float32
        raise ValueError(f"{name} contains NaN or infinity as {dtype}: every entry must be finite")
    return result


def plain(name: str, value: object) -> None:
    """Refuse, by TypeError, arrays whose entries are not all there: masked, sparse, nested, quantised or on no device.

    Lists are searched for such arrays, since a conversion drops their masks.
    """
    if isinstance(value, (list, tuple)):
        for entry in value:
            if not isinstance(entry, (int, float)):
                plain(name, entry)
    elif isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: must be a plain array, take out or fill what is masked")
    elif isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_nested or value.is_quantized or value.is_meta:
            kind = "without data" if value.is_meta else "sparse, nested or quantised"
            raise TypeError(f"{name} is a tensor that is {kind}: must be an ordinary dense one")
        if isinstance(value, torch.masked.MaskedTensor):
            raise TypeError(f"{name} is a masked tensor: must be a plain one, take out or fill what is masked")


def _numpy(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name} is ragged: must be an array of real numbers") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}: must be an array of real numbers")
    # A copy in native byte order and in a dtype that torch has; torch also warns of read-only memory.
    return array.astype(np.float32 if array.dtype.type is np.float32 else np.float64)


def _check_shape(name: str, actual: tuple[int, ...], shape: Shape, sizes: dict[str, int]) -> None:
    tail = actual[len(actual) - len(shape) :] if len(shape) else ()
    fits = len(actual) >= len(shape) and 0 not in actual
    if fits:
        for size, axis in zip(tail, shape, strict=True):
            required = axis if isinstance(axis, int) else sizes.setdefault(axis, size)
            fits = fits and size == required
    if not fits:
        names = ", ".join(f"{a} = {sizes[a]}" if isinstance(a, str) and a in sizes else str(a) for a in shape)
        comma = "," if len(shape) == 1 else ""
        raise ValueError(
            f"{name} has shape {actual}: must be ({names}{comma}), every axis at least 1, leading batch axes allowed"
        )


def batch(**axes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which these batch axes, given by the name of their array, broadcast (ValueError if none)."""
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in axes.values()))
    except ValueError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in axes.items())
        raise ValueError(f"batch axes do not agree: {listed}; they must broadcast") from None


def like(result: torch.Tensor, *inputs: object) -> Array:
    """Return ``result`` as a numpy array unless one of the ``inputs`` is a tensor."""
    if any(isinstance(value, torch.Tensor) for value in inputs):
        return result
    return result.detach().cpu().numpy()
