"""Probes of trained models, on models whose polynomial is known and against plain fits and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
from tfnewton.constructions.linear_regression import least_squares
from tfnewton.learning import evaluation as ev
from tfnewton.learning import probes
from tfnewton.learning.models import LinearAttention, LinearAttentionOptions
from tfnewton.learning.tasks import LinearPrompts, LinearRegression, generator

D = 4
OPTIONS: dict[str, Any] = {"layers": 2, "width": 16, "heads": 4, "init": 0.2, "init_out": 0.2, "query_as_key": False}


def random_model(**options: Any) -> LinearAttention:
    return LinearAttention(LinearAttentionOptions(**(OPTIONS | options)), D, generator(0, "probes")).double()


def gradient_step(step: float) -> LinearAttention:
    """One layer that adds step G to the entry of y: one gradient step from zero, residual 1 - step lambda."""
    model = random_model(layers=1, width=2 * D, heads=1, input_scale=1.0)
    rows, label = torch.arange(D), D  # the entries of x and of y in the residual stream
    with torch.no_grad():
        for weight in (model.embed, model.qkv, model.out, model.read_out):
            weight.zero_()
        model.embed[torch.arange(D + 1), torch.arange(D + 1)] = 1.0
        model.qkv[0, 0, rows, rows] = 1.0
        model.qkv[0, 1, rows, rows] = 1.0
        model.qkv[0, 2, 0, label] = step
        model.out[0, label, 0] = 1.0
        model.read_out[label] = 1.0
    return model


def prompts(seed: int = 0, count: int = 5) -> LinearPrompts:
    return LinearRegression(d=D, n=9, kappa=5.0).sample(generator(seed, "probes"), count, torch.float64)


@given(seed=st.integers(0, 1000), layers=st.integers(1, 3))
@settings(deadline=None, max_examples=tries(15))
def test_weight_vectors_are_the_answer_when_the_query_is_out(seed: int, layers: int) -> None:
    p, model = prompts(seed), random_model(layers=layers)
    with torch.no_grad():
        answer = model(p)
    found = (probes.weight_vectors(model, p.x, p.y) * p.x_query).sum(-1)
    torch.testing.assert_close(found, answer, rtol=1e-9, atol=1e-12)


def test_weight_vectors_are_the_gradient_at_zero_when_the_query_is_in() -> None:
    p, model = prompts(), random_model(query_as_key=True)
    small = p._replace(x_query=1e-6 * p.x_query)
    with torch.no_grad():
        slope = (model(small) - model(p._replace(x_query=0.0 * p.x_query))) / 1e-6
    found = (probes.weight_vectors(model, p.x, p.y) * p.x_query).sum(-1)
    torch.testing.assert_close(found, slope, rtol=1e-6, atol=1e-9)
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())


def test_spectrum_of_a_gradient_step() -> None:
    x = prompts().x
    found = probes.spectrum(gradient_step(0.03), x)
    values = np.linalg.eigvalsh((x.mT @ x / x.shape[1]).numpy())
    np.testing.assert_allclose(found.eigenvalues.numpy(), values, rtol=1e-10)
    np.testing.assert_allclose(found.residuals.numpy(), 1.0 - 0.03 * values, rtol=1e-10, atol=1e-12)
    assert found.leakage.max() < 1e-9 * values.max()


def test_spectrum_sees_what_leaks() -> None:
    model = gradient_step(0.03)
    with torch.no_grad():
        model.qkv[0, 0, 0, 0] = 2.0  # the first coordinate of the query counts double
    x = prompts().x
    vectors = np.linalg.eigh((x.mT @ x / x.shape[1]).numpy())[1]
    along = 1.0 + vectors[:, 0] ** 2  # v^T diag(2, 1, ...) v, (B, d)
    found = probes.spectrum(model, x)
    np.testing.assert_allclose(1.0 - found.residuals.numpy(), 0.03 * found.eigenvalues.numpy() * along, rtol=1e-9)
    across = np.sqrt(np.maximum(1.0 + 3.0 * vectors[:, 0] ** 2 - along**2, 0.0))
    np.testing.assert_allclose(found.leakage.numpy(), 0.03 * found.eigenvalues.numpy() * across, rtol=1e-6, atol=1e-9)


def test_spectrum_shows_weights_of_the_length_asked_for() -> None:
    """Against the answers themselves; a model of two layers tells the length, one gradient step does not."""
    x, model = prompts().x, random_model(init=0.5, init_out=0.5)
    vectors = torch.linalg.eigh(x.mT @ x / x.shape[1]).eigenvectors
    vectors = (
        vectors * vectors.sum(dim=1, keepdim=True).sign()
    )  # of the two, the one whose entries add up to more than 0
    found = probes.spectrum(model, x, 3.0)
    for i in range(D):
        v = vectors[:, :, i]
        nothing = torch.zeros(len(x), dtype=x.dtype)
        with torch.no_grad():
            answer = model(LinearPrompts(x, 3.0 * (x @ v[:, :, None]).squeeze(-1), v, nothing, v))
        torch.testing.assert_close(found.residuals[:, i], 1.0 - answer / 3.0, rtol=1e-9, atol=1e-12)
    assert (found.residuals - probes.spectrum(model, x).residuals).abs().max() > 1e-6
    for part, other in zip(
        probes.spectrum(gradient_step(0.03), x, 3.0), probes.spectrum(gradient_step(0.03), x), strict=True
    ):
        torch.testing.assert_close(part, other, rtol=1e-9, atol=1e-9)


def constructed(p: LinearPrompts) -> torch.Tensor:
    """The answers of the package's transformer for least squares, on contexts scaled to lambda_max(A^T A) = 1."""
    top = torch.linalg.matrix_norm(p.x, ord=2)
    transformer = least_squares(D, steps=3, step_size=1.0)
    H = transformer.pack(p.x / top[:, None, None], p.y / top[:, None], p.x_query)
    return torch.as_tensor(transformer.unpack(transformer(H))["y_hat"])


