"""What an answer to an assignment is, for the tests of its grading."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Answer"]


class Answer(NamedTuple):
    """A submission: sources of solution cells by grade_id, and the points that it loses by grade_id of the test cell.

    Solution cells that are not named hold the master's solution, and test cells that are not named keep all points.
    """

    name: str
    cells: dict[str, str]
    loses: dict[str, float]
