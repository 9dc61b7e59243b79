"""Measuring on a machine that is never quiet: alternate, repeat, and compare within one run only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

__all__ = ["Times", "alternate", "peak_memory"]


class Times(NamedTuple):
    """Seconds of one call: the median and the smallest of so many repetitions."""

    median: float
    minimum: float
    repetitions: int


def alternate(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, Times]:
    """Time the calls in turn, each after one untimed call of itself, for about ``seconds`` altogether."""
    start = time.perf_counter()
    for call in calls.values():
        call()
    once = time.perf_counter() - start
    repetitions = int(min(max(seconds / (2 * once), 5), 300))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            call()  # what ran before leaves caches and threads of another library behind
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    return {name: Times(median(values), min(values), repetitions) for name, values in samples.items()}


def peak_memory(script: str) -> float:
    """Return the largest resident size, in MB, of a fresh Python process that runs ``script`` (Linux only)."""
    # not getrusage: its maximum survives exec, so that a child starts with the size of its parent
    report = "\nprint(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    done = subprocess.run([sys.executable, "-c", script + report], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024 / 1e6
