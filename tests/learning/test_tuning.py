"""Scalars of the rivals: their residual, that they are least where one can tell, and that no test prompt is used."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from tfnewton.learning import evaluation as ev
from tfnewton.learning import tuning
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

TASK = LinearRegression(d=4, n=15)


def mean(errors: torch.Tensor) -> float:
    return ev.statistics(errors).mean


@pytest.fixture(scope="module")
def scalars() -> list[tuning.Scalars]:
    return tuning.gradient_descent_plus_plus(TASK, 3)


def test_one_step_is_the_best_gradient_step(scalars: list[tuning.Scalars]) -> None:
    p = TASK.sample(generator(0, "tuning"), tuning.PROMPTS, torch.float64)
    values, vectors = np.linalg.eigh((p.x.mT @ p.x / 15).numpy())
    shares = np.einsum("bij,bi->bj", vectors, p.x_query.numpy()) ** 2
    best = minimize_scalar(lambda rate: np.mean(np.sum(shares * (1 - rate * values) ** 2, axis=1)), (0.001, 0.02)).x
    assert scalars[0].learning_rates == [pytest.approx(best, rel=1e-5)]
    assert scalars[0].curvatures == []
    low, high = tuning.chebyshev_interval(TASK, 1)  # one step of length 2 / (low + high)
    assert 2 / (low + high) == pytest.approx(best, rel=1e-3)


def test_tuned_scalars_are_better_than_their_neighbours_on_fresh_prompts(scalars: list[tuning.Scalars]) -> None:
    p = ev.fresh_prompts(TASK, 4000, torch.float64)
    assert isinstance(p, LinearPrompts)
    losses = [ev.statistics(ev.gradient_descent_plus_plus_errors(p, *of)).trimmed_mean for of in scalars]
    assert losses[2] < losses[1] / 3 < losses[0] / 9  # their means hang on the prompts of the largest eigenvalues
    assert mean(ev.gradient_descent_plus_plus_errors(p, *scalars[0])) < mean(
        ev.gradient_descent_plus_plus_errors(p, [1.3 * scalars[0].learning_rates[0]], [])
    )
    interval = tuning.chebyshev_interval(TASK, 2)
    best = mean(ev.chebyshev_errors(p, 2, interval))
    for factors in ((0.5, 1.0), (2.0, 1.0), (1.0, 0.7), (1.0, 1.5)):
        assert best < mean(ev.chebyshev_errors(p, 2, (factors[0] * interval[0], factors[1] * interval[1])))


def test_residual_is_that_of_the_algorithm(scalars: list[tuning.Scalars]) -> None:
    p = TASK.sample(generator(4, "t"), 50, torch.float64)
    values, vectors = torch.linalg.eigh(p.x.mT @ p.x / 15)
    rates, curvatures = (torch.tensor(of, dtype=torch.float64) for of in scalars[2])
    rho = tuning.residual(values, rates, curvatures)
    along = [(vectors.mT @ v.unsqueeze(-1)).squeeze(-1) for v in (p.x_query, p.w)]
    np.testing.assert_allclose(
        ev.gradient_descent_plus_plus_errors(p, *scalars[2]), (along[0] * along[1] * rho).sum(1) ** 2, rtol=1e-6
    )


def test_noise_makes_the_rates_smaller() -> None:
    quiet, noisy = (
        tuning.gradient_descent_plus_plus(TASK.model_copy(update={"noise": noise}), 1)[0].learning_rates[0]
        for noise in (0.0, 40.0)
    )
    assert noisy < 0.9 * quiet


@pytest.mark.parametrize("function", [tuning.gradient_descent_plus_plus, tuning.chebyshev_interval])
def test_steps_are_refused(function: object) -> None:
    with pytest.raises(ValueError, match="steps = 0: must be at least 1"):
        function(TASK, 0)  # type: ignore[operator]
