"""Linear regression in context: Newton-Schulz on the normal equations (thm:main_linear), and gradient descent."""

from __future__ import annotations

from tfnewton.checks import integer, real
from tfnewton.model.layers import Layer, attention
from tfnewton.model.layout import Layout, stack
from tfnewton.model.packing import Input, Output, Packing, StepBound
from tfnewton.model.transformer import Transformer

__all__ = ["gradient_descent", "least_squares"]


def least_squares(d: int, steps: int, step_size: float, ridge: float = 0.0) -> Transformer:
    """Return the transformer that predicts y_hat = a_test^T X_T A^T y after ``steps`` Newton-Schulz steps.

    X_0 = step_size R with R = A^T A + ridge I, then X <- 2X - X R X, so y_hat tends to the least squares or
    ridge prediction. Depth 3 + steps, at most 2 heads, 4d + 3 rows, no ReLU layer, any number n >= d of tokens.

    Args:
        d: number of features, at least 1.
        steps: Newton-Schulz steps T, at least 0.
        step_size: the epsilon of the theorem, positive; data with step_size >= 2/lambda_max(R)^2 are refused.
        ridge: penalty mu of (1/2)||Aw - y||^2 + (mu/2)||w||^2, at least 0.

    ``pack(A, y, a_test)`` takes (n, d), (n,) and (d,); ``unpack(H)["y_hat"]`` is a scalar, the first entry of
    the last row. All other rows come out as they went in, as the statement demands: the printed layers leave
    X_T and R in place of two identities, and two more values of the last layer's identity head put them back.

    Roundoff in X_T, and in the weights w_T = X_T A^T y, is of the order of kappa(R) times machine precision. The layers
    of the proof read X_T from its other side, as y^T A X_T, and lose kappa(R) once more. For rank-deficient A without
    ridge, y_hat reaches the prediction of the pseudo-inverse, but roundoff in the null space of R doubles each step and
    ruins it in the end: take no more steps than convergence needs.

    Raises TypeError or ValueError naming the argument. Source: thm:main_linear and its remark on ridge.
    """
    d, steps = integer("d", d, minimum=1), integer("steps", steps, minimum=0)
    eps = real("step_size", step_size, above=0.0)
    mu = real("ridge", ridge, minimum=0.0)
    layout = Layout(X=d, R=d, I=d, A_T=d, a_test=1, y=1, out=1)
    X, R, I, A_T, a_test, y, out = layout.blocks  # noqa: E741
    gram = "A^T A" if mu == 0.0 else "A^T A + mu I"
    # Updates are added one after another, as written: what must vanish is taken away first, exactly, so that nothing
    # small is added to something large. X and R come in as identities.
    start = attention(
        layout,
        X.add((-I + eps * mu * I) @ I.T @ I),
        R.add((-I + mu * I) @ I.T @ I),
        X.add(eps * A_T @ A_T.T @ I),
        R.add(A_T @ A_T.T @ I),
        out.add(y @ A_T.T @ I),
        label=f"R <- {gram}, X <- eps R, out <- y^T A",
    )
    newton = _newton(layout)
    weights = attention(layout, out.add(-out @ I.T @ I), out.add(out @ X.T @ I), label="out <- out X^T")
    predict = attention(
        layout,
        out.add(-out @ I.T @ I),
        X.add((-X + I) @ I.T @ I),
        R.add((-R + I) @ I.T @ I),
        out.add(out @ a_test.T @ I[0]),
        label="out <- out a_test, X <- I, R <- I",
    )
    packing = Packing(
        sizes={"d": d},
        tokens="n",
        inputs=(
            *_examples(StepBound(name="step_size", step=eps, power=2, ridge=mu)),
            Input(name="a_test", shape=("d",), block="a_test", place="row"),
        ),
        constants={"X": "identity", "R": "identity", "I": "identity"},
        outputs=(Output(name="y_hat", shape=(), block="out", place="scalar"),),
    )
    return Transformer(layout, [start, *[newton] * steps, weights, predict], packing)


def gradient_descent(d: int, steps: int, learning_rate: float) -> Transformer:
    """Return the transformer that takes ``steps`` gradient steps w <- w + learning_rate A^T (y - A w).

    One layer and one head a step, 2d + 2 rows (A_T; y; ones; w), w repeated at every token; any n >= 1.
    The head is A^T (y 1^T - A w 1^T): value A^T, key (y; A^T), query (1; -w 1^T).

    Args:
        d: number of features, at least 1.
        steps: gradient steps, at least 0.
        learning_rate: positive; data with learning_rate >= 2/lambda_max(A^T A) are refused.

    ``pack(A, y, w)`` takes (n, d), (n,) and an optional start (d,), zero by default; ``unpack(H)["w"]`` is (d,).

    Raises TypeError or ValueError naming the argument. Source: the memory remark after thm:main_linear, whose
    printed sign ascends.
    """
    d, steps = integer("d", d, minimum=1), integer("steps", steps, minimum=0)
    eta = real("learning_rate", learning_rate, above=0.0)
    layout = Layout(A_T=d, y=1, ones=1, w=d)
    A_T, y, ones, w = layout.blocks
    descend = w.add(eta * A_T @ stack(y, A_T).T @ stack(ones, -w))
    layer = attention(layout, descend, label="w <- w + eta A^T (y - A w)")
    packing = Packing(
        sizes={"d": d},
        tokens="n",
        inputs=(
            *_examples(StepBound(name="learning_rate", step=eta, power=1)),
            Input(name="w", shape=("d",), block="w", place="repeated", default=0.0),
        ),
        constants={"ones": "ones"},
        outputs=(Output(name="w", shape=("d",), block="w", place="column"),),
    )
    return Transformer(layout, [layer] * steps, packing)


def _newton(layout: Layout) -> Layer:
    # The last step rounds X R, so that X_T is off by D X_T. Read from the left this is D w, of size u kappa(R) |w|;
    # from the right, as y^T A X_T, it is w^T R D X_T. With the minus sign on the value each head is a product of its
    # own, and X R comes first for every n >= d; heads that share values may be summed before X is multiplied to them.
    X, R, I, *_ = layout.blocks  # noqa: E741
    return attention(layout, X.add(-X @ R.T @ X), X.add(X @ I.T @ I), label="X <- 2X - X R X")


def _examples(step: StepBound) -> tuple[Input, Input]:
    return (
        Input(name="A", shape=("n", "d"), block="A_T", place="transposed", step=step),
        Input(name="y", shape=("n",), block="y", place="row"),
    )
