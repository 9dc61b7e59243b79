"""What is swept: every combination, checked whole, all faults at once."""

from __future__ import annotations

import itertools

import pytest

from tfnewton.rerun.chapters import find, told
from tfnewton.rerun.points import read_points

INVERSION, REGRESSION = find("3"), find("4")


def test_points_are_all_combinations_over_what_is_given_and_a_preset() -> None:
    found = read_points(INVERSION, ["kappa=10,1e3", "d=4:8:4"], given=[("seed", "7")], preset="ill-conditioned")
    fixed = INVERSION.defaults() | dict(INVERSION.entry.presets["ill-conditioned"]) | {"seed": 7}
    expected = [fixed | {"kappa": kappa, "d": d} for kappa, d in itertools.product([10.0, 1e3], [4, 8])]
    assert found.points == expected
    assert found.axes == {"kappa": [10.0, 1e3], "d": [4, 8]}
    assert "4 points" in found.told
    assert found.at(found.points[1]) == {"kappa": 10.0, "d": 8}


def test_zip_pairs() -> None:
    found = read_points(INVERSION, ["kappa=10,100", "d=4,8"], zipped=True)
    assert [(of["kappa"], of["d"]) for of in found.points] == [(10.0, 4), (100.0, 8)]


def test_lists_words_and_switches_are_values() -> None:
    assert read_points(find("2"), ["orders=[2];[2,3]"]).axes == {"orders": [[2], [2, 3]]}
    found = read_points(INVERSION, ["dtype=float64,float32", "symmetric=yes,no"])
    assert found.axes == {"dtype": ["float64", "float32"], "symmetric": [True, False]}


def test_rules_between_parameters_are_those_of_the_points_and_not_of_the_defaults() -> None:
    assert REGRESSION.defaults()["n"] < 60
    found = read_points(REGRESSION, ["n=60,64"], given=[("d", "60")])
    assert [(of["d"], of["n"]) for of in found.points] == [(60, 60), (60, 64)]


@pytest.mark.parametrize(
    ("grid", "given", "told"),
    [
        (["kapa=1,2"], [], ["kapa", "did you mean kappa?"]),
        (["kappa=ten,20", "d=two"], [], ["kappa = ten: must be", "d = two: must be"]),
        (["d=0:2", "kappa=0.5,3"], [], ["d = 0: must be", "kappa = 0.5: must be"]),
        (["d=4,12"], [("steps", "-1")], ["steps = -1: must be"]),
        (["seed=0:3"], [("seed", "1")], ["seed: is swept with -g and set with -p"]),
        (["d=1:65"], [], ["d = 65: must be"]),
    ],
)
def test_faults_are_told_at_once(grid: list[str], given: list[tuple[str, str]], told: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\S") as refusal:
        read_points(INVERSION, grid, given=given)
    assert [part for part in told if part not in str(refusal.value)] == []


def test_many_faults_are_counted() -> None:
    with pytest.raises(ValueError, match="and 4 more"):
        read_points(INVERSION, ["d=65:74"])


def test_words() -> None:
    assert (
        told({"kappa": 1000.0, "orders": [2, 3], "symmetric": True}) == "kappa = 1000, orders = [2,3], symmetric = True"
    )
