"""How many steps, products and digits Newton's iteration for the inverse takes.

Every count follows from one identity: T steps of order p turn the residual E_0 = I - A X_0 into E_0^(p^T). The
eigenvalues of E_0 lie in [0, rho_0] in absolute value, so the residual is at most tolerance once
p^T (-ln rho_0) >= ln(1/tolerance). ``decay_rate`` is -ln rho_0: the digits (in nats) that one gradient step gains.
"""

from __future__ import annotations

import math

from tfnewton.checks import choice, integer, real

__all__ = [
    "INITS",
    "decay_rate",
    "degree",
    "gradient_descent_steps",
    "printed_steps",
    "products",
    "roundoff_growth",
    "steps",
    "steps_at_rate",
    "steps_bound",
    "work_per_doubling",
]

INITS = ("optimal", "spectral", "norms", "frobenius", "identity")
_LARGEST_KAPPA = 1e100  # kappa^2 stays inside float64


def steps(kappa: float, tolerance: float, order: int = 2, init: str = "spectral", d: int | None = None) -> int:
    """Return the least T with ||I - A X_T||_2 <= tolerance, T = max(0, ceil(log_p(ln(1/tolerance) / decay_rate))).

    Exact for every A of this condition number for "optimal", "spectral" and "identity"; for "norms" and
    "frobenius" no A of size d needs more, and some A needs as many, for "norms" if d is 3 or more. The relative error
    ||X_T - A^-1|| / ||A^-1|| is at most the residual.

    Args:
        kappa: condition number of the matrix A that is inverted, s1/sd, from 1 to 1e100. For the normal equations,
            A^T A, give the square of the data matrix's.
        tolerance: inside (0, 1).
        order: p, at least 2.
        init: the starting point, as in algorithms.inversion.initial.
        d: size of A, at least 1; needed by "norms" and "frobenius", the other starts do not depend on it.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: the step count after eq:inverse-newton, with its constants.
    """
    return steps_at_rate(decay_rate(kappa, init, d), tolerance, order)


def steps_at_rate(rate: float, tolerance: float, order: int = 2) -> int:
    """Return the least T with exp(-rate)^(p^T) <= tolerance, for a residual of norm rho_0 = exp(-rate) at the start.

    Args:
        rate: -ln rho_0, above 0; infinity if the start is exact.
        tolerance: inside (0, 1).
        order: p, at least 2.

    Raises:
        TypeError, ValueError: for an input outside these ranges.
    """
    if rate != math.inf:
        real("rate", rate, above=0.0)
    wanted = _digits(tolerance)
    integer("order", order, minimum=2)
    count, gained = 0, float(rate)
    while gained < wanted:  # a loop, because the quotient of logarithms rounds up at exact powers
        count, gained = count + 1, gained * order
    return count


def steps_bound(kappa: float, tolerance: float, order: int = 2, init: str = "spectral", d: int | None = None) -> int:
    """Return max(0, ceil(log_p(C ln(1/tolerance)))), never below ``steps`` and readable.

    C is kappa^2 / 2 for "optimal", kappa^2 for "spectral", d kappa^2 for "norms" and "frobenius", kappa for
    "identity": at order two, 2 log2 kappa + log2 ln(1/tolerance) for "spectral". Inputs and refusals as ``steps``.
    """
    slowness = _slowness(kappa, init, d)
    scale = slowness / 2.0 if init == "optimal" else slowness
    wanted = _digits(tolerance)
    integer("order", order, minimum=2)
    return max(0, math.ceil((math.log(scale) + math.log(wanted)) / math.log(order)))


def decay_rate(kappa: float, init: str = "spectral", d: int | None = None) -> float:
    """Return -ln rho_0, rho_0 the largest ||I - A X_0||_2 that a d x d matrix of condition number kappa can have.

    rho_0 is (kappa^2-1)/(kappa^2+1) for "optimal", 1 - 1/kappa^2 for "spectral", 1 - 1/(d kappa^2) for "norms",
    1 - 1/((d-1) kappa^2 + 1) for "frobenius" and 1 - 1/kappa for "identity". Infinite where rho_0 = 0.
    Inputs and refusals as ``steps``.
    """
    x = 1.0 / _slowness(kappa, init, d)
    if x == 1.0:
        return math.inf
    return 2.0 * math.atanh(x) if init == "optimal" else -math.log1p(-x)


