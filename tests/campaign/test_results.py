"""Shipped models and tables: they load, give their recorded losses, and say how they were made."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import torch

from tfnewton.campaign import results
from tfnewton.campaign.experiments import EXPERIMENTS, write_table
from tfnewton.campaign.recipes import linear_attention, logistic_encoder
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.evaluation import Statistics
from tfnewton.learning.models import LinearAttention
from tfnewton.learning.training import train
from tfnewton.model.transformer import Transformer

MODELS = results.index()


def test_something_is_shipped_in_little_space() -> None:
    assert len(MODELS) >= 6
    assert sum(path.stat().st_size for path in results.RESULTS.iterdir()) < 12e6
    assert {f"{name}.safetensors" for name in MODELS} == {path.name for path in results.RESULTS.glob("*.safetensors")}


QUICK = ("lsa-3-out-kappa10-noise0-seed0", "ln-2-in-kappa10-noise0-seed0", "logistic-1-mu0.1-kappa10-seed0")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_shipped_model_reproduces_its_test_loss(name: str) -> None:
    entry = MODELS[name]
    config = TrainingConfig.model_validate(entry["config"], strict=False)
    found = results.held_out_loss(config, results.load(name))
    recorded = Statistics(**entry["test"])
    assert (found.mean, found.trimmed_mean) == pytest.approx((recorded.mean, recorded.trimmed_mean), rel=1e-4)
    assert found.median == pytest.approx(recorded.median, rel=1e-2)  # of one prompt, maybe near roundoff
    assert entry["command"].startswith(f"tfnewton train {entry['experiment']}")
    assert config in [run.config for run in EXPERIMENTS[entry["experiment"]].runs("default") if run.name == name]
    assert entry["environment"][0]["versions"]["torch"]


def test_models_by_kind_and_depth() -> None:
    by_depth = results.by_depth()
    assert sorted(name for of in by_depth.values() for name in of.values()) == sorted(MODELS)
    prefixes = {"query in": "lsa-{}-in-", "query out": "lsa-{}-out-", "LayerNorm": "ln-{}-", "encoder": "logistic-{}-"}
    for kind, of in by_depth.items():
        assert list(of) == sorted(of)
        assert all(name.startswith(prefixes[kind].format(layers)) for layers, name in of.items())
    model = results.model(by_depth["query out"][3])
    assert isinstance(model, LinearAttention)
    assert (model.options.layers, model.options.query_as_key, model.options.layer_norm) == (3, False, None)


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("logistic")])
def test_shipped_transformer_is_the_paper_s_size(name: str) -> None:
    transformer = Transformer.load(results.RESULTS / f"{name}.safetensors")
    assert (transformer.depth, transformer.heads) == (1 + int(name.split("-")[1]), 4)  # one is the embedding
    one = {"one": 1} if name.startswith("ln") else {}
    assert transformer.layout.sizes == {"x": 10, "y": 1, **one, "hidden": 64, "y_hat": 1}
    A, y, a_test = torch.randn(50, 10), torch.randn(50), torch.randn(10)
    assert len(transformer.trace(transformer.pack(A, y, a_test))) == transformer.depth + 1


@pytest.mark.parametrize("path", sorted(results.RESULTS.glob("*.csv")), ids=lambda path: path.stem)
def test_shipped_table(path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(results.table(path.stem))))
    assert path.stem in EXPERIMENTS
    assert {"method", "depth"} <= set(rows[0])
    assert all(None not in row.values() for row in rows)
    entry = json.loads((results.RESULTS / "tables.json").read_text())[path.stem]
    runs = {run.name for run in EXPERIMENTS[path.stem].runs("default")}
    assert entry["runs"] == len(runs)
    assert set(entry["missing"]) < runs
    if "run" in rows[0]:
        assert {row["run"] for row in rows} - {""} == runs - set(entry["missing"])


@pytest.mark.slow
def test_main_table_has_every_model_and_newton() -> None:
    text = results.main_table()
    for name, entry in MODELS.items():
        line = next(line for line in text.splitlines() if line.startswith(name + " "))
        assert float(line.split()[1]) == pytest.approx(entry["test"]["mean"], rel=1e-3)
    assert "Newton order 3, 6 steps" in text
    assert "least squares with (x_query, 0)" in text


@pytest.mark.slow
def test_ship_and_load(tmp_path: Path) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "shipped"
    for run in (linear_attention(2, 0, "smoke", False), logistic_encoder(1, 0, "smoke")):
        train(run.config, runs / run.name)
    write_table("lsa-depth", runs, "smoke")
    names = results.ship(runs, folder, "smoke")
    assert set(names) == {"lsa-2-out-kappa10-noise0-seed0", "logistic-1-mu0.1-kappa10-seed0"}
    assert (folder / "lsa-depth.csv").read_bytes() == (runs / "lsa-depth.csv").read_bytes()
    for name in names:
        entry = results.index(folder)[name]
        config = TrainingConfig.model_validate(entry["config"], strict=False)
        assert config.steps == 20  # what was trained, not what the experiment asks for
        found = results.held_out_loss(config, results.load(name, folder))
        assert found._asdict() == pytest.approx(entry["test"], rel=1e-6)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="model = 'lsa-99': must be one of"):
        results.load("lsa-99")
    with pytest.raises(ValueError, match="experiment = 'loss': must be one of"):
        results.table("loss")
    absent = next((name for name in EXPERIMENTS if not (results.RESULTS / f"{name}.csv").exists()), None)
    if absent is not None:
        with pytest.raises(FileNotFoundError, match=f"make it with: tfnewton train {absent}"):
            results.table(absent)


def test_shipping_from_a_folder_without_runs_writes_nothing(tmp_path: Path) -> None:
    shutil.copytree(results.RESULTS, tmp_path / "shipped")
    before = {path.name: path.read_bytes() for path in (tmp_path / "shipped").iterdir()}
    for root in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileNotFoundError, match="must hold runs of the size 'default', and holds none"):
            results.ship(root, tmp_path / "shipped")
    assert {path.name: path.read_bytes() for path in (tmp_path / "shipped").iterdir()} == before
