"""One tidy table a figure, from finished runs: a line is one method at one depth on one setting."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

from tfnewton.campaign.recipes import Run
from tfnewton.learning import evaluation as ev
from tfnewton.learning import tuning
from tfnewton.learning.configuration import Model, TrainingConfig, build, check_same
from tfnewton.learning.runs import read_checkpoint
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticPrompts, LogisticRegression, generator

__all__ = ["Row", "curves", "functions", "load_model", "logistic", "losses_and_functions", "to_csv"]

Row = dict[str, str | float | int]
Task = TypeVar("Task", LinearRegression, LogisticRegression)
NEWTON_STEPS = 12
TUNED_STEPS = 6
FUNCTION_PROMPTS = 5000
INSIDE, OUTSIDE = 14.9, 60.0  # of abs(x_1); the first is the paper's 0.99 quantile


def load_model(folder: Path, asked: TrainingConfig | None = None) -> tuple[Model, TrainingConfig]:
    """Return the best model of a finished run and its config; ValueError if that is not the one ``asked`` for."""
    path = folder / "weights.safetensors"
    checkpoint = read_checkpoint(path)
    try:
        config = TrainingConfig.model_validate(checkpoint.state, strict=False)
        model = build(config, generator(0, "unused"))
        model.load_state_dict(checkpoint.tensors)
    except (ValueError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path}: not the weights of a training run ({error})") from error
    if asked is not None:
        check_same(config, asked, folder)
    return model.eval(), config


def to_csv(rows: Iterable[Row]) -> str:
    """Return the rows as CSV, numbers with six significant digits; what a row does not have is left empty."""
    listed = list(rows)
    text = io.StringIO()
    columns = dict.fromkeys(name for row in listed for name in row)
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return text.getvalue()


def _by_task(runs: Iterable[Run], kind: type[Task]) -> dict[Task, list[Run]]:
    """Return the runs on tasks of this kind, gathered by task in the order in which the tasks come."""
    grouped: dict[Task, list[Run]] = {}
    for run in runs:
        if isinstance(run.config.task, kind):
            grouped.setdefault(run.config.task, []).append(run)
    return grouped


def curves(runs: Iterable[Run], root: Path, prompts: int) -> Iterator[Row]:
    """Yield test errors of ``runs``, all complete, and of the reference algorithms, setting by setting."""
    for task, alike in _by_task(runs, LinearRegression).items():
        test = ev.fresh_prompts(task, prompts)
        assert isinstance(test, LinearPrompts)
        for run in alike:
            model, config = load_model(root / run.name, run.config)
            errors = ev.squared_errors(ev.predict(model, test), test)
            yield _row(task, *describe(config), config.model.layers, config.seed, errors) | {"run": run.name}
        yield from references(task, test)


def describe(config: TrainingConfig) -> tuple[str, str]:
    """Return the method and variant by which tables call a model of linear regression."""
    options = config.model.model_dump()
    norms = ("+LN" if options["layer_norm"] else "") + (", final norm" if options["final_norm"] else "")
    return f"LSA{norms}", "query in" if options["query_as_key"] else "query out"


def references(task: LinearRegression, test: LinearPrompts) -> Iterator[Row]:
    """Yield the test errors of Newton's iteration, gradient methods, least squares and the false sample.

    "tuned" are scalars that are fixed for all prompts of ``task``, see ``learning.tuning``.
    """
    ridges = {"": 0.0} | ({", ridge": ev.ridge_of(task)} if task.noise > 0.0 else {})
    for suffix, ridge in ridges.items():
        for order in ev.ORDERS:
            for init in ev.INITS:
                for step, errors in enumerate(ev.newton_errors(test, NEWTON_STEPS, order, init, ridge)):
                    yield _row(task, f"Newton order {order}", f"{init}{suffix}", step, 0, errors)
        yield _row(task, "least squares", f"exact{suffix}", 0, 0, ev.least_squares_errors(test, ridge))
        yield _row(task, "false sample", f"exact{suffix}", 0, 0, ev.false_sample(test, ridge))
    for step in range(NEWTON_STEPS + 1):
        yield _row(task, "gradient descent", "1/lambda_max", step, 0, ev.gradient_descent_errors(test, step))
        yield _row(task, "conjugate gradients", "", step, 0, ev.conjugate_gradients_errors(test, step))
        yield _row(task, "Chebyshev", "the prompt's interval", step, 0, ev.chebyshev_errors(test, step))
    yield from _tuned(task, test)
    yield _row(task, "zero", "", 0, 0, ev.zero_errors(test))


def _tuned(task: LinearRegression, test: LinearPrompts) -> Iterator[Row]:
    for step, scalars in enumerate(tuning.gradient_descent_plus_plus(task, TUNED_STEPS), start=1):
        errors = ev.gradient_descent_plus_plus_errors(test, *scalars)
        yield _row(task, "GD++", "tuned", step, 0, errors)
    for step in range(1, TUNED_STEPS + 1):
        interval = tuning.chebyshev_interval(task, step)
        yield _row(task, "Chebyshev", "tuned interval", step, 0, ev.chebyshev_errors(test, step, interval))


def _row(task: LinearRegression, method: str, variant: str, depth: int, seed: int, errors: torch.Tensor) -> Row:
    setting: Row = {"kappa": task.kappa, "noise": task.noise, "method": method, "variant": variant}
    setting |= {"depth": depth, "seed": seed, "prompts": len(errors)}
    return setting | ev.statistics(errors)._asdict() | {"run": ""}


def functions(runs: Iterable[Run], root: Path, reach: float, points: int) -> Iterator[Row]:
    """Yield outputs against the first coordinate of one fixed query, over prompts that share one w.

    Mean, 5% and 95% quantile of the outputs, and root mean squared error, over 5000 prompts at each of ``points``
    values in [-reach, reach]. All ``runs`` must be complete.
    """
    task = LinearRegression()
    base = ev.fresh_prompts(task, FUNCTION_PROMPTS)
    assert isinstance(base, LinearPrompts)
    w, query = base.w[0], base.x_query[0]
    y = base.x @ w
    grid = torch.linspace(-reach, reach, points).tolist()
    for run in runs:
        model, config = load_model(root / run.name, run.config)
        for x1 in grid:
            test = _at(base.x, y, w, query, x1)
            output = ev.predict(model, test).double()
            yield _function_row(*describe(config), config.model.layers, config.seed, x1, output, test)
    for order in (2, 3):
        for x1 in grid:
            test = _at(base.x, y, w, query, x1)
            for step, output in enumerate(ev.newton_predictions(test, 6, order, "I/lambda_max")):
                yield _function_row(f"Newton order {order}", "I/lambda_max", step, 0, x1, output, test)


def losses_and_functions(runs: Iterable[Run], root: Path, prompts: int, reach: float, points: int) -> Iterator[Row]:
    """Yield the rows of ``curves`` and of ``functions`` in one table, told apart by the column "shows".

    That is "loss" or "output"; the means of the former are of squared errors, of the latter of outputs.
    """
    listed = list(runs)
    for shows, rows in (("loss", curves(listed, root, prompts)), ("output", functions(listed, root, reach, points))):
        for row in rows:
            yield {"shows": shows, **row}


def _at(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, query: torch.Tensor, x1: float) -> LinearPrompts:
    moved = query.clone()
    moved[0] = x1
    count = len(x)
    return LinearPrompts(x, y, moved.expand(count, -1), (moved @ w).expand(count), w.expand(count, -1))


def _function_row(
    method: str, variant: str, depth: int, seed: int, x1: float, output: torch.Tensor, test: LinearPrompts
) -> Row:
    low, high = torch.quantile(output, torch.tensor([0.05, 0.95], dtype=output.dtype)).tolist()
    row: Row = {"method": method, "variant": variant, "depth": depth, "seed": seed, "x1": x1}
    row["target"] = test.target[0].item()
    rmse = ev.squared_errors(output, test).mean().sqrt().item()
    return row | {"mean": output.mean().item(), "low": low, "high": high, "rmse": rmse}


def logistic(runs: Iterable[Run], root: Path, prompts: int) -> Iterator[Row]:
    """Yield loss and relative error of the weights that ``runs``, all complete, predict, and damped Newton's loss."""
    for task, alike in _by_task(runs, LogisticRegression).items():
        test = ev.fresh_prompts(task, prompts)
        assert isinstance(test, LogisticPrompts)
        scale = test.target.double().square().sum(dim=1).mean()
        steps = ev.newton_losses(test, task.mu, task.newton_steps)
        for run in alike:
            model, config = load_model(root / run.name, run.config)
            predicted = ev.predict(model, test)
            error = (predicted.double() - test.target.double()).square().sum(dim=1) / scale
            losses = ev.logistic_losses(predicted, test, task.mu)
            yield _logistic_row(task, "encoder", config.model.layers, config.seed, losses, error) | {"run": run.name}
        for step, losses in enumerate(steps):
            yield _logistic_row(task, "damped Newton", step, 0, losses, torch.full_like(losses, torch.nan))


def _logistic_row(
    task: LogisticRegression, method: str, depth: int, seed: int, losses: torch.Tensor, errors: torch.Tensor
) -> Row:
    setting: Row = {"mu": task.mu, "kappa": task.kappa, "method": method, "depth": depth, "seed": seed}
    statistics = {f"loss_{k}": v for k, v in ev.statistics(losses)._asdict().items()}
    return setting | {"prompts": len(losses)} | statistics | {"weight_error": errors.mean().item(), "run": ""}
