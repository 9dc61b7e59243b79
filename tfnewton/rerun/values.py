"""Values as a person writes them: text read and written by the type of a parameter, and what it takes in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

__all__ = ["allowed", "read", "write"]

_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_LONGEST = 400  # digits of an integer: beyond every range, and still quick to write out
_BOUNDS = ("ge", "gt", "le", "lt", "min_length", "max_length")


def read(text: str, kind: Any) -> Any:
    """Return ``text`` as a value of the annotation ``kind``: ``1e3``, ``1_000``, ``yes``, ``none``, ``[2,3]``, ``2,3``.

    An integer may be written with a point (``12.0``), and text for a ``str`` is taken as it stands.

    Raises:
        ValueError: the text is no value of that kind; ranges are not looked at.
        TypeError: values of that kind cannot be read.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if hasattr(kind, "__metadata__"):
        return read(text, arguments[0])
    if origin in (Union, UnionType):
        return _first(text, arguments)
    if origin is list:
        return [read(entry, arguments[0]) for entry in _entries(text, arguments[0])]
    if origin is Literal:
        return _one_of(text, arguments)
    readers: dict[Any, Callable[[str], Any]] = {bool: _boolean, int: _integer, float: _real, str: str, NoneType: _none}
    if kind not in readers:
        raise TypeError(f"{kind}: values of this kind cannot be read from text")
    return readers[kind](text)


def write(value: Any) -> str:
    """Return the shortest text that ``read`` takes for ``value``."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        exact = repr(value).removesuffix(".0")
        short = re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}")
        return short if math.isfinite(value) and float(short) == value and len(short) <= len(exact) else exact
    if isinstance(value, (list, tuple)):
        if any(isinstance(entry, str) for entry in value):
            return json.dumps(list(value), ensure_ascii=False)
        return f"[{','.join(map(write, value))}]"
    return str(value)


def allowed(field: FieldInfo) -> str:
    """Return in words what a field takes: ``an integer from 1 to 64``, ``True or False``."""
    return _words(field.annotation, field.metadata)


def _first(text: str, kinds: Sequence[Any]) -> Any:
    """Read by the first kind that takes the text; ``str`` takes any, so it comes last."""
    for kind in sorted(kinds, key=lambda kind: kind is str):
        try:
            return read(text, kind)
        except ValueError:
            continue
    raise ValueError(text)


def _entries(text: str, kind: Any) -> list[str]:
    inside = text.strip()
    if kind is str and inside.startswith("["):
        entries = json.loads(inside)
        if not all(isinstance(entry, str) for entry in entries):
            raise ValueError(text)
        return list(entries)
    for opening, closing in ("[]", "()"):
        if inside.startswith(opening) and inside.endswith(closing):
            inside = inside[1:-1].strip()
            break
    entries = [entry.strip() for entry in inside.split(",")]
    return entries[:-1] if entries[-1] == "" else entries  # of nothing, and after a comma at the end


def _one_of(text: str, options: Sequence[Any]) -> Any:
    for option in options:
        if text == option or (not isinstance(option, str) and _is(text, option)):
            return option
    raise ValueError(text)


def _is(text: str, option: Any) -> bool:
    try:
        return bool(read(text, type(option)) == option)
    except ValueError:
        return False


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _WORDS:
        raise ValueError(text)
    return _WORDS[word]


def _none(text: str) -> None:
    if text.strip().lower() not in ("none", "null"):
        raise ValueError(text)


def _integer(text: str) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(text)
    number = Decimal(text.strip())
    if number.adjusted() > _LONGEST or number != number.to_integral_value():
        raise ValueError(text)
    return int(number)


def _real(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(text)
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number + 0.0  # -0 is 0


def _words(kind: Any, metadata: Sequence[Any], many: bool = False) -> str:
    if hasattr(kind, "__metadata__"):
        kind, metadata = get_args(kind)[0], kind.__metadata__
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_words(one, metadata) for one in sorted(arguments, key=lambda one: one is NoneType))
    if origin is Literal:
        *others, last = map(write, arguments)
        return f"one of {', '.join(others)}, {last}" if len(others) > 1 else " or ".join([*others, last])
    bounds = _bounds(metadata)
    if origin is list:
        least, most = bounds.get("min_length", 0), bounds.get("max_length")
        count = f"{least} to {most}" if most is not None else f"at least {least}"
        return f"a list of {count} {_words(arguments[0], (), many=True)}"
    names = {int: "an integer", float: "a number", bool: "True or False", str: "text", NoneType: "none"}
    name = {"an integer": "integers", "a number": "numbers"}.get(names[kind], names[kind]) if many else names[kind]
    return f"{name}{_range(bounds, whole=kind is int)}"


def _bounds(metadata: Sequence[Any]) -> dict[str, Any]:
    """Return the bounds that annotations hold, those of a ``Field`` inside a list included."""
    flat = [one for of in metadata for one in (of.metadata if isinstance(of, FieldInfo) else [of])]
    return {bound: getattr(of, bound) for of in flat for bound in _BOUNDS if getattr(of, bound, None) is not None}


def _range(bounds: dict[str, Any], whole: bool) -> str:
    if whole and "lt" in bounds:
        bounds = {**bounds, "le": bounds["lt"] - 1}
        del bounds["lt"]
    if "ge" in bounds and "le" in bounds:
        return f" from {write(bounds['ge'])} to {write(bounds['le'])}"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    ends = [f"{word} {write(bounds[bound])}" for bound, word in words.items() if bound in bounds]
    return f" {' and '.join(ends)}" if ends else ""
