"""Ctrl-C and SIGTERM, as an exception at a moment where it is not lost.

Python raises KeyboardInterrupt wherever the program is, and drops it in a finaliser or a callback of the garbage
collector, of which dask has one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Interrupts", "interrupts"]


class Interrupts:
    """Whether somebody wants an end."""

    def __init__(self) -> None:
        self._held = self._wanted = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the first signal back, for ``check``; the second is raised at once."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a signal."""
        if self._wanted:
            self._wanted = False
            raise KeyboardInterrupt

    def receive(self, number: int, frame: object) -> None:
        """Handle a signal."""
        if not self._held or self._wanted:
            raise KeyboardInterrupt
        self._wanted = True


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Take SIGINT and SIGTERM, where they do what they do by default; in the main thread only.

    Inside another of its kind it is that one.
    """
    outer = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(outer, Interrupts):
        yield outer
        return
    handler, taken = Interrupts(), {}
    if threading.current_thread() is threading.main_thread():
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is default:
                taken[number] = signal.signal(number, handler.receive)
    try:
        yield handler
    finally:
        for number, before in taken.items():
            signal.signal(number, before)
