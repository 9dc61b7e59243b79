"""The contents of a run folder, taken out of an executed notebook: nothing is scraped from text."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tfnewton.rerun import provenance
from tfnewton.rerun.chapters import Chapter

__all__ = ["ROWS", "collect", "comma_separated", "figures", "tables"]

ROWS = "application/vnd.dataresource+json"
_METADATA = ("kernelspec", "language_info")


def collect(
    chapter: Chapter,
    values: Mapping[str, Any],
    notebook: Any,
    started: datetime,
    seconds: Sequence[tuple[str, float]],
) -> dict[str, bytes]:
    """Return the files of a run by name: the notebook, ``figures/``, ``tables/`` and ``run.json``."""
    shown = dict(tables(notebook))
    files = {f"tables/{name}.csv": comma_separated(table) for name, table in shown.items()}
    described_figures: list[dict[str, str]] = []
    for name, described, data in figures(notebook):
        described_figures.append({"name": name, **described})
        files[f"figures/{name}.png"] = base64.b64decode(data["image/png"])
        files[f"figures/{name}.svg"] = "".join(data["image/svg+xml"]).encode()
    files[f"{chapter.file}.ipynb"] = _written(notebook)
    record = {
        **_parameters(chapter, values, shown),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - started).total_seconds(), 3),
        "cells": [{"heading": heading, "seconds": of} for heading, of in seconds],
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "code": provenance.fingerprint(chapter),
        "threads": provenance.threads(),
        "device": "cpu",
        "tables": [{"name": name, "title": of["title"], "schema": of["schema"]} for name, of in shown.items()],
        "figures": described_figures,
    }
    return files | {"run.json": (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()}


def _parameters(chapter: Chapter, values: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was run, and the number that stands for it, None where the chapter shows none."""
    headline = chapter.entry.headline
    try:
        value = headline.value(shown[headline.table], values)
    except (KeyError, ValueError):
        value = None
    return {
        "chapter": chapter.file,
        "title": chapter.title,
        "parameters": dict(values),
        "changed": list(chapter.changed(values)),
        "headline": {
            "table": headline.table,
            "column": headline.column,
            "label": headline.label,
            "value": value,
        },
        "seeds": {name: value for name, value in values.items() if "seed" in name},
    }


def comma_separated(table: Mapping[str, Any]) -> bytes:
    """Return the rows of a table as CSV: numbers with all their digits, nothing where there is no value."""
    names = [field["name"] for field in table["schema"]["fields"]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_entry(row[name]) for name in names] for row in table["data"])
    return text.getvalue().encode()


def _entry(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return {"INF": "inf", "-INF": "-inf"}.get(value, value) if isinstance(value, str) else repr(value)


def _outputs(notebook: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            yield cell, output.get("data", {})


def tables(notebook: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and rows of each table that an executed notebook shows."""
    for _, data in _outputs(notebook):
        if ROWS in data:
            yield data[ROWS]["name"], data[ROWS]


def figures(notebook: Any) -> Iterator[tuple[str, dict[str, str], Mapping[str, Any]]]:
    """Yield name, caption and alternative text, and formats of each figure."""
    count = 0
    for cell, data in _outputs(notebook):
        if "image/png" in data:
            count += 1
            described = cell["metadata"].get("mystnb", {})
            figure, image = described.get("figure", {}), described.get("image", {})
            name = figure.get("name", f"figure-{count}")
            yield name, {"caption": figure.get("caption", ""), "alt": image.get("alt", "")}, data


def _written(notebook: Any) -> bytes:
    """Return the notebook as a file, without what the tools that ran it have left in its metadata."""
    import nbformat

    notebook.metadata = {key: notebook.metadata[key] for key in _METADATA if key in notebook.metadata}
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        if not cell["metadata"].get("tags", True):
            del cell["metadata"]["tags"]
    return f"{nbformat.writes(notebook)}\n".encode()
