"""A course in a temporary folder, with nbgrader's own commands run in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat

from tests.coursework.answers import Answer

__all__ = ["ROOT", "CourseFolder", "packed", "replaced", "solutions"]

ROOT = Path(__file__).parents[2]
SCORES = """
from nbgrader.api import Gradebook
import json
with Gradebook("sqlite:///gradebook.db", "tfnewton") as gradebook:
    print(json.dumps({
        of.student.id: {grade.name: grade.score for notebook in of.notebooks for grade in notebook.grades}
        for of in gradebook.assignment_submissions(NAME)
    }))
"""
MANUAL = """
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db", "tfnewton") as gradebook:
    for notebook in gradebook.find_submission(NAME, STUDENT).notebooks:
        for grade in notebook.grades:
            if grade.needs_manual_grade:
                grade.manual_score, grade.needs_manual_grade = grade.max_score, False
    gradebook.db.commit()
"""


class CourseFolder:
    """A course that ``make coursework`` has laid out, and students who hand in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        quick = root.parent / f"{root.name}-quick"
        quick.mkdir()
        # A grammar of addresses that jsonschema takes seconds to compile, if it is there, and no notebook needs.
        (quick / "rfc3987_syntax.py").write_text("raise ImportError\n", encoding="utf-8")
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, (quick, ROOT, ROOT / "coursework"))),
            "OMP_NUM_THREADS": "1",
        }

    def python(self, *arguments: str, where: Path | None = None, code: int | None = 0) -> str:
        """Run Python and return what it puts out; ``code`` is the exit code that it must have, None for any."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=where or self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout[-3000:]
        return done.stdout

    def make(self, *options: str, code: int = 0) -> str:
        """Lay the course out and release it, as ``make coursework`` does."""
        return self.python("-m", "grading.course", "--course", str(self.root), *options, where=ROOT, code=code)

    def nbgrader(self, *command: str, code: int | None = 0) -> str:
        return self.python("-m", "nbgrader", *command, code=code)

    def released(self, name: str) -> Path:
        """Return the path of the notebook that students get."""
        (path,) = (self.root / "release" / name).glob("*.ipynb")
        return path

    def hand_in(self, student: str, name: str, notebook: Any) -> Path:
        """Put a notebook, or bytes, where nbgrader collects what a student has handed in."""
        path = self.root / "submitted" / student / name / self.released(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(notebook, bytes):
            path.write_bytes(notebook)
        else:
            nbformat.write(notebook, path)
        return path

    def points(self, name: str) -> dict[str, dict[str, float]]:
        """Return the points of each graded cell, by student."""
        import json

        found: dict[str, dict[str, float]] = json.loads(self.python("-c", SCORES.replace("NAME", repr(name))))
        return found

    def give_manual_points(self, name: str, student: str) -> None:
        """Give all points of the cells that a person reads."""
        self.python("-c", MANUAL.replace("NAME", repr(name)).replace("STUDENT", repr(student)))


def solutions(master: Path) -> dict[str, str]:
    """Return the solution cells of a master by grade_id."""
    return {
        cell.metadata["nbgrader"]["grade_id"]: cell.source
        for cell in nbformat.read(master, as_version=4).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def replaced(released: Path, cells: Mapping[str, str]) -> Any:
    """Return a released notebook with the sources of ``cells``, by grade_id."""
    notebook = nbformat.read(released, as_version=4)
    left = dict(cells)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = left.pop(grade_id, cell.source)
    assert not left, f"the release has no cells {sorted(left)}"
    return notebook


def packed(answers: Iterable[Answer]) -> list[list[Answer]]:
    """Return students who hand in several of the answers each, none to the same task, so that fewer runs do."""
    students: list[list[Answer]] = []
    for answer in answers:
        for student in students:
            if all(_apart(answer, other) for other in student):
                student.append(answer)
                break
        else:
            students.append([answer])
    return students


def _apart(one: Answer, other: Answer) -> bool:
    return not (set(one.cells) & set(other.cells) or set(one.loses) & set(other.loses))
