"""Certificates: verdicts, witnesses recomputed with the decimal module, boxes that run out, enclosures that enclose."""

from __future__ import annotations

import builtins
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tfnewton.theory import certificates, damped_newton, intervals
from tfnewton.theory.certificates import CLAIMS, certify
from tfnewton.theory.intervals import Claim, Region, ball, decide

REFUTED = {"phase_one_sharp", "printed_omega_range", "printed_range", "printed_spectrum"}


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def omega(t: Decimal) -> Decimal:
    return t - (1 + t).ln()


@pytest.fixture(scope="module")
def found() -> dict[str, intervals.Certificate]:
    return {name: certify(name) for name in CLAIMS}


@pytest.mark.parametrize("name", list(CLAIMS))
def test_verdicts(found: dict[str, intervals.Certificate], name: str) -> None:
    certificate = found[name]
    assert certificate.verdict == ("refuted" if name in REFUTED else "proved")
    assert certificate.verdict == CLAIMS[name].expected
    assert (certificate.witness is not None) == (name in REFUTED)
    assert certificate.boxes <= 5000
    assert certificate.statement in str(certificate)


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in REFUTED])
def test_more_than_nothing_is_looked_at(found: dict[str, intervals.Certificate], name: str) -> None:
    assert found[name].boxes >= len(CLAIMS[name].regions)
    assert certify(name, found[name].boxes).verdict == "proved"


def test_witnesses_are_counterexamples_in_exact_arithmetic(found: dict[str, intervals.Certificate]) -> None:
    with localcontext() as context:
        context.prec = 40
        w = {name: {key: decimal(v) for key, v in (found[name].witness or {}).items()} for name in REFUTED}
        lam, theta = w["phase_one_sharp"].values()
        assert lam >= Decimal(1) / 6 - Decimal("1e-38")
        assert 0 <= theta <= Decimal("0.06927")
        assert omega(lam) - omega(-theta) < Decimal("0.01")
        t = w["printed_omega_range"]["t"]
        assert t**2 / (2 - t) > t**2 / (2 * (1 - t))
        c, squared = w["printed_range"].values()
        assert abs(c) <= Decimal("0.06")
        assert squared >= 36 * c**2
        delta = (Decimal(1) / 49 - 12 * c / 7 + squared).sqrt()
        assert -Decimal(1) / 42 + c + omega(-delta) > Decimal("-0.01")
        lam, s = w["printed_spectrum"].values()
        delta = lam / (1 + lam) - s
        assert delta / (1 - delta) < lam


def test_claims_agree_with_plain_floating_point() -> None:
    """The statements, evaluated in numpy on grids that include the ends and the points where both sides vanish."""
    lam, theta = np.meshgrid(np.concatenate([np.linspace(1 / 6, 3, 200), [1e3]]), np.linspace(0, 0.06926, 100))
    star = -theta - np.log1p(-theta)
    assert (lam - np.log1p(lam) - star >= 0.01).all()
    lam, s = np.meshgrid(np.linspace(0, 1 / 6, 201), np.linspace(0, 0.02, 201))
    bound = np.asarray(damped_newton.decrement_bound(lam, s))
    assert (bound <= 2 * lam**2 + 1.75 * s + 1e-15).all()
    t = np.geomspace(1e-2, 1e3, 2000)
    w = t - np.log1p(t)
    assert (t**2 / (2 + 4 * t / 3) <= w).all()
    assert (w <= t**2 / (2 + t)).all()
    r = np.linspace(1e-2, 0.999, 2000)
    star = -r - np.log1p(-r)
    assert (r**2 / (2 - r) <= star).all()
    assert (star <= r**2 / (2 - 2 * r)).all()


# What the boxes cover is what the statement says, and what is decided on them is the statement.

Range = tuple[float, float]
NUMBER = r"(-?[\d./]+)"


def stated(statement: str) -> dict[str, Range]:
    """Read the ranges of a statement: from its last " for " on, without what stands in parentheses at its end.

    What is bounded above alone starts at zero, and so does what is bounded below by no number.
    """
    text = re.sub(r" \([^()]*\)$", "", statement).rpartition(" for ")[2]
    ranges: dict[str, Range] = {}
    for part in text.split(", "):
        if " = " in part:
            continue  # a definition
        if found := re.fullmatch(rf"\|([\w']+)\| <= {NUMBER}", part):
            ranges[found[1]] = (-_number(found[2]), _number(found[2]))
        elif found := re.fullmatch(rf"([\w']+) >= {NUMBER}", part):
            ranges[found[1]] = (_number(found[2]), math.inf)
        else:
            found = re.fullmatch(rf"(?:(?:{NUMBER}|.+) <= )?([\w']+) <=? {NUMBER}", part)
            assert found, f"cannot read {part!r}"
            ranges[found[2]] = (_number(found[1] or "0"), _number(found[3]))
    return ranges


