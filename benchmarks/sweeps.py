"""Two workers against one on points that keep a core busy.

    python -m benchmarks.sweeps [ROUNDS]

One worker is this process, as for ``--workers 1``; two are processes that stay up. They take turns in one run, so that
a busy machine is busy for both. A point inverts a matrix by Newton steps for about half a second, far less than a
chapter takes; the table has the medians of the rounds and their ratio.
"""

from __future__ import annotations

import statistics
import sys
import time

from tfnewton.cluster.pool import Pool, connect

POINTS, SIZE, STEPS, REPEATS = 12, 160, 60, 16


def point(seed: int) -> float:
    """Invert a random matrix, and return how far the product is from the identity."""
    import numpy as np

    B = np.random.default_rng(seed).standard_normal((SIZE, SIZE)) / SIZE**0.5
    A = B @ B.T + np.eye(SIZE)
    for _ in range(REPEATS):
        X = A / np.linalg.norm(A) ** 2
        for _ in range(STEPS):
            X = 2 * X - X @ (A @ X)
    return float(np.linalg.norm(X @ A - np.eye(SIZE)))


def seconds(pool: Pool) -> float:
    start = time.perf_counter()
    outcomes = dict(pool.map(point, {seed: (seed,) for seed in range(POINTS)}))
    took = time.perf_counter() - start
    assert max(outcomes.values()) < 1e-9
    return took


def main(rounds: int = 7) -> None:
    """Print the table."""
    with connect() as one, connect(workers=2) as two:
        pools = {"one worker": one, "two workers": two}
        for pool in pools.values():
            seconds(pool)
        times: dict[str, list[float]] = {name: [] for name in pools}
        for _ in range(rounds):
            for name, pool in pools.items():
                times[name].append(seconds(pool))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{POINTS} points, one thread each, medians of {rounds} rounds")
    for name, value in medians.items():
        print(f"{name:14}{value:8.2f} s")
    print(f"two workers are {medians['one worker'] / medians['two workers']:.2f} times as fast as one")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
