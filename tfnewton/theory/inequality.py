"""The two sides of a stated inequality, evaluated on data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tfnewton.checks import Array, like

__all__ = ["Inequality", "compare"]


@dataclass(frozen=True)
class Inequality:
    """The claim left <= right, element by element; an infinite right side claims nothing."""

    left: Array
    right: Array

    @property
    def slack(self) -> np.ndarray:
        """Return right - left: negative where the claim fails."""
        return np.asarray(np.asarray(self.right) - np.asarray(self.left))

    def holds(self, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Tell whether left <= right everywhere, up to rounding; NaN on either side counts as a failure."""
        left, right = np.asarray(self.left), np.asarray(self.right)
        rounding = np.where(np.isfinite(left), atol + rtol * np.abs(left), 0.0)
        return bool(np.all(left - rounding <= right))


def compare(left: torch.Tensor, right: torch.Tensor, *inputs: object) -> Inequality:
    """Return left <= right with both sides of the type of the inputs (numpy unless one is a tensor)."""
    return Inequality(like(left, *inputs), like(right, *inputs))