def newton(p: LinearPrompts) -> torch.Tensor:
    *_, last = ev.newton_predictions(p, 3, 2, "R/lambda_max^2")
    return last


@given(seed=st.integers(0, 1000), factor=st.sampled_from([-1.0, 1e-3, 1.4, 1e3]))
@settings(deadline=None, max_examples=tries(15))
def test_newton_and_the_transformer_that_runs_it_are_linear_in_the_labels(seed: int, factor: float) -> None:
    p = prompts(seed)
    size = newton(p).abs().max().item()
    np.testing.assert_allclose(constructed(p), newton(p), atol=1e-9 * size)
    for answer in (newton, constructed, gradient_step(0.01)):
        with torch.no_grad():
            assert probes.label_scaling(answer, p, factor).abs().max() < 1e-9 * size
            assert probes.superposition(answer, p).abs().max() < 1e-9 * size


@pytest.mark.parametrize("options", [{}, {"query_as_key": True}, {"layer_norm": 1e-5, "constant": True}], ids=str)
def test_a_model_of_two_layers_is_not_linear_in_the_labels(options: dict[str, Any]) -> None:
    p, model = prompts(), random_model(init=0.5, init_out=0.5, **options)
    with torch.no_grad():
        scaled, bent = probes.label_scaling(model, p, 1.4), probes.superposition(model, p)
        expected = model(p._replace(y=1.4 * p.y)) / 1.4 - model(p)
        other = torch.einsum("bnd,bd->bn", p.x, torch.cat([p.w[-1:], p.w[:-1]]))
        both = 2**0.5 * model(p._replace(y=(p.y + other) / 2**0.5)) - model(p) - model(p._replace(y=other))
        size = model(p).abs().max()
    torch.testing.assert_close(scaled, expected)
    torch.testing.assert_close(bent, both)
    assert min(scaled.abs().max(), bent.abs().max()) > 1e-6 * size


@pytest.mark.parametrize(("layers", "degree"), [(0, 0), (1, 1), (2, 4), (3, 13), (4, 40)])
def test_largest_degree(layers: int, degree: int) -> None:
    assert probes.largest_degree(layers) == degree


@pytest.mark.parametrize("layers", [1, 2])
def test_largest_degree_is_reached_and_not_passed(layers: int) -> None:
    """Differences of order m + 1 of a polynomial of degree m vanish, those of order m do not."""
    m, p, model = probes.largest_degree(layers), prompts(count=1), random_model(layers=layers, init=0.5, init_out=0.5)
    roots = torch.arange(m + 2, dtype=torch.float64).sqrt()
    answers = torch.cat([probes.weight_vectors(model, r * p.x, r * p.y) for r in roots]).numpy()
    last = np.abs(np.diff(answers, m + 1, axis=0)).max()
    assert last < 1e-9 * np.abs(answers).max()
    assert np.abs(np.diff(answers, m, axis=0)).max() > 1e3 * last


@given(seed=st.integers(0, 1000), degree=st.integers(1, 6))
@settings(deadline=None, max_examples=tries(20))
def test_best_fixed_residual_is_the_least_squares_one(seed: int, degree: int) -> None:
    """Against the normal equations in the monomials."""
    values = np.random.default_rng(seed).uniform(0.1, 1.0, 60)
    residual = probes.best_fixed_residual(values, degree)
    powers = values[:, None] ** np.arange(1, degree + 1)
    expected = np.linalg.solve(powers.T @ (values[:, None] * powers), powers.T @ values)
    np.testing.assert_allclose(residual(values), 1.0 - powers @ expected, atol=1e-5)
    np.testing.assert_allclose(residual(np.zeros(1)), 1.0, atol=1e-12)


def test_best_fixed_residual_vanishes_on_few_eigenvalues() -> None:
    values = np.array([0.5, 3.0, 100.0])
    np.testing.assert_allclose(probes.best_fixed_residual(values, 3)(values), 0.0, atol=1e-10)
    assert np.abs(probes.best_fixed_residual(values, 2)(values)).max() > 1e-3


