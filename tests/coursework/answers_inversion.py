"""Answers to "Transformers that invert": right ones written differently, and wrong ones of the likely kinds."""

from __future__ import annotations

from tests.coursework.answers import Answer

__all__ = ["ANSWERS"]

READ = """
def read_head(W_V, W_K, W_Q, layout):
    scores = {body}
    found = []
    for W in (W_V, scores):
        for i in layout.blocks:
            for j in layout.blocks:
                part = W[i.start : i.start + i.size, j.start : j.start + j.size]
                if np.abs(part).max() > 1e-6:
                    found.append((i.name, j.name, part[0, 0]))
    (t, v, a), (k, q, b) = found[0], found[-1]
    return t, v, k, q, {coefficient}
"""


def _read(body: str = "np.einsum('ki,kj->ij', W_K, W_Q)", coefficient: str = "a * b") -> str:
    return READ.format(body=body, coefficient=coefficient)


READ_ONES = """
def read_head(W_V, W_K, W_Q, layout):
    def first(W):
        row, column = np.argwhere(np.abs(W) > 1e-9)[0]
        size = layout.blocks[0].size
        return layout.blocks[row // size].name, layout.blocks[column // size].name, W[row, column]

    (t, v, a), (_, k, b), (_, q, c) = first(W_V), first(W_K), first(W_Q)
    return t, v, k, q, a * b * c
"""

OPENING = """
def opening(layout):
    I, A, Y, E = layout.blocks
    return attention(layout, E.add({first}), E.add(I @ I.T @ I))
"""

SQUARING = """
def squaring(layout):
    I, A, Y, E = layout.blocks
    return attention(layout, {writes})
"""

INSIDE = """
class Numpy(Layer):
    def forward(self, H):
        d = H.shape[-1]
        I, A, Y, E = H.reshape(4, d, d)
        return torch.cat([I, A, Y + E.T @ Y, E @ E])

    forward_ = forward

def squaring(layout):
    return Numpy([])
"""

SOLVED = """
def squaring(layout):
    I, A, Y, E = layout.blocks
    layer = attention(layout, Y.add(I @ E.T @ Y), E.add(E @ I.T @ E), E.add(-E @ I.T @ I))

    def solve(H):
        d = H.shape[-1]
        inverse = torch.linalg.pinv(H[d : 2 * d]).T
        return torch.cat([H[: 2 * d], inverse, 0 * inverse])

    layer.forward = layer.forward_ = solve
    layer.heads = torch.nn.ModuleList()
    return layer
"""

COUNT = """
def layers_needed(kappa, tolerance, c, order=2):
    rho = {rho}
    depth = {first}
    while rho > tolerance:
        rho, depth = rho**{order}, depth + 1
    return depth
"""


def _count(rho: str = "max(abs(c - 1), 1 - c / kappa**2)", first: str = "1", order: str = "order") -> str:
    return COUNT.format(rho=rho, first=first, order=order)


FLOORS = """
def floors(kappa, u):
    return {carried}, {recomputed}
"""

SINGULAR = """
def limit(A):
    {limit}

def growth(eps, t):
    {growth}
"""
BY_SVD = "U, s, V = np.linalg.svd(A); return (U[:, s > 1e-9] / s[s > 1e-9]) @ V[s > 1e-9]"
BY_SUM = "return float(np.sum((1.0 + eps) ** np.arange(2**t)))"

CUBIC = """
def cubic(d, steps):
    layout = Layout(I=d, A=d, Y=d, E=d, F=d)
    I, A, Y, E, F = layout.blocks
    first = attention(layout, {first})
    step = attention(layout, {step})
    return Transformer(layout, {layers})
"""


def _cubic(
    first: str = "E.add(I @ I.T @ I), F.add(I @ I.T @ I), E.add(-A @ Y.T @ I), F.add(-Y @ A.T @ I)",
    Y: str = "Y.add(F @ I.T @ Y), Y.add(F @ E.T @ Y)",
    E: str = "E.add(E @ stack(F, I).T @ stack(E, -I))",
    F: str = ", F.add(F @ stack(E, I).T @ stack(F, -I))",
    layers: str = "[first] + [step] * steps",
) -> str:
    return CUBIC.format(first=first, step=f"{Y}, {E}{F}", layers=layers)


POLISHED = """
def polished(d, steps, careful):
    before = cubic(d, steps)
    layout = before.layout
    I, A, Y, E, F = layout.blocks
    last = attention(layout, {last})
    return Transformer(layout, [*before.layers] + [last] * {careful})
"""


def _polished(last: str = "Y.add(Y @ A.T @ -Y), Y.add(I @ I.T @ Y)", careful: str = "careful") -> str:
    return POLISHED.format(last=last, careful=careful)


