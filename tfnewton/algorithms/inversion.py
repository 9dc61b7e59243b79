"""Newton's iteration for the inverse of a matrix, its higher-order family, and where to start it.

With E = I - A X, the step of order p is X <- X (I + E + ... + E^(p-1)), after which the residual is E^p exactly.
Order two is Newton-Schulz, X <- X (2I - A X).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate

import torch
from torch import Tensor

from tfnewton.checks import Array, batch, choice, integer, like, tensor
from tfnewton.scaling import exponent, rescaled, times_two_to

__all__ = ["INITS", "initial", "newton_schulz", "newton_schulz_iterates"]


def newton_schulz(A: Array, steps: int, order: int = 2, X0: Array | None = None) -> Array:
    """Approximate the inverse of A by ``steps`` steps of order ``order``.

    Each step takes ``order`` matrix products. It converges when every eigenvalue of I - A X0 lies inside the unit
    circle (singular A: on the range of A), which each choice of ``initial`` ensures; see theory.inversion.steps.

    For singular A, X approaches the pseudo-inverse, but each step multiplies what roundoff leaves outside the range of
    A^T by ``order``: take no more steps than convergence needs. A result that has left the range of float, after too
    many steps or from an X0 outside the basin, is refused.

    Args:
        A: (d, d), leading batch axes allowed; float32 or float64, which is also the precision of the computation.
        steps: number of steps, at least 0.
        order: p, at least 2.
        X0: (d, d), the starting point; by default ``initial(A, "frobenius")``, A^T / ||A||_F^2.

    Returns:
        X_steps, (d, d), as numpy unless an input is a tensor.

    Raises:
        TypeError, ValueError: for an input outside these ranges, A = 0 without X0, or a result that is not finite.

    Source: eq:inverse-newton (order 2), eq:high_order_newton.
    """
    return deque(newton_schulz_iterates(A, steps, order, X0), maxlen=1).pop()


def newton_schulz_iterates(A: Array, steps: int, order: int = 2, X0: Array | None = None) -> Iterator[Array]:
    """Yield X_0, X_1, ..., X_steps of ``newton_schulz``: same inputs, same refusals, raised before the first one."""
    integer("steps", steps, minimum=0)
    integer("order", order, minimum=2)
    sizes: dict[str, int] = {}
    M = tensor("A", A, ("d", "d"), sizes)
    X = _initial(M, "frobenius") if X0 is None else tensor("X0", X0, ("d", "d"), sizes, dtype=M.dtype, device=M.device)
    batch(A=M.shape[:-2], X0=X.shape[:-2])
    # A 2^-k and X 2^k have the same products, and with this k about the same size: neither leaves the range first
    k = torch.div(exponent(M, 2) - exponent(X, 2), 2, rounding_mode="trunc")
    M, X = times_two_to(M, -k, 2), times_two_to(X, k, 2)
    iterates = accumulate(range(steps), lambda X, _: _step(M, X, order), initial=X.clone())
    return (like(rescaled(f"X_{t}", X, -k, 2, _NOT_FINITE), A, X0) for t, X in enumerate(iterates))


_NOT_FINITE = "the eigenvalues of I - A X0 must be less than 1, and a singular A takes few steps"


def _step(A: Tensor, X: Tensor, order: int) -> Tensor:
    # Horner in E: eq:high_order_newton sums alternating binomials times (A X)^m, which cancels once A X is near I.
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    E = identity - A @ X
    S = identity + E
    for _ in range(order - 2):
        S = identity + E @ S
    return X @ S


def initial(A: Array, init: str = "frobenius") -> Array:
    """Return the starting point X0 for ``newton_schulz``.

    Args:
        A: (d, d), leading batch axes allowed, not zero.
        init: with singular values s1 >= ... >= sd,
            "optimal": 2 A^T / (s1^2 + sd^2), the smallest residual that a multiple of A^T has; with u the spacing at
            one it asks for u (s1/sd)^2 < 1, beyond which rounding can put it outside the basin;
            "spectral": A^T / s1^2;
            "norms": A^T / (||A||_1 ||A||_inf), which needs no singular value;
            "frobenius": A^T / ||A||_F^2, likewise;
            "identity": I / s1, for symmetric positive definite A only.

    Raises:
        TypeError, ValueError: for an input outside these ranges.

    Source: section 2 of the paper has alpha A^T with 0 < alpha < 2/s1^2; "norms" is Ben-Israel's and Pan's choice.
    """
    choice("init", init, INITS)
    return like(_initial(tensor("A", A, ("d", "d")), init), A)


def _initial(A: Tensor, init: str) -> Tensor:
    if (A == 0).all(dim=-1).all(dim=-1).any():
        raise ValueError("A is zero: it has no inverse and gives no starting point; must have a nonzero entry")
    k = exponent(A, 2)
    unit = times_two_to(A, -k, 2)
    start = (
        _scaled_identity(unit, k) if init == "identity" else unit.mT / _LENGTHS[init](unit).square()[..., None, None]
    )
    return rescaled("X0", start, -k, 2, "the inverse of so large or small an A is out of range")


def _scaled_identity(A: Tensor, k: Tensor) -> Tensor:
    eps = torch.finfo(A.dtype).eps
    largest = A.abs().amax(dim=(-2, -1))
    if ((A - A.mT).abs().amax(dim=(-2, -1)) > 1e3 * eps * largest).any():
        raise ValueError('A is not symmetric: init = "identity" must have a symmetric positive definite A')
    eigenvalues: Tensor = torch.linalg.eigvalsh(A)
    least, top = eigenvalues[..., 0], eigenvalues[..., -1]
    if (least <= A.shape[-1] * eps * top).any():
        raise ValueError(
            f"A has the eigenvalue {times_two_to(least, k).min().item():.3g}: "
            'init = "identity" must have a positive definite A'
        )
    return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) / top[..., None, None]


def _optimal(A: Tensor) -> Tensor:
    s: Tensor = torch.linalg.svdvals(A)
    return torch.hypot(s[..., 0], s[..., -1]) / 2**0.5


def _spectral(A: Tensor) -> Tensor:
    s: Tensor = torch.linalg.svdvals(A)
    return s[..., 0]


def _norms(A: Tensor) -> Tensor:
    size = A.abs()
    return size.sum(dim=-2).amax(dim=-1).sqrt() * size.sum(dim=-1).amax(dim=-1).sqrt()


def _frobenius(A: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(A, dim=(-2, -1))
    return length


_LENGTHS: dict[str, Callable[[Tensor], Tensor]] = {  # X0 = A^T / length^2
    "optimal": _optimal,
    "spectral": _spectral,
    "norms": _norms,
    "frobenius": _frobenius,
}
INITS = (*_LENGTHS, "identity")
