"""Reference algorithms and statistics of the tables, against numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tfnewton.learning import evaluation as ev
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticPrompts, LogisticRegression, generator


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


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ([6.0], "<2"),
        ([5.0], "<2"),
        ([4.0], "2-3"),
        ([3.0], "2-3"),
        ([2.0, 2.9], "3-4"),
        ([0.1], ">4"),
        ([2.0, 4.0], "split"),
    ],
)
def test_standing(losses: list[float], word: str) -> None:
    assert ev.standing(losses, {3: 3.0, 2: 5.0, 4: 1.0}) == word
    assert ev.standing(losses, {3: 3.0, 2: 5.0, 4: 6.0}) == "split"  # 4 behind 2: no order to stand in


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("init", list(ev.INITS))
def test_newton(init: str, ridge: float) -> None:
    p = prompts(noise=1.0)
    assert sorted(ev.ORDERS) == [2, 3, 4]  # of the figures
    for order in ev.ORDERS:
        found = list(ev.newton_errors(p, 3, order, init, ridge))
        for step in range(4):
            w = []
            for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True):
                R = A.T @ A + ridge * np.eye(4)
                ev_max, ev_min = np.linalg.eigvalsh(R)[[-1, 0]]
                X = {
                    "I/lambda_max": np.eye(4) / ev_max,
                    "R/lambda_max^2": R / ev_max**2,
                    "R/(lambda_max^2+lambda_min^2)": R / (ev_max**2 + ev_min**2),
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


def test_the_printed_family_of_orders_is_that_of_the_iterates() -> None:
    """eq:high_order_newton sums alternating binomials; here from the start of the authors' code, for kappa to 100."""
    for kappa in (1.0, 10.0, 100.0):
        p = LinearRegression(kappa=kappa).sample(generator(3, "t"), 6, torch.float64)
        for order in ev.ORDERS:
            *_, found = ev.newton_predictions(p, 6, order, "R/(lambda_max^2+lambda_min^2)")
            for i, (A, y) in enumerate(zip(p.x.numpy(), p.y.numpy(), strict=True)):
                R = A.T @ A
                s = np.linalg.eigvalsh(R)
                X = R / (s[-1] ** 2 + s[0] ** 2)
                for _ in range(6):
                    powers = [np.linalg.matrix_power(R @ X, m) for m in range(order)]
                    X = X @ sum((-1) ** m * math.comb(order, m + 1) * P for m, P in enumerate(powers))
                answer = p.x_query[i].numpy() @ X @ A.T @ y
                assert found[i].item() == pytest.approx(answer, abs=1e-12 * float(p.y.abs().max()))


def test_the_start_of_the_authors_is_nearly_the_printed_one() -> None:
    """They differ by the factor 1 + kappa(R)^-2."""
    p = ev.fresh_prompts(LinearRegression(), 150, torch.float64)
    assert isinstance(p, LinearPrompts)
    for order in ev.ORDERS:
        pair = [list(ev.newton_errors(p, 4, order, x)) for x in ("R/lambda_max^2", "R/(lambda_max^2+lambda_min^2)")]
        for one, other in zip(*pair, strict=True):
            assert ev.statistics(one).trimmed_mean == pytest.approx(ev.statistics(other).trimmed_mean, rel=0.02)


def test_methods_of_one_step_a_product() -> None:
    p = prompts(noise=1.0)
    by_scalars: list[np.ndarray] = []
    by_interval: list[np.ndarray] = []
    by_own: list[np.ndarray] = []
    conjugate: list[np.ndarray] = []
    for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True):
        R, moment = A.T @ A / 15, A.T @ y / 15
        values, vectors = np.linalg.eigh(R)
        exact = vectors.T @ np.linalg.solve(R, moment)
        moved = values * (1 - 0.002 * values) ** 2
        by_scalars.append(vectors @ ((1 - (1 - 0.01 * values) * (1 - 0.03 * moved)) * exact))
        for ends, to in (((20.0, 90.0), by_interval), (values[[0, -1]], by_own)):
            T = np.polynomial.chebyshev.Chebyshev.basis(3)
            width = ends[1] - ends[0]
            to.append(vectors @ ((1 - T((sum(ends) - 2 * values) / width) / T(sum(ends) / width)) * exact))
        krylov = np.stack([moment, R @ moment, R @ R @ moment], axis=1)
        conjugate.append(krylov @ np.linalg.lstsq(A @ krylov, y, rcond=None)[0])
    for found, w in (
        (ev.gradient_descent_plus_plus_errors(p, [0.01, 0.03], [0.002]), by_scalars),
        (ev.chebyshev_errors(p, 3, (20.0, 90.0)), by_interval),
        (ev.chebyshev_errors(p, 3), by_own),
        (ev.conjugate_gradients_errors(p, 3), conjugate),
    ):
        np.testing.assert_allclose(found, errors_of(w, p), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 20.0])
def test_ridge_and_false_sample(ridge: float) -> None:
    p = prompts(noise=1.5)
    w = [np.linalg.solve(A.T @ A + ridge * np.eye(4), A.T @ y) for A, y in zip(p.x.numpy(), p.y.numpy(), strict=True)]
    np.testing.assert_allclose(ev.least_squares_errors(p, ridge), errors_of(w, p), rtol=1e-8)
    answers = []
    for A, y, query in zip(p.x.numpy(), p.y.numpy(), p.x_query.numpy(), strict=True):
        A, y = np.vstack([A, query]), np.append(y, 0.0)
        answers.append(query @ np.linalg.solve(A.T @ A + ridge * np.eye(4), A.T @ y))
    answer, target = np.array(answers), p.target.numpy()
    best = (answer @ target) / (answer @ answer)
    np.testing.assert_allclose(ev.false_sample(p, ridge), (best * answer - target) ** 2, rtol=1e-7)
    np.testing.assert_allclose(ev.false_sample(p, ridge, 1.5), (1.5 * answer - target) ** 2, rtol=1e-7)


def test_tests_notice_the_ridge() -> None:
    """The ridge of the tests above moves each mean by far more than their tolerance."""
    p = prompts(noise=1.5)
    for errors in (ev.least_squares_errors, ev.false_sample):
        assert abs(errors(p, 20.0).mean() / errors(p, 0.0).mean() - 1) > 0.01


def test_ridge_of_the_noise_is_the_best_ridge() -> None:
    task = LinearRegression(d=5, n=8, kappa=50.0, noise=3.0)
    p = task.sample(generator(1, "t"), 20_000, torch.float64)
    assert ev.ridge_of(task) == 9.0
    means = [ev.least_squares_errors(p, ridge).mean().item() for ridge in (1.0, 9.0, 81.0)]
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


def test_fresh_prompts_are_not_those_of_any_run() -> None:
    task = LinearRegression()
    test = ev.fresh_prompts(task, 8, torch.float64)
    assert torch.equal(test.x, ev.fresh_prompts(task, 8, torch.float64).x)
    for seed in range(4):
        for purpose in ("training", "validation"):
            assert not torch.isin(test.x, task.sample(generator(seed, purpose), 64, torch.float64).x).any()
    assert isinstance(ev.fresh_prompts(LogisticRegression(), 2), LogisticPrompts)
    with pytest.raises(ValueError, match="count = 0"):
        ev.fresh_prompts(task, 0)
