"""The points of a sweep: the values of every parameter at each, all checked before one is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_origin

from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.grid import read_grid
from tfnewton.rerun.legality import RefusedError, refused, typed, value_of
from tfnewton.rerun.values import write

__all__ = ["Points", "key", "read_points"]

_TOLD = 6  # faults


class Points(NamedTuple):
    """What is swept.

    Attributes:
        axes: the parameters that are swept, in the order given, with their values.
        points: typed values of all parameters, a set for each point.
        told: the number of points in words.
    """

    axes: dict[str, list[Any]]
    points: list[dict[str, Any]]
    told: str

    def at(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of ``values`` that are swept."""
        return {name: values[name] for name in self.axes}


def read_points(
    chapter: Chapter,
    grid: Sequence[str],
    zipped: bool = False,
    given: Sequence[tuple[str, str]] = (),
    preset: str | None = None,
) -> Points:
    """Return the points that texts such as ``kappa=10,100`` name, the other parameters being as ``given``.

    Args:
        chapter: what is swept.
        grid: texts of ``tfnewton.rerun.grid``, one a parameter.
        zipped: pair the values instead of combining them.
        given: names and texts of parameters that are the same at all points.
        preset: a named set, over which both go.

    Raises:
        ValueError: texts that cannot be read, or points that are not legal, all faults in one message.
    """
    record = chapter.parameters
    fields = record.model_fields
    texts, fixed, faults = typed(record, given)
    lists = {name for name, of in fields.items() if get_origin(of.annotation) is list}
    try:
        found = read_grid(grid, {name: partial(value_of, record, name) for name in fields}, lists, zipped)
    except ValueError as error:
        raise refused(
            [*faults, *str(error).splitlines(), *_fixed(chapter, given, preset)], chapter.ask, _TOLD
        ) from None
    both = [name for name in texts if name in found.axes]
    faults += [f"{name}: is swept with -g and set with -p, so one of the two must go" for name in both]
    if faults or preset not in (None, *chapter.entry.presets):
        raise refused([*faults, *_fixed(chapter, given, preset)], chapter.ask, _TOLD)
    base, points = chapter.read([], preset) | fixed, []
    for point in found.points:
        try:
            points.append(chapter.settle(base | point))
        except RefusedError as error:
            faults += str(error).splitlines()[:-1]
    if faults:
        raise refused(faults, chapter.ask, _TOLD)
    return Points(found.axes, points, str(found))


def _fixed(chapter: Chapter, given: Sequence[tuple[str, str]], preset: str | None) -> list[str]:
    """Return what is wrong with the parameters that are the same at all points, taken by themselves."""
    try:
        chapter.read(list(given), preset)
    except RefusedError as error:
        return str(error).splitlines()[:-1]
    return []


def key(values: Mapping[str, Any]) -> str:
    """Return what tells a point from others of its chapter."""
    return write(list(values.values()))
