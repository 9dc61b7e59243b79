"""How each kind of model is trained, in three sizes: smoke (seconds), default (the book), paper (its steps)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from tfnewton.checks import choice, integer
from tfnewton.learning.configuration import TrainingConfig
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.tasks import Curriculum, LinearRegression, LogisticRegression

__all__ = [
    "ABLATIONS",
    "ENCODER_VARIATIONS",
    "SIZES",
    "Run",
    "Size",
    "ablated",
    "fourfold",
    "layer_norm_attention",
    "linear_attention",
    "logistic_encoder",
    "varied_encoder",
]

Size: TypeAlias = Literal["smoke", "default", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "default", "paper")

_PAPER_STEPS = 100_000
# Largest rates that train without diverging, by depth; deeper models take the last.
_RATES_QUERY_IN = (1e-2, 1e-2, 1e-2, 4e-3, 2e-3, 1e-3)
_RATES_QUERY_OUT = (1e-2, 1e-2, 5e-3, 6e-3, 2e-3, 2e-3)
_LINEAR_STEPS = (2000, 3000, 4000, 6000, 8000, 10_000)
_VARIANCE = 0.002  # of all weights of a linear attention model together, divided by its layers and width


class Run(NamedTuple):
    """A training run and the name of its folder."""

    name: str
    config: TrainingConfig


def linear_attention(
    layers: int, seed: int, size: Size, query_as_key: bool = True, kappa: float = 10.0, noise: float = 0.0
) -> Run:
    """Linear self-attention without LayerNorm; ``layers`` at least 1."""
    depth = min(integer("layers", layers, minimum=1), len(_LINEAR_STEPS)) - 1
    std = math.sqrt(_VARIANCE / layers / 64)
    config = TrainingConfig(
        task=LinearRegression(kappa=kappa, noise=noise),
        model=LinearAttentionOptions(layers=layers, query_as_key=query_as_key, init=std, init_out=std),
        seed=seed,
        steps=_LINEAR_STEPS[depth],
        learning_rate=(_RATES_QUERY_IN if query_as_key else _RATES_QUERY_OUT)[depth],
        clip=1.0 if layers <= 3 else 0.1,
    )
    return Run(f"lsa-{layers}-{_setting(query_as_key, kappa, noise)}-seed{seed}", _sized(config, size))


def layer_norm_attention(
    layers: int,
    seed: int,
    size: Size,
    query_as_key: bool = True,
    kappa: float = 10.0,
    noise: float = 0.0,
    final_norm: float | None = None,
) -> Run:
    """Linear self-attention with LayerNorm; ``layers`` at least 1.

    ``final_norm`` is the epsilon of one more LayerNorm, before the read-out, as the authors' code has it.
    """
    integer("layers", layers, minimum=1)
    config = TrainingConfig(
        task=LinearRegression(kappa=kappa, noise=noise),
        model=LinearAttentionOptions(
            layers=layers,
            query_as_key=query_as_key,
            layer_norm=1e-5,
            final_norm=final_norm,
            constant=True,
            init=0.05,
            init_out=0.05 / math.sqrt(2 * layers),
        ),
        seed=seed,
        steps=3000 if layers <= 8 else 5000,
        learning_rate=1e-3,
        bf16=0.85,
    )
    suffix = "" if final_norm is None else "-final-norm"
    return Run(f"ln-{layers}-{_setting(query_as_key, kappa, noise)}-seed{seed}{suffix}", _sized(config, size))


def logistic_encoder(layers: int, seed: int, size: Size, mu: float = 0.1, kappa: float = 10.0) -> Run:
    """The encoder that predicts the weights of damped Newton's method; ``layers`` at least 1."""
    integer("layers", layers, minimum=1)
    config = TrainingConfig(
        task=LogisticRegression(mu=mu, kappa=kappa),
        model=EncoderOptions(layers=layers),
        seed=seed,
        steps=2500,
        learning_rate=5e-3 if layers <= 4 else 3e-3,
        evaluate_every=100,
        validation=1024,
    )
    return Run(f"logistic-{layers}-mu{mu:g}-kappa{kappa:g}-seed{seed}", _sized(config, size))


_Changes: TypeAlias = tuple[Mapping[str, object], Mapping[str, object]]  # of a config and of its model

# What one leaves out, or does instead, of the recipe of ``linear_attention``.
_ABLATIONS: dict[str, _Changes] = {
    "no-gradient-clip": ({"clip": None}, {}),
    "raw-inputs": ({}, {"input_scale": 1.0}),
    "wide-init": ({}, {"init": 0.02, "init_out": 0.02}),
    "by-head-size": ({}, {"scaling": "head_size"}),
    "activation-clip": ({}, {"clip": 10.0}),
    "curriculum": ({"curriculum": Curriculum(every=200)}, {}),
    "authors": (
        {"clip": 10.0, "learning_rate": 1e-4, "betas": (0.9, 0.999)},
        {"clip": 10.0, "init": 2e-4, "init_out": 2e-4, "scaling": "head_size", "input_scale": 1.0},
    ),
}
ABLATIONS = tuple(_ABLATIONS)


def ablated(layers: int, ablation: str, seed: int, size: Size) -> Run:
    """Linear self-attention trained with one of ``ABLATIONS``; "authors" has the settings of the authors' code."""
    return _otherwise(
        linear_attention(layers, seed, size), ablation, _ABLATIONS[choice("ablation", ablation, ABLATIONS)]
    )


ENCODER_VARIATIONS = ("small-weights", "small-inputs", "small-both", "fourfold-steps")


def varied_encoder(layers: int, variation: str, seed: int, size: Size) -> Run:
    """The encoder with one of ``ENCODER_VARIATIONS``: five times smaller initial weights, three times smaller inputs.

    The former, 0.02, is usual for models of a width of some hundreds; here it is 32.
    """
    run = logistic_encoder(layers, seed, size)
    small_weights, small_inputs = {"init": 0.02}, {"input_scale": 0.1}
    variations: dict[str, _Changes] = {
        "small-weights": ({}, small_weights),
        "small-inputs": ({}, small_inputs),
        "small-both": ({}, small_weights | small_inputs),
        "fourfold-steps": _fourfold_steps(run),
    }
    return _otherwise(run, variation, variations[choice("variation", variation, ENCODER_VARIATIONS)])


def fourfold(run: Run) -> Run:
    """Return the run with four times as many steps."""
    return _otherwise(run, "fourfold-steps", _fourfold_steps(run))


def _fourfold_steps(run: Run) -> _Changes:
    return {"steps": 4 * run.config.steps}, {}


def _otherwise(run: Run, name: str, changes: _Changes) -> Run:
    config, model = changes
    changed = run.config.model_copy(update={**config, "model": run.config.model.model_copy(update=model)})
    return Run(f"{run.name}-{name}", changed)


def _setting(query_as_key: bool, kappa: float, noise: float) -> str:
    return f"{'in' if query_as_key else 'out'}-kappa{kappa:g}-noise{noise:g}"


def _sized(config: TrainingConfig, size: Size) -> TrainingConfig:
    changes: dict[Size, dict[str, int]] = {
        "smoke": {"steps": 20, "batch": 16, "evaluate_every": 10, "validation": 64},
        "default": {},
        "paper": {"steps": _PAPER_STEPS, "batch": 2000, "evaluate_every": 1000},
    }
    choice("size", size, SIZES)
    return config.model_copy(update=changes[size])
