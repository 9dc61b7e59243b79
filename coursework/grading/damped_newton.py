"""Hidden checks of the assignment "Damped Newton inside", tasks 1 to 5: each returns the points of one task.

Tasks 6 and 7 have ``grading.logistic_step``.

Truth comes from ``grading.losses``, numpy and scipy, on data, penalties and tolerances that no student has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from grading import losses
from grading.marks import Marks, observe
from tfnewton.approximation.curves import VARIANCE
from tfnewton.approximation.knots import approximate
from tfnewton.approximation.units import Units

__all__ = ["ball", "constant", "local_need", "number", "steps", "variance_units"]

SELF_CONCORDANCE = "chapter 5, 'One number for the change of curvature'"
SMALLEST = "chapter 5, 'The smallest constant'"
PHASES = "chapter 6, on the two phases"
KNOTS = "chapter 7, 'Four functions as ReLU layers'"

Function = Callable[..., Any]
Array = np.ndarray


def _rng(variant: int, task: int) -> np.random.Generator:
    return np.random.default_rng([variant, task, 2403])  # not the stream that the notebook draws from


def ball(rng: np.random.Generator, n: int, d: int) -> tuple[Array, Array]:
    """Return rows in the unit ball (n, d), the longest of norm one, and labels (n,), both classes among them."""
    A = rng.standard_normal((n, d))
    A /= np.linalg.norm(A, axis=1).max()
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return A, y


def number(value: Any) -> float:
    """Return what a submission returned as a float; refuse NaN and infinity."""
    found = float(value)
    observe(math.isfinite(found), f"your function returned {found}")
    return found


def local_need(answer: Function, variant: int) -> float:
    """Grade task 1, of 3 points: ``answer(x, u, A, y, mu, delta)`` is what the soft loss needs at x along u."""
    rng, marks = _rng(variant, 1), Marks()

    def check(n: int, d: int) -> None:
        A, y = ball(rng, max(n, 2), d)
        A, y = A[-n:], y[-n:]
        x, u = 2 * rng.standard_normal(d), 3 * rng.standard_normal(d)
        mu, delta = rng.uniform(0.02, 0.5), rng.uniform(0.5, 2.0)
        found = number(answer(x.copy(), u.copy(), A.copy(), y.copy(), mu, delta))
        right = losses.need(x, u, A, y, mu, delta)
        what = f"{n} example(s), d = {d}, mu = {mu:.3g}, delta = {delta:.3g}: you return {found:.5g}"
        observe(abs(found - right) <= 1e-12 * (1 + right), f"{what}; automatic differentiation finds another number")

    with marks.part(1, SELF_CONCORDANCE):
        for _ in range(4):
            check(1, 1)
    with marks.part(2, SELF_CONCORDANCE):
        for n, d in ((2, 1), (9, 3), (40, 5), (6, 8)):
            check(n, d)
    return marks.total


def constant(smallest: Function, worst: Function, variant: int) -> float:
    """Grade task 2, of 6 points: ``smallest(mu, delta)``, and ``worst(mu, delta, n)``, data that need it."""
    rng, marks = _rng(variant, 2), Marks()
    penalties, widths = ((0.01, 0.02), (0.04, 0.05), (0.08, 0.1)), ((0.6, 0.7), (1.3, 1.4))  # corners in every variant
    pairs = [(rng.uniform(*mu), rng.uniform(*delta)) for mu in penalties for delta in widths]
    largest = [losses.largest_need(*pair) for pair in pairs]
    with marks.part(2, SMALLEST):
        for (mu, delta), top in zip(pairs, largest, strict=True):
            found = number(smallest(mu, delta))
            what = f"mu = {mu:.3g}, delta = {delta:.3g}: some data need {top:.6g}"
            observe(found >= top * (1 - 1e-5), f"{what}, your constant is {found:.6g}")
    with marks.part(2, SMALLEST):
        for (mu, delta), top in zip(pairs, largest, strict=True):
            off = abs(number(smallest(mu, delta)) / top - 1)
            what = f"mu = {mu:.3g}, delta = {delta:.3g}: your constant is not the smallest that serves"
            observe(off <= 1e-3, f"{what}; it is {100 * off:.2g} percent off the largest need that a search finds")
    with marks.part(2, SMALLEST):
        for (mu, delta), top in zip(pairs, largest, strict=True):
            n = int(rng.integers(300, 500))
            A, y, x, u = (np.asarray(part, dtype=float) for part in worst(mu, delta, n))
            shapes = (A.shape, y.shape, x.shape, u.shape)
            observe(shapes == ((n, 1), (n,), (1,), (1,)), f"n = {n}: your data have the shapes {shapes}")
            observe(bool((np.abs(A) <= 1 + 1e-12).all()), "a row of your data is longer than one")
            observe(bool((np.abs(y) == 1).all()), "a label of your data is neither -1 nor 1")
            share = losses.need(x, u, A, y, mu, delta) / top
            what = f"mu = {mu:.3g}, delta = {delta:.3g}, n = {n}: your data need {100 * share:.3g} percent"
            observe(share >= 0.98, f"{what} of what other data of that size need")
    return marks.total


def _chapter_count(M: float, mu: float, delta: float, gap: float, accuracy: float) -> int:
    """Return what chapter 6's two phases count for the soft loss: the mark to beat."""
    g, goal, count = M**2 * gap, M**2 * accuracy, 0
    rate, least = 2 * mu / (mu + 1 / delta), 1 / 6
    while g > goal and g >= least - math.log1p(least):
        t = max(least, math.sqrt(rate * g))
        g, count = g - (t - math.log1p(t)), count + 1
    t = least
    while g > goal and -t - math.log1p(-t) > goal:
        t, count = t**2 * (2 + t) / (1 + t), count + 1
    return count


