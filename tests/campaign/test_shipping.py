"""Shipping, on experiments of tiny runs: what is taken, what is written of it, and the table that is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.tiny_run import config
from tfnewton.campaign import results
from tfnewton.campaign.experiments import Experiment
from tfnewton.campaign.recipes import Run, Size
from tfnewton.campaign.tables import Row, load_model
from tfnewton.campaign.workers import run_all
from tfnewton.learning import evaluation as ev
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.tasks import LinearPrompts, LogisticPrompts, LogisticRegression, generator
from tfnewton.learning.training import train


def linear(seed: int, layers: int = 1, **options: Any) -> TrainingConfig:
    model = LinearAttentionOptions(layers=layers, width=8, heads=2, init=0.1, init_out=0.1, **options)
    return config(2, seed=seed, model=model, evaluate_every=2)


def encoder(layers: int) -> TrainingConfig:
    model = EncoderOptions(layers=layers, width=8, heads=2)
    return config(2, task=LogisticRegression(d=2, n=6, newton_steps=4), model=model, evaluate_every=2)


RUNS = {
    "lsa-depth": [Run("one", linear(0)), Run("other-seed", linear(1)), Run("two", linear(0, 2, query_as_key=False))],
    "ln-depth": [Run("untrained", linear(0, 3)), Run("norm", linear(0, 2, layer_norm=1e-5, constant=True))],
    "logistic": [Run("shallow", encoder(1)), Run("deep", encoder(2))],
    "stability": [Run("ablation", linear(0, 2))],
}


def nothing(runs: list[Run], root: Path, size: Size) -> Iterator[Row]:
    yield from ()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for run in [run for runs in RUNS.values() for run in runs if run.name != "untrained"]:
        train(run.config, root / run.name)
    (root / "lsa-depth.csv").write_text("method,depth\nNewton,1\n")
    (root / "ln-depth.csv").write_text("method,depth\nNewton,2\n")
    return root


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {name: Experiment("", "", lambda size, runs=runs: runs, nothing) for name, runs in RUNS.items()}  # type: ignore[misc]
    for name, value in (("EXPERIMENTS", tiny), ("_LARGEST_ENCODER", 1), ("PROMPTS", 40)):
        monkeypatch.setattr(results, name, value)


def test_first_seeds_that_are_trained_are_shipped_with_how_and_how_well(trained: Path, tmp_path: Path) -> None:
    assert results.ship(trained, tmp_path / "shipped") == ["one", "two", "norm", "shallow"]
    index = results.index(tmp_path / "shipped")
    assert index == json.loads((tmp_path / "shipped" / "index.json").read_text())
    kinds = {"query in": {1: "one"}, "query out": {2: "two"}, "LayerNorm": {2: "norm"}, "encoder": {1: "shallow"}}
    assert results.by_depth(tmp_path / "shipped") == kinds
    configs = {run.name: (name, run.config) for name, runs in RUNS.items() for run in runs}
    for name, entry in index.items():
        experiment, asked = configs[name]
        assert (entry["experiment"], entry["command"]) == (experiment, f"tfnewton train {experiment} --size default")
        assert TrainingConfig.model_validate(entry["config"], strict=False) == asked
        assert [session["from_step"] for session in entry["environment"]] == [0]
        model = load_model(trained / name)[0]
        prompts = asked.task.sample(generator(1, "test"), 40)
        predicted = model(prompts).detach().numpy().astype(float)
        if isinstance(prompts, LogisticPrompts):
            margins = prompts.y.numpy() * np.einsum("bnd,bd->bn", prompts.x.numpy(), predicted)
            losses = np.log1p(np.exp(-margins)).mean(1) + 0.05 * (predicted**2).sum(1)
        else:
            losses = (predicted - prompts.target.numpy()) ** 2
        middle = np.sort(losses)[2:-2]  # without five percent of 40 at either end
        expected = {"mean": losses.mean(), "median": np.sort(losses)[19], "trimmed_mean": middle.mean()}
        assert entry["test"] == pytest.approx(expected, rel=1e-4)
        again = results.load(name, tmp_path / "shipped")(prompts)
        np.testing.assert_allclose(again, predicted, rtol=1e-4, atol=1e-5)


def test_tables_are_shipped_with_what_they_lack(trained: Path, tmp_path: Path) -> None:
    results.ship(trained, tmp_path)
    assert {path.name for path in tmp_path.glob("*.csv")} == {"lsa-depth.csv", "ln-depth.csv"}
    assert (tmp_path / "ln-depth.csv").read_bytes() == (trained / "ln-depth.csv").read_bytes()
    assert json.loads((tmp_path / "tables.json").read_text()) == {
        "lsa-depth": {"command": "tfnewton train lsa-depth --size default", "runs": 3, "missing": []},
        "ln-depth": {"command": "tfnewton train ln-depth --size default", "runs": 2, "missing": ["untrained"]},
    }


def test_what_was_shipped_before_stays(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results.ship(trained, tmp_path)
    first = results.index(tmp_path)
    monkeypatch.setattr(results, "PROMPTS", 50)
    monkeypatch.setattr(results, "SHIPPED", ("logistic",))
    assert results.ship(trained, tmp_path, "paper") == ["one", "two", "norm", "shallow"]
    second = results.index(tmp_path)
    assert second["shallow"]["command"] == "tfnewton train logistic --size paper"
    assert second["one"]["command"] == first["one"]["command"]
    assert all(second[name]["test"] != first[name]["test"] for name in first), "losses are of the prompts of today"


def test_the_main_table_has_every_model_and_every_step(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.ship(trained, tmp_path)
    index = results.index(tmp_path)
    monkeypatch.setattr(results, "index", lambda folder=tmp_path: index)
    monkeypatch.setattr(results, "load", lambda name, load=results.load: load(name, tmp_path))
    head, *lines = results.main_table().splitlines()
    assert head.split() == ["model", "mean", "median", "trimmed", "mean"]
    rows = {line[:34].strip(): [float(value) for value in line[34:].split()] for line in lines}
    assert len(rows) == len(lines) == 4 + 5 + 3 * 7 + 7 + 1
    for name, entry in index.items():
        assert rows[name] == pytest.approx(list(entry["test"].values()), rel=1e-3)
    prompts = linear(0).task.sample(generator(1, "test"), 40)
    assert isinstance(prompts, LinearPrompts)
    A, y = prompts.x.double().numpy(), prompts.y.double().numpy()
    query, target = prompts.x_query.double().numpy(), prompts.target.double().numpy()
    lipschitz = np.linalg.norm(A, 2, axis=(1, 2)) ** 2
    R, moment = np.swapaxes(A, 1, 2) @ A, np.einsum("bnd,bn->bd", A, y)
    X, w = np.eye(3) / lipschitz[:, None, None], np.zeros((40, 3))
    for step in range(7):
        for name, weights in (
            (f"Newton order 2, {step} steps", np.einsum("bij,bj->bi", X, moment)),
            (f"gradient descent, {step} steps", w),
        ):
            errors = (np.einsum("bd,bd->b", weights, query) - target) ** 2
            assert rows[name][0] == pytest.approx(errors.mean(), rel=1e-3, abs=1e-9), name
            assert rows[name][1] == pytest.approx(np.sort(errors)[19], rel=1e-3, abs=1e-9), name
        X = 2 * X - X @ R @ X
        w = w + (moment - np.einsum("bij,bj->bi", R, w)) / lipschitz[:, None]
    assert rows["Newton order 4, 6 steps"][0] < rows["Newton order 3, 4 steps"][0] < rows["Newton order 2, 4 steps"][0]
    logistic = encoder(1).task.sample(generator(1, "test"), 40)
    assert isinstance(logistic, LogisticPrompts)
    assert rows["damped Newton, 0 steps"] == pytest.approx([np.log(2.0)] * 3, rel=1e-3)
    losses = ev.logistic_losses(logistic.target, logistic, 0.1)  # the target is four steps
    assert rows["damped Newton, 4 steps"][0] == pytest.approx(losses.mean().item(), rel=1e-3)
    assert "least squares with (x_query, 0)" in rows


def test_nothing_missing_is_nothing_to_train(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    assert run_all(RUNS["lsa-depth"] * 2, trained) == 0
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
