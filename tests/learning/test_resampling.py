"""The bootstrap of a ratio of losses, held to intervals that are known otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tfnewton.learning.resampling import bootstrap_of_ratio


def test_interval_is_that_of_the_normal_law() -> None:
    # The mean of 4000 normal errors is normal; without the outer tenth its deviation is that of a Winsorised sample.
    errors = torch.tensor(10.0 + np.random.default_rng(0).standard_normal(4000))
    inner = np.sort(errors.numpy())[200:3800]
    winsorised = np.concatenate([np.full(200, inner[0]), inner, np.full(200, inner[-1])])
    half = 1.96 * winsorised.std() / (0.9 * math.sqrt(4000))
    low, high = bootstrap_of_ratio(errors, torch.full((4000,), 2.0))
    assert (low + high) / 2 == pytest.approx(inner.mean() / 2, abs=0.2 * half)
    assert high - low == pytest.approx(half, rel=0.15)


def test_prompts_are_drawn_together() -> None:
    base = torch.tensor(np.random.default_rng(0).uniform(1.0, 50.0, 100))
    assert bootstrap_of_ratio(3.0 * base, base) == pytest.approx((3.0, 3.0))


def test_a_few_that_run_away_are_cut_and_many_are_not() -> None:
    errors = torch.ones(200)
    errors[:4] = math.inf
    assert bootstrap_of_ratio(errors, torch.ones(200))[1] == pytest.approx(1.0)
    errors[:100] = math.inf
    assert bootstrap_of_ratio(errors, torch.ones(200))[0] > 1e90


def test_seed_decides() -> None:
    errors, base = torch.rand(50, generator=torch.Generator().manual_seed(0)), torch.ones(50)
    assert bootstrap_of_ratio(errors, base, 1) == bootstrap_of_ratio(errors, base, 1)
    assert bootstrap_of_ratio(errors, base, 1) != bootstrap_of_ratio(errors, base, 2)


@pytest.mark.parametrize(("count", "other"), [(19, 19), (30, 31)])
def test_too_few_prompts_and_others_are_refused(count: int, other: int) -> None:
    with pytest.raises(ValueError, match=r"number of errors|base"):
        bootstrap_of_ratio(torch.ones(count), torch.ones(other))
