"""The trained models and tables that come with the package.

    tfnewton results                       # the main table, from the shipped weights
    tfnewton results --ship runs/default

``index.json`` has, for each model, its config, the command that trained it, and its test loss; ``tables.json`` has, for
each table, its command and the runs that it still lacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor

from tfnewton.campaign.experiments import EXPERIMENTS, command
from tfnewton.campaign.recipes import Run, Size
from tfnewton.campaign.tables import load_model
from tfnewton.campaign.workers import is_complete
from tfnewton.checks import choice
from tfnewton.files import write_atomically
from tfnewton.learning import evaluation as ev
from tfnewton.learning.configuration import Model, TrainingConfig, build
from tfnewton.learning.conversion import from_transformer, to_transformer
from tfnewton.learning.models import LinearAttention
from tfnewton.learning.runs import Checkpoint, RunFolder, read_checkpoint
from tfnewton.learning.tasks import (
    LinearPrompts,
    LinearRegression,
    LogisticPrompts,
    LogisticRegression,
    Prompts,
    generator,
)
from tfnewton.model.transformer import Transformer

__all__ = ["RESULTS", "by_depth", "held_out_loss", "index", "load", "main_table", "model", "ship", "table"]

RESULTS = Path(str(files("tfnewton.campaign"))) / "shipped"
PROMPTS = 2048
SHIPPED = ("lsa-depth", "ln-depth", "logistic")  # the main figures; of their runs, seed 0
_LARGEST_ENCODER = 12  # layers: deeper encoders are in the tables only, for the size of the package


def index(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the entry of each shipped model by name."""
    path = folder / "index.json"
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return entries


def by_depth(folder: Path = RESULTS) -> dict[str, dict[int, str]]:
    """Return the names of the shipped models by kind and number of layers.

    The kinds are "query in" and "query out", of linear attention without LayerNorm, "LayerNorm" and "encoder".
    """
    names: dict[str, dict[int, str]] = {"query in": {}, "query out": {}, "LayerNorm": {}, "encoder": {}}
    for name, entry in index(folder).items():
        options = entry["config"]["model"]
        if options["kind"] == "encoder":
            kind = "encoder"
        elif options["layer_norm"] is not None:
            kind = "LayerNorm"
        else:
            kind = "query in" if options["query_as_key"] else "query out"
        names[kind][options["layers"]] = name
    return {kind: dict(sorted(of.items())) for kind, of in names.items()}


def table(name: str) -> str:
    """Return the shipped table of the experiment ``name``, as CSV text."""
    choice("experiment", name, list(EXPERIMENTS))
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no table of {name!r} is shipped; make it with: {command(name, 'default')}")
    return path.read_text()


def model(name: str, folder: Path = RESULTS) -> Model:
    """Return the shipped model ``name``, in float32.

    Models of linear regression are stored as a ``Transformer``: ``Transformer.load(RESULTS / f"{name}.safetensors")``
    gives that, to be traced and unpacked.
    """
    entries = index(folder)
    choice("model", name, list(entries))
    path = folder / f"{name}.safetensors"
    config = TrainingConfig.model_validate(entries[name]["config"], strict=False)
    if isinstance(config.task, LinearRegression):
        return from_transformer(Transformer.load(path))
    encoder = build(config, generator(0, "unused"))
    encoder.load_state_dict(read_checkpoint(path).tensors)
    return encoder


def load(name: str, folder: Path = RESULTS) -> Callable[[Prompts], Tensor]:
    """Return the shipped model ``name`` as a function from prompts to predictions."""
    return partial(ev.predict, model(name, folder))


def held_out_loss(config: TrainingConfig, model: Callable[[Prompts], Tensor]) -> ev.Statistics:
    """Return the test errors of ``model`` on the task of ``config``; for encoders, the logistic loss of its weights."""
    prompts = ev.fresh_prompts(config.task, PROMPTS)
    predicted = model(prompts)
    if isinstance(config.task, LogisticRegression):
        assert isinstance(prompts, LogisticPrompts)
        return ev.statistics(ev.logistic_losses(predicted, prompts, config.task.mu))
    assert isinstance(prompts, LinearPrompts)
    return ev.statistics(ev.squared_errors(predicted, prompts))


