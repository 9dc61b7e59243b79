"""lem:inverse as a transformer: its sizes, its weights, and its equality with the plain iteration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.linear_problems import TRUTH, matrix, norm, symmetric, truth_matrix
from tests.helpers.linear_problems import newton_schulz as plain
from tests.helpers.tries import tries
from tfnewton import Transformer
from tfnewton.algorithms.inversion import newton_schulz as algorithm
from tfnewton.constructions.inversion import newton_schulz

EPS, EPS32 = np.finfo(np.float64).eps, np.finfo(np.float32).eps


def invert(model: Transformer, X: Any, A: Any) -> Any:
    return model.unpack(model(model.pack(X, A)))["X"]


def problem(d: int, log_kappa: float, is_symmetric: bool, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """A, a start that converges, and the condition number."""
    rng = np.random.default_rng(seed)
    scale, kappa = 10.0 ** rng.uniform(-3, 3), 10.0**log_kappa
    A = symmetric(d, kappa, rng, scale) if is_symmetric else matrix(d, kappa, rng, scale)
    return A, rng.uniform(0.1, 1.9) / scale**2 * A.T, kappa if d > 1 else 1.0


def cancelled(A: np.ndarray, start: np.ndarray) -> float:
    """By what factor the first step shortens the start: 2X and XAX cancel, and their round-off stays."""
    return max(1.0, norm(start) / norm(plain(A, start, 1)))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("kind", "is_symmetric"), [("general", False), ("sym", False), ("sym", True)])
def test_stored_iterates(d: int, kind: str, is_symmetric: bool) -> None:
    A, stored = truth_matrix(d, kind), TRUTH[f"inverse_d{d}_{kind}"]
    start = stored["alpha"] * A.T
    for steps in (1, 2, 5):
        X = invert(newton_schulz(d, steps, is_symmetric), start, A)
        np.testing.assert_allclose(X, np.reshape(stored[f"X{steps}"], (d, d)), rtol=0, atol=1e-11)
    X = invert(newton_schulz(d, 30, is_symmetric), start, A)
    np.testing.assert_allclose(X, np.reshape(stored["inverse"], (d, d)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_stored_iterates_of_order_two(is_symmetric: bool) -> None:
    A, stored = truth_matrix(3, "sym"), TRUTH["highorder_n2_d3_sym"]
    for steps in (1, 2, 3):
        X = invert(newton_schulz(3, steps, is_symmetric), A.T / np.linalg.norm(A) ** 2, A)
        np.testing.assert_allclose(X, stored[f"X{steps}"], rtol=0, atol=1e-11)


problems = st.tuples(st.integers(1, 32), st.integers(0, 25), st.booleans(), st.integers(0, 2**32 - 1))


@given(problems, st.floats(0, 8))
@settings(deadline=None, max_examples=tries(60))
def test_equals_the_plain_iteration(case: tuple[int, int, bool, int], log_kappa: float) -> None:
    """Within 10 kappa times machine precision, but for what the first step cancels."""
    d, steps, is_symmetric, seed = case
    A, start, kappa = problem(d, log_kappa, is_symmetric, seed)
    X, expected = invert(newton_schulz(d, steps, is_symmetric), start, A), plain(A, start, steps)
    assert norm(X - expected) <= 10 * kappa * EPS * cancelled(A, start) * norm(expected)


@given(problems, st.floats(0, 3))
@settings(deadline=None, max_examples=tries(60))
def test_single_precision(case: tuple[int, int, bool, int], log_kappa: float) -> None:
    """Within 20 kappa times float32's precision of the plain iteration in double precision, but for what cancels."""
    d, steps, is_symmetric, seed = case
    A, start, kappa = problem(d, log_kappa, is_symmetric, seed)
    A, start = A.astype(np.float32), start.astype(np.float32)
    X = invert(newton_schulz(d, steps, is_symmetric).to(torch.float32), start, A)
    expected = plain(A.astype(float), start.astype(float), steps)
    assert X.dtype == np.float32
    assert norm(X - expected) <= 20 * kappa * EPS32 * cancelled(A.astype(float), start.astype(float)) * norm(expected)


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_equals_the_reference_algorithm_and_the_inverse(is_symmetric: bool) -> None:
    A, start, _ = problem(8, 1.0, is_symmetric, 0)
    for steps in (0, 1, 7, 20):
        expected = np.asarray(algorithm(A, steps, X0=start))
        X = invert(newton_schulz(8, steps, is_symmetric), start, A)
        assert norm(X - expected) <= 1e-13 * norm(expected)
    assert norm(X @ A - np.eye(8)) <= 1e-12


