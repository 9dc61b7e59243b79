"""The points of a sweep, from texts such as ``kappa=10,100,1000``, ``seed=0:9`` and ``orders=[2];[2,3]``.

``a,b`` are two values; ``a:b:step`` is a range with both ends, of step 1 where none is given; the two mix, as in
``d=2,4:16:4``. Between semicolons a text is one value, whatever is in it; so is the whole text of a list parameter.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from itertools import product
from typing import Any, NamedTuple, TypeAlias

__all__ = ["MOST_POINTS", "Grid", "read_grid"]

Parse: TypeAlias = Callable[[str], Any]

MOST_POINTS = 100_000
_TOLD = 3  # faults of one parameter

_NUMBER = r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]{1,3})?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*:\s*({_NUMBER})\s*(?::\s*({_NUMBER})\s*)?")
_EXACT = Context(prec=2000)  # more digits than numbers of _NUMBER and their sums have


class Grid(NamedTuple):
    """The points of a sweep, and how many were dropped because they had been there before."""

    points: list[dict[str, Any]]
    axes: dict[str, list[Any]]
    dropped: int = 0

    def __str__(self) -> str:
        count = len(self.points)
        sizes = {name: len(values) for name, values in self.axes.items()}
        factors = " x ".join(f"{size} {name}" for name, size in sizes.items())
        words = f"{count} point{'s' if count != 1 else ''}"
        words += f": {factors}" if 1 < math.prod(sizes.values()) == count and len(sizes) > 1 else ""
        return f"{words} ({self.dropped} named twice)" if self.dropped else words


def read_grid(
    texts: Sequence[str], parse: Mapping[str, Parse], lists: Collection[str] = (), zipped: bool = False
) -> Grid:
    """Return the points that ``texts`` such as ``kappa=10,100`` name: every combination, or a pairing if ``zipped``.

    Args:
        parse: for each parameter, what makes a value of a text, or raises ValueError or TypeError.
        lists: the parameters whose values are lists.
        zipped: pair the first values of all, the second ones, and so on; they must be equally many.

    Raises ValueError with a line for each fault of ``texts``.
    """
    axes: dict[str, list[Any]] = {}
    faults: list[str] = []
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name:
            faults.append(f"-g {text!r}: must be NAME=VALUES, such as kappa=10,100 or seed=0:9")
        elif name not in parse:
            near = difflib.get_close_matches(name, parse, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(parse)}"
            faults.append(f"{name} = {values}: there is no such parameter; {meant}")
        elif name in axes:
            faults.append(f"{name}: given twice, so give its values in one -g")
        else:
            axes[name] = _values(name, values, parse[name], name in lists, faults)
    if not texts:
        faults.append("nothing to sweep: give values, such as -g kappa=10,100")
    if faults:
        raise ValueError("\n".join(faults))
    return _paired(axes) if zipped else _combined(axes)


def _combined(axes: dict[str, list[Any]]) -> Grid:
    given = math.prod(map(len, axes.values()))
    axes = {name: _distinct(values) for name, values in axes.items()}
    count = math.prod(map(len, axes.values()))
    if count > MOST_POINTS:
        raise ValueError(f"{count} points: must be at most {MOST_POINTS}")
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return Grid(points, axes, given - count)


def _paired(axes: dict[str, list[Any]]) -> Grid:
    if len(set(map(len, axes.values()))) > 1:
        listed = ", ".join(f"{name} has {len(values)}" for name, values in axes.items())
        raise ValueError(f"--zip pairs the values one by one, so all must have equally many: {listed}")
    points = [dict(zip(axes, values, strict=True)) for values in zip(*axes.values(), strict=True)]
    distinct = _distinct(points)
    return Grid(distinct, {name: _distinct(values) for name, values in axes.items()}, len(points) - len(distinct))


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return the values without those that came before; 1 and True, or 1 and 1.0, are different."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(repr(value), value)
    return list(found.values())


def _values(name: str, text: str, parse: Parse, is_list: bool, faults: list[str]) -> list[Any]:
    """Return the values that ``text`` names; what is wrong is added to ``faults``."""
    if ";" in text or is_list:
        parts = text.split(";")
    else:
        parts = [value for part in text.split(",") for value in _expanded(name, part, faults)]
    values, wrong = [], []
    for part in parts:
        try:
            if not part.strip():
                raise ValueError(f"{name}={text}: a value is missing")
            values.append(parse(part.strip()))
        except (ValueError, TypeError) as error:
            wrong.append(str(error))
    faults += wrong[:_TOLD]
    if len(wrong) > _TOLD:
        faults.append(f"{name}: {len(wrong) - _TOLD} more values are refused")
    return values


def _expanded(name: str, part: str, faults: list[str]) -> list[str]:
    """Return the numbers of a range as texts, exact in decimals, or ``part`` itself where it is none."""
    found = _RANGE.fullmatch(part)
    if found is None:
        return [part]
    try:
        first, last, step = (Decimal(text or "1") for text in found.groups())
    except InvalidOperation:
        return [part]
    span = _EXACT.subtract(last, first)
    if step == 0 or span * step < 0:
        faults.append(f"{name}={part}: a step of {step} does not lead from {first} to {last}")
        return []
    steps, rest = (
        _EXACT.divmod(span, step) if abs(span) < abs(step) * MOST_POINTS else (Decimal(MOST_POINTS), Decimal(0))
    )
    if steps >= MOST_POINTS:
        faults.append(f"{name}={part}: must be at most {MOST_POINTS} values")
        return []
    if rest != 0:
        before = _EXACT.subtract(last, rest)
        after = _EXACT.add(before, step)
        faults.append(
            f"{name}={part}: steps of {step} miss the end {last}, and meet {_plain(before)} and {_plain(after)}"
        )
        return []
    return [_plain(_EXACT.add(first, _EXACT.multiply(step, Decimal(k)))) for k in range(int(steps) + 1)]


def _plain(number: Decimal) -> str:
    """Return a number as text, an integer without a point."""
    whole = number.to_integral_value()
    return format(whole if whole == number else _EXACT.normalize(number), "f")
