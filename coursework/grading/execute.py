"""Running submissions for nbgrader: its own step, with kernels in the sandbox and an end to what a cell may print."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.util import run_sync
from nbgrader.preprocessors import Execute
from traitlets import Unicode

from grading import sandbox

__all__ = ["GuardedExecute", "GuardedKernelManager"]

MOST = 100_000  # characters that a cell may put out


class GuardedKernelManager(AsyncKernelManager):
    """Starts ipykernel in the sandbox. Its sockets are files, which a network namespace does not cut off."""

    hidden = Unicode("", help="the folder of the course")
    home = Unicode("", help="the folder of the submission")

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._sockets = TemporaryDirectory(prefix="kernel-")
        self.transport, self.ip = "ipc", f"{self._sockets.name}/kernel"

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        usual = super().format_kernel_cmd(extra_arguments)
        arguments = usual[usual.index("ipykernel_launcher") + 1 :]
        return sandbox.command(Path(self.hidden), Path(self.home), arguments)


class GuardedExecute(Execute):  # type: ignore[misc]
    """nbgrader's execution of a submission, guarded."""

    def preprocess(self, nb: Any, resources: Any = None, km: Any = None) -> tuple[Any, Any]:
        """Execute the notebook in a kernel of its own, which sees nothing of the course but this submission."""
        self.log.info("Submissions are held by %s", sandbox.isolation())
        self._written = 0
        guarded = GuardedKernelManager(
            kernel_name=self.kernel_name or "python3",
            hidden=str(Path(self.config.CourseDirectory.root).resolve()),
            home=str(Path(resources["metadata"]["path"]).resolve()),
        )
        return super().preprocess(nb, resources, guarded)  # type: ignore[no-any-return]

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **settings: Any) -> Any:
        self._written = 0
        return await super().async_execute_cell(cell, cell_index, *arguments, **settings)

    execute_cell = run_sync(async_execute_cell)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take what a cell puts out, up to so many characters.

        nbgrader gives no points for a cell that writes to stderr, and a warning of numpy's is not a wrong answer.
        """
        if msg["msg_type"] == "stream":
            msg["content"]["name"] = "stdout"
            room = max(0, MOST - self._written)
            self._written += len(msg["content"]["text"])
            msg["content"]["text"] = msg["content"]["text"][:room]
        return super().process_message(msg, cell, cell_index)
