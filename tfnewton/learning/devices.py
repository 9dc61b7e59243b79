"""Which device computes, what it does fast, and how one thread trains fastest."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["bf16_pays", "check_device", "one_thread"]


def check_device(device: str) -> None:
    """Refuse, by ValueError, a device that torch cannot use here, such as 'cuda' where there is none."""
    if not isinstance(device, str):
        raise TypeError(f"device = {device!r}: must be a name, such as 'cpu'")
    try:
        torch.empty(1, device=device).cpu()
    except (AssertionError, RuntimeError, NotImplementedError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device = {device!r}: must be one that torch can use here ({reason})") from error


def bf16_pays(device: str) -> bool:
    """Whether there are instructions for bfloat16: without them its products take twice as long as float32's."""
    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, and keep the memory that every step frees and takes again."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    _keep_memory()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _keep_memory() -> None:
    """Tell glibc, where there is one, not to give freed memory back to the system."""
    library: Any = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        trim_threshold, mmap_threshold = -1, -3
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_threshold, 2**25)  # the most that it takes
