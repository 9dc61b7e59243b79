"""Linear attention: Gram form, tokens and the package's Transformer are one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.helpers.tries import tries
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.learning.conversion import from_transformer, to_transformer
from tfnewton.learning.encoder import Encoder, EncoderOptions
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, LogisticRegression, generator
from tfnewton.model.transformer import Transformer

OPTIONS: dict[str, Any] = {"layers": 3, "width": 16, "heads": 4, "init": 0.15, "init_out": 0.15}


def model(d: int = 5, **options: Any) -> LinearAttention:
    result = LinearAttention(LinearAttentionOptions(**(OPTIONS | options)), d, generator(0, "w")).double()
    with torch.no_grad():
        result.embed[:, d + 1 :] = 0.3  # the constant's column starts at zero
    return result


def sample(d: int = 5, count: int = 6, n: int = 12, seed: int = 0) -> LinearPrompts:
    return LinearRegression(d=d, n=n, kappa=1.0 if d == 1 else 10.0).sample(generator(seed, "x"), count, torch.float64)


def by_hand(m: LinearAttention, prompts: LinearPrompts) -> np.ndarray:
    """Token by token and head by head, n x n, in numpy."""
    o, width = m.options, m.options.width // m.options.heads
    qkv, out = m.qkv.detach().numpy(), m.out.detach().numpy()
    answers = []
    for x, y, query in zip(prompts.x.numpy(), prompts.y.numpy(), prompts.x_query.numpy(), strict=True):
        tokens = np.zeros((len(x) + 1, m.d + 1))
        tokens[:-1, :-1], tokens[:-1, -1], tokens[-1, :-1] = x, y, query
        tokens *= o.input_scale
        if o.constant:
            tokens = np.hstack([tokens, np.ones((len(tokens), 1))])
        h = tokens @ m.embed.detach().numpy().T
        keys = len(h) if o.query_as_key else len(x)
        divisor = keys if o.scaling == "keys" else np.sqrt(width)
        for (Wq, Wk, Wv), Wo in zip(qkv, out, strict=True):
            read = h
            if o.layer_norm is not None:
                read = (h - h.mean(axis=1, keepdims=True)) / np.sqrt(h.var(axis=1, keepdims=True) + o.layer_norm)
            update = np.zeros_like(h)
            for head in range(o.heads):
                rows = slice(head * width, (head + 1) * width)
                scores = (read @ Wq[rows].T) @ (read[:keys] @ Wk[rows].T).T
                update += (scores @ (read[:keys] @ Wv[rows].T) / divisor) @ Wo[:, rows].T
            h = h + update
            if o.clip is not None:
                h = h.clip(-o.clip, o.clip)
        if o.final_norm is not None:
            h = (h - h.mean(axis=1, keepdims=True)) / np.sqrt(h.var(axis=1, keepdims=True) + o.final_norm)
        answers.append(h[-1] @ m.read_out.detach().numpy() / o.input_scale)
    return np.array(answers)


VARIANTS = [
    {"query_as_key": query, "layer_norm": norm, "clip": clip, "scaling": scaling, "constant": norm is not None}
    for query in (True, False)
    for norm in (None, 1e-5)
    for clip in (None, 0.5)
    for scaling in ("keys", "head_size")
]


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_form_is_the_same_function(variant: dict[str, Any], layers: int, tmp_path: Path) -> None:
    m, prompts = model(layers=layers, **variant), sample()
    expected = by_hand(m, prompts)
    scale = np.abs(expected).max()
    assert scale > 1e-3
    np.testing.assert_allclose(m(prompts).detach(), expected, atol=1e-12 * scale)
    transformer = to_transformer(m)
    H = transformer.pack(prompts.x, prompts.y, prompts.x_query)
    y_hat = torch.as_tensor(transformer.unpack(transformer(H))["y_hat"]).detach()
    np.testing.assert_allclose(y_hat, expected, atol=1e-12 * scale)
    transformer.save(tmp_path / "m.safetensors")
    back = from_transformer(Transformer.load(tmp_path / "m.safetensors"))
    np.testing.assert_allclose(back(prompts).detach(), expected, atol=1e-12 * scale)


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_final_norm_is_what_the_read_out_reads(variant: dict[str, Any], layers: int) -> None:
    m, prompts = model(layers=layers, final_norm=0.01, **variant), sample()
    expected = by_hand(m, prompts)
    np.testing.assert_allclose(m(prompts).detach(), expected, atol=1e-12 * np.abs(expected).max())
    without = model(layers=layers, **variant)
    without.load_state_dict(m.state_dict())
    assert (without(prompts) - m(prompts)).abs().max() > 1e-2 * np.abs(expected).max()
    with pytest.raises(ValueError, match=r"final_norm = 0\.01: must be None; a Transformer"):
        to_transformer(m)


@settings(deadline=None, max_examples=tries(30))
@given(
    d=st.integers(1, 8), n=st.integers(1, 30), layers=st.integers(1, 5), heads=st.integers(1, 3), query=st.booleans()
)
def test_gram_form_equals_token_form(d: int, n: int, layers: int, heads: int, query: bool) -> None:
    m = model(d, layers=layers, heads=heads, width=heads * (d + 3), query_as_key=query)
    prompts = sample(d, n=n, seed=n)
    expected = by_hand(m, prompts)
    np.testing.assert_allclose(m(prompts).detach(), expected, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("variant", [*VARIANTS, {"layer_norm": 1e-5, "final_norm": 0.01, "constant": True}], ids=str)
def test_gradients(variant: dict[str, Any], fast: bool) -> None:
    """Against differences: along random directions, and (long) every entry."""
    m, prompts = model(2, layers=3, width=6, heads=2, **variant), sample(2, count=2, n=3)

    names, weights = zip(*m.named_parameters(), strict=True)

    def loss(*values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.func.functional_call(m, dict(zip(names, values, strict=True)), (prompts,))
        return result

    assert torch.autograd.gradcheck(loss, weights, atol=1e-6, fast_mode=fast)


def test_trace_of_a_trained_model_names_its_rows() -> None:
    m, prompts = model(), sample()
    transformer = to_transformer(m)
    H = transformer.pack(prompts.x[0], prompts.y[0], prompts.x_query[0])
    frames = transformer.trace(H)
    assert [frame.label for frame in frames] == ["input", "embedding", "layer 1", "layer 2", "layer 3"]
    assert [frame.written for frame in frames] == [(), *[("hidden",)] * 3, ("hidden", "y_hat")]
    assert set(frames[0].blocks) == {"x", "y", "hidden", "y_hat"}
    np.testing.assert_array_equal(frames[0].blocks["x"][:, -1], prompts.x_query[0])
    assert frames[0].blocks["y"][0, -1] == 0.0
    last = torch.as_tensor(frames[-1].blocks["y_hat"]).detach()[0, -1]
    assert last.item() == pytest.approx(m(prompts)[0].item(), rel=1e-10)


def test_prediction_is_linear_in_the_query_only_when_it_is_no_key() -> None:
    prompts = sample()
    doubled = prompts._replace(x_query=2.0 * prompts.x_query)
    outside, inside = model(query_as_key=False), model(query_as_key=True)
    torch.testing.assert_close(outside(doubled), 2.0 * outside(prompts), rtol=1e-12, atol=1e-12)
    assert (inside(doubled) - 2.0 * inside(prompts)).abs().max() > 1e-6


def test_only_a_trained_transformer_comes_back() -> None:
    with pytest.raises(ValueError, match=r"source has the rows Layout\(X=2.*must come from a trained model"):
        from_transformer(newton_schulz(2))


def extra_relu(T: Transformer) -> None:
    T.layers[1].relu = T.layers[0].relu


def foreign_rows(T: Transformer) -> None:
    with torch.no_grad():
        T.layers[1].heads[0].value.weight[0, 0] = 0.5  # type: ignore[union-attr]


def doubled_embedding(T: Transformer) -> None:
    assert T.layers[0].relu is not None
    with torch.no_grad():
        T.layers[0].relu.groups[0].outer.weight.mul_(2.0)


def other_options(T: Transformer) -> None:
    T.layers[2].options = replace(T.layers[2].options, query_as_key=False)


def head_less(T: Transformer) -> None:
    del T.layers[1].heads[0]  # type: ignore[attr-defined]


def no_embedding(T: Transformer) -> None:
    T.layers[0].relu = None


@pytest.mark.parametrize(
    "edit",
    [extra_relu, foreign_rows, doubled_embedding, other_options, head_less, no_embedding],
    ids=lambda f: f.__name__,
)
def test_an_edited_transformer_does_not_come_back_as_another_function(edit: Callable[[Transformer], None]) -> None:
    T = to_transformer(model())
    edit(T)
    with pytest.raises(ValueError, match="must come from"):
        from_transformer(T)


@pytest.mark.parametrize("kind", ["drawn", "trained"])
def test_encoder_against_a_direct_computation(kind: str) -> None:
    """As it is drawn, and with gains and biases that training has moved."""
    options = EncoderOptions(layers=2, width=8, heads=2, mlp=3, init=0.3, input_scale=0.7)
    encoder = Encoder(options, 3, generator(0, "w")).double()
    if kind == "trained":
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator(1, "w"), dtype=torch.float64))
    prompts = LogisticRegression(d=3, n=7).sample(generator(0, "x"), 4, torch.float64)
    W = {name: value.detach().numpy() for name, value in encoder.named_parameters()}

    def norm(h: np.ndarray, name: str) -> np.ndarray:
        unit = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return np.asarray(unit * W[name + ".weight"] + W[name + ".bias"])

    def linear(h: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(h @ W[name + ".weight"].T + W[name + ".bias"])

    for i in range(4):
        tokens = np.hstack([0.7 * prompts.x[i].numpy(), prompts.y[i].numpy()[:, None]])
        h = np.vstack([linear(tokens, "embed"), W["read_out"]])
        for b in ("blocks.0.", "blocks.1."):
            read = norm(h, b + "before_attention")
            q, (k, v) = linear(read, b + "query"), np.split(linear(read, b + "key_value"), 2, axis=1)
            heads = []
            for rows in (slice(0, 4), slice(4, 8)):
                scores = np.exp(q[:, rows] @ k[:, rows].T / 2.0)
                heads.append(scores / scores.sum(1, keepdims=True) @ v[:, rows])
            h = h + linear(np.hstack(heads), b + "project")
            wide = linear(norm(h, b + "before_mlp"), b + "widen")
            assert wide.shape == (8, 24)
            h = h + linear(wide * stats.norm.cdf(wide), b + "narrow")
        np.testing.assert_allclose(encoder(prompts)[i].detach(), linear(h[-1], "head"), rtol=1e-10, atol=1e-12)


def sizes(weights: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation of the entries, the first in units of its standard error."""
    mean, deviation = weights.mean().item(), weights.std().item()
    return abs(mean) * weights.numel() ** 0.5 / deviation, deviation


