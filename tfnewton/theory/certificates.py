"""The scalar inequalities of the convergence proof, decided by interval arithmetic where the paper looks at a plot.

``tfnewton certify`` prints them all. Unbounded ranges are made finite by v = 1/t; where both
sides vanish together their common factor is divided out by hand, as stated beside the claim, so that no neighbourhood
of such a point is left out. omega(t) = t - ln(1+t), omega_*(t) = -t - ln(1-t); lambda, s, theta, delta and ell as in
``tfnewton.theory.damped_newton``.
"""

from __future__ import annotations

from tfnewton import checks
from tfnewton.theory.intervals import (
    MAX_BOXES,
    Ball,
    Certificate,
    Claim,
    Region,
    ball,
    decide,
    entropy,
    log_mean,
    log_upper,
    omega,
    omega_star,
    root,
)

__all__ = ["CLAIMS", "MAX_BOXES", "certify", "report"]


def certify(name: str, max_boxes: int = MAX_BOXES) -> Certificate:
    """Decide the claim called ``name``, a key of CLAIMS, looking at no more than ``max_boxes`` boxes.

    Raises ValueError for an unknown name or max_boxes < 1, ImportError where python-flint is missing.
    """
    return decide(name, CLAIMS[checks.choice("name", name, list(CLAIMS))], max_boxes)


def report() -> bool:
    """Print every certificate; return whether each verdict is the expected one."""
    found = [certify(name) for name in CLAIMS]
    print("\n".join(map(str, found)))
    return all(certificate.verdict == CLAIMS[certificate.name].expected for certificate in found)


def _decrease(lam: str, theta: str, amount: str) -> tuple[Region, ...]:
    """Return omega(lambda) - omega_*(theta) >= ``amount`` for all lambda >= ``lam`` and theta up to ``theta``.

    Beyond lambda = 2 with v = 1/lambda and times v: v omega(1/v) = 1 - v ln(1+v) + v ln v.
    """
    return (
        Region({"lambda": (lam, "2"), "theta": ("0", theta)}, lambda x, t: omega_star(t) + ball(amount) - omega(x)),
        Region(
            {"1/lambda": ("0", "1/2"), "theta": ("0", theta)},
            lambda v, t: v * (omega_star(t) + ball(amount)) - 1 + v * v.log1p() + entropy(v),
        ),
    )


def _phase_two(x: Ball, s: Ball) -> Ball:
    """Return K with decrement_bound - 2 lambda^2 - 1.75 s = -lambda^3/(1+lambda) + s K, if its w is lambda + ell + s.

    With theta = (1+lambda) s, 1/(1-theta) = 1 + theta/(1-theta) splits lambda (lambda+ell+s)/(1-theta), where
    lambda + ell = lambda (2+lambda)/(1+lambda), into lambda^2 (2+lambda)/(1+lambda) and terms with a factor s.
    """
    room = 1 - (1 + x) * s
    return (x**2 * (2 + x) + x) / room + ((1 + x) / room) ** 2 - ball("1.75")


def _phase_two_small(x: Ball, s: Ball) -> Ball:
    """Return K with decrement_bound - 1.75 s = s K, if its w is (1+lambda) theta/(1-theta)."""
    return (1 + x) ** 3 / (1 - (1 + x) * s) ** 2 - ball("1.75")


def _printed_step(x: Ball, c: Ball, squared: Ball) -> Ball:
    """Return the delta^2 of app:auxiliary-constant-decrease, with c = eps·grad g and c' = ||eps||_G^2."""
    q = 1 / (1 + x)
    return (1 - q) ** 2 - 2 * c * q + squared


def _printed_slope(x: Ball, c: Ball, squared: Ball) -> Ball:
    """Return h'(x) of app:auxiliary-constant-decrease, rearranged so that q = 1/(1+x) occurs less often."""
    q = 1 / (1 + x)
    return q**2 * (1 + c - q) / (1 - root(_printed_step(x, c, squared))) - 1 + q**2


def _printed_decrease(c: Ball, squared: Ball) -> Ball:
    """Return h(1/6) + 0.01 of app:auxiliary-constant-decrease."""
    delta = root(_printed_step(ball("1/6"), c, squared))
    return ball("0.01") - ball("1/42") + c + omega_star(delta)


def _printed_spectrum(x: Ball, s: Ball) -> Ball:
    delta = x / (1 + x) - s
    return x - delta / (1 - delta)


_SMALL = {"lambda": ("0", "1/6"), "s": ("0", "0.02")}
_PLOT = {"x": ("1/6", "1"), "c": ("-0.06", "0.06"), "c'": ("0", "0.0001")}

