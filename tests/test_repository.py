"""The files around the package: installation, citation, README and reference pages agree with it and each other."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tfnewton

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_everything_that_is_installed_is_pinned_exactly() -> None:
    wanted = [
        Requirement(text) for text in [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    ]
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
    assert f"python={PROJECT['requires-python'].removeprefix('>=')}" in conda
    assert pip == {"pip": ["--constraint constraints.txt", "--editable .[test]"]}
    assert "test" in EXTRAS


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


def test_program_of_the_readme_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    printed: list[float] = []
    exec(compile(program, "README.md", "exec"), {"print": printed.append})
    assert len(printed) == 1
    assert printed[0] < 1e-12


def test_every_public_module_is_described_in_the_book() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "book").glob("api*.md"))
    rooms = ("model", "approximation", "algorithms", "constructions", "theory", "learning", "campaign", "cluster")
    modules = [module for room in rooms for module in (ROOT / "tfnewton" / room).glob("[!_]*.py")]
    names = [f"tfnewton.{module.parent.name}.{module.stem}" for module in modules]
    assert names
    assert not [name for name in names if f".. automodule:: {name}\n" not in pages]


def test_no_text_names_a_path_of_one_machine() -> None:
    suffixes = {".py", ".md", ".ipynb", ".yml", ".toml", ".txt", ".cff", ".json", ""}
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    files = [ROOT / line for line in listed.stdout.splitlines()] or list(ROOT.rglob("tfnewton/**/*.py"))
    texts = [path for path in files if path.suffix in suffixes and path.is_file()]
    assert texts
    own = re.compile(r"(?<![\w.~/])/(?:home|root|work|Users|farm)/\w")
    assert not [str(path) for path in texts if own.search(path.read_text(encoding="utf-8"))]
