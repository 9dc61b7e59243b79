"""Regularised logistic regression and damped Newton's method, in closed form.

The loss (eq:logistic_loss) of points ``a_i``, the rows of ``A``, with labels ``y_i`` in {-1, 1} is

    f(x) = (1/n) sum_i ln(1 + exp(-y_i a_i^T x)) + (mu/2) ||x||^2.

With the margins m_i = y_i a_i^T x and p_i = 1 / (1 + exp(m_i)), its derivatives (proof of thm:logistic) are

    grad f = -(1/n) A^T (y p) + mu x,        hess f = (1/n) A^T diag(p (1 - p)) A + mu I.

Every function takes ``A`` (..., n, d), ``y`` (..., n) and ``x`` (..., d), whose leading axes broadcast, and
``mu`` > 0; no norm of a row is required. Bad values raise ValueError, arrays that are not real TypeError.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from tfnewton import checks
from tfnewton.checks import Array
from tfnewton.damping import damping_constant
from tfnewton.scaling import exponent, rescaled, times_two_to

__all__ = [
    "damped_newton",
    "gradient",
    "hessian",
    "loss",
    "minimize",
    "newton_decrement",
]

_SMALL_DECREMENT = 0.25  # in standard scaling full steps contract from here: lambda+ <= (lambda / (1 - lambda))^2


class Problem(NamedTuple):
    """Validated data: A (..., n, d), y (..., n), mu."""

    A: torch.Tensor
    y: torch.Tensor
    mu: float

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        data = -torch.nn.functional.logsigmoid(self._margins(x)).mean(dim=-1)
        return data + self.mu / 2 * x.square().sum(dim=-1)  # (...)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.y * torch.sigmoid(-self._margins(x)) / self.A.shape[-2]  # (..., n)
        return self.mu * x - (weights.unsqueeze(-2) @ self.A).squeeze(-2)  # (..., d)

    def hessian(self, x: torch.Tensor) -> torch.Tensor:
        m = self._margins(x)
        weights = torch.sigmoid(m) * torch.sigmoid(-m) / self.A.shape[-2]  # p (1 - p) without cancellation
        identity = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return (self.A.mT * weights.unsqueeze(-2)) @ self.A + self.mu * identity  # (..., d, d)

    def newton(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the Newton direction (hess f)^-1 grad f (..., d) and the decrement lambda_f (...)."""
        factor, fault = torch.linalg.cholesky_ex(self.hessian(x))
        if fault.any():
            raise ValueError(f"mu is {self.mu:.3g} in units of A: must be larger, the Hessian is singular to roundoff")
        whitened = torch.linalg.solve_triangular(factor, self.gradient(x).unsqueeze(-1), upper=False)
        direction = torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
        return direction.squeeze(-1), whitened.squeeze(-1).norm(dim=-1)

    def _margins(self, x: torch.Tensor) -> torch.Tensor:
        return self.y * (self.A @ x.unsqueeze(-1)).squeeze(-1)  # (..., n)


def problem(A: object, y: object, mu: object, *points: tuple[str, object]) -> tuple[Problem, list[torch.Tensor]]:
    """Validate the data and any named points (..., d), None being zero; results have the batch axes of all together.

    Raises ValueError for mu <= 0, a label other than -1 and 1, shapes that do not fit, NaN or infinity.
    """
    strength = checks.real("mu", mu, above=0.0)
    sizes: dict[str, int] = {}
    rows = checks.tensor("A", A, ("n", "d"), sizes)
    dtype, device = rows.dtype, rows.device
    labels = checks.tensor("y", y, ("n",), sizes, dtype=dtype, device=device)
    wrong = labels[labels.abs() != 1]
    if wrong.numel():
        raise ValueError(f"y has the label {wrong[0].item():g}: every label must be -1 or 1")
    if any(name == "x" and value is None for name, value in points):
        raise TypeError("x = None: must be an array of real numbers")
    arrays = [
        rows.new_zeros(sizes["d"])
        if value is None
        else checks.tensor(name, value, ("d",), sizes, dtype=dtype, device=device)
        for name, value in points
    ]
    named = {name: array.shape[:-1] for (name, _), array in zip(points, arrays, strict=True)}
    axes = checks.batch(A=rows.shape[:-2], y=labels.shape[:-1], **named)
    labels = labels.expand(*axes, labels.shape[-1])
    return Problem(rows, labels, strength), [array.expand(*axes, array.shape[-1]) for array in arrays]


_TOO_FAR = "A, x and mu are too large, or too far apart"


def _near_one(data: Problem, points: list[torch.Tensor]) -> tuple[Problem, list[torch.Tensor], int]:
    """Return the same problem in the variable 2^k x, where A 2^-k and mu 4^-k are near one, its points, and k."""
    k = max(int(exponent(data.A, data.A.ndim)), math.frexp(math.sqrt(data.mu))[1])
    mu = math.ldexp(data.mu, -2 * k)
    if mu < torch.finfo(data.A.dtype).tiny:
        raise ValueError(f"mu = {data.mu:g}: must be larger beside so large an A, of which it is less than roundoff")
    moved = [checks.finite("the point", times_two_to(point, k), _TOO_FAR) for point in points]
    return Problem(times_two_to(data.A, -k), data.y, mu), moved, k


