"""How a command ends: with a line that says what happened, and the exit code 0, 1, 2 or 130."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from tfnewton.cluster.interrupts import interrupts

__all__ = ["DONE", "FAILED", "INTERRUPTED", "REFUSED", "ending"]

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130


@contextmanager
def ending(extras: str) -> Iterator[None]:
    """Turn refusals into their line and 2, failures into 1, Ctrl-C and SIGTERM into 130; name missing ``extras``."""
    try:
        with interrupts():
            yield
    except typer.Exit:  # said already; it is a RuntimeError, as is the next
        raise
    except typer.Abort:
        _end("", INTERRUPTED)
    except ModuleNotFoundError as error:
        _end(f'{error}: it comes with an extra, pip install "tfnewton[{extras}]"', REFUSED)
    except BrokenPipeError:  # whoever read the output has had enough
        raise
    except OSError as error:
        known = error.filename is not None and error.strerror is not None
        _end(f"{error.filename}: {error.strerror}" if known else str(error), REFUSED)
    except (TypeError, ValueError) as error:
        _end(str(error), REFUSED)
    except RuntimeError as error:
        _end(str(error), FAILED)
    except KeyboardInterrupt as error:
        _end(str(error), INTERRUPTED)


def _end(line: str, code: int) -> NoReturn:
    if line:
        typer.echo(line, err=True)
    raise typer.Exit(code)
