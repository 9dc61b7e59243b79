"""The parameters of each chapter: types, ranges and refusals, one class a notebook.

A chapter's second code cell builds its class from the parameter cell, so that a wrong type, a value out of
range or a misspelt name stops a run before any compute, naming the parameter, the value and what is allowed.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "ConditioningAndNoise",
    "DampedNewton",
    "LinearRegression",
    "LinearTransformer",
    "LogisticConstruction",
    "MainTheorem",
    "MatrixInversion",
    "MovingTheQuery",
    "NewtonIteration",
    "Parameters",
    "SelfConcordance",
    "TrainingLinearAttention",
    "TrainingLogistic",
    "WhichPolynomial",
    "least_error",
]

Dimension = Annotated[int, Field(ge=1, le=64)]
Tokens = Annotated[int, Field(ge=1, le=2000)]
Steps = Annotated[int, Field(ge=0, le=100)]
ConditionNumber = Annotated[float, Field(ge=1.0, le=1e6)]
Penalty = Annotated[float, Field(ge=1e-4, le=10.0)]
Error = Annotated[float, Field(ge=1e-6, le=0.1)]
Order = Annotated[int, Field(ge=2, le=8)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Parameters(BaseModel):
    """Base of all chapters: no conversion of types, no NaN, no unknown names."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class _Samples(Parameters):
    d: Dimension
    n: Tokens
    seed: Seed

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if self.n < self.d:
            raise ValueError(f"n = {self.n}: must be at least d = {self.d}")
        return self


class LinearTransformer(Parameters):
    """Chapter 01."""

    d: Dimension
    n: Tokens
    heads: Annotated[int, Field(ge=1, le=8)]
    seed: Seed


class NewtonIteration(Parameters):
    """Chapter 02."""

    d: Annotated[int, Field(ge=2, le=64)]
    kappa: Annotated[float, Field(gt=1.0, le=1e6)]
    orders: Annotated[list[Order], Field(min_length=1, max_length=7)]
    steps: Annotated[int, Field(ge=1, le=100)]
    tolerance: Annotated[float, Field(gt=1e-14, lt=1.0)]
    seed: Seed


class MatrixInversion(Parameters):
    """Chapter 03."""

    d: Dimension
    kappa: ConditionNumber
    steps: Steps
    symmetric: bool
    dtype: Literal["float64", "float32"]
    seed: Seed


class LinearRegression(_Samples):
    """Chapter 04; of the diabetes data, the first d features and n rows drawn at random, which set the scale."""

    steps: Steps
    noise: Annotated[float, Field(ge=0.0, le=100.0)]
    ridge: Annotated[float, Field(ge=0.0, le=1e4)]
    dataset: Literal["synthetic", "diabetes"]

    @model_validator(mode="after")
    def _within_the_data(self) -> Self:
        if self.dataset == "diabetes" and self.d > 10:
            raise ValueError(f"d = {self.d}: must be at most 10, the features of the diabetes data")
        if self.dataset == "diabetes" and not 20 <= self.n <= 441:
            raise ValueError(f"n = {self.n}: must be from 20 to 441, to leave one of the 442 rows to predict")
        return self


class _Examples(_Samples):
    """Of chapters that take the Hessians at thousands of points at once: d n numbers a point."""

    d: Annotated[int, Field(ge=1, le=20)]
    n: Annotated[int, Field(ge=1, le=200)]


class SelfConcordance(_Examples):
    """Chapter 05."""

    mu: Penalty


class DampedNewton(_Examples):
    """Chapter 06."""

    mu: Penalty
    start: Annotated[float, Field(ge=0.0, le=1e4)]
    error: Annotated[float, Field(ge=0.0, le=0.1)]


def least_error(d: int, mu: float, n: int = 1) -> float:
    """Return the smallest error of a damped Newton step that the chapters build for n samples of d features.

    From 5e-10 sqrt(d)/mu^1.5 on (measured) float64 tells the knots of the ReLU layers apart; and the units, about
    d^1.25/sqrt(mu error), times n samples are kept to 4e6 or so.
    """
    return max(5e-10 * math.sqrt(d) / math.pow(mu, 1.5), (math.pow(d, 1.25) * n / 4e6) ** 2 / mu)


