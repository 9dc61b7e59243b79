"""Word of a training that goes on, for whoever waits for it in another process."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["PLACE", "leave_word"]

PLACE = "TFNEWTON_PROGRESS"  # the environment variable that names a file; without it no word is left


def leave_word(step: int, loss: float, rate: float) -> None:
    """Write the step and its loss into the file that the environment names, if any: what ``train`` does by default.

    It is how a chapter that trains can be followed while one of its cells runs; a file that cannot be written is no
    reason to stop.
    """
    place = os.environ.get(PLACE)
    if place:
        try:
            Path(place).write_text(f"step {step}, loss {loss:.3g}", encoding="utf-8")
        except OSError:
            return
