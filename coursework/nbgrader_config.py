"""nbgrader's configuration for a course that ``make coursework`` has laid out; its folder is the current one."""

import os
import sys
from pathlib import Path

from nbgrader import preprocessors
from traitlets.config import get_config

HERE = Path(__file__).parent  # of coursework/, in the project
sys.path.insert(0, str(HERE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))

from grading.execute import GuardedExecute  # noqa: E402
from grading.feedback import MessagesOnly  # noqa: E402

c = get_config()
c.CourseDirectory.course_id = "tfnewton"
c.CourseDirectory.root = str(Path.cwd())
c.CourseDirectory.db_assignments = []
c.Execute.timeout = 60
c.GuardedExecute.timeout = 60  # seconds a cell
c.Autograde.autograde_preprocessors = [
    GuardedExecute,
    preprocessors.IgnorePattern,
    preprocessors.LimitOutput,
    preprocessors.SaveAutoGrades,
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
