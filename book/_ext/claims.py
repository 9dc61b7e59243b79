"""Sphinx directives that render the paper's record: what it claims (claims.yml) and where it slips (errata.yml).

The data files lie beside the page that uses the directive. ``{claims} 3 4`` shows the statements of sections 3 and 4,
``{errata} linear`` shows the errata of one part; ``{claims-summary}`` and ``{errata-summary}`` count by standing. Cells
are Markdown.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

STANDINGS = ("holds", "holds as corrected", "not reproduced / depends on", "false, with counterexample")
SLIPS = ("false", "slip", "loose", "can be bettered")  # standings of errata

Entry = dict[str, Any]


class RecordDirective(SphinxDirective):
    """A directive that reads a data file beside its page and draws a table from it."""

    file: ClassVar[str]
    optional_arguments = 1
    final_argument_whitespace = True

    def entries(self) -> list[Entry]:
        path = Path(self.env.doc2path(self.env.docname)).parent / self.file
        self.env.note_dependency(str(path))
        loaded: list[Entry] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return loaded

    def cell(self, markdown: str) -> nodes.entry:
        return nodes.entry("", *self.parse_text_to_nodes(markdown))

    def table(self, headers: Sequence[str], widths: Sequence[int], rows: Sequence[nodes.row]) -> nodes.table:
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(widths))
        group += nodes.thead("", nodes.row("", *(self.cell(header) for header in headers)))
        group += nodes.tbody("", *rows)
        return nodes.table("", group, classes=["record", "colwidths-given", self.name])

    def row(self, name: str, *cells: str) -> nodes.row:
        """A row whose first cell can be linked to as ``name``."""
        row = nodes.row("", *(self.cell(cell) for cell in cells))
        target = nodes.target("", "", ids=[name], names=[name])
        self.state.document.note_explicit_target(target)
        row[0][0].insert(0, target)
        return row


class Claims(RecordDirective):
    """The labelled statements of the sections named in the argument, one row each."""

    file = "claims.yml"

    def run(self) -> list[nodes.Node]:
        sections = self.arguments[0].split()
        rows = [self.claim(entry) for entry in self.entries() if entry["section"] in sections]
        return [self.table(["Paper", "In our words", "Standing", "In this book"], [17, 38, 13, 32], rows)]

    def claim(self, entry: Entry) -> nodes.row:
        name = f"**{entry['kind'].capitalize()} {entry['number']}**\\\n{literal(entry['label'])}"
        return self.row(anchor(entry["label"]), name, entry["statement"], badge(entry["standing"]), where(entry))


class Summary(RecordDirective):
    """How many entries have each standing."""

    standings: ClassVar[tuple[str, ...]]
    counted: ClassVar[str]

    def run(self) -> list[nodes.Node]:
        counts = Counter(entry["standing"] for entry in self.entries())
        unknown = sorted(set(counts) - set(self.standings))
        if unknown:
            raise self.error(f"{self.file} has the standings {unknown}: must be among {list(self.standings)}")
        shown = {badge(name): counts[name] for name in self.standings} | {"all": counts.total()}
        rows = [nodes.row("", self.cell(name), self.cell(str(count))) for name, count in shown.items()]
        return [self.table(["Standing", self.counted], [70, 30], rows)]


class ClaimsSummary(Summary):
    """How many of the paper's statements have each standing."""

    file, standings, counted = "claims.yml", STANDINGS, "Statements"


class ErrataSummary(Summary):
    """How many of the errata have each standing."""

    file, standings, counted = "errata.yml", SLIPS, "Errata"


class Errata(RecordDirective):
    """The errata of the part named in the argument, one row each."""

    file = "errata.yml"

    def run(self) -> list[nodes.Node]:
        rows = [self.erratum(entry) for entry in self.entries() if entry["part"] == self.arguments[0]]
        return [self.table(["Place", "Printed, and correct", "How one sees it"], [18, 44, 38], rows)]

    def erratum(self, entry: Entry) -> nodes.row:
        slip = f"*Printed:* {entry['printed']}\n\n*Correct:* {entry['correct']}"
        seen = f"{entry['why']}\n\n{lines(map(evidence, entry['evidence']))}"
        return self.row(f"erratum-{entry['name']}", f"{entry['place']}\n\n{badge(entry['standing'])}", slip, seen)


def anchor(label: str) -> str:
    """The id of a claim's row: ``claim-lem-inverse`` for ``lem:inverse``."""
    return "claim-" + re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def badge(standing: str) -> str:
    kind = re.split("[,/]", standing)[0].strip().replace(" ", "-")
    return f"[{standing}]{{.standing .{kind}}}"


def literal(text: str) -> str:
    return f"`{text}`"


def lines(parts: Iterator[str]) -> str:
    return "\\\n".join(parts)


def where(entry: Entry) -> str:
    """Chapter, function and test of a claim, one a line."""
    chapter, function, test = entry.get("chapter"), entry.get("function"), entry.get("test")
    parts = [
        page(chapter) if chapter else "",
        f"{{py:obj}}`{function}`" if function else "",
        literal(test) if test else "",
    ]
    return lines(filter(None, parts)) or "–"


def page(chapter: str) -> str:
    """``notebooks/03_matrix_inversion#lem-inverse`` as links to the page and to the labelled statement on it."""
    document, _, label = chapter.partition("#")
    return f"{{doc}}`/{document}`" + (f", {{prf:ref}}`{label}`" if label else "")


def evidence(item: str) -> str:
    return literal(item) if item.startswith("tests/") else page(item)


def drop_shared_ids(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Remove the ids that statements, proofs and exercises all get alike; ids must be unique in a page."""
    shared = {"proof", "proof-content", "exercise-content", "solution-content"}
    for node in document.findall(nodes.Element):
        node["ids"] = [name for name in node["ids"] if name not in shared]


def escape(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Let docstrings write mathematics as in code, ``|x|``, ``A*B``, ``x_``, outside double backticks too."""
    markup = re.compile(r"(``.*?``)|([|*])|(?<=\w)(_)(?!\w)")
    lines[:] = [markup.sub(lambda match: match[1] or "\\" + match[0], line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    # autodoc imports with typing.TYPE_CHECKING set, under which pydantic leaves classes undefined: import them before
    importlib.import_module("tfnewton.campaign.results")
    app.add_directive("claims", Claims)
    app.add_directive("claims-summary", ClaimsSummary)
    app.add_directive("errata", Errata)
    app.add_directive("errata-summary", ErrataSummary)
    app.connect("doctree-resolved", drop_shared_ids)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before napoleon writes markup of its own
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
