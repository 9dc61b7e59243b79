"""Certificates: verdicts, witnesses recomputed with the decimal module, boxes that run out, enclosures that enclose."""

from __future__ import annotations

import builtins
import math
import sys
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


@pytest.mark.parametrize(
    ("x", "c", "squared"), [(0.2, 0.01, 0.0), (0.5, -0.05, 1e-4), (1.0, 0.06, 0.0), (1 / 6, -0.02, 5e-5)]
)
def test_printed_derivative_is_that_of_the_printed_function(x: float, c: float, squared: float) -> None:
    def h(x: float) -> float:
        delta = math.sqrt((x / (1 + x)) ** 2 - 2 * c / (1 + x) + squared)
        return -(x**2) / (1 + x) + c - math.log(1 - delta) - delta

    difference = (h(x + 1e-5) - h(x - 1e-5)) / 2e-5
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
