"""What is measured: each suite returns one table."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from benchmarks.measure import Times, alternate, peak_memory
from tfnewton.algorithms import logistic_regression as direct
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.constructions.logistic_regression import damped_newton
from tfnewton.model.feed_forward import ReLU
from tfnewton.model.transformer import Transformer

__all__ = ["SUITES", "Table"]

Row: TypeAlias = dict[str, int | float | str]
STEPS = 10


class Table(NamedTuple):
    title: str
    note: str
    rows: list[Row]


def _iterate_numpy(A: np.ndarray, X: np.ndarray) -> np.ndarray:
    for _ in range(STEPS):
        X = 2 * X - X @ (A @ X)
    return X


def _iterate_torch(A: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        X = 2 * X - X @ (A @ X)
    return X


def _spd(d: int) -> np.ndarray:
    B = np.random.default_rng(d).standard_normal((d, d))
    return np.asarray(B @ B.T / d + np.eye(d))


def _ratios(times: dict[str, Times], of: str, to: str) -> str:
    medians, minima = times[of].median / times[to].median, times[of].minimum / times[to].minimum
    return f"{medians:.2f} / {minima:.2f}"


def inversion(seconds: float) -> Table:
    """The forward pass of lem:inverse against the same iteration, d = 8 to 512."""
    rows: list[Row] = []
    for d in (8, 16, 32, 64, 128, 256, 512):
        A = _spd(d)
        X = A / np.linalg.norm(A) ** 2
        symmetric, general = newton_schulz(d, STEPS, symmetric=True), newton_schulz(d, STEPS)
        H = np.asarray(symmetric.pack(X, A))
        times = alternate(
            {
                "numpy": partial(_iterate_numpy, A, X),
                "torch": partial(_iterate_torch, torch.tensor(A), torch.tensor(X)),
                "symmetric": partial(symmetric, H),
                "general": partial(general, H),
            },
            seconds,
        )
        microseconds = {f"{name} us": times[name].median / STEPS * 1e6 for name in times}
        rows.append(
            {
                "d": d,
                **microseconds,
                "sym/torch": _ratios(times, "symmetric", "torch"),
                "sym/numpy": _ratios(times, "symmetric", "numpy"),
                "gen/torch": _ratios(times, "general", "torch"),
                "gen/numpy": _ratios(times, "general", "numpy"),
                "runs": times["numpy"].repetitions,
            }
        )
    note = (
        f"{STEPS} steps, median microseconds a step; ratios of medians / of minima. Plain: 2X - X(AX), two products.\n"
        "A symmetric layer multiplies three times (its heads share their value); a general step, two layers, six times."
    )
    return Table("Inversion: forward pass against the plain iteration", note, rows)


def _plain_regression(A: np.ndarray, y: np.ndarray, a: np.ndarray, step: float) -> float:
    gram = A.T @ A
    return float(a @ (_iterate_numpy(gram, step * gram) @ (A.T @ y)))


def regression(seconds: float) -> Table:
    """The forward pass of thm:main_linear against the same algorithm, n up to 10^5."""
    rows: list[Row] = []
    d = 16
    for n in (16, 64, 100, 1_000, 10_000, 100_000):
        rng = np.random.default_rng(n)
        A, y, a = rng.standard_normal((n, d)) / n**0.5, rng.standard_normal(n), rng.standard_normal(d)
        step = float(np.linalg.norm(A, 2)) ** -4
        newton, descent = least_squares(d, STEPS, step), gradient_descent(d, STEPS, step**0.5)
        H, G = np.asarray(newton.pack(A, y, a)), np.asarray(descent.pack(A, y))
        times = alternate(
            {
                "numpy": partial(_plain_regression, A, y, a, step),
                "Newton": partial(newton, H),
                "descent": partial(descent, G),
            },
            seconds,
        )
        rows.append(
            {
                "n": n,
                **{f"{name} us": times[name].median * 1e6 for name in times},
                "Newton us/token": times["Newton"].median * 1e6 / n,
                "Newton/numpy": _ratios(times, "Newton", "numpy"),
                "H in MB": H.nbytes / 1e6,
                "runs": times["numpy"].repetitions,
            }
        )
    note = (
        f"d = {d}, {STEPS} steps, {3 + STEPS} layers; microseconds for all of them. Plain numpy iterates on d x d\n"
        "matrices and pays for n once, a transformer works on rows of n tokens in every layer, in time linear in n."
    )
    return Table("Linear regression: forward pass and number of examples", note, rows)


def _with_full_matrices(model: Transformer) -> Transformer:
    like = torch.empty(0, dtype=model.dtype)
    full = deepcopy(model)
    for layer in full.layers:
        if layer.relu is not None:
            layer.relu = ReLU.dense(*layer.relu.weights(like), trainable=False)
    return full


def logistic(seconds: float) -> Table:
    """One damped Newton step of thm:logistic: build, forward pass, and the same step computed directly."""
    rows: list[Row] = []
    for d, n, mu, error in ((5, 26, 0.1, 1e-2), (5, 26, 0.1, 1e-4), (10, 100, 0.1, 1e-3), (30, 569, 0.01, 1e-3)):
        rng = np.random.default_rng(d)
        A, y = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], n)
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        build = partial(damped_newton, d, n, mu, 1, error)
        model = build()
        H = np.asarray(model.pack(A, y))
        times = alternate(
            {
                "build": build,
                "step": partial(model, H),
                "full": partial(_with_full_matrices(model), H),
                "direct": partial(direct.damped_newton, A, y, mu, 1),
            },
            seconds,
        )
        rows.append(
            {
                "d": d,
                "n": n,
                "mu": mu,
                "error": error,
                "layers": model.depth,
                "widest ReLU": model.relu_width,
                **{f"{name} ms": value.median * 1e3 for name, value in times.items()},
                "full/step": _ratios(times, "full", "step"),
                "step/direct": _ratios(times, "step", "direct"),
            }
        )
    note = (
        "Full: the same step with W_1 and W_2 as full matrices; it multiplies the rows that units read and write.\n"
        "Direct: gradient, Hessian and one linear system. The step inverts by iteration and uses ReLU units."
    )
    return Table("Logistic regression: one damped Newton step", note, rows)


def building(seconds: float) -> Table:
    """Time to make the weights, before any data."""
    rows: list[Row] = []
    for d in (8, 64, 512):
        builds: dict[str, Callable[[], Transformer]] = {
            "inversion, 20 steps": partial(newton_schulz, d, 20),
            "least squares, 20 steps": partial(least_squares, d, 20, 0.1),
            "gradient descent, 20 steps": partial(gradient_descent, d, 20, 0.1),
        }
        times = alternate(builds, seconds)
        rows.append({"d": d, **{f"{name} us": value.median * 1e6 for name, value in times.items()}})
    return Table("Time to build the weights", "Selections do not grow with d, and shared layers are built once.", rows)


_INVERT = """
import numpy as np
d, rng = {d}, np.random.default_rng(0)
B = rng.standard_normal((d, d)) / (8 * d**0.5)
A = np.eye(d) + B + B.T
X = A / np.linalg.norm(A, 2)**2
"""
_PLAIN = "import torch\nA, X = torch.tensor(A), torch.tensor(X)\nfor _ in range(3): X = 2 * X - X @ (A @ X)\n"
_TRANSFORM = """
from tfnewton.constructions.inversion import newton_schulz
model = newton_schulz(d, 3, symmetric={symmetric})
X = model.unpack(model(model.pack(X, A)))["X"]
"""
_REGRESS = """
import numpy as np
from tfnewton.constructions.linear_regression import least_squares
n, d, rng = 100_000, {d}, np.random.default_rng(0)
A, y, a = rng.standard_normal((n, d)) / n**0.5, rng.standard_normal(n), rng.standard_normal(d)
model = least_squares(d, 10, 0.1)
y_hat = model.unpack(model(model.pack(A, y, a)))["y_hat"]
"""
_FIT = """
import numpy as np
from tfnewton.constructions.logistic_regression import damped_newton
rng = np.random.default_rng(0)
A, y = rng.standard_normal((569, 30)), rng.choice([-1.0, 1.0], 569)
A /= np.linalg.norm(A, axis=1, keepdims=True)
model = damped_newton(30, 569, 0.01, 1, 1e-3)
x = model.unpack(model(model.pack(A, y)))["x"]
"""


def memory(seconds: float) -> Table:
    """Peak memory of whole processes; ``seconds`` does not matter."""
    idle = peak_memory("import tfnewton.constructions.linear_regression")
    rows: list[Row] = [{"process": "imports only", "peak MB": idle, "above imports": 0.0, "H in MB": 0.0}]
    scripts: list[tuple[str, str, float]] = []
    for d in (512, 1024):
        data, size = _INVERT.format(d=d), 4 * d * d * 8 / 1e6
        scripts.append((f"d = {d}, plain torch", data + _PLAIN, 0.0))
        scripts += [
            (f"d = {d}, {kind} transformer", data + _TRANSFORM.format(symmetric=kind == "symmetric"), size)
            for kind in ("symmetric", "general")
        ]
    scripts += [(f"n = 100000, d = {d}, least squares", _REGRESS.format(d=d), (4 * d + 3) * 0.8) for d in (16, 32)]
    scripts.append(("n = 569, d = 30, damped Newton step", _FIT, 184 * 569 * 8 / 1e6))
    for name, script, size in scripts:
        peak = peak_memory(script)
        rows.append({"process": name, "peak MB": peak, "above imports": peak - idle, "H in MB": size})
    return Table(
        "Peak memory", "Largest resident size of a fresh process: data, packing, forward pass, unpacking.", rows
    )


SUITES: dict[str, Callable[[float], Table]] = {
    "inversion": inversion,
    "regression": regression,
    "logistic": logistic,
    "building": building,
    "memory": memory,
}
