"""The few scalars of rivals that, like a trained model, are fixed for all prompts: tuned on prompts of the task.

The prompts come from a stream of their own, which no test uses. What is made least is the mean squared error over them,
in the mean over weights and noise: along an eigenvector v of R = A^T A / n with eigenvalue lambda a method keeps the
residual rho(lambda) of the weights, and errs by (v^T x_query)^2 (rho^2 + noise^2 (1 - rho)^2 / (n lambda)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tfnewton.checks import integer
from tfnewton.learning.tasks import LinearRegression, generator

__all__ = ["Scalars", "chebyshev_interval", "gradient_descent_plus_plus", "residual"]

PROMPTS = 2048
_RATIOS = (5.0, 6.0)  # of the learning rates of neighbouring layers, of the starts of the search


class Scalars(NamedTuple):
    """Learning rates, one a step, and curvatures, one less, of GD++; over eigenvalues of A^T A / n."""

    learning_rates: list[float]
    curvatures: list[float]


def residual(eigenvalues: Tensor, learning_rates: Iterable[Tensor], curvatures: Iterable[Tensor]) -> Tensor:
    """Return rho of GD++, the product of 1 - eta_l lambda_l, with lambda_{l+1} = lambda_l (1 - gamma_l lambda_l)^2."""
    rho, moved, bends = torch.ones_like(eigenvalues), eigenvalues, iter(curvatures)
    for rate in learning_rates:
        rho = rho * (1.0 - rate * moved)
        moved = moved * (1.0 - next(bends, 0.0) * moved).square()
    return rho


def gradient_descent_plus_plus(task: LinearRegression, steps: int) -> list[Scalars]:
    """Return tuned scalars of GD++ with 1, 2, ..., ``steps`` steps: the best that a local search from few starts finds.

    One start goes on from one step less, the others have rates that grow by a constant factor.
    """
    integer("steps", steps, minimum=1)
    prompts = _prompts(task)
    first = 0.5 / prompts.eigenvalues[:, -1].mean().item()
    found: list[Scalars] = []
    for count in range(1, steps + 1):
        starts = [
            [first * r**i for i in range(count)] + [0.85 * first * (0.9 * r) ** i for i in range(count - 1)]
            for r in _RATIOS
        ]
        if found:
            rates, curvatures = found[-1]
            starts.append([*rates, _RATIOS[-1] * rates[-1], *curvatures, 0.8 * rates[-1]])
        values = _least(partial(_of_gradient_descent_plus_plus, prompts, count), starts)
        found.append(Scalars(values[:count], values[count:]))
    return found


def _of_gradient_descent_plus_plus(prompts: _Prompts, count: int, scalars: Tensor) -> Tensor:
    return prompts.loss(residual(prompts.eigenvalues, scalars[:count], scalars[count:]))


def chebyshev_interval(task: LinearRegression, steps: int) -> tuple[float, float]:
    """Return the tuned interval of ``steps`` steps of Chebyshev's iteration, of eigenvalues of A^T A / n."""
    prompts = _prompts(task)
    top = prompts.eigenvalues[:, -1].mean().item()
    low, width = _least(partial(_of_chebyshev, prompts, integer("steps", steps, minimum=1)), [[0.06 * top, 1.8 * top]])
    return low, low + width


def _of_chebyshev(prompts: _Prompts, degree: int, scalars: Tensor) -> Tensor:
    low, width = scalars
    rho, at_zero = (_chebyshev(1.0 + 2.0 * (low - x) / width, degree) for x in (prompts.eigenvalues, torch.zeros(())))
    return prompts.loss(rho / at_zero)


def _chebyshev(t: Tensor, degree: int) -> Tensor:
    before, value = torch.ones_like(t), t
    for _ in range(degree - 1):
        before, value = value, 2.0 * t * value - before
    return value


class _Prompts(NamedTuple):
    """Of prompts to tune on, all (B, d): eigenvalues, ascending, what a residual 1 costs there, and noise."""

    eigenvalues: Tensor
    shares: Tensor
    noise: Tensor

    def loss(self, rho: Tensor) -> Tensor:
        """Return the mean squared error of the residuals rho."""
        errors: Tensor = (self.shares * rho.square() + self.noise * (1.0 - rho).square()).sum(dim=1)
        return errors.mean()


@lru_cache(maxsize=1)  # both methods ask for those of one task, for each number of steps
def _prompts(task: LinearRegression) -> _Prompts:
    prompts = task.sample(generator(0, "tuning"), PROMPTS, torch.float64)
    eigenvalues, vectors = torch.linalg.eigh(prompts.x.mT @ prompts.x / task.n)
    shares = (vectors.mT @ prompts.x_query.unsqueeze(-1)).squeeze(-1).square()
    return _Prompts(eigenvalues, shares, shares * task.noise**2 / (task.n * eigenvalues))


def _least(loss: Callable[[Tensor], Tensor], starts: list[list[float]]) -> list[float]:
    """Return the positive scalars that make ``loss`` least, of those that searches from ``starts`` find."""
    found = [_searched(loss, start) for start in starts]
    values = [loss(scalars).nan_to_num(nan=torch.inf).item() for scalars in found]
    return list(found[values.index(min(values))].tolist())


def _searched(loss: Callable[[Tensor], Tensor], start: list[float]) -> Tensor:
    from scipy.optimize import minimize  # torch.optim takes many times as long to import as the search itself

    def value_and_gradient(logs: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.tensor(logs, requires_grad=True)
        value = loss(at.exp()).log()
        (gradient,) = torch.autograd.grad(value, at)
        return value.item(), gradient.numpy()

    end = minimize(value_and_gradient, np.log(start), jac=True, method="BFGS", options={"maxiter": 300, "gtol": 1e-6})
    return torch.tensor(end.x).exp()