def _number(text: str) -> float:
    return float(Fraction(text))


def covered(regions: tuple[Region, ...]) -> dict[str, Range]:
    """Put the boxes of regions together, 1/t and 1-t read as ranges of t; they may not leave a gap."""
    parts: dict[str, list[Range]] = {}
    for region in regions:
        for name, ends in region.box.items():
            low, high = (float(Fraction(end)) for end in ends)
            if name.startswith("1/"):
                low, high = 1 / high, 1 / low if low else math.inf
            elif name.startswith("1-"):
                low, high = 1 - high, 1 - low
            parts.setdefault(name.removeprefix("1/").removeprefix("1-"), []).append((low, high))
    whole = {}
    for name, intervals_of in parts.items():
        reach = min(low for low, _ in intervals_of)
        start = reach
        for low, high in sorted(intervals_of):
            assert low <= reach, f"a gap of {name} between {reach} and {low}"
            reach = max(reach, high)
        whole[name] = (start, reach)
    return whole


@pytest.mark.parametrize("name", list(CLAIMS))
def test_boxes_cover_what_the_statement_says(name: str) -> None:
    found, ranges = covered(CLAIMS[name].regions), stated(CLAIMS[name].statement)
    if name == "exact_decrease":  # theta is zero for an exact step, and not named
        assert found.pop("theta") == (0.0, 0.0)
    assert set(found) == set(ranges)
    for variable, ends in found.items():
        assert ends == pytest.approx(ranges[variable])


def test_statements_are_read_as_they_are_meant() -> None:
    text = "f for 1/6 <= x <= 1, |c| <= 0.06, c' <= 0.0001, 36 c^2 <= z <= 0.13, t >= 1/4, e = x - 1 (a plot)"
    sixth, plot = (1 / 6, 1.0), (-0.06, 0.06)
    assert stated(text) == {"x": sixth, "c": plot, "c'": (0.0, 1e-4), "z": (0.0, 0.13), "t": (0.25, math.inf)}
    with pytest.raises(AssertionError, match="a gap of t between 1"):
        covered((Region({"t": ("0", "1")}, lambda t: t), Region({"1/t": ("0", "1/2")}, lambda v: v)))


def plain_omega(t: float) -> float:
    return t - math.log1p(t)


def plain_star(t: float) -> float:
    return -t - math.log1p(-t)


def step_bound(x: float, s: float, longest: float) -> float:
    """decrement_bound with the given w."""
    room = 1 - (1 + x) * s
    return (x * longest + (1 + x) ** 2 * s / room) / room


def h(x: float, c: float, squared: float) -> float:
    delta = math.sqrt((x / (1 + x)) ** 2 - 2 * c / (1 + x) + squared)
    return -(x**2) / (1 + x) + c - math.log(1 - delta) - delta


def slope(x: float, c: float, squared: float) -> float:
    return (h(x + 1e-5, c, squared) - h(x - 1e-5, c, squared)) / 2e-5


def fall(amount: float) -> list[Callable[..., float]]:
    def excess(x: float, theta: float) -> float:
        return amount - plain_omega(x) + plain_star(theta)

    return [excess, lambda v, theta: v * excess(1 / v, theta)]


def over(t: float) -> float:  # by which the lower bound of omega exceeds it
    return t**2 / (2 * (1 + 2 * t / 3)) - plain_omega(t)


def under(t: float) -> float:
    return plain_omega(t) - t**2 / (2 + t)


