"""Newton-Schulz matrix inversion as a linear transformer (lem:inverse)."""

from __future__ import annotations

from tfnewton.checks import boolean, integer
from tfnewton.model.layers import Layer, attention
from tfnewton.model.layout import Block, Layout
from tfnewton.model.packing import Input, Output, Packing
from tfnewton.model.transformer import Transformer

__all__ = ["newton_schulz", "newton_step"]


def newton_schulz(d: int, steps: int = 1, symmetric: bool = False) -> Transformer:
    """Return the transformer whose every pass of 2 layers (1 if ``symmetric``) maps X to X(2I - AX).

    Args:
        d: size of the matrix, at least 1.
        steps: Newton-Schulz steps, at least 0; the layers of one step are shared by all.
        symmetric: build the one-layer step, right for symmetric A only; ``pack`` then refuses others.

    H has 4d rows (X; A; S; I) and d tokens: ``pack(X, A)`` with X and A of shape (d, d), ``unpack(H)["X"]``
    of shape (d, d). At most 2 heads, no ReLU layer; the weights depend on nothing but d.

    The lemma states its input with A^T in the second block; the layers of its proof, built here, need A there.

    Raises TypeError or ValueError for a size that is not a positive integer or negative steps.
    Source: lem:inverse and its proof.
    """
    d, steps = integer("d", d, minimum=1), integer("steps", steps, minimum=0)
    symmetric = boolean("symmetric", symmetric)
    layout = Layout(X=d, A=d, S=d, I=d)
    X, A, S, I = layout.blocks  # noqa: E741
    newton = "X <- 2X - X A X"
    if symmetric:
        # the key is transposed, so the second block acts as A^T: the same thing for symmetric A
        layers = [attention(layout, X.add(X @ A.T @ -X), X.add(X @ I.T @ I), label=newton)]
    else:
        layers = newton_step(layout, X, A, S, I)
    packing = Packing(
        sizes={"d": d},
        tokens="d",
        inputs=(
            Input(name="X", shape=("d", "d"), block="X", place="matrix"),
            Input(name="A", shape=("d", "d"), block="A", place="matrix", symmetric=symmetric),
        ),
        constants={"I": "identity"},
        outputs=(Output(name="X", shape=("d", "d"), block="X", place="matrix"),),
    )
    return Transformer(layout, layers * steps, packing)


def newton_step(layout: Layout, X: Block, A: Block, S: Block, I: Block) -> list[Layer]:  # noqa: E741
    """Return the two layers that map X to X(2I - AX), for square blocks of ``layout`` of equal size.

    S must come in as zero and is zero again; A and the identity I stay. Source: proof of lem:inverse.
    """
    return [
        attention(layout, S.add(A @ I.T @ X), label=f"{S} <- {A} {X}"),
        attention(
            layout,
            X.add(X @ I.T @ -S),
            X.add(X @ I.T @ I),
            S.add(-S @ I.T @ I),
            label=f"{X} <- 2{X} - {X} {S}, {S} <- 0",
        ),
    ]
