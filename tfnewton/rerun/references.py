"""References from one chapter to others as text, for a page that stands alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tfnewton.rerun.chapters import Chapter, text

__all__ = ["alone", "labels"]

_ROLE = re.compile(r"(?<!`)\{(doc|ref|numref|eq|prf:ref)\}`([^`<]*?)(?:\s*<([^`>]*)>)?`")
_STATEMENT = re.compile(r"\{prf:(\w+)\}[ \t]*([^\n]*)\n:label: ([\w-]+)")
_LABELS = (
    re.compile(r"^:(?:label|name): ([\w-]+)\s*$", re.MULTILINE),
    re.compile(r"^\$\$ \(([\w-]+)\)", re.MULTILINE),
    re.compile(r"^\(([\w-]+)\)=", re.MULTILINE),
)


def labels(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return what a chapter labels, each with the words that name it from elsewhere."""
    found: dict[str, str] = {}
    for cell in notebook["cells"]:
        source = text(cell)
        if cell["cell_type"] == "markdown":
            for pattern in _LABELS:
                found |= {label: f"*{label}*" for label in pattern.findall(source)}
            for kind, title, label in _STATEMENT.findall(source):
                found[label] = f"{kind} *{title.strip()}*" if title.strip() else kind
        figure = cell["metadata"].get("mystnb", {}).get("figure", {})
        if "name" in figure:
            found[figure["name"]] = f"figure *{figure['name']}*"
    return found


def alone(notebook: Mapping[str, Any], chapters: Iterable[Chapter]) -> None:
    """Replace, in the notebook's text, what refers to other chapters by words that name it."""
    here = labels(notebook)
    titles = {of.file: f"*{of.title}*" for of in chapters}
    elsewhere = {
        label: f"{words} (chapter {of.number})" for of in chapters for label, words in labels(of.notebook).items()
    }

    def said(role: re.Match[str]) -> str:
        kind, words, target = role[1], role[2], role[3] or role[2]
        if kind != "doc" and target in here:
            return role[0]
        if role[3] and words:
            return words
        known = titles.get(target.rpartition("/")[2]) if kind == "doc" else elsewhere.get(target)
        plain = known or f"*{target.rpartition('/')[2].replace('_', ' ')}*"
        return f"equation {plain}" if kind == "eq" else plain

    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _ROLE.sub(said, text(cell))
