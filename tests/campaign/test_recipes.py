"""Recipes are those by which the shipped models were trained, and each change of one is what its name says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tfnewton.campaign import recipes, results
from tfnewton.campaign.experiments import EXPERIMENTS
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.tasks import Curriculum

SHIPPED = results.index()
COUNTS = {  # runs of each experiment: smoke, default, paper
    "lsa-depth": (2 * 2, 3 * 2 * 6, 3 * 2 * 6),
    "logistic": (2, 3 * 5 + 4, 3 * 5 + 4),
    "ln-depth": (2, 3 * 9, 3 * 9),
    "logistic-recipe": (2 + 4 + 1 + 1, 3 * (2 + 4 + 1) + 1, 3 * (2 + 4 + 1) + 1),
    "lsa-inside": (2 * 2, 3 * 2 * 6, 3 * 2 * 6),
    "lsa-outside": (2 * 2, 3 * 2 * 6, 3 * 2 * 6),
    "ln-inside": (2, 3 * 9, 3 * 9),
    "ln-outside": (2, 3 * 9, 3 * 9),
    "mechanism": (2, 3 * 6, 3 * 6),
    "final-norm": (2, 3 * 2 + 1, 3 * 2 + 1),
    "longer": (2, 2 * 3, 2 * 3),
    "stability": (1 + 7, 1 + 7, 1 + 7),
    "lsa-grid": (4 * 2, 4 * (6 + 2 * 3), 4 * (6 + 2 * 3)),
    "ln-grid": (10 * 2, 10 * (4 + 2), 10 * (9 + 2)),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_recipe_is_the_one_that_trained_what_is_shipped(name: str) -> None:
    entry = SHIPPED[name]
    runs = {run.name: run.config for run in EXPERIMENTS[entry["experiment"]].runs("default")}
    assert runs[name] == TrainingConfig.model_validate(entry["config"], strict=False)


def test_what_is_shipped_are_the_first_seeds_of_the_main_figures() -> None:
    expected = {f"lsa-{L}-{where}-kappa10-noise0-seed0" for L in (1, 2, 3, 4, 5, 6) for where in ("in", "out")}
    expected |= {f"ln-{L}-in-kappa10-noise0-seed0" for L in (1, 2, 3, 4, 5, 7, 8, 10, 12)}
    assert set(SHIPPED) == expected | {f"logistic-{L}-mu0.1-kappa10-seed0" for L in (1, 2, 4, 8, 12)}


@pytest.mark.parametrize("name", COUNTS)
def test_runs_by_size(name: str) -> None:
    assert set(COUNTS) == set(EXPERIMENTS)
    for size, count in zip(recipes.SIZES, COUNTS[name], strict=True):
        runs = EXPERIMENTS[name].runs(size)
        assert len(runs) == count, size
        seeds = 1 if size == "smoke" or name == "stability" else 3
        assert {run.config.seed for run in runs} == set(range(seeds))


RECIPES: dict[str, Any] = {
    "linear": recipes.linear_attention,
    "LayerNorm": recipes.layer_norm_attention,
    "encoder": recipes.logistic_encoder,
}


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("layers", [1, 4, 9, 12])
def test_sizes_change_how_long_and_nothing_else(kind: str, layers: int) -> None:
    smoke, default, paper = (RECIPES[kind](layers, 3, size) for size in recipes.SIZES)
    assert smoke.name == default.name == paper.name
    assert smoke.name.endswith("-seed3")
    assert default.config.seed == 3
    assert default.config.model.layers == layers
    lengths = {"steps", "batch", "evaluate_every", "validation"}
    plain = default.config.model_dump(exclude=lengths)
    assert plain == smoke.config.model_dump(exclude=lengths) == paper.config.model_dump(exclude=lengths)
    assert smoke.config.steps * smoke.config.batch < 500
    assert (paper.config.steps, paper.config.batch) == (100_000, 2000)  # of the authors' code
    assert paper.config.validation == default.config.validation > smoke.config.validation


@pytest.mark.parametrize("kind", RECIPES)
def test_another_size_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="size = 'large': must be one of 'smoke', 'default', 'paper'"):
        RECIPES[kind](2, 0, "large")


@pytest.mark.parametrize("recipe", [recipes.linear_attention, recipes.layer_norm_attention])
def test_the_setting_is_in_the_task_and_in_the_name(recipe: Any) -> None:
    run = recipe(2, 0, "default", False, 50.0, 0.25)
    assert (run.config.task.kappa, run.config.task.noise, run.config.model.query_as_key) == (50.0, 0.25, False)
    assert "-2-out-kappa50-noise0.25-" in run.name
    usual = recipe(2, 0, "default")
    assert (usual.config.task.kappa, usual.config.task.noise, usual.config.model.query_as_key) == (10.0, 0.0, True)
    assert "-2-in-kappa10-noise0-" in usual.name
    encoder = recipes.logistic_encoder(2, 0, "default", 0.5, 3.0)
    assert (encoder.config.task.mu, encoder.config.task.kappa) == (0.5, 3.0)  # type: ignore[union-attr]
    assert encoder.name == "logistic-2-mu0.5-kappa3-seed0"


def test_weights_shrink_with_depth_and_deep_models_learn_slowly() -> None:
    for query in (True, False):
        configs = [recipes.linear_attention(L, 0, "default", query).config for L in range(1, 15)]
        for L, config in enumerate(configs, 1):
            for name in ("init", "init_out"):
                assert getattr(config.model, name) ** 2 * L * 64 == pytest.approx(0.002)
            assert config.clip == (0.1 if L > 3 else 1.0)
        assert all(a.steps <= b.steps for a, b in itertools.pairwise(configs))
        assert configs[-1].model_dump(exclude={"model"}) == configs[5].model_dump(exclude={"model"})
    for L in (1, 8, 9, 12):
        config = recipes.layer_norm_attention(L, 0, "default").config
        assert config.model.init_out == pytest.approx(config.model.init / math.sqrt(2 * L))  # type: ignore[union-attr]
        assert config.steps == (3000 if L <= 8 else 5000)
    rates = [recipes.logistic_encoder(L, 0, "default").config.learning_rate for L in (1, 4, 5, 12)]
    assert rates == [5e-3, 5e-3, 3e-3, 3e-3]


CHANGES: dict[str, dict[str, Any]] = {  # of the config, and of the model after a dot
    "no-gradient-clip": {"clip": None},
    "raw-inputs": {".input_scale": 1.0},
    "wide-init": {".init": 0.02, ".init_out": 0.02},
    "by-head-size": {".scaling": "head_size"},
    "activation-clip": {".clip": 10.0},
    "curriculum": {"curriculum": Curriculum(every=200, d_start=2, n_start=10, d_step=1, n_step=5).model_dump()},
    "authors": {  # of Leiay/icl_newton
        **{"clip": 10.0, "learning_rate": 1e-4, "betas": (0.9, 0.999), ".clip": 10.0, ".scaling": "head_size"},
        **{".init": 2e-4, ".init_out": 2e-4, ".input_scale": 1.0},
    },
    "small-weights": {".init": 0.02},
    "small-inputs": {".input_scale": 0.1},
    "small-both": {".init": 0.02, ".input_scale": 0.1},
    "fourfold-steps": {"steps": 10_000},
}


def flat(config: TrainingConfig) -> dict[str, Any]:
    values = config.model_dump()
    return {f".{name}": value for name, value in values.pop("model").items()} | values


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_done_otherwise_is_what_the_name_says(name: str) -> None:
    assert set(CHANGES) == {*recipes.ABLATIONS, *recipes.ENCODER_VARIATIONS}
    usual, other = recipes.linear_attention(3, 2, "default"), recipes.logistic_encoder(4, 2, "default")
    if name in recipes.ABLATIONS:
        run = recipes.ablated(3, name, 2, "default")
    else:
        usual, run = other, recipes.varied_encoder(4, name, 2, "default")
    before, after = flat(usual.config), flat(run.config)
    assert {key: after[key] for key in after if after[key] != before[key]} == CHANGES[name]
    assert run.name == f"{usual.name}-{name}"
    assert TrainingConfig.model_validate(run.config.model_dump()) == run.config, "it is legal"


def test_grids_of_settings() -> None:
    """Of figures lsa-full and lsa-ln-full; what is trained at kappa = 10 without noise is in the main figures."""

    def settings(name: str) -> set[tuple[float, float]]:
        return {(r.config.task.kappa, getattr(r.config.task, "noise", -1.0)) for r in EXPERIMENTS[name].runs("default")}

    assert settings("lsa-grid") == {(5.0, 0.0), (50.0, 0.0), (10.0, 1.0), (50.0, 1.0)}
    assert settings("ln-grid") == {(kappa, noise) for kappa in (1.0, 5.0, 10.0, 50.0, 100.0) for noise in (0.0, 1.0)}
    deep = [run for run in EXPERIMENTS["logistic"].runs("default") if run.config.model.layers > 12]
    assert [(run.config.model.layers, run.config.seed) for run in deep] == [(16, 0), (20, 0), (30, 0), (40, 0)]
    depths = {
        (r.config.model.layers, r.name.partition("seed")[2][1:]) for r in EXPERIMENTS["logistic-recipe"].runs("default")
    }
    assert depths == {(4, ""), (12, ""), (12, "-small-both"), (12, "-fourfold-steps")} | {
        (4, f"-{name}") for name in ("small-weights", "small-inputs", "small-both", "fourfold-steps")
    }


def test_longer_runs_have_four_times_the_steps_and_nothing_else() -> None:
    usual, longer = [
        [r for r in EXPERIMENTS["longer"].runs("default") if ("fourfold" in r.name) is of] for of in (False, True)
    ]
    for run, other in zip(usual, longer, strict=True):
        assert (run.config.model.layers, run.config.steps, other.config.steps) == (4, 6000, 24_000)
        assert run.name == other.name.removesuffix("-fourfold-steps")
        assert flat(run.config) == flat(other.config) | {"steps": 6000}
