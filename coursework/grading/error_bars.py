"""Hidden checks of error bars: a student's interval and comparison, repeated on draws of known law.

The truth is scipy's: the trimmed mean of a law is an integral of its quantiles.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import stats

from grading.marks import Marks, observe

__all__ = ["CUT", "compare", "followed_through", "numbers", "trimmed_interval"]

TRAINING = "chapter 9, Training linear attention"
CALLS, CUT = 300, 0.05
LIGHT = ((stats.expon(), 120), (stats.chi2(1), 300))
HEAVY = ((stats.lognorm(2.0), 120), (stats.pareto(0.8), 300))


def numbers(found: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return what a student's function gave, as finite float64 numbers of this shape; else say what it gave."""
    value = np.asarray(found.detach() if hasattr(found, "detach") else found, dtype=np.float64)
    observe(value.shape == shape, f"{what} has the shape {value.shape}, and not {shape}")
    observe(bool(np.isfinite(value).all()), f"{what} is not finite everywhere")
    return value


@contextmanager
def followed_through(function: Callable[..., Any], **right: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, ``function`` finds right functions of earlier tasks by these names: a mistake costs its own task.

    Names that the submission does not have are left alone.
    """
    scope = getattr(function, "__globals__", {})
    before = {name: scope[name] for name in right if name in scope}
    scope.update({name: right[name] for name in before})
    try:
        yield
    finally:
        scope.update(before)


def _interval(errors: Any, *_: Any, **__: Any) -> tuple[float, float]:
    """Return the interval by the winsorised variance (Tukey and McLaughlin 1963)."""
    inner = np.sort(np.asarray(errors, dtype=np.float64))
    cut = int(CUT * len(inner))
    half = 1.96 * np.clip(inner, inner[cut], inner[-1 - cut]).std() / ((1 - 2 * CUT) * len(inner) ** 0.5)
    middle = inner[cut : len(inner) - cut].mean()
    return float(middle - half), float(middle + half)


def _covers(interval: Callable[[np.ndarray], Any], laws: Sequence[tuple[Any, int]], least: float) -> None:
    hits, widths, began = [], [], time.perf_counter()
    for law, count in laws:
        truth = law.ppf(CUT + (1 - 2 * CUT) * (np.arange(100_000) + 0.5) / 100_000).mean()
        draws = law.rvs((CALLS // len(laws), count), random_state=np.random.default_rng(count))
        for errors in draws:
            low, high = numbers(interval(errors.copy()), (2,), "the interval")
            hits.append(low <= truth <= high)
            widths.append((high - low) / float(np.diff(_interval(errors))[0]))
            observe(time.perf_counter() - began < 20, f"{len(hits)} calls took more than 20 seconds")
    share, width = float(np.mean(hits)), float(np.median(widths))
    observe(share >= least, f"the interval held the true trimmed mean in {share:.0%} of {len(hits)} repetitions")
    observe(width < 1.4, f"the interval is {width:.1f} times as long as it need be")


def trimmed_interval(interval: Callable[[np.ndarray], Any]) -> float:
    """Return the points of an interval for a trimmed mean, of 5."""
    marks = Marks()
    with marks.part(2, TRAINING):
        _covers(interval, LIGHT, 0.915)
    with marks.part(2, TRAINING):
        _covers(interval, HEAVY, 0.90)
    with marks.part(1, TRAINING):
        errors = np.random.default_rng(5).exponential(size=200)
        plain = numbers(interval(errors.copy()), (2,), "the interval")
        other = numbers(interval(1000 * errors[::-1]), (2,), "the interval")
        observe(plain[0] < plain[1], "the lower end is not below the upper one")
        far = abs(other / 1000 - plain).max() / (plain[1] - plain[0])
        observe(
            far < 0.3,
            "errors a thousand times as large, in another order, do not have the same interval a thousandfold",
        )
    return marks.total


def _verdicts(compare: Callable[..., Any], draw: Callable[[np.random.Generator], Any], calls: int) -> Counter[str]:
    source, found = np.random.default_rng(11), Counter[str]()
    for number in range(calls):
        pair = draw(source)
        turned = number % 2 == 1  # the better one comes first and second in turn
        said = compare(*(e.copy() for e in pair[:: -1 if turned else 1]))
        found[{"first": "second", "second": "first"}.get(said, said) if turned else said] += 1
    return found


def _pair(factor: float, hard: float, own: float = 0.3) -> Callable[[np.random.Generator], Any]:
    def draw(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        shared, mine, yours = source.standard_normal((3, 400))
        return np.exp(hard * shared + own * mine), factor * np.exp(hard * shared + own * yours)

    return draw


def _few_but_large(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Errors of which the second wins three times in five and loses in the mean."""
    first = np.exp(0.5 * source.standard_normal(400))
    return first, first * np.where(source.random(400) < 0.6, 0.9, 1.8)


def compare(compare: Callable[..., Any]) -> float:
    """Return the points of a comparison of two models, of 4."""
    with followed_through(compare, trimmed_interval=_interval):
        return _compared(compare)


def _compared(compare: Callable[..., Any]) -> float:
    marks = Marks()
    with marks.part(1, TRAINING):
        found = _verdicts(compare, _pair(0.85, 1.5), 60)["second"]
        observe(found >= 54, f"a loss smaller by 15 percent on the same 400 prompts was seen in {found} of 60 pairs")
    with marks.part(2, TRAINING):
        clear = _verdicts(compare, _pair(0.25, 1.0), 20)["second"]
        observe(clear >= 19, f"a loss four times as small was seen in {clear} of 20 pairs")
        wrong = 200 - _verdicts(compare, _pair(1.0, 1.5), 200)["open"]
        observe(
            wrong <= 20, f"of 200 pairs of equally good models {wrong} were told apart, where 10 are to be expected"
        )
    with marks.part(1, TRAINING):
        found = _verdicts(compare, _few_but_large, 40)["first"]
        observe(found >= 36, f"where the larger loss wins more prompts, the smaller loss was named {found} times of 40")
    return marks.total
