"""What the figures on self-concordance show, read back from their artists, and that they can be read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.helpers.drawn import placed
from tests.helpers.legible import faults
from tfnewton.figures import self_concordance as figures
from tfnewton.theory import self_concordance as sc

ONE = np.ones((1, 1))


def needs(mu: float) -> Figure:
    peaks = {f"mu {m:g}": (sc.extremal_margin(m), sc.sharp_constant(m)) for m in (mu / 10, mu, 10 * mu)}
    margins = np.linspace(0.0, 12.0, 301)
    curves = {
        f"mu {m:g}": sc.local_constant(margins[:, None], np.ones(1), ONE, np.ones(1), m) for m in (mu / 10, mu, 10 * mu)
    }
    return figures.local_constants(margins, curves, np.sinh(margins / 2), peaks)


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.1, 1.0, 10.0])
def test_needs_can_be_read_at_every_penalty(mu: float) -> None:
    figure = needs(mu)
    assert faults(figure) == []
    (ax,) = figure.axes
    unpenalised, *pairs = ax.lines
    x, y = (np.asarray(values, dtype=float) for values in unpenalised.get_data())
    np.testing.assert_allclose(y, np.sinh(x / 2))
    for (curve, dot), m in zip(zip(pairs[::2], pairs[1::2], strict=True), (mu / 10, mu, 10 * mu), strict=True):
        peak = (sc.extremal_margin(m), sc.sharp_constant(m))
        assert (dot.get_xdata()[0], dot.get_ydata()[0]) == pytest.approx(peak)  # type: ignore[index]
        assert np.asarray(curve.get_ydata()).max() == pytest.approx(peak[1], rel=1e-2)
        assert placed(ax)[f"mu {m:g}"] == pytest.approx(peak)
        assert ax.get_ylim()[0] < peak[1] / 10


def test_constants_are_drawn_under_their_names() -> None:
    mus = [0.001, 0.1, 10.0]
    measured = {"random": [0.6, 0.2, 0.1], "climbed": [0.99, 0.98, 0.97]}
    figure = figures.constants(mus, measured, {"standard": [2.6, 3.0, 100.0], "printed": [5.2, 6.0, 200.0]})
    assert faults(figure) == []
    (ax,) = figure.axes
    series = {tuple(np.asarray(line.get_ydata())): line for line in ax.lines}
    assert series[(5.2, 6.0, 200.0)].get_color() == "#C00000"
    assert series[(2.6, 3.0, 100.0)].get_linestyle() == "-."
    assert series[(0.6, 0.2, 0.1)].get_marker() == "v"
    assert series[(0.99, 0.98, 0.97)].get_marker() == "o"
    assert placed(ax) == {
        "sharp, proved": (0.001, 1.0),
        "printed $1/\\sqrt{\\mu}$": (0.001, 5.2),
        "$1/2\\sqrt{\\mu}$": (0.001, 2.6),
        "random directions": (10.0, 0.1),
        "climbing": (10.0, 0.97),
    }


def picture(mu: float, power: int) -> dict[str, np.ndarray]:
    reach = np.linspace(0.005, 0.98, 80)
    ratio = sc.standard_constant(mu) / sc.sharp_constant(mu)

    def sides(t: np.ndarray) -> np.ndarray:
        room = np.clip(1 - t, 0, None) ** power
        return np.array([room, 1 / np.where(room > 0, room, np.nan)])

    example = 1 + min(1.0, 0.25 / mu) * 0.1 * reach
    return {
        "sharp": sides(reach),
        "standard": sides(ratio * reach),
        "data": np.array([1 - 0.01 * reach, 1 + 0.01 * reach]),
        "example": np.array([1 / example, example]),
    }


@pytest.mark.parametrize("mu", [1e-4, 0.01, 1.0, 10.0])
def test_bounds_can_be_read_and_only_lines_in_sight_are_named(mu: float) -> None:
    reach = np.linspace(0.005, 0.98, 80)
    rise, hessian = picture(mu, 1), picture(mu, 2)
    figure = figures.bounds(reach, rise, hessian)
    assert faults(figure) == []
    for ax, of in zip(figure.axes, (rise, hessian), strict=True):
        drawn = [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines]
        np.testing.assert_array_equal(drawn[-2:], of["sharp"])
        low, high = ax.get_ylim()
        assert low < 1 < of["sharp"][1, 40] < high
        name = r"$M = 1/2\sqrt{\mu}$"
        if name in placed(ax):
            x, y = placed(ax)[name]
            assert np.min(np.abs(np.asarray(of["standard"])[:, np.argmin(np.abs(reach - x))] - y)) < 1e-12
            assert low < y < high


@pytest.mark.parametrize("start", [(-2.0, -2.0), (2.0, 2.0), (2.0, -2.0), (0.0, 0.0)])
def test_ellipsoids_carry_the_name_of_their_radius_away_from_the_path(start: tuple[float, float]) -> None:
    angles = np.linspace(0, 2 * np.pi, 61)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    path = np.linspace(1.0, 0.0, 3)[:, None] * np.array(start)
    first, second = np.meshgrid(np.linspace(-6, 6, 20), np.linspace(-6, 6, 20))
    boundaries = {"sharp": list(path[:, None] + 1.5 * circle), "standard": list(path[:, None] + 0.5 * circle)}
    figure = figures.dikin((first, second, first**2 + second**2), path, boundaries, np.zeros(2))
    (ax,) = figure.axes
    (where,) = placed(ax).values()
    assert where == pytest.approx((start[0], start[1] + (-1.5 if start[1] < 0 else 1.5)), abs=0.01)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    np.testing.assert_allclose([np.ptp(np.asarray(line.get_xdata())) for line in solid[:3]], 3.0)
    assert faults(figure) == []