ANSWERS = [
    Answer(
        "all right, written differently",
        {
            "read-solution": _read(),
            "opening-solution": OPENING.format(first="A @ Y.T @ -I"),
            "squaring-solution": SQUARING.format(
                writes="Y.add(0.5 * I @ E.T @ (2.0 * Y)), E.add(E @ stack(I, I).T @ stack(E, -I))"
            ),
            "count-solution": _count(),
            "floors-solution": FLOORS.format(carried="u * kappa**2", recomputed="u * kappa"),
            "singular-solution": SINGULAR.format(limit=BY_SVD, growth=BY_SUM),
            "cubic-solution": _cubic(),
            "polish-solution": _polished(),
        },
        {},
    ),
    # task 1
    Answer("reads W_K and W_Q by themselves", {"read-solution": READ_ONES}, {"read-test": 3.0}),
    Answer("forgets the coefficient of the scores", {"read-solution": _read(coefficient="a")}, {"read-test": 5.0}),
    Answer("takes key for query", {"read-solution": _read(body="W_Q.T @ W_K")}, {"read-test": 8.0}),
    Answer(
        "hard-coded line",
        {"read-solution": "def read_head(W_V, W_K, W_Q, layout):\n    return 'D', 'G', 'G', 'D', 6.75"},
        {"read-test": 8.0},
    ),
    # task 2
    Answer("opening takes Y for X", {"opening-solution": OPENING.format(first="-A @ I.T @ Y")}, {"build-test": 6.0}),
    Answer(
        "Y by E and not by its transpose, which a symmetric E forgives",
        {"squaring-solution": SQUARING.format(writes="Y.add(E @ I.T @ Y), E.add(E @ I.T @ E), E.add(-E @ I.T @ I)")},
        {"build-test": 4.0},
    ),
    Answer("a layer of its own that multiplies inside", {"squaring-solution": INSIDE}, {"build-test": 8.0}),
    Answer("inverts inside, without heads", {"squaring-solution": SOLVED}, {"build-test": 8.0}),
    # task 3
    Answer("forgets the opening", {"count-solution": _count(first="0")}, {"count-test": 9.0}),
    Answer("sees one end of the spectrum", {"count-solution": _count(rho="1 - c / kappa**2")}, {"count-test": 2.0}),
    Answer("counts for c = 1", {"count-solution": _count(rho="1 - 1 / kappa**2")}, {"count-test": 8.0}),
    Answer("order two always", {"count-solution": _count(order="2")}, {"count-test": 3.0}),
    # task 5
    Answer(
        "both stop where chapter 2 says",
        {"floors-solution": FLOORS.format(carried="u * kappa", recomputed="u * kappa")},
        {"floors-test": 4.0},
    ),
    Answer(
        "constants of the visible run",
        {"floors-solution": FLOORS.format(carried="3e-4", recomputed="2e-6")},
        {"floors-test": 8.0},
    ),
    Answer(
        "takes no notice of the precision",
        {"floors-solution": FLOORS.format(carried="1.2e-7 * kappa**2", recomputed="1.2e-7 * kappa")},
        {"floors-test": 4.0},
    ),
    # task 6
    Answer(
        "the pseudo-inverse, not transposed",
        {"singular-solution": SINGULAR.format(limit="return np.linalg.pinv(A, 1e-9)", growth=BY_SUM)},
        {"singular-test": 3.0},
    ),
    Answer(
        "no limit but the inverse",
        {"singular-solution": SINGULAR.format(limit="return np.linalg.inv(A).T", growth=BY_SUM)},
        {"singular-test": 2.0},
    ),
    Answer(
        "the proposition of chapter 2 as it stands",
        {"singular-solution": SINGULAR.format(limit=BY_SVD, growth="return 2.0**t")},
        {"singular-test": 2.0},
    ),
    # task 7
    Answer(
        "E instead of its transpose",
        {
            "cubic-solution": _cubic(
                Y="Y.add(E @ I.T @ Y), Y.add(E @ E.T @ Y)", E="E.add(E @ E.T @ E), E.add(-E @ I.T @ I)"
            )
        },
        {"cubic-test": 7.0},
    ),
    Answer("F is not carried", {"cubic-solution": _cubic(F="")}, {"cubic-test": 9.0}),
    Answer(
        "one layer short", {"cubic-solution": _cubic(layers="[first] + [step] * (steps - 1)")}, {"cubic-test": 12.0}
    ),
    Answer("order two", {"cubic-solution": _cubic(Y="Y.add(F @ I.T @ Y)")}, {"cubic-test": 9.0}),
    # task 9
    Answer(
        "the layer of chapter 3 as it stands",
        {"polish-solution": _polished("Y.add(Y @ I.T @ Y), Y.add(Y @ I.T @ I)")},
        {"polish-test": 6.0},
    ),
    Answer(
        "another carried step instead of a careful one",
        {"polish-solution": _polished("Y.add((I + F) @ E.T @ Y)")},
        {"polish-test": 6.0},
    ),
    Answer(
        "one careful layer, however many are asked for",
        {"polish-solution": _polished(careful="min(careful, 1)")},
        {"polish-test": 6.0},
    ),
    Answer(
        "A in the wrong place",
        {"polish-solution": _polished("Y.add(-Y @ Y.T @ A), Y.add(I @ I.T @ Y)")},
        {"polish-test": 6.0},
    ),
]
