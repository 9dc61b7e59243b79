"""What the false sample (x_query, 0) among n Gaussian examples costs least squares, and what its correction saves.

Least squares with the false sample predicts s y_hat, with y_hat the prediction from the examples alone,
s = 1 / (1 + h) = 1 - h' and the leverages h = x_query^T R^-1 x_query, h' = x_query^T (R + x_query x_query^T)^-1
x_query, R = A^T A. Since 1 / s = 1 + h' + h'^2 + ..., a predictor that corrects it by k terms is
s y_hat (c_0 + c_1 h' + ... + c_{k-1} h'^{k-1}); k = 1 rescales only. Here are the c_j that are best in the mean over
prompts, and their mean squared error.

Prompts: rows of A and x_query from N(0, Sigma), y = A w without noise, w from N(0, I), so that y_hat is the target.
Neither result depends on Sigma, which may differ from prompt to prompt. Weighted with the squared target, s is a Beta
variable; the residual 1 - s (c_0 + ...) of the best predictor is the Jacobi polynomial 2F1(-k, k + a + b; a + 1; s),
and its mean square comes from the Pfaff-Saalschuetz sum. Source: the book, training-corrections.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

from tfnewton.checks import integer, real

__all__ = ["beta_parameters", "coefficients", "constant_loss", "noise_loss", "relative_loss"]


def beta_parameters(n: int, d: int) -> tuple[float, float]:
    """Return a = (n - d + 1) / 2 and b = (d + 2) / 2: weighted with the squared target, s is Beta(a, b).

    ``n`` examples in ``d`` dimensions, n >= d.
    """
    a, b = _beta_parameters(n, d)
    return float(a), float(b)


def coefficients(n: int, d: int, terms: int = 1) -> tuple[float, ...]:
    """Return the best c_0, ..., c_{terms - 1}; for one term (n + 5) / (n - d + 3)."""
    a, b = _beta_parameters(n, d)
    k = integer("terms", terms, minimum=1)
    power = Fraction((-1) ** k) * _ratio(b, a + 1, k)  # of h' in the residual: the constant first
    residual = [power]
    for i in range(k - 1):
        power *= (i - k) * (i + k + a + b) / ((i + b) * (i + 1))
        residual.append(power)
    return tuple(float(1 - total) for total in accumulate(residual))  # (1 - residual) / (1 - h') as a series in h'


def relative_loss(n: int, d: int, terms: int = 1) -> float:
    """Return the least mean squared error as a fraction of that of predicting zero, k! (b)_k / ((a+1)_k (a+b)_k).

    (x)_k = x (x + 1) ... (x + k - 1), k = ``terms``; for one term 2 (d + 2) / ((n + 3) (n - d + 3)).
    """
    a, b = _beta_parameters(n, d)
    k = integer("terms", terms, minimum=1)
    return float(_ratio(Fraction(1), a + 1, k) * _ratio(b, a + b, k))


def constant_loss(n: int, d: int, constant: float) -> float:
    """Return the mean squared error of constant · s y_hat as a fraction of that of predicting zero: E (c s - 1)^2.

    Least for ``coefficients(n, d)``, where it is ``relative_loss(n, d)``.
    """
    a, b = _beta_parameters(n, d)
    c = Fraction(real("constant", constant))
    mean, square = a / (a + b), a * (a + 1) / ((a + b) * (a + b + 1))
    return float(c**2 * square - 2 * c * mean + 1)


def noise_loss(n: int, d: int) -> float:
    """Return what labels with noise sigma add to the mean squared error of c s y_hat, over sigma^2.

    c is the constant of ``coefficients(n, d)``, best without noise; c^2 d (n - d + 1) / ((n + 1) (n + 3)).
    Source: the book, conditioning-plateau.
    """
    a, _ = _beta_parameters(n, d)
    c = Fraction(n + 5, n - d + 3)
    return float(c**2 * d * 2 * a / ((n + 1) * (n + 3)))


def _beta_parameters(n: int, d: int) -> tuple[Fraction, Fraction]:
    dimensions = integer("d", d, minimum=1)
    examples = integer("n", n, minimum=dimensions)
    return Fraction(examples - dimensions + 1, 2), Fraction(dimensions + 2, 2)


def _ratio(x: Fraction, y: Fraction, k: int) -> Fraction:
    """Return (x)_k / (y)_k."""
    result = Fraction(1)
    for i in range(k):
        result *= (x + i) / (y + i)
    return result
