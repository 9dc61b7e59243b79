"""What a run shows while it goes on: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfnewton.rerun.execution import Progress, Watch

__all__ = ["on_stderr"]


@contextmanager
def on_stderr(title: str) -> Iterator[Watch]:
    """Yield what is to be told when a cell starts; what it shows goes to stderr, so that stdout holds results alone."""
    if sys.stderr.isatty():
        with _line_that_moves(title) as watch:
            yield watch
    else:
        yield _plain_lines()


def _plain_lines() -> Watch:
    said = [""]

    def watch(progress: Progress) -> None:
        if progress.heading != said[0]:
            said[0] = progress.heading
            print(f"cell {progress.number} of {progress.of}: {progress.heading}", file=sys.stderr, flush=True)

    return watch


@contextmanager
def _line_that_moves(title: str) -> Iterator[Watch]:
    """Show cells done, the heading of the one that runs, the time, and inside a long cell how far that is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    followed: list[Progress] = []

    class Inside(TextColumn):
        def render(self, task: Any) -> Text:  # some ten times a second
            return Text(followed[0].inside() if followed else "", style="dim")

    columns: list[Any] = [SpinnerColumn(), MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn()]
    columns += [TextColumn("{task.description}", markup=False), Inside("")]
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def watch(progress: Progress) -> None:
            followed[:] = [progress]
            bar.update(task, total=progress.of, completed=progress.number - 1, description=progress.heading)

        yield watch
