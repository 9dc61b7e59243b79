"""What a trained model computes: its answer as a function of the query, and as a polynomial in the context.

Without LayerNorm and with the query out of keys and values, the answer is u^T x_query with a weight vector u that
depends on the context alone. If u = g(R) w on contexts y = A w, with R = A^T A / n, then 1 - g(lambda) is the part of
the weights along an eigenvector that the model misses: its residual. Newton's iteration has such residuals exactly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebvander
from torch import Tensor

from tfnewton.checks import integer, real
from tfnewton.learning.models import LinearAttention
from tfnewton.learning.tasks import LinearPrompts

__all__ = [
    "Spectrum",
    "answer_bound",
    "best_fixed_residual",
    "label_scaling",
    "largest_degree",
    "query_constant",
    "query_slope",
    "saturation_bound",
    "spectrum",
    "superposition",
    "weight_vectors",
]


Answer: TypeAlias = Callable[[LinearPrompts], Tensor]


class Spectrum(NamedTuple):
    """Along the eigenvectors of R = A^T A / n: eigenvalues, ascending, residuals, and leakage; all (B, d).

    The leakage is the length of what the model answers across the eigenvector.
    """

    eigenvalues: Tensor
    residuals: Tensor
    leakage: Tensor


def weight_vectors(model: LinearAttention, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the answer by the query at x_query = 0, (B, d), for contexts x (B, n, d), y (B, n).

    For a model that is linear in the query this is its weight vector u.
    """
    frozen = copy.deepcopy(model).requires_grad_(requires_grad=False)
    query = torch.zeros_like(x[:, 0]).requires_grad_()
    nothing = torch.zeros_like(y[:, 0])
    (gradient,) = torch.autograd.grad(frozen(LinearPrompts(x, y, query, nothing, query)).sum(), query)
    return gradient


def spectrum(model: LinearAttention, x: Tensor, length: float = 1.0) -> Spectrum:
    """Return the residuals of ``model`` on x (B, n, d): it is shown y = length A v for each unit eigenvector v of R.

    Weights of that length are then shown, and residuals and leakage are relative to it. The weights of training prompts
    are about sqrt(d) long; for a model that is not linear in y the length matters, and the sign of v, whose entries add
    up to a positive number.
    """
    real("length", length, above=0.0)
    B, n, d = x.shape
    eigenvalues, vectors = torch.linalg.eigh(x.mT @ x / n)
    v = vectors.mT.flatten(0, 1)  # (B d, d)
    v = v * torch.where(v.sum(dim=1, keepdim=True) < 0.0, -1.0, 1.0)
    contexts = x.repeat_interleave(d, dim=0)
    u = weight_vectors(model, contexts, length * (contexts @ v.unsqueeze(-1)).squeeze(-1)) / length
    along = (u * v).sum(dim=-1)
    across = torch.linalg.vector_norm(u - along.unsqueeze(-1) * v, dim=-1)
    return Spectrum(eigenvalues, (1.0 - along).view(B, d), across.view(B, d))


def label_scaling(answer: Answer, prompts: LinearPrompts, factor: float = 1.4) -> Tensor:
    """Return answer(factor y) / factor - answer(y), (B,): zero for what is linear in the labels, as g(R) A^T y is."""
    if real("factor", factor) == 0.0:
        raise ValueError("factor = 0.0: must not be 0, or nothing is left of the labels")
    return answer(prompts._replace(y=factor * prompts.y)) / factor - answer(prompts)


def superposition(answer: Answer, prompts: LinearPrompts) -> Tensor:
    """Return sqrt(2) answer((y + y') / sqrt(2)) - answer(y) - answer(y'), (B,): zero for what is linear in the labels.

    y' are the labels that the weights of the prompt before give. (w + w') / sqrt(2) is drawn as w is, so that all three
    are prompts as training has them; ``prompts`` must have no noise.
    """
    other = prompts._replace(y=(prompts.x @ prompts.w.roll(1, 0).unsqueeze(-1)).squeeze(-1))
    both = prompts._replace(y=(prompts.y + other.y) / 2**0.5)
    return 2**0.5 * answer(both) - answer(prompts) - answer(other)


