"""What a student reads of a graded notebook: messages, not the code that found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor

from grading.leaks import secrets

__all__ = ["MessagesOnly"]

_SHORTEST = 24  # characters of a line of the checks that gives something away


class MessagesOnly(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves of each error its kind and its message; a traceback quotes the lines around, hidden tests among them.

    An output that shows how the work is graded, which a submission can print, is withheld.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        checks = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
        lines = {line.strip() for line in checks.splitlines() if len(line.strip()) > _SHORTEST}
        lines |= secrets(Path(self.config.CourseDirectory.root) / "source")
        self._hidden = [json.dumps(line, ensure_ascii=False)[1:-1] for line in lines]
        return super().preprocess(nb, resources)  # type: ignore[no-any-return]

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        for number, output in enumerate(cell.get("outputs", [])):
            if output["output_type"] == "error":
                output["traceback"] = [f"{output['ename']}: {output['evalue']}"]
            text = json.dumps(output, ensure_ascii=False)
            if any(line in text for line in self._hidden):
                cell.outputs[number] = new_output("stream", text="Withheld: it shows how the work is graded.")
        return cell, resources
