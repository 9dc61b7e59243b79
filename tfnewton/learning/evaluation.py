"""Test errors of trained models and of the reference algorithms, on prompts that training never saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from tfnewton.algorithms.inversion import initial, newton_schulz_iterates
from tfnewton.algorithms.linear_regression import (
    chebyshev_iteration,
    conjugate_gradients,
    gradient_descent,
    gradient_descent_plus_plus,
    least_squares,
)
from tfnewton.algorithms.logistic_regression import damped_newton, loss
from tfnewton.checks import choice, integer
from tfnewton.learning.configuration import Model
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticPrompts, Prompts, Task, generator

__all__ = [
    "INITS",
    "ORDERS",
    "TEST_SEED",
    "TRIMMED",
    "Statistics",
    "chebyshev_errors",
    "conjugate_gradients_errors",
    "false_sample",
    "fresh_prompts",
    "gradient_descent_errors",
    "gradient_descent_plus_plus_errors",
    "least_squares_errors",
    "logistic_losses",
    "newton_errors",
    "newton_initial",
    "newton_losses",
    "newton_predictions",
    "predict",
    "ridge_of",
    "squared_errors",
    "standing",
    "statistics",
    "zero_errors",
]

TEST_SEED = 1
ORDERS = (2, 3, 4)
# X0 of Newton's iteration on R = A^T A, by the kind of ``initial``: R / lambda_max^2 is a multiple of R, as in
# section 3 and thm:main_linear; 2 R / (lambda_max^2 + lambda_min^2) is the best such multiple, and half of it the one
# in the authors' code; I / lambda_max needs no product.
INITS = {
    "I/lambda_max": "identity",
    "R/lambda_max^2": "spectral",
    "R/(lambda_max^2+lambda_min^2)": "optimal",
    "2R/(lambda_max^2+lambda_min^2)": "optimal",
}
_HALVED = "R/(lambda_max^2+lambda_min^2)"
TRIMMED = 0.05  # of the errors, left out at either end
_CHUNK = 1024


class Statistics(NamedTuple):
    """Of errors, one a prompt: mean, median, and the mean without the largest and the smallest five percent."""

    mean: float
    median: float
    trimmed_mean: float


def statistics(errors: Tensor) -> Statistics:
    """Return the statistics of ``errors``, (B,); the mean alone hangs on a few ill-conditioned prompts."""
    ordered = errors.double().sort().values
    cut = int(TRIMMED * len(ordered))
    middle = ordered[cut : len(ordered) - cut]
    return Statistics(ordered.mean().item(), ordered.median().item(), middle.mean().item())


def standing(losses: Sequence[float], rivals: Mapping[int, float]) -> str:
    """Return between which orders of Newton's iteration the ``losses`` of all runs lie: "<2", "2-3", "3-4" or ">4".

    ``rivals`` has the loss of each order; "2-3" is less than order 2 and not less than order 3. "split" where the runs
    differ, or where a higher order loses more than a lower one.
    """
    orders = sorted(rivals)
    names = [f"<{orders[0]}", *(f"{low}-{high}" for low, high in pairwise(orders)), f">{orders[-1]}"]
    found = {names[sum(value < rivals[order] for order in orders)] for value in losses}
    ordered = all(rivals[low] >= rivals[high] for low, high in pairwise(orders))
    return found.pop() if len(found) == 1 and ordered else "split"


def fresh_prompts(task: Task, count: int, dtype: torch.dtype = torch.float32) -> Prompts:
    """Return ``count`` prompts of the test stream, which no run draws from."""
    return task.sample(generator(TEST_SEED, "test"), integer("count", count, minimum=1), dtype)


def predict(model: Model, prompts: Prompts) -> Tensor:
    """Return the predictions of ``model``, in chunks that fit the cache."""
    parts = zip(*(torch.split(field, _CHUNK) for field in prompts), strict=True)
    with torch.no_grad():
        return torch.cat([model(type(prompts)(*part)) for part in parts])


def squared_errors(predicted: Tensor, prompts: LinearPrompts) -> Tensor:
    """Return (predicted - w^T x_query)^2, (B,), in float64."""
    return (predicted.double() - prompts.target.double()).square()


def _double(prompts: LinearPrompts) -> LinearPrompts:
    return LinearPrompts(*(field.double() for field in prompts))


def _answer(prompts: LinearPrompts, w: Tensor) -> Tensor:
    return (prompts.x_query * w).sum(dim=-1)


def newton_initial(R: Tensor, init: str) -> Tensor:
    """Return X0 of Newton's iteration on R (B, d, d) by its name in ``INITS``."""
    X = torch.as_tensor(initial(R, INITS[choice("init", init, list(INITS))]))
    return X / 2.0 if init == _HALVED else X


def newton_predictions(
    prompts: LinearPrompts, steps: int, order: int, init: str, ridge: float = 0.0
) -> Iterator[Tensor]:
    """Yield the predictions, (B,), after 0, 1, ..., ``steps`` steps of Newton's iteration on A^T A + ridge I.

    ``init`` is one of ``INITS``.
    """
    p = _double(prompts)
    R = p.x.mT @ p.x + ridge * torch.eye(p.x.shape[-1], dtype=p.x.dtype)  # (B, d, d)
    moment = p.x.mT @ p.y.unsqueeze(-1)  # (B, d, 1)
    for X in newton_schulz_iterates(R, steps, order, newton_initial(R, init)):
        yield _answer(p, (torch.as_tensor(X) @ moment).squeeze(-1))


