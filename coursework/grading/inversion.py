"""What is graded in "Transformers that invert". Each function takes what a student wrote, and returns the points.

Submitted layers are run by ``grading.heads``, and what they should give is computed here in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading.heads import Matrices, layer_of, layers_of, run
from grading.inversion_predictions import count_layers, null_space, predict_floors
from grading.marks import Marks, observe
from grading.trials import Real, Student, matrix, number, quietly, residual, same, spectral
from tfnewton.model.layout import Layout

__all__ = ["carried_step", "count_layers", "cubic_step", "null_space", "polish", "predict_floors", "read_head"]

HEADS = "chapter 1, 'Rows with names'"
WEIGHTS = "chapter 1, the remarks below the weights of a head"
ONE_STEP = "chapter 3, 'The lemma' and its proof"
TRANSPOSE = "chapter 3, 'One layer is enough'"
ORDERS = "chapter 2, 'One step raises the residual to a power'"
ROUNDOFF = "chapter 2, 'What roundoff leaves'"


# reading


@quietly
def read_head(student: Student, rng: np.random.Generator) -> float:
    """Heads of random layouts: plain, with the coefficient spread over three matrices, with rotated scores."""
    marks = Marks()
    kinds = [(3, False, False, HEADS), (2, True, False, HEADS), (3, True, True, WEIGHTS)]
    for points, scaled, rotated, page in kinds:
        with marks.part(points, page):
            for _ in range(4):
                _read_one(student, rng, scaled, rotated)
    return marks.total


def _read_one(student: Student, rng: np.random.Generator, scaled: bool, rotated: bool) -> None:
    d, blocks = (int(n) for n in rng.integers((1, 3), (4, 6)))
    names = [str(name) for name in rng.choice(list("ABCDGKMNPSUWZ"), blocks, replace=False)]
    target, value, key, query = (int(i) for i in rng.integers(blocks, size=4))
    a, b, c = rng.choice([-3.0, -2.0, -0.5, 0.25, 1.5], 3) if scaled else (1.0, 1.0, 1.0)
    R = np.linalg.qr(rng.standard_normal((blocks * d,) * 2))[0] if rotated else np.eye(blocks * d)
    units = np.eye(blocks)

    def place(i: int, j: int) -> Real:
        return np.kron(np.outer(units[i], units[j]), np.eye(d))

    layout = Layout(**dict.fromkeys(names, d))
    found = student(a * place(target, value), b * R @ place(0, key), c * R @ place(0, query), layout)
    observe(isinstance(found, (tuple, list)) and len(found) == 5, "the answer is not a tuple of five entries")
    truth = [names[i] for i in (target, value, key, query)]
    for role, said, name in zip(("target", "value", "key", "query"), found[:4], truth, strict=True):
        observe(said == name, f"of a head on {', '.join(names)} the {role} was read as {said!r}, which it is not")
    off = abs(number(found[4], "the coefficient") - a * b * c)
    observe(off < 1e-8, f"the coefficient of a head was read as {found[4]:.4g}, which is off by {off:.2g}")


# building


def _generic(layout: dict[str, int], rng: np.random.Generator) -> dict[str, Real]:
    """Blocks without any structure, but for the identity."""
    d = layout["I"]
    return {name: rng.standard_normal((d, d)) for name in layout} | {"I": np.eye(d)}


def _after(layers: list[list[Matrices]], blocks: dict[str, Real], dtype: str = "float64") -> dict[str, Real]:
    H = np.vstack(list(blocks.values())).astype(dtype)
    parts = np.split(run(layers, H), len(blocks))
    return dict(zip(blocks, parts, strict=True))


def _start(A: Real, layout: dict[str, int], scale: float = 1.0) -> dict[str, Real]:
    """The input of the assignment: the transposed iterate starts from a multiple of A."""
    zero = np.zeros_like(A)
    given = {"I": np.eye(len(A)), "A": A, "Y": scale * A / spectral(A) ** 2}
    return {name: given.get(name, zero) for name in layout}


def _layout(names: str, d: int) -> dict[str, int]:
    return dict.fromkeys(names, d)


@quietly
def carried_step(opening: Student, squaring: Student, rng: np.random.Generator) -> float:
    """One layer each, on blocks without structure; then many from a real start."""
    marks = Marks()

    def built(student: Student, layout: dict[str, int]) -> list[list[Matrices]]:
        return [layer_of(student(Layout(**layout)), sum(layout.values()))]

    def steps(name: str) -> Iterator[tuple[dict[str, Real], dict[str, Real]]]:
        for d in (1, 2, 5):
            layout = _layout("IAYE", d)
            before = _generic(layout, rng)
            before["E"] *= name != "opening"
            yield before, _after(built(opening if name == "opening" else squaring, layout), before)

    with marks.part(4, ONE_STEP):
        for before, after in steps("opening"):
            same(after["E"], before["I"] - before["A"] @ before["Y"].T, "E after the opening layer")
            same(np.vstack([after[b] for b in "IAY"]), np.vstack([before[b] for b in "IAY"]), "what is left of I, A, Y")
    with marks.part(4, ONE_STEP):
        for before, after in steps("squaring"):
            same(after["Y"], before["Y"] + before["E"].T @ before["Y"], "Y after a step, for an E of any shape,")
    with marks.part(2, ONE_STEP):
        for before, after in steps("squaring"):
            same(after["E"], before["E"] @ before["E"], "E after a step")
            same(np.vstack([after["I"], after["A"]]), np.vstack([before["I"], before["A"]]), "what is left of I and A")
    with marks.part(2, ORDERS):
        for d in (2, 3, 6):
            layout, A = _layout("IAYE", d), matrix(4.0, d, rng)
            stack = built(opening, layout) + 9 * built(squaring, layout)
            left = residual(A, _after(stack, _start(A, layout))["Y"].T)
            observe(left < 1e-9, f"ten layers leave of a matrix with kappa = 4 the residual {left:.2g}")
    return marks.total


@quietly
def cubic_step(student: Student, rng: np.random.Generator) -> float:
    """The opening, one step and two from an iterate without structure, and the whole from a real start."""
    marks = Marks()

    def after(steps: int, before: dict[str, Real]) -> dict[str, Real]:
        d = len(before["I"])
        layers = layers_of(student(d, steps), _layout("IAYEF", d))
        observe(len(layers) == steps + 1, f"for {steps} steps there are {len(layers)} layers")
        return _after(layers, before)

    def fresh(d: int) -> dict[str, Real]:
        A = matrix(2.0, d, rng)
        Y = np.linalg.inv(A).T @ (np.eye(d) + 0.2 * rng.standard_normal((d, d)))
        return {"I": np.eye(d), "A": A, "Y": Y, "E": np.zeros((d, d)), "F": np.zeros((d, d))}

    for points, steps, page in [(3, 0, TRANSPOSE), (4, 1, TRANSPOSE), (3, 2, TRANSPOSE)]:
        with marks.part(points, page):
            for before in (fresh(1), fresh(2), fresh(4)):
                I, found = before["I"], after(steps, before)  # noqa: E741
                E = I - before["A"] @ before["Y"].T
                left = np.linalg.matrix_power(E, 3**steps)
                same(found["E"], left, f"E after {steps} steps, from a start without symmetry,")
                same(found["F"], left.T, f"F after {steps} steps, from a start without symmetry,")
                same(I - before["A"] @ found["Y"].T, left, f"I - A Y^T after {steps} steps")
    with marks.part(2, ORDERS):
        for d, kappa in ((2, 3.0), (5, 20.0)):
            A = matrix(kappa, d, rng)
            least = np.log(np.log(1e-6) / np.log1p(-(kappa**-2.0))) / np.log(3.0)
            steps = int(np.ceil(least + 0.05))
            end = residual(A, after(steps, _start(A, _layout("IAYEF", d)))["Y"].T)
            observe(end < 1.1e-6, f"{steps} steps leave of a matrix with kappa = {kappa:g} the residual {end:.2g}")
    return marks.total


@quietly
def polish(student: Student, rng: np.random.Generator) -> float:
    """A careful layer on any iterate and any E; then the float32 error with and without it."""
    marks = Marks()

    def last(d: int, careful: int) -> list[list[Matrices]]:
        few, more = (layers_of(student(d, 2, n), _layout("IAYEF", d)) for n in (0, careful))
        added = len(more) - len(few)
        observe(added == careful, f"asked for {careful} careful layers, the transformer has {added} more than without")
        return more[-careful:]

    with marks.part(3, TRANSPOSE):
        for d in (1, 2, 5):
            for careful in (1, 2):
                before = _generic(_layout("IAYEF", d), rng) | {"A": matrix(2.0, d, rng)}
                wanted = before["Y"].T
                for _ in range(careful):
                    wanted = wanted @ (2 * np.eye(d) - before["A"] @ wanted)
                same(_after(last(d, careful), before)["Y"].T, wanted, f"Y^T after {careful} careful layers, any E,")
    with marks.part(3, ROUNDOFF):
        for d, kappa in ((4, 120.0), (6, 250.0)):
            before = _carried(matrix(kappa, d, rng).astype("float32"), 16)
            before["Y"] = before["Y"] @ (np.eye(d) + 3e-4 * rng.standard_normal((d, d))).astype("float32")
            after = _after(last(d, 1), before, "float32")
            inverse = np.linalg.inv(before["A"].astype(float))
            left = [spectral(end["Y"].T - inverse) / spectral(inverse) for end in (before, after)]
            about = f"in float32, kappa = {kappa:g}, the error before is {left[0]:.2g}"
            observe(left[1] < 2 * 2.0**-23 * kappa, f"{about}, after your careful layer it is {left[1]:.2g}")
    return marks.total


def _carried(A: Real, steps: int) -> dict[str, Real]:
    """Return the blocks after steps of order three that carry E and F, in the precision of A."""
    blocks = _start(A, _layout("IAYEF", len(A)))
    one, Y = (blocks[name].astype(A.dtype) for name in "IY")
    E, F = one - A @ Y.T, one - Y @ A.T
    for _ in range(steps):
        Y, E, F = Y + (one + F) @ (E.T @ Y), E @ (F.T @ E), F @ (E.T @ F)
    return {"I": one, "A": A, "Y": Y, "E": E, "F": F}
