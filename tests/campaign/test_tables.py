"""Every column of every table, computed again in numpy on tiny cases from prompts and weights."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.helpers import tiny_run
from tfnewton.campaign import experiments, tables
from tfnewton.campaign.experiments import EXPERIMENTS
from tfnewton.campaign.recipes import Run
from tfnewton.campaign.tables import Row, curves, functions, logistic, to_csv
from tfnewton.files import write_atomically
from tfnewton.learning import evaluation as ev
from tfnewton.learning import tuning
from tfnewton.learning.configuration import TrainingConfig, build
from tfnewton.learning.encoder import EncoderOptions
from tfnewton.learning.models import LinearAttentionOptions
from tfnewton.learning.runs import Checkpoint
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticPrompts, LogisticRegression, generator

PROMPTS = 40
NOISY = LinearRegression(d=3, n=8, kappa=4.0, noise=0.5)
QUIET = LinearRegression(d=3, n=8, kappa=4.0)


def options(**changes: Any) -> LinearAttentionOptions:
    """Two layers whose weights are large enough that what a token sees decides the answer."""
    return LinearAttentionOptions(layers=2, width=16, heads=2, init=0.5, init_out=0.5, **changes)


def saved(root: Path, name: str, config: TrainingConfig) -> Run:
    """A finished run with weights that nobody trained: tables do not mind."""
    model = build(config, generator(config.seed, "tables"))
    (root / name).mkdir()
    data = Checkpoint(model.state_dict(), config.model_dump(mode="json")).to_bytes()
    write_atomically(root / name / "weights.safetensors", data)
    return Run(name, config)


def attention(run: Run, p: LinearPrompts) -> np.ndarray:
    """The answers of the model of ``run``, token by token."""
    o = run.config.model
    assert isinstance(o, LinearAttentionOptions)
    weights = {
        k: v.double().numpy() for k, v in build(run.config, generator(run.config.seed, "tables")).state_dict().items()
    }
    answers = []
    for x, y, query in zip(*(field.double().numpy() for field in (p.x, p.y, p.x_query)), strict=True):
        Z = o.input_scale * np.vstack([np.hstack([x.T, query[:, None]]), np.append(y, 0.0)])
        if o.constant:
            Z = np.vstack([Z, np.ones(Z.shape[1])])
        H, keys = weights["embed"] @ Z, len(y) + o.query_as_key
        for (Q, K, V), out in zip(weights["qkv"], weights["out"], strict=True):
            N = H
            if o.layer_norm is not None:
                N = (H - H.mean(0)) / np.sqrt(H.var(0) + o.layer_norm)
            heads = [
                (V[rows] @ N[:, :keys]) @ (K[rows] @ N[:, :keys]).T @ (Q[rows] @ N) / keys
                for rows in np.split(np.arange(o.width), o.heads)
            ]
            H = H + out @ np.vstack(heads)
        answers.append(weights["read_out"] @ H[:, -1] / o.input_scale)
    return np.array(answers)


def check(row: Row, errors: np.ndarray, rtol: float = 1e-5) -> None:
    expected = {"mean": errors.mean(), "median": np.sort(errors)[(len(errors) - 1) // 2]}
    expected["trimmed_mean"] = stats.trim_mean(errors, 0.05)
    for column, value in expected.items():
        assert row[column] == pytest.approx(value, rel=rtol, abs=1e-12), (row["method"], row["variant"], row["depth"])


def keyed(rows: list[Row]) -> dict[tuple[str, str, int], Row]:
    found = {(str(row["method"]), str(row["variant"]), int(row["depth"])): row for row in rows}
    assert len(found) == len(rows), "two rows of the same name"
    return found


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], list[Row]]:
    """Runs on noisy and on quiet prompts, and their table."""
    root = tmp_path_factory.mktemp("runs")
    runs = [
        saved(root, "in", tiny_run.config(task=NOISY, model=options(), seed=5)),
        saved(root, "out", tiny_run.config(task=NOISY, model=options(query_as_key=False))),
        saved(root, "ln", tiny_run.config(task=NOISY, model=options(layer_norm=1e-5, constant=True))),
        saved(root, "quiet", tiny_run.config(task=QUIET, model=options())),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "NEWTON_STEPS", 3)
        patch.setattr(tables, "TUNED_STEPS", 2)
        return runs, list(curves(runs, root, PROMPTS))


def of(task: LinearRegression, rows: list[Row]) -> list[Row]:
    return [row for row in rows if (row["kappa"], row["noise"]) == (task.kappa, task.noise)]


def test_rows_of_trained_models(linear: tuple[list[Run], list[Row]]) -> None:
    runs, rows = linear
    names = {"in": ("LSA", "query in"), "out": ("LSA", "query out"), "ln": ("LSA+LN", "query in")}
    names["quiet"] = ("LSA", "query in")
    assert [row["run"] for row in rows if row["run"]] == [run.name for run in runs]
    for run in runs:
        (row,) = (row for row in rows if row["run"] == run.name)
        task = run.config.task
        assert isinstance(task, LinearRegression)
        assert (row["method"], row["variant"], row["depth"], row["seed"]) == (*names[run.name], 2, run.config.seed)
        assert (row["kappa"], row["noise"], row["prompts"]) == (4.0, task.noise, PROMPTS)
        p = ev.fresh_prompts(task, PROMPTS)
        assert isinstance(p, LinearPrompts)
        check(row, (attention(run, p) - p.target.double().numpy()) ** 2, rtol=1e-3)  # models answer in float32


def weights(A: np.ndarray, y: np.ndarray, ridge: float) -> dict[tuple[str, str, int], np.ndarray]:
    """What each method of the table makes of one prompt, by method, variant and depth."""
    suffix, found = ", ridge" if ridge else "", {}
    R = A.T @ A + ridge * np.eye(A.shape[1])
    s = np.linalg.eigvalsh(R)
    starts = {"I/lambda_max": np.eye(len(R)) / s[-1], "R/lambda_max^2": R / s[-1] ** 2}
    starts["R/(lambda_max^2+lambda_min^2)"] = R / (s[-1] ** 2 + s[0] ** 2)
    starts["2R/(lambda_max^2+lambda_min^2)"] = 2 * R / (s[-1] ** 2 + s[0] ** 2)
    for order in (2, 3, 4):
        for start, X in starts.items():
            for step in range(4):
                found[f"Newton order {order}", start + suffix, step] = X @ A.T @ y
                X = X @ sum(np.linalg.matrix_power(np.eye(len(R)) - R @ X, k) for k in range(order))
    found["least squares", "exact" + suffix, 0] = np.linalg.solve(R, A.T @ y)
    return found


def plain(A: np.ndarray, y: np.ndarray) -> dict[tuple[str, str, int], np.ndarray]:
    """The methods without a ridge and without scalars."""
    values, vectors = np.linalg.eigh(A.T @ A)
    exact = vectors.T @ np.linalg.lstsq(A, y, rcond=None)[0]
    found, w = {("zero", "", 0): 0 * exact}, 0 * exact
    for step in range(4):
        found["gradient descent", "1/lambda_max", step] = w
        w = w + A.T @ (y - A @ w) / values[-1]
        T, low, high = np.polynomial.chebyshev.Chebyshev.basis(step), values[0], values[-1]
        rho = T((low + high - 2 * values) / (high - low)) / T((low + high) / (high - low))
        found["Chebyshev", "the prompt's interval", step] = vectors @ ((1 - rho) * exact)
        found["conjugate gradients", "", step] = 0 * exact
        if step:
            krylov = np.stack([np.linalg.matrix_power(A.T @ A, i) @ A.T @ y for i in range(step)], axis=1)
            krylov /= np.linalg.norm(krylov, axis=0)
            found["conjugate gradients", "", step] = krylov @ np.linalg.lstsq(A @ krylov, y, rcond=None)[0]
    return found


@pytest.mark.parametrize("task", [NOISY, QUIET])
def test_rows_of_the_algorithms(linear: tuple[list[Run], list[Row]], task: LinearRegression) -> None:
    rows = keyed([row for row in of(task, linear[1]) if not row["run"]])
    p = ev.fresh_prompts(task, PROMPTS)
    assert isinstance(p, LinearPrompts)
    x, y, query, target, _ = (field.double().numpy() for field in p)
    errors: dict[tuple[str, str, int], list[float]] = {}
    false: dict[str, list[float]] = {}
    for i in range(PROMPTS):
        found = plain(x[i], y[i])
        for ridge in {0.0, task.noise**2}:
            found |= weights(x[i], y[i], ridge)
            held = weights(np.vstack([x[i], query[i]]), np.append(y[i], 0.0), ridge)
            variant = "exact" + (", ridge" if ridge else "")
            false.setdefault(variant, []).append(query[i] @ held["least squares", variant, 0])
        for key, w in found.items():
            errors.setdefault(key, []).append((query[i] @ w - target[i]) ** 2)
    for key, squares in errors.items():
        check(rows.pop(key), np.array(squares))
    for variant, answers in false.items():
        answer = np.array(answers)
        best = (answer @ target) / (answer @ answer)
        check(rows.pop(("false sample", variant, 0)), (best * answer - target) ** 2)
    tuned = {("GD++", "tuned", 1), ("GD++", "tuned", 2), *(("Chebyshev", "tuned interval", k) for k in (1, 2))}
    assert set(rows) == tuned, "no row that was not computed here"


@pytest.mark.parametrize("task", [NOISY, QUIET])
def test_rows_of_tuned_methods(linear: tuple[list[Run], list[Row]], task: LinearRegression) -> None:
    rows = keyed(of(task, [row for row in linear[1] if "tuned" in str(row["variant"])]))
    p = ev.fresh_prompts(task, PROMPTS)
    assert isinstance(p, LinearPrompts)
    scalars = tuning.gradient_descent_plus_plus(task, 2)
    for k in (1, 2):
        low, high = tuning.chebyshev_interval(task, k)
        squares: dict[str, list[float]] = {"GD++": [], "Chebyshev": []}
        for x, y, query, target, _ in zip(*(field.double().numpy() for field in p), strict=True):
            values, vectors = np.linalg.eigh(x.T @ x / task.n)
            exact = vectors.T @ np.linalg.lstsq(x, y, rcond=None)[0]
            rho, moved = np.ones(3), values
            for rate, bend in zip(scalars[k - 1].learning_rates, [*scalars[k - 1].curvatures, 0.0], strict=True):
                rho, moved = rho * (1 - rate * moved), moved * (1 - bend * moved) ** 2
            T = np.polynomial.chebyshev.Chebyshev.basis(k)
            other = T((low + high - 2 * values) / (high - low)) / T((low + high) / (high - low))
            for name, part in (("GD++", rho), ("Chebyshev", other)):
                squares[name].append((query @ vectors @ ((1 - part) * exact) - target) ** 2)
        check(rows["GD++", "tuned", k], np.array(squares["GD++"]))
        check(rows["Chebyshev", "tuned interval", k], np.array(squares["Chebyshev"]))


def test_there_are_as_many_steps_as_layers() -> None:
    assert max(experiments.LN_DEPTHS) == tables.NEWTON_STEPS
    assert max(experiments.LSA_DEPTHS) == tables.TUNED_STEPS


def test_rows_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FUNCTION_PROMPTS", 60)
    task, reach = LinearRegression(), 7.0
    runs = [
        saved(tmp_path, "in", tiny_run.config(task=task, model=options())),
        saved(tmp_path, "out", tiny_run.config(task=task, model=options(query_as_key=False))),
    ]
    rows = list(functions(runs, tmp_path, reach, 3))
    base = ev.fresh_prompts(task, 60)
    assert isinstance(base, LinearPrompts)
    w, x = base.w[0], base.x
    expected: dict[tuple[str, str, int, float], tuple[np.ndarray, float]] = {}
    for x1 in (-reach, 0.0, reach):
        query = base.x_query[0].clone()
        query[0] = x1
        target = float((query.double() @ w.double()).item())
        moved = LinearPrompts(x, x @ w, query.expand(60, -1), (query @ w).expand(60), w.expand(60, -1))
        for run, variant in zip(runs, ("query in", "query out"), strict=True):
            expected["LSA", variant, 2, x1] = attention(run, moved), target
        for order in (2, 3):
            outputs: list[list[float]] = [[] for _ in range(7)]
            for A, y in zip(x.double().numpy(), moved.y.double().numpy(), strict=True):
                R = A.T @ A
                X = np.eye(10) / np.linalg.eigvalsh(R)[-1]
                for of_step in outputs:
                    of_step.append(float(query.double().numpy() @ X @ A.T @ y))
                    X = X @ sum(np.linalg.matrix_power(np.eye(10) - R @ X, k) for k in range(order))
            for step, values in enumerate(outputs):
                expected[f"Newton order {order}", "I/lambda_max", step, x1] = np.array(values), target
    assert len(rows) == len(expected)
    for row in rows:
        found, target = expected[str(row["method"]), str(row["variant"]), int(row["depth"]), float(row["x1"])]
        low, high = np.quantile(found, [0.05, 0.95])
        rmse = math.sqrt(np.mean((found - target) ** 2))
        listed = [float(row[column]) for column in ("target", "mean", "low", "high", "rmse")]
        np.testing.assert_allclose(listed, [target, found.mean(), low, high, rmse], rtol=1e-3, atol=1e-3)


def test_rows_of_logistic_regression(tmp_path: Path) -> None:
    task = LogisticRegression(d=3, n=9, mu=0.2, kappa=3.0, newton_steps=4)
    encoder = EncoderOptions(layers=1, width=8, heads=2)
    run = saved(tmp_path, "encoder", tiny_run.config(task=task, model=encoder, seed=2))
    first, *steps = list(logistic([run], tmp_path, PROMPTS))
    p = ev.fresh_prompts(task, PROMPTS)
    assert isinstance(p, LogisticPrompts)
    x, y, target = (field.double().numpy() for field in p)

    def losses(w: np.ndarray) -> np.ndarray:
        margins = y * np.einsum("bnd,bd->bn", x, w)
        return np.asarray(np.log1p(np.exp(-margins)).mean(1) + 0.5 * task.mu * (w**2).sum(1))

    def check_losses(row: Row, of: np.ndarray) -> None:
        expected = (of.mean(), np.sort(of)[(len(of) - 1) // 2], stats.trim_mean(of, 0.05))
        found = [float(row[f"loss_{name}"]) for name in ("mean", "median", "trimmed_mean")]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert (row["mu"], row["kappa"], row["prompts"]) == (0.2, 3.0, PROMPTS)

    predicted = ev.predict(build(run.config, generator(2, "tables")).eval(), p).double().numpy()
    check_losses(first, losses(predicted))
    assert (first["method"], first["depth"], first["seed"], first["run"]) == ("encoder", 1, 2, "encoder")
    error = ((predicted - target) ** 2).sum(1).mean() / (target**2).sum(1).mean()
    assert first["weight_error"] == pytest.approx(error, rel=1e-4)
    assert [row["depth"] for row in steps] == [0, 1, 2, 3, 4]
    for row, w in zip(steps, damped_newton(x, y, task), strict=True):
        assert row["method"] == "damped Newton"
        check_losses(row, losses(w))
        assert math.isnan(float(row["weight_error"]))
    np.testing.assert_allclose(target, w, atol=1e-5)  # the target is the last of the steps


def damped_newton(x: np.ndarray, y: np.ndarray, task: LogisticRegression) -> Iterator[np.ndarray]:
    """The iterates from zero."""
    w = np.zeros((len(x), task.d))
    for _ in range(task.newton_steps + 1):
        yield w
        p = 1 / (1 + np.exp(y * np.einsum("bnd,bd->bn", x, w)))
        gradient = -np.einsum("bn,bnd->bd", p * y, x) / task.n + task.mu * w
        hessian = np.einsum("bn,bni,bnj->bij", p * (1 - p), x, x) / task.n + task.mu * np.eye(task.d)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        decrement = np.sqrt((gradient * step).sum(1))
        w = w - (2 * math.sqrt(task.mu) / (2 * math.sqrt(task.mu) + decrement))[:, None] * step


def test_csv_keeps_six_digits_and_the_columns_of_the_first_row() -> None:
    rows: list[Row] = [{"a": 1.23456789, "b": "x", "c": 3}, {"a": 1e-12, "b": "", "c": 0}]
    assert list(csv.DictReader(to_csv(rows).splitlines())) == [
        {"a": "1.23457", "b": "x", "c": "3"},
        {"a": "1e-12", "b": "", "c": "0"},
    ]
    assert to_csv([]).strip() == ""


def test_each_experiment_has_one_of_these_tables() -> None:
    kinds = {experiment.table for experiment in EXPERIMENTS.values()}
    assert kinds >= {experiments._curves, experiments._logistic_curves}
    assert len({experiment.table for name, experiment in EXPERIMENTS.items() if "side" in name}) == 4
    assert {name for name in EXPERIMENTS if "side" in name} == {
        f"{m}-{r}" for m in ("lsa", "ln") for r in ("inside", "outside")
    }
