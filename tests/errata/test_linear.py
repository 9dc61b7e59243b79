"""What sections 3, 6 and appendix A of the paper print about the linear constructions, and what is right instead."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.linear_problems import matrix, newton_schulz, norm, regression_inputs, symmetric, truth_regression
from tfnewton import Transformer
from tfnewton.constructions import inversion
from tfnewton.constructions.linear_regression import least_squares
from tfnewton.model.layers import attention
from tfnewton.model.layout import Layout, stack

Weights = list[tuple[np.ndarray, np.ndarray, np.ndarray]]
X, R, I, A_T, A_TEST, Y, OUT = range(7)  # noqa: E741  (the block rows of the theorem)


def eq_att(heads: Weights, H: np.ndarray) -> np.ndarray:
    return np.asarray(H + sum((V @ H) @ (K @ H).T @ (Q @ H) for V, K, Q in heads))


class Display:
    """Block matrices of the proof of thm:main_linear, their block rows and columns counted from zero."""

    def __init__(self, d: int) -> None:
        self.starts = [0, d, 2 * d, 3 * d, 4 * d, 4 * d + 1, 4 * d + 2, 4 * d + 3]

    def __call__(self, *entries: tuple[int, int, float]) -> np.ndarray:
        """Coefficients times identities; between blocks of different sizes, the identity's first row."""
        W = np.zeros((self.starts[-1],) * 2)
        for row, column, coefficient in entries:
            size = min(self.starts[i + 1] - self.starts[i] for i in (row, column))
            W[self.starts[row] :, self.starts[column] :][range(size), range(size)] = coefficient
        return W


def layers_of_the_proof(d: int, steps: int, eps: float, corrected: bool) -> list[Weights]:
    """All 3 + T layers; six blocks selected in the displays are not those that the text multiplies."""
    W = Display(d)
    start = [
        (W((X, A_T, eps), (R, A_T, 1)), W((0, A_T, 1)), W((0, X, 1))),
        (W((X, X, -1), (R, X, -1)), W((0, X, 1)), W((0, X, 1))),
    ]
    newton = [
        (W((X, X, -1)), W((0, R if corrected else X, 1)), W((0, X, 1))),
        (W((X, X, 1)), W((0, I, 1)), W((0, I, 1))),
    ]
    weights = [(W((OUT, Y, 1)), W((0, A_T if corrected else I, 1)), W((0, X if corrected else I, 1)))]
    first_of_identity = np.zeros_like(W())
    first_of_identity[0, 2 * d] = 1.0
    predict = [
        (W((OUT, OUT if corrected else Y, 1)), W((0, A_TEST, 1)), first_of_identity),
        (W((OUT, OUT if corrected else Y, -1)), W((0, I, 1)), W((0, I, 1))),
    ]
    return [start, *[newton] * steps, weights, predict]


def run(layers: list[Weights], H: np.ndarray) -> np.ndarray:
    for heads in layers:
        H = eq_att(heads, H)
    return H


@pytest.fixture
def regression() -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:
    """A, y, a_test, a step size and the H of the statement."""
    A, y, a = regression_inputs(3, 8, np.random.default_rng(0))
    step = 1.0
    return A, y, a, step, np.asarray(least_squares(3, 1, step).pack(A, y, a))


def test_lem_inverse_stores_a_transposed_where_its_proof_stores_a() -> None:
    """The proof's layers on the statement's input (X_0; A^T; 0; I) invert A^T."""
    rng = np.random.default_rng(0)
    A = matrix(4, 5.0, rng)
    start = A.T
    H = np.vstack([start, A.T, np.zeros((4, 4)), np.eye(4)])
    X_1 = np.asarray(inversion.newton_schulz(4)(H))[:4]
    assert norm(X_1 - newton_schulz(A.T, start, 1)) <= 1e-14
    assert norm(X_1 - newton_schulz(A, start, 1)) > 0.1
    X_40 = np.asarray(inversion.newton_schulz(4, 40)(np.vstack([A, H[4:]])))[:4]
    assert norm(X_40 @ A.T - np.eye(4)) <= 1e-12


