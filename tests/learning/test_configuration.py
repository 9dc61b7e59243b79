"""What tasks, models and runs take: every end of every range, with the first value beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.helpers.ranges import Open, Range, check_ends
from tests.helpers.tiny_run import config
from tfnewton.learning.configuration import TrainingConfig, read_config
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.tasks import Curriculum, LinearRegression, LogisticRegression

POSITIVE = Range(Open(0.0))
TASK = {
    "d": Range(1, None, {"kappa": 1.0}),
    "n": Range(1),
    "kappa": Range(1.0),
    "shared_covariance": {True, False},
    "active": Range(1, None, {"d": 10**6}, optional=True),
}
UNIT = Range(0.0, 1.0)
BELOW_ONE = Range(0.0, Open(1.0))
RUN: dict[str, Any] = {"task": LinearRegression(), "steps": 9, "learning_rate": 0.1}
RUN["model"] = LinearAttentionOptions(layers=1, init=0.1, init_out=0.1)

RECORDS: dict[type[BaseModel], tuple[dict[str, Any], dict[str, Any]]] = {  # by class: legal values, and the ranges
    LinearRegression: ({}, TASK | {"kind": {"linear"}, "noise": Range(0.0)}),
    LogisticRegression: ({}, TASK | {"kind": {"logistic"}, "mu": POSITIVE, "newton_steps": Range(1)}),
    Curriculum: (
        {"every": 9},
        {"every": Range(1), "d_start": Range(1), "n_start": Range(1), "d_step": Range(0), "n_step": Range(0)},
    ),
    LinearAttentionOptions: (
        {"layers": 2, "init": 0.1, "init_out": 0.1},
        {
            "kind": {"linear_attention"},
            "layers": Range(1),
            "width": Range(2, None, {"heads": 1}),
            "heads": Range(1, None, {"width": 10**6}),
            "query_as_key": {True, False},
            "scaling": {"keys", "head_size"},
            "layer_norm": Range(Open(0.0), optional=True),
            "final_norm": Range(Open(0.0), optional=True),
            "clip": Range(Open(0.0), optional=True),
            "input_scale": POSITIVE,
            "constant": {True, False},
            "init": POSITIVE,
            "init_out": POSITIVE,
        },
    ),
    EncoderOptions: (
        {"layers": 2},
        {
            "kind": {"encoder"},
            "layers": Range(1),
            "width": Range(1, None, {"heads": 1}),
            "heads": Range(1, None, {"width": 10**6}),
            "mlp": Range(1),
            "input_scale": POSITIVE,
            "init": POSITIVE,
        },
    ),
    TrainingConfig: (
        RUN,
        {
            "seed": Range(0, 4294967295),
            "steps": Range(1),
            "batch": Range(1),
            "learning_rate": POSITIVE,
            "warm_up": BELOW_ONE,
            "final_rate": UNIT,
            "weight_decay": Range(0.0),
            "clip": Range(Open(0.0), optional=True),
            "bf16": UNIT,
            "evaluate_every": Range(1),
            "validation": Range(1),
        },
    ),
}
ELSEWHERE = {"task", "model", "betas", "curriculum"}  # in the tests below


@pytest.mark.parametrize(
    ("record", "name"),
    [pytest.param(r, name, id=f"{r.__name__}-{name}") for r, (_, ranges) in RECORDS.items() for name in ranges],
)
def test_ends_of_the_ranges(record: type[BaseModel], name: str) -> None:
    usual, ranges = RECORDS[record]
    assert set(ranges) == set(record.model_fields) - (ELSEWHERE if record is TrainingConfig else set())
    check_ends(record, usual, name, ranges[name])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("value", "legal"), [(0.0, True), (0.999999, True), (1.0, False), (-1e-9, False), (None, False)]
)
def test_betas_are_from_zero_to_below_one(place: int, value: float | None, legal: bool) -> None:
    betas: list[float | None] = [0.5, 0.5]
    betas[place] = value
    if legal:
        assert TrainingConfig(**RUN | {"betas": tuple(betas)}).betas[place] == value
    else:
        with pytest.raises(ValidationError, match="betas"):
            TrainingConfig(**RUN | {"betas": tuple(betas)})


ENCODER = EncoderOptions(layers=1)
BETWEEN: list[tuple[type[BaseModel], dict[str, Any], dict[str, Any], str]] = [  # legal, what makes it illegal, words
    (LinearRegression, {"d": 7, "active": 7}, {"active": 8}, "active = 8: must be at most d = 7"),
    (LogisticRegression, {"d": 2, "kappa": 3.0}, {"d": 1}, "kappa = 3: must be 1 for d = 1"),
    (LinearAttentionOptions, {"width": 12, "heads": 3}, {"heads": 5}, "width = 12: must be a multiple of heads = 5"),
    (EncoderOptions, {"width": 12, "heads": 12}, {"width": 13}, "width = 13: must be a multiple of heads = 12"),
    (TrainingConfig, {}, {"model": ENCODER}, "model = 'encoder': does not fit the task 'linear'"),
    (TrainingConfig, {"task": LogisticRegression(), "model": ENCODER}, {"task": LinearRegression()}, "does not fit"),
    (TrainingConfig, {}, {"curriculum": {"every": 0}}, r"curriculum\.every"),
    (TrainingConfig, {"curriculum": Curriculum(every=1)}, {"curriculum": 1}, "curriculum"),
    (TrainingConfig, {}, {"task": {"kind": "cubic"}}, "task"),
    (TrainingConfig, {}, {"task": None}, "task"),
]


@pytest.mark.parametrize(("record", "legal", "change", "message"), BETWEEN)
def test_bounds_between_options(
    record: type[BaseModel], legal: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    usual = RECORDS[record][0]
    record(**usual | legal)
    with pytest.raises(ValidationError, match=message):
        record(**usual | legal | change)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_records_are_frozen_and_know_their_names(record: type[BaseModel]) -> None:
    usual = RECORDS[record][0]
    with pytest.raises(ValidationError, match="frozen"):
        setattr(record(**usual), next(iter(record.model_fields)), 1)
    with pytest.raises(ValidationError, match=r"(?m)^sed\n.*not permitted"):
        record(**usual | {"sed": 0})
    for name in usual:
        with pytest.raises(ValidationError, match=rf"(?m)^{name}\n.*Field required"):
            record(**{other: value for other, value in usual.items() if other != name})


def test_a_stored_config_comes_back_and_anything_else_is_named(tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    written = config(curriculum=Curriculum(every=3), betas=(0.1, 0.2), clip=None)
    path.write_text(written.model_dump_json(indent=2))
    assert read_config(path) == written
    for text in ("", "{}", "[]", written.model_dump_json().replace('"steps":60', '"steps":0')):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"config\.json: not a training config"):
            read_config(path)
    with pytest.raises(ValueError, match=r"absent: not a training config"):
        read_config(tmp_path / "absent")
