"""The 11 + 2k layers of one damped Newton step for logistic regression (proof of thm:logistic)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfnewton.approximation.units import Units
from tfnewton.constructions.inversion import newton_step
from tfnewton.model.feed_forward import UnitWrite, erase, feed_forward, gate
from tfnewton.model.layers import Layer, ReLU, attention
from tfnewton.model.layout import Block, Layout
from tfnewton.theory.error_budget import ErrorBudget, ReluLayers

__all__ = ["Blocks", "Step"]


class Blocks(NamedTuple):
    """The rows of H: X and B are I at rest and hold inverse and Hessian; S and s are scratch; mean is e_1^T/n."""

    X: Block
    B: Block
    I: Block  # noqa: E741
    S: Block
    A_T: Block
    x: Block
    y: Block
    mean: Block
    s: Block
    ones: Block

    def layout(self) -> Layout:
        return Layout(**{block.name: block.size for block in self})


class Step:
    """The layers of one damped Newton step, numbered as in the proof of thm:logistic."""

    def __init__(self, blocks: Blocks, n: int, budget: ErrorBudget, relu: ReluLayers) -> None:
        self.b, self.n, self.budget, self.relu = blocks, n, budget, relu
        self.layout = blocks.layout()

    def layers(self, k: int) -> list[Layer]:
        X, B, I, S = self.b[:4]  # noqa: E741
        inverse = newton_step(self.layout, X, B, S, I)  # step 4
        return [*self._hessian(), *inverse * k, *self._gradient(), *self._update()]

    def _hessian(self) -> list[Layer]:
        """Steps 1 to 3: B = A^T D A/n + mu I and X = alpha B^T."""
        X, B, I, _, A_T, x, _, mean, s, _ = self.b  # noqa: E741
        e1, mu, alpha = I[0], self.budget.mu, self.budget.alpha
        variance = UnitWrite(s, self.relu.variance.units(), (s,))
        scaled = _divided(self.relu.product.units(), self.n)
        products = [UnitWrite(X[i], scaled, (s, A_T[i])) for i in range(X.size)]
        clear = [_minus_relu(X[i], B[i]) for i in range(X.size)]  # X and B both hold the identity
        return [
            attention(self.layout, s.add(e1 @ x.T @ A_T), label="s <- d(A x)", relu=self._relu(variance, erase(s))),
            attention(
                self.layout,
                s.add(e1 @ mean.T @ s),
                s.add(-e1 @ e1.T @ s),
                label="X <- A^T D / n, s <- 0",
                relu=self._relu(products, clear, erase(s)),
            ),
            attention(
                self.layout,
                X.add(alpha * A_T @ X.T @ I),
                B.add(A_T @ X.T @ I),
                X.add(alpha * mu * I @ I.T @ I),
                B.add((mu - 1.0) * I @ I.T @ I),
                X.add(I @ I.T @ -X),
                label="B <- A^T D A / n + mu I, X <- alpha B",
            ),
            attention(self.layout, X.add(I @ X.T @ I), X.add(-X @ I.T @ I), label="X <- alpha B^T"),
        ]

    def _gradient(self) -> list[Layer]:
        """Steps 5 to 7: the gradient in the first column of B."""
        _, B, I, _, A_T, x, y, mean, s, _ = self.b  # noqa: E741
        e1, mu = I[0], self.budget.mu
        return [
            attention(
                self.layout, s.add(e1 @ x.T @ A_T), label="s <- p", relu=self._relu(self._probability(), erase(s))
            ),
            attention(
                self.layout,
                s.add(e1 @ mean.T @ s),
                s.add(-e1 @ e1.T @ s),
                label="s <- y p / n",
                relu=self._relu(UnitWrite(s, _signed(), (s, y)), erase(s)),
            ),
            attention(
                self.layout,
                B.add(-A_T @ s.T @ e1),
                B.add(-B @ I.T @ I),
                B.add(x @ e1.T @ (mu * e1)),
                label="B <- gradient",
            ),
        ]

    def _update(self) -> list[Layer]:
        """Steps 8 and 9: direction, damping and update; X, B and s as they were before the step."""
        X, B, I, _, _, x, _, _, s, ones = self.b  # noqa: E741
        e1 = I[0]
        damping = UnitWrite(s, self.relu.step_size.units(), (s,))
        return [
            attention(self.layout, X.add(X @ I.T @ B), X.add(-X @ I.T @ I), label="X <- X gradient"),
            attention(
                self.layout,
                s.add(e1 @ B.T @ X),
                s.add(-e1 @ e1.T @ s),
                label="s <- eta(gradient^T X)",
                relu=self._relu(damping, erase(s)),
            ),
            attention(self.layout, s.add(s @ X.T @ I), s.add(-s @ I.T @ I), label="s <- eta X^T"),
            attention(
                self.layout,
                x.add(-I @ s.T @ ones),
                X.add((I - X) @ I.T @ I),
                B.add((I - B) @ I.T @ I),
                label="x <- x - s^T, X <- I, B <- I, s <- 0",
                relu=self._relu(erase(s)),
            ),
        ]

    def _relu(self, *writes: UnitWrite | list[UnitWrite]) -> ReLU:
        return feed_forward(self.layout, self.b.ones, *writes)

    def _probability(self) -> list[UnitWrite]:
        """p(y z) as two gated copies: p(z) where y = 1 and p(-z) where y = -1."""
        units = self.relu.probability.units()
        size = 2.0 * self.budget.radius + 2.0  # |weight z + bias| <= |z| + largest knot
        flipped = Units(weight=-units.weight, bias=units.bias, out=units.out)
        rows = (self.b.s, self.b.y)
        return [UnitWrite(self.b.s, gate(units, 1.0, size), rows), UnitWrite(self.b.s, gate(flipped, -1.0, size), rows)]


def _divided(product: Units, n: int) -> Units:
    """Return the units of d a/n from rows d/n and a: this is where the weights depend on n."""
    d_weight, a_weight = product.weight
    return Units(weight=np.stack([n * d_weight, a_weight]), bias=product.bias, out=product.out / n)


def _minus_relu(target: Block, row: Block) -> UnitWrite:
    return UnitWrite(target, Units(weight=np.ones((1, 1)), bias=np.zeros(1), out=-np.ones(1)), (row,))


def _signed() -> Units:
    """Return the units of s y for s in [0, 4] and y in {-1, 1}, exact: o1 + o2 of step 6."""
    half = np.array([0.5, -0.5, -0.5, 0.5])
    return Units(
        weight=np.stack([half, [2.0, 2.0, -2.0, -2.0]]), bias=np.zeros(4), out=np.array([1.0, -1.0, 1.0, -1.0])
    )
