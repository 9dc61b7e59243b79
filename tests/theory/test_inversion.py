"""Step counts against measured steps on random and worst-case matrices, never exceeded and attained."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.algorithms import inversion as algorithms
from tfnewton.theory import inversion as theory

kappas = st.floats(1.0, 100.0)
tolerances = st.floats(1e-6, 0.9)
orders = st.integers(2, 6)
seeds = st.integers(0, 2**32 - 1)
EXACT = ("optimal", "spectral", "identity")


def matrix(d: int, kappa: float, seed: int, definite: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    inner = rng.uniform(1.0 / kappa, 1.0, max(d - 2, 0))
    s = np.array([1.0, *inner, 1.0 / kappa][-d:] if d > 1 else [1.0])
    return np.asarray(U * s @ (U if definite else V).T)


def flat(d: int, kappa: float) -> np.ndarray:
    """The worst case of "norms" for d >= 3: a flat column and a flat row of length s1, all other directions sd."""
    e1, flat = np.eye(d)[0], np.full(d, d**-0.5)
    reflection = np.eye(d) - 2 * np.outer(e1 - flat, e1 - flat) / np.sum((e1 - flat) ** 2)  # exchanges the two
    basis = np.linalg.qr(np.stack([e1, flat], axis=1))[0]
    plane = basis @ basis.T
    return np.asarray(reflection @ plane + (np.eye(d) - plane) / kappa)


def residuals(A: np.ndarray, X: Any, order: int, steps: int) -> list[float]:
    """||I - A X_t|| for t = 0, ..., steps, from X_0 = X."""
    identity = np.eye(len(A))
    return [float(np.linalg.norm(identity - A @ X, 2)) for X in algorithms.newton_schulz_iterates(A, steps, order, X)]


def check_exact(A: np.ndarray, init: str, order: int, tolerance: float, T: int) -> None:
    measured = residuals(A, algorithms.initial(A, init), order, T)
    assert measured[-1] <= tolerance * (1 + 1e-6)  # roundoff decides only where both sides agree to six digits
    assert all(value > tolerance * (1 - 1e-6) for value in measured[:-1])


@pytest.mark.parametrize("init", theory.INITS)
@pytest.mark.parametrize(("d", "kappa"), [(3, 1.5), (3, 20.0), (8, 3.0)])
def test_residual_at_the_start_is_attained(init: str, d: int, kappa: float) -> None:
    """exp(-decay_rate) is ||I - A X_0|| of a worst case, to many digits: whole numbers of steps hide a factor."""
    worst = {"norms": flat(d, kappa), "frobenius": np.diag([1.0] * (d - 1) + [1.0 / kappa])}
    A = worst.get(init, matrix(d, kappa, 3, definite=init == "identity"))
    start = np.eye(d) - A @ np.asarray(algorithms.initial(A, init))
    assert math.exp(-theory.decay_rate(kappa, init, d)) == pytest.approx(np.linalg.norm(start, 2), rel=1e-9)


@given(d=st.integers(2, 12), kappa=kappas, tolerance=tolerances, order=orders, seed=seeds)
@settings(deadline=None, max_examples=tries(60))
@pytest.mark.parametrize("init", EXACT)
def test_steps_are_exact_for_every_matrix(
    init: str, d: int, kappa: float, tolerance: float, order: int, seed: int
) -> None:
    A = matrix(d, kappa, seed, definite=init == "identity")
    check_exact(A, init, order, tolerance, theory.steps(kappa, tolerance, order, init))


@given(d=st.integers(3, 12), kappa=kappas, tolerance=tolerances, order=orders)
@settings(deadline=None, max_examples=tries(60))
@pytest.mark.parametrize("init", ["norms", "frobenius"])
def test_steps_are_attained_by_the_worst_case(init: str, d: int, kappa: float, tolerance: float, order: int) -> None:
    A = flat(d, kappa) if init == "norms" else np.diag([1.0] * (d - 1) + [1.0 / kappa])
    assert np.linalg.cond(A) == pytest.approx(kappa, rel=1e-10)
    check_exact(A, init, order, tolerance, theory.steps(kappa, tolerance, order, init, d))


@given(d=st.integers(1, 12), kappa=kappas, tolerance=tolerances, order=orders, seed=seeds)
@settings(deadline=None, max_examples=tries(60))
@pytest.mark.parametrize("init", theory.INITS)
def test_measured_steps_never_exceed_the_bounds(
    init: str, d: int, kappa: float, tolerance: float, order: int, seed: int
) -> None:
    A = matrix(d, kappa, seed, definite=init == "identity")
    kappa = float(np.linalg.cond(A)) * (1 + 1e-12)
    T = theory.steps(kappa, tolerance, order, init, d)
    assert 0 <= T <= theory.steps_bound(kappa, tolerance, order, init, d)
    assert residuals(A, algorithms.initial(A, init), order, T)[-1] <= tolerance * (1 + 1e-6)


@given(kappa=st.floats(1.0, 1e100), tolerance=st.floats(1e-300, 1 - 1e-9), order=st.integers(2, 50))
@settings(deadline=None, max_examples=tries(200))
@pytest.mark.parametrize("init", theory.INITS)
def test_bound_is_never_below_the_closed_form(init: str, kappa: float, tolerance: float, order: int) -> None:
    T, bound = theory.steps(kappa, tolerance, order, init, 7), theory.steps_bound(kappa, tolerance, order, init, 7)
    assert bound >= T
    rate = theory.decay_rate(kappa, init, 7)
    if rate < math.inf:
        ratio = math.log(math.log(1 / tolerance) / rate) / math.log(order)
        assume(abs(ratio - round(ratio)) > 1e-9)
        assert max(0, math.ceil(ratio)) == T


@pytest.mark.parametrize(
    ("init", "constant"), [("optimal", -1.0), ("spectral", 0.0), ("norms", math.log2(6)), ("frobenius", math.log2(6))]
)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6, 1e-12])
def test_leading_constant_is_two(init: str, constant: float, tolerance: float) -> None:
    for exponent in range(4, 100):
        kappa = 2.0**exponent
        expected = 2 * exponent + math.log2(math.log(1 / tolerance)) + constant
        assert theory.steps_bound(kappa, tolerance, init=init, d=6) == math.ceil(expected)
        assert expected - 0.35 <= theory.steps(kappa, tolerance, init=init, d=6) <= math.ceil(expected)
        assert theory.printed_steps(kappa, tolerance) == pytest.approx(exponent + math.log2(-math.log2(tolerance)))


def test_regression_counts_double_from_the_gram_matrix() -> None:
    kappa = 2.0**20  # of the data; R = A^T A has its square
    from_gram = theory.steps(kappa**2, 1e-6, init="spectral")  # X0 = alpha R
    from_identity = theory.steps(kappa**2, 1e-6, init="identity")  # X0 = alpha I
    assert from_gram - from_identity == 40
    assert from_gram == 4 * 20 + math.ceil(math.log2(math.log(1e6)))


@pytest.mark.parametrize("init", theory.INITS)
def test_more_digits_take_one_step_each_doubling(init: str) -> None:
    T = theory.steps(50.0, 1e-3, init=init, d=4)
    assert theory.steps(50.0, 1e-6, init=init, d=4) == T + 1
    assert theory.steps(50.0, 1e-12, init=init, d=4) == T + 2


def test_no_step_below_zero() -> None:
    for init in EXACT:
        assert theory.steps(1.0, 1e-12, init=init) == 0
        assert theory.steps(1.0, 1e-12, init=init, d=5) == 0
    assert theory.steps(1.01, 0.99) == 0
    assert theory.steps_bound(1.0, 0.9) == 0


def test_any_step_size_in_the_range_is_not_uniform() -> None:
    # A = I, alpha = 1e-12: inside (0, 2), the start is off by 1 - 1e-12.
    T = theory.steps_at_rate(-math.log1p(-1e-12), 1e-6)
    assert T == 44
    residual = residuals(np.eye(1), np.array([[1e-12]]), 2, 44)
    assert residual[-1] <= 1e-6 < residual[-2]
    assert theory.steps_at_rate(math.inf, 1e-300) == 0
    assert [theory.steps_at_rate(1.0, math.exp(-(3**k)), 3) for k in range(6)] == [0, 1, 2, 3, 4, 5]


@given(kappa=st.floats(1.0, 300.0), tolerance=tolerances)
@settings(deadline=None, max_examples=tries(60))
def test_gradient_descent_steps(kappa: float, tolerance: float) -> None:
    k = theory.gradient_descent_steps(kappa, tolerance)
    error, contraction = 1.0, 1.0 - 1.0 / kappa
    for _ in range(k - 1):
        error *= contraction
    assert error > tolerance * (1 - 1e-6)
    assert error * contraction <= tolerance * (1 + 1e-6)
    assert k <= math.ceil(kappa * math.log(1 / tolerance))


@given(kappa=st.floats(1.0, 1e6), tolerance=tolerances, order=orders)
@settings(deadline=None, max_examples=tries(100))
def test_newton_is_the_logarithm_of_gradient_descent(kappa: float, tolerance: float, order: int) -> None:
    k, T = theory.gradient_descent_steps(kappa, tolerance), theory.steps(kappa, tolerance, order, "identity")
    assert order**T >= k
    assert T == 0 or order ** (T - 1) < k


@pytest.mark.parametrize("kappa", [1.01, 2.0, 100.0])
def test_at_size_two_the_bound_of_norms_is_not_attained(kappa: float) -> None:
    """||A||_1 ||A||_inf reaches d s1^2 only with two singular vectors for s1: for d = 2, where kappa is 1."""
    angle = np.linspace(0.0, np.pi, 361)
    turn = np.moveaxis(np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]), -1, 0)
    for sign in (1.0, -1.0):
        A = np.abs(turn[:, None] @ np.diag([1.0, sign / kappa]) @ turn[None])
        assert np.max(A.sum(axis=-1).max(axis=-1) * A.sum(axis=-2).max(axis=-1)) < 2.0 - 0.5 * (1.0 - 1.0 / kappa)
    H = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
    assert np.linalg.norm(H, 1) * np.linalg.norm(H, np.inf) == pytest.approx(2.0)


def test_by_horners_rule_work_is_least_at_order_three() -> None:
    work = {p: theory.work_per_doubling(p) for p in range(2, 40)}
    assert min(work, key=lambda p: work[p]) == 3
    assert work[3] == pytest.approx(3 / math.log2(3), rel=1e-15)
    assert work[2] == work[4] == 2.0
    counted = {p: theory.products(p) * theory.steps(1e3, 1e-6, p, "optimal") for p in (2, 3, 4, 5)}
    assert counted == {2: 46, 3: 45, 4: 48, 5: 50}
    assert theory.work_per_doubling(9, 5) == pytest.approx(5 / math.log2(9), rel=1e-15)


def test_products_are_those_of_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    calls: list[int] = []
    multiply = torch.Tensor.__matmul__

    def counted(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return multiply(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", counted)
    for order in range(2, 8):
        calls.clear()
        algorithms.newton_schulz(np.eye(3), 5, order)
        assert len(calls) == 5 * theory.products(order)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_roundoff_in_the_null_space_grows_by_the_order(order: int) -> None:
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    A = U * np.array([1.0, 0.7, 0.5, 0.4, 0.0, 0.0]) @ V.T
    P, Q = V[:, 4:], U[:, 4:]  # A P = 0, Q^T A = 0
    null = [
        np.linalg.norm(P.T @ X @ Q)
        for X in algorithms.newton_schulz_iterates(A, 16, order, algorithms.initial(A) + 1e-14 * P @ Q.T)
    ]
    growth = [null[t] / null[0] / theory.roundoff_growth(t, order) for t in range(17)]
    assert 0.9 < min(growth) <= max(growth) < 1.1


def test_roundoff_growth_saturates() -> None:
    assert theory.roundoff_growth(10) == 1024.0
    assert theory.roundoff_growth(0, 5) == 1.0
    assert theory.roundoff_growth(5000) == math.inf


@pytest.mark.parametrize("order", [2, 3, 4])
def test_degree(order: int) -> None:
    polynomial = np.polynomial.Polynomial
    X, a = polynomial([0.0, 1.0]), polynomial([0.0, 1.0])
    for t in range(4 if order == 2 else 3):
        assert X.trim().degree() == theory.degree(t, order)
        X = sum((X * (1 - a * X) ** m for m in range(order)), polynomial([0.0]))


def test_numbers_quoted_in_the_solutions_of_the_chapter() -> None:
    assert theory.steps_at_rate(-np.log1p(-1e-12), 1e-6) == 44
    assert theory.printed_steps(1.0, 1e-6) < 5
    assert theory.steps(1e4, 1e-6) == 31
    assert theory.steps(1e4, 1e-6, init="identity") == 18


def test_starting_points_have_the_same_names_everywhere() -> None:
    assert theory.INITS == algorithms.INITS


Refusals = list[tuple[type[Exception], str, dict[str, Any]]]
REFUSED: dict[str, Refusals] = {  # by argument
    "kappa": [
        (ValueError, r"kappa = 0.5: must be a finite number and at least 1", {"kappa": 0.5}),
        (ValueError, r"kappa = nan: must be a finite number", {"kappa": math.nan}),
        (ValueError, r"kappa = inf: must be a finite number", {"kappa": math.inf}),
        (ValueError, r"kappa = 1e\+101: must be .* at most 1e\+100", {"kappa": 1e101}),
        (TypeError, r"kappa = '9': must be a finite number", {"kappa": "9"}),
        (TypeError, r"kappa = True: must be a finite number", {"kappa": True}),
    ],
    "tolerance": [
        (ValueError, r"tolerance = 0: must be .* above 0", {"tolerance": 0}),
        (ValueError, r"tolerance = 1.0: must be .* below 1", {"tolerance": 1.0}),
        (ValueError, r"tolerance = nan: must be", {"tolerance": math.nan}),
        (TypeError, r"tolerance = None: must be", {"tolerance": None}),
    ],
    "init": [
        (ValueError, r"init = 'best': must be one of 'optimal', 'spectral'", {"init": "best"}),
        (ValueError, r"d = None: init = \"norms\" must have the size of A", {"init": "norms"}),
        (ValueError, r"d = 0: must be at least 1", {"init": "frobenius", "d": 0}),
        (TypeError, r"d = 2.0: must be an integer", {"d": 2.0}),
    ],
    "per_step": [
        (ValueError, r"per_step = 0: must be at least 1", {"per_step": 0}),
        (TypeError, r"per_step = 2.5: must be an integer", {"per_step": 2.5}),
    ],
    "order": [
        (ValueError, r"order = 1: must be at least 2", {"order": 1}),
        (TypeError, r"order = 2.0: must be an integer", {"order": 2.0}),
    ],
    "steps": [
        (ValueError, r"steps = -1: must be at least 0", {"steps": -1}),
        (TypeError, r"steps = 1.0: must be an integer", {"steps": 1.0}),
    ],
    "rate": [
        (ValueError, r"rate = 0.0: must be .* above 0", {"rate": 0.0}),
        (ValueError, r"rate = nan: must be", {"rate": math.nan}),
        (TypeError, r"rate = '1': must be", {"rate": "1"}),
    ],
}
GOOD = {"kappa": 9.0, "tolerance": 0.1, "order": 2, "init": "spectral", "steps": 2, "rate": 1.0, "per_step": 3}


@pytest.mark.parametrize("name", [name for name in theory.__all__ if name != "INITS"])
def test_every_argument_of_every_function_is_refused_by_name(name: str) -> None:
    function = getattr(theory, name)
    arguments = [argument for argument in inspect.signature(function).parameters if argument != "d"]
    given = {argument: GOOD[argument] for argument in arguments}
    function(**given)
    for error, message, change in (case for argument in arguments for case in REFUSED[argument]):
        with pytest.raises(error, match="^" + message):
            function(**(given | change))
