"""What a student reads of a graded notebook: messages, not the code that found out."""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import NbGraderPreprocessor

__all__ = ["MessagesOnly"]


class MessagesOnly(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves of each error its kind and its message; a traceback quotes the lines around, hidden tests among them."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                output["traceback"] = [f"{output['ename']}: {output['evalue']}"]
        return cell, resources