@given(st.integers(1, 8), st.integers(0, 6), st.booleans(), st.sampled_from([(1,), (3,), (2, 3)]), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(30))
def test_batches(d: int, steps: int, is_symmetric: bool, batch: tuple[int, ...], seed: int) -> None:
    """A batch of starts for one matrix, and a matrix for each start."""
    model = newton_schulz(d, steps, is_symmetric)
    cases = [problem(d, 1.0, is_symmetric, seed + i) for i in range(int(np.prod(batch)))]
    A = np.reshape([case[0] for case in cases], (*batch, d, d))
    start = np.reshape([case[1] for case in cases], (*batch, d, d))
    together, tensors = invert(model, start, A), invert(model, torch.tensor(start), A)
    assert isinstance(together, np.ndarray)
    assert isinstance(tensors, torch.Tensor)
    assert together.shape == tensors.shape == (*batch, d, d)
    for index in np.ndindex(*batch):
        expected = plain(A[index], start[index], steps)
        assert norm(together[index] - expected) <= 1e-13 * norm(expected)
        assert norm(tensors[index].numpy() - expected) <= 1e-13 * norm(expected)
    fractions = np.linspace(0.2, 1.0, int(np.prod(batch))).reshape(*batch, 1, 1) * start[(0,) * len(batch)]
    shared = invert(model, fractions, A[(0,) * len(batch)])
    for index in np.ndindex(*batch):
        expected = plain(A[(0,) * len(batch)], fractions[index], steps)
        assert norm(shared[index] - expected) <= 1e-13 * norm(expected)


@pytest.mark.parametrize("d", [1, 2, 7, 32])
@pytest.mark.parametrize("steps", [0, 1, 6])
def test_sizes_are_those_of_the_lemma(d: int, steps: int) -> None:
    """Two layers a step (one for symmetric A) of at most two heads and width 4d, without a ReLU layer."""
    general, one_layer = newton_schulz(d, steps), newton_schulz(d, steps, symmetric=True)
    assert (general.depth, one_layer.depth) == (2 * steps, steps)
    for model in (general, one_layer):
        assert model.heads == (2 if steps else 0)
        assert (model.width, model.relu_width) == (4 * d, 0)
        assert list(model.parameters()) == []
    assert [len(layer.heads) for layer in general.layers] == [1, 2] * steps


def test_the_weights_are_those_of_the_proof() -> None:
    """The block matrices of the proof, written down as they are printed."""
    d = 3
    zero, one = np.zeros((d, d)), np.eye(d)

    def printed(*entries: tuple[int, int, float]) -> np.ndarray:
        blocks = [[zero] * 4 for _ in range(4)]
        for row, column, coefficient in entries:
            blocks[row][column] = coefficient * one
        return np.block(blocks)

    first = [{"W_V": printed((2, 1, 1)), "W_K": printed((0, 3, 1)), "W_Q": printed((0, 0, 1))}]
    second = [
        {"W_V": printed((0, 0, 1)), "W_K": printed((0, 3, 1)), "W_Q": printed((0, 2, -1))},
        {"W_V": printed((0, 0, 1), (2, 2, -1)), "W_K": printed((0, 3, 1)), "W_Q": printed((0, 3, 1))},
    ]
    for layer, proof in zip(newton_schulz(d).layers, (first, second), strict=True):
        for head, matrices in zip(layer.weights(), proof, strict=True):
            for name, expected in matrices.items():
                np.testing.assert_array_equal(head[name].numpy(), expected, err_msg=name)


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_weights_are_made_before_there_are_data(is_symmetric: bool, tmp_path: Path) -> None:
    model = newton_schulz(4, 20, is_symmetric)
    model.save(tmp_path / "before")
    for seed in (0, 1):
        A, start, _ = problem(4, 1.0, is_symmetric, seed)
        assert norm(invert(model, start, A) @ A - np.eye(4)) <= 1e-12
    model.save(tmp_path / "after")
    newton_schulz(4, 20, is_symmetric).save(tmp_path / "anew")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes() == (tmp_path / "anew").read_bytes()


@given(problems)
@settings(deadline=None, max_examples=tries(30))
def test_all_other_rows_come_out_as_they_went_in(case: tuple[int, int, bool, int]) -> None:
    d, steps, is_symmetric, seed = case
    A, start, _ = problem(d, 1.0, is_symmetric, seed)
    model = newton_schulz(d, steps, is_symmetric)
    H = np.asarray(model.pack(start, A))
    np.testing.assert_array_equal(H, np.vstack([start, A, np.zeros((d, d)), np.eye(d)]))
    np.testing.assert_array_equal(np.asarray(model(H))[d:], H[d:])


