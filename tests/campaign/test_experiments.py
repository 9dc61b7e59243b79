"""Experiments at smoke size: complete, resumable, tidy; and their refusals."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tfnewton.campaign import experiments, recipes
from tfnewton.campaign.experiments import EXPERIMENTS, carry_out, write_table
from tfnewton.campaign.mechanism import EXPONENTS, mechanism
from tfnewton.campaign.recipes import linear_attention
from tfnewton.campaign.tables import load_model
from tfnewton.campaign.workers import is_complete
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.evaluation import fresh_prompts
from tfnewton.learning.models import LinearAttention
from tfnewton.learning.probes import answer_bound
from tfnewton.learning.residuals import sign_changes, unexplained
from tfnewton.learning.tasks import LinearPrompts, LinearRegression
from tfnewton.learning.training import train

FIRST = ("lsa-depth", "logistic", "lsa-inside")  # one of each kind of table; the others are long


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def train_here(name: str, root: Path) -> None:
    for run in EXPERIMENTS[name].runs("smoke"):
        if not is_complete(run, root):
            train(run.config, root / run.name)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in FIRST else pytest.mark.long) for n in EXPERIMENTS]
)
def test_smoke(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "LN_GRID", experiments.LN_GRID[3:8:4])
    monkeypatch.setattr("tfnewton.campaign.tables.FUNCTION_PROMPTS", 20)
    train_here(name, tmp_path)
    path = write_table(name, tmp_path, "smoke")
    assert path is not None
    table = rows(path)
    losses = [row for row in table if row.get("shows") != "output"]
    settings = {(row.get("kappa"), row.get("noise")) for row in losses}
    models = {
        (row["method"], row.get("variant"), row["depth"], row.get("kappa"), row.get("noise"), row.get("run"))
        for row in losses
        if row["method"].startswith(("LSA", "encoder"))
    }
    assert len(models) == len(EXPERIMENTS[name].runs("smoke"))
    assert len(settings) == len({run.config.task for run in EXPERIMENTS[name].runs("smoke")})
    assert name == "mechanism" or any("Newton" in row["method"] for row in table)
    if "noise" in table[0] and any(row["noise"] == "1" for row in table):
        assert any("ridge" in row["variant"] for row in table)


@pytest.mark.slow
def test_table_of_the_final_norm_has_losses_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfnewton.campaign.tables.FUNCTION_PROMPTS", 20)
    train_here("final-norm", tmp_path)
    path = write_table("final-norm", tmp_path, "smoke")
    assert path is not None
    table = rows(path)
    trained = [row for row in table if row["method"] == "LSA+LN, final norm"]
    losses = [row for row in trained if row["shows"] == "loss"]
    outputs = [row for row in trained if row["shows"] == "output"]
    assert [(row["depth"], row["seed"], row["x1"]) for row in losses] == [("2", "0", ""), ("4", "0", "")]
    assert [(row["depth"], row["seed"], row["x1"]) for row in outputs] == [
        (depth, "0", x1) for depth in ("2", "4") for x1 in ("-60", "0", "60")
    ]
    assert all(row["run"] and row["trimmed_mean"] and not row["rmse"] for row in losses)
    assert all(row["target"] and row["rmse"] and not row["median"] for row in outputs)
    run = EXPERIMENTS["final-norm"].runs("smoke")[0]
    assert run.name == "ln-2-in-kappa10-noise0-seed0-final-norm"
    model, _ = load_model(tmp_path / run.name, run.config)
    assert isinstance(model, LinearAttention)
    assert all(abs(float(row["mean"])) < answer_bound(model) for row in outputs if row["depth"] == "2")


def test_mechanism_against_plain_numpy(tmp_path: Path) -> None:
    """Every column of a row but the similarities, whose maximum is looked for by hand."""
    run = linear_attention(1, 0, "smoke", False)
    train(run.config, tmp_path / run.name)
    (row,) = mechanism([run], tmp_path, 40)
    p = fresh_prompts(LinearRegression(), 40, torch.float64)
    assert isinstance(p, LinearPrompts)
    model = load_model(tmp_path / run.name)[0].double()
    x, query, w = p.x.numpy(), p.x_query.numpy(), p.w.numpy()
    values, vectors = np.linalg.eigh(x.transpose(0, 2, 1) @ x / 50)
    vectors = vectors * np.sign(vectors.sum(axis=1, keepdims=True))
    x, query, w, values, vectors = (part[values[:, -1] < 150.0] for part in (x, query, w, values, vectors))

    def answer(y: np.ndarray, at: np.ndarray) -> np.ndarray:
        asked = LinearPrompts(*(torch.as_tensor(part) for part in (x, y, at, at[:, 0], at)))
        return np.asarray(model(asked).detach())

    labels = np.einsum("bnd,bd->bn", x, w)
    wrong = answer(labels, query) - (query * w).sum(1)
    for suffix, length in (("", 10.0**0.5), ("_unit", 1.0)):
        r, leak = np.empty_like(values), np.empty_like(values)
        for i in range(10):
            y = length * np.einsum("bnd,bd->bn", x, vectors[:, :, i])
            along = [answer(y, vectors[:, :, j]) / length for j in range(10)]
            r[:, i] = 1.0 - along[i]
            leak[:, i] = np.sqrt(sum(along[j] ** 2 for j in range(10) if j != i))
        q, v = (np.einsum("bij,bi->bj", vectors, part) for part in (query, w))
        assert row[f"rms{suffix}"] == pytest.approx(np.sqrt((values * r**2).sum() / values.sum()))
        assert row[f"leakage{suffix}"] == pytest.approx(np.median(leak), rel=1e-6)
        beside = np.sqrt(np.mean((wrong + (q * r * v).sum(1)) ** 2) / np.mean(wrong**2))
        assert row[f"beside_sum{suffix}"] == pytest.approx(beside, rel=1e-6)
        assert row[f"unexplained{suffix}"] == pytest.approx(unexplained(values, values, r))
        ratio = values / values[:, -1:]
        assert row[f"unexplained_ratio{suffix}"] == pytest.approx(unexplained(ratio, values, r))
        assert row[f"two_sign_changes{suffix}"] == np.mean(sign_changes(r, leak) >= 2)
    one = (values**2).sum() / (values**3).sum()  # the best fixed step
    assert row["best_fixed"] == pytest.approx(np.sqrt((values * (1 - one * values) ** 2).sum() / values.sum()))
    base = 1.0 - values / values[:, -1:]
    assert row["newton_3"] == pytest.approx(np.sqrt((values * base**6).sum() / values.sum()))
    moved = answer(1.4 * labels, query) / 1.4 - answer(labels, query)
    assert row["nonlinear"] == pytest.approx(np.sqrt((moved**2).mean() / (wrong**2).mean()), rel=1e-6)
    assert row["nonlinear_median"] == pytest.approx(np.median(abs(moved)) / np.median(abs(wrong)), rel=1e-6)
    mirrored = -answer(-labels, query) - answer(labels, query)
    assert row["uneven"] == pytest.approx(np.sqrt((mirrored**2).mean() / (wrong**2).mean()), rel=1e-6)
    alike = {m: -(q * base**m * v).sum(1) @ wrong / np.linalg.norm((q * base**m * v).sum(1)) for m in EXPONENTS}
    best = max(alike, key=lambda m: alike[m])
    assert row["like_exponent"] == best
    assert row["like_power"] == pytest.approx(alike[best] / np.linalg.norm(wrong))
    assert (row["depth"], row["seed"], row["prompts"], row["run"]) == (1, 0, len(x), run.name)


def test_final_norm_is_the_only_change_of_its_recipe() -> None:
    usual = recipes.layer_norm_attention(4, 1, "default").config
    other = recipes.layer_norm_attention(4, 1, "default", final_norm=1e-5).config
    assert usual.model_copy(update={"model": usual.model.model_copy(update={"final_norm": 1e-5})}) == other
    runs = EXPERIMENTS["final-norm"].runs("default")
    assert [(run.config.model.layers, run.config.seed) for run in runs] == [
        *((layers, seed) for seed in range(3) for layers in (2, 4)),
        (8, 0),
    ]


def test_every_figure_of_the_paper_is_an_experiment() -> None:
    assert {experiment.label for experiment in EXPERIMENTS.values()} == {
        *("fig:lsa-loss", "fig:lsa_func", "fig:lsa_func_out", "fig:lsa_ln_func", "fig:lsa_ln_func_out"),
        *("fig:logistic_regression", "fig:lsa-full", "fig:lsa-ln-full", "sec:experiments"),
    }


@pytest.mark.parametrize("size", recipes.SIZES)
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_runs_have_distinct_names(name: str, size: recipes.Size) -> None:
    runs = EXPERIMENTS[name].runs(size)
    assert len({run.name for run in runs}) == len(runs)
    by_name: dict[str, TrainingConfig] = {}
    for other in EXPERIMENTS.values():  # experiments share runs, and then they are the same
        for run in other.runs(size):
            assert by_name.setdefault(run.name, run.config) == run.config


@pytest.mark.parametrize(
    ("names", "size", "workers", "message"),
    [
        (["lsa"], "smoke", 1, "experiment = 'lsa': must be one of 'lsa-depth'"),
        (["lsa-depth"], "large", 1, "size = 'large': must be one of 'smoke', 'default', 'paper'"),
        (["lsa-depth"], "smoke", 0, "workers = 0: must be at least 1"),
    ],
)
def test_refusals(names: list[str], size: str, workers: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        carry_out(names, size, workers, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("recipe", [recipes.linear_attention, recipes.layer_norm_attention])
def test_recipes_refuse(recipe: object) -> None:
    with pytest.raises(ValueError, match="layers = 0: must be at least 1"):
        recipe(0, 0, "smoke")  # type: ignore[operator]
    with pytest.raises(ValueError, match="noise"):
        recipe(1, 0, "smoke", noise=-1.0)  # type: ignore[operator]
    with pytest.raises(ValueError, match="kappa"):
        recipe(1, 0, "smoke", kappa=0.9)  # type: ignore[operator]
    with pytest.raises(ValueError, match="layers = 0: must be at least 1"):
        recipes.logistic_encoder(0, 0, "smoke")


def test_unknown_changes_of_a_recipe_are_refused() -> None:
    with pytest.raises(ValueError, match="ablation = 'none': must be one of 'no-gradient-clip'"):
        recipes.ablated(3, "none", 0, "smoke")
    with pytest.raises(ValueError, match="variation = 'none': must be one of 'small-weights'"):
        recipes.varied_encoder(4, "none", 0, "smoke")


def test_a_finished_run_of_another_config_enters_no_table(tmp_path: Path) -> None:
    """A smoke run in the folder of a default one: told by each field that differs, before anything is evaluated."""
    run = EXPERIMENTS["lsa-depth"].runs("smoke")[0]
    other = run.config.model_copy(update={"steps": 10, "task": run.config.task.model_copy(update={"d": 3})})
    train(other, tmp_path / run.name)
    with pytest.raises(ValueError, match=rf"{run.name} holds another run: task\.d is 3 there, 10 was asked for; steps"):
        write_table("lsa-depth", tmp_path, "smoke")
    shutil.copy(tmp_path / run.name / "weights.safetensors", tmp_path / "foreign")
    shutil.rmtree(tmp_path / run.name)
    train(run.config, tmp_path / run.name)
    (tmp_path / "foreign").replace(tmp_path / run.name / "weights.safetensors")  # of the other config
    with pytest.raises(ValueError, match=r"holds another run: task\.d is 3 there, 10 was asked for"):
        write_table("lsa-depth", tmp_path, "smoke")
    assert not list(tmp_path.glob("*.csv"))
