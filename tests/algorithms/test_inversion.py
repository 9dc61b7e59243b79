"""Newton's iteration against stored values, its closed form, numpy's inverse and pseudo-inverse."""

from __future__ import annotations

import json
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.algorithms.inversion import INITS, initial, newton_schulz, newton_schulz_iterates

TRUTH: dict[str, Any] = json.loads((Path(__file__).parents[1] / "truth" / "truth.json").read_text())


def truth_matrix(d: int, kind: str) -> np.ndarray:
    A = np.sin(1 + np.arange(d)[:, None] * d + np.arange(d)) + 2 * np.eye(d)
    return np.asarray((A + A.T) / 2 if kind == "sym" else A)


def random_matrix(d: int, kappa: float, seed: int, scale: float = 1.0, rank: int | None = None) -> np.ndarray:
    """A matrix with singular values scale, ..., scale/kappa, the last d - rank of them zero."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    s = scale * np.geomspace(1.0, 1.0 / kappa, d)
    s[d if rank is None else rank :] = 0.0
    return np.asarray(U * s @ V.T)


def binomial_step(A: np.ndarray, X: np.ndarray, p: int) -> np.ndarray:
    """eq:high_order_newton as it is printed."""
    power, total = np.eye(len(A)), np.zeros_like(A)
    for m in range(p):
        total, power = total + (-1) ** m * comb(p, m + 1) * power, power @ A @ X
    return np.asarray(X @ total)


@pytest.mark.parametrize("kind", ["general", "sym"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_stored_iterates(d: int, kind: str) -> None:
    A, stored = truth_matrix(d, kind), TRUTH[f"inverse_d{d}_{kind}"]
    for k in (1, 2, 5):
        X = np.reshape(stored[f"X{k}"], (d, d))
        np.testing.assert_allclose(newton_schulz(A, k, X0=stored["alpha"] * A.T), X, rtol=0, atol=1e-12)
        np.testing.assert_allclose(newton_schulz(A, k), X, rtol=0, atol=1e-12)  # the default start
    np.testing.assert_allclose(newton_schulz(A, 30), np.reshape(stored["inverse"], (d, d)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["general", "sym"])
@pytest.mark.parametrize("order", [2, 3])
def test_stored_iterates_of_higher_order(order: int, kind: str) -> None:
    stored = TRUTH[f"highorder_n{order}_d3_{kind}"]
    iterates = list(newton_schulz_iterates(truth_matrix(3, kind), 3, order))
    for k in (1, 2, 3):
        np.testing.assert_allclose(iterates[k], stored[f"X{k}"], rtol=0, atol=1e-12)


@given(
    d=st.integers(1, 12),
    kappa=st.floats(1.0, 100.0),
    order=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(deadline=None, max_examples=tries(60))
def test_step_is_the_printed_sum_and_raises_the_residual_to_the_order(
    d: int, kappa: float, order: int, seed: int, scale: float
) -> None:
    A = random_matrix(d, kappa, seed, scale)
    identity = np.eye(d)
    for X, after in pairwise(map(np.asarray, newton_schulz_iterates(A, 3, order))):
        unit = float(np.linalg.norm(after, 2))
        np.testing.assert_allclose(after, binomial_step(A, X, order), rtol=0, atol=1e-11 * unit)
        powered = np.linalg.matrix_power(identity - A @ X, order)
        np.testing.assert_allclose(identity - A @ after, powered, rtol=0, atol=1e-11)
        from_the_left = np.linalg.matrix_power(identity - X @ A, order)  # the paper writes the residual I - X A
        np.testing.assert_allclose(identity - after @ A, from_the_left, rtol=0, atol=1e-11)


@given(
    d=st.integers(1, 16),
    kappa=st.floats(1.0, 300.0),
    order=st.integers(2, 5),
    init=st.sampled_from(INITS),
    batch=st.lists(st.integers(1, 3), max_size=2),
    single=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=tries(60))
def test_converges_to_the_inverse(
    d: int, kappa: float, order: int, init: str, batch: list[int], single: bool, seed: int
) -> None:
    count = int(np.prod(batch, dtype=int))
    A = np.stack([random_matrix(d, kappa, (seed + i) % 2**32) for i in range(count)]).reshape(*batch, d, d)
    if init == "identity":
        A = np.swapaxes(A, -1, -2) @ A if kappa < 20 else np.broadcast_to(np.eye(d), A.shape)
    A = A.astype(np.float32) if single else A
    X = newton_schulz(A, 30, order, initial(A, init))
    assert X.dtype == A.dtype
    assert X.shape == A.shape
    exact = np.linalg.inv(A.astype(np.float64))
    error = np.linalg.norm(X - exact, 2, (-2, -1)) / np.linalg.norm(exact, 2, (-2, -1))
    condition = np.linalg.cond(A.astype(np.float64))
    assert (error <= 20 * d * condition * np.finfo(A.dtype).eps).all()


@given(d=st.integers(2, 10), order=st.integers(2, 4), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=tries(30))
def test_singular_matrices_reach_the_pseudo_inverse(d: int, order: int, seed: int) -> None:
    A = random_matrix(d, 10.0, seed, rank=d // 2)
    exact = np.linalg.pinv(A, rcond=1e-8)
    errors = [np.linalg.norm(X - exact, 2) for X in newton_schulz_iterates(A, 14, order, initial(A, "spectral"))]
    assert min(errors) <= 1e-9 * np.linalg.norm(exact, 2)


@given(d=st.integers(1, 10), kappa=st.floats(1.0, 1e6), seed=st.integers(0, 2**32 - 1), log_scale=st.integers(-80, 80))
@settings(deadline=None, max_examples=tries(40))
def test_starting_points(d: int, kappa: float, seed: int, log_scale: int) -> None:
    A = random_matrix(d, kappa, seed)
    s = np.linalg.svd(A, compute_uv=False)
    alphas = {
        "optimal": 2 / (s[0] ** 2 + s[-1] ** 2),
        "spectral": 1 / s[0] ** 2,
        "norms": 1 / (np.linalg.norm(A, 1) * np.linalg.norm(A, np.inf)),
        "frobenius": 1 / np.linalg.norm(A) ** 2,
    }
    scale = 10.0 ** (2 * log_scale)
    for init, alpha in alphas.items():
        np.testing.assert_allclose(initial(scale * A, init) * scale, alpha * A.T, rtol=1e-10, atol=1e-14 * alpha)
        assert alpha * s[0] ** 2 < 2
    gram = A.T @ A + np.eye(d)
    np.testing.assert_allclose(initial(gram, "identity"), np.eye(d) / np.linalg.eigvalsh(gram)[-1], rtol=1e-12)


def test_optimal_start_has_the_least_residual() -> None:
    A = random_matrix(5, 7.0, 0)
    best = np.linalg.norm(np.eye(5) - A @ initial(A, "optimal"), 2)
    assert best == pytest.approx((7.0**2 - 1) / (7.0**2 + 1), rel=1e-12)
    for factor in (0.9, 0.99, 1.01):
        assert np.linalg.norm(np.eye(5) - factor * A @ initial(A, "optimal"), 2) > best


def test_in_float32_the_optimal_start_is_at_the_edge_of_the_basin() -> None:
    """u kappa^2 = 12: rounding moves the eigenvalue -1 + 2/kappa^2 of the residual below minus one."""

    def left(A: np.ndarray, init: str) -> float:
        try:
            X = np.asarray(newton_schulz(A, 36, X0=initial(A, init)), dtype=float)
        except ValueError:  # beyond the range of float32
            return np.inf
        return float(np.linalg.norm(np.eye(8) - A @ X, 2))

    outside = 0
    for seed in range(6):
        A = random_matrix(8, 1e4, seed).astype(np.float32)
        for init in ("spectral", "norms"):
            assert left(A, init) < 8 * 1e4 * np.finfo(np.float32).eps
        outside += left(A, "optimal") > 1.0
        assert left(A.astype(float), "optimal") < 1e-9
    assert outside >= 3


def test_iterates_begin_with_the_start_and_end_with_the_result() -> None:
    A, X0 = random_matrix(4, 3.0, 1), np.eye(4) / 2
    iterates = list(newton_schulz_iterates(A, 4, 3, X0))
    assert len(iterates) == 5
    np.testing.assert_array_equal(iterates[0], X0)
    np.testing.assert_array_equal(iterates[-1], newton_schulz(A, 4, 3, X0))


def test_zero_steps_return_a_copy() -> None:
    X0 = torch.eye(3, dtype=torch.float64)
    X = newton_schulz(torch.eye(3, dtype=torch.float64), 0, X0=X0)
    X[0, 0] = 7.0
    assert X0[0, 0] == 1.0


def test_tensors_in_tensors_out_and_differentiable() -> None:
    A = torch.tensor(random_matrix(4, 5.0, 2), requires_grad=True)
    X = newton_schulz(A, 12)
    assert isinstance(X, torch.Tensor)
    np.testing.assert_allclose(X.detach(), newton_schulz(A.detach().numpy(), 12), rtol=0, atol=1e-13)
    (gradient,) = torch.autograd.grad(X.sum(), A)
    inverse, ones = np.linalg.inv(A.detach().numpy()), np.ones((4, 4))
    np.testing.assert_allclose(gradient.numpy(), -inverse.T @ ones @ inverse.T, rtol=0, atol=1e-10)
    assert isinstance(newton_schulz(A.detach().numpy(), 1, X0=torch.eye(4)), torch.Tensor)


GOOD = truth_matrix(3, "general")
REFUSED: list[tuple[type[Exception], str, dict[str, object]]] = [
    (ValueError, r"A has shape \(2, 3\)", {"A": np.ones((2, 3))}),
    (ValueError, r"A has shape \(3,\)", {"A": np.ones(3)}),
    (ValueError, r"A has shape \(0, 0\)", {"A": np.ones((0, 0))}),
    (ValueError, "A contains NaN or infinity", {"A": np.full((2, 2), np.nan)}),
    (ValueError, "A contains NaN or infinity", {"A": torch.full((2, 2), torch.inf)}),
    (TypeError, "A has dtype complex128", {"A": GOOD.astype(complex)}),
    (TypeError, "A has dtype bool", {"A": GOOD > 0}),
    (TypeError, "A has dtype <U", {"A": GOOD.astype(str)}),
    (ValueError, "A is zero", {"A": np.zeros((2, 2))}),
    (ValueError, "A is zero", {"A": np.stack([np.eye(2), np.zeros((2, 2))])}),
    (ValueError, "steps = -1: must be at least 0", {"steps": -1}),
    (TypeError, "steps = 2.0: must be an integer", {"steps": 2.0}),
    (TypeError, "steps = True: must be an integer", {"steps": True}),
    (ValueError, "order = 1: must be at least 2", {"order": 1}),
    (TypeError, "order = '3': must be an integer", {"order": "3"}),
    (ValueError, r"X0 has shape \(2, 2\): must be \(d = 3, d = 3\)", {"X0": np.eye(2)}),
    (ValueError, "X0 contains NaN", {"X0": np.full((3, 3), np.nan)}),
    (TypeError, "X0 has dtype complex128", {"X0": np.eye(3) * 1j}),
    (ValueError, r"batch axes do not agree: A \(2,\), X0 \(3,\)", {"A": np.ones((2, 3, 3)), "X0": np.ones((3, 3, 3))}),
]


@pytest.mark.parametrize(("error", "message", "change"), REFUSED)
@pytest.mark.parametrize("function", [newton_schulz, newton_schulz_iterates])
def test_refusals(function: Any, error: type[Exception], message: str, change: dict[str, object]) -> None:
    with pytest.raises(error, match="^" + message):
        function(**({"A": GOOD, "steps": 2} | change))  # the iterates refuse when called, not at the first next()


@pytest.mark.parametrize(
    ("error", "message", "A", "init"),
    [
        (ValueError, "init = 'best': must be one of 'optimal', 'spectral'", GOOD, "best"),
        (ValueError, "A is zero", np.zeros((2, 2)), "spectral"),
        (ValueError, "A is not symmetric", GOOD, "identity"),
        (ValueError, "A has the eigenvalue -1", np.diag([1.0, -1.0]), "identity"),
        (ValueError, "A has the eigenvalue 0", np.diag([1.0, 0.0]), "identity"),
        (ValueError, "A has the eigenvalue -2", -2 * np.eye(2), "identity"),
        (ValueError, r"A has shape \(2, 3\)", np.ones((2, 3)), "norms"),
        (TypeError, "A has dtype complex128", np.eye(2) * 1j, "norms"),
    ],
)
def test_starting_points_refuse(error: type[Exception], message: str, A: np.ndarray, init: str) -> None:
    with pytest.raises(error, match="^" + message):
        initial(A, init)
