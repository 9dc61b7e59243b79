"""In which order modules are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Two workers take whole modules. Those that take minutes come first, so that both end at about the same time.
FIRST = (
    "tests/notebooks",
    "tests/book",
    "notebooks",
    "tests/coursework",
    "tests/rerun",
    "tests/cluster",
    "tests/campaign",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the modules of ``FIRST`` to the front; all else stays as it was."""
    places = [ROOT / folder for folder in FIRST]

    def rank(item: pytest.Item) -> int:
        return next((at for at, place in enumerate(places) if item.path.is_relative_to(place)), len(places))

    items.sort(key=rank)