def _check_error(error: float, least: float, given: str) -> None:
    if error < least:
        raise ValueError(f"error = {error:g}: must be at least {least:.2g}, the least that is built for {given}")


class LogisticConstruction(_Samples):
    """Chapter 07; it compares wasteful placements of knots, which mu < 0.01 would make too wide to run."""

    d: Annotated[int, Field(ge=1, le=10)]
    n: Annotated[int, Field(ge=1, le=32)]
    mu: Annotated[float, Field(ge=0.01, le=10.0)]
    error: Error
    inversion_steps: Annotated[int, Field(ge=1, le=40)]

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        _check_error(self.error, least_error(self.d, self.mu), f"d = {self.d}, mu = {self.mu:g}")
        return self


class MainTheorem(_Samples):
    """Chapter 08; of the breast cancer data, the first d features and n rows drawn at random."""

    n: Annotated[int, Field(ge=1, le=1000)]
    mu: Annotated[float, Field(ge=1e-3, le=10.0)]
    error: Error
    steps: Annotated[int, Field(ge=1, le=40)]
    dataset: Literal["synthetic", "breast_cancer"]

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        least = least_error(self.d, self.mu, self.n)
        _check_error(self.error, least, f"d = {self.d}, n = {self.n}, mu = {self.mu:g}")
        return self

    @model_validator(mode="after")
    def _within_the_data(self) -> Self:
        if self.dataset == "breast_cancer" and self.d > 30:
            raise ValueError(f"d = {self.d}: must be at most 30, the features of the breast cancer data")
        if self.dataset == "breast_cancer" and self.n > 569:
            raise ValueError(f"n = {self.n}: must be at most 569, the rows of the breast cancer data")
        return self


class TrainingLinearAttention(Parameters):
    """Chapter 09; kappa and noise are of the test prompts and, with ``retrain``, of the training prompts too.

    Without ``retrain``, ``layers`` is one of the depths that are shipped, 1 to 6.
    """

    layers: Annotated[int, Field(ge=1, le=12)]
    kappa: Annotated[float, Field(ge=1.0, le=1000.0)]
    noise: Annotated[float, Field(ge=0.0, le=100.0)]
    query_in_context: bool
    seed: Seed
    retrain: bool
    steps: Annotated[int, Field(ge=1, le=10_000)]


class ConditioningAndNoise(Parameters):
    """Chapter 13; kappas and noises are of the test prompts, ``layers`` is one of the depths that are shipped.

    Those are 1 to 8, 10 and 12; above 6 with LayerNorm only.
    """

    kappas: Annotated[list[Annotated[float, Field(ge=1.0, le=1000.0)]], Field(min_length=1, max_length=6)]
    noises: Annotated[list[Annotated[float, Field(ge=0.0, le=10.0)]], Field(min_length=1, max_length=4)]
    layers: Annotated[int, Field(ge=1, le=12)]
    seed: Seed


class MovingTheQuery(Parameters):
    """Chapter 10; kappa is of the test prompts, range how far the first coordinate of the query goes."""

    layers: Annotated[int, Field(ge=1, le=12)]
    kappa: Annotated[float, Field(ge=1.0, le=1000.0)]
    range: Annotated[float, Field(ge=15.0, le=1000.0)]
    seed: Seed


class WhichPolynomial(Parameters):
    """Chapter 11; kappa is of the test prompts."""

    layers: Annotated[int, Field(ge=1, le=12)]
    kappa: Annotated[float, Field(ge=1.0, le=1000.0)]
    seed: Seed


class TrainingLogistic(Parameters):
    """Chapter 12; mu and kappa are of the test prompts and, with ``retrain``, of the training prompts too.

    Without ``retrain``, ``layers`` is one of the depths that are shipped.
    """

    layers: Annotated[int, Field(ge=1, le=40)]
    mu: Annotated[float, Field(ge=1e-3, le=10.0)]
    kappa: Annotated[float, Field(ge=1.0, le=1000.0)]
    seed: Seed
    retrain: bool
    steps: Annotated[int, Field(ge=1, le=10_000)]
