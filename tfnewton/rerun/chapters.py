"""The chapters: where they are, how one is named, what its parameters are, and what it reads when it runs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tfnewton
from tfnewton.rerun import parameters as classes
from tfnewton.rerun.catalogue import CATALOGUE, Entry
from tfnewton.rerun.legality import Parameters, parse, settle
from tfnewton.rerun.values import allowed, write

__all__ = ["Chapter", "chapters", "find", "folder"]

_FILE = re.compile(r"(\d\d)_([a-z_0-9]+)\.ipynb")


@dataclass(frozen=True)
class Chapter:
    """A chapter as a program; ``notebook`` is its file without outputs, so that it can be sent to another machine."""

    number: int
    name: str
    title: str
    notebook: dict[str, Any]

    @property
    def file(self) -> str:
        """The name of its file, without the ending: ``03_matrix_inversion``."""
        return f"{self.number:02d}_{self.name}"

    @property
    def entry(self) -> Entry:
        """What the catalogue says of it."""
        return CATALOGUE[self.name]

    @property
    def parameters(self) -> type[Parameters]:
        """The class that checks its parameters."""
        candidates = [vars(classes)[name] for name in classes.__all__ if name != "Parameters"]
        found: type[Parameters] = next(of for of in candidates if _is_of(of, self.name))
        return found

    @property
    def ask(self) -> str:
        """The command that lists its parameters."""
        return f"tfnewton params {self.number}"

    def defaults(self) -> dict[str, Any]:
        """Return the typed values that the published chapter has."""
        return {name: value for name, (_, value, _) in self._lines().items()}

    def described(self) -> list[dict[str, Any]]:
        """Return each parameter's name, type, default, what is allowed, and help."""
        fields = self.parameters.model_fields
        return [
            {"name": name, "type": kind, "default": value, "allowed": allowed(fields[name]), "help": text}
            for name, (kind, value, text) in self._lines().items()
        ]

    def read(self, given: list[tuple[str, str]], preset: str | None = None) -> dict[str, Any]:
        """Return the typed values of all parameters: the defaults, over them a preset, over it what is given as text.

        Raises:
            ValueError: no such preset, or parameters that are not legal (RefusedError).
        """
        base, faults = self.defaults(), []
        if preset is not None and preset in self.entry.presets:
            base |= self.entry.presets[preset]
        elif preset is not None:
            near = get_close_matches(preset, self.entry.presets, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.entry.presets)}"
            faults = [f"preset = {preset}: there is no such preset; {meant}"]
        return base | parse(self.parameters, given, base, self.ask, faults)

    def settle(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return typed values of all parameters, or refuse them by name (RefusedError)."""
        return dict(settle(self.parameters, values, self.ask))

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of ``values`` that are not the defaults."""
        defaults = self.defaults()
        return {name: values[name] for name in defaults if values[name] != defaults[name]}

    def seconds(self, values: Mapping[str, Any]) -> float:
        """Return how long a run takes on one core, roughly."""
        return self.entry.seconds + self.entry.more(values)

    def _lines(self) -> dict[str, tuple[str, Any, str]]:
        """Return type, default and help of each parameter, from the cell that is tagged ``parameters``."""
        (source,) = [text(cell) for cell in self.notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
        helps = {line.partition(":")[0]: line.partition("  # ")[2] for line in source.splitlines()}
        return {
            of.target.id: (ast.unparse(of.annotation), ast.literal_eval(of.value), helps[of.target.id])
            for of in ast.parse(source).body
            if isinstance(of, ast.AnnAssign) and isinstance(of.target, ast.Name) and of.value is not None
        }


def text(cell: Mapping[str, Any]) -> str:
    """Return the source of a cell, which a file holds as lines or whole."""
    return "".join(cell["source"])


def folder() -> Path:
    """Return where the chapters are: in the repository of an editable installation, or in the current folder.

    Raises:
        FileNotFoundError: in neither.
    """
    for root in (Path(tfnewton.__file__).parents[1], Path.cwd()):
        if _files(root / "notebooks"):
            return root / "notebooks"
    raise FileNotFoundError(
        "no chapters here: they are in the repository, not in the package. Call tfnewton in a clone of it, or from the "
        ".venv that `make book` makes there"
    )


def chapters() -> list[Chapter]:
    """Return all chapters in order."""
    return [_load(path) for path in _files(folder())]


def find(name: str) -> Chapter:
    """Return the chapter with this number, file name, or unambiguous part of the name.

    Raises:
        ValueError: none, or more than one; the message has the candidates.
    """
    paths = {path.stem: path for path in _files(folder())}
    if "/" in name and Path(name).resolve() not in (path.resolve() for path in paths.values()):
        raise ValueError(f"chapter = {name}: is no chapter of {folder()}; only those are run here")
    wanted = Path(name.strip().lower()).name.removesuffix(".ipynb").replace("-", "_").replace(" ", "_")
    if re.fullmatch(r"[0-9]+", wanted):
        found = [stem for stem in paths if int(stem[:2]) == int(wanted)]
    else:
        exact = [stem for stem in paths if wanted in (stem, stem[3:])]
        found = exact or [stem for stem in paths if wanted and wanted in stem]
    if len(found) == 1:
        return _load(paths[found[0]])
    if found:
        raise ValueError(f"chapter = {name}: could be {', '.join(found)}; name one of them")
    raise ValueError(f"chapter = {name}: is none of {', '.join(paths)}; give a number or a part of a name")


def told(values: Mapping[str, Any]) -> str:
    """Return parameters as text in one line: ``kappa = 1000, d = 12``, or ``the defaults``."""
    return ", ".join(f"{name} = {write(value)}" for name, value in values.items()) or "the defaults"


def _is_of(thing: object, name: str) -> bool:
    return isinstance(thing, type) and issubclass(thing, Parameters) and thing.chapter() == name


def _files(notebooks: Path) -> list[Path]:
    return [path for path in sorted(notebooks.glob("*.ipynb")) if _FILE.fullmatch(path.name)]


def _load(path: Path) -> Chapter:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    title = text(notebook["cells"][0]).partition("\n")[0].removeprefix("# ").strip()
    return Chapter(int(path.stem[:2]), path.stem[3:], title, notebook)
