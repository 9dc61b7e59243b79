"""Hidden checks of the assignment "What training finds": each runs a student's function where the truth is known.

The truth is numpy's: black boxes whose residual, or false sample, is a formula. Tasks 1 and 2 are in ``error_bars``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy import stats

from grading import black_boxes as boxes
from grading.black_boxes import Answer
from grading.error_bars import CUT, followed_through, numbers, quiet
from grading.marks import Marks, observe
from tfnewton.campaign import results
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

__all__ = ["cure", "find_sample", "name_it", "residuals", "tuned_lengths"]

TRAINING = "chapter 9, Training linear attention"
QUERY = "chapter 10, Moving the query"
POLYNOMIAL = "chapter 11, Which polynomial"


def _sample(seed: int, count: int, task: LinearRegression | None = None, units: float = 1.0) -> LinearPrompts:
    p = (task or LinearRegression()).sample(generator(seed, "coursework, hidden"), count, torch.float64)
    return LinearPrompts(units * p.x, units * p.y, units * p.x_query, units * p.target, p.w)


def _blind(p: LinearPrompts) -> LinearPrompts:
    """Return copies of context and query, without what the task does not give."""
    x, y, query = (part.clone() for part in p[:3])
    return LinearPrompts(x, y, query, torch.full_like(p.target, torch.nan), torch.full_like(p.w, torch.nan))


def _held(
    residuals: Callable[..., Any], answer: Answer, spectrum: np.ndarray, n: int, query: float, truth: Any, box: str = ""
) -> None:
    found = numbers(residuals(answer, spectrum.copy(), n, query), spectrum.shape, "the array of residuals")
    off = float(abs(found - truth).max())
    observe(
        off < 1e-6,
        f"with d = {len(spectrum)}, n = {n} and a query of length {query:.3g} a residual of a box{box}"
        f" is off by {off:.2g}",
    )


@quiet()
def residuals(residuals: Callable[..., Any], variant: int) -> float:
    """Return the points of the residuals of black boxes, of 4."""
    marks, rng = Marks(), np.random.default_rng([variant, 1003])
    cases = [(rng.permutation(rng.uniform(1, 90, d)), n, d) for n, d in ((50, 10), (23, 7), (12, 4))]
    with marks.part(2, POLYNOMIAL):
        for spectrum, n, _ in cases:
            lengths = rng.uniform(0.004, 0.03, 3)
            for rule in (boxes.steps(lengths), boxes.power(4), boxes.ridge(rng.uniform(2, 20))):
                _held(residuals, boxes.spectral(rule), spectrum, n, 1.0, rule(spectrum[None])[0])
    with marks.part(1, POLYNOMIAL):
        for spectrum, n, d in cases:
            size = rng.uniform(100, 400)
            truth = 1 - (1 - boxes.ridge(5.0)(spectrum)) / (1 + d * spectrum / size)
            box = boxes.tired_by_labels(boxes.ridge(5.0), size)
            _held(residuals, box, spectrum, n, 1.0, truth, " that minds the length of the labels")
    with marks.part(1, QUERY):
        for spectrum, n, _ in cases:
            c, weight, query = rng.uniform(1.1, 1.4), rng.uniform(0.5, 2), rng.uniform(3, 20)
            truth = 1 - c / (1 + weight * query**2 / (n * spectrum))
            box = boxes.false_sample(c, weight)
            _held(residuals, box, spectrum, n, query, truth, " that minds the length of the query")
    return marks.total


def _residuals(answer: Answer, spectrum: Any, n: int, query: float = 1.0, *_: Any, **__: Any) -> np.ndarray:
    values = np.asarray(spectrum, dtype=np.float64)
    d = len(values)
    A = np.linalg.qr(np.random.default_rng(d).normal(size=(n, d))).Q * np.sqrt(n * values)
    x, y, at = (torch.as_tensor(part) for part in (np.repeat(A[None], d, axis=0), d**0.5 * A.T, query * np.eye(d)))
    unknown = torch.full_like(at, torch.nan)
    found: np.ndarray = 1 - np.asarray(answer(LinearPrompts(x, y, at, unknown[0], unknown))) / (query * d**0.5)
    return found


@quiet()
def name_it(name_it: Callable[..., Any], variant: int) -> float:
    """Return the points of the names of black boxes, of 6: a family counts if all of it is named, and nothing else."""
    rng = np.random.default_rng([variant, 1004])
    asked = boxes.families(rng) | {"none": [*boxes.strangers(rng), *_shipped()]}
    return followed_through(lambda: _named(name_it, asked), name_it, residuals=_residuals)


def _named(name_it: Callable[..., Any], asked: dict[str, list[Answer]]) -> Marks:
    marks, n, d = Marks(), 50, 10
    said: dict[str, list[str]] = {family: [] for family in asked}
    raised: dict[str, str] = {}
    for family, members in asked.items():
        for box in members:
            try:
                said[family].append(str(name_it(box, n, d)))
            except Exception as error:
                raised[family] = f"your code raised {type(error).__name__}: {error}"
    for family, members in asked.items():
        with marks.part(1, POLYNOMIAL):
            observe(family not in raised, f"on a box of {family!r} {raised.get(family)}")
            missed = [repr(name) for name in said[family] if name != family]
            wrong = sorted(set(missed))
            observe(not missed, f"{len(missed)} of {len(members)} boxes of {family!r} were called {' or '.join(wrong)}")
            taken = [other for other, names in said.items() if other != family and family in names]
            observe(not taken, f"{family!r} was also said of boxes of {' and of '.join(map(repr, taken))}")
    return marks


def _shipped() -> list[Answer]:
    names = results.by_depth()["query out"]
    return [boxes.trained(results.model(names[layers]).double()) for layers in (2, 3)]


def _of_lengths(
    tuned: Callable[..., Any], task: LinearRegression, units: float, counts: Sequence[int], seed: int
) -> None:
    given, fresh = _sample(seed, 1024, task, units), _sample(seed + 1, 1024, task, units)
    for count in counts:
        found = numbers(tuned(LinearPrompts(*(part.clone() for part in given)), count), (count,), "the list of lengths")
        least = boxes.loss(boxes.best_steps(given, count), fresh)
        ratio = boxes.loss(boxes.steps(found), fresh) / least
        observe(
            ratio < 1.12,
            f"with {count} step{'s' * (count > 1)}, d = {task.d} and n = {task.n} the loss on new prompts is"
            f" {ratio:.3g} times the least that is possible with lengths from the given ones",
        )


@quiet()
def tuned_lengths(tuned: Callable[..., Any], variant: int) -> float:
    """Return the points of tuned lengths of gradient steps, of 4."""
    marks, rng = Marks(), np.random.default_rng([variant, 1005])
    seed = 5000 + 10 * variant
    with marks.part(2, TRAINING):
        _of_lengths(tuned, LinearRegression(), 1.0, (1, 2, 3), seed)
    with marks.part(2, TRAINING):
        other = LinearRegression(d=6, n=40, kappa=float(rng.uniform(20, 40)))
        _of_lengths(tuned, other, float(rng.uniform(2, 4)), (2, 3), seed + 2)
    return marks.total


@quiet()
def find_sample(find: Callable[..., Any], variant: int) -> float:
    """Return the points of constant and weight of the false sample, of 3."""
    marks, rng = Marks(), np.random.default_rng([variant, 1007])
    for points, wild in ((2, 0.0), (1, 0.015)):
        with marks.part(points, TRAINING):
            for (n, d), weight in product(((50, 10), (30, 8)), (0.0, 0.6, 1.0, 1.8)):
                p, c = _sample(int(rng.integers(10**6)), 512, LinearRegression(n=n, d=d)), rng.uniform(1.0, 1.5)
                answers = boxes.false_sample(c, weight)(p).numpy() * (1 + 0.01 * rng.standard_normal(512))
                answers = np.where(rng.random(512) < wild, 1000 * rng.standard_normal(512), answers)
                copied = LinearPrompts(*(part.clone() for part in p))
                found = numbers(find(copied, torch.as_tensor(answers)), (2,), "the pair of constant and weight")
                said = (
                    f"constant {found[0]:.3g} and weight {found[1]:.3g} were found where {c:.3g} and {weight:.3g} made"
                )
                rest = f" the answers, n = {n}, d = {d}" + (", a few of them wild" if wild else "")
                observe(abs(found[0] / c - 1) < 0.03 and abs(found[1] - weight) < 0.08, said + rest)
    return marks.total


def _cured(cure: Callable[..., Any], answer: Answer, p: LinearPrompts) -> np.ndarray:
    found = numbers(cure(answer, _blind(p)), (len(p.x),), "what is returned")
    observe(bool(found.any()), "what is returned is zero everywhere")
    return found


def _follows(cure: Callable[..., Any], noisy: LinearPrompts) -> None:
    """See that the answers of a model are corrected, also of one that reads half of a noisy context."""
    model = boxes.half_context(1.3, 1.0)
    raw, half, whole = (of(noisy).numpy() for of in (model, boxes.half_context(1.0, 0.0), boxes.false_sample(1.0, 0.0)))
    found, apart = _cured(cure, model, noisy), np.median(abs(whole - half))

    def off(truth: np.ndarray) -> float:
        """Return the median distance of answers to a truth when the best constant, another question, is put to them."""
        scaled = found * (found @ truth) / max(found @ found, np.finfo(float).tiny)
        return float(np.median(abs(scaled - truth)))

    said = "for a model that reads half of a noisy context "
    right = off(half) < 0.5 * apart
    observe(right or off(raw) > 1e-3 * apart, said + "its answers came back as they were, but for a constant")
    observe(right or off(whole) > 0.5 * apart, said + "came back what is nearer to least squares on all of it")
    share = off(half) / np.median(abs(half))
    observe(right, said + f"answers are off by {share:.0%} in the median, whatever constant they are divided by")


@quiet()
def cure(cure: Callable[..., Any], variant: int) -> float:
    """Return the points of answers freed of the false sample, of 5."""
    marks, rng = Marks(), np.random.default_rng([variant, 1008])
    seed, parameters = 8000 + 10 * variant, ((rng.uniform(1.1, 1.5), weight) for weight in (0.4, 1.0, 2.5))
    asked = [(boxes.false_sample(c, weight), weight) for c, weight in parameters]
    p, noisy = _sample(seed, 256), _sample(seed + 1, 256, LinearRegression(noise=3.0))
    with marks.part(2, QUERY):
        for answer, weight in asked:
            ratio = _cured(cure, answer, p) / p.target.numpy()
            spread = float(ratio.std() / abs(ratio.mean()))
            observe(
                spread < 0.02,
                f"with a false sample of weight {weight} answers over truths still spread by {spread:.1%}",
            )
        _follows(cure, noisy)
    with marks.part(2, TRAINING):
        for answer, weight in asked:
            ratio = float(np.median(_cured(cure, answer, p) / p.target.numpy()))
            observe(
                abs(ratio - 1) < 0.02,
                f"with a false sample of weight {weight} the answers are {ratio:.3g} times the truth",
            )
        _follows(cure, noisy)
    with marks.part(1, TRAINING):
        for layers in (5, 6):
            answer = boxes.trained(results.model(results.by_depth()["query in"][layers]).double())
            raw, now = (stats.trim_mean((a - p.target.numpy()) ** 2, CUT) for a in (answer(p), _cured(cure, answer, p)))
            observe(now < raw / 5, f"the loss of a model with {layers} layers is {now / raw:.2g} times what it was")
        _follows(cure, noisy)
    return marks.total
