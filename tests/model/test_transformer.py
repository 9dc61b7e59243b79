"""The forward pass against eq:TF written out in numpy, in both orders of multiplication, and what is traced of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.linear_problems import matrix, regression_inputs
from tests.helpers.torch_spy import PRODUCTS, Spy
from tests.helpers.tries import tries
from tfnewton import Transformer
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import gradient_descent, least_squares
from tfnewton.model.layers import AttentionOptions, Layer, ReLU, attention
from tfnewton.model.layout import Layout, Rows, Write, stack

SIZES = st.integers(1, 4)


@st.composite
def rows_of(draw: st.DrawFn, layout: Layout) -> Rows:
    chosen = draw(st.lists(st.sampled_from(layout.blocks[:3]), min_size=1, max_size=2, unique=True))
    total = draw(st.sampled_from([1.0, -1.0, 0.5])) * chosen[0]
    for block in chosen[1:]:
        total = total + draw(st.sampled_from([1.0, -2.0])) * block
    return total


@st.composite
def layers(draw: st.DrawFn) -> tuple[Layout, tuple[Write, ...]]:
    d = draw(SIZES)
    layout = Layout(X=d, Y=d, Z=d, s=1)
    *blocks, s = layout.blocks
    writes = []
    for _ in range(draw(st.integers(1, 4))):
        key, query = draw(rows_of(layout)), draw(rows_of(layout))
        if draw(st.booleans()):
            key, query = stack(key, s), stack(-s, query) if d == 1 else stack(query, s)
        writes.append(draw(st.sampled_from(blocks)).add(draw(rows_of(layout)) @ key.T @ query))
    return layout, tuple(writes)


def read(rows: Rows, H: np.ndarray) -> np.ndarray:
    parts = [sum(c * H[..., b.start : b.start + b.size, :] for c, b in part) for part in rows.parts]
    return np.concatenate(parts, axis=-2)


def as_written(writes: tuple[Write, ...], H: np.ndarray) -> np.ndarray:
    """Every block plus its products, all read from the old H."""
    result = H.copy()
    for write in writes:
        value, key, query = (read(rows, H) for rows in (write.product.value, write.product.key, write.product.query))
        rows = slice(write.target.start, write.target.start + write.target.size)
        result[..., rows, :] += value @ np.swapaxes(key, -1, -2) @ query
    return result


def eq_att(weights: list[dict[str, torch.Tensor]], H: np.ndarray) -> np.ndarray:
    """eq:att with the dense D x D matrices."""
    result = H.copy()
    for head in weights:
        V, K, Q = (head[name].numpy() for name in ("W_V", "W_K", "W_Q"))
        result += (V @ H) @ np.swapaxes(K @ H, -1, -2) @ (Q @ H)
    return result


def relu_layer(D: int, width: int, rng: np.random.Generator) -> ReLU:
    W1, W2 = rng.standard_normal((width, D)), rng.standard_normal((D, width)) / width
    return ReLU.dense(torch.tensor(W1), torch.tensor(W2), trainable=False)


def relu_and_attention(rng: np.random.Generator) -> Layer:
    layout = Layout(X=3, s=1)
    X, s = layout.blocks
    return attention(layout, s.add(s @ X.T @ X), X.add(-X @ stack(X, s).T @ stack(X, s)), relu=relu_layer(4, 5, rng))


def relu_of(layer: Layer, H: np.ndarray) -> np.ndarray:
    assert layer.relu is not None
    W1, W2 = (W.detach().numpy() for W in layer.relu.weights(torch.empty(0, dtype=torch.float64)))
    return np.asarray(H + W2 @ np.maximum(W1 @ H, 0))


def close(actual: Any, expected: np.ndarray, tolerance: float = 1e-13) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(
    "options",
    [
        AttentionOptions(average=True),
        AttentionOptions(layer_norm=1e-5),
        AttentionOptions(query_as_key=False),
        AttentionOptions(clip=0.5),
        AttentionOptions(layer_norm=1e-5, clip=0.5, rows=(0, 3)),
    ],
)
def test_dense_weights_keep_the_options_and_the_label(options: AttentionOptions) -> None:
    rng = np.random.default_rng(0)
    plain = relu_and_attention(rng)
    model = Transformer(Layout(X=3, s=1), [Layer(plain.heads, plain.relu, "as trained", options)])
    H = rng.standard_normal((4, 7))
    close(model.dense()(H), np.asarray(model(H)))
    assert np.abs(np.asarray(model(H)) - np.asarray(Transformer(model.layout, [plain])(H))).max() > 1e-2
    assert [(layer.options, layer.label) for layer in model.dense().layers] == [(options, "as trained")]


@given(layers(), st.integers(1, 40), st.sampled_from([(), (3,), (2, 2)]), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(30))
def test_a_layer_does_what_is_written(
    case: tuple[Layout, tuple[Write, ...]], n: int, batch: tuple[int, ...], seed: int
) -> None:
    layout, writes = case
    H = np.random.default_rng(seed).standard_normal((*batch, layout.width, n))
    layer = attention(layout, *writes)
    model = Transformer(layout, [layer])
    expected = as_written(writes, H)
    close(model(H), expected)
    close(eq_att(layer.weights(), H), expected)  # the displayed matrices say the same
    close(model.dense()(H), expected)
    assert len(layer.heads) == len({(write.product.key, write.product.query) for write in writes})


@given(layers(), st.integers(1, 3), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(20))
def test_both_orders_of_multiplication_agree(case: tuple[Layout, tuple[Write, ...]], n: int, seed: int) -> None:
    """Zero tokens change nothing, but enough of them make (V K^T) Q the cheaper order."""
    layout, writes = case
    model = Transformer(layout, [attention(layout, *writes)])
    few = np.random.default_rng(seed).standard_normal((layout.width, n))
    many = np.hstack([few, np.zeros((layout.width, 50))])
    result = model(many)
    close(result[:, :n], np.asarray(model(few)))
    assert not np.any(result[:, n:])


def test_relu_layers_come_after_attention() -> None:
    rng = np.random.default_rng(0)
    layout = Layout(X=3, Y=2)
    X, Y = layout.blocks
    write = Y.add(Y @ X.T @ X)
    relu = relu_layer(5, 7, rng)
    model = Transformer(layout, [attention(layout, write, relu=relu), Layer([], relu_layer(5, 4, rng))])
    H = rng.standard_normal((2, 5, 6))
    expected = as_written((write,), H)
    for layer in model.layers:
        expected = relu_of(layer, expected)
    close(model(H), expected)
    close(model.dense()(H), expected)
    close(model(torch.tensor(H).requires_grad_()).detach(), expected)
    assert (model.depth, model.heads, model.width, model.relu_width) == (2, 1, 5, 7)


def test_sizes_of_a_transformer_without_layers() -> None:
    model = Transformer(Layout(X=2), [])
    assert (model.depth, model.heads, model.width, model.relu_width) == (0, 0, 2, 0)
    H = np.ones((2, 3))
    np.testing.assert_array_equal(model(H), H)
    assert not np.shares_memory(model(H), H)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_nothing_is_n_by_n_when_there_are_many_tokens(kind: Callable[[np.ndarray], Any]) -> None:
    """Never when n > width; nor for seven tokens, when (V K^T) Q is the cheaper order for d = 4 already."""
    d, rng = 4, np.random.default_rng(0)
    for n in (7, 20, 101):
        model = least_squares(d, 3, 1e-6)
        H = kind(np.asarray(model.pack(*regression_inputs(d, n, rng))))
        with Spy() as spy:
            model(H)
        assert not any(shape[-2:] == (n, n) for shape in spy.shapes)
        assert max(np.prod(shape, dtype=int) for shape in spy.shapes) <= model.width * n


def test_tall_keys_make_no_larger_product_either() -> None:
    """For a key of 8 rows the n x n product would be the cheaper way for three tokens, one more than H has rows."""
    layout = Layout(X=2)
    X = layout["X"]
    layer = attention(layout, X.add(X @ stack(X, X, X, X).T @ stack(X, X, X, X)))
    with Spy() as spy:
        layer(torch.ones(2, 3, dtype=torch.float64))
    assert (3, 3) not in spy.shapes


@pytest.mark.parametrize(("d", "n", "few"), [(4, 3, True), (8, 10, True), (3, 4, False), (4, 6, False), (8, 11, False)])
def test_few_tokens_are_multiplied_with_one_another(d: int, n: int, few: bool) -> None:
    """The spy of the test above sees an n x n product where there is one.

    With a value of v = d rows and keys of k = 2 d, that is cheaper where n (v + k) < 2 v k, for n < 4 d / 3.
    """
    built = newton_schulz(d, 1, symmetric=True)
    model = Transformer(built.layout, built.layers)
    H = np.random.default_rng(0).standard_normal((model.width, n))
    with Spy() as spy:
        model(H)
    assert ((n, n) in spy.shapes) == few
    assert ((d, d) in spy.shapes) == (not few)


def test_selections_take_no_dense_products() -> None:
    """A symmetric step multiplies d x d blocks three times, and makes nothing larger but its own copy of H."""
    d = 8
    model = newton_schulz(d, 1, symmetric=True)
    H = np.asarray(model.pack(np.eye(d), np.eye(d)))
    with Spy() as spy:
        model(H)
    assert sum(name in PRODUCTS for name in spy.names) == 3
    assert set(spy.shapes) <= {(d, d), (4 * d, d), ()}


@given(layers(), st.integers(1, 12), st.sampled_from([(), (2,)]), st.integers(0, 999))
@settings(deadline=None, max_examples=tries(15))
def test_all_ways_through_a_transformer_agree_to_the_bit(
    case: tuple[Layout, tuple[Write, ...]], n: int, batch: tuple[int, ...], seed: int
) -> None:
    layout, writes = case
    model = Transformer(layout, [attention(layout, *writes)] * 2)
    H = np.random.default_rng(seed).standard_normal((*batch, layout.width, n))
    before, tensor = H.copy(), torch.tensor(H)
    expected = model(H)
    with torch.no_grad():
        np.testing.assert_array_equal(model(tensor.clone().requires_grad_()).numpy(), expected)
    np.testing.assert_array_equal(model(tensor).numpy(), expected)
    np.testing.assert_array_equal(model(tensor.clone().requires_grad_()).detach().numpy(), expected)
    np.testing.assert_array_equal(np.concatenate(list(model.trace(H)[-1].blocks.values()), axis=-2), expected)
    np.testing.assert_array_equal(H, before)
    np.testing.assert_array_equal(tensor.numpy(), before)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own forward differentiation
def test_derivatives() -> None:
    rng = np.random.default_rng(1)
    model = newton_schulz(2, 2)
    H = torch.tensor(np.asarray(model.pack(0.1 * np.eye(2), matrix(2, 3.0, rng))), requires_grad=True)
    assert torch.autograd.gradcheck(model, (H,))
    assert torch.autograd.gradcheck(model, (H,), check_forward_ad=True, check_backward_ad=False)
    direction = torch.tensor(rng.standard_normal(H.shape))
    slope = torch.func.jvp(model, (H.detach(),), (direction,))[1]  # no gradient is asked for, a tangent is carried
    with torch.no_grad():
        difference = (model(H + 1e-6 * direction) - model(H - 1e-6 * direction)) / 2e-6
    close(slope, difference.numpy(), 1e-8)


def test_dense_transformers_can_be_trained() -> None:
    model = newton_schulz(2, 3, symmetric=True).dense()
    H = model.pack(0.2 * np.eye(2), np.eye(2))
    result = model(torch.tensor(H))
    result.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert gradients
    assert all(gradient is not None and torch.isfinite(gradient).all() for gradient in gradients)
    assert any(gradient.abs().max() > 0 for gradient in gradients if gradient is not None)
    assert isinstance(model(H), np.ndarray)


def test_parameters_and_shared_layers() -> None:
    for model in (newton_schulz(3, 4), least_squares(3, 4, 0.1), gradient_descent(3, 4, 0.1)):
        assert list(model.parameters()) == []
        looped = sum(parameter.numel() for parameter in model.dense().parameters())
        once = sum(parameter.numel() for layer in set(model.layers) for parameter in _dense(layer, model).parameters())
        assert looped == once > 0
        assert all(parameter.requires_grad for parameter in model.dense().parameters())
    assert sum(p.numel() for p in newton_schulz(3, 1).dense().parameters()) == sum(
        p.numel() for p in newton_schulz(3, 9).dense().parameters()
    )


def _dense(layer: Layer, model: Transformer) -> Transformer:
    return Transformer(model.layout, [layer]).dense()


def test_copies_are_independent() -> None:
    model = newton_schulz(2, 2).dense()
    H = model.pack(0.1 * np.eye(2), np.eye(2))
    copy = deepcopy(model)
    np.testing.assert_array_equal(copy(H), model(H))
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.mul_(2.0)
    assert np.abs(copy(H) - model(H)).max() > 0.01


CONSTRUCTIONS = {
    "general": (newton_schulz(3, 2), (0.1 * np.eye(3), np.diag([1.0, 2.0, 3.0]))),
    "symmetric": (newton_schulz(3, 2, symmetric=True), (0.1 * np.eye(3), np.diag([1.0, 2.0, 3.0]))),
    "least squares": (least_squares(2, 2, 1e-3), (np.arange(8.0).reshape(4, 2) / 9, np.ones(4), np.ones(2))),
    "gradient descent": (gradient_descent(2, 2, 1e-3), (np.arange(8.0).reshape(4, 2) / 9, np.ones(4))),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_traces(name: str, kind: Callable[[np.ndarray], Any]) -> None:
    model, inputs = CONSTRUCTIONS[name]
    H = kind(np.asarray(model.pack(*inputs)))
    frames = model.trace(H)
    assert len(frames) == model.depth + 1
    assert (frames[0].label, frames[0].written) == ("input", ())
    assert [frame.label for frame in frames[1:]] == [layer.label for layer in model.layers]
    assert all(layer.label for layer in model.layers)
    sizes = model.layout.sizes
    for frame in frames:
        assert {block: value.shape[-2] for block, value in frame.blocks.items()} == sizes
        assert all(type(value) is type(H) for value in frame.blocks.values())
    np.testing.assert_array_equal(np.vstack([np.asarray(b) for b in frames[0].blocks.values()]), H)
    for before, after in zip(frames, frames[1:], strict=False):  # noqa: RUF007  (frames, not numbers)
        changed = {b for b in sizes if not np.array_equal(np.asarray(before.blocks[b]), np.asarray(after.blocks[b]))}
        assert changed <= set(after.written)
        assert set(after.written) < set(sizes)


def test_trace_names_the_written_blocks() -> None:
    frames = least_squares(2, 1, 1e-3).trace(CONSTRUCTIONS["least squares"][0].pack(*CONSTRUCTIONS["least squares"][1]))
    assert [frame.written for frame in frames] == [
        (),
        ("X", "R", "out"),
        ("X",),
        ("out",),
        ("X", "R", "out"),
    ]


def test_frames_do_not_change_with_the_input() -> None:
    model, inputs = CONSTRUCTIONS["general"]
    H = np.asarray(model.pack(*inputs))
    frames = model.trace(H)
    H[:] = 7.0
    np.testing.assert_array_equal(frames[0].blocks["X"], inputs[0])


@pytest.mark.parametrize(
    ("H", "error", "message"),
    [
        (np.ones((11, 3)), ValueError, r"H has shape \(11, 3\): must be \(12, n\), leading batch axes allowed"),
        (np.ones(12), ValueError, r"H has shape \(12,\): must be \(12, n\)"),
        (np.ones((12, 0)), ValueError, r"H has shape \(12, 0\): must be \(12, n\)"),
        (np.ones((12, 3), dtype=np.float32), TypeError, "H has dtype float32: must be torch.float64"),
        (torch.ones(12, 3), TypeError, "H has dtype torch.float32: must be torch.float64"),
        (np.ones((12, 3), dtype=int), TypeError, "H has dtype int64: must be torch.float64"),
        (np.ones((12, 3), dtype=complex), TypeError, "H has dtype complex128: must be torch.float64"),
        (np.ones((12, 3), dtype=bool), TypeError, "H has dtype bool: must be torch.float64"),
        (np.ones((12, 3)).astype(str), TypeError, "H has dtype <U32: must be torch.float64"),
        (np.ones((12, 3), dtype=object), TypeError, "H has dtype object: must be torch.float64"),
        ([[1.0]] * 12, TypeError, "H is a list: must be a numpy array or a tensor"),
        (None, TypeError, "H is a NoneType: must be a numpy array or a tensor"),
        (np.full((12, 3), np.nan), ValueError, "H contains NaN or infinity: every entry must be finite"),
        (torch.full((2, 12, 3), -torch.inf, dtype=torch.float64), ValueError, "H contains NaN or infinity"),
    ],
)
def test_input_that_is_refused(H: Any, error: type[Exception], message: str) -> None:
    model = newton_schulz(3)
    for call in (model, model.trace):
        with pytest.raises(error, match=f"^{message}"):
            call(H)


def test_an_identity_needs_as_many_tokens() -> None:
    model = newton_schulz(3)
    for H in (np.ones((12, 2)), np.ones((5, 12, 2))):
        for call in (model, model.trace, model.unpack):
            with pytest.raises(ValueError, match=r"^H has n = 2 tokens: must be at least 3, the size of its identity$"):
                call(H)
    assert np.shape(model(np.ones((5, 12, 3)))) == (5, 12, 3)
    bare = Transformer(model.layout, model.layers)  # which knows of no identity
    assert np.shape(bare(np.ones((12, 1)))) == (12, 1)


@pytest.mark.parametrize("position", [0, 17, 35])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_entry_is_found(position: int, bad: float) -> None:
    H = np.ones((12, 3))
    H.flat[position] = bad
    with pytest.raises(ValueError, match="H contains NaN or infinity"):
        newton_schulz(3)(H)


def test_views_and_read_only_arrays_are_taken_as_they_are() -> None:
    model, inputs = CONSTRUCTIONS["general"]
    H = np.asarray(model.pack(*inputs))
    expected = model(H)
    read_only = H.copy()
    read_only.setflags(write=False)
    for same in (read_only, np.asfortranarray(H), H[::-1].copy()[::-1], np.repeat(H, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(model(same), expected)
    np.testing.assert_array_equal(model(np.broadcast_to(H, (2, *H.shape)))[1], model(np.stack([H, H]))[0])


def test_float32() -> None:
    rng = np.random.default_rng(2)
    A = matrix(8, 4.0, rng)
    X = A.T
    model = newton_schulz(8, 10)
    exact = model.unpack(model(model.pack(X, A)))["X"]
    model = model.to(torch.float32)
    H = np.asarray(model.pack(X, A))
    assert model.dtype == torch.float32
    single = np.asarray(model.unpack(model(H))["X"])
    assert H.dtype == single.dtype == np.float32
    close(single, np.asarray(exact), 1e-5)
    assert np.abs(single - exact).max() > 1e-9
    with pytest.raises(TypeError, match=r"^H has dtype float64: must be torch.float32"):
        model(H.astype(np.float64))


def test_heads_with_the_same_key_and_query_are_one_head() -> None:
    layout = Layout(X=2, Y=2)
    X, Y = layout.blocks
    assert len(attention(layout, X.add(Y @ X.T @ Y), Y.add(X @ X.T @ Y)).heads) == 1
    assert len(attention(layout, X.add(Y @ X.T @ Y), Y.add(X @ Y.T @ X)).heads) == 2
    assert attention(layout, X.add(Y @ X.T @ -Y)).label == "X += Y · X^T · -Y"


def test_blocks_of_another_layout_must_fit() -> None:
    small, large = Layout(X=2), Layout(P=3, X=2)
    X = large["X"]
    with pytest.raises(ValueError, match="does not fit"):
        attention(small, X.add(X @ X.T @ X))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("layer_norm", [None, 1e-5])
@pytest.mark.parametrize("query_as_key", [True, False])
@pytest.mark.parametrize("clip", [None, 1.5])
@pytest.mark.parametrize("n", [3, 30])
def test_options_of_trained_layers(
    average: bool, layer_norm: float | None, query_as_key: bool, clip: float | None, n: int
) -> None:
    rng = np.random.default_rng(3)
    plain = relu_and_attention(rng)
    layer = Layer(plain.heads, plain.relu, "", AttentionOptions(average, layer_norm, query_as_key, clip))
    H = rng.standard_normal((2, 4, n))
    read_from = H
    if layer_norm is not None:
        read_from = (H - H.mean(axis=-2, keepdims=True)) / np.sqrt(H.var(axis=-2, keepdims=True) + layer_norm)
    keys = read_from if query_as_key else read_from[..., :-1]
    expected = H.copy()
    for head in layer.weights():
        V, K, Q = (head[name].numpy() for name in ("W_V", "W_K", "W_Q"))
        product = (V @ keys) @ np.swapaxes(K @ keys, -1, -2) @ (Q @ read_from)
        expected += product / (keys.shape[-1] if average else 1)
    expected = expected if clip is None else np.clip(expected, -clip, clip)
    expected = relu_of(layer, expected)
    model = Transformer(Layout(X=3, s=1), [layer])
    close(model(H), expected)
    close(model(torch.tensor(H, requires_grad=True)).detach(), expected)
