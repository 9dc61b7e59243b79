"""What a student reads of a graded notebook: messages, not the code that found out."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor

from grading.leaks import secrets, telling

__all__ = ["MessagesOnly"]


@cache
def _hidden(source: Path) -> list[str]:
    """Return the lines of the checks and the secret ones of a course's masters, as JSON writes them; read once."""
    checks = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    lines = secrets(source) | set(filter(telling, map(str.strip, checks.splitlines())))
    return [json.dumps(line, ensure_ascii=False)[1:-1] for line in lines]


class MessagesOnly(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves of each error its kind and its message; a traceback quotes the lines around, hidden tests among them.

    An output that shows how the work is graded, which a submission can print, is withheld.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        hidden = _hidden(Path(self.config.CourseDirectory.root) / "source")
        for number, output in enumerate(cell.get("outputs", [])):
            if output["output_type"] == "error":
                output["traceback"] = [f"{output['ename']}: {output['evalue']}"]
            text = json.dumps(output, ensure_ascii=False)
            if any(line in text for line in hidden):
                cell.outputs[number] = new_output("stream", text="Withheld: it shows how the work is graded.")
        return cell, resources
