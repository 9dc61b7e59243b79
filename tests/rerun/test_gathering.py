"""What comes of a sweep, from run folders that are made by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tfnewton.rerun import saving
from tfnewton.rerun.chapters import find
from tfnewton.rerun.gathering import _titles, gather, quantity
from tfnewton.rerun.points import Points, read_points
from tfnewton.rerun.sweep import POINTS, Outcome

CHAPTER = find("3")


def outcome(root: Path, values: dict[str, Any], number: float | str | None) -> Outcome:
    record = {
        "chapter": CHAPTER.file,
        "parameters": values,
        "code": "c",
        "headline": {"value": number},
        "tables": [{"name": "errors", "title": "Errors by step."}],
    }
    table = f"step,kappa,error\n0,5,1.5\n1,6,{number if number is not None else ''}\n"
    files = {"run.json": json.dumps(record).encode(), "tables/errors.csv": table.encode()}
    return Outcome(values, saving.save(files, root / POINTS / saving.name_of(CHAPTER, values)))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def gathered(tmp_path: Path) -> tuple[Path, Points]:
    points = read_points(CHAPTER, ["kappa=10,1000", "seed=0:1"], given=[("d", "5")])
    numbers: list[float | str | None] = [0.25, 1e-17, "INF"]
    outcomes = [outcome(tmp_path, *of) for of in zip(points.points, numbers, strict=False)]
    failed = Outcome(points.points[3], None, "under 'Running it': ValueError: <kappa>")
    page = gather(CHAPTER, points, [failed, *reversed(outcomes)], quantity(CHAPTER, None), tmp_path)
    assert page == tmp_path / "sweep.html"
    return tmp_path, points


def test_headline_table_has_each_point_once_in_order_with_all_digits(gathered: tuple[Path, Points]) -> None:
    root, _ = gathered
    column = CHAPTER.entry.headline.column
    found = rows(root / "headline.csv")
    assert [(of["kappa"], of["seed"], of[column]) for of in found] == [
        ("10", "0", "0.25"),
        ("10", "1", "1e-17"),
        ("1000", "0", ""),
        ("1000", "1", ""),
    ]
    assert [of["fault"] for of in found] == ["", "", "", "under 'Running it': ValueError: <kappa>"]
    assert all((root / of["run"] / "run.json").is_file() for of in found[:3])
    assert found[3]["run"] == ""


def test_tables_have_parameters_as_columns_and_no_two_of_one_name(gathered: tuple[Path, Points]) -> None:
    root, _ = gathered
    found = rows(root / "tables" / "errors.csv")
    assert list(found[0]) == ["kappa", "seed", "step", "table.kappa", "error"]
    assert [(of["kappa"], of["table.kappa"], of["error"]) for of in found[:4]] == [
        ("10", "5", "1.5"),
        ("10", "6", "0.25"),
        ("10", "5", "1.5"),
        ("10", "6", "1e-17"),
    ]
    assert len(found) == 6


def test_page_links_every_run_names_failures_and_escapes_them(gathered: tuple[Path, Points]) -> None:
    root, _ = gathered
    page = (root / "sweep.html").read_text()
    links = re.findall(r'href="(points/[^"]*)"', page)
    assert len(links) == 3
    assert "1 of 4" in page
    assert "ValueError: &lt;kappa&gt;" in page
    assert "d = 5" in page
    assert 'src="headline.svg"' in page
    assert (root / "headline.png").read_bytes().startswith(b"\x89PNG")
    assert "Date" not in (root / "headline.svg").read_text()


def test_another_column_is_taken_from_the_last_row(tmp_path: Path) -> None:
    points = read_points(CHAPTER, ["kappa=10,1000"])
    outcomes = [outcome(tmp_path, values, number) for values, number in zip(points.points, (0.5, 0.125), strict=True)]
    drawn = quantity(CHAPTER, None)._replace(table="errors", column="kappa")
    gather(CHAPTER, points, outcomes, drawn, tmp_path)
    assert [of["table.kappa"] for of in rows(tmp_path / "headline.csv")] == ["6.0", "6.0"]
    with pytest.raises(ValueError, match="plot = errors:nothing: is a number in none of the runs"):
        gather(CHAPTER, points, outcomes, drawn._replace(column="nothing"), tmp_path)


def test_without_a_number_there_is_no_picture(tmp_path: Path) -> None:
    points = read_points(CHAPTER, ["kappa=10,1000"])
    outcomes = [Outcome(values, None, "no") for values in points.points]
    gather(CHAPTER, points, outcomes, quantity(CHAPTER, None), tmp_path)
    assert not (tmp_path / "headline.svg").exists()
    assert "No point has a number to draw" in (tmp_path / "sweep.html").read_text()


@pytest.mark.parametrize("text", ["error", "nothing:error", "inverse-residuals-table:", ":error"])
def test_another_table_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=f"plot = {text}: must be TABLE:COLUMN.*inverse-residuals-table"):
        quantity(CHAPTER, text)


@pytest.mark.parametrize(
    ("column", "words"),
    [("eror", "did you mean inverse-residuals-table:error"), ("zzz", "its columns of numbers are step, ")],
)
def test_a_column_that_is_not_there_is_refused_before_anything_runs(column: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"plot = inverse-residuals-table:{column}: .*{words}"):
        quantity(CHAPTER, f"inverse-residuals-table:{column}")
    assert quantity(CHAPTER, "inverse-residuals-table:noise 0.5").column == "noise 0.5"  # named by a parameter


def test_a_title_that_is_not_the_same_in_all_runs_is_not_told(tmp_path: Path) -> None:
    points = read_points(CHAPTER, ["kappa=10,1000"])
    runs = [outcome(tmp_path, values, 0.5) for values in points.points]
    for of, title in zip(runs, ("10 rows", "12 rows"), strict=True):
        assert of.folder is not None
        record = json.loads((of.folder / "run.json").read_text())
        tables = [{"name": "errors", "title": "Errors."}, {"name": "rows", "title": title}]
        (of.folder / "run.json").write_text(json.dumps(record | {"tables": tables}))
    assert _titles(runs) == {"errors": "Errors.", "rows": ""}


def test_a_table_of_the_chapter_is_taken() -> None:
    found = quantity(CHAPTER, "inverse-residuals-table:error")
    assert (found.table, found.column) == ("inverse-residuals-table", "error")