@pytest.mark.parametrize("d", [1, 2, 5, 16])
def test_lem_inverse_needs_one_layer_and_one_head_for_every_matrix(d: int) -> None:
    """The statement has two layers of two heads and width 4d, and one layer for symmetric A only.

    With A^T stored, as the statement has it, X <- X + X (A; I)^T-key (-X; I)-query is the step for every A.
    """
    layout = Layout(X=d, A_T=d, I=d)
    X, A_T, I = layout.blocks  # noqa: E741
    one_head = attention(layout, X.add(X @ stack(A_T, I).T @ stack(-X, I)))
    two_heads = attention(layout, X.add(X @ A_T.T @ -X), X.add(X @ I.T @ I))
    assert (len(one_head.heads), len(two_heads.heads), layout.width) == (1, 2, 3 * d)
    rng = np.random.default_rng(d)
    A = matrix(d, 10.0, rng)
    H = np.vstack([A.T, A.T, np.eye(d)])
    for layer in (one_head, two_heads):
        for steps in (1, 4, 20):
            result = np.asarray(Transformer(layout, [layer] * steps)(H))[:d]
            expected = newton_schulz(A, A.T, steps)
            assert norm(result - expected) <= 1e-13 * norm(expected)


def test_the_first_layer_of_the_proof_has_one_head() -> None:
    assert [len(layer.heads) for layer in inversion.newton_schulz(3).layers] == [1, 2]


def test_the_displayed_weights_predict_something_else() -> None:
    """Taken as printed, they return y_1 a_1 + ... + y_d a_d, whatever A is: 1.270 where least squares says 0.787."""
    A, y, a = truth_regression()
    eps = 1 / np.trace(A.T @ A) ** 2
    exact = a @ np.linalg.lstsq(A, y)[0]
    for data in (A, A[::-1]):
        H = np.asarray(least_squares(2, 1, eps).pack(data, y, a))
        printed = run(layers_of_the_proof(2, 10, eps, corrected=False), H)[-1]
        np.testing.assert_allclose(printed, [y[:2] @ a, 0, 0, 0, 0, 0], atol=1e-14)
    corrected = run(layers_of_the_proof(2, 10, eps, corrected=True), np.asarray(least_squares(2, 1, eps).pack(A, y, a)))
    assert corrected[-1, 0] == pytest.approx(exact, abs=1e-12)
    assert (round(y[:2] @ a, 3), round(exact, 3)) == (1.27, 0.787)


@pytest.mark.parametrize("layer", ["newton", "weights", "predict"])
def test_each_of_the_three_displays_is_wrong_by_itself(
    layer: str, regression: tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]
) -> None:
    A, y, a, step, H = regression
    steps = 20
    right, wrong = (layers_of_the_proof(3, steps, step, corrected) for corrected in (True, False))
    exact = a @ np.linalg.lstsq(A, y)[0]
    assert run(right, H)[-1, 0] == pytest.approx(exact, abs=1e-9)
    places = {"newton": range(1, 1 + steps), "weights": [steps + 1], "predict": [steps + 2]}[layer]
    mixed = [wrong[i] if i in places else right[i] for i in range(steps + 3)]
    assert abs(run(mixed, H)[-1, 0] - exact) > 1e-2


def test_the_output_keeps_the_iterate_where_the_statement_has_identities(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray],
) -> None:
    """The proof ends with (X_T; R; I), as its last display shows; the statement shows (I; I; I)."""
    A, _, _, step, H = regression
    result = run(layers_of_the_proof(3, 5, step, corrected=True), H)
    gram = A.T @ A
    np.testing.assert_allclose(result[:3, :3], newton_schulz(gram, step * gram, 5), atol=1e-12)
    np.testing.assert_allclose(result[3:6, :3], gram, atol=1e-12)
    np.testing.assert_array_equal(np.asarray(least_squares(3, 5, step)(H))[:-1], H[:-1])  # ours, in as many layers


