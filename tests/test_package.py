"""The shape of the package: what may import what, what importing costs, and how long its parts may be."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import tfnewton

ROOT = Path(tfnewton.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NAMES = {
    path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__") for path in FILES
}
FOLDERS = [
    *("algorithms", "approximation", "campaign", "cluster", "constructions", "figures"),
    *("learning", "model", "rerun", "theory"),
]
GROUND = ["checks", "damping", "files", "scaling"]
NOTEBOOK_TOOLS = {
    "IPython",
    "ipykernel",
    "jupyter_core",
    "jupyter_client",
    "nbformat",
    "nbclient",
    "papermill",
    "sphinx",
}
EXTRAS = NOTEBOOK_TOOLS | {"matplotlib", "scipy", "sklearn", "flint", "pandas", "dask", "distributed"}
DASK = {"tfnewton.cluster.clients", "tfnewton.cluster.distribution"}  # need it, and are loaded by who needs both


def role(module: str) -> str:
    """The folder of a module of the package, or its own name when it stands at the top."""
    return module.split(".")[1] if "." in module else ""


def run(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(*roles: str) -> list[str]:
    return [name for name in NAMES.values() if role(name) in roles]


def test_folders_are_the_roles_of_the_package() -> None:
    assert sorted({path.parent.name for path in FILES if path.name == "__init__.py"} - {"tfnewton"}) == FOLDERS
    assert sorted(path.stem for path in ROOT.glob("[!_]*.py")) == GROUND


def test_tests_mirror_the_folders() -> None:
    tests = Path(__file__).parent
    assert set(FOLDERS) <= {path.name for path in tests.iterdir() if path.is_dir()}
    for folder in FOLDERS:
        assert list((tests / folder).glob("test_*.py")), folder


def test_arrows_run_downwards_in_no_circle() -> None:
    """The contracts of pyproject.toml, which count imports inside functions and those for type checkers."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT.parent,
    )
    assert done.returncode == 0, done.stdout
    assert "Contracts: 3 kept, 0 broken." in done.stdout


def test_a_broken_contract_is_noticed(tmp_path: Path) -> None:
    """An arrow upwards inside a function, a circle for type checkers only, a construction that leans on algorithms."""
    for module, line in (
        ("checks.py", "\n\ndef up() -> None:\n    import tfnewton.theory.width\n"),
        ("model/maps.py", "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tfnewton.model.layers\n"),
        ("constructions/inversion.py", "\nimport tfnewton.algorithms.inversion\n"),
    ):
        copy = tmp_path / module.replace("/", "-")
        shutil.copytree(ROOT, copy / "tfnewton", ignore=shutil.ignore_patterns("shipped", "__pycache__"))
        shutil.copy(ROOT.parent / "pyproject.toml", copy)
        with (copy / "tfnewton" / module).open("a") as file:
            file.write(line)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; "
                "sys.exit(lint_imports(no_cache=True))",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=copy,
        )
        assert done.returncode == 1, module
        assert "2 kept, 1 broken" in done.stdout or "1 kept, 2 broken" in done.stdout, done.stdout


def test_there_is_one_transformer() -> None:
    """Constructed and trained models are instances of the same class."""
    assert [path for path in FILES if "class Transformer(" in path.read_text()] == [ROOT / "model" / "transformer.py"]


