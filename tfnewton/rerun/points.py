"""The points of a sweep: the values of every parameter at each, all checked before one is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_origin

from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.grid import read_grid
from tfnewton.rerun.legality import RefusedError, unreadable
from tfnewton.rerun.values import read, write

__all__ = ["Points", "read_points", "words"]

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
    fields, faults = chapter.parameters.model_fields, dict[str, None]()
    fixed: dict[str, Any] = {}
    for name, text in given:
        if name in fixed:
            faults[f"{name} = {text}: is given twice"] = None
        try:
            fixed[name] = _read(chapter, name, text) if name in fields else text
        except ValueError as error:
            faults[str(error)] = None
    lists = {name for name, of in fields.items() if get_origin(of.annotation) is list}
    try:
        found = read_grid(grid, {name: partial(_read, chapter, name) for name in fields}, lists, zipped)
    except ValueError as error:
        raise _refused(chapter, [*faults, *str(error).splitlines()]) from None
    faults |= {
        f"{name}: is swept with -g and set with -p, so one of the two must go": None
        for name in fixed
        if name in found.axes
    }
    base, points = chapter.read([], preset) | fixed, []
    for point in found.points:
        try:
            points.append(chapter.settle(base | point))
        except RefusedError as error:
            faults |= dict.fromkeys(str(error).splitlines()[:-1])
    if faults:
        raise _refused(chapter, list(faults))
    return Points(found.axes, points, str(found))


def _read(chapter: Chapter, name: str, text: str) -> Any:
    try:
        return read(text, chapter.parameters.model_fields[name].annotation)
    except ValueError:
        raise ValueError(unreadable(name, text, chapter.parameters)) from None


def _refused(chapter: Chapter, faults: Sequence[str]) -> RefusedError:
    more = [f"and {len(faults) - _TOLD} more"] if len(faults) > _TOLD else []
    return RefusedError("\n".join([*faults[:_TOLD], *more, f"{chapter.ask} lists what may be set"]))


def words(axes: Mapping[str, Any]) -> str:
    """Return the swept values of a point in one line."""
    return ", ".join(f"{name} = {write(value)}" for name, value in axes.items())
