"""What in a submission a person should read: code that could reach into how it is graded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

__all__ = ["to_be_read"]

# Hidden tests run beside the submission, in one process; with these it could look at them, or change what they use.
_WORDS = {
    "grading", "get_ipython", "inspect", "gc", "ctypes", "builtins", "__builtins__", "importlib", "sys", "exec", "eval",
    "setattr", "globals", "In", "_ih", "__import__",
}  # fmt: skip


def to_be_read(notebook: Any) -> Iterator[tuple[str, str]]:
    """Yield name and deed of each cell written by a student that uses such a word or changes an imported module."""
    modules: set[str] = set()
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            if "%" in cell.source or "!" in cell.source:
                yield f"number {number}", "is no plain Python"
            continue
        modules |= set(_imported(tree))
        of = cell.metadata.get("nbgrader", {})
        if not of.get("locked"):
            deeds = sorted({*_words(tree), *_changes(tree, modules)})
            if deeds:
                yield of.get("grade_id", f"number {number}"), ", ".join(deeds)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((name.asname or name.name).partition(".")[0] for name in node.names)


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Import):
            names = [name.name.partition(".")[0] for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
        yield from (f"uses {name}" for name in names if name in _WORDS)


def _changes(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            root: ast.AST = node
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name) and root.id in modules:
                yield f"changes {ast.unparse(node)}"
