"""Probes of trained models, on models whose polynomial is known and against plain fits and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.tries import tries
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


@pytest.mark.parametrize(("layers", "heads", "scale"), [(1, 1, 1.0), (2, 1, 0.25), (3, 2, 0.5)])
def test_saturation_bound_is_attained(layers: int, heads: int, scale: float) -> None:
    """Where all tokens lie along one direction u, and all weights read and write along it."""
    model = random_model(
        layers=layers, width=16, heads=heads, layer_norm=1e-5, query_as_key=True, input_scale=scale, init=0.1
    )
    u = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(8)  # as LayerNorm leaves it: mean 0, norm sqrt(width)
    with torch.no_grad():
        for weight in (model.embed, model.qkv, model.out):
            weight.zero_()
        model.embed[:, 0] = u
        model.read_out.copy_(0.3 * u)
        for head in range(heads):
            first = 16 // heads * head
            for part, size in enumerate((0.7, 0.5, 0.2)):
                model.qkv[:, part, first] = size * (1.0 + head) * u
            model.out[:, :, first] = 0.1 * u
    p = prompts()
    same = torch.zeros_like(p.x)
    same[..., 0] = 50.0
    asked = p._replace(x=same, x_query=same[:, 0])
    with torch.no_grad():
        added = model(asked) - asked.x_query @ probes.query_slope(model)
    np.testing.assert_allclose(added.numpy(), probes.saturation_bound(model), rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
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
