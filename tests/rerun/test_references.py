"""On a page that stands alone, references to other chapters are words, and those within the chapter stay."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helpers.small_chapter import code, markdown
from tfnewton.rerun.chapters import Chapter, chapters
from tfnewton.rerun.references import alone, labels

CHAPTERS = chapters()
LINKS = re.compile(r"\{(doc|ref|numref|eq|prf:ref)\}`(?:[^`<]*<)?([^`>]*)>?`")


def chapter(number: int, name: str, title: str, *cells: dict[str, Any]) -> Chapter:
    return Chapter(number, name, title, {"cells": [markdown(f"# {title}"), *cells]})


OTHER = chapter(
    *(1, "other", "The other"),
    markdown(":::{prf:lemma} A step\n:label: a-step\n\nx\n:::\n\n$$\ny\n$$ (an-equation)\n\n(a-place)=\n## Place"),
    code("1", mystnb={"figure": {"name": "a-figure"}}),
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Chapter {doc}`01_other`.", "Chapter *The other*."),
        ("{doc}`this one <01_other>`", "this one"),
        ("{doc}`../book/notation`", "*notation*"),
        ("By {prf:ref}`a-step`,", "By lemma *A step* (chapter 1),"),
        ("by {eq}`an-equation`", "by equation *an-equation* (chapter 1)"),
        ("{numref}`a-figure`", "figure *a-figure* (chapter 1)"),
        ("see {ref}`there <a-place>`", "see there"),
        ("{prf:ref}`nowhere-to-be-found`", "*nowhere-to-be-found*"),
        ("{eq}`mine` and {prf:ref}`mine`", "{eq}`mine` and {prf:ref}`mine`"),
        ("`{eq}` in code, {cite:p}`giannou2025`", "`{eq}` in code, {cite:p}`giannou2025`"),
    ],
)
def test_references_elsewhere_become_words(written: str, read: str) -> None:
    here = chapter(2, "here", "Here", markdown("$$\nx\n$$ (mine)"), markdown(written))
    alone(here.notebook, [OTHER, here])
    assert here.notebook["cells"][-1]["source"] == read


@pytest.mark.parametrize("of", CHAPTERS, ids=lambda of: of.file)
def test_no_chapter_refers_elsewhere_when_it_stands_alone(of: Chapter) -> None:
    notebook = {"cells": [dict(cell) for cell in of.notebook["cells"]]}
    alone(notebook, CHAPTERS)
    here = labels(notebook)
    texts = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    assert [
        target for text in texts for kind, target in LINKS.findall(text) if kind == "doc" or target not in here
    ] == []
