"""What models with the query out compute, run by run: residuals, what they depend on, and whose errors they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from tfnewton.campaign.recipes import Run
from tfnewton.campaign.tables import Row, load_model
from tfnewton.learning import evaluation as ev
from tfnewton.learning import probes
from tfnewton.learning import residuals as rs
from tfnewton.learning.models import LinearAttention
from tfnewton.learning.tasks import LinearPrompts, LinearRegression

__all__ = ["DEGREES", "EXPONENTS", "Sample", "measure", "mechanism"]

EXPONENTS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 27, 32, 48, 64, 81, 128, 243, 256, 729)  # of 1 - lambda / lambda_max
DEGREES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 28, 40, 60, 80, 121)  # of fixed polynomials


class Sample:
    """Prompts, all with lambda_max below ``residuals.REACH``, in float64, and their parts along eigenvectors.

    Polynomials are fitted to the eigenvalues ``fitted_to``, (points,), by default those of the prompts themselves.
    """

    def __init__(self, prompts: LinearPrompts, fitted_to: np.ndarray | None = None) -> None:
        chosen = rs.within(prompts)
        self.prompts = LinearPrompts(*(field[chosen].double() for field in prompts))
        self.parts = rs.parts(self.prompts)
        self._fitted_to = self.parts.eigenvalues.ravel() if fitted_to is None else fitted_to
        self._residuals: dict[int, np.ndarray] = {}

    def fixed(self, degree: int) -> np.ndarray:
        """Return what the best fixed polynomial of ``degree`` leaves along each eigenvector, (B, d)."""
        if degree not in self._residuals:
            values = self.parts.eigenvalues
            self._residuals[degree] = rs.best_fixed(degree, self._fitted_to)(values)
        return self._residuals[degree]


def measure(model: LinearAttention, on: Sample) -> Row:
    """Return what the table says of one model: columns ending in "_unit" are for weights of length one, not sqrt(d)."""
    values, L = on.parts.eigenvalues, model.options.layers
    row: Row = {"prompts": len(values)}
    for suffix, length in (("", values.shape[1] ** 0.5), ("_unit", 1.0)):
        row |= {f"{name}{suffix}": value for name, value in _residuals(model, on, length).items()}
    row["best_fixed"] = rs.rms(values, on.fixed(probes.largest_degree(L)))
    row |= {f"newton_{p}": rs.rms(values, rs.power(values, p**L)) for p in (2, 3)}
    return row | _labels(model, on) | _errors(model, on)


def _residuals(model: LinearAttention, on: Sample, length: float) -> Row:
    values, found = on.parts.eigenvalues, probes.spectrum(model, on.prompts.x, length)
    r, leakage = found.residuals.numpy(), found.leakage.numpy()
    wrong = _wrong(model, on)
    return {
        "rms": rs.rms(values, r),
        "unexplained": rs.unexplained(values, values, r),
        "unexplained_ratio": rs.unexplained(values / values[:, -1:], values, r),
        "two_sign_changes": float((rs.sign_changes(r, leakage) >= 2).mean()),
        "leakage": float(np.median(leakage)),
        "beside_sum": _size(wrong - rs.error(on.parts, r)) / _size(wrong),
    }


def _labels(model: LinearAttention, on: Sample) -> Row:
    """How much of the error comes and goes with the size of the labels, by 1.4, and with their sign."""

    def moved_by(factor: float) -> np.ndarray:
        return probes.label_scaling(lambda p: ev.predict(model, p), on.prompts, factor).numpy()

    wrong, moved = _wrong(model, on), moved_by(1.4)
    return {
        "nonlinear": _size(moved) / _size(wrong),
        "nonlinear_median": float(np.median(abs(moved)) / np.median(abs(wrong))),
        "uneven": _size(moved_by(-1.0)) / _size(wrong),
    }


def _errors(model: LinearAttention, on: Sample) -> Row:
    """Whose errors the model makes: the most similar of powers and of fixed polynomials, and how similar."""
    wrong, values = _wrong(model, on), on.parts.eigenvalues
    powers = {m: rs.similarity(wrong, rs.error(on.parts, rs.power(values, m))) for m in EXPONENTS}
    polynomials = {m: rs.similarity(wrong, rs.error(on.parts, on.fixed(m))) for m in DEGREES}
    by_power, by_fixed = max(powers, key=powers.__getitem__), max(polynomials, key=polynomials.__getitem__)
    return {
        "like_power": powers[by_power],
        "like_exponent": by_power,
        "like_fixed": polynomials[by_fixed],
        "like_degree": by_fixed,
    }


def _wrong(model: LinearAttention, on: Sample) -> np.ndarray:
    errors: np.ndarray = (ev.predict(model, on.prompts) - on.prompts.target).numpy()
    return errors


def _size(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def mechanism(runs: Iterable[Run], root: Path, prompts: int) -> Iterator[Row]:
    """Yield a row a run, of models without LayerNorm and with the query out: all ``runs`` must be such and complete."""
    drawn = ev.fresh_prompts(LinearRegression(), prompts, torch.float64)
    assert isinstance(drawn, LinearPrompts)
    on = Sample(drawn)
    for run in runs:
        model, config = load_model(root / run.name, run.config)
        assert isinstance(model, LinearAttention)
        row: Row = {"method": "LSA", "variant": "query out", "depth": config.model.layers, "seed": config.seed}
        yield row | measure(model.double(), on) | {"run": run.name}
