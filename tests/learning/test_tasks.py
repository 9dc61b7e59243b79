"""The samplers: laws, seeds, labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import log_expit

from tests.helpers.tries import tries
from tfnewton.algorithms.logistic_regression import damped_newton
from tfnewton.learning.tasks import (
    Curriculum,
    LinearPrompts,
    LinearRegression,
    LogisticRegression,
    covariances,
    generator,
)


@settings(deadline=None, max_examples=tries(30))
@given(d=st.integers(2, 12), kappa=st.floats(1.0, 1e4), seed=st.integers(0, 10**6))
def test_condition_number_is_exact(d: int, kappa: float, seed: int) -> None:
    vectors, values = covariances(generator(seed, "t"), 5, d, kappa, torch.float64)
    eigenvalues = np.linalg.eigvalsh((vectors * values.unsqueeze(1)) @ vectors.mT)
    np.testing.assert_allclose(eigenvalues[:, -1] / eigenvalues[:, 0], kappa, rtol=1e-9)
    assert (values[:, 0] >= 1.0).all()
    assert (values[:, 0] <= 100.0).all()
    np.testing.assert_allclose(vectors @ vectors.mT, np.broadcast_to(np.eye(d), (5, d, d)), atol=1e-12)


def test_eigenvalue_law() -> None:
    _, values = covariances(generator(0, "law"), 20_000, 10, 10.0, torch.float64)
    top = values[:, 0].numpy()
    assert stats.kstest(top, stats.uniform(1.0, 99.0).cdf).pvalue > 1e-3
    between = ((values[:, 1:-1] - values[:, -1:]) / (values[:, :1] - values[:, -1:])).flatten().numpy()
    assert stats.kstest(between, stats.uniform().cdf).pvalue > 1e-3


def test_eigenvectors_have_no_preferred_direction() -> None:
    vectors, _ = covariances(generator(1, "law"), 20_000, 3, 10.0, torch.float64)
    # each squared entry of a Haar vector in three dimensions is Beta(1/2, 1)
    for row in range(3):
        for column in range(3):
            assert stats.kstest(vectors[:, row, column].square().numpy(), stats.beta(0.5, 1.0).cdf).pvalue > 1e-4


def test_points_have_the_covariance() -> None:
    task = LinearRegression(d=4, n=200_000, kappa=20.0)
    prompts = task.sample(generator(3, "t"), 2, torch.float64)
    for x in prompts.x.numpy():
        eigenvalues = np.linalg.eigvalsh(np.cov(x.T))
        assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(20.0, rel=0.03)
        np.testing.assert_allclose(x.mean(axis=0) / x.std(axis=0), 0.0, atol=0.012)


def test_labels_and_noise() -> None:
    clean = LinearRegression().sample(generator(5, "t"), 300, torch.float64)
    noisy = LinearRegression(noise=2.0).sample(generator(5, "t"), 300, torch.float64)
    expected = np.einsum("bnd,bd->bn", clean.x.numpy(), clean.w.numpy())
    np.testing.assert_allclose(clean.y, expected, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(clean.target, np.einsum("bd,bd->b", clean.x_query, clean.w), rtol=1e-10, atol=1e-9)
    np.testing.assert_array_equal(noisy.target, clean.target)  # the target carries no noise
    assert stats.kstest((noisy.y - clean.y).flatten().numpy(), stats.norm(0.0, 2.0).cdf).pvalue > 1e-3
    assert stats.kstest(clean.w.flatten().numpy(), stats.norm().cdf).pvalue > 1e-3


@pytest.mark.parametrize("task", [LinearRegression(noise=1.0), LogisticRegression()])
def test_seeds_reproduce(task: LinearRegression | LogisticRegression) -> None:
    first, again = (task.sample(generator(7, "t"), 9) for _ in range(2))
    other, purpose = task.sample(generator(8, "t"), 9), task.sample(generator(7, "u"), 9)
    for field in range(len(first)):
        assert torch.equal(first[field], again[field])
    assert not torch.equal(first.x, other.x)
    assert not torch.equal(first.x, purpose.x)
    assert first.x.dtype == torch.float32
    assert all(field.shape[0] == 9 for field in first)


def test_logistic_labels_are_damped_newton() -> None:
    task = LogisticRegression(newton_steps=7)
    prompts = task.sample(generator(2, "t"), 20, torch.float64)
    expected = damped_newton(prompts.x.numpy(), prompts.y.numpy(), task.mu, 7)[..., -1, :]
    np.testing.assert_array_equal(prompts.target.numpy(), expected)
    assert set(prompts.y.flatten().tolist()) == {-1.0, 1.0}


def test_logistic_labels_are_sides_of_one_plane_through_zero() -> None:
    """By linear programming, and both sides alike often: the weights of the labels are drawn, and not told."""
    prompts = LogisticRegression(d=3, n=40, kappa=50.0).sample(generator(3, "t"), 40, torch.float64)
    for x, y in zip(prompts.x.numpy(), prompts.y.numpy(), strict=True):
        found = optimize.linprog(np.zeros(3), -y[:, None] * x, -np.ones(40), bounds=(None, None))
        assert found.status == 0
    assert abs(prompts.y.mean().item()) < 4.0 / 1600**0.5
    first = prompts.y[:, :1] * prompts.x[:, 0]  # sides are not those of a fixed direction either
    assert (first.mean(dim=0).abs() < 4.0 * first.std(dim=0) / 40**0.5).all()


def test_twelve_damped_steps_reach_the_minimiser() -> None:
    task = LogisticRegression()
    prompts = task.sample(generator(4, "t"), 5, torch.float64)
    for x, y, target in zip(*(field.numpy() for field in prompts), strict=True):

        def loss(w: np.ndarray, x: np.ndarray = x, y: np.ndarray = y) -> float:
            return float(-log_expit(y * (x @ w)).mean() + task.mu / 2 * w @ w)

        best = optimize.minimize(loss, np.zeros(5), options={"gtol": 1e-8})
        assert loss(target) == pytest.approx(best.fun, abs=1e-6)


def test_shared_covariance() -> None:
    shared = LinearRegression(d=3, n=5000, shared_covariance=True).sample(generator(0, "t"), 3, torch.float64)
    first, *others = (np.cov(x.T) for x in shared.x.numpy())
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0.25, atol=0.1 * np.trace(first))


def test_curriculum_grows_to_the_task() -> None:
    task, plan = LinearRegression(), Curriculum(every=100)
    start, later, end = (plan.stage(task, step) for step in (0, 250, 10_000))
    assert (start.active, start.n) == (2, 10)
    assert (later.active, later.n) == (4, 20)
    assert (end.active, end.n) == (10, 50)
    prompts = start.sample(generator(0, "t"), 6)
    assert isinstance(prompts, LinearPrompts)
    assert prompts.x.shape == (6, 10, 10)
    for x in (prompts.x, prompts.x_query):
        assert (x[..., 2:] == 0.0).all()
        assert (x[..., :2] != 0.0).all()
    assert (prompts.w != 0.0).all()


@given(*(st.integers(1, 9),) * 5, *(st.integers(0, 4),) * 2)
@settings(deadline=None, max_examples=tries(30))
def test_curriculum_grows_by_its_steps(
    every: int, d: int, n: int, d_start: int, n_start: int, d_step: int, n_step: int
) -> None:
    """Against a walk through training, step by step."""
    task = LogisticRegression(d=d, n=n, kappa=1.0)
    plan = Curriculum(every=every, d_start=d_start, n_start=n_start, d_step=d_step, n_step=n_step)
    active, points = d_start, n_start
    for step in range(40):
        if step and step % every == 0:
            active, points = active + d_step, points + n_step
        stage = plan.stage(task, step)
        assert (stage.active, stage.n) == (min(active, d), min(points, n))
        assert stage.model_dump(exclude={"active", "n"}) == task.model_dump(exclude={"active", "n"})


def test_one_dimension() -> None:
    prompts = LinearRegression(d=1, n=3, kappa=1.0).sample(generator(0, "t"), 4)
    assert prompts.x.shape == (4, 3, 1)


def test_count_is_refused() -> None:
    with pytest.raises(ValueError, match="count = 0: must be at least 1"):
        LinearRegression().sample(generator(0, "t"), 0)
    with pytest.raises(ValueError, match="count = 0: must be at least 1"):
        LogisticRegression().sample(generator(0, "t"), 0)
    with pytest.raises(ValueError, match="seed = -1"):
        generator(-1, "t")
