"""Files that are whole or refused: written beside their place and renamed, tensors under a checksum of all of them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["checked_text", "read_tensors", "sealed", "tensors_to_bytes", "write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a neighbour of ``path`` and rename it into place; the old file stays whole until then."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder does not exist")
    target = Path(os.path.realpath(path))  # a link goes on pointing to it
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def tensors_to_bytes(tensors: dict[str, Tensor], key: str, text: str) -> bytes:
    """Return a safetensors file of ``tensors`` with ``text`` as the entry ``key`` of its metadata."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(plain, metadata={key: text})


def read_tensors(path: Path, key: str) -> tuple[dict[str, Tensor], str]:
    """Return the tensors of a safetensors file and the entry ``key`` of its metadata.

    The file is read once and whole, so that another process may replace it meanwhile. Raises FileNotFoundError, or
    ValueError where it is truncated, of another kind or without the entry.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        data = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{path}: no such file") from error
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path}: not a readable safetensors file, truncated or of another kind ({error})") from error
    text = (header.get("__metadata__") or {}).get(key)
    if not isinstance(text, str):
        raise ValueError(f"{path}: a safetensors file, but its metadata has no {key!r} entry")
    return tensors, text


def sealed(tensors: dict[str, Tensor], text: str) -> str:
    """Return ``text`` after a SHA-256 of itself and of the names, dtypes, shapes and bytes of ``tensors``."""
    return f"{_digest(tensors, text)} {text}"


def checked_text(path: Path, tensors: dict[str, Tensor], seal: str) -> str:
    """Return the text that ``sealed`` made into ``seal``; ValueError names ``path`` where the checksum does not fit."""
    digest, _, text = seal.partition(" ")
    if digest != _digest(tensors, text):
        raise ValueError(f"{path}: edited or damaged, its checksum does not fit")
    return text


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    import torch

    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
