"""Each assignment, released, solved and graded by nbgrader's own commands: who has earned which points."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.coursework import answers_damped_newton, answers_inversion, answers_training
from tests.coursework.answers import Answer
from tests.coursework.course_folder import ROOT, CourseFolder, packed, replaced, solutions

pytestmark = pytest.mark.slow

MASTERS = ROOT / "coursework" / "source"
ANSWERS = {
    "1_transformers_that_invert": answers_inversion.ANSWERS,
    "2_damped_newton_inside": answers_damped_newton.ANSWERS,
    "3_what_training_finds": answers_training.ANSWERS,
}


def master(name: str) -> Path:
    (path,) = (MASTERS / name).glob("*.ipynb")
    return path


def most(name: str, by_hand: bool) -> dict[str, float]:
    """Return the points of the graded cells of a master, of those that a person reads or of the others."""
    found = {}
    for cell in nbformat.read(master(name), as_version=4).cells:
        of = cell.metadata.get("nbgrader", {})
        if of.get("grade") and of["solution"] == by_hand:
            found[of["grade_id"]] = float(of["points"])
    return found


def graded(root: Path, name: str, students: dict[str, dict[str, str]], variant: int = 0) -> CourseFolder:
    """Release an assignment, hand in the cells of each student, and have nbgrader grade them."""
    course = CourseFolder(root)
    course.make("--variant", str(variant), "--masters", str(_alone(root, name)))
    for student, cells in students.items():
        course.hand_in(student, name, replaced(course.released(name), cells))
    course.nbgrader("autograde", name)
    return course


def _alone(root: Path, name: str) -> Path:
    """Return a folder of masters with this one only; so grading finds masters elsewhere, as an instructor may want."""
    folder = root.with_name(f"{root.name}-masters")
    folder.mkdir()
    (folder / name).symlink_to(MASTERS / name)
    return folder


def automatic(name: str, scores: dict[str, float]) -> dict[str, float]:
    return {cell: scores[cell] for cell in most(name, by_hand=False)}


def check_answers(name: str, students: list[list[Answer]], scores: dict[str, dict[str, float]]) -> None:
    """Hold the points of students who have handed in several answers each against what the answers should lose."""
    for number, answers in enumerate(students):
        wanted = Counter(most(name, by_hand=False))
        for answer in answers:
            wanted.subtract(answer.loses)
        found = automatic(name, scores[f"student{number}"])
        off = {cell: (found[cell], points) for cell, points in wanted.items() if abs(found[cell] - points) > 1e-9}
        assert not off, f"{[answer.name for answer in answers]}: (points, wanted) are {off}"


class Graded:
    """What every assignment must do, on the default variant."""

    name = ""

    @pytest.fixture(scope="class")
    @classmethod
    def course(cls, tmp_path_factory: pytest.TempPathFactory) -> CourseFolder:
        several = {of: source for answer in cls.first() for of, source in answer.cells.items()}
        solved = solutions(master(cls.name))
        students = {"empty": {}, "master": solved, "student0": solved | several}
        return graded(tmp_path_factory.mktemp("course") / "c", cls.name, students)

    @classmethod
    def first(cls) -> list[Answer]:
        """Return a wrong answer to each task."""
        return packed(answer for answer in ANSWERS[cls.name] if answer.loses)[0]

    def test_the_master_earns_every_point_and_the_empty_release_none(self, course: CourseFolder) -> None:
        scores = course.points(self.name)
        assert automatic(self.name, scores["master"]) == most(self.name, by_hand=False)
        assert set(scores["empty"].values()) == {0.0}

    def test_answers_lose_what_they_should(self, course: CourseFolder) -> None:
        assert {cell for answer in self.first() for cell in answer.loses}
        check_answers(self.name, [self.first()], course.points(self.name))

    def test_manual_points_complete_the_exported_grade(self, course: CourseFolder) -> None:
        course.give_manual_points(self.name, "master")
        course.nbgrader("export")
        with (course.root / "grades.csv").open(encoding="utf-8", newline="") as file:
            rows = {row["student_id"]: row for row in csv.DictReader(file)}
        all_points = sum((most(self.name, True) | most(self.name, False)).values())
        assert (float(rows["master"]["score"]), float(rows["master"]["max_score"])) == (all_points, all_points)
        assert float(rows["empty"]["score"]) == 0.0

    def test_feedback_has_messages_and_nothing_of_masters(self, course: CourseFolder) -> None:
        from grading.leaks import leaks

        course.nbgrader("generate_feedback", self.name)
        (page,) = (course.root / "feedback" / "student0").rglob("*.html")
        text = " ".join(page.read_text(encoding="utf-8").split())
        assert "See chapter" in text
        assert "BEGIN HIDDEN" not in text
        others = [course.root / "feedback" / student for student in ("empty", "student0")]
        handed_in = "\n".join(solutions(master(self.name)).values())
        assert leaks(MASTERS, others[:1]) == []
        assert leaks(MASTERS, others[1:], handed_in) == []

    def test_the_tasks_add_up(self) -> None:
        front = nbformat.read(master(self.name), as_version=4).cells[0].source
        told = [line for line in front.splitlines() if line.startswith("| ")]
        rows = [line.strip("| ").split("|") for line in told]
        tasks = [row for row in rows if row[0].strip().isdecimal()]
        columns = {"points": 0, "minutes": 0}
        (head,) = [row for row in rows if {"points", "minutes"} <= {entry.strip() for entry in row}]
        for column in columns:
            at = [entry.strip() for entry in head].index(column)
            columns[column] = sum(int(row[at]) for row in tasks)
        assert columns["points"] == sum((most(self.name, True) | most(self.name, False)).values())
        assert 60 <= columns["minutes"] <= 90


class TestInversion(Graded):
    name = "1_transformers_that_invert"


class TestDampedNewton(Graded):
    name = "2_damped_newton_inside"


class TestTraining(Graded):
    name = "3_what_training_finds"


@pytest.mark.parametrize("name", ANSWERS)
def test_each_graded_cell_has_three_wrong_answers_and_a_right_one_that_is_written_differently(name: str) -> None:
    tests_of = _test_cells(name)
    wrong = Counter(cell for answer in ANSWERS[name] for cell in answer.loses)
    right = {tests_of[cell] for answer in ANSWERS[name] if not answer.loses for cell in answer.cells}
    assert {cell: wrong[cell] for cell in most(name, by_hand=False) if wrong[cell] < 3} == {}
    assert set(most(name, by_hand=False)) - right == set()


def _test_cells(name: str) -> dict[str, str]:
    """Return the graded cell that follows each solution cell."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    for cell in nbformat.read(master(name), as_version=4).cells:
        of: dict[str, Any] = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and of.get("solution"):
            waiting.append(of["grade_id"])
        elif cell.cell_type == "code" and of.get("grade"):
            found |= dict.fromkeys(waiting, of["grade_id"])
            waiting = []
    return found


@pytest.mark.long
@pytest.mark.parametrize("variant", [0, 7])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_loses_exactly_what_it_should(name: str, variant: int, tmp_path: Path) -> None:
    students = packed(ANSWERS[name])
    solved = solutions(master(name))
    handed_in = {
        f"student{number}": solved | {of: source for answer in answers for of, source in answer.cells.items()}
        for number, answers in enumerate(students)
    }
    course = graded(tmp_path / "c", name, handed_in, variant)
    check_answers(name, students, course.points(name))


@pytest.mark.long
@pytest.mark.parametrize("variant", [1, 2, 3, 1000])
@pytest.mark.parametrize("name", ANSWERS)
def test_the_master_of_any_variant_earns_every_point(name: str, variant: int, tmp_path: Path) -> None:
    course = graded(tmp_path / "c", name, {"master": solutions(master(name))}, variant)
    assert automatic(name, course.points(name)["master"]) == most(name, by_hand=False)
