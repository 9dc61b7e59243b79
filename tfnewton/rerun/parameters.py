"""The parameters of each chapter: types, ranges and refusals, one class a notebook.

A chapter's second code cell has its class check the parameters, so that a wrong type, a value out of range or a
misspelt name stops a run before any compute, naming the parameter, the value and what is allowed. ``tfnewton run``
asks the same class before it starts a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tfnewton.rerun.legality import Parameters

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


class _Samples(Parameters):
    d: Dimension
    n: Tokens
    seed: Seed

    def faults(self) -> Iterator[str]:
        if self.n < self.d:
            yield f"n = {self.n}: must be at least d = {self.d}"


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

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if self.dataset == "diabetes" and self.d > 10:
            yield f"d = {self.d}: must be at most 10, the features of the diabetes data"
        if self.dataset == "diabetes" and not 20 <= self.n <= 441:
            yield f"n = {self.n}: must be from 20 to 441, to leave one of the 442 rows to predict"


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


def _too_small(error: float, least: float, given: str) -> Iterator[str]:
    if error < least:
        yield f"error = {error:g}: must be at least {least:.2g}, the least that is built for {given}"


class LogisticConstruction(_Samples):
    """Chapter 07; it compares wasteful placements of knots, which mu < 0.01 would make too wide to run."""

    d: Annotated[int, Field(ge=1, le=10)]
    n: Annotated[int, Field(ge=1, le=32)]
    mu: Annotated[float, Field(ge=0.01, le=10.0)]
    error: Error
    inversion_steps: Annotated[int, Field(ge=1, le=40)]

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        yield from _too_small(self.error, least_error(self.d, self.mu), f"d = {self.d}, mu = {self.mu:g}")


class MainTheorem(_Samples):
    """Chapter 08; of the breast cancer data, the first d features and n rows drawn at random."""

    n: Annotated[int, Field(ge=1, le=1000)]
    mu: Annotated[float, Field(ge=1e-3, le=10.0)]
    error: Error
    steps: Annotated[int, Field(ge=1, le=40)]
    dataset: Literal["synthetic", "breast_cancer"]

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        least = least_error(self.d, self.mu, self.n)
        yield from _too_small(self.error, least, f"d = {self.d}, n = {self.n}, mu = {self.mu:g}")
        if self.dataset == "breast_cancer" and self.d > 30:
            yield f"d = {self.d}: must be at most 30, the features of the breast cancer data"
        if self.dataset == "breast_cancer" and self.n > 569:
            yield f"n = {self.n}: must be at most 569, the rows of the breast cancer data"


def _not_shipped(layers: int, retrain: bool, shipped: tuple[int, ...]) -> Iterator[str]:
    if not retrain and layers not in shipped:
        depths = ", ".join(map(str, shipped))
        yield f"layers = {layers}: must be one of {depths}, the models that are shipped; for others, retrain = True"


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

    def faults(self) -> Iterator[str]:
        yield from _not_shipped(self.layers, self.retrain, (1, 2, 3, 4, 5, 6))


def _whole(value: object) -> object:
    """Refuse what a Literal takes for an integer because it is equal to one."""
    if type(value) is not int:
        raise ValueError(f"layers = {value!r}: must be an integer, the depth of a shipped model")
    return value


class ConditioningAndNoise(Parameters):
    """Chapter 13; kappas and noises are of the test prompts, ``layers`` is one of the depths that are shipped.

    Those are 1 to 8, 10 and 12; above 6 with LayerNorm only.
    """

    kappas: Annotated[list[Annotated[float, Field(ge=1.0, le=1000.0)]], Field(min_length=1, max_length=6)]
    noises: Annotated[list[Annotated[float, Field(ge=0.0, le=10.0)]], Field(min_length=1, max_length=4)]
    layers: Annotated[Literal[1, 2, 3, 4, 5, 6, 7, 8, 10, 12], BeforeValidator(_whole)]
    seed: Seed


class MovingTheQuery(Parameters):
    """Chapter 10; kappa is of the test prompts, range how far the first coordinate of the query goes."""

    layers: Annotated[int, Field(ge=1, le=5)]
    kappa: Annotated[float, Field(ge=1.0, le=1000.0)]
    range: Annotated[float, Field(ge=15.0, le=1000.0)]
    seed: Seed


class WhichPolynomial(Parameters):
    """Chapter 11; kappa is of the test prompts."""

    layers: Annotated[int, Field(ge=1, le=5)]
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

    def faults(self) -> Iterator[str]:
        yield from _not_shipped(self.layers, self.retrain, (1, 2, 4, 8, 12))
