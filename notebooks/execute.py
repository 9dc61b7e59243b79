"""Run chapters again, in place: ``python notebooks/execute.py [NOTEBOOK ...]``, all of them without an argument.

What is written depends on what the cells do and on nothing else, so a second run changes no byte. A notebook that
fails is left as it was.
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from PIL import Image

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
CELL_METADATA = {"tags", "mystnb", "slideshow", "editable", "deletable", "jupyter"}


def execute(path: Path) -> None:
    """Run one notebook and replace its file, all at once."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    normalise(notebook)
    written = path.with_suffix(".ipynb.new")
    nbformat.write(notebook, written)
    written.replace(path)


def normalise(notebook: NotebookNode) -> None:
    """Drop the metadata that varies from run to run or from editor to editor, and make the images small."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in CELL_METADATA}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _smaller(output.data["image/png"])


def _smaller(png: str) -> str:
    """Return the image with a palette of 256 colours: a third of the size, and no level off by more than a few."""
    image = Image.open(io.BytesIO(base64.b64decode(png)))
    if image.mode == "P":
        return png
    palette = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    written = io.BytesIO()
    palette.save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or sorted(HERE.glob("*.ipynb"))
    failed = 0
    for path in paths:
        print(path.name, flush=True)
        try:
            execute(path)
        except CellExecutionError as error:
            failed += 1
            print(f"{path.name} is left as it was: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
