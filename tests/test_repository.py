"""The shape of the house: what may import what, how large a room is, and that the installation files agree."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tfnewton

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "tfnewton").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {"numpy", "torch", "safetensors", "pydantic", "tfnewton"}

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def imported(nodes: Iterator[ast.AST]) -> set[str]:
    """Dotted names of the modules that the import statements among the nodes load."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


@each_module
def test_constructions_and_algorithms_do_not_lean_on_each_other(module: Path) -> None:
    names = imported(ast.walk(tree(module)))
    if module.parent.name == "constructions":
        assert not [name for name in names if name.startswith("tfnewton.algorithms")]
    if module.parent.name == "algorithms":
        assert not [name for name in names if name.startswith("tfnewton.constructions")]


@each_module
def test_the_model_stands_on_its_own(module: Path) -> None:
    if module.parent.name != "tfnewton":
        return
    names = {name for name in imported(ast.walk(tree(module))) if name.startswith("tfnewton.")}
    rooms = ("algorithms", "constructions", "theory", "learning", "figures")
    assert not [name for name in names if name.split(".")[1] in rooms]


@each_module
def test_only_figures_import_more_than_the_core_when_loaded(module: Path) -> None:
    statements = (node for node in tree(module).body)
    roots = {name.partition(".")[0] for name in imported(statements)} - set(sys.stdlib_module_names)
    allowed = CORE | {"matplotlib"} if "figures" in module.parts else CORE
    assert roots <= allowed


def test_importing_the_package_loads_no_plotting_and_no_notebook_tool() -> None:
    program = (
        "import sys, tfnewton.algorithms.linear_regression, tfnewton.constructions.linear_regression, "
        "tfnewton.theory.inversion; tfnewton.Transformer; print(*sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in answer.stdout.split()}
    assert "torch" in loaded
    unwanted = {"matplotlib", "IPython", "ipykernel", "nbformat", "papermill", "scipy", "sklearn", "flint"}
    assert not loaded & unwanted
    assert answer.stderr == ""


@each_module
def test_rooms_and_functions_are_small(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 260
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            documentation = ast.get_docstring(node, clean=False)
            length -= len(documentation.splitlines()) if documentation else 0
            assert length <= 45, f"{node.name} has {length} lines"


@each_module
def test_what_is_public_is_documented(module: Path) -> None:
    assert ast.get_docstring(tree(module))
    for node in tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


def test_everything_that_is_installed_is_pinned_exactly() -> None:
    extras = PROJECT["optional-dependencies"].values()
    wanted = [Requirement(text) for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]]
    pins = constraints()
    for requirement in wanted:
        if requirement.name != "tfnewton":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
    assert {"sphinx-book-theme", "pydata-sphinx-theme", "sphinx"} <= set(pins)
    assert "+" not in pins["torch"], "a local version would shut out every other build of torch"


def test_this_environment_is_the_pinned_one() -> None:
    differing = {}
    for name, version in constraints().items():
        try:
            installed = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue  # needed on another platform or Python only
        if installed != version:
            differing[name] = (installed, version)
    assert not differing


def test_conda_environment_installs_the_same() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == "tfnewton"
    *conda, pip = environment["dependencies"]
    minimum = PROJECT["requires-python"].removeprefix(">=")
    assert f"python={minimum}" in conda
    assert pip == {"pip": ["--constraint constraints.txt", "--editable .[test]"]}
    assert "test" in PROJECT["optional-dependencies"]


def test_citation_names_this_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == tfnewton.__version__
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Giannou", "Yang", "Wang", "Papailiopoulos", "Lee"]
    assert (paper["volume"], paper["start"], paper["end"], paper["year"]) == ("258", "4843", "4851", 2025)
    assert "2403.03183" in str(paper["identifiers"])


def test_readme_names_only_commands_and_files_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"\bmake ([a-z-]+)", readme))
    assert {"book", "test"} <= commands
    assert not [command for command in commands if not re.search(rf"^{command}:", makefile, re.MULTILINE)]
    links = re.findall(r"\]\((?!https?:)([^)#]+)", readme)
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_public_module_is_described_in_the_book() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "book").glob("api*.md"))
    rooms = [module for module in MODULES if module.parent.name in {"algorithms", "constructions", "theory"}]
    names = [f"tfnewton.{module.parent.name}.{module.stem}" for module in rooms if not module.stem.startswith("_")]
    assert names
    assert not [name for name in names if f".. automodule:: {name}\n" not in pages]


def test_no_text_names_a_path_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT)
    files = [ROOT / line for line in listed.stdout.splitlines()] or MODULES
    own = re.compile(r"(?<![\w.~/])/(?:home|root|work|Users|farm)/\w")
    suffixes = {".py", ".md", ".ipynb", ".yml", ".toml", ".txt", ".cff", ".json", ""}
    texts = [path for path in files if path.suffix in suffixes and path.is_file()]
    assert texts
    assert not [str(path) for path in texts if own.search(path.read_text(encoding="utf-8"))]
