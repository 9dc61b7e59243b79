"""A kernel for a stranger's notebook: limits, an audit hook and, where the machine has one, a container.

    python -m grading.sandbox HIDDEN HOME SCRATCH [argument of ipykernel ...]

``HIDDEN`` are folders, a colon between them: the course's, with gradebook, masters and other submissions, and others
with masters. ``HOME`` is the one of this submission, which lies in the course's; ``SCRATCH`` is for temporary files.

Where bubblewrap is installed and allowed, the kernel lives in a container that has no network and no other processes,
sees nothing of the hidden folders, and can write into its own alone. Limits and hook are there always. The hook holds
against accidents and simple attempts; it is no wall against somebody who means harm.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["command", "container", "isolation"]

GIGABYTE = 2**30
LIMITS = {
    resource.RLIMIT_AS: 8 * GIGABYTE,
    resource.RLIMIT_CPU: 600,  # seconds, of a whole submission
    resource.RLIMIT_FSIZE: GIGABYTE // 8,
    resource.RLIMIT_CORE: 0,
}
_CONTAINER = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent")
_ANYWHERE = ("/dev/null", "/dev/tty")
# Events of sys.addaudithook that a student's code has no business with.
_REFUSED = {
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "os.kill", "os.killpg", "pty.spawn",
    "subprocess.Popen", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname",
}  # fmt: skip
_CHANGES = {
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree",
}  # fmt: skip
_READS = {"os.listdir", "os.scandir", "sqlite3.connect"}


@cache
def container() -> bool:
    """Return whether bubblewrap can make a container on this machine."""
    if shutil.which("bwrap") is None:
        return False
    return subprocess.run([*_CONTAINER, "true"], capture_output=True, check=False).returncode == 0


def isolation() -> str:
    """Return in words what holds a submission."""
    found = "a container without network, course and other processes (bubblewrap)"
    missing = "no container (bubblewrap is not installed, or not allowed here)"
    return f"limits of memory, time, output and file size; an audit hook; {found if container() else missing}"


def command(hidden: Sequence[Path], home: Path, scratch: Path, sockets: Path, kernel: Sequence[str]) -> list[str]:
    """Return the command that starts a kernel in the sandbox; ``kernel`` are the arguments of ipykernel.

    ``hidden``, ``home`` and ``scratch`` are as above; in ``sockets`` the kernel is spoken to.
    """
    folders = os.pathsep.join(map(str, hidden)), str(home), str(scratch)
    python = [sys.executable, "-m", __name__, *folders, *kernel]
    if not container():
        return python
    walls = [part for folder in hidden if folder.is_dir() for part in ("--tmpfs", str(folder))]
    doors = [part for folder in (home, scratch, sockets) for part in ("--bind", str(folder), str(folder))]
    # An interrupt, to end a cell, goes to all of the group: it must not end the container.
    deaf = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    # ipykernel ends when its parent is gone; here the parent is the container's first process, which ends all in it.
    surroundings = "--setenv", "HOME", str(scratch), "--setenv", "JPY_PARENT_PID", "1"
    return [*deaf, *_CONTAINER, *walls, *doors, *surroundings, *python]


def _limit() -> None:
    for what, most in LIMITS.items():
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _inside(path: Any, *folders: str) -> bool:
    if isinstance(path, int):  # an open file
        return True
    real = os.path.realpath(os.fsdecode(path))
    return any(real == folder or real.startswith(folder + os.sep) for folder in folders)


def _guard(hidden: Sequence[str], home: str, scratch: str) -> None:
    """Refuse, from now on and for good, what the code of a submission must not do."""
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    writable = home, scratch

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _REFUSED:
            raise PermissionError(f"{event} is not allowed while work is graded")
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in (mode or "") for letter in "wax+") or bool(
                (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            )
            if _secret(path) or (writes and not _inside(path, *writable, *_ANYWHERE)):
                raise PermissionError(f"{os.fsdecode(path)}: cannot be opened while work is graded")
        elif event in _CHANGES and any(
            _secret(path) or not _inside(path, *writable) for path in arguments if _is_path(path)
        ):
            raise PermissionError(f"{event}: changes nothing outside the folder of the submission")
        elif event in _READS and _secret(arguments[0]):
            raise PermissionError(f"{event}: cannot be looked into while work is graded")

    def _secret(path: Any) -> bool:
        return path is not None and _inside(path, *hidden) and not _inside(path, home)

    sys.addaudithook(hook)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def main() -> None:
    """Become a kernel whose cells are guarded."""
    hidden, home, scratch, *arguments = sys.argv[1:]
    _limit()
    from ipykernel.kernelapp import IPKernelApp

    application: Any = IPKernelApp.instance()
    application.initialize(arguments)  # opens its sockets
    _guard([*map(os.path.realpath, hidden.split(os.pathsep))], os.path.realpath(home), os.path.realpath(scratch))
    application.start()


if __name__ == "__main__":
    main()
