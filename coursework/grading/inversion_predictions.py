"""What students predict in "Transformers that invert", held against iterations that are run here."""

from __future__ import annotations

import numpy as np

from grading.marks import Marks, observe
from grading.trials import Real, Student, matrix, number, quietly, residual, spectral

__all__ = ["count_layers", "null_space", "predict_floors"]

COUNTS = "chapter 2, 'How many steps, from where'"
ROUNDOFF = "chapter 2, 'What roundoff leaves'"
STARTS = [(0.2, 0.32), (0.2, 0.32), (0.5, 1.0), (1.0, 1.8)]  # c; the first two are worth a layer, whatever the order


# layers


@quietly
def count_layers(student: Student, rng: np.random.Generator) -> float:
    """Depths for unseen kappas, starts and orders: enough at the count, and not enough one layer before."""
    marks = Marks()
    with marks.part(3, COUNTS):
        for least, most in STARTS:
            _count(student, rng, rng.uniform(20.0, 200.0), rng.uniform(least, most), 2)
    with marks.part(2, COUNTS):
        for _ in range(4):
            _count(student, rng, rng.uniform(1.2, 2.0), rng.uniform(1.9, 1.99), 2)
    with marks.part(3, COUNTS):
        for least, most in STARTS:
            _count(student, rng, rng.uniform(5.0, 100.0), rng.uniform(least, most), 3)
    with marks.part(1, COUNTS):
        found = number(student(1.0, 1e-6, 1.0, 2), "the number of layers")
        observe(
            found == 1,
            f"kappa = 1 and c = 1: the start is the inverse already, you count {found:g} layers with the opening",
        )
    return marks.total


def _count(student: Student, rng: np.random.Generator, kappa: float, c: float, order: int) -> None:
    """Compare one count with a run; a residual that comes to lie on the tolerance is drawn anew."""
    while True:
        tolerance = float(10 ** rng.uniform(-8.0, -1.5))
        left = _residuals(matrix(kappa, int(rng.integers(2, 6)), rng), c, order)
        if all(abs(np.log(r / tolerance)) > 0.1 for r in left):
            break
    layers = number(student(kappa, tolerance, c, order), "the number of layers")
    about = f"kappa = {kappa:.3g}, c = {c:.3g}, order {order}, tolerance {tolerance:.2g}: {layers:g} layers"
    observe(layers == int(layers) and 1 <= layers <= len(left), f"{about}, which no transformer of this kind has")
    at = left[int(layers) - 1]
    observe(at <= tolerance, f"{about} leave {at:.2g}")
    observe(layers == 1 or left[int(layers) - 2] > tolerance, f"{about}, but fewer are enough")


def _residuals(A: Real, c: float, order: int) -> list[float]:
    """Return the norm of I - A X after 1, 2, ... layers, the first of which leaves X at c A^T / sigma_1^2."""
    X, left = c * A.T / spectral(A) ** 2, []
    for _ in range(40):
        E = np.eye(len(A)) - A @ X
        left.append(max(spectral(E), 1e-300))
        X = X + X @ (E if order == 2 else E + E @ E)
    return left


# roundoff


@quietly
def predict_floors(student: Student, rng: np.random.Generator) -> float:
    """Residuals at which both iterations stop, in two precisions; a factor of thirty is allowed."""
    marks = Marks()
    cases = {
        "carried": {"float32": (8.0, 90.0, 900.0), "float64": (50.0, 5e3, 3e5)},
        "recomputed": {"float32": (8.0, 900.0, 3e4), "float64": (50.0, 5e3, 3e5)},
    }
    for which, name in enumerate(cases):
        for dtype, kappas in cases[name].items():
            with marks.part(2, ROUNDOFF):
                for kappa in kappas:
                    both = student(kappa, float(np.finfo(dtype).eps))
                    observe(isinstance(both, (tuple, list)) and len(both) == 2, "the answer is not a pair of numbers")
                    said = number(both[which], f"the floor of the iteration with E {name}")
                    ran = _floor(kappa, dtype, name == "carried", rng)
                    about = f"{dtype}, kappa = {kappa:g}, E {name}: predicted {said:.1e}, measured {ran:.1e}"
                    observe(ran / 30 < said < ran * 30, about)
    return marks.total


def _floor(kappa: float, dtype: str, carried: bool, rng: np.random.Generator) -> float:
    """Return the residual in which the iteration ends, the median over some matrices."""
    ends = []
    for d in (4, 6, 8):
        A = matrix(kappa, d, rng).astype(dtype)
        one = np.eye(d, dtype=dtype)
        X = (A.T / spectral(A) ** 2).astype(dtype)
        E = one - A @ X
        for _ in range(int(2 * np.log2(kappa)) + 9):
            X = X + X @ E
            E = E @ E if carried else one - A @ X
        ends.append(residual(A, X))
    return float(np.median(ends))


# a singular matrix


@quietly
def null_space(limit: Student, growth: Student, rng: np.random.Generator) -> float:
    """The limit for matrices of all ranks, and what becomes of dirt in the null space."""
    marks = Marks()
    with marks.part(1, ROUNDOFF):
        for d in (2, 4):
            _limit(limit, matrix(4.0, d, rng), f"an invertible matrix of size {d}")
    with marks.part(2, ROUNDOFF):
        for d, rank in ((3, 1), (4, 3), (6, 2)):
            left, right = (np.linalg.qr(rng.standard_normal((d, rank)))[0] for _ in range(2))
            _limit(limit, left * np.geomspace(1.0, 0.3, rank) @ right.T, f"a matrix of size {d} and rank {rank}")
    for points, dirt in [(1, [0.0]), (2, [1e-3, -1e-3, 0.2, -0.3])]:
        with marks.part(points, ROUNDOFF):
            for eps in dirt:
                for t in (0, 1, 3, 4, 9) if eps < 0.1 else (0, 1, 3, 4):
                    said = number(growth(eps, t), "the factor")
                    ran = _growth(eps, t)
                    about = f"eps = {eps:g}, after {t} steps: predicted {said:.4g}, measured {ran:.4g}"
                    observe(abs(said - ran) < 1e-4 * ran, about)
    return marks.total


def _limit(student: Student, A: Real, about: str) -> None:
    found = np.asarray(student(A.copy()), dtype=float)
    observe(found.shape == A.shape, f"for {about} the limit has the shape {found.shape}")
    X = A.T / spectral(A) ** 2
    for _ in range(12):
        X = 2 * X - X @ A @ X
    apart = spectral(found - X.T) / spectral(X)
    observe(apart < 1e-6, f"for {about} the prediction is off by {apart:.2g}, relative to where Y comes")


def _growth(eps: float, t: int) -> float:
    """Run t steps on a diagonal example whose second direction is the null space; return the factor there."""
    X, E = np.diag([1.0, 1e-3]), np.diag([0.5, 1.0 + eps])
    for _ in range(t):
        X, E = X + X @ E, E @ E
    return float(X[1, 1] / 1e-3)
