"""How far work is, for a person who waits: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from tfnewton.cluster.task import Failure

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["Display", "Key", "Ledger", "Progress", "Watch", "agreed", "duration", "shown", "somebody_is_there"]

Key = TypeVar("Key", bound=Hashable)
Watch: TypeAlias = Callable[["Progress"], None]

_LINES = 30.0  # seconds between two plain lines
_LONG = 10.0  # seconds without a worker of which one is told
_TICK = 1.0  # seconds after which time is told anew
_BARS = 8  # of tasks under way


class Progress(NamedTuple):
    """Where the tasks of one call stand.

    ``total`` tasks were given, ``done`` of them have an outcome, ``failed`` of those failed. ``running`` has what each
    task under way tells of itself, by its key: words, and the fraction done if known. ``seconds`` have passed, and
    about so many are ``left``, None where nothing is done yet.
    """

    total: int
    done: int
    failed: int
    running: Mapping[Any, tuple[str, float | None]]
    seconds: float
    left: float | None

    def __str__(self) -> str:
        words = f"{self.done} of {self.total} done, {len(self.running)} running, {self.failed} failed"
        if self.done < self.total and not self.running and self.seconds > _LONG:
            return f"{words}, no worker has begun yet"
        return words if self.left is None or self.done == self.total else f"{words}, about {duration(self.left)} left"


class Ledger:
    """Keeps account of the tasks of one call, and tells ``watch``."""

    def __init__(
        self, keys: Iterable[Any], watch: Watch | None = None, costs: Mapping[Any, float] | None = None
    ) -> None:
        self.costs = {key: 1.0 if costs is None else costs[key] for key in keys}
        self.watch, self.begin, self.told = watch, time.monotonic(), 0.0
        self.running: dict[Any, tuple[str, float | None]] = {}
        self.ended: set[Any] = set()
        self.failed = 0

    @property
    def complete(self) -> bool:
        return len(self.ended) == len(self.costs)

    def note(self, key: Any, text: str, fraction: float | None) -> None:
        """Take down that the task of ``key`` is under way, and what it told."""
        if key not in self.ended:  # what it told may come after its outcome
            self.running[key] = text, fraction
            self.tell()

    def leave(self, key: Any) -> None:
        """Take down that the task of ``key`` is no longer under way."""
        self.running.pop(key, None)

    def end(self, key: Any, outcome: Any) -> None:
        """Take down the outcome of a task."""
        self.running.pop(key, None)
        self.ended.add(key)
        self.failed += isinstance(outcome, Failure)
        self.tell()

    def tick(self) -> None:
        """Tell again if it is long ago, since time goes on."""
        if time.monotonic() - self.told >= _TICK:
            self.tell()

    def tell(self) -> None:
        if self.watch is not None:
            self.told = time.monotonic()
            self.watch(self.progress())

    def progress(self) -> Progress:
        """Return where the tasks stand."""
        seconds = time.monotonic() - self.begin
        done = sum(self.costs[key] for key in self.ended)
        done += sum(self.costs[key] * (fraction or 0.0) for key, (_, fraction) in self.running.items())
        left = seconds * (sum(self.costs.values()) - done) / done if done > 0.0 else None
        return Progress(len(self.costs), len(self.ended), self.failed, dict(self.running), seconds, left)


class Display(Protocol):
    """Shows progress when called, and says a line without disturbing what is shown."""

    def __call__(self, progress: Progress) -> None: ...

    def say(self, line: str) -> None:
        """Print ``line`` on standard output."""


def duration(seconds: float) -> str:
    """Return a length of time as one says it, such as "40 s", "3 min" or "2.5 h"."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"


@contextmanager
def shown(title: str) -> Iterator[Display]:
    """Show progress on standard error: bars where that is a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _Plain(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    console = Console(stderr=True)
    with Bars(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bars:
        yield _OnTerminal(title, bars)


class _Plain:
    def __init__(self, title: str) -> None:
        self.title, self.told = title, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self.told >= _LINES:
            self.told = time.monotonic()
            print(f"{self.title}: {progress}", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        print(line, flush=True)


class _OnTerminal:
    def __init__(self, title: str, bars: Bars) -> None:
        self.bars = bars
        self.all = bars.add_task(title, total=None, words="")
        self.running: dict[Hashable, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        fractions = sum(fraction or 0.0 for _, fraction in progress.running.values())
        self.bars.update(self.all, total=progress.total, completed=progress.done + fractions, words=str(progress))
        for key in [key for key in self.running if key not in progress.running]:
            self.bars.remove_task(self.running.pop(key))
        for key, (words, fraction) in progress.running.items():
            if key not in self.running and len(self.running) < _BARS:
                self.running[key] = self.bars.add_task(f"  {key}", total=None, words="")
            if key in self.running:
                total = None if fraction is None else 1.0
                self.bars.update(self.running[key], total=total, completed=fraction or 0.0, words=words)

    def say(self, line: str) -> None:
        if sys.stdout.isatty():
            self.bars.console.out(line, highlight=False)
        else:
            print(line, flush=True)


def agreed(text: str, yes: bool = False) -> bool:
    """Say ``text``, that something will take long, and ask whether to begin.

    Begins without asking where ``yes`` says so, and where no terminal could answer.
    """
    print(text, file=sys.stderr, flush=True)
    if yes or not somebody_is_there():
        return True
    print("Begin? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def somebody_is_there() -> bool:
    """Whether a terminal could answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()
