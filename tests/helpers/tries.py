"""How much of what can be varied a test tries, and when."""

from __future__ import annotations

import os
from typing import Any

import pytest

FACTOR = int(os.environ.get("TIMES_AS_MANY_CASES", "1"))


def tries(count: int) -> int:
    """Random cases of a property test: as many as it names, and ten times as many in ``make test-long``."""
    return count * FACTOR


def later(*values: Any) -> list[Any]:
    """Values that the quick tests leave to ``make test``: their kind is tried there already."""
    return [pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.slow) for v in values]
