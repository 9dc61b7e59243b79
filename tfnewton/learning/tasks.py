"""The prompts of section 6: linear and logistic regression with covariances of a fixed condition number.

A prompt shares one covariance among its points. Its eigenvalues are lambda_max ~ U[1, 100],
lambda_min = lambda_max / kappa and, between them, independent uniform ones; its eigenvectors are Haar distributed.
The tasks are frozen records, so that a run can store them; all randomness comes from the generator that is passed in.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, NamedTuple, Self, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Generator, Tensor

from tfnewton.algorithms.logistic_regression import damped_newton
from tfnewton.checks import integer

__all__ = [
    "Curriculum",
    "LinearPrompts",
    "LinearRegression",
    "LogisticPrompts",
    "LogisticRegression",
    "Prompts",
    "Record",
    "Task",
    "covariances",
    "generator",
]

LARGEST_EIGENVALUE = (1.0, 100.0)


class Record(BaseModel):
    """A frozen set of options: no conversion of types, no unknown names, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class LinearPrompts(NamedTuple):
    """Prompts of linear regression: x (B, n, d), y (B, n), x_query (B, d), target (B,) = w^T x_query, w (B, d)."""

    x: Tensor
    y: Tensor
    x_query: Tensor
    target: Tensor
    w: Tensor


class LogisticPrompts(NamedTuple):
    """Prompts of logistic regression: x (B, n, d), labels y (B, n) of -1 and 1, target weights (B, d)."""

    x: Tensor
    y: Tensor
    target: Tensor


Prompts: TypeAlias = LinearPrompts | LogisticPrompts


def generator(seed: int, purpose: str, device: str = "cpu") -> Generator:
    """Return a generator for ``purpose``, such as "training" or "test": streams of different purposes are unrelated."""
    integer("seed", seed, minimum=0)
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def covariances(
    source: Generator, count: int, d: int, kappa: float, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return eigenvectors (count, d, d) and eigenvalues (count, d), largest first and smallest last.

    The sign of a column of Q is not random in a QR decomposition, and need not be: Q S Q^T does not depend on it.
    """
    low, high = LARGEST_EIGENVALUE
    uniform = torch.rand(count, d, generator=source, dtype=dtype, device=source.device)
    top = low + (high - low) * uniform[:, :1]  # (count, 1)
    least = top / kappa
    values = torch.cat([top, least + (top - least) * uniform[:, 1:-1], least], dim=1)[:, :d]  # d = 1 has the top alone
    gaussian = torch.randn(count, d, d, generator=source, dtype=dtype, device=source.device)
    return torch.linalg.qr(gaussian).Q, values


class _Regression(Record):
    """What both tasks share.

    ``shared_covariance`` uses one covariance for all prompts of a call; with ``active`` only the first coordinates
    of x are not zero.
    """

    d: Annotated[int, Field(ge=1)]
    n: Annotated[int, Field(ge=1)]
    kappa: Annotated[float, Field(ge=1.0)] = 10.0
    shared_covariance: bool = False
    active: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.d == 1 and self.kappa != 1.0:
            raise ValueError(f"kappa = {self.kappa:g}: must be 1 for d = 1")
        if self.active is not None and self.active > self.d:
            raise ValueError(f"active = {self.active}: must be at most d = {self.d}")
        return self

    def _points(self, source: Generator, count: int, points: int, dtype: torch.dtype) -> Tensor:
        """Return ``count`` prompts of ``points`` Gaussian points each, (count, points, d)."""
        vectors, values = covariances(source, 1 if self.shared_covariance else count, self.d, self.kappa, dtype)
        white = torch.randn(count, points, self.d, generator=source, dtype=dtype, device=source.device)
        x = (white * values.sqrt().unsqueeze(1)) @ vectors.mT  # (count, points, d)
        if self.active is not None:
            x[..., self.active :] = 0.0
        return x

    def _weights(self, source: Generator, count: int, dtype: torch.dtype) -> Tensor:
        return torch.randn(count, self.d, generator=source, dtype=dtype, device=source.device)


class LinearRegression(_Regression):
    """y_i = w^T x_i + noise e_i with w, e_i standard Gaussian; the target is w^T x_query, without noise."""

    kind: Literal["linear"] = "linear"
    d: Annotated[int, Field(ge=1)] = 10
    n: Annotated[int, Field(ge=1)] = 50
    noise: Annotated[float, Field(ge=0.0)] = 0.0

    def sample(self, source: Generator, count: int, dtype: torch.dtype = torch.float32) -> LinearPrompts:
        """Return ``count`` fresh prompts, on the device of ``source``."""
        integer("count", count, minimum=1)
        x = self._points(source, count, self.n + 1, dtype)
        w = self._weights(source, count, dtype)
        y = (x @ w.unsqueeze(-1)).squeeze(-1)  # (count, n + 1)
        labels = y[:, :-1]
        if self.noise > 0.0:
            labels = labels + self.noise * torch.randn(labels.shape, generator=source, dtype=dtype, device=x.device)
        return LinearPrompts(x[:, :-1], labels, x[:, -1], y[:, -1], w)


class LogisticRegression(_Regression):
    """Labels sign(w^T x_i); the target is what ``newton_steps`` damped Newton steps from zero reach (eq:logistic_loss).

    The points are raw: scaled to norm one, the task becomes trivial.
    """

    kind: Literal["logistic"] = "logistic"
    d: Annotated[int, Field(ge=1)] = 5
    n: Annotated[int, Field(ge=1)] = 26
    mu: Annotated[float, Field(gt=0.0)] = 0.1
    newton_steps: Annotated[int, Field(ge=1)] = 12

    def sample(self, source: Generator, count: int, dtype: torch.dtype = torch.float32) -> LogisticPrompts:
        """Return ``count`` fresh prompts, on the device of ``source``."""
        integer("count", count, minimum=1)
        x = self._points(source, count, self.n, dtype)
        w = self._weights(source, count, dtype)
        margin = (x @ w.unsqueeze(-1)).squeeze(-1)
        y = torch.where(margin < 0.0, -1.0, 1.0).to(dtype)  # (count, n)
        iterates = torch.as_tensor(damped_newton(x, y, self.mu, self.newton_steps))  # (count, newton_steps + 1, d)
        return LogisticPrompts(x, y, iterates[:, -1])


Task: TypeAlias = LinearRegression | LogisticRegression


class Curriculum(Record):
    """Start with few coordinates and points and add ``d_step`` and ``n_step`` of them each ``every`` steps.

    Source: Garg et al., What can transformers learn in-context?
    """

    every: Annotated[int, Field(ge=1)]
    d_start: Annotated[int, Field(ge=1)] = 2
    n_start: Annotated[int, Field(ge=1)] = 10
    d_step: Annotated[int, Field(ge=0)] = 1
    n_step: Annotated[int, Field(ge=0)] = 5

    def stage(self, task: Task, step: int) -> Task:
        """Return ``task`` as it stands at training step ``step``."""
        grown = step // self.every
        active = min(task.d, self.d_start + self.d_step * grown)
        points = min(task.n, self.n_start + self.n_step * grown)
        return task.model_copy(update={"active": active, "n": points})
