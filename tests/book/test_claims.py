"""The record of the paper, claims.yml and errata.yml: complete, well formed, and every reference leads somewhere."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STANDINGS = {"holds", "holds as corrected", "not reproduced / depends on", "false, with counterexample"}
SLIPS = {"false", "slip", "loose", "can be bettered"}
KINDS = {"theorem", "lemma", "proposition", "corollary", "definition", "assumption", "remark", "equation", "figure"}


def load(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load((ROOT / "book" / name).read_text(encoding="utf-8"))
    return entries


CLAIMS = load("claims.yml")
ERRATA = load("errata.yml")

each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["label"])
each_erratum = pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum["name"])


@cache
def contents() -> set[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return {toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])}


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def assert_test_exists(node: str) -> None:
    file, _, name = node.partition("::")
    assert (ROOT / file).is_file(), f"no file {file}"
    assert name.partition("[")[0] in functions(ROOT / file), f"no test {node}"


def assert_page_exists(reference: str) -> None:
    page, _, label = reference.partition("#")
    assert page in contents(), f"{page} is not in the table of contents"
    if label:
        file = next(ROOT.glob(f"{page}.*"))
        assert f":label: {label}" in file.read_text(encoding="utf-8"), f"{file.name} has no statement {label}"


def test_every_label_of_the_paper_has_its_claim_in_order() -> None:
    lines = (Path(__file__).parent / "labels.txt").read_text(encoding="utf-8").splitlines()
    labels = [line.removesuffix(" *") for line in lines if line and not line.startswith("#")]
    assert [claim["label"] for claim in CLAIMS] == labels
    assert len(set(labels)) == len(labels)


@each_claim
def test_claim_is_well_formed(claim: dict[str, Any]) -> None:
    record = {"label", "kind", "number", "section", "statement", "standing"}
    assert set(claim) == record | {"chapter", "function", "test"}
    assert claim["kind"] in KINDS
    assert claim["standing"] in STANDINGS
    assert all(isinstance(value, str) and value.strip() for value in claim.values())
    assert len(claim["statement"]) <= 400, "a short statement, please"


@each_claim
def test_claim_has_its_place_its_function_and_its_test(claim: dict[str, Any]) -> None:
    assert_page_exists(claim["chapter"])
    assert_test_exists(claim["test"])
    module, _, name = claim["function"].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_every_section_is_shown() -> None:
    page = (ROOT / "book" / "claims.md").read_text(encoding="utf-8")
    shown = [section for line in page.splitlines() if line.startswith("```{claims} ") for section in line.split()[1:]]
    assert sorted(shown) == sorted({claim["section"] for claim in CLAIMS})


def test_every_correction_is_in_the_errata() -> None:
    places = " ".join(erratum["place"] for erratum in ERRATA)
    corrected = [claim for claim in CLAIMS if claim["standing"] in {"holds as corrected", "false, with counterexample"}]
    missing = [claim["label"] for claim in corrected if claim["number"] not in places]
    assert not missing


@each_erratum
def test_erratum_is_well_formed_and_has_evidence(erratum: dict[str, Any]) -> None:
    assert set(erratum) == {"name", "part", "standing", "place", "printed", "correct", "why", "evidence"}
    assert erratum["standing"] in SLIPS
    assert erratum["evidence"]
    for item in erratum["evidence"]:
        if item.startswith("tests/"):
            assert_test_exists(item)
        else:
            assert_page_exists(item)


def test_claims_of_the_standing_false_have_an_erratum_that_is() -> None:
    """What a counterexample refutes is refuted in the errata too, and not called a slip."""
    for claim in CLAIMS:
        if claim["standing"] == "false, with counterexample":
            rows = [erratum for erratum in ERRATA if claim["number"] in erratum["place"]]
            assert "false" in {erratum["standing"] for erratum in rows}, claim["label"]


def test_every_erratum_is_shown_once() -> None:
    assert not [name for name, count in Counter(erratum["name"] for erratum in ERRATA).items() if count > 1]
    page = (ROOT / "book" / "errata.md").read_text(encoding="utf-8")
    assert not {erratum["part"] for erratum in ERRATA if f"```{{errata}} {erratum['part']}\n" not in page}
