"""The normal form of a value, kind by kind: lists nested per input, numbers as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from engine.base.errors import RecipeError
from engine.base.plain import Value
from engine.base.text import did_you_mean, sanitize
from engine.options.values import (
    format_value,
    is_code,
    is_finite,
    is_int,
    is_integral,
    is_path,
    per_input,
)

if TYPE_CHECKING:
    from engine.options.declare import Option

NUMBERS: Mapping[str, tuple[type[int] | type[float], str]] = MappingProxyType(
    {"int": (int, "a whole number"), "float": (float, "a number")}
)
"""Kind of a number -> what makes one, and what it is called."""


def expected_length(option: Option) -> str:
    """What a ``mapping`` or ``ranges`` takes, for a message."""
    return {
        "mapping": f"tensor names with one of {', '.join(option.choices)} each, as "
        f"conv1={option.choices[0] if option.choices else 'x'}",
        "ranges": "tensor names with a minimum and a larger maximum each, as conv1=-1,6",
    }[option.kind]


def check_unsupported(option: Option, value: Value) -> Value:
    """The default of an option that takes nothing else.

    Raises:
        RecipeError: another value; the cause is the option's reason.
    """
    if value == option.default and isinstance(value, bool) == isinstance(option.default, bool):
        return option.default
    default = option.render(option.default) or "none"
    raise RecipeError(
        f"{option.name} is {format_value(value)}, which is not supported.",
        cause=option.reason,
        remedy=f"Keep the default ({default}).",
    )


def _bool(option: Option, value: Value) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise option.error(value, "yes or no")


def _number(option: Option, value: Value) -> float:
    kind, expected = NUMBERS[option.kind]
    if not (is_int(value) if kind is int else is_finite(value)):
        raise option.error(value, expected)
    number: float = kind(value)
    if option.minimum is not None and number < option.minimum:
        raise option.error(number, f"at least {option.minimum}")
    if option.maximum is not None and number > option.maximum:
        raise option.error(number, f"at most {option.maximum}")
    return number


def _text(option: Option, value: Value) -> str:
    if not is_path(value):
        raise option.error(value, "text")
    return str(value)


def _choice(option: Option, value: Value) -> str:
    return _chosen(option, value, option.name)


def _chosen(option: Option, value: Value, what: str) -> str:
    """The choice that a value names; ``what`` is the option, or an entry of it."""
    if isinstance(value, str):
        lowered = value.strip().lower()
        known = {c.lower(): c for c in option.choices} | dict(option.aliases)
        if lowered in known:
            return known[lowered]
        if lowered in option.unsupported:
            raise RecipeError(
                f"{what} is {lowered}, which is not supported.",
                cause=option.unsupported[lowered],
                remedy=f"Choose one of {', '.join(option.choices)}.",
            )
    near = did_you_mean(str(value), [*option.choices, *option.aliases])
    known_names = ", ".join(option.choices)
    raise RecipeError(
        f"{what} is {sanitize(repr(value), 80)}; it must be one of {known_names}.",
        remedy=near or f"Choose one of {known_names}.",
    )


def _mapping(option: Option, value: Value) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        raise option.error(value, expected_length(option))
    return {
        _tensor(option, name): _chosen(option, one, f"{option.name} of {sanitize(str(name), 80)}")
        for name, one in value.items()
    } or None


def _ranges(option: Option, value: Value) -> dict[str, list[float]] | None:
    if not isinstance(value, Mapping):
        raise option.error(value, expected_length(option))
    ranges: dict[str, list[float]] = {}
    for name, pair in value.items():
        fits = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not fits or not all(is_finite(n) for n in pair) or not pair[0] < pair[1]:
            raise RecipeError(
                f"{option.name} of {sanitize(str(name), 80)} is {format_value(pair)}; it must be a "
                "minimum and a larger maximum.",
                remedy=option.help,
            )
        ranges[_tensor(option, name)] = [float(n) for n in pair]
    return ranges or None


def _tensor(option: Option, name: Value) -> str:
    if name and is_path(name):
        return str(name)
    raise RecipeError(
        f"{option.name} names {format_value(name)}, which is not a tensor name.",
        cause="YAML reads a name of only digits as a number: put it in quotes.",
        remedy=option.help,
    )


def _listed(fits: Callable[[Value], bool], expected: str) -> Callable[[Option, Value], list[Value]]:
    """The check of a list whose items fit; one text alone is a list of one."""

    def check(option: Option, value: Value) -> list[Value]:
        items = [value] if isinstance(value, str) else value
        if isinstance(items, Sequence) and items and all(map(fits, items)):
            return list(items)
        raise option.error(items, expected)

    return check


def _flags(option: Option, value: Value) -> bool | list[bool]:
    if isinstance(value, bool):
        return value
    if isinstance(value, Sequence) and value and all(isinstance(f, bool) for f in value):
        return list(value)
    raise option.error(value, "yes or no, or a list with one per input")


def _shapes(option: Option, value: Value) -> list[list[int]]:
    rows = per_input(value, empty=True)
    if rows and all(is_integral(n) and n > 0 for row in rows for n in row):
        return [[int(n) for n in row] for row in rows]
    raise option.error(
        value,
        "one list of sizes above 0 per input, as [[1, 3, 224, 224]]; [] is an input of one number",
    )


def _shape_sets(option: Option, value: Value) -> list[list[list[int]]]:
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        try:
            return [_shapes(option, one) for one in value]
        except RecipeError:
            pass  # the message below shows the form of all sets
    raise option.error(
        value, "sets of shapes, one shape per input in each, as [[[1, 3, 224, 224]]]"
    )


def _channels(option: Option, value: Value) -> list[list[float]]:
    if option.generations == (1,):
        value = _rows_of_text(option, value)
    rows = per_input(value)
    if rows and all(is_finite(n) for row in rows for n in row):
        return [[float(n) for n in row] for row in rows]
    raise option.error(value, "one list of numbers per input, as [[127, 127, 127]]")


def _rows_of_text(option: Option, value: Value) -> Value:
    """Rows of generation 1's API: text with # between inputs, or a list of such texts."""
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, Sequence) and texts and all(isinstance(row, str) for row in texts):
        return [row for text in texts for row in option.parse_list(text)]
    return value


CHECKS: Mapping[str, Callable[[Option, Value], Value]] = MappingProxyType(
    {
        "bool": _bool,
        "int": _number,
        "float": _number,
        "text": _text,
        "choice": _choice,
        "path": _text,
        "names": _listed(lambda n: isinstance(n, str) and bool(n), "a list of tensor names"),
        "shapes": _shapes,
        "shape_sets": _shape_sets,
        "channels": _channels,
        "flags": _flags,
        "paths": _listed(
            lambda path: path is None or is_path(path),
            "a list of paths, null for an input that has none (in text - and ; between them)",
        ),
        "code": _listed(is_code, "a list of Python files and names in them, as ops.py:cstSoftmax"),
        "mapping": _mapping,
        "ranges": _ranges,
    }
)
"""Kind -> its check: the value in its normal form, or RecipeError."""
