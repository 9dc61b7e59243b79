"""Hidden checks of the assignment "Damped Newton inside", tasks 6 and 7: a damped step from parts, and real data."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine

from grading import losses
from grading.damped_newton import ball, number
from grading.heads import layer_of, run, units_of
from grading.marks import Marks, observe
from tfnewton.model.transformer import Transformer

__all__ = ["prepared", "weighted_step"]

CONSTANT = "chapter 5, 'Three conventions', and chapter 7, 'Four functions as ReLU layers'"
LAYERS = "chapter 7, 'The heads behind each line'"
REAL = "chapter 8, 'Real data', and the exercises of chapter 5"
CLOSE = 2e-3  # of what a trace holds; the units err by 1e-5, the damping by 1e-4

Function = Callable[..., Any]
Array = np.ndarray


class Case(NamedTuple):
    """A class-weighted problem and a point x (d,) to step from."""

    A: Array
    y: Array
    mu: float
    weights: tuple[float, float]
    x: Array

    @property
    def loss(self) -> losses.Loss:
        return losses.weighted(self.A, self.y, self.mu, self.weights)

    @property
    def constant(self) -> float:
        """The largest need of a logistic loss whose rows have the larger weight, by search over the margin."""
        q = losses.curvature(np.linspace(0.0, 40.0, 400_001))
        heavy = max(self.weights)
        return float(np.max(heavy * q * np.sqrt(1 - 4 * q) / (2 * (self.mu + heavy * q) ** 1.5)))


def _cases(variant: int) -> list[Case]:
    rng = np.random.default_rng([variant, 6, 2403])
    cases = []
    for d, n, heavy, far in ((2, 5, 0, 2.5), (3, 11, 1, 7.0)):
        A, y = ball(rng, n, d)
        weights = [rng.uniform(0.3, 0.8), rng.uniform(0.3, 0.8)]
        weights[heavy] = rng.uniform(1.6, 2.4)
        x = rng.standard_normal(d)
        x *= far / np.linalg.norm(x)
        cases.append(Case(A, y, rng.uniform(0.2, 0.4), (weights[0], weights[1]), x))
    return cases


class Built(NamedTuple):
    """A case, the number of the submission's layers for it, and H by blocks before and after each, from the case's x.

    Two rounds of the layers: what they leave behind shows in the second.
    """

    case: Case
    depth: int
    frames: list[dict[str, Array]]


def _start(case: Case) -> dict[str, Array]:
    """Return the blocks of the assignment's layout with a case packed into them."""
    n, d = case.A.shape
    blocks = {name: np.zeros((d, n)) for name in ("A_T", "W", "B", "X", "S", "I", "x", "g", "v")}
    filled = {"A_T": case.A.T, "I": np.eye(d, n), "x": np.repeat(case.x[:, None], n, axis=1)}
    return blocks | filled | {"y": case.y[None], "s": np.zeros((1, n)), "ones": np.ones((1, n))}


def _build(answer: Function, case: Case, k: int) -> Built:
    """Have the transformer built, and run what its heads and units say, by the formula of chapter 1."""
    n, d = case.A.shape
    model = answer(d, n, case.mu, case.weights, k)
    observe(type(model) is Transformer, f"what your function returned is a {type(model).__name__}, not a Transformer")
    start = _start(case)
    sizes = {name: len(rows) for name, rows in start.items()}
    observe(list(model.layout.sizes.items()) == list(sizes.items()), f"the layout is {model.layout.sizes}")
    H = np.concatenate(list(start.values()))
    read = {layer: (layer_of(layer, len(H), units=True), *units_of(layer, len(H))) for layer in set(model.layers)}
    frames, ends = [start], np.cumsum(list(sizes.values()))[:-1]
    with np.errstate(all="ignore"):  # the second round may overflow, and a warning would cost all points of the cell
        for layer in (*model.layers, *model.layers):
            heads, W1, W2 = read[layer]
            H = run([heads], H)
            H = H + W2 @ np.maximum(W1 @ H, 0.0)
            frames.append(dict(zip(sizes, np.split(H, ends), strict=True)))
    return Built(case, model.depth, frames)


def _off(built: Built, name: str, right: Array) -> float:
    """Return how far the named block is from ``right``, in its first rows and columns, where it is least in a step."""
    rows, columns = right.shape
    frames = built.frames[: built.depth + 1]
    return min(float(np.abs(frame[name][:rows, :columns] - right).max()) for frame in frames)


def _damping_off(built: Built) -> float:
    """Return the least deviation of s[0] from the damping that the trace's own gradient and direction ask for."""
    off = math.inf
    for before, after in pairwise(built.frames[: built.depth + 1]):
        g, v = before["g"][:, 0], before["v"][:, 0]
        if np.abs(v).max() > 0:
            eta = 1 / (1 + built.case.constant * math.sqrt(max(float(g @ v), 0.0)))
            off = min(off, abs(float(after["s"][0, 0]) - eta))
    return off


def _twice(built: Built, k: int) -> None:
    """Refuse layers of another number, or whose two rounds are not damped Newton's steps, or that leave scratch."""
    case, x = built.case, built.case.x
    what = f"d = {len(case.x)}, n = {len(case.y)}, k = {k}"
    observe(built.depth == 8 + 2 * k, f"{what}: your transformer has {built.depth} layers")
    for round_ in (1, 2):
        x, end = case.loss.step(x, case.constant), built.frames[round_ * built.depth]
        off = float(np.abs(end["x"] - x[:, None]).max())
        observe(off <= 2 * CLOSE, f"{what}: after {round_} step(s) x is off by {off:.2g} at the token where it is most")
        moved = [np.abs(end[name] - rows).max() for name, rows in built.frames[0].items() if name != "x"]
        left = float(np.max(moved))
        observe(left <= 1e-9, f"{what}: a row other than those of x is changed by {left:.2g} when the step ends")