def _runs(rng: np.random.Generator) -> list[tuple[tuple[float, ...], int]]:
    """Return (M, mu, delta, gap, accuracy) and the steps that the run took, on data of several kinds.

    Three accuracies for each start, after which one step is enough, or a few, or many.
    """
    found: list[tuple[tuple[float, ...], int]] = []
    for d, n, start in ((1, 1, 3.0), (1, 1, -9.0), (3, 20, 10.0), (5, 40, 25.0), (4, 30, 0.0), (2, 2, 1.0)):
        mu, delta = rng.uniform(0.01, 0.1), rng.uniform(0.6, 1.4)
        A, y = (np.ones((1, 1)), np.ones(1)) if n == 1 else ball(rng, n, d)
        x = np.full(d, start / math.sqrt(d))
        M = losses.largest_need(mu, delta)
        f = losses.soft(A, y, mu, delta)
        gap, _ = f.steps(x, M, math.inf)
        for accuracy in (0.95 * gap, 1e-4, 1e-9):
            found.append(((M, mu, delta, gap, accuracy), f.steps(x, M, accuracy)[1]))
    return found


def _extreme_runs(rng: np.random.Generator) -> list[tuple[tuple[float, ...], int]]:
    """Return the same of runs for which a bound with a wrong largest Hessian, or a run on other data, falls short.

    Two start where the Hessian is largest, and take nearly twice the steps that runs on a quadratic take; one of them
    has a nearly broken line, the other a constant larger than need be. The last is on what is almost a quadratic.
    """
    found: list[tuple[tuple[float, ...], int]] = []
    for n, start, mu, delta, times in (
        (1, 0.0, rng.uniform(2.5, 3.5), rng.uniform(2e-5, 3e-5), 1.01),
        (1, 0.0, rng.uniform(0.01, 0.02), rng.uniform(0.6, 0.7), 30.0),
        (20, 10.0, rng.uniform(4.0, 6.0), rng.uniform(2.0, 3.0), 40.0),
    ):
        A, y = (np.ones((1, 1)), np.ones(1)) if n == 1 else ball(rng, n, 3)
        f, M = losses.soft(A, y, mu, delta), times * losses.largest_need(mu, delta)
        x = np.full(A.shape[1], start / math.sqrt(A.shape[1]))
        accuracy = 1e-3 * min(delta, 1.0)
        gap, count = f.steps(x, M, accuracy)
        found.append(((M, mu, delta, gap, accuracy), count))
    return found