def test_the_display_of_the_first_layer_subtracts_what_it_must_add(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray],
) -> None:
    """H_1 = H_0 - (-I; -I; 0; ...) + (eps R; R; 0; ...) would leave 2I + R in the second block, not R."""
    A, _, _, step, H = regression
    gram = np.hstack([A.T @ A, np.zeros((3, 5))])
    update = np.vstack([-np.eye(3, 8)] * 2)
    printed = H[:6] - update + np.vstack([step * gram, gram])
    np.testing.assert_allclose(printed[3:], 2 * np.eye(3, 8) + gram)
    result = eq_att(layers_of_the_proof(3, 0, step, corrected=True)[0], H)[:6]
    np.testing.assert_allclose(result, np.vstack([step * gram, gram]), atol=1e-14)


def test_the_prediction_is_the_first_element_of_the_last_row(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray],
) -> None:
    """The proof says the last; the statement has it right."""
    A, y, a, step, H = regression
    last_row = np.asarray(least_squares(3, 30, step)(H))[-1]
    assert last_row[0] == pytest.approx(a @ np.linalg.lstsq(A, y)[0], abs=1e-9)
    assert last_row[-1] == 0.0


def test_the_last_layers_form_y_a_x_before_the_query_comes_in(
    regression: tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray],
) -> None:
    """The remark has A X_T a_test first and y^T last; the proof forms y^T A X_T, then multiplies by a_test."""
    A, y, a, step, H = regression
    gram = A.T @ A
    X_T = newton_schulz(gram, step * gram, 4)
    out = np.asarray(least_squares(3, 4, step).trace(H)[-2].blocks["out"])[0]
    np.testing.assert_allclose(out[:3], y @ A @ X_T, atol=1e-12)
    assert norm(out - A @ X_T @ a) > 0.1


def test_gradient_descent_ascends_as_printed() -> None:
    """w <- w - eta (y A - w A^T A) moves away from least squares; plus eta moves towards it."""
    A, y, _ = regression_inputs(3, 8, np.random.default_rng(0))
    exact, eta = np.linalg.lstsq(A, y)[0], 0.5
    printed = ours = np.zeros(3)
    for _ in range(50):
        printed = printed - eta * (y @ A - printed @ A.T @ A)
        ours = ours + eta * (y @ A - ours @ A.T @ A)
    assert norm(printed - exact) > 1e4 * norm(exact)
    assert norm(ours - exact) < norm(exact)


def test_no_step_size_serves_all_data() -> None:
    """The theorem fixes the transformer before the data, but eps must stay below 2/lambda_max(A^T A)^2."""
    A, y, a = regression_inputs(3, 8, np.random.default_rng(1))
    exact = a @ np.linalg.lstsq(A, y)[0]
    limit = 2 / norm(A) ** 4
    for factor, converges in ((0.99, True), (1.01, False)):
        model = least_squares(3, 40, factor * limit)
        H = np.asarray(least_squares(3, 40, 0.5 * limit).pack(A, y, a))  # the block format, without the check of eps
        if converges:
            assert abs(np.asarray(model(H))[-1, 0] - exact) < 1e-6
        else:
            with pytest.raises(ValueError, match="NaN or infinity"):
                model(H)
    fixed = least_squares(3, 40, 0.99 * limit)
    assert abs(np.asarray(fixed(fixed.pack(A / 2, y, a)))[-1, 0] - 2 * exact) < 1e-6
    with pytest.raises(ValueError, match=r"^step_size = .*: must lie in"):
        fixed.pack(2 * A, y, a)


