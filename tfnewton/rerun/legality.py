"""What a chapter takes and what it refuses: all faults of a call in one message, before anything is computed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tfnewton.rerun.values import allowed, read, write

__all__ = ["Parameters", "RefusedError", "parse", "refused", "settle", "typed", "value_of"]

_INJECTED = "# Parameters\n"  # the first line of the cell that papermill puts after the parameters

Record = TypeVar("Record", bound=BaseModel)


class RefusedError(ValueError):
    """Parameters that are not legal; the message has a line for each fault, and the command that lists what is."""


class Parameters(BaseModel):
    """Base of all chapters: no conversion of types, no NaN, no unknown names; a chapter's file has its class's name."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def check(cls, names: Mapping[str, Any]) -> Self:
        """Return the parameters of a notebook, given its ``globals()``.

        Raises:
            ValueError: values that are not legal, and names that papermill has been given and the chapter has not,
                all in one message.
        """
        given = {name: names[name] for name in cls.model_fields if name in names}
        return settle(cls, given | _injected(names), f"tfnewton params {cls.chapter()}")

    @classmethod
    def chapter(cls) -> str:
        """Return the name of the chapter's file, without its number."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def faults(self) -> Iterator[str]:
        """Yield what is wrong between parameters each of which is legal by itself."""
        yield from ()

    @model_validator(mode="after")
    def _no_faults(self) -> Self:
        found = list(self.faults())
        if found:
            raise ValueError("\n".join(found))
        return self


def parse(
    record: type[Record],
    given: Iterable[tuple[str, str]],
    defaults: Mapping[str, Any],
    ask: str,
    before: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the typed values of parameters given as text, checked with ``defaults`` for all that are not given.

    Args:
        record: the class of the chapter's parameters.
        given: names and texts, as on a command line.
        defaults: typed values of all parameters, which are legal.
        ask: the command that lists the parameters, for the message.
        before: faults that were found before.

    Raises:
        RefusedError: those, unknown names, names given twice, texts that cannot be read, illegal values: all of them.
    """
    texts, values, found = typed(record, given)
    faults = [*before, *found]
    bad = set(texts) - set(values)
    for _ in range(2):  # rules between parameters are looked at when each is legal by itself
        try:
            record(**{**defaults, **{name: value for name, value in values.items() if name not in bad}})
            break
        except ValidationError as error:
            wrong = _faults(record, error, {**defaults, **values}, texts)
            faults += [line for _, line in wrong if not any(re.search(rf"\b{name}\b", line) for name in bad)]
            bad |= {name for name, _ in wrong if name}
    if faults:
        raise refused(faults, ask)
    return values


def typed(
    record: type[BaseModel], given: Iterable[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, Any], list[str]]:
    """Return what is given as text: the texts by name, the values of those that can be read, and what is wrong."""
    faults: list[str] = []
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in record.model_fields:
            faults.append(_unknown(name, text, record))
        elif name in texts:
            faults.append(f"{name} = {text}: is given twice, before as {texts[name]}")
        else:
            texts[name] = text
            try:
                values[name] = value_of(record, name, text)
            except ValueError as error:
                faults.append(str(error))
    return texts, values, faults


def value_of(record: type[BaseModel], name: str, text: str) -> Any:
    """Return the value of one parameter; ValueError with the words for a text that cannot be read."""
    try:
        return read(text, record.model_fields[name].annotation)
    except ValueError:
        raise ValueError(_unreadable(name, text, record)) from None


def settle(record: type[Record], values: Mapping[str, Any], ask: str) -> Record:
    """Return typed ``values`` as an instance of ``record``, or refuse them with all their faults (RefusedError)."""
    known = {name: value for name, value in values.items() if name in record.model_fields}
    faults = [_unknown(name, write(value), record) for name, value in values.items() if name not in known]
    try:
        legal = record(**known)
    except ValidationError as error:
        raise refused([*faults, *(line for _, line in _faults(record, error, known, {}))], ask) from None
    if faults:
        raise refused(faults, ask)
    return legal


def _injected(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the cells that papermill has put into a notebook assign, given the notebook's ``globals()``."""
    cells = [cell for cell in names.get("In", []) if isinstance(cell, str) and cell.startswith(_INJECTED)]
    statements = [statement for cell in cells for statement in ast.parse(cell).body]
    targets = [target for of in statements if isinstance(of, ast.Assign) for target in of.targets]
    return {target.id: names.get(target.id) for target in targets if isinstance(target, ast.Name)}


def refused(faults: Iterable[str], ask: str, most: int | None = None) -> RefusedError:
    """Return the refusal that tells ``faults``, or ``most`` of them and how many more there are."""
    lines = list(dict.fromkeys(faults))
    more = [] if most is None or len(lines) <= most else [f"and {len(lines) - most} more"]
    return RefusedError("\n".join([*lines[:most], *more, f"{ask} lists what may be set"]))


def _unknown(name: str, text: str, record: type[BaseModel]) -> str:
    near = get_close_matches(name, record.model_fields, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(record.model_fields)}"
    return f"{name} = {text}: there is no such parameter; {meant}"


def _unreadable(name: str, text: str, record: type[BaseModel]) -> str:
    return f"{name} = {text}: must be {allowed(record.model_fields[name])}"


def _faults(
    record: type[BaseModel], error: ValidationError, values: Mapping[str, Any], texts: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return a line for each parameter that is at fault, with its name, and for each rule between them, without."""
    found = []
    for one in error.errors():
        name = str(one["loc"][0]) if one["loc"] else ""
        if "error" in one.get("ctx", {}):  # a rule of the class has said it
            found += [(name, line) for line in str(one["ctx"]["error"]).split("\n")]
        elif one["type"] == "missing":
            found.append((name, f"{name}: is missing, must be {allowed(record.model_fields[name])}"))
        else:
            value = values[name]
            text = repr(value) if isinstance(value, str) else write(value)
            found.append((name, _unreadable(name, texts.get(name, text), record)))
    return found
