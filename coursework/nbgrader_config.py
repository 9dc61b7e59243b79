"""nbgrader's configuration for a course that ``make coursework`` has laid out; its folder is the current one."""

import os
import sys
import warnings
from pathlib import Path

from nbgrader import preprocessors
from sqlalchemy.exc import SAWarning

HERE = Path(__file__).parent  # of coursework/, in the project
sys.path.insert(0, str(HERE))
# nbgrader calls alembic by name, which an environment has that need not be active.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))

from grading.execute import GuardedExecute  # noqa: E402
from grading.feedback import MessagesOnly  # noqa: E402
from grading.grades import SaveGrades  # noqa: E402

warnings.simplefilter("ignore", SAWarning)  # nbgrader's, of no consequence

c = get_config()  # noqa: F821 (traitlets has it where it reads this file)
c.CourseDirectory.course_id = "tfnewton"
c.CourseDirectory.root = str(Path.cwd())
c.GuardedExecute.timeout = 60  # seconds a cell
c.GuardedExecute.masters = [str(HERE / "source"), str(HERE.parent / "tests" / "coursework")]
c.OverwriteCells.add_missing_cells = True  # a graded cell that was deleted or renamed is graded all the same
c.Autograde.autograde_preprocessors = [
    GuardedExecute,
    preprocessors.IgnorePattern,
    preprocessors.LimitOutput,
    SaveGrades,
    preprocessors.AssignLatePenalties,
    preprocessors.CheckCellMetadata,
]
c.GenerateFeedback.preprocessors = [
    preprocessors.GetGrades,
    preprocessors.ClearHiddenTests,
    preprocessors.ClearMarkScheme,
    MessagesOnly,
]
c.ClearSolutions.code_stub = {"python": "# your code\nraise NotImplementedError"}