def _slowness(kappa: float, init: str, d: int | None) -> float:
    """Largest eigenvalue over smallest that the start leaves to the iteration: rho_0 is 1 - 1/_slowness."""
    k = real("kappa", kappa, minimum=1.0, maximum=_LARGEST_KAPPA)
    choice("init", init, INITS)
    if d is None and init in ("norms", "frobenius"):
        raise ValueError(f'd = None: init = "{init}" must have the size of A, an integer, at least 1')
    size = 1 if d is None else integer("d", d, minimum=1)
    by_init = {
        "optimal": k**2,
        "spectral": k**2,
        "norms": size * k**2,
        "frobenius": (size - 1) * k**2 + 1.0,
        "identity": k,
    }
    return by_init[init]


def printed_steps(kappa: float, tolerance: float) -> float:
    """Return log2 kappa + log2 log2(1/tolerance), the argument of the O(.) after eq:inverse-newton.

    Read as a count, which the paper does not claim, it is too small: the leading constant is 2, see ``steps_bound``.
    Ranges as in ``steps``.
    """
    k = real("kappa", kappa, minimum=1.0, maximum=_LARGEST_KAPPA)
    return math.log2(k) + math.log2(_digits(tolerance) / math.log(2.0))


def gradient_descent_steps(kappa: float, tolerance: float) -> int:
    """Return the least k with (1 - 1/kappa)^k <= tolerance, at most ceil(kappa ln(1/tolerance)).

    The number of gradient steps of learning rate 1/lambda_max that reduce every component of the error by the
    factor ``tolerance``. Its logarithm to the base ``order``, rounded up, is ``steps`` from X_0 = I / lambda_max.

    Args:
        kappa: condition number of the Hessian A^T A, from 1 to 1e100 (the square of A's).
        tolerance: inside (0, 1).

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: the count O(kappa(A^T A) log(1/tolerance)) quoted after eq:sol-linear.
    """
    wanted = _digits(tolerance)
    return max(1, math.ceil(wanted / decay_rate(kappa, "identity")))


def products(order: int) -> int:
    """Return the matrix products of one step of this order by Horner's rule: A X, order - 2 in E, and X S.

    ``algorithms.inversion`` sums so. Fewer do from order five on, see ``theory.products``.
    """
    return integer("order", order, minimum=2)


def work_per_doubling(order: int, per_step: int | None = None) -> float:
    """Return products per doubling of the digits, per_step / log2(order), ``per_step`` by default Horner's.

    By Horner's rule order three is cheapest, 1.893. With the fewest products of ``theory.products`` it is order nine in
    five products, 1.577; no order up to 24 has a cheaper step.

    Raises:
        TypeError, ValueError: for an order below 2 or per_step below 1.
    """
    spent = products(order) if per_step is None else integer("per_step", per_step, minimum=1)
    return spent / math.log2(integer("order", order, minimum=2))


def roundoff_growth(steps: int, order: int = 2) -> float:
    """Return order^steps, by which a perturbation of X in the null spaces of a singular A grows; at most infinity.

    Such a component N = P X Q, with A P = 0 and Q A = 0, obeys N <- order N: nothing corrects it.
    """
    base, exponent = integer("order", order, minimum=2), integer("steps", steps, minimum=0)
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def degree(steps: int, order: int = 2) -> int:
    """Return the degree 2 order^steps - 1 of X_steps as a polynomial in a symmetric A, from X_0 = alpha A."""
    return int(2 * integer("order", order, minimum=2) ** integer("steps", steps, minimum=0) - 1)


def _digits(tolerance: float) -> float:
    return -math.log(real("tolerance", tolerance, above=0.0, below=1.0))
