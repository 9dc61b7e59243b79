"""The slides of the lecture: ``lecture.md`` with the chapters' own figures, as pages that need no network.

    python book/slides/build.py [FOLDER]

A line of three dashes ends a slide, ``Note:`` begins what only the speaker sees, and an image ``![](03#name)`` is the
figure of that name in chapter 3, with its alternative text there.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import nbformat
import typer

__all__ = ["build", "slides"]

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parents[1] / "notebooks"
_FIGURE = re.compile(r"!\[\]\((\d\d)#([\w-]+)\)")


def slides(text: str) -> Any:
    """Return a notebook with a cell for each slide of ``text`` and one for each note.

    Raises:
        ValueError: a figure that no chapter has, with its name.
    """
    cells = []
    for slide in text.split("\n---\n"):
        shown, _, note = slide.strip().partition("\nNote:")
        cells.append(_cell(_FIGURE.sub(_picture, shown), "slide"))
        if note:
            cells.append(_cell(note.strip(), "notes"))
    return nbformat.v4.new_notebook(cells=cells, metadata={"title": text.partition("\n")[0].lstrip("# ")})


def _cell(source: str, kind: str) -> Any:
    return nbformat.v4.new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})


def _picture(found: re.Match[str]) -> str:
    from tfnewton.rerun.outputs import figures

    for path in NOTEBOOKS.glob(f"{found[1]}_*.ipynb"):
        for name, described, data in figures(nbformat.read(path, as_version=4)):
            if name == found[2]:
                source = "".join(data["image/png"].split())
                kind = "tall" if _tall(base64.b64decode(source)) else "wide"
                return f'<img class="{kind}" alt="{escape(described["alt"])}" src="data:image/png;base64,{source}">'
    raise ValueError(f"{found[0]}: no chapter {found[1]} has a figure {found[2]}")


def _tall(png: bytes) -> bool:
    """Return whether a picture is higher than wide, or nearly."""
    from PIL import Image

    with Image.open(BytesIO(png)) as picture:
        return picture.height > 0.8 * picture.width


def build(folder: Path) -> Path:
    """Write the slides with all that they load into ``folder``, and return their page."""
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        extra_template_basedirs=[str(HERE)],
        template_name="template",
        reveal_url_prefix="reveal",
        reveal_theme="white",  # with fonts of its own
    )
    notebook = slides((HERE / "lecture.md").read_text(encoding="utf-8"))
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": notebook.metadata["title"]}})
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in _loaded():
        shutil.copytree(source, folder / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.map", "source"))
    (folder / "lecture.html").write_text(page, encoding="utf-8")
    return folder / "lecture.html"


def _loaded() -> Iterator[tuple[str, Path]]:
    """Yield name and place of reveal.js and of MathJax, as installed packages bring them."""
    for name, package, inside in (
        ("reveal", "sphinx_revealjs", "_static/revealjs"),
        ("mathjax", "sphinx-mathjax-offline", "static/mathjax"),
    ):
        found = find_spec(package)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(f"{package} is missing; the extra `course` has it", name=package)
        yield name, Path(found.origin).parent / inside


def main(
    folder: Annotated[Path, typer.Argument(help="Where the slides go.")] = Path("_build/coursework/slides"),
) -> None:
    """Make the slides of the lecture."""
    print(build(folder))


if __name__ == "__main__":
    typer.run(main)