CLAIMS: dict[str, Claim] = {
    "phase_one": Claim(
        "omega(lambda) - omega_*(theta) >= 0.01 for lambda >= 1/6, theta <= 0.06926",
        _decrease("1/6", "0.06926", "0.01"),
    ),
    "phase_one_sharp": Claim(
        "omega(lambda) - omega_*(theta) >= 0.01 for lambda >= 1/6, theta <= 0.06927",
        _decrease("1/6", "0.06927", "0.01"),
        expected="refuted",
    ),
    "exact_decrease": Claim(
        "omega(lambda) >= 0.02 for lambda >= 1/4 (the decrease quoted in ss:logistic)",
        _decrease("1/4", "0", "0.02"),
    ),
    "phase_two": Claim(
        "decrement_bound(lambda, s) <= 2 lambda^2 + 1.75 s for lambda <= 1/6, s <= 0.02",
        (Region(_SMALL, _phase_two), Region(_SMALL, _phase_two_small)),
    ),
    "phase_two_stays": Claim(
        "2 lambda^2 + 1.75 s <= 1/6 for lambda <= 1/6, s <= 0.02",
        (Region(_SMALL, lambda x, s: 2 * x**2 + ball("1.75") * s - ball("1/6")),),
    ),
    "decrement_falls": Claim(
        "lambda^2 (2+lambda)/(1+lambda) <= lambda for lambda <= 0.618 (divided by lambda)",
        (Region({"lambda": ("0", "0.618")}, lambda x: x * (2 + x) / (1 + x) - 1),),
    ),
    # Lemma lem:bound-on-omega. L_m = log_mean(m, t): omega = t^2 L_2 and L_m = 1/m - t L_(m+1).
    "omega_lower": Claim(
        "t^2/(2(1+2t/3)) <= omega(t) for t >= 0 (lem:bound-on-omega)",
        (
            # times 2(1+2t/3)/t^4
            Region({"t": ("0", "1/2")}, lambda t: ball("4/9") - 2 * log_mean(4, t) * (1 + 2 * t / 3)),
            Region({"t": ("1/2", "4")}, lambda t: t**2 / (2 + 4 * t / 3) - omega(t)),
            # v = 1/t: ln(1+t) <= (t^2+6t)/(4t+6), times v
            Region({"1/t": ("0", "1/4")}, lambda v: v * v.log1p() + entropy(v) - (1 + 6 * v) / (4 + 6 * v)),
        ),
    ),
    "omega_upper": Claim(
        "omega(t) <= t^2/(2+t) for t >= 0 (lem:bound-on-omega)",
        (
            # times (2+t)/t^3
            Region({"t": ("0", "1/2")}, lambda t: ball("1/2") - (2 + t) * log_mean(3, t)),
            Region({"t": ("1/2", "4")}, lambda t: omega(t) - t**2 / (2 + t)),
            # v = 1/t: ln(1+t) >= 2t/(2+t)
            Region({"1/t": ("0", "1/4")}, lambda v: 2 / (1 + 2 * v) - v.log1p() + log_upper(v)),
        ),
    ),
    "omega_star_lower": Claim(
        "t^2/(2-t) <= omega_*(t) for 0 <= t < 1 (lem:bound-on-omega)",
        (
            # times (2-t)/t^3
            Region({"t": ("0", "1/2")}, lambda t: ball("1/2") - (2 - t) * log_mean(3, -t)),
            Region({"1-t": ("0", "1/2")}, lambda r: (1 - r) ** 2 / (1 + r) + 1 - r + log_upper(r)),
        ),
    ),
    "omega_star_upper": Claim(
        "omega_*(t) <= t^2/(2(1-t)) for 0 <= t < 1 (lem:bound-on-omega)",
        (
            # times 2(1-t)/t^3
            Region({"t": ("0", "1/2")}, lambda t: 2 * (1 - t) * log_mean(3, -t) - 1),
            # times 1-t
            Region({"1-t": ("0", "1/2")}, lambda r: entropy(r) - r * (1 - r) - (1 - r) ** 2 / 2),
        ),
    ),
    "printed_omega_range": Claim(
        "t^2/(2-t) <= t^2/(2(1-t)) for 0 <= t <= 3/2 (lem:bound-on-omega says any t >= 0)",
        (Region({"t": ("0", "3/2")}, lambda t: t**2 / (2 - t) - t**2 / (2 - 2 * t)),),
        expected="refuted",
    ),
    "printed_slope": Claim(
        "h'(x) <= -0.02 for 1/6 <= x <= 1, |c| <= 0.06, c' <= 0.0001 (first plot of app:auxiliary-constant-decrease)",
        (Region(_PLOT, lambda x, c, z: _printed_slope(x, c, z) + ball("0.02"), _printed_step),),
    ),
    "printed_slope_sharper": Claim(
        "h'(x) <= -0.13, not about -0.02 as printed, for 1/6 <= x <= 1, |c| <= 0.06, c' <= 0.0001 (the same plot)",
        (Region(_PLOT, lambda x, c, z: _printed_slope(x, c, z) + ball("0.13"), _printed_step),),
    ),
    "printed_decrease": Claim(
        "h(1/6) <= -0.01 for |c| <= 0.012, c' <= 0.0001 (second plot of app:auxiliary-constant-decrease)",
        (
            Region(
                {"c": ("-0.012", "0.012"), "c'": ("0", "0.0001")},
                _printed_decrease,
                lambda c, z: _printed_step(ball("1/6"), c, z),
            ),
        ),
    ),
    "printed_range": Claim(
        "h(1/6) <= -0.01 for |c| <= 0.06, 36 c^2 <= c' <= 0.13 (the |c| that the proof allows, with Cauchy-Schwarz)",
        (Region({"c": ("-0.06", "0.06"), "c'": ("0", "0.13")}, _printed_decrease, lambda c, z: z - 36 * c**2),),
        expected="refuted",
    ),
    "printed_spectrum": Claim(
        "0 <= delta/(1-delta) - lambda for delta = lambda/(1+lambda) - s, 1/8 <= lambda <= 1/6, s <= 0.02 (phase II)",
        (Region({"lambda": ("1/8", "1/6"), "s": ("0", "0.02")}, _printed_spectrum),),
        expected="refuted",
    ),
}
