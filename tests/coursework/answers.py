"""What a student might hand in, and what it must lose."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Answer"]


class Answer(NamedTuple):
    """Solutions that replace those of a master, by grade_id of their cells, and the points that each graded cell loses.

    Graded cells that ``loses`` does not name keep all their points.
    """

    name: str
    cells: dict[str, str]
    loses: dict[str, float]
