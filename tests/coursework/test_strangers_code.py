"""Submissions that go wrong or mean harm: each is graded or refused by name, and touches nobody else's grade."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest

from grading import sandbox
from tests.coursework.course_folder import CourseFolder, replaced
from tests.coursework.small_master import NAME, write_small_master

pytestmark = [pytest.mark.slow, pytest.mark.long]

RIGHT = "def square(x):\n    return x ** 2"
HALF = "def square(x):\n    return x ** 2 if x < 100 else 0"
SECONDS = 5
# What is tried before the right answer, and what of it must be seen in the output.
TRIED = {
    "removes-the-gradebook": ("import os\nos.remove('{course}/gradebook.db')", "PermissionError"),
    "empties-the-gradebook": ("open('{course}/gradebook.db', 'w')", "PermissionError"),
    "asks-the-gradebook": ("import sqlite3\nsqlite3.connect('{course}/gradebook.db')", "PermissionError"),
    "reads-a-master": ("print(open('{masters}/9_small/small.ipynb').read())", "PermissionError"),
    "reads-the-copy-of-a-master": ("print(open('{course}/source/9_small/small.ipynb').read())", "PermissionError"),
    "reads-another-submission": ("import os\nos.listdir('{course}/submitted')", "PermissionError"),
    "links-to-the-gradebook": (
        "import os\nos.symlink('{course}/gradebook.db', 'mine')\nprint(open('mine', 'rb').read())",
        "PermissionError",
    ),
    "writes-elsewhere": ("import pathlib\npathlib.Path('{course}-written').write_text('x')", "PermissionError"),
    "asks-the-network": ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "PermissionError"),
    "starts-a-program": ("import subprocess\nsubprocess.run(['ls'])", "PermissionError"),
    "takes-all-memory": ("everything = bytearray(50 * 2**30)", "MemoryError"),
    "fills-the-disk": (
        "with open('much', 'wb') as file:\n    for _ in range(200):\n        file.write(bytes(2**20))",
        "OSError",
    ),
    "prints-without-end": ("for _ in range(3000):\n    print('x' * 10_000)", "xxx"),
    "shows-without-end": ("from IPython.display import HTML, display\ndisplay(HTML('x' * 20_000_000))", "Left out"),
    "raises-without-end": ("raise ValueError('y' * 20_000_000)", "yyy"),
    "does-not-end": ("while True:\n    pass", "CellTimeoutError"),
}
# What only a container stops: it would print "got it", end the grading or spoil the gradebook.
STOPPED = {
    "attaches-the-gradebook": """
        import sqlite3
        of = sqlite3.connect(":memory:")
        of.execute("ATTACH '{course}/gradebook.db' AS g")
        of.execute("UPDATE g.student SET last_name = 'changed'")
        of.commit()
        print("got" + " it", of.execute("SELECT count(*) FROM g.student").fetchall())""",
    "opens-the-course-beside": """
        import os
        at = os.open("{course}/..", os.O_RDONLY | os.O_DIRECTORY)
        print(os.read(os.open("c/source/9_small/small.ipynb", os.O_RDONLY, dir_fd=at), 99), "got" + " it")""",
    "starts-another-python": """
        import multiprocessing, os
        of = multiprocessing.get_context("spawn").Process(target=os.system, args=("cp {course}/gradebook.db mine",))
        of.start(), of.join()
        print("got" + " it" if os.path.getsize("mine") else "nothing")""",
    "kills-the-grader": """
        import os, signal
        signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)""",
    "ends-the-time-of-the-grader": """
        import os, resource
        resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))""",
    "maps-the-gradebook": """
        import torch
        torch.from_file("{course}/gradebook.db", shared=True, size=64, dtype=torch.uint8).zero_()""",
    "asks-the-network-through-c": """
        import ctypes, socket
        of = socket.socket()
        address = (ctypes.c_char * 16)(2, 0, 0, 9, 127, 0, 0, 1)
        print("got" + " it" if ctypes.CDLL(None).connect(of.fileno(), address, 16) == 0 else "nothing")""",
}
container = pytest.mark.skipif(not sandbox.container(), reason="bubblewrap is not installed, or not allowed here")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> CourseFolder:
    """A course of one small assignment, with all that students may hand in, graded once."""
    root = tmp_path_factory.mktemp("course")
    masters = root / "private"
    write_small_master(masters)
    course = CourseFolder(root / "c")
    course.make("--masters", str(masters), "--variant", "3")
    with (course.root / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(f"c.GuardedExecute.timeout = {SECONDS}\n")
    for student, cells in {"right": RIGHT, "half": HALF, "zzz-last": RIGHT}.items():
        course.hand_in(student, NAME, replaced(course.released(NAME), {"square": cells}))
    stopped = {student: dedent(code) for student, code in STOPPED.items()} if sandbox.container() else {}
    for student, code in ({student: code for student, (code, _) in TRIED.items()} | stopped).items():
        tried = code.format(course=course.root, masters=masters)
        course.hand_in(student, NAME, replaced(course.released(NAME), {"square": f"{RIGHT}\n{tried}"}))
    course.nbgrader("autograde", NAME, code=None)  # 1 where a kernel has died of what it tried
    return course


@pytest.fixture(scope="module")
def scores(course: CourseFolder) -> dict[str, dict[str, float]]:
    return course.points(NAME)


def output(course: CourseFolder, student: str) -> str:
    (path,) = (course.root / "autograded" / student / NAME).glob("*.ipynb")
    return path.read_text(encoding="utf-8")


def test_students_who_mean_well_have_their_points(scores: dict[str, dict[str, float]]) -> None:
    points = scores
    assert {student: points[student]["square-test"] for student in ("right", "half", "zzz-last")} == {
        "right": 3.0,
        "half": 1.0,
        "zzz-last": 3.0,
    }


@pytest.mark.parametrize("student", TRIED)
def test_what_is_not_allowed_does_not_happen(
    course: CourseFolder, scores: dict[str, dict[str, float]], student: str
) -> None:
    assert TRIED[student][1] in output(course, student)
    assert scores[student]["square-test"] == 3.0  # the answer before it was right


@container
@pytest.mark.parametrize("student", STOPPED)
def test_a_container_stops_what_the_hook_does_not(
    course: CourseFolder, scores: dict[str, dict[str, float]], student: str
) -> None:
    if (course.root / "autograded" / student).exists():
        assert "got it" not in output(course, student)
    assert scores[student].get("square-test", 0.0) in (0.0, 3.0)  # a kernel may have died of it
    assert "changed" not in course.nbgrader("db", "student", "list")


def test_nothing_was_changed_and_output_is_cut(course: CourseFolder) -> None:
    assert (course.root / "gradebook.db").is_file()
    assert not course.root.with_name(f"{course.root.name}-written").exists()
    for student in ("prints-without-end", "shows-without-end", "raises-without-end"):
        assert len(output(course, student)) < 300_000


def test_the_isolation_is_named(course: CourseFolder) -> None:
    said = course.nbgrader("autograde", NAME, "--student", "right", "--force")
    assert f"Submissions are held by {sandbox.isolation()}" in said
    assert ("no container" in said) != sandbox.container()


def test_cells_to_be_read_are_named(course: CourseFolder) -> None:
    said = course.nbgrader("autograde", NAME, "--student", "asks-the-gradebook", "--force")
    assert "read it" not in said
    cheat = replaced(course.released(NAME), {"square": f"import numpy as np\nnp.square = abs\nimport grading\n{HALF}"})
    course.hand_in("cheat", NAME, cheat)
    said = course.nbgrader("autograde", NAME, "--student", "cheat")
    assert "cheat: the cell square changes np.square, uses grading; read it" in said


def test_feedback_withholds_outputs_that_show_the_tests(course: CourseFolder) -> None:
    spies = {
        "spy": "def square(x):\n    print(In[-1])\n    return x ** 2",
        "reader": "import inspect, sys\ndef square(x):\n"
        "    print(inspect.getsource(sys.modules['grading.marks']))\n    return x ** 2",
    }
    for student, cells in spies.items():
        course.hand_in(student, NAME, replaced(course.released(NAME), {"square": cells}))
        course.nbgrader("autograde", NAME, "--student", student)
        course.nbgrader("generate_feedback", NAME, "--student", student)
        (page,) = (course.root / "feedback" / student).rglob("*.html")
        text = page.read_text(encoding="utf-8")
        assert "Withheld" in text
        assert not [word for word in ("is wrong", "observe(", "Marks()", "self.given") if word in text]


def test_feedback_tells_what_was_observed_and_not_how(course: CourseFolder) -> None:
    course.nbgrader("generate_feedback", NAME, "--student", "half")
    (page,) = (course.root / "feedback" / "half").rglob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "0 of 2: a large number is wrong. See chapter 1." in text
    assert "1 of 1." in text
    assert not [word for word in ("observe", "Marks", "itself") if word in text]


def _without(notebook: Any, name: str) -> Any:
    notebook.cells = [cell for cell in notebook.cells if cell.metadata["nbgrader"]["grade_id"] != name]
    return notebook


def _renamed(notebook: Any, name: str) -> Any:
    for cell in notebook.cells:
        if cell.metadata["nbgrader"]["grade_id"] == name:
            cell.metadata["nbgrader"]["grade_id"] = "another"
    return notebook


def _dearer(notebook: Any) -> Any:
    for cell in notebook.cells:
        if "points" in cell.metadata["nbgrader"]:
            cell.metadata["nbgrader"]["points"] = 1000
            cell.source = "1000.0"
    return notebook


def test_cells_that_were_tampered_with_are_graded_as_they_were_given_out(tmp_path: Path) -> None:
    write_small_master(tmp_path / "private")
    course = CourseFolder(tmp_path / "c")
    course.make("--masters", str(tmp_path / "private"))

    def answer(cells: str = HALF) -> Any:
        return replaced(course.released(NAME), {"square": cells})

    other_kernel = answer()
    other_kernel.metadata["kernelspec"] = {"name": "no-such-kernel", "display_name": "?"}
    submissions = {
        "a-deleted": _without(answer(), "square-test"),
        "c-dearer": _dearer(answer()),
        "d-other-kernel": other_kernel,
    }
    for student, notebook in submissions.items():
        course.hand_in(student, NAME, notebook)
    course.nbgrader("autograde", NAME)
    assert {student: cells["square-test"] for student, cells in course.points(NAME).items()} == dict.fromkeys(
        submissions, 1.0
    )


def test_a_submission_that_cannot_be_graded_is_named_and_the_others_are_graded(tmp_path: Path) -> None:
    write_small_master(tmp_path / "private")
    course = CourseFolder(tmp_path / "c")
    course.make("--masters", str(tmp_path / "private"))
    right: str = nbformat.writes(replaced(course.released(NAME), {"square": RIGHT}))
    submissions = {
        "a-not-text": b"\xff\xfe" + right.encode("utf-16-le"),
        "b-latin": right.replace("x ** 2", "x ** 2  # \u00e9").encode("latin-1"),
        "c-no-notebook": b"{}",
        "d-renamed": _renamed(replaced(course.released(NAME), {"square": RIGHT}), "square-test"),
        "d-ends-the-kernel": replaced(course.released(NAME), {"square": "import os\nos._exit(0)"}),
        "e-right": right.encode(),
    }
    for student, notebook in submissions.items():
        course.hand_in(student, NAME, notebook)
    said = course.nbgrader("autograde", NAME, code=1)
    scores = {student: cells.get("square-test", 0.0) for student, cells in course.points(NAME).items()}
    assert scores["e-right"] == 3.0
    assert {score for student, score in scores.items() if student != "e-right"} <= {0.0}
    assert all(student in said for student in submissions)


def test_thirty_students_have_a_row_each_and_grading_again_changes_nothing(tmp_path: Path) -> None:
    write_small_master(tmp_path / "private")
    course = CourseFolder(tmp_path / "c")
    course.make("--masters", str(tmp_path / "private"))
    for number in range(30):
        cells = (RIGHT, HALF, "def square(x):\n    return 0")[number % 3]
        course.hand_in(f"s{number:02d}", NAME, replaced(course.released(NAME), {"square": cells}))
    course.nbgrader("autograde", NAME)
    course.nbgrader("export")
    first = (course.root / "grades.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(first.splitlines()))
    assert [float(row["score"]) for row in rows] == [3.0, 1.0, 0.0] * 10
    course.nbgrader("autograde", NAME, "--force")
    course.nbgrader("export")
    assert (course.root / "grades.csv").read_text(encoding="utf-8") == first


def test_the_masters_are_read_only_in_effect(course: CourseFolder) -> None:
    """Grading writes into the course's copies; the private masters stay as they were."""
    private = course.root.parent / "private" / NAME / "small.ipynb"
    again = write_small_master(course.root.parent / "again")
    assert hashlib.sha256(private.read_bytes()).digest() == hashlib.sha256(again.read_bytes()).digest()
