"""The points of a sweep: the values of every parameter at each, all checked before one is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_origin

from tfnewton.rerun.chapters import Chapter
from tfnewton.rerun.grid import read_grid
from tfnewton.rerun.legality import RefusedError, parse, unreadable
from tfnewton.rerun.values import read, write

__all__ = ["Points", "read_points"]

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
    fields = chapter.parameters.model_fields
    lists = {name for name, of in fields.items() if get_origin(of.annotation) is list}
    found = read_grid(grid, {name: _reader(chapter, name) for name in fields}, lists, zipped)
    twice = [name for name, _ in given if name in found.axes]
    if twice:
        raise ValueError(f"{twice[0]}: is swept with -g and set with -p, so one of the two must go")
    base = chapter.read([], preset) | found.points[0]
    base |= parse(chapter.parameters, given, base, chapter.ask)
    points, faults = [], dict[str, None]()
    for point in found.points:
        try:
            points.append(chapter.settle(base | point))
        except RefusedError as error:
            faults |= dict.fromkeys(str(error).splitlines()[:-1])
    if faults:
        more = [f"and {len(faults) - _TOLD} more"] if len(faults) > _TOLD else []
        raise RefusedError("\n".join([*list(faults)[:_TOLD], *more, f"{chapter.ask} lists what may be set"]))
    return Points(found.axes, points, str(found))


def _reader(chapter: Chapter, name: str) -> Any:
    def value(text: str) -> Any:
        try:
            return read(text, chapter.parameters.model_fields[name].annotation)
        except ValueError:
            raise ValueError(unreadable(name, text, chapter.parameters)) from None

    return value


def words(axes: Mapping[str, Any]) -> str:
    """Return the swept values of a point in one line."""
    return ", ".join(f"{name} = {write(value)}" for name, value in axes.items())