def test_fewer_examples_than_features_do_not_fit() -> None:
    """[I_d 0] has n columns: with n < d it is no identity, and the layers miss y_hat = a^T X_T A^T y."""
    d, n, steps = 4, 2, 3
    rng = np.random.default_rng(2)
    A, y, a = matrix(n, 2.0, rng, rows=d).T, rng.standard_normal(n), rng.standard_normal(d)
    gram = A.T @ A
    expected = a @ newton_schulz(gram, gram, steps) @ A.T @ y
    eye = np.eye(d, n)
    H = np.vstack([eye, eye, eye, A.T, a[:n], y, np.zeros(n)])
    model = least_squares(d, steps, 1.0)
    with pytest.raises(ValueError, match="n = 2 tokens: must be at least 4"):
        model(H)
    without_format = Transformer(model.layout, model.layers)  # which does not know that it needs an identity
    assert abs(np.asarray(without_format(H))[-1, 0] - expected) > 0.1
    with pytest.raises(ValueError, match=r"^n = 2: must be at least d = 4"):
        least_squares(d, steps, 1.0).pack(A, y, a)
    padded = np.vstack([A, np.zeros((d - n, d))])  # padding with zero examples is the way out
    y_hat = model.unpack(model(model.pack(padded, np.concatenate([y, np.zeros(d - n)]), a)))["y_hat"]
    assert y_hat == pytest.approx(expected, abs=1e-12)


def third_order(d: int, steps: int, alpha: float) -> Transformer:
    """From symmetric A alone, L third-order steps in L + 1 layers: X <- X (I + E + E^2), E <- E^3."""
    layout = Layout(X=d, E=d, A=d, I=d)
    X, E, A, I = layout.blocks  # noqa: E741
    start = attention(layout, X.add(alpha * A @ I.T @ I), E.add(I @ I.T @ I), E.add(-alpha * A @ A.T @ I))
    step = attention(
        layout, X.add(X @ E.T @ I), X.add(X @ E.T @ E), E.add(E @ E.T @ E), E.add(-E @ I.T @ I), label="order three"
    )
    return Transformer(layout, [start, *[step] * steps])


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_linear_attention_does_third_order_steps(steps: int) -> None:
    """Section 6: "the LSA Transformer will not be able to outperform" third order. One layer more equals it."""
    d = 5
    A = symmetric(d, 10.0, np.random.default_rng(steps))
    expected = A.copy()
    for _ in range(steps):
        E = np.eye(d) - A @ expected
        expected = expected @ (np.eye(d) + E + E @ E)
    model = third_order(d, steps, 1.0)
    H = np.vstack([np.zeros((2 * d, d)), A, np.eye(d)])
    result = np.asarray(model(H))[:d]
    assert model.depth == steps + 1
    assert norm(result - expected) <= 1e-12 * norm(expected)
    second = newton_schulz(A, A, steps + 1)  # order two with a step for every layer
    inverse = np.linalg.inv(A)
    if steps > 1:
        assert norm(result - inverse) < norm(second - inverse)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_degrees_in_a(layers: int) -> None:
    """L layers reach degree 3^L in A; L steps of order two 2^(L+1) - 1, of order three 2 3^L - 1."""

    def degree(values: list[float]) -> float:
        return float(np.log2(abs(values[1] / values[0])))

    layout = Layout(X=1)
    X = layout["X"]
    cubes = Transformer(layout, [attention(layout, X.add(X @ X.T @ X))] * layers)
    points = (2.0**10, 2.0**11)
    assert degree([np.asarray(cubes(np.array([[t]])))[0, 0] for t in points]) == pytest.approx(3**layers, abs=1e-4)
    second = [newton_schulz(np.array([[t]]), np.array([[t]]), layers)[0, 0] for t in points]
    assert degree(second) == pytest.approx(2 ** (layers + 1) - 1, abs=1e-4)
    third = [
        np.asarray(third_order(1, layers, 1.0)(np.array([[0.0], [0.0], [t], [1.0]])))[0, 0] for t in (2.0**5, 2.0**6)
    ]
    assert degree(third) == pytest.approx(2 * 3**layers - 1, abs=0.1)