IMPORT_STEP_BY_STEP = """
import json, sys

stages = {}
def load(stage, names):
    for name in names:
        __import__(name)
    stages[stage] = sorted(sys.modules)

load("package", ["tfnewton"])
load("dependencies", ["numpy", "pydantic", "safetensors.torch", "torch"])
import pydantic
type("First", (pydantic.BaseModel,), {})  # the first model makes pydantic look for plugins
seen = []
def watch(event, arguments):
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc")) and "__pycache__" not in str(arguments[0]):
        seen.append(f"open {arguments[0]}")
    elif event.startswith(("subprocess.", "socket.", "os.fork", "os.exec", "_thread.start", "urllib.")):
        seen.append(event)
sys.addaudithook(watch)
for stage, names in json.loads(sys.argv[1]).items():
    load(stage, names)
print(json.dumps({"stages": stages, "seen": seen}))
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, Any]:
    """The modules that are loaded after each of several imports in one fresh process, and what was opened for them."""
    plan = {
        "transformer": ["tfnewton.model.transformer"],
        "constructions": modules("constructions"),
        "core": modules(*GROUND, "model", "approximation", "algorithms"),
        "rest": [name for name in modules("theory", "learning", "campaign", "cluster", "rerun") if name not in DASK],
    }
    return dict(json.loads(run(IMPORT_STEP_BY_STEP, json.dumps(plan))))


def tops(imported: dict[str, Any], stage: str) -> set[str]:
    """What our modules have loaded, beyond what torch and the other dependencies load themselves."""
    known = imported["stages"]["dependencies"] if stage != "package" else []
    return {name.split(".")[0] for name in set(imported["stages"][stage]).difference(known)}


def test_importing_the_package_is_free(imported: dict[str, Any]) -> None:
    """``import tfnewton`` loads not even torch; the class is loaded at its first use."""
    assert tops(imported, "package") & {"torch", "numpy", "pydantic"} == set()
    with pytest.raises(AttributeError, match="module 'tfnewton' has no attribute 'Transfomer'"):
        tfnewton.Transfomer  # noqa: B018
    from tfnewton.model.transformer import Transformer

    assert tfnewton.Transformer is Transformer


def test_constructions_do_not_load_algorithms(imported: dict[str, Any]) -> None:
    """Not through another module either: neither may lean on the other."""
    loaded = imported["stages"]["constructions"]
    assert "tfnewton.constructions.inversion" in loaded
    assert [name for name in loaded if name.startswith("tfnewton.algorithms")] == []
    assert "tfnewton.algorithms.inversion" in imported["stages"]["core"]


def test_importing_loads_no_tool_of_the_book(imported: dict[str, Any]) -> None:
    assert tops(imported, "core") & EXTRAS == set()
    assert tops(imported, "rest") & (NOTEBOOK_TOOLS | {"matplotlib", "dask", "distributed"}) == set()


def test_importing_reads_no_file_and_starts_nothing(imported: dict[str, Any]) -> None:
    assert imported["seen"] == []


WITHOUT_EXTRAS = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
import numpy as np
from tfnewton.algorithms.linear_regression import least_squares as reference
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import least_squares

A = np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
model = least_squares(2, 30, 0.01)
y_hat = model.unpack(model(model.pack(A, A @ [1.0, 2.0], np.ones(2))))["y_hat"]
assert abs(y_hat - 3.0) < 1e-12 and abs(reference(A, A @ [1.0, 2.0]).sum() - 3.0) < 1e-12
model = newton_schulz(2, 20)
X = model.unpack(model(model.pack(A[:2].T / 9, A[:2])))["X"]
assert np.abs(X @ A[:2] - np.eye(2)).max() < 1e-12
"""


@pytest.mark.slow
def test_the_core_works_without_the_extras() -> None:
    run(WITHOUT_EXTRAS, ",".join(EXTRAS))


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_modules_and_functions_stay_short(path: Path) -> None:
    """Modules of 250 lines, functions of 40 without their docstring."""
    text = path.read_text()
    assert len(text.splitlines()) <= 250
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            length = (node.end_lineno or 0) - node.lineno + 1
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            assert length - docstring <= 40, f"{node.name} has {length - docstring} lines"


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_modules_document_what_they_offer(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no docstring"
    public = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_modules_only_define_things(path: Path) -> None:
    """At import no loop runs and nothing is called for its effect."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for node in ast.parse(path.read_text()).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        guarded = isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
        assert isinstance(node, kinds) or docstring or guarded, f"line {node.lineno}"


@pytest.mark.slow
def test_a_wheel_holds_everything_and_works_in_a_clean_environment(tmp_path: Path) -> None:
    """Built from the sources, unpacked where nothing else of the repository is to be found, typed, with its results."""
    sources = tmp_path / "sources"  # a build leaves files beside its sources
    shutil.copytree(ROOT, sources / "tfnewton", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT.parent / name, sources)
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, sources], check=True)
    (wheel,) = tmp_path.glob("tfnewton-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(site)
    assert "tfnewton/py.typed" in names
    ours = {str(path.relative_to(ROOT.parent)) for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {name for name in names if ".dist-info/" not in name} == ours
    (site / "dependencies.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    script = "import tfnewton; from tfnewton.campaign import results; print(tfnewton.__file__, len(results.index()))"
    done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file, count = done.stdout.split()
    assert Path(file).is_relative_to(site)
    assert int(count) > 20