def loss(x: Array, A: Array, y: Array, mu: float) -> Array:
    """Return f(x), shape (...), without overflow at any margin (eq:logistic_loss)."""
    data, (point,) = problem(A, y, mu, ("x", x))
    return checks.like(checks.finite("f(x)", data.loss(point), _TOO_FAR), x, A, y)


def gradient(x: Array, A: Array, y: Array, mu: float) -> Array:
    """Return grad f(x), shape (..., d)."""
    data, (point,) = problem(A, y, mu, ("x", x))
    return checks.like(checks.finite("the gradient", data.gradient(point), _TOO_FAR), x, A, y)


def hessian(x: Array, A: Array, y: Array, mu: float) -> Array:
    """Return hess f(x), shape (..., d, d); symmetric, at least mu I."""
    data, (point,) = problem(A, y, mu, ("x", x))
    return checks.like(checks.finite("the Hessian", data.hessian(point), _TOO_FAR), x, A, y)


def newton_decrement(x: Array, A: Array, y: Array, mu: float) -> Array:
    """Return lambda_f(x) = sqrt(grad f^T (hess f)^-1 grad f), shape (...) (eq:Newton-decrement)."""
    data, (point,), _ = _near_one(*problem(A, y, mu, ("x", x)))
    return checks.like(checks.finite("lambda_f", data.newton(point)[1], _TOO_FAR), x, A, y)


def damped_newton(
    A: Array,
    y: Array,
    mu: float,
    steps: int,
    x0: Array | None = None,
    damping: str = "paper",
    errors: Array | None = None,
) -> Array:
    """Return the iterates x_0, ..., x_steps of damped Newton's method, shape (..., steps + 1, d).

    x_{t+1} = x_t - (hess f)^-1 grad f / (1 + M lambda_f) + errors_t, with M = ``damping_constant(mu, damping)``.
    ``x0`` (..., d) is zero unless given; ``errors`` (..., steps, d) are the injected errors, none unless given.
    """
    steps = checks.integer("steps", steps, minimum=0)
    constant = damping_constant(mu, damping)
    injected: list[torch.Tensor] = []
    if errors is not None:
        whole = checks.tensor("errors", errors, (steps, "d"))
        injected = list(whole.unbind(dim=-2))
    points = ("x0", x0), *(("errors", shift) for shift in injected)
    data, (x, *shifts), k = _near_one(*problem(A, y, mu, *points))
    iterates = [x]
    for t in range(steps):
        direction, decrement = data.newton(x)
        x = x - direction / (1 + constant * decrement).unsqueeze(-1)
        x = x + shifts[t] if shifts else x
        iterates.append(x)
    return checks.like(rescaled("the iterates", torch.stack(iterates, dim=-2), -k, 2, _TOO_FAR), A, y, x0, errors)


def minimize(A: Array, y: Array, mu: float, x0: Array | None = None, max_steps: int = 1000) -> Array:
    """Return the minimiser of f to machine precision, shape (..., d).

    Newton's method with halved steps until f falls enough, and full steps once the decrement guarantees their
    quadratic convergence; it ends when the decrement no longer halves, which is the level of rounding.
    Raises RuntimeError after ``max_steps`` steps without getting there.
    """
    max_steps = checks.integer("max_steps", max_steps, minimum=1)
    data, (x,), k = _near_one(*problem(A, y, mu, ("x0", x0)))
    # x -> r x, a -> a / r, mu -> mu / r^2 is the same problem, with rows of norm at most one
    longest = max(1e-3, float(data.A.norm(dim=-1).max()))  # mu is then near one
    constant = damping_constant(data.mu / longest**2, "sharp")
    previous = torch.full(x.shape[:-1], math.inf, dtype=x.dtype, device=x.device)
    done = torch.zeros_like(previous, dtype=torch.bool)
    for _ in range(max_steps):
        direction, decrement = data.newton(x)
        small = constant * decrement <= _SMALL_DECREMENT
        done |= small & (decrement >= previous / 2)
        if bool(done.all()):
            return checks.like(rescaled("x", x, -k, 1, _TOO_FAR), A, y, x0)
        previous = torch.where(small, decrement, math.inf)  # compare only decrements that full steps led to
        length = _step_length(data, x, direction, decrement, small)
        x = torch.where(done.unsqueeze(-1), x, x - length.unsqueeze(-1) * direction)
    raise RuntimeError(f"no minimiser after max_steps = {max_steps} steps: decrement {float(decrement.max()):.2e}")


def _step_length(
    data: Problem, x: torch.Tensor, direction: torch.Tensor, decrement: torch.Tensor, small: torch.Tensor
) -> torch.Tensor:
    """Return the largest of 1, 1/2, 1/4, ... that lowers f by a quarter of the slope, and 1 where ``small``."""
    length = torch.ones_like(decrement)
    value = data.loss(x)
    for _ in range(60):
        target = value - length * decrement.square() / 4
        enough = small | (data.loss(x - length.unsqueeze(-1) * direction) <= target)
        if bool(enough.all()):
            break
        length = torch.where(enough, length, length / 2)
    return length