# Left side less right side of each statement, times what the region says.
EXCESS: dict[str, list[Callable[..., float]]] = {
    "phase_one": fall(0.01),
    "phase_one_sharp": fall(0.01),
    "exact_decrease": fall(0.02),
    "phase_two": [
        lambda x, s: (step_bound(x, s, x + x / (1 + x) + s) - 2 * x**2 - 1.75 * s + x**3 / (1 + x)) / s,
        lambda x, s: (step_bound(x, s, (1 + x) ** 2 * s / (1 - (1 + x) * s)) - 1.75 * s) / s,
    ],
    "phase_two_stays": [lambda x, s: 2 * x**2 + 1.75 * s - 1 / 6],
    "decrement_falls": [lambda x: (x**2 * (2 + x) / (1 + x) - x) / x],
    "omega_lower": [lambda t: over(t) * 2 * (1 + 2 * t / 3) / t**4, over, lambda v: v * over(1 / v)],
    "omega_upper": [lambda t: under(t) * (2 + t) / t**3, under, lambda v: under(1 / v)],
    "omega_star_lower": [
        lambda t: (t**2 / (2 - t) - plain_star(t)) * (2 - t) / t**3,
        lambda r: (1 - r) ** 2 / (1 + r) - plain_star(1 - r),
    ],
    "omega_star_upper": [
        lambda t: (plain_star(t) - t**2 / (2 * (1 - t))) * 2 * (1 - t) / t**3,
        lambda r: r * plain_star(1 - r) - (1 - r) ** 2 / 2,
    ],
    "printed_omega_range": [lambda t: t**2 / (2 - t) - t**2 / (2 - 2 * t)],
    "printed_slope": [lambda *at: slope(*at) + 0.02],
    "printed_slope_sharper": [lambda *at: slope(*at) + 0.13],
    "printed_decrease": [lambda c, z: h(1 / 6, c, z) + 0.01],
    "printed_range": [lambda c, z: h(1 / 6, c, z) + 0.01],
    "printed_spectrum": [lambda x, s: x - (x / (1 + x) - s) / (1 - x / (1 + x) + s)],
}


# The same in the words of the claims, without their ranges.
WORDS = {
    "phase_one": "omega(lambda) - omega_*(theta) >= 0.01",
    "phase_one_sharp": "omega(lambda) - omega_*(theta) >= 0.01",
    "exact_decrease": "omega(lambda) >= 0.02",
    "phase_two": "decrement_bound(lambda, s) <= 2 lambda^2 + 1.75 s",
    "phase_two_stays": "2 lambda^2 + 1.75 s <= 1/6",
    "decrement_falls": "lambda^2 (2+lambda)/(1+lambda) <= lambda",
    "omega_lower": "t^2/(2(1+2t/3)) <= omega(t)",
    "omega_upper": "omega(t) <= t^2/(2+t)",
    "omega_star_lower": "t^2/(2-t) <= omega_*(t)",
    "omega_star_upper": "omega_*(t) <= t^2/(2(1-t))",
    "printed_omega_range": "t^2/(2-t) <= t^2/(2(1-t))",
    "printed_slope": "h'(x) <= -0.02",
    "printed_slope_sharper": "h'(x) <= -0.13",
    "printed_decrease": "h(1/6) <= -0.01",
    "printed_range": "h(1/6) <= -0.01",
    "printed_spectrum": "0 <= delta/(1-delta) - lambda for delta = lambda/(1+lambda) - s",
}


@pytest.mark.parametrize("name", list(CLAIMS))
def test_what_is_decided_is_the_statement(name: str) -> None:
    assert re.match(re.escape(WORDS[name]) + r"( for|,)", CLAIMS[name].statement)
    rng = np.random.default_rng(0)
    for region, excess in zip(CLAIMS[name].regions, EXCESS[name], strict=True):
        ends = [tuple(float(Fraction(end)) for end in pair) for pair in region.box.values()]
        inside = 0
        for _ in range(200):
            point = [low + (high - low) * rng.uniform(0.05, 0.95) for low, high in ends]
            balls = [ball(Fraction(value)) for value in point]
            if region.domain is None or region.domain(*balls) >= ball("1/100000"):
                inside += 1
                assert float(region.excess(*balls)) == pytest.approx(excess(*point), rel=1e-6, abs=1e-6)
        assert inside >= 20


@pytest.mark.parametrize(
    ("x", "c", "squared"), [(0.2, 0.01, 0.0), (0.5, -0.05, 1e-4), (1.0, 0.06, 0.0), (1 / 6, -0.02, 5e-5)]
)
def test_printed_derivative_is_that_of_the_printed_function(x: float, c: float, squared: float) -> None:
    difference = slope(x, c, squared)
    (region,) = CLAIMS["printed_slope"].regions
    excess = region.excess(*(ball(Fraction(value)) for value in (x, c, squared)))
    assert float(excess) - 0.02 == pytest.approx(difference, abs=1e-8)


# The engine


def claim(low: str, high: str, shift: str) -> Claim:
    """x^2 <= shift on [low, high]."""
    return Claim("x^2 <= shift", (Region({"x": (low, high)}, lambda x: x * x - ball(shift)),))


def test_a_false_inequality_is_refuted_inside_the_box() -> None:
    """x (1-x) <= 6/25 fails only on (2/5, 3/5), far from the corners."""
    false = Claim("x(1-x) <= 6/25", (Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("6/25")),))
    certificate = decide("false", false)
    assert certificate.verdict == "refuted"
    assert certificate.witness is not None
    x = certificate.witness["x"]
    assert x * (1 - x) > Fraction(6, 25)
    assert "at x = " in str(certificate)


