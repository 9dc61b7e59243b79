"""Every bound of every parameter of every chapter: the first value that is let through, and the first that is not.

The ranges stand here a second time, as the book's readers are told them.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.helpers.ranges import Open, Range, check_ends
from tfnewton.rerun import parameters as of

SEED = Range(0, 4294967295)
KAPPA = Range(1.0, 1000.0)
RETRAIN = {"retrain": {True, False}, "steps": Range(1, 10_000), "seed": SEED}
EXAMPLES = {"d": Range(1, 20, {"n": 200}), "n": Range(1, 200, {"d": 1}), "mu": Range(1e-4, 10.0), "seed": SEED}

CHAPTERS: dict[type[of.Parameters], tuple[dict[str, Any], dict[str, Any]]] = {  # by class: legal values, and the ranges
    of.LinearTransformer: (
        {"d": 4, "n": 20, "heads": 2, "seed": 0},
        {"d": Range(1, 64), "n": Range(1, 2000), "heads": Range(1, 8), "seed": SEED},
    ),
    of.NewtonIteration: (
        {"d": 4, "kappa": 10.0, "orders": [2, 3], "steps": 9, "tolerance": 1e-6, "seed": 0},
        {
            "d": Range(2, 64),
            "kappa": Range(Open(1.0), 1e6),
            "orders": (Range(2, 8), 1, 7),
            "steps": Range(1, 100),
            "tolerance": Range(Open(1e-14), Open(1.0)),
            "seed": SEED,
        },
    ),
    of.MatrixInversion: (
        {"d": 4, "kappa": 10.0, "steps": 9, "symmetric": False, "dtype": "float64", "seed": 0},
        {
            "d": Range(1, 64),
            "kappa": Range(1.0, 1e6),
            "steps": Range(0, 100),
            "symmetric": {True, False},
            "dtype": {"float32", "float64"},
            "seed": SEED,
        },
    ),
    of.LinearRegression: (
        {"d": 4, "n": 100, "steps": 9, "noise": 0.1, "ridge": 0.0, "dataset": "synthetic", "seed": 0},
        {
            "d": Range(1, 64),
            "n": Range(1, 2000, {"d": 1}),
            "steps": Range(0, 100),
            "noise": Range(0.0, 100.0),
            "ridge": Range(0.0, 1e4),
            "dataset": {"synthetic", "diabetes"},
            "seed": SEED,
        },
    ),
    of.SelfConcordance: ({"d": 4, "n": 20, "mu": 0.1, "seed": 0}, EXAMPLES),
    of.DampedNewton: (
        {"d": 4, "n": 20, "mu": 0.1, "start": 1.0, "error": 0.01, "seed": 0},
        EXAMPLES | {"start": Range(0.0, 1e4), "error": Range(0.0, 0.1)},
    ),
    of.LogisticConstruction: (
        {"d": 3, "n": 10, "mu": 10.0, "error": 0.1, "inversion_steps": 8, "seed": 0},
        {
            "d": Range(1, 10),
            "n": Range(1, 32, {"d": 1}),
            "mu": Range(0.01, 10.0),
            "error": Range(1e-6, 0.1),
            "inversion_steps": Range(1, 40),
            "seed": SEED,
        },
    ),
    of.MainTheorem: (
        {"d": 5, "n": 100, "mu": 10.0, "error": 0.1, "steps": 12, "dataset": "synthetic", "seed": 0},
        {
            "d": Range(1, 64),
            "n": Range(1, 1000, {"d": 1}),
            "mu": Range(1e-3, 10.0, {"d": 1, "n": 1}),
            "error": Range(1e-6, 0.1, {"d": 1, "n": 1}),
            "steps": Range(1, 40),
            "dataset": {"synthetic", "breast_cancer"},
            "seed": SEED,
        },
    ),
    of.TrainingLinearAttention: (
        {"layers": 4, "kappa": 10.0, "noise": 0.0, "query_in_context": True, "seed": 0, "retrain": False, "steps": 9},
        RETRAIN
        | {
            "layers": Range(1, 12, {"retrain": True}),
            "kappa": KAPPA,
            "noise": Range(0.0, 100.0),
            "query_in_context": {True, False},
        },
    ),
    of.MovingTheQuery: (
        {"layers": 4, "kappa": 10.0, "range": 30.0, "seed": 0},
        {"layers": Range(1, 5), "kappa": KAPPA, "range": Range(15.0, 1000.0), "seed": SEED},
    ),
    of.WhichPolynomial: (
        {"layers": 4, "kappa": 10.0, "seed": 0},
        {"layers": Range(1, 5), "kappa": KAPPA, "seed": SEED},
    ),
    of.TrainingLogistic: (
        {"layers": 4, "mu": 0.1, "kappa": 10.0, "seed": 0, "retrain": False, "steps": 9},
        RETRAIN | {"layers": Range(1, 40, {"retrain": True}), "mu": Range(1e-3, 10.0), "kappa": KAPPA},
    ),
    of.ConditioningAndNoise: (
        {"kappas": [10.0], "noises": [0.0], "layers": 4, "seed": 0},
        {
            "kappas": (KAPPA, 1, 6),
            "noises": (Range(0.0, 10.0), 1, 4),
            "layers": {1, 2, 3, 4, 5, 6, 7, 8, 10, 12},
            "seed": SEED,
        },
    ),
}


def test_every_parameter_of_every_chapter_is_here() -> None:
    assert {chapter.__name__ for chapter in CHAPTERS} == set(of.__all__) - {"Parameters", "least_error"}
    for chapter, (usual, ranges) in CHAPTERS.items():
        assert set(usual) == set(ranges) == set(chapter.model_fields)
        chapter(**usual)


@pytest.mark.parametrize(
    ("chapter", "name"),
    [pytest.param(c, name, id=f"{c.__name__}-{name}") for c, (_, ranges) in CHAPTERS.items() for name in ranges],
)
def test_ends_of_the_ranges(chapter: type[of.Parameters], name: str) -> None:
    usual, ranges = CHAPTERS[chapter]
    check_ends(chapter, usual, name, ranges[name])


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_no_parameter_may_be_missing_unknown_or_changed(chapter: type[of.Parameters]) -> None:
    usual = CHAPTERS[chapter][0]
    for name in usual:
        with pytest.raises(ValidationError, match=rf"(?m)^{name}\n.*Field required"):
            chapter(**{other: value for other, value in usual.items() if other != name})
    with pytest.raises(ValidationError, match=r"(?m)^sed\n.*not permitted"):
        chapter(**usual | {"sed": 0})
    with pytest.raises(ValidationError, match="frozen"):
        chapter(**usual).seed = 1  # type: ignore[attr-defined]


BETWEEN: list[
    tuple[type[of.Parameters], dict[str, Any], dict[str, Any], str]
] = [  # legal, what makes it illegal, words
    (of.LinearRegression, {"d": 7, "n": 7}, {"n": 6}, "n = 6: must be at least d = 7"),
    (of.SelfConcordance, {"d": 7, "n": 7}, {"d": 8}, "n = 7: must be at least d = 8"),
    (of.DampedNewton, {"d": 7, "n": 7}, {"n": 6}, "n = 6: must be at least d = 7"),
    (of.LogisticConstruction, {"d": 7, "n": 7}, {"d": 8}, "n = 7: must be at least d = 8"),
    (of.MainTheorem, {"d": 7, "n": 7}, {"n": 6}, "n = 6: must be at least d = 7"),
    (of.LinearTransformer, {"d": 7, "n": 6}, {}, ""),  # its tokens are no samples
    (of.LinearRegression, {"dataset": "diabetes", "d": 10}, {"d": 11}, "d = 11: must be at most 10, the features"),
    (of.LinearRegression, {"dataset": "diabetes", "n": 20}, {"n": 19}, "n = 19: must be from 20 to 441"),
    (of.LinearRegression, {"dataset": "diabetes", "n": 441}, {"n": 442}, "n = 442: must be from 20 to 441"),
    (of.MainTheorem, {"dataset": "breast_cancer", "d": 30}, {"d": 31}, "d = 31: must be at most 30, the features"),
    (of.MainTheorem, {"dataset": "breast_cancer", "n": 569}, {"n": 570}, "n = 570: must be at most 569, the rows"),
    (of.LinearRegression, {"d": 11, "n": 442}, {}, ""),  # synthetic data are of any size
    (of.MainTheorem, {"d": 31, "n": 570}, {}, ""),
    # 5e-10 sqrt(4) / 0.01^1.5 = 1e-6, and (16^1.25 250 / 4e6)^2 / 0.01 = (32 / 16000)^2 100 = 4e-4
    (of.LogisticConstruction, {"d": 4, "mu": 0.01, "error": 1.000001e-6}, {"mu": 0.00999999}, "mu"),
    (of.LogisticConstruction, {"d": 8, "mu": 0.01, "error": 1.42e-6}, {"error": 1.41e-6}, "error = 1.41e-06: must be"),
    (of.MainTheorem, {"d": 16, "n": 250, "mu": 0.01, "error": 4.001e-4}, {"error": 3.999e-4}, "error = 0.0003999"),
    (of.MainTheorem, {"d": 16, "n": 250, "mu": 0.01, "error": 4.001e-4}, {"n": 251}, "d = 16, n = 251, mu = 0.01"),
    (of.MainTheorem, {"d": 4, "n": 4, "mu": 1e-3, "error": 3.163e-5}, {"error": 3.162e-5}, "error = 3.162e-05: must"),
    (of.TrainingLinearAttention, {"layers": 6}, {"layers": 7}, "layers = 7: must be one of 1, 2, 3, 4, 5, 6, the"),
    (of.TrainingLinearAttention, {"layers": 7, "retrain": True}, {"retrain": False}, "for others, retrain = True"),
    (of.TrainingLogistic, {"layers": 12}, {"layers": 11}, "layers = 11: must be one of 1, 2, 4, 8, 12, the models"),
    (of.TrainingLogistic, {"layers": 3, "retrain": True}, {"retrain": False}, "layers = 3: must be one of"),
]


@pytest.mark.parametrize(("chapter", "legal", "change", "message"), BETWEEN)
def test_bounds_between_parameters(
    chapter: type[of.Parameters], legal: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    usual = CHAPTERS[chapter][0]
    chapter(**usual | legal)
    if change:
        with pytest.raises(ValidationError, match=message):
            chapter(**usual | legal | change)
