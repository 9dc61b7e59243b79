"""Reference algorithms and statistics of the tables, against numpy and scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from tests.helpers.tiny_run import config
from tfnewton.learning import evaluation as ev
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.runs import RunFolder
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticPrompts, LogisticRegression, generator
from tfnewton.learning.training import _Trainer


def prompts(noise: float = 0.0, count: int = 30) -> LinearPrompts:
    return LinearRegression(d=4, n=15, noise=noise).sample(generator(0, "t"), count, torch.float64)


def errors_of(w: list[np.ndarray], p: LinearPrompts) -> np.ndarray:
    return np.asarray(np.square(np.einsum("bd,bd->b", np.array(w), p.x_query.numpy()) - p.target.numpy()))


def test_statistics() -> None:
    errors = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).exp()
    found = ev.statistics(errors)
    assert found.mean == pytest.approx(errors.numpy().mean())
    assert found.median == pytest.approx(np.sort(errors.numpy())[499])
    assert found.trimmed_mean == pytest.approx(stats.trim_mean(errors.numpy(), 0.05))


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("init", ["I/lambda_max", "R/lambda_max^2", "2R/(lambda_max^2+lambda_min^2)"])
def test_newton(init: str, ridge: float) -> None:
    p = prompts(noise=1.0)
    assert init in ev.INITS
    assert len(ev.INITS) == 3
    assert sorted(ev.ORDERS) == [2, 3, 4]  # of the figures
    for order in (2, 3, 4):
        found = list(ev.newton_errors(p, 3, order, init, ridge))
        for step in range(4):
            w = []
            for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True):
                R = A.T @ A + ridge * np.eye(4)
                ev_max, ev_min = np.linalg.eigvalsh(R)[[-1, 0]]
                X = {
                    "I/lambda_max": np.eye(4) / ev_max,
                    "R/lambda_max^2": R / ev_max**2,
                    "2R/(lambda_max^2+lambda_min^2)": 2.0 * R / (ev_max**2 + ev_min**2),
                }[init]
                for _ in range(step):
                    E = np.eye(4) - R @ X
                    X = X @ sum(np.linalg.matrix_power(E, k) for k in range(order))
                w.append(X @ A.T @ y)
            np.testing.assert_allclose(found[step], errors_of(w, p), rtol=1e-6, atol=1e-12)


def test_gradient_descent() -> None:
    p = prompts()
    w = []
    for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True):
        v = np.zeros(4)
        for _ in range(5):
            v = v + A.T @ (y - A @ v) / np.linalg.norm(A, 2) ** 2
        w.append(v)
    np.testing.assert_allclose(ev.gradient_descent_errors(p, 5), errors_of(w, p), rtol=1e-8)


def test_ridge_and_false_sample() -> None:
    p = prompts(noise=1.5)
    ridge = [np.linalg.solve(A.T @ A + 0.7 * np.eye(4), A.T @ y) for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True)]
    np.testing.assert_allclose(ev.least_squares_errors(p, 0.7), errors_of(ridge, p), rtol=1e-8)
    answers = []
    for A, y, query in zip(p.x.numpy(), p.y.numpy(), p.x_query.numpy(), strict=True):
        answers.append(query @ np.linalg.lstsq(np.vstack([A, query]), np.append(y, 0.0), rcond=None)[0])
    answer, target = np.array(answers), p.target.numpy()
    best = optimize.minimize_scalar(lambda c: np.mean((c * answer - target) ** 2)).fun
    assert ev.false_sample(p).mean().item() == pytest.approx(best, rel=1e-6)


def test_ridge_of_the_noise_is_the_best_ridge() -> None:
    task = LinearRegression(d=5, n=8, kappa=50.0, noise=3.0)
    p = task.sample(generator(1, "t"), 3000, torch.float64)
    assert ev.ridge_of(task) == 9.0
    means = [ev.least_squares_errors(p, ridge).mean().item() for ridge in (3.0, 9.0, 27.0)]
    assert means[1] < min(means[0], means[2])


def test_predictions_in_chunks_and_their_errors() -> None:
    """More prompts than a chunk holds, in order, and without a gradient."""
    model = LinearAttention(LinearAttentionOptions(layers=1, width=8, init=0.3, init_out=0.3), 4, generator(0, "w"))
    task = LinearRegression(d=4, n=5)
    p = task.sample(generator(0, "t"), 1100)
    predicted = ev.predict(model, p)
    assert not predicted.requires_grad
    torch.testing.assert_close(predicted, model(p).detach(), rtol=1e-4, atol=1e-4)
    errors = (predicted.numpy().astype(float) - p.target.numpy()) ** 2
    np.testing.assert_allclose(ev.squared_errors(predicted, p), errors, rtol=1e-12)
    np.testing.assert_allclose(ev.zero_errors(p), p.target.numpy().astype(float) ** 2, rtol=1e-12)
    assert ev.squared_errors(predicted, p).dtype == torch.float64


def test_logistic_losses() -> None:
    task = LogisticRegression(d=3, n=9)
    p = task.sample(generator(0, "t"), 7, torch.float64)
    losses = ev.newton_losses(p, task.mu, 12)
    assert losses.shape == (13, 7)
    np.testing.assert_allclose(losses[0], np.log(2.0), rtol=1e-12)
    w, x, y = p.target.numpy(), p.x.numpy(), p.y.numpy()
    margins = y * np.einsum("bnd,bd->bn", x, w)
    expected = np.log1p(np.exp(-margins)).mean(1) + 0.05 * (w**2).sum(1)
    np.testing.assert_allclose(losses[12], expected, rtol=1e-10)
    assert (losses[1:] <= losses[:-1] + 1e-12).all()


def test_fresh_prompts_are_not_those_of_any_run(tmp_path: Path) -> None:
    """Whatever its seed: streams of all purposes and seeds differ, and a run draws from those of its own seed."""
    task = LinearRegression(d=3, n=8)
    test = ev.fresh_prompts(task, 8, torch.float64)
    assert torch.equal(test.x, ev.fresh_prompts(task, 8, torch.float64).x)
    assert torch.equal(test.x, task.sample(generator(1, "test"), 8, torch.float64).x)
    purposes, seeds = ("training", "validation", "initial weights", "test"), (*range(300), 2**32 - 1)
    assert len({generator(seed, of).initial_seed() for seed in seeds for of in purposes}) == len(seeds) * len(purposes)
    for seed in range(3):
        trainer = _Trainer(config(seed=seed), RunFolder(tmp_path), "cpu")
        training = task.sample(generator(seed, "training"), 64)
        assert torch.equal(trainer.validation.x, task.sample(generator(seed, "validation"), 32).x)
        assert torch.equal(task.sample(trainer.source, 64).x, training.x)
        drawn = (trainer.validation.x, training.x, ev.fresh_prompts(task, 64).x)
        points = [{tuple(point) for point in x.flatten(0, 1).tolist()} for x in drawn]
        assert len(set.union(*points)) == 8 * (32 + 64 + 64)
    assert isinstance(ev.fresh_prompts(LogisticRegression(), 2), LogisticPrompts)
    with pytest.raises(ValueError, match="count = 0"):
        ev.fresh_prompts(task, 0)