@pytest.mark.parametrize("constant", [False, True])
def test_saturation_bound_holds_and_the_slope_is_the_limit(constant: bool) -> None:
    model = random_model(layer_norm=1e-5, query_as_key=True, constant=constant, init=0.5, init_out=0.5)
    p = prompts()
    slope, bound = probes.query_slope(model), probes.saturation_bound(model)
    with torch.no_grad():
        added = [model(p._replace(x_query=t * p.x_query)) - t * (p.x_query @ slope) for t in (0.0, 1.0, 1e3, 1e6, 2e6)]
    assert max(float(a.abs().max()) for a in added) <= bound  # the constant's column is zero at first
    torch.testing.assert_close(added[-1], added[-2], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("constant", [False, True])
def test_without_heads_the_answer_is_slope_and_constant(constant: bool, scale: float) -> None:
    model, p = random_model(layer_norm=1e-5, query_as_key=True, constant=constant, input_scale=scale), prompts()
    with torch.no_grad():
        model.embed[:, -1] += 1.0
        model.out.zero_()
        line = p.x_query @ probes.query_slope(model) + probes.query_constant(model)
        torch.testing.assert_close(model(p), line, rtol=1e-9, atol=1e-12)
    assert (probes.query_constant(model) != 0.0) == constant


@given(seed=st.integers(0, 1000), reach=st.sampled_from([0.0, 1.0, 1e3, 1e9]), norm=st.sampled_from([None, 1e-5]))
@settings(deadline=None, max_examples=tries(15))
def test_a_final_norm_bounds_the_answers(seed: int, reach: float, norm: float | None) -> None:
    model = random_model(final_norm=1e-5, layer_norm=norm, query_as_key=True, constant=True)
    p = prompts(seed)
    with torch.no_grad():
        answers = model(p._replace(x_query=reach * p.x_query))
    assert answers.abs().max().item() <= probes.answer_bound(model) * (1.0 + 1e-12)


def test_bound_of_a_final_norm_is_reached() -> None:
    """By a query whose embedding is the read-out less its mean."""
    model = random_model(final_norm=1e-5, query_as_key=False)
    with torch.no_grad():
        model.out.zero_()
        model.embed[:, 0] = model.read_out + 3.0
    p = prompts()
    far = p._replace(x_query=torch.zeros_like(p.x_query).index_fill(1, torch.tensor([0]), 1e6))
    with torch.no_grad():
        assert model(far).numpy() == pytest.approx(probes.answer_bound(model), rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_saturation_bound_is_attained(scale: float) -> None:
    """All tokens are read as sqrt(width) c: the value is sqrt(width), key times query is width."""
    width = 16
    model = random_model(layers=1, width=width, heads=1, input_scale=scale, layer_norm=1e-9, query_as_key=True)
    c = torch.tensor([0.0, 1.0, -1.0] + [0.0] * (width - 3), dtype=torch.float64) / 2**0.5  # of mean zero, off entry 0
    with torch.no_grad():
        for weight in (model.embed, model.qkv, model.out, model.read_out):
            weight.zero_()
        model.embed[:, 0] = c
        model.qkv[0, :, 0, :] = c  # each map reads along c and writes entry 0
        model.out[0, 0, 0] = 1.0
        model.read_out[0] = 1.0
        x = torch.ones(1, 3, D, dtype=torch.float64)
        answer = model(LinearPrompts(x, x[..., 0] * 0, x[:, 0], x[:, 0, 0] * 0, x[:, 0]))
    assert float(answer) == pytest.approx(width**1.5 / scale, rel=1e-6)
    assert probes.saturation_bound(model) == pytest.approx(width**1.5 / scale)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probes.answer_bound(random_model(layer_norm=1e-5)), "final_norm = None: must be set"),
        (lambda: probes.query_slope(random_model(final_norm=1e-5)), "final_norm = 1e-05: must be None"),
        (lambda: probes.query_constant(random_model(final_norm=1e-5)), "final_norm = 1e-05: must be None"),
        (
            lambda: probes.saturation_bound(random_model(layer_norm=1e-5, final_norm=1e-5)),
            "final_norm = 1e-05: must be None",
        ),
        (lambda: probes.spectrum(random_model(), prompts().x, 0.0), "length = 0.0: must be"),
        (lambda: probes.label_scaling(random_model(), prompts(), 0.0), "factor = 0.0: must not be 0"),
        (lambda: probes.largest_degree(-1), "layers = -1: must be at least 0"),
        (lambda: probes.best_fixed_residual(np.array([1.0, 2.0]), 0), "degree = 0: must be at least 1"),
        (lambda: probes.best_fixed_residual(np.array([0.0, 2.0]), 1), "least of the eigenvalues = 0.0: must be"),
        (lambda: probes.saturation_bound(random_model()), "layer_norm = None: must be set"),
        (
            lambda: probes.saturation_bound(random_model(layer_norm=1e-5, scaling="head_size")),
            "scaling = 'head_size': must be 'keys'",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
