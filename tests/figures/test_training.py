"""Where the figures of losses by depth write the name of a curve that leaves them."""

from __future__ import annotations

import pytest

from tests.helpers.drawn import placed
from tfnewton.figures.training import losses_by_depth

FLOOR = 1e-6


@pytest.mark.parametrize(
    ("curve", "at"),
    [
        ({1: 1.0, 2: 0.1, 3: 0.01}, (3.0, 0.01)),
        # on a logarithmic axis from 1e-4 to 1e-8 the floor is half-way, and from 1e-5 to 1e-9 at a quarter
        ({1: 1.0, 2: 1e-4, 3: 1e-8, 4: 1e-20}, (2.5, FLOOR)),
        ({4: 1e-9, 2: 1e-5, 1: 1.0}, (2.5, FLOOR)),
        ({1: 1.0, 2: 1e-5, 3: 1e-9}, (2.25, FLOOR)),
    ],
)
def test_a_curve_is_named_where_it_ends_or_leaves(curve: dict[int, float], at: tuple[float, float]) -> None:
    (ax,) = losses_by_depth({"query in": {1: [0.5, 0.6]}}, {"Newton": {"order two": curve}}).axes
    assert placed(ax)["order two"] == pytest.approx(at)
    assert ax.get_ylim()[0] == pytest.approx(FLOOR)
