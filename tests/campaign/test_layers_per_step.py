"""Steps with few inversion steps: they arrive, linearly, at the rate that is computed; and where they do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from tfnewton.campaign.layers_per_step import Descent, descend, layers_to, unit_problems
from tfnewton.theory.width import gap_factor

MU = 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_thirteen_layers_a_step_keep_up_to_a_thousandth_for_rows_of_norm_one(seed: int) -> None:
    A, y = unit_problems(seed, 8, 26, 5)
    few, enough = descend(A, y, MU, 156, inversion_steps=1), descend(A, y, MU, 100)
    assert (few.layers, enough.layers) == (13, 25)
    gaps = few.gaps.mean(axis=1)
    assert gaps[4] < enough.gaps.mean(axis=1)[2]  # 52 layers and 50
    assert layers_to(1e-3, few) == 65 < 75 == layers_to(1e-3, enough)
    factors = gaps[4:] / gaps[3:-1]
    assert 1 / 4 < factors.min() <= factors.max() < 1 / 2.5
    assert gaps[12] < 1e-6


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_rate_of_few_inversion_steps_is_the_one_computed(k: int) -> None:
    """The Hessian at the minimiser is written here; the slowest of its directions decides in the end."""
    A, y = unit_problems(3, 4, 26, 3)
    found = descend(A, y, MU, (11 + 2 * k) * (40 if k == 0 else 14), error=1e-5, inversion_steps=k)
    for i in range(4):
        x = minimiser(A[i], y[i])
        d = expit(A[i] @ x) * expit(-A[i] @ x)
        eigenvalues = np.linalg.eigvalsh((A[i].T * d) @ A[i] / 26 + MU * np.eye(3))
        slowest = max(gap_factor(MU, k, b) for b in eigenvalues)
        gaps = found.gaps[:, i]
        last = np.flatnonzero(gaps > 1e-10)[-1]  # before the errors of the steps are all that is left
        assert 0.5 * slowest <= gaps[last] / gaps[last - 1] <= 1.15 * slowest


def minimiser(A: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = np.zeros(A.shape[1])
    for _ in range(50):
        p = expit(-y * (A @ x))
        hessian = (A.T * (p * (1 - p))) @ A / len(y) + MU * np.eye(len(x))
        x = x - np.linalg.solve(hessian, MU * x - A.T @ (y * p) / len(y))
    return x


def test_long_rows_make_thirteen_layers_useless() -> None:
    """Rows of norm 10 with the penalty 0.1 are rows of norm one with a hundredth of it."""
    A, y = unit_problems(0, 4, 26, 5)
    few, half = (descend(A, y, 1e-3, 700, error=1e-2, inversion_steps=k) for k in (1, 10))
    assert layers_to(1e-1, few) is None
    assert layers_to(1e-1, half) is not None
    assert gap_factor(1e-3, 1, 1.2e-3) > 0.999


def test_gap_factor_by_hand() -> None:
    alpha = 2 / (0.1**2 + 0.35**2)
    assert gap_factor(0.1, 1, 0.15) == pytest.approx((1 - alpha * 0.15**2) ** 4)
    assert gap_factor(0.1, 0, 0.35) == pytest.approx((1 - alpha * 0.35**2) ** 2)
    assert gap_factor(0.1, 60, 0.1) == 0.0
    with pytest.raises(ValueError, match=r"eigenvalue = 0\.4"):
        gap_factor(0.1, 1, 0.4)


def test_layers_to_a_target() -> None:
    run = Descent(13, np.array([[1.0, 3.0], [0.5, 0.1], [0.01, 0.01]]))
    assert [layers_to(target, run) for target in (5.0, 2.0, 0.3, 0.02, 1e-3)] == [0, 0, 13, 26, None]
    with pytest.raises(ValueError, match="target = 0"):
        layers_to(0.0, run)


def test_unit_problems_have_unit_rows_and_a_plane() -> None:
    A, y = unit_problems(5, 3, 7, 2)
    np.testing.assert_allclose(np.linalg.norm(A, axis=-1), 1.0, rtol=1e-12)
    assert set(np.unique(y)) <= {-1.0, 1.0}
    again = unit_problems(5, 3, 7, 2)
    np.testing.assert_array_equal(A, again[0])
    with pytest.raises(ValueError, match="layers = -1"):
        descend(A, y, MU, -1)