def weighted_step(answer: Function, variant: int) -> float:
    """Grade task 6, of 7 points: ``answer(d, n, mu, weights, k)`` takes one damped step on class-weighted data."""
    marks, k = Marks(), 10
    built: list[Built] = []
    with marks.part(2, LAYERS):
        built = [_build(answer, case, k) for case in _cases(variant)]
        for one in built:
            case = one.case
            off = _off(one, "B", case.loss.hessian(case.x))
            observe(off <= CLOSE, f"weights {case.weights[0]:.2g} and {case.weights[1]:.2g}: B misses H by {off:.2g}")

    def each() -> list[Built]:
        observe(len(built) > 0, "there is no transformer to look into")
        return built

    with marks.part(2, LAYERS):
        for one in each():
            off = _off(one, "g", one.case.loss.gradient(one.case.x)[:, None])
            observe(off <= CLOSE, f"d = {len(one.case.x)}: no layer leaves the gradient in g; nearest is {off:.2g} off")
    with marks.part(1, CONSTANT):
        for one in each():
            off = _damping_off(one)
            observe(off <= CLOSE, f"mu = {one.case.mu:.2g}: for its own g and v the damping in s is {off:.2g} off")
    with marks.part(2, LAYERS):
        for one in each():
            _twice(one, k)
    return marks.total


def _tables(variant: int) -> list[tuple[Array, Array, float, tuple[int, int]]]:
    """Return points (n, d), labels (n,), mu and repeats: short rows, then raw standardised columns."""
    rng = np.random.default_rng([variant, 7, 2403])
    tables = []
    for load, columns in ((load_wine, 3), (load_breast_cancer, 4), (load_wine, 5)):
        raw, target = load(return_X_y=True)
        points = raw[:, rng.permutation(raw.shape[1])[:columns]]
        points = (points - points.mean(0)) / points.std(0)
        chosen = rng.permutation(len(points))[:90]
        repeats = (int(rng.integers(3, 5)), 1) if rng.uniform() < 0.5 else (1, int(rng.integers(3, 5)))
        tables.append((points[chosen], np.where(target[chosen] == 1, 1.0, -1.0), rng.uniform(0.1, 0.4), repeats))
    first = tables[0]
    short = first[0] / (1.5 * np.linalg.norm(first[0], axis=1).max())
    return [(short, *first[1:]), *tables[1:]]


def _prepare(answer: Function, table: tuple[Array, Array, float, tuple[int, int]]) -> tuple[Array, Array, float, float]:
    points, labels, mu, repeats = table
    A, y, penalty, divisor = answer(points.copy(), labels.copy(), mu, repeats)
    A, y, penalty, divisor = np.asarray(A, dtype=float), np.asarray(y, dtype=float), number(penalty), number(divisor)
    observe(A.ndim == 2 and y.shape == A.shape[:1], f"your data have the shapes {A.shape} and {y.shape}")
    observe(penalty > 0 and divisor > 0, f"your penalty is {penalty:.3g}, your divisor {divisor:.3g}")
    return A, y, penalty, divisor


def _same_minimiser(answer: Function, table: tuple[Array, Array, float, tuple[int, int]]) -> None:
    points, labels, mu, repeats = table
    A, y, penalty, divisor = _prepare(answer, table)
    fitted = _minimise(losses.weighted(A, y, penalty, (1.0, 1.0)), A, penalty) / divisor
    right = _minimise(losses.weighted(points, labels, mu, repeats), points, mu)
    off = float(np.linalg.norm(fitted - right) / np.linalg.norm(right))
    longest = float(np.linalg.norm(points, axis=1).max())
    what = f"rows up to {longest:.2g} long, repeats {repeats}"
    observe(off <= 1e-4, f"{what}: what the transformer would fit is off by {100 * off:.2g} percent")


def _minimise(loss: losses.Loss, A: Array, mu: float) -> Array:
    safe = float(np.linalg.norm(A, axis=1).max()) / (2 * math.sqrt(mu))  # of chapter 5, for rows of any length
    return loss.minimiser(np.zeros(A.shape[1]), safe)


def prepared(answer: Function, variant: int) -> float:
    """Grade task 7, of 3 points: ``answer(points, labels, mu, repeats)`` is what the unchanged transformer reads."""
    marks, (short, *long) = Marks(), _tables(variant)
    with marks.part(1, REAL):
        for table in (short, *long):
            A, y, _, _ = _prepare(answer, table)
            observe(bool((np.linalg.norm(A, axis=1) <= 1 + 1e-12).all()), "a row of your data is longer than one")
            observe(bool((np.abs(y) == 1).all()), "a label of your data is neither -1 nor 1")
            wanted = [int((table[1] == label).sum()) * times for label, times in zip((1, -1), table[3], strict=True)]
            counted = [int((y == label).sum()) for label in (1, -1)]
            observe(counted == wanted, f"repeats {table[3]}: your data have {counted[0]} and {counted[1]} of a label")
    with marks.part(1, REAL):
        _same_minimiser(answer, short)
    with marks.part(1, REAL):
        for table in long:
            _same_minimiser(answer, table)
    return marks.total
