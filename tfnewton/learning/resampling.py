"""How much a loss over few prompts would change with other prompts: the bootstrap."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from tfnewton.checks import integer, tensor
from tfnewton.learning.evaluation import TRIMMED

__all__ = ["bootstrap_of_ratio"]

_RESAMPLES = 400
_LARGEST = 1e100  # whose square is a number still


def bootstrap_of_ratio(errors: Tensor, base: Tensor, seed: int = 0) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of a ratio of trimmed means, over prompts drawn again with return.

    The ratio is the one of ``Statistics.trimmed_mean`` of ``errors`` over that of ``base``; both have shape (B,), for
    the same B prompts, at least 20, which are drawn together. Infinite errors are allowed.

    Raises TypeError or ValueError naming the argument. Source: Efron and Tibshirani, An Introduction to the Bootstrap,
    chapter 13 (the percentile interval).
    """
    from scipy import stats  # at the use: the package imports without scipy

    count = integer("number of errors", len(errors), minimum=20)
    tensor("base", base, (count,))

    def ratio(over: np.ndarray, under: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(stats.trim_mean(over, TRIMMED, axis) / stats.trim_mean(under, TRIMMED, axis))

    samples = (errors.double().clamp(max=_LARGEST).numpy(), base.double().numpy())
    found = stats.bootstrap(
        samples, ratio, n_resamples=_RESAMPLES, paired=True, method="percentile", rng=np.random.default_rng(seed)
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
