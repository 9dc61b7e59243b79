"""Saving grades."""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import SaveAutoGrades

__all__ = ["SaveGrades"]


class SaveGrades(SaveAutoGrades):  # type: ignore[misc]
    """nbgrader's saving of grades, after which a cell that only carries a rubric waits for nobody."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        of = cell.metadata.get("nbgrader", {})
        if of.get("task") and not of.get("points"):
            grade = self.gradebook.find_grade(of["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
            grade.manual_score, grade.needs_manual_grade = 0.0, False
            self.gradebook.db.commit()
        return cell, resources