def test_no_step_changes_nothing() -> None:
    A, start, _ = problem(3, 1.0, False, 0)
    np.testing.assert_array_equal(invert(newton_schulz(3, 0), start, A), start)


def test_the_trace_is_the_iteration() -> None:
    A, start, _ = problem(4, 1.0, False, 1)
    frames = newton_schulz(4, 5).trace(newton_schulz(4, 5).pack(start, A))
    for k in range(6):
        expected = plain(A, start, k)
        assert norm(np.asarray(frames[2 * k].blocks["X"]) - expected) <= 1e-13 * norm(expected)
        if k < 5:
            assert norm(np.asarray(frames[2 * k + 1].blocks["S"]) - A @ expected) <= 1e-13 * norm(A @ expected)
    assert [frame.label for frame in frames[1:3]] == ["S <- A X", "X <- 2X - X S, S <- 0"]
    assert [frame.written for frame in frames[1:3]] == [("S",), ("X", "S")]


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_dense_weights_give_the_same(is_symmetric: bool) -> None:
    A, start, _ = problem(5, 1.0, is_symmetric, 2)
    model = newton_schulz(5, 8, is_symmetric)
    expected = invert(model, start, A)
    assert norm(invert(model.dense(), start, A) - expected) <= 1e-13 * norm(expected)


def test_the_symmetric_step_is_wrong_for_other_matrices() -> None:
    """It computes X(2I - A^T X), which is why ``pack`` insists."""
    A, start, _ = problem(3, 1.0, False, 3)
    model = newton_schulz(3, 1, symmetric=True)
    H = np.vstack([start, A, np.zeros((3, 3)), np.eye(3)])
    X = np.asarray(model(H))[:3]
    assert norm(X - plain(A.T, start, 1)) <= 1e-13 * norm(X)
    assert norm(X - plain(A, start, 1)) > 1e-3 * norm(X)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d": 0}, ValueError, "d = 0: must be at least 1"),
        ({"d": 2.0}, TypeError, r"d = 2\.0: must be an integer, at least 1"),
        ({"d": True}, TypeError, "d = True: must be an integer"),
        ({"d": 2, "steps": -1}, ValueError, "steps = -1: must be at least 0"),
        ({"d": 2, "steps": 1.5}, TypeError, r"steps = 1\.5: must be an integer, at least 0"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        newton_schulz(**arguments)


@pytest.mark.parametrize(
    ("X", "A", "error", "message"),
    [
        (np.eye(3), np.ones((3, 2)), ValueError, r"A has shape \(3, 2\): must be \(d = 3, d = 3\)"),
        (np.eye(3), np.eye(2), ValueError, r"A has shape \(2, 2\): must be \(d = 3, d = 3\)"),
        (np.ones((2, 3)), np.eye(3), ValueError, r"X has shape \(2, 3\): must be \(d = 3, d = 3\)"),
        (np.ones((2, 3, 3)), np.ones((4, 3, 3)), ValueError, r"batch axes do not agree: X \(2,\), A \(4,\)"),
        (np.eye(3), np.eye(3) > 0, TypeError, "A has dtype bool: must be an array of real numbers"),
        (np.eye(3) * 1j, np.eye(3), TypeError, "X has dtype complex128: must be an array of real numbers"),
        (np.eye(3), np.eye(3).astype(str), TypeError, "A has dtype <U32: must be an array of real numbers"),
        (np.eye(3), np.eye(3).astype(object), TypeError, "A has dtype object: must be an array of real numbers"),
        (np.eye(3), np.eye(3) * np.nan, ValueError, "A contains NaN or infinity"),
    ],
)
def test_inputs_that_are_refused(X: np.ndarray, A: np.ndarray, error: type[Exception], message: str) -> None:
    for is_symmetric in (False, True):
        with pytest.raises(error, match=f"^{message}"):
            newton_schulz(3, 1, is_symmetric).pack(X, A)


MEMORY = """
import sys
from pathlib import Path

import numpy as np

from tfnewton.constructions.inversion import newton_schulz

d, rng = 1024, np.random.default_rng(0)
A = rng.standard_normal((d, d)) / (8 * d**0.5)
A = np.eye(d) + (A + A.T if sys.argv[1] == "symmetric" else A)
model = newton_schulz(d, 8, symmetric=sys.argv[1] == "symmetric")
X = model.unpack(model(model.pack(A.T / np.linalg.norm(A, 2) ** 2, A)))["X"]
assert np.abs(X @ A - np.eye(d)).max() < 1e-10
# not getrusage: its maximum survives exec, so that a child starts with the size of its parent
print(*[line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak size from /proc")
@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_a_thousand_rows_take_less_than_two_gigabytes(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY, kind], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2e9
