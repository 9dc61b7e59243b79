"""Inequalities between scalar functions decided on boxes by interval arithmetic (balls of python-flint, 100 bits).

A claim is a list of regions: boxes of real variables on each of which an ``excess`` must not be positive. Boxes are
halved until the excess is shown to be at most zero on each of them, or positive at a rational point, the witness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from tfnewton import checks

__all__ = [
    "MAX_BOXES",
    "Ball",
    "Certificate",
    "Claim",
    "Region",
    "ball",
    "decide",
    "entropy",
    "log_mean",
    "log_upper",
    "omega",
    "omega_star",
    "root",
]

Ball = Any  # flint.arb
Box = tuple[tuple[Fraction, Fraction], ...]
Verdict = Literal["proved", "refuted", "undecided"]

MAX_BOXES = 20_000
PRECISION = 100
TERMS = 60  # of the series of the logarithm, used for |t| <= 1/2


@dataclass(frozen=True)
class Region:
    """excess(*variables) <= 0 for all variables in ``box`` with domain(*variables) >= 0.

    ``box`` maps each variable to its ends, as exact text such as "1/6" or "0.02". ``excess`` and ``domain`` take balls
    and return one; an excess may be any function whose upper end bounds the stated one on the ball.
    """

    box: dict[str, tuple[str, str]]
    excess: Callable[..., Ball]
    domain: Callable[..., Ball] | None = None


@dataclass(frozen=True)
class Claim:
    """A statement, the regions that make it up and the verdict that is expected."""

    statement: str
    regions: tuple[Region, ...]
    expected: Verdict = "proved"


@dataclass(frozen=True)
class Certificate:
    """What became of a claim; ``witness`` gives the variables of a counterexample exactly."""

    name: str
    statement: str
    verdict: Verdict
    boxes: int
    witness: dict[str, Fraction] | None = None

    def __str__(self) -> str:
        at = ", ".join(f"{variable} = {value}" for variable, value in (self.witness or {}).items())
        counter = f", at {at}" if at else ""
        return f"{self.name}: {self.verdict} ({self.boxes} boxes{counter}): {self.statement}"


def decide(name: str, claim: Claim, max_boxes: int = MAX_BOXES) -> Certificate:
    """Decide any claim, looking at no more than ``max_boxes`` boxes; undecided when they do not suffice."""
    max_boxes = checks.integer("max_boxes", max_boxes, minimum=1)
    used = 0
    verdicts: list[Verdict] = []
    with _flint().ctx.workprec(PRECISION):
        for region in claim.regions:
            verdict, boxes, point = _decide(region, max_boxes - used)
            used += boxes
            verdicts.append(verdict)
            if point is not None:
                witness = dict(zip(region.box, point, strict=True))
                return Certificate(name, claim.statement, "refuted", used, witness)
    proved = all(verdict == "proved" for verdict in verdicts)
    return Certificate(name, claim.statement, "proved" if proved else "undecided", used)


def _decide(region: Region, max_boxes: int) -> tuple[Verdict, int, tuple[Fraction, ...] | None]:
    whole: Box = tuple((Fraction(low), Fraction(high)) for low, high in region.box.values())
    for corner in product(*whole):
        if _violated(region, corner):
            return "refuted", 0, corner
    queue: deque[Box] = deque([whole])
    boxes = 0
    while queue:
        if boxes >= max_boxes:
            return "undecided", boxes, None
        box = queue.popleft()
        boxes += 1
        balls = [ball(low).union(ball(high)) for low, high in box]
        if region.excess(*balls) <= 0 or (region.domain is not None and region.domain(*balls) < 0):
            continue
        middle = tuple((low + high) / 2 for low, high in box)
        if _violated(region, middle):
            return "refuted", boxes, middle
        k = max(range(len(box)), key=lambda i: (box[i][1] - box[i][0]) / ((whole[i][1] - whole[i][0]) or 1))
        for half in ((box[k][0], middle[k]), (middle[k], box[k][1])):
            queue.append((*box[:k], half, *box[k + 1 :]))
    return "proved", boxes, None


def _violated(region: Region, point: tuple[Fraction, ...]) -> bool:
    balls = [ball(value) for value in point]
    inside = region.domain is None or region.domain(*balls) >= 0
    return bool(inside and region.excess(*balls) > 0)


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise ImportError('certificates need python-flint: pip install "tfnewton[science]"') from error
    return flint


def ball(value: Fraction | str) -> Ball:
    """Return a ball that contains the exact number, given as a fraction or as text such as "1/6" or "0.02"."""
    flint = _flint()
    exact = Fraction(value)
    return flint.arb(flint.fmpq(exact.numerator, exact.denominator))


def omega(t: Ball) -> Ball:
    """Return t - ln(1+t) for t > -1, from the ends of the ball: it decreases up to its zero at 0 and increases then."""
    low, high = t.lower(), t.upper()
    ends = (low - low.log1p()).union(high - high.log1p())
    return ends if low >= 0 or high <= 0 else ends.union(ball("0"))


def omega_star(t: Ball) -> Ball:
    """Return -t - ln(1-t)."""
    return omega(-t)


def log_mean(m: int, t: Ball) -> Ball:
    """Return the integral of s^(m-1)/(1+st) over s in [0, 1], for |t| <= 1/2: ln(1+t) = t - t^2/2 + ... from t^m on.

    The series sum_j (-t)^j/(m+j) with its geometric remainder; omega(t) = t^2 times the value at m = 2, and the value
    at m is 1/m - t times the value at m + 1.
    """
    total = ball(Fraction(0))
    for j in reversed(range(TERMS)):
        total = total * -t + ball(Fraction(1, m + j))
    size = abs(t).upper()
    rest = size**TERMS / (1 - size)
    return total + (-rest).union(rest)


def entropy(v: Ball) -> Ball:
    """Return -v ln v on [0, 1], which is 0 at 0, increases up to v = 1/e and is at most 1/e."""
    if v > 0:
        return -v * v.log()
    end = v.upper()
    inverse_e = ball("-1").exp()
    return ball("0").union(-end * end.log() if end < inverse_e else inverse_e)


def log_upper(v: Ball) -> Ball:
    """Return an upper bound of ln v for v > 0, all that an excess needs; v may touch 0."""
    return v.upper().log()


def root(t: Ball) -> Ball:
    """Return the square root of the part of t that is not negative (which must exist)."""
    low = t.lower()
    return (low if low > 0 else ball("0")).sqrt().union(t.upper().sqrt())
