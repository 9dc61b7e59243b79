"""One run of a chapter in a process of its own: parameters in, the contents of a run folder out.

Nothing is written here, so that a run can be carried out on a machine that shares no disk with the one that keeps it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import tfnewton
from tfnewton.learning.progress import PLACE
from tfnewton.rerun import kernel, outputs
from tfnewton.rerun.chapters import Chapter, text

__all__ = ["CellError", "Progress", "Watch", "execute"]

Watch = Callable[["Progress"], None]

_TICK = 0.1  # seconds between two looks at the kernel


class CellError(RuntimeError):
    """A cell failed; ``heading`` is the one that it stands under."""

    def __init__(self, message: str, heading: str) -> None:
        super().__init__(message, heading)  # both, so that it can be sent from process to process
        self.message, self.heading = message, heading

    def __str__(self) -> str:
        return f"under {self.heading!r}: {self.message}"


class Progress:
    """What a run is doing: the cell that is being carried out, its heading, and the seconds of those before.

    ``word`` is a file into which a long cell may write how far it is.
    """

    def __init__(self, notebook: Mapping[str, Any], word: Path | None = None) -> None:
        self.word = word
        self.headings = headings(notebook)
        self.cells = [number for number, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"]
        self.number = 0  # of the code cell, from 1
        self.heading = self.headings[self.cells[0]]
        self.seconds: list[tuple[str, float]] = []
        self._since = time.monotonic()

    @property
    def of(self) -> int:
        """How many code cells there are."""
        return len(self.cells)

    def inside(self) -> str:
        """Return how far the cell is, in its own words, or nothing."""
        try:
            return self.word.read_text(encoding="utf-8") if self.word is not None else ""
        except (OSError, UnicodeDecodeError):
            return ""

    def enter(self, index: int) -> None:
        """Note that the cell ``index`` of the notebook starts."""
        if self.word is not None:
            self.word.unlink(missing_ok=True)
        self.number, self.heading = self.cells.index(index) + 1, self.headings[index]
        self._since = time.monotonic()

    def leave(self) -> None:
        """Note that it has ended."""
        self.seconds.append((self.heading, round(time.monotonic() - self._since, 3)))


def headings(notebook: Mapping[str, Any]) -> list[str]:
    """Return for each cell the heading that it stands under."""
    found, last = [], ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            lines = [line for line in text(cell).splitlines() if line.startswith("#")]
            last = lines[-1].lstrip("#").strip() if lines else last
        found.append(last)
    return found


def execute(chapter: Chapter, values: Mapping[str, Any], watch: Watch | None = None) -> dict[str, bytes]:
    """Run a chapter, and return the files of its run folder by name: notebook, figures, tables, ``run.json``.

    Args:
        chapter: what to run.
        values: typed values of all its parameters; they are checked here as well.
        watch: is told again and again, in this thread, where the run is; what it raises ends the run.

    Raises:
        RefusedError: values that are not legal, before anything is started.
        CellError: a cell failed, or its process ended.
        KeyboardInterrupt: after the chapter's process is gone.
    """
    values = chapter.settle(values)
    notebook = _with_parameters(chapter, chapter.changed(values))
    started = datetime.now(UTC)
    with TemporaryDirectory(prefix="tfnewton-", ignore_cleanup_errors=True) as temporary:
        here = Path(temporary) / "here"  # where the chapter's process is; nothing that it leaves is kept
        here.mkdir()
        progress = Progress(notebook, Path(temporary) / "progress")
        _carry_out(notebook, progress, watch or (lambda _: None), here)
    return outputs.collect(chapter, values, notebook, started, progress.seconds)


def _with_parameters(chapter: Chapter, changed: Mapping[str, Any]) -> Any:
    """Return the chapter as papermill prepares it: the changed parameters in a cell after the published ones."""
    _import_jsonschema()
    import nbformat
    from papermill.parameterize import parameterize_notebook

    notebook = nbformat.reads(json.dumps(chapter.notebook), as_version=4)
    notebook.metadata["papermill"] = {}  # it, and tags on every cell, are what papermill expects of what it has read
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])
    return parameterize_notebook(notebook, dict(changed)) if changed else notebook


def _import_jsonschema() -> None:
    """Import what checks notebooks, without a grammar of addresses: no notebook needs it, and it takes seconds."""
    grammar = "rfc3987_syntax"
    hidden = sys.modules.setdefault(grammar, None) is None  # type: ignore[arg-type] # the import system knows None
    try:
        import_module("jsonschema")
    finally:
        if hidden:
            del sys.modules[grammar]


def _carry_out(notebook: Any, progress: Progress, watch: Watch, here: Path) -> None:
    """Execute the notebook in place, in a thread, so that an interrupt finds this one and ends the kernel."""
    news: SimpleQueue[Progress] = SimpleQueue()
    manager = _manager()
    client = _client(notebook, manager, progress, news)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(client.async_execute(cwd=str(here), env=_environment(progress), cleanup_kc=True))
        except BaseException as failure:  # raised again below, in the thread that waits
            failures.append(failure)

    worker, where = threading.Thread(target=work, daemon=True), progress
    worker.start()
    try:
        while worker.is_alive() or not news.empty():
            with suppress(Empty):
                where = news.get(timeout=_TICK)
            if where.number:
                watch(where)
    except BaseException as end:
        _end(manager)
        if isinstance(end, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted under {progress.heading!r}") from end
        raise
    for failure in failures:
        raise _told(failure, progress.heading)


def _client(notebook: Any, manager: Any, progress: Progress, news: SimpleQueue[Progress]) -> Any:
    """Return what executes the notebook; where it is goes into ``news`` when a cell starts."""
    from nbclient import NotebookClient

    def enter(cell: Any, cell_index: int) -> None:
        if cell.cell_type == "code":
            progress.enter(cell_index)
            news.put(copy(progress))

    return NotebookClient(
        notebook,
        km=manager,
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        ipython_hist_file=":memory:",
        extra_arguments=["--log-level=ERROR", f"--IPKernelApp.exec_lines={kernel.CALL}"],
        on_cell_start=enter,
        on_cell_executed=lambda **_: progress.leave(),
    )


def _told(failure: BaseException, heading: str) -> BaseException:
    """Return the failure of a notebook's client as that of the cell under ``heading``."""
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    if isinstance(failure, CellExecutionError):
        return CellError(f"{failure.ename}: {failure.evalue}", heading)
    if isinstance(failure, DeadKernelError):
        return CellError("the process that ran the cell ended, perhaps for want of memory", heading)
    return failure


def _manager() -> Any:
    """Return a manager of a kernel that is this very interpreter, whatever kernels are installed besides."""
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisInterpreter(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(**get_kernel_dict())

    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())


def _environment(progress: Progress) -> dict[str, str]:
    """Return the environment of the kernel, in which this package is the one that is found."""
    paths = [str(Path(tfnewton.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    return {**os.environ, **own, PLACE: str(progress.word)}


def _end(manager: Any) -> None:
    """End the kernel at once; the thread that waits for it ends by itself."""
    process = getattr(manager.provisioner, "process", None)
    if process is not None:
        process.kill()
        process.wait()