def _count(answer: Function, *arguments: float) -> int:
    found = number(answer(*arguments))
    observe(found == int(found) and found >= 0, f"{found} is not a number of steps")
    return int(found)


def steps(answer: Function, variant: int) -> float:
    """Grade task 4, of 6 points: ``answer(M, mu, delta, gap, accuracy)`` bounds the damped Newton steps."""
    rng, marks = _rng(variant, 4), Marks()
    runs = _runs(rng)
    extreme = _extreme_runs(rng)

    def held() -> None:
        counts = set()
        for (M, mu, delta, gap, accuracy), taken in (*runs, *extreme):
            found = _count(answer, M, mu, delta, gap, accuracy)
            counts.add(found)
            what = f"M = {M:.3g}, mu = {mu:.3g}, delta = {delta:.3g}, gap {gap:.3g}, accuracy {accuracy:.3g}"
            observe(found >= taken, f"{what}: the run takes {taken} steps, you predict at most {found}")
        observe(len(counts) > 1, f"you predict {counts} steps for every run")

    with marks.part(2, PHASES):
        held()
    with marks.part(2, PHASES):
        for (M, mu, delta, gap, _), _ in runs[::3]:
            coarse, fine = (_count(answer, M, mu, delta, gap, a) for a in (1e-6, 1e-12))
            what = f"gap {gap:.3g}: six digits more cost {fine - coarse} steps"
            observe(1 <= fine - coarse <= 6, f"{what} in your count, which is not how the last phase goes")
    with marks.part(2, PHASES):
        held()
        far = [arguments for arguments, _ in runs if arguments[3] > 1]
        yours = sum(_count(answer, *arguments) for arguments in far)
        theirs = sum(_chapter_count(*arguments) for arguments in far)
        what = f"your counts hold, but from far out they add up to {yours / theirs:.2f} of those of the two phases"
        observe(yours <= 0.75 * theirs, what)
    return marks.total


def variance_units(answer: Function, variant: int) -> float:
    """Grade task 5, of 6 points: ``answer(radius, error)`` are units of p(1-p) on [-radius, radius], few of them."""
    rng, marks = _rng(variant, 5), Marks()
    ranges = (((5, 6), (-3.9, -3.7)), ((7, 9), (-3.6, -3.4)), ((10, 12), (-3.3, -3.1)))  # no units serve for all
    asked = [(rng.uniform(*radius), 10 ** rng.uniform(*power)) for radius, power in ranges]
    found: list[tuple[Units, int]] = []
    with marks.part(2, KNOTS):
        for radius, error in asked:
            units = answer(radius, error)
            observe(isinstance(units, Units), f"your function returned a {type(units).__name__}")
            observe(units.weight.shape == (1, units.width), "your units do not read exactly one row")
            z = np.linspace(-radius, radius, 100_001)
            off = float(np.abs(units(z) - losses.curvature(z)).max())
            what = f"radius {radius:.3g}: asked for an error of {error:.2e}, your units err by {off:.2e}"
            observe(off <= error * (1 + 1e-9), what)
            found.append((units, approximate(VARIANCE, (-radius, radius), error).width))

    def narrow(part: float) -> None:
        observe(len(found) == len(asked), "the error is not kept, so the number of units says nothing")
        for units, usual in found:
            most = math.ceil(part * usual)
            what = f"you use {units.width} units, the book's knots {usual}, and this part asks for at most {most}"
            observe(units.width <= most, what)

    with marks.part(2, KNOTS):
        narrow(1.0)
    with marks.part(2, KNOTS):
        narrow(0.9)
    return marks.total