@pytest.mark.parametrize("layers", [1, 3])
def test_encoders_are_drawn_small_where_they_write_to_the_residual(layers: int) -> None:
    encoder = Encoder(EncoderOptions(layers=layers, width=192, heads=4, init=0.05), 5, generator(0, "w"))
    for name, value in encoder.named_parameters():
        what = name.split(".", 2)[-1]
        if what.endswith("bias"):
            assert torch.equal(value, torch.zeros_like(value)), name
        elif what in {"before_attention.weight", "before_mlp.weight"}:
            assert torch.equal(value, torch.ones_like(value)), name
        else:
            small = what in {"project.weight", "narrow.weight"}
            offset, deviation = sizes(value.detach())
            assert offset < 4.0, name
            assert deviation == pytest.approx(0.05 / (2 * layers) ** 0.5 if small else 0.05, rel=0.15), name


@pytest.mark.parametrize("constant", [False, True])
def test_linear_attention_is_drawn_as_its_options_say(constant: bool) -> None:
    options = LinearAttentionOptions(layers=3, width=128, heads=4, constant=constant, init=0.03, init_out=0.2)
    m = LinearAttention(options, 10, generator(0, "w"))
    assert m.embed.shape == (128, 12 if constant else 11)
    assert not constant or torch.equal(m.embed[:, 11], torch.zeros(128))
    expected = {"embed": 128**-0.5, "qkv": 0.03, "out": 0.2, "read_out": 128**-0.5}
    for name, value in m.named_parameters():
        offset, deviation = sizes(value.detach()[:, :11] if name == "embed" else value.detach())
        assert offset < 4.0, name
        assert deviation == pytest.approx(expected[name], rel=0.15), name
    again = LinearAttention(options, 10, generator(0, "w"))
    assert all(torch.equal(a, b) for a, b in zip(m.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("d", [0, -1])
def test_models_of_no_dimension_are_refused(d: int) -> None:
    with pytest.raises(ValueError, match=rf"^d = {d}: must be at least 1$"):
        LinearAttention(LinearAttentionOptions(**OPTIONS), d, generator(0, "w"))
    with pytest.raises(ValueError, match=rf"^d = {d}: must be at least 1$"):
        Encoder(EncoderOptions(layers=1), d, generator(0, "w"))