def ship(root: Path, folder: Path = RESULTS, size: Size = "default") -> list[str]:
    """Copy the models of the main figures and all tables from the runs of ``size`` in ``root``; return their names."""
    if not any((root / run.name).is_dir() for name in EXPERIMENTS for run in EXPERIMENTS[name].runs(size)):
        raise FileNotFoundError(f"{root}: must hold runs of the size {size!r}, and holds none; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    entries = index(folder)
    for name in SHIPPED:
        for run in EXPERIMENTS[name].runs(size):
            deep = isinstance(run.config.task, LogisticRegression) and run.config.model.layers > _LARGEST_ENCODER
            if run.config.seed == 0 and not deep and is_complete(run, root):
                entries[run.name] = _ship_model(root, run, folder / f"{run.name}.safetensors")
                entries[run.name] |= {"experiment": name, "command": command(name, size)}
    for run_name, entry in entries.items():
        config = TrainingConfig.model_validate(entry["config"], strict=False)
        write_atomically(folder / "index.json", json.dumps(entries, indent=1).encode())  # load reads it
        entry["test"] = held_out_loss(config, load(run_name, folder))._asdict()
    write_atomically(folder / "index.json", json.dumps(entries, indent=1).encode())
    _ship_tables(root, folder, size)
    return list(entries)


def _ship_tables(root: Path, folder: Path, size: Size) -> None:
    path = folder / "tables.json"
    shipped = json.loads(path.read_text()) if path.exists() else {}
    for name, experiment in EXPERIMENTS.items():
        path, runs = root / f"{name}.csv", experiment.runs(size)
        if path.exists():
            write_atomically(folder / path.name, path.read_bytes())
            missing = [run.name for run in runs if not is_complete(run, root)]
            shipped[name] = {"command": command(name, size), "runs": len(runs), "missing": missing}
    write_atomically(folder / "tables.json", json.dumps(shipped, indent=1).encode())


def _ship_model(root: Path, run: Run, path: Path) -> dict[str, Any]:
    model, config = load_model(root / run.name, run.config)
    if isinstance(model, LinearAttention):
        to_transformer(model).save(path)
    else:
        write_atomically(path, Checkpoint(model.state_dict(), config.model_dump(mode="json")).to_bytes())
    return {"config": config.model_dump(mode="json"), "environment": RunFolder(root / run.name).sessions()}


def main_table() -> str:
    """Return the test losses of all shipped models and of the reference algorithms, computed now.

    Newton's iteration starts from I / lambda_max(A^T A), gradient descent steps by 1 / lambda_max.
    """
    lines = [f"{'model':34}{'mean':>12}{'median':>12}{'trimmed mean':>14}"]
    reference: dict[Any, list[str]] = {}
    for name, entry in index().items():
        config = TrainingConfig.model_validate(entry["config"], strict=False)
        lines.append(_line(name, held_out_loss(config, load(name))))
        reference.setdefault(config.task, []).append(name)
    for task in reference:
        prompts = ev.fresh_prompts(task, PROMPTS)
        if isinstance(prompts, LogisticPrompts) and isinstance(task, LogisticRegression):
            for step, losses in enumerate(ev.newton_losses(prompts, task.mu, task.newton_steps)):
                lines.append(_line(f"damped Newton, {step} steps", ev.statistics(losses)))
        elif isinstance(prompts, LinearPrompts):
            for order in ev.ORDERS:
                for step, errors in enumerate(ev.newton_errors(prompts, 6, order, "I/lambda_max")):
                    lines.append(_line(f"Newton order {order}, {step} steps", ev.statistics(errors)))
            for step in range(7):
                errors = ev.gradient_descent_errors(prompts, step)
                lines.append(_line(f"gradient descent, {step} steps", ev.statistics(errors)))
            lines.append(_line("least squares with (x_query, 0)", ev.statistics(ev.false_sample(prompts))))
    return "\n".join(lines)


def _line(name: str, statistics: ev.Statistics) -> str:
    return f"{name:34}{statistics.mean:12.4g}{statistics.median:12.4g}{statistics.trimmed_mean:14.4g}"
