"""A course laid out for nbgrader: masters of one variant, configuration, and what students get of them.

    make coursework [VARIANT=3] [MASTERS=folder] [COURSE=folder]

Afterwards every command of nbgrader works in the folder of the course.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import nbformat
import typer
import yaml

from grading.leaks import leaks

__all__ = ["lay_out", "release"]

HERE = Path(__file__).parents[1]
INSTALLATION = """\
from importlib.util import find_spec

if not find_spec("tfnewton"):  # as in Colab
    %pip install --quiet "tfnewton[science,learning] @ git+{url}\""""
CONFIGURATION = """\
# Made by `make coursework`; nbgrader reads it in this folder.
c = get_config()
load_subconfig({path!r})
c.GuardedExecute.masters += [{masters!r}]
"""


def lay_out(masters: Path, course: Path, variant: int, repository: str = "") -> list[str]:
    """Copy ``masters`` into ``course`` with the variant written in, and return the names of the assignments.

    With the address of a ``repository`` a cell installs the package from there where it is missing. What has been
    submitted, graded and released stays.

    Raises:
        ValueError: a negative variant, no assignment in ``masters``, one that cannot be read or has no cell for the
            variant, or another variant than that of work that is in ``course``.
        OSError: the course cannot be written.
    """
    if variant < 0:
        raise ValueError(f"variant = {variant}: must be 0 or more")
    found = sorted(masters.glob("*/*.ipynb"))
    if not found:
        raise ValueError(f"masters = {masters}: has no assignment, a folder with a notebook in it")
    instances = {path: _instance(path, variant, repository) for path in found}
    if (course / "submitted").exists():
        for path in instances:
            _same_variant(course / "source" / path.parent.name / path.name, variant)
    course.mkdir(parents=True, exist_ok=True)
    for path, notebook in instances.items():
        to = course / "source" / path.parent.name
        shutil.copytree(path.parent, to, dirs_exist_ok=True)
        nbformat.write(notebook, to / path.name)
    (course / "nbgrader_config.py").write_text(
        CONFIGURATION.format(path=str(HERE / "nbgrader_config.py"), masters=str(masters.resolve())), encoding="utf-8"
    )
    return sorted({path.parent.name for path in found})


def _instance(path: Path, variant: int, repository: str) -> Any:
    """Return the master of a variant, which installs the package from a repository, if one is given."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:  # of nbformat's own kinds, and of text that is not UTF-8
        raise ValueError(f"{path}: is no notebook ({str(error).partition(chr(10))[0]})") from None
    cells = _tagged(notebook)
    if len(cells) != 1 or not cells[0].source.startswith("variant = "):
        raise ValueError(f"{path}: must have one cell with the tag `parameters`, of one line, `variant = 0`")
    _, _, comment = cells[0].source.partition("#")
    cells[0].source = f"variant = {variant}" + (f"  #{comment}" if comment else "")
    if repository:
        source = INSTALLATION.format(url=repository)
        of = cells[0].metadata["nbgrader"] | {"grade_id": "installation"}
        cell = nbformat.v4.new_code_cell(source, id="installation", metadata={"nbgrader": of})
        notebook.cells.insert(notebook.cells.index(cells[0]), cell)
    return notebook


def _tagged(notebook: Any) -> list[Any]:
    """Return the cells that are to hold the variant: one, in a master that is right."""
    return [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]


def _same_variant(laid_out: Path, variant: int) -> None:
    """Raise ValueError where a course has this assignment in another variant."""
    if laid_out.exists():
        (cell,) = _tagged(nbformat.read(laid_out, as_version=4))
        number = cell.source.removeprefix("variant = ").partition("#")[0].strip()
        if number != str(variant):
            raise ValueError(
                f"variant = {variant}: {laid_out.parents[2]} has work of variant {number}; name another folder"
            )


def _repository() -> str:
    """Return the address that the book's configuration names; empty where it names none."""
    text = (HERE.parent / "_config.yml").read_text(encoding="utf-8")
    return str(yaml.safe_load(text).get("repository", {}).get("url") or "")


def release(course: Path, names: list[str]) -> None:
    """Have nbgrader make what students get of the assignments, and look through it.

    Raises:
        RuntimeError: nbgrader refuses a master, or something that students must not see is in what they get.
    """
    for name in names:
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", name, "--force"]
        done = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: nbgrader refuses it\n{done.stderr}")
    faults = [*leaks(course / "source", [course / "release"]), *_silent(course / "release")]
    if faults:
        raise RuntimeError("\n".join(faults))


def _silent(released: Path) -> Iterator[str]:
    """Yield in words each graded cell that is empty in the release, and does not say what is graded there."""
    for path in sorted(released.rglob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            of = cell.metadata.get("nbgrader", {})
            if of.get("grade") and not cell.source.strip():
                yield f"{path.name}: the graded cell {of['grade_id']} is empty, and must say what is graded there"


def main(
    variant: Annotated[int, typer.Option(help="Which instance of the tasks.")] = 0,
    masters: Annotated[Path, typer.Option(help="The folder of the masters, a folder each.")] = HERE / "source",
    course: Annotated[Path, typer.Option(help="Where the course is laid out.")] = Path("_build/coursework"),
) -> None:
    """Lay out a course, and make what students get of it."""
    try:
        names = lay_out(masters, course, variant, _repository())
        release(course, names)
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    print(f"{course / 'release'}: {', '.join(names)}, variant {variant}")


if __name__ == "__main__":
    typer.run(main)
