"""The record of the paper, claims.yml and errata.yml: complete, well formed, and every reference leads somewhere."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfnewton.theory import certificates

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
    name, _, case = name.partition("[")
    assert name in functions(ROOT / file), f"no test {node}"
    if case:  # the cases that evidence names are those of the certificates
        assert name == "test_verdicts"
        assert case.removesuffix("]") in certificates.CLAIMS, f"no case {node}"


def named_in(claim: dict[str, Any], place: str) -> bool:
    """Whether the place of an erratum names the statement: "Figures 1 and 7" names 7, "figures 3 to 6" 4."""
    if claim["kind"] != "figure":
        return re.search(rf"(?<![\w.(]){re.escape(claim['number'])}(?![\w.]*\w)", place) is not None
    listed = re.findall(r"[Ff]igures? (\d+)(?: (and|to) (\d+))?", place)
    numbers = {
        n for a, word, b in listed for n in (range(int(a), int(b) + 1) if word == "to" else {int(a), int(b or a)})
    }
    return int(claim["number"]) in numbers


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
    corrected = [claim for claim in CLAIMS if claim["standing"] in {"holds as corrected", "false, with counterexample"}]
    missing = [claim["label"] for claim in corrected if not any(named_in(claim, of["place"]) for of in ERRATA)]
    assert not missing


def test_rows_say_what_the_page_promises_of_their_standing() -> None:
    """What had to change where a statement holds as corrected, and under which condition a false one holds."""
    for claim in CLAIMS:
        assert ("Corrected:" in claim["statement"]) == (claim["standing"] == "holds as corrected"), claim["label"]
        if claim["standing"] == "false, with counterexample":
            assert re.search(r"\b[Tt]rue (for|if|when|only)\b", claim["statement"]), claim["label"]
        if claim["standing"] == "not reproduced / depends on":
            assert "depends on" in claim["statement"], claim["label"]


def test_both_pages_count_by_the_standings_that_entries_may_have() -> None:
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    directives = importlib.import_module("claims")
    assert set(directives.STANDINGS) == STANDINGS
    assert set(directives.SLIPS) == SLIPS
    for page, standings in (("claims.md", STANDINGS), ("errata.md", SLIPS)):
        text = (ROOT / "book" / page).read_text(encoding="utf-8").lower()
        explained = {name for name in standings if re.search(rf"\*{name}\*".replace(" ", r"\s+"), text)}
        assert explained == standings, page


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
            rows = [erratum for erratum in ERRATA if named_in(claim, erratum["place"])]
            assert "false" in {erratum["standing"] for erratum in rows}, claim["label"]


def test_every_erratum_is_shown_once() -> None:
    assert not [name for name, count in Counter(erratum["name"] for erratum in ERRATA).items() if count > 1]
    page = (ROOT / "book" / "errata.md").read_text(encoding="utf-8")
    assert not {erratum["part"] for erratum in ERRATA if f"```{{errata}} {erratum['part']}\n" not in page}