def test_a_true_inequality_is_proved_and_needs_more_boxes_the_tighter_it_is() -> None:
    loose = decide("true", Claim("", (Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("2")),)))
    tight = decide("true", Claim("", (Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("0.2501")),)))
    assert loose.verdict == tight.verdict == "proved"
    assert loose.boxes == 1 < tight.boxes


def test_boxes_may_run_out() -> None:
    assert certify("omega_lower", max_boxes=5).verdict == "undecided"
    attained = Claim("x (1-x) <= 1/4", (Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("1/4")),))
    certificate = decide("attained", attained, max_boxes=200)
    assert (certificate.verdict, certificate.boxes, certificate.witness) == ("undecided", 200, None)


def test_a_later_region_can_refute_what_an_earlier_one_leaves_open() -> None:
    regions = (*claim("0", "1", "1").regions, *claim("0", "2", "3").regions)
    certificate = decide("both", Claim("", regions), max_boxes=1)
    assert certificate.verdict == "refuted"
    assert certificate.witness == {"x": Fraction(2)}


@pytest.mark.parametrize("order", [1, -1])
def test_a_region_left_open_leaves_the_claim_open(order: int) -> None:
    """One region is proved by the first box, the other, where equality holds inside, by no number of boxes."""
    proved = Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("2"))
    attained = Region({"x": ("0", "1")}, lambda x: x * (1 - x) - ball("1/4"))
    certificate = decide("both", Claim("", (proved, attained)[::order]), max_boxes=50)
    assert (certificate.verdict, certificate.witness) == ("undecided", None)
    assert decide("one", Claim("", (proved, proved)), max_boxes=50).verdict == "proved"


def test_only_points_of_the_domain_count() -> None:
    inside = Region({"x": ("0", "2")}, lambda x: x * x - ball("5/4"), domain=lambda x: 1 - x)
    assert decide("inside", Claim("", (inside,))).verdict == "proved"
    assert decide("outside", claim("0", "2", "5/4")).verdict == "refuted"


def test_where_the_excess_is_undefined_nothing_is_proved() -> None:
    undefined = Region({"x": ("-1", "1")}, lambda x: x.log() - ball("1"))
    assert decide("undefined", Claim("", (undefined,)), max_boxes=100).verdict == "undecided"


def test_functions_on_balls_enclose_their_values() -> None:
    rng = np.random.default_rng(0)
    for low, high in np.sort(rng.uniform(-0.5, 0.5, (50, 2)), axis=1):
        t = ball(Fraction(low)).union(ball(Fraction(high)))
        positive = ball("0").union(ball(Fraction(high - low)))
        for part in rng.random(10):
            x, v = low + part * (high - low), part * (high - low)
            assert _contains(intervals.omega(t), x - math.log1p(x))
            assert _contains(intervals.omega_star(t), -x - math.log1p(-x))
            assert _contains(intervals.entropy(positive), -v * math.log(v))
            assert _contains(intervals.root(positive), math.sqrt(v))
            assert float(intervals.log_upper(positive)) >= math.log(v) - 1e-12
            u = np.linspace(0, 1, 2001)
            assert _contains(intervals.log_mean(3, t), float(np.trapezoid(u**2 / (1 + u * x), u)), 1e-6)


def _contains(enclosure: intervals.Ball, value: float, tolerance: float = 1e-12) -> bool:
    return bool(float(enclosure.lower()) - tolerance <= value <= float(enclosure.upper()) + tolerance)


def test_series_meets_the_function_it_divides() -> None:
    t = ball("1/4")
    assert float(t**2 * intervals.log_mean(2, t)) == pytest.approx(0.25 - math.log(1.25), abs=1e-16)
    assert float(intervals.log_mean(4, ball("0"))) == 0.25


# Command line and refusals


def test_command_prints_a_line_each_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert certificates.report()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(CLAIMS)
    assert all("proved" in line or "refuted" in line for line in lines)


def test_command_fails_on_an_unexpected_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(certificates, "CLAIMS", {"false": claim("0", "2", "3")})
    assert not certificates.report()
    assert capsys.readouterr().out.startswith("false: refuted (0 boxes, at x = 2)")


def test_refusals() -> None:
    with pytest.raises(ValueError, match="name = 'nothing'"):
        certify("nothing")
    with pytest.raises(ValueError, match="max_boxes = 0"):
        certify("phase_one", 0)


def test_missing_flint_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name == "flint":
            raise ImportError(name)
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "flint", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"tfnewton\[science\]"):
        certify("phase_one")
