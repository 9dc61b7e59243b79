"""Running submissions for nbgrader: its own step, with kernels in the sandbox and an end to what a cell may print."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.util import run_sync
from nbgrader.preprocessors import Execute
from traitlets import List, Unicode

from grading import sandbox
from grading.reading import to_be_read

__all__ = ["GuardedExecute", "GuardedKernelManager"]

MOST = 100_000  # characters that a cell may put out
SECONDS = 1200  # of a submission, waiting included; no cell begins later


class GuardedKernelManager(AsyncKernelManager):
    """Starts ipykernel in the sandbox. Its sockets are files, which a network namespace does not cut off."""

    hidden = List(Unicode(), help="folders that a submission must not see: the course's, those of masters")
    home = Unicode("", help="the folder of the submission")

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._sockets = TemporaryDirectory(prefix="kernel-")
        self._scratch = TemporaryDirectory(prefix="scratch-")
        _copy_fonts(Path(self._scratch.name))
        self.transport, self.ip = "ipc", f"{self._sockets.name}/kernel"

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        usual = super().format_kernel_cmd(extra_arguments)
        arguments = usual[usual.index("ipykernel_launcher") + 1 :]
        folders = Path(self.home), Path(self._scratch.name), Path(self._sockets.name)
        return sandbox.command(list(map(Path, self.hidden)), *folders, arguments)


def _copy_fonts(home: Path) -> None:
    """Give a kernel, whose home is new, the list of fonts that matplotlib takes seconds to make."""
    made = Path("~/.cache/matplotlib").expanduser()
    if made.is_dir():
        shutil.copytree(made, home / ".cache" / "matplotlib")


class GuardedExecute(Execute):  # type: ignore[misc]
    """nbgrader's execution of a submission, guarded."""

    masters = List(Unicode(), help="folders hidden from submissions as the course's own is").tag(config=True)

    def preprocess(self, nb: Any, resources: Any = None, km: Any = None) -> tuple[Any, Any]:
        """Execute the notebook in a kernel of its own, which sees nothing of the course but this submission."""
        self.log.info("Submissions are held by %s", sandbox.isolation())
        for cell, what in to_be_read(nb):
            self.log.warning("%s: the cell %s %s; read it", resources["nbgrader"]["student"], cell, what)
        self._written, self._begun = 0, time.monotonic()
        self._home = str(Path(resources["metadata"]["path"]).resolve())
        return super().preprocess(nb, resources)  # type: ignore[no-any-return]

    def create_kernel_manager(self) -> GuardedKernelManager:
        """Return what starts and ends the kernel: Python's, whichever the submission asks for."""
        folders = [self.config.CourseDirectory.root, *self.masters]
        self.km = GuardedKernelManager(
            kernel_name="python3", hidden=[str(Path(folder).resolve()) for folder in folders], home=self._home
        )
        return self.km

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **settings: Any) -> Any:
        if time.monotonic() - self._begun > SECONDS:
            raise RuntimeError(f"the submission runs for more than {SECONDS} seconds")
        self._written = 0
        return await super().async_execute_cell(cell, cell_index, *arguments, **settings)

    execute_cell = run_sync(async_execute_cell)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take what a cell puts out, up to so many characters.

        nbgrader gives no points for a cell that writes to stderr, and a warning of numpy's is not a wrong answer.
        """
        kind, content = msg["msg_type"], msg["content"]
        if kind not in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            return super().process_message(msg, cell, cell_index)
        room = max(0, MOST - self._written)
        self._written += len(json.dumps(content, default=str))
        if kind == "stream":
            content |= {"name": "stdout", "text": content["text"][:room]}
        elif kind == "error":
            content |= {"evalue": content["evalue"][:room], "traceback": [line[:room] for line in content["traceback"]]}
        elif self._written > MOST:
            content["data"] = {"text/plain": "Left out: the cell puts out too much."[:room]}
        return super().process_message(msg, cell, cell_index) if room or kind == "error" else None
