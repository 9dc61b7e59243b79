"""Points of a task, part by part, with a sentence for each part that was lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill

__all__ = ["Marks", "WrongError", "observe"]


class WrongError(Exception):
    """A submission does not do what was asked; the message says what was observed, not what would have been right."""


def observe(right: bool, message: str) -> None:
    """Raise WrongError with what was observed, unless it was right."""
    if not right:
        raise WrongError(message)


def _say(text: str) -> None:
    print(fill(text, 88))  # columns, which a page of feedback has room for


class Marks:
    """The points of one graded cell. The cell ends with ``marks.total``, which nbgrader takes as partial credit."""

    def __init__(self) -> None:
        self.given, self.possible = 0.0, 0.0

    @contextmanager
    def part(self, points: float, page: str) -> Iterator[None]:
        """Give ``points`` if the body raises nothing; else print what was observed and the page that helps.

        What a student's function raises costs the part as well, and no other.
        """
        self.possible += points
        try:
            yield
        except WrongError as wrong:
            _say(f"0 of {points:g}: {wrong}. See {page}.")
        except Exception as error:
            _say(f"0 of {points:g}: your code raised {type(error).__name__}: {error}. See {page}.")
        else:
            self.given += points
            print(f"{points:g} of {points:g}.")

    @property
    def total(self) -> float:
        return self.given
