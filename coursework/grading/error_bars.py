"""Hidden checks of error bars: a student's interval and comparison, repeated on draws of known law.

The truth is scipy's: the trimmed mean of a law is an integral of its quantiles.
"""

from __future__ import annotations

import io
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np
from scipy import stats

from grading.marks import Marks, WrongError, observe

__all__ = ["CUT", "compare", "followed_through", "numbers", "quiet", "trimmed_interval"]

TRAINING = "chapter 9, Training linear attention"
CALLS, CUT = 300, 0.05
VERDICTS = ("first", "second", "open")
LIGHT = ((stats.expon(), 120), (stats.chi2(1), 300))
HEAVY = ((stats.lognorm(2.0), 120), (stats.pareto(0.8), 300))


def numbers(found: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return what a student's function gave, as finite float64 numbers of this shape; else say what it gave."""
    try:
        value = np.asarray(found.detach() if hasattr(found, "detach") else found)
        value = value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)
    except (RuntimeError, TypeError, ValueError):
        raise WrongError(f"{what} does not consist of numbers") from None
    observe(value.shape == shape, f"{what} has the shape {value.shape}, and not {shape}")
    observe(not np.imag(value).any(), f"{what} has complex entries")
    observe(bool(np.isfinite(value).all()), f"{what} is not finite everywhere")
    return np.asarray(value.real)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings from stderr: nbgrader takes whatever a graded cell writes there for an error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def followed_through(check: Callable[[], Marks], function: Callable[..., Any], **right: Callable[..., Any]) -> float:
    """Return the points of a check that calls ``function``, so that a mistake in an earlier task costs that task only.

    The submission's own functions of earlier tasks come first. If points are missing then, the check is repeated with
    right ones in the places of those that the submission has; the better of both counts, and says its messages.
    """
    scope = getattr(function, "__globals__", {})
    before = {name: scope[name] for name in right if name in scope}
    own, said = _heard(check)
    if own.given < own.possible and before:
        scope.update({name: right[name] for name in before})
        try:
            helped, other = _heard(check)
        finally:
            scope.update(before)
        if helped.given > own.given:
            names = " and ".join(f"`{name}`" for name in before)
            own, said = helped, f"With a right {names} in place of yours, which earns more:\n{other}"
    print(said, end="")
    return own.total


def _heard(check: Callable[[], Marks]) -> tuple[Marks, str]:
    """Return the marks of a check, and what it printed."""
    with redirect_stdout(io.StringIO()) as out:
        marks = check()
    return marks, out.getvalue()


def _interval(errors: Any, *_: Any, **__: Any) -> tuple[float, float]:
    """Return the interval by the winsorised variance (Tukey and McLaughlin 1963)."""
    inner = np.sort(np.asarray(errors, dtype=np.float64))
    cut = int(CUT * len(inner))
    half = 1.96 * np.clip(inner, inner[cut], inner[-1 - cut]).std() / ((1 - 2 * CUT) * len(inner) ** 0.5)
    middle = inner[cut : len(inner) - cut].mean()
    return float(middle - half), float(middle + half)


def _in_time(began: float, calls: int, done: int) -> None:
    """Hold calls to twice the time stated and two seconds; of the processor, which others' programs do not use up.

    So what is too slow still has its message before nbgrader stops the cell.
    """
    took = time.process_time() - began
    observe(took < 2 + 0.04 * calls, f"{done} calls took {took:.1f} seconds, where 20 ms each are asked for")


def _covers(interval: Callable[[np.ndarray], Any], laws: Sequence[tuple[Any, int]], least: float) -> None:
    hits, widths, began = [], [], time.process_time()
    for law, count in laws:
        truth = law.ppf(CUT + (1 - 2 * CUT) * (np.arange(100_000) + 0.5) / 100_000).mean()
        draws = law.rvs((CALLS // len(laws), count), random_state=np.random.default_rng(count))
        for errors in draws:
            low, high = numbers(interval(errors.copy()), (2,), "the interval")
            hits.append(low <= truth <= high)
            widths.append((high - low) / float(np.diff(_interval(errors))[0]))
            _in_time(began, CALLS, len(hits))
    share, width = float(np.mean(hits)), float(np.median(widths))
    observe(
        share >= least, f"the interval held the true trimmed mean in {share:.0%} of {len(hits)} draws, not in about 95%"
    )
    observe(width < 1.4, f"the interval is {width:.1f} times as long as it need be")


@quiet()
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
    source, found, began = np.random.default_rng(11), Counter[str](), time.process_time()
    for number in range(calls):
        pair = draw(source)
        turned = number % 2 == 1  # the better one comes first and second in turn
        said = compare(*(e.copy() for e in pair[:: -1 if turned else 1]))
        observe(isinstance(said, str) and said in VERDICTS, f"{said!r} was returned, which is no verdict")
        found[{"first": "second", "second": "first"}.get(said, said) if turned else said] += 1
        _in_time(began, calls, number + 1)
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


def _few_but_far(source: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Errors of which the first has the smaller trimmed mean: 4 in 100 are smaller by far, the others a little larger.

    The trimmed mean of the differences has the other sign, as it cuts the few off; so has the mean difference of the
    logarithms, as three errors in ten are small; so has that of the plain means, as both have 3 in 100 beyond the cut.
    """
    at = source.random(1000)
    second = np.where(at < 0.3, 0.5 + 2 * at, 50 + 50 * at)
    first = np.where((at > 0.5) & (at < 0.54), second - 60, second + 0.5)
    return np.where(at > 0.97, 10 * second, first), second


@quiet()
def compare(compare: Callable[..., Any]) -> float:
    """Return the points of a comparison of two models, of 4."""
    return followed_through(lambda: _compared(compare), compare, trimmed_interval=_interval)


def _compared(compare: Callable[..., Any]) -> Marks:
    marks = Marks()
    with marks.part(1, TRAINING):
        found = _verdicts(compare, _pair(0.85, 1.5), 20)["second"]
        observe(found >= 17, f"a loss smaller by 15 percent on the same 400 prompts was seen in {found} of 20 pairs")
    with marks.part(2, TRAINING):
        clear = _verdicts(compare, _pair(0.25, 1.0), 10)["second"]
        observe(clear >= 9, f"a loss four times as small was seen in {clear} of 10 pairs")
        wrong = 100 - _verdicts(compare, _pair(1.0, 1.5), 100)["open"]
        observe(wrong <= 12, f"of 100 pairs of equally good models {wrong} were told apart, where 5 are to be expected")
    with marks.part(1, TRAINING):
        found = _verdicts(compare, _few_but_large, 20)["first"]
        observe(found >= 17, f"where the larger loss wins more prompts, the smaller loss was named {found} times of 20")
        wrong = _verdicts(compare, _few_but_far, 20)["second"]
        observe(
            wrong <= 2, f"in {wrong} of 20 pairs the model with the larger trimmed mean was named as the better one"
        )
    return marks
