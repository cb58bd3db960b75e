"""Frozen dataclasses as plain data for JSON, and back, checked. Standard library only.

A type is taken apart once and kept as two functions. Numbers that JSON does not have are the
protocol's matter: they become null, so a figure that may be none is declared ``float | None``.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from engine.base.errors import UsageError, WorkerError
from engine.base.plain import JsonValue
from engine.base.plain import Values as Values
from engine.base.text import did_you_mean, sanitize
from engine.wire.record import record

T = TypeVar("T")

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


class _MisfitError(ValueError):
    """Data that is not of a type: ``where`` it stands and what it should be."""

    def __init__(self, what: str, *where: str | int) -> None:
        self.what, self.where = what, where

    def within(self, place: str | int) -> _MisfitError:
        """The same, seen from one level above."""
        return _MisfitError(self.what, place, *self.where)

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.where)
        where = sanitize("".join(steps).lstrip("."), 120)
        return self.what.replace("{name}", where or "it")


@record
class Whole:
    """Bounds of a whole number, both included."""

    low: int
    high: int


@record
class Between:
    """Bounds of a number, both included."""

    low: float
    high: float


@record
class Above:
    """A number that is greater than ``low``, and at most ``high``."""

    low: float
    high: float = float("inf")


@record
class Key:
    """The name of a field in JSON, where it would shadow Python's own."""

    name: str


@record
class Beside:
    """The keys that a field holds stand beside the other fields'; ``names`` gives them."""

    names: Callable[[], Collection[str]]


FILLED, OMIT = "filled", "omit"

Text = Annotated[str, FILLED]
"""A text that is not empty: a path, a name."""
Omit = Annotated[T | None, OMIT]
"""A field that is left out where it is None."""


def read_request(kind: type[T], data: Any) -> T:
    """The parameters of a request.

    Raises:
        UsageError: a field is missing, of another type, or not known; it is named.
    """
    try:
        request: T = _read(kind, data)
    except _MisfitError as error:
        raise UsageError(str(error)) from None
    return request


def read_answer(kind: type[T], data: Any) -> T:
    """What the worker answered.

    Raises:
        WorkerError: it is not of that type.
    """
    try:
        answer: T = _read(kind, data)
    except _MisfitError as error:
        raise WorkerError(
            f"The worker's answer is not what was asked for: {error}",
            cause="Worker and front end are of two versions.",
            remedy="Restart this program; if the error remains, reinstall it.",
        ) from None
    return answer


def typed(kind: type[T], data: Any) -> T:
    """Plain data that the engine itself made, as an instance.

    Raises:
        TypeError: it is not of that type, which is a mistake of this program.
    """
    try:
        value: T = _read(kind, data)
    except _MisfitError as error:
        raise TypeError(f"{kind.__name__}: {error}") from None
    return value


def encode(value: object) -> dict[str, JsonValue]:
    """Plain data of a dataclass's instance; what JSON takes as it is stays as it is."""
    kind: Any = type(value)
    write = _codec(kind)[1]
    data: dict[str, JsonValue] = write(value) if write is not None else {}
    return data


def _read(kind: Any, data: Any) -> Any:
    return _codec(kind)[0](data)


_Codec = tuple[Callable[[Any], Any], Callable[[Any], Any] | None]


