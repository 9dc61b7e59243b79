"""A page of one run, made by the book's own configuration; runs share the scripts and styles of such pages."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfnewton.rerun import references, saving
from tfnewton.rerun.chapters import chapters, folder, told

__all__ = ["make"]

_MAKERS = ("sphinx", "jupyter-book", "sphinx-book-theme", "pydata-sphinx-theme", "sphinx-mathjax-offline", "myst-nb")
_BIBLIOGRAPHY = "## References\n\n```{bibliography}\n:filter: docname in docnames\n```"
_BUILD = "from jupyter_book.cli.main import main; main()"  # of this environment, whatever the PATH has
_ALONE: dict[str, Any] = {  # no contents, no search and no index: there is one page
    "html_sidebars": {"**": []},
    "html_use_index": False,
    "html_domain_indices": False,
}


def make(run: Path) -> Path:
    """Return the page of a run folder, ``page/index.html`` in it; one that is there stays.

    Raises:
        ValueError: the folder is none of a run.
        RuntimeError: the page could not be built; nothing is left of it.
    """
    page = run / "page" / "index.html"
    record = saving.record(run)
    if page.exists():
        return page
    root = folder().parent
    shared = _shared_folder(run, record) / _version(root)
    with TemporaryDirectory(prefix="tfnewton-") as temporary:
        built = _build(run, record, root, Path(temporary))
        if not shared.exists():
            saving.save(_files(built / "_static"), shared)
        files = _page_files(built, record, os.path.relpath(shared, page.parent))
    saving.save(files, page.parent)
    return page


def _shared_folder(run: Path, record: dict[str, Any]) -> Path:
    """Return where pages share scripts and styles: beside the folders of chapters, or beside a run that has none."""
    parent = run.resolve().parent
    return (parent.parent if parent.name == record["chapter"] else parent) / "_static"


def _version(root: Path) -> str:
    """Return what tells shared files of one version of the book and its tools from those of another."""
    digest = hashlib.sha256(" ".join(importlib.metadata.version(name) for name in _MAKERS).encode())
    for path in sorted((root / "book" / "_static").iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _build(run: Path, record: dict[str, Any], root: Path, temporary: Path) -> Path:
    """Build a book of the one chapter in a temporary folder, and return its HTML."""
    import yaml

    name = record["chapter"]
    configuration = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    configuration["sphinx"]["config"] |= _ALONE
    (temporary / "_config.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    (temporary / "_toc.yml").write_text(f"format: jb-book\nroot: {name}\n", encoding="utf-8")
    (temporary / "book").symlink_to(root / "book", target_is_directory=True)
    notebook = _notebook(run, record)
    (temporary / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    command = [sys.executable, "-c", _BUILD, "build", str(temporary), "--keep-going", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    html = temporary / "_build" / "html"
    if done.returncode or not (html / f"{name}.html").exists():
        raise RuntimeError(f"{run}: the page could not be built\n{done.stderr.strip()[-2000:]}")
    return html


def _notebook(run: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook of a run as text that stands alone and says which run it is."""
    notebook: dict[str, Any] = json.loads((run / f"{record['chapter']}.ipynb").read_text(encoding="utf-8"))
    references.alone(notebook, chapters())
    changed = told({name: record["parameters"][name] for name in record["changed"]})
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    note = f":::{{note}}\nA run of {changed}, started {record['started']}, on {versions}.\n:::"
    notebook["cells"].insert(1, _markdown("run", note))
    notebook["cells"].append(_markdown("references", _BIBLIOGRAPHY))
    return notebook


def _markdown(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def _page_files(built: Path, record: dict[str, Any], shared: str) -> dict[str, bytes]:
    """Return the page with its pictures; what runs share is linked to where it lies."""
    html = (built / f"{record['chapter']}.html").read_text(encoding="utf-8")
    html = re.sub(r'(?<=["\'(])(?:\./)?_static/', f"{shared}/", html)
    html = re.sub(r'\s*<(link rel="search"[^>]*|script src="searchindex.js"></script)>', "", html)
    html = re.sub(rf'(?<=["\'])(?:\./)?_sources/{record["chapter"]}\.ipynb', f"../{record['chapter']}.ipynb", html)
    pictures = {f"_images/{name}": data for name, data in _files(built / "_images").items()}
    return {"index.html": html.encode(), **pictures}


def _files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