def newton_errors(prompts: LinearPrompts, steps: int, order: int, init: str, ridge: float = 0.0) -> Iterator[Tensor]:
    """Yield the squared errors, (B,), of ``newton_predictions``."""
    return (squared_errors(p, prompts) for p in newton_predictions(prompts, steps, order, init, ridge))


def gradient_descent_errors(prompts: LinearPrompts, steps: int) -> Tensor:
    """Return the squared errors, (B,), of ``steps`` gradient steps of length 1 / lambda_max(A^T A)."""
    p = _double(prompts)
    # dividing A and y by sqrt(lambda_max) changes neither w nor the path, and makes 1 the step of every prompt
    root = torch.linalg.matrix_norm(p.x, ord=2)[:, None]
    w = gradient_descent(p.x / root.unsqueeze(-1), p.y / root, steps, learning_rate=1.0)
    return squared_errors(_answer(p, torch.as_tensor(w)), p)


def gradient_descent_plus_plus_errors(
    prompts: LinearPrompts, learning_rates: Sequence[float], curvatures: Sequence[float]
) -> Tensor:
    """Return the squared errors, (B,), of GD++ with these scalars, which are over eigenvalues of A^T A / n."""
    p = _double(prompts)
    root = p.x.shape[1] ** 0.5
    w = gradient_descent_plus_plus(p.x / root, p.y / root, learning_rates, curvatures)
    return squared_errors(_answer(p, torch.as_tensor(w)), p)


def chebyshev_errors(prompts: LinearPrompts, steps: int, interval: tuple[float, float] | None = None) -> Tensor:
    """Return the squared errors, (B,), of ``steps`` steps of Chebyshev's iteration.

    ``interval`` is one of eigenvalues of A^T A / n, for all prompts; without it each prompt has its own, from its least
    to its largest.
    """
    p = _double(prompts)
    root = p.x.shape[1] ** 0.5
    x, y = p.x / root, p.y / root
    ends = torch.linalg.eigvalsh(x.mT @ x)[:, [0, -1]] if interval is None else torch.tensor(interval).to(x)
    return squared_errors(_answer(p, torch.as_tensor(chebyshev_iteration(x, y, steps, ends))), p)


def conjugate_gradients_errors(prompts: LinearPrompts, steps: int) -> Tensor:
    """Return the squared errors, (B,), of ``steps`` steps of conjugate gradients on the normal equations."""
    p = _double(prompts)
    return squared_errors(_answer(p, torch.as_tensor(conjugate_gradients(p.x, p.y, steps))), p)


def least_squares_errors(prompts: LinearPrompts, ridge: float) -> Tensor:
    """Return the squared errors, (B,), of ridge regression; ridge = noise^2 is the best possible predictor."""
    p = _double(prompts)
    return squared_errors(_answer(p, torch.as_tensor(least_squares(p.x, p.y, ridge))), p)


def false_sample(prompts: LinearPrompts, ridge: float = 0.0, constant: float | None = None) -> Tensor:
    """Return the squared errors, (B,), of least squares on the context plus the false sample (x_query, 0).

    That is what a model solves whose query token is among its keys and values. The prediction is multiplied by
    ``constant``, by default by the one that is best for these prompts.
    """
    p = _double(prompts)
    x = torch.cat([p.x, p.x_query.unsqueeze(1)], dim=1)
    y = torch.cat([p.y, torch.zeros_like(p.y[:, :1])], dim=1)
    answer = _answer(p, torch.as_tensor(least_squares(x, y, ridge)))
    factor = (answer @ p.target) / answer.square().sum() if constant is None else constant
    return squared_errors(answer * factor, p)


def zero_errors(prompts: LinearPrompts) -> Tensor:
    """Return the squared targets, (B,): the errors of predicting zero."""
    return squared_errors(torch.zeros_like(prompts.target), prompts)


def logistic_losses(predicted: Tensor, prompts: LogisticPrompts, mu: float) -> Tensor:
    """Return eq:logistic_loss of the ``predicted`` weights (B, d), one a prompt, in float64."""
    return torch.as_tensor(loss(predicted.double(), prompts.x.double(), prompts.y.double(), mu))


def newton_losses(prompts: LogisticPrompts, mu: float, steps: int) -> Tensor:
    """Return eq:logistic_loss after 0, 1, ..., ``steps`` damped Newton steps from zero, (steps + 1, B)."""
    iterates = torch.as_tensor(damped_newton(prompts.x.double(), prompts.y.double(), mu, steps))
    return torch.stack([logistic_losses(w, prompts, mu) for w in iterates.unbind(1)])


def ridge_of(task: LinearRegression) -> float:
    """The ridge that makes least squares the posterior mean: weights are standard Gaussian, so it is noise^2."""
    return task.noise**2