@cache
def _codec(kind: Any) -> _Codec:
    """(reader, writer) of a type; the writer is None for what JSON takes as it is."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _of_class(kind)
    if origin is Annotated:
        read, write = _codec(parts[0])
        for mark in parts[1:]:
            read = _checked(read, mark)
        return read, write
    if origin is Literal:
        return _literal(parts), None
    if origin in (Union, types.UnionType):
        return _of_union(parts)
    if origin is tuple:
        return _of_list(parts[0]) if parts[1:] == (...,) else _of_row(parts)
    if origin in (dict, Mapping):
        return _of_mapping(*map(_codec, parts))
    if kind in _KINDS:
        return _plain(*_KINDS[kind]), None
    if kind is types.NoneType:
        return _plain((types.NoneType,), "null"), None
    return (lambda data: data), None  # Any: what an option's value or a file's own fact may be


def _plain(kinds: tuple[type, ...], kind: str) -> Callable[[Any], Any]:
    def read(data: Any) -> Any:
        if type(data) is kinds[-1]:
            return data
        # a bool is an int, and numpy's float a float
        if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
            raise _MisfitError(f"{{name}} is {kind}.")
        return data

    return read


def _checked(read: Callable[[Any], Any], limit: Any) -> Callable[[Any], Any]:
    def filled(data: Any) -> Any:
        if not isinstance(data, str) or not data:
            raise _MisfitError("The request needs {name}, a text.")
        return data

    def bounded(data: Any) -> Any:
        if type(data) is not int or not limit.low <= data <= limit.high:
            raise _MisfitError(f"{{name}} is a whole number from {limit.low} to {limit.high}.")
        return data

    def spanned(data: Any) -> Any:
        value = read(data)
        above = isinstance(limit, Above)
        if value is not None and not (limit.low < value or (value == limit.low and not above)):
            rule = f"greater than {limit.low:g}" if above else f"at least {limit.low:g}"
            raise _MisfitError(f"{{name}} is a number, {rule}.")
        if value is not None and not value <= limit.high:
            raise _MisfitError(f"{{name}} is a number, at most {limit.high:g}.")
        return value

    if isinstance(limit, Whole):
        return bounded
    if isinstance(limit, Between | Above):
        return spanned
    return filled if limit == FILLED else read


def _literal(names: tuple[Any, ...]) -> Callable[[Any], Any]:
    def read(data: Any) -> Any:
        if not any(type(name) is type(data) and name == data for name in names):
            value = sanitize(str(data), 40)
            raise _MisfitError(f"{{name}} is {value}; it is one of {', '.join(map(str, names))}.")
        return data

    return read


def _of_union(parts: tuple[Any, ...]) -> _Codec:
    kinds = [part for part in parts if part is not types.NoneType]
    optional = len(kinds) < len(parts)
    readers = [_codec(part)[0] for part in kinds]
    writers = {get_origin(part) or part: _codec(part)[1] for part in kinds}

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        faults = []
        for reader in readers:
            try:
                return reader(data)
            except _MisfitError as error:
                faults.append(error)
        raise max(faults, key=lambda fault: len(fault.where))

    def read_one(data: Any) -> Any:
        return None if data is None else readers[0](data)

    def write(value: Any) -> Any:
        writer = writers.get(type(value), only)
        return value if value is None or writer is None else writer(value)

    only = next(iter(writers.values())) if len(writers) == 1 else None
    single = optional and len(kinds) == 1
    return read_one if single else read, write if any(writers.values()) else None


def _of_list(item: Any) -> _Codec:
    """``tuple[item, ...]``."""
    reader, writer = _codec(item)
    plain = item in _KINDS

    def read(data: Any) -> Any:
        if not isinstance(data, list | tuple):
            raise _MisfitError("{name} is a list.")
        if plain and set(map(type, data)) <= {item}:  # one look at all, as there may be many
            return tuple(data)
        items: list[Any] = []
        try:
            for element in data:
                items.append(reader(element))  # noqa: PERF401 - its length says where it failed
        except _MisfitError as error:
            raise error.within(len(items)) from None
        return tuple(items)

    def write(value: Any) -> Any:
        return [writer(element) for element in value] if writer else value

    # JSON takes a tuple as it takes a list
    return read, write if writer else None


def _of_row(parts: tuple[Any, ...]) -> _Codec:
    """``tuple[a, b, c]``."""
    codecs = [_codec(part) for part in parts]
    plain = all(part in _KINDS for part in parts)

    def read(data: Any) -> Any:
        if plain and type(data) is list and tuple(map(type, data)) == parts:
            return tuple(data)
        if not isinstance(data, list | tuple):
            raise _MisfitError("{name} is a list.")
        if len(data) != len(codecs):
            raise _MisfitError(f"{{name}} is a list of {len(codecs)} values.")
        return tuple(_within(at, codecs[at][0], item) for at, item in enumerate(data))

    def write(value: Any) -> Any:
        pairs = zip(codecs, value, strict=True)
        return [codec[1](item) if codec[1] else item for codec, item in pairs]

    return read, write if any(codec[1] for codec in codecs) else None


def _of_mapping(keys: _Codec, items: _Codec) -> _Codec:
    def read(data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise _MisfitError("{name} is an object.")
        return {keys[0](name): _within(str(name), items[0], item) for name, item in data.items()}

    def write(value: Any) -> Any:
        writer = items[1]
        return dict(value) if writer is None else {n: writer(item) for n, item in value.items()}

    return read, write


def _within(place: str | int, read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except _MisfitError as error:
        raise error.within(place) from None


@record
class _Field:
    key: str
    name: str
    required: bool
    omit: bool
    codec: _Codec
    missing: str


def _fields_of(kind: Any) -> tuple[list[_Field], str, Callable[[], Collection[str]]]:
    """The fields of a class, the one that stands beside them, and what that may hold."""
    hints = get_type_hints(kind, include_extras=True)
    rows: list[_Field] = []
    spread, names = "", _nothing
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        beside = next((mark for mark in marks if isinstance(mark, Beside)), None)
        if beside is not None:
            spread, names = field.name, beside.names
            continue
        key = next((mark.name for mark in marks if isinstance(mark, Key)), field.name)
        required = field.default is MISSING and field.default_factory is MISSING
        base = get_args(hint)[0] if marks else hint
        rule = f", {_KINDS[base][1]}" if base in _KINDS else ""
        missing = f"The request needs {{name}}{rule}."
        rows.append(_Field(key, field.name, required, OMIT in marks, _codec(hint), missing))
    return rows, spread, names


def _nothing() -> Collection[str]:
    return ()


def _of_class(kind: Any) -> _Codec:
    """A class is an object of its fields' keys, none of which may be strange."""
    rows, spread, names = _fields_of(kind)
    known = [row.key for row in rows]
    readers = [(row.key, row.name, row.codec[0], row.missing * row.required) for row in rows]
    writers = [(row.key, row.name, row.codec[1], row.omit) for row in rows]

    def read(data: Any) -> Any:
        if type(data) is not dict and not isinstance(data, Mapping):
            raise _MisfitError("{name} is an object.")
        values: dict[str, object] = {}
        at = ""
        try:
            for at, name, reader, missing in readers:
                if at in data:
                    values[name] = reader(data[at])
                elif missing:
                    raise _MisfitError(missing)
        except _MisfitError as error:
            raise error.within(at) from None
        if len(values) == len(data) and not spread:
            return kind(**values)
        beside = {name: data[name] for name in data if name not in known}
        strange = next((str(name) for name in beside if name not in names()), None)
        if strange is not None:
            near = did_you_mean(strange, [*known, *names()])
            raise _MisfitError(f"There is no {{name}} here. {near}".strip(), strange)
        return kind(**values, **({spread: beside} if spread else {}))

    def write(value: Any) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, name, writer, omit in writers:
            item = getattr(value, name)
            if item is not None or not omit:
                data[key] = item if writer is None or item is None else writer(item)
        return data | dict(getattr(value, spread)) if spread else data

    return read, write
