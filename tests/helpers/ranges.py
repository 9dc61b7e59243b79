"""Ranges of parameters, written down beside the classes that hold them, and their ends tried one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ValidationError


class Open(float):
    """An end of a range that is not part of it."""


class Range(NamedTuple):
    """The ends of a range, without the upper one if it has none, and what else must be for them to be the only bound.

    ``optional``: None is legal too.
    """

    low: Any
    high: Any = None
    beside: Mapping[str, Any] = MappingProxyType({})
    optional: bool = False


def check_ends(record: type[BaseModel], usual: dict[str, Any], name: str, range_: Any) -> None:
    """Check which values of the parameter ``name`` a class takes, beside ``usual`` ones of the others.

    ``range_`` is a Range, a set of the legal values, or of a list a Range of its entries, its least and largest length.
    """
    beside = range_.beside if isinstance(range_, Range) else {}
    for value, legal in _tried(range_):
        given = {**usual, **beside, name: value}
        if legal:
            assert getattr(record(**given), name) == value
        else:
            with pytest.raises(ValidationError, match=rf"(?m)^{name}\b"):
                pytest.fail(f"{record(**given)} is let through")


def _ends(of: Range) -> tuple[list[Any], list[Any]]:
    """The first and last legal value, and their first illegal neighbours."""
    legal: list[Any] = []
    illegal: list[Any] = []
    for end, outwards in ((of.low, -math.inf), (of.high, math.inf)):
        if end is None:
            legal.append(10**6 if isinstance(of.low, int) else 1e300)
        elif isinstance(end, int):
            legal.append(end)
            illegal.append(end + (1 if outwards > 0.0 else -1))
        elif isinstance(end, Open):
            legal.append(math.nextafter(end, -outwards))
            illegal.append(float(end))
        else:
            legal.append(end)
            illegal.append(math.nextafter(end, outwards))
    return legal, illegal


def _foreign(example: Any) -> list[Any]:
    """Values of other types than ``example``."""
    others: list[Any] = [None, "1", [[]], {}]
    if isinstance(example, bool):
        return [*others, 0, 1, "yes"]
    if isinstance(example, int):
        return [*others, True, 1.0, float(example)]
    if isinstance(example, float):
        return [*others, True, math.nan, math.inf]
    return [None, 1, True]


def _tried(range_: Any) -> list[tuple[Any, bool]]:
    if isinstance(range_, Range):
        legal, illegal = _ends(range_)
        illegal += [value for value in _foreign(range_.low) if not (value is None and range_.optional)]
        legal += [None] * range_.optional
    elif isinstance(range_, tuple):
        entries, shortest, longest = range_
        (entry, last), wrong = _ends(entries)
        legal = [[entry], [last], [entry] * shortest, [entry] * longest]
        illegal = [[entry, value] for value in [*wrong, *_foreign(entries.low)]]
        illegal += [[entry] * (shortest - 1), [entry] * (longest + 1), entry, str([entry]), None, {entry}]
    else:
        legal, illegal = list(range_), [*_foreign(next(iter(range_))), "another", ""]
    return [(value, True) for value in legal] + [(value, False) for value in illegal]