def largest_degree(layers: int) -> int:
    """Return (3^L - 1) / 2, the largest degree in the Gram matrix of T, hence in R of g and of the residual."""
    cube: int = 3 ** integer("layers", layers, minimum=0)
    return (cube - 1) // 2


def best_fixed_residual(eigenvalues: np.ndarray, degree: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the polynomial r of at most ``degree``, r(0) = 1, with the least sum of lambda r(lambda)^2.

    Along an eigenvector the mean squared error of a noiseless prompt is lambda r(lambda)^2, if the query has the
    covariance R. One r serves all ``eigenvalues``, (points,), which must be positive.
    """
    integer("degree", degree, minimum=1)
    points = np.asarray(eigenvalues, dtype=np.float64)
    real("least of the eigenvalues", float(points.min()), above=0.0)
    top = points.max()

    def basis(at: np.ndarray) -> np.ndarray:  # (points, degree), of polynomials that are 0 at 0
        unit = np.asarray(at, dtype=np.float64) / top
        product: np.ndarray = unit[:, None] * chebvander(2.0 * unit - 1.0, degree - 1)
        return product

    root = np.sqrt(points)
    coefficients = np.linalg.lstsq(root[:, None] * basis(points), root, rcond=None)[0]

    def residual(at: np.ndarray) -> np.ndarray:
        values: np.ndarray = 1.0 - basis(at) @ coefficients
        return values

    return residual


def query_slope(model: LinearAttention) -> Tensor:
    """Return rho, (d,): what embedding and read-out make of the query by themselves, whatever the context.

    Raises ValueError for a model with a LayerNorm before its read-out, whose answers follow no line.
    """
    _refuse_final_norm(model)
    return (model.read_out @ model.embed)[: model.d].detach()


def query_constant(model: LinearAttention) -> float:
    """Return c: what embedding and read-out make of the constant in the query's token; 0 where tokens have none.

    Without what the heads add, an answer is ``query_slope`` times the query, plus c.
    Raises ValueError for a model with a LayerNorm before its read-out.
    """
    _refuse_final_norm(model)
    read: float = (model.read_out @ model.embed).detach()[-1].item()
    return read / model.options.input_scale if model.options.constant else 0.0


def saturation_bound(model: LinearAttention) -> float:
    """Return C such that all layers together move an answer by at most C, whatever the prompt.

    What a head reads after LayerNorm has norm at most sqrt(width), and it averages over the keys.
    Raises ValueError for a model without LayerNorm, with one before its read-out (see ``answer_bound``), or whose
    attention is not divided by the number of keys.
    """
    options = model.options
    _refuse_final_norm(model)
    if options.layer_norm is None:
        raise ValueError("layer_norm = None: must be set, or nothing bounds what a head reads")
    if options.scaling != "keys":
        raise ValueError(f"scaling = {options.scaling!r}: must be 'keys', or the bound grows with their number")
    total = 0.0
    for qkv, out in zip(model.qkv.detach(), model.out.detach(), strict=True):
        read = (model.read_out.detach() @ out).view(options.heads, -1)  # (heads, width / heads)
        for r, q, k, v in zip(read, *(part.chunk(options.heads) for part in qkv), strict=True):
            total += float(torch.linalg.vector_norm(r @ v) * torch.linalg.matrix_norm(k.mT @ q, ord=2))
    bound: float = options.width**1.5 * total / options.input_scale
    return bound


def answer_bound(model: LinearAttention) -> float:
    """Return C such that no answer of ``model`` exceeds C in size, whatever the prompt and however large the query.

    What LayerNorm hands to the read-out has mean zero and a norm of at most sqrt(width): so C is the norm of the
    read-out less its mean, times sqrt(width) / input_scale.
    Raises ValueError for a model without LayerNorm before the read-out, whose answers have no bound.
    """
    options, read_out = model.options, model.read_out.detach()
    if options.final_norm is None:
        raise ValueError("final_norm = None: must be set, or nothing bounds the answers")
    bound: float = torch.linalg.vector_norm(read_out - read_out.mean()).item() * options.width**0.5
    return bound / options.input_scale


def _refuse_final_norm(model: LinearAttention) -> None:
    epsilon = model.options.final_norm
    if epsilon is not None:
        raise ValueError(f"final_norm = {epsilon:g}: must be None, or what the layers add is not added to an answer")
