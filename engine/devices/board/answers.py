"""Values of a board's answers: typed, bounded, and never believed beyond that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.base.errors import DeviceError, DeviceTimeoutError, RuntimeLibraryError
from engine.base.plain import JsonObject
from engine.base.text import sanitize

_TEXT_LIMIT = 1 << 20
_EMULATED = "emulated: no answers for this model: "
"""What the runtime of an emulated board says before the reason, which ends with ``Fix:``."""


def misfit_error(what: str) -> DeviceError:
    """The error of an answer that breaks the protocol; ``what`` is said of which part."""
    return DeviceError(
        f"The board gave an answer that cannot be used: {what}.",
        cause="The program on the board is damaged, or is not the one that was started.",
        remedy="Connect again, so that it is copied to the board afresh.",
    )


def hang_error(board: str, method: str, seconds: float) -> DeviceTimeoutError:
    """The error of a board that says nothing for so long."""
    return DeviceTimeoutError(
        f"{board} did not answer `{method}` within {seconds:.0f} s; it was ended.",
        cause="The NPU hangs, or the model takes longer than that.",
        remedy="Try again with more time. If the next start of a model hangs too, restart the "
        "board.",
    )


def emulated_refusal(error: RuntimeLibraryError) -> RuntimeLibraryError:
    """The error of a runtime that refuses a model; of an emulated board's with its own remedy, as
    it says what the simulator lacks.
    """
    why = error.cause.partition(_EMULATED)[2]
    cause, separator, remedy = why.partition(" Fix: ")
    return RuntimeLibraryError(error.what, cause=cause, remedy=remedy) if separator else error


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """``value`` as an object."""
    if not isinstance(value, dict):
        raise misfit_error(f"{name} is no object")
    return value


_GREATEST = 1e300


def listed(data: JsonObject, name: str, most: int) -> list[Any]:
    """A list of at most ``most`` items."""
    value: Any = data.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise misfit_error(f"{name} is no list of at most {most} items")
    return value


def whole(data: JsonObject, name: str, low: int, high: int) -> int:
    """A whole number within bounds, both included."""
    value: Any = data.get(name)
    if type(value) is not int or not low <= value <= high:
        raise misfit_error(f"{name} is no whole number from {low} to {high}")
    return value


def amount(data: JsonObject, name: str) -> int:
    """A count of bytes."""
    return whole(data, name, 0, 1 << 44)


def number(data: JsonObject, name: str) -> float:
    """A finite number."""
    value: Any = data.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not -_GREATEST <= value <= _GREATEST:  # also NaN, and integers of any length
        raise misfit_error(f"{name} is no number")
    return float(value)


def text(data: JsonObject, name: str, limit: int = 300) -> str:
    """One line of text, fit to be shown; nothing and null are empty."""
    return sanitize(long_text(data, name) or "", limit)


def long_text(data: JsonObject, name: str, limit: int = _TEXT_LIMIT) -> str | None:
    """Text of several lines as it came, cut at ``limit`` characters; None where there is none.

    It is for a parser: who shows it sanitizes it.
    """
    value: Any = data.get(name)
    if value is not None and not isinstance(value, str):
        raise misfit_error(f"{name} is no text")
    return None if value is None else value[:limit]


def times(data: JsonObject, name: str, most: int) -> tuple[float, ...]:
    """Durations in microseconds, each at least 0."""
    values: Iterable[Any] = listed(data, name, most)
    numbers = tuple(number({name: value}, name) for value in values)
    if any(value < 0 for value in numbers):
        raise misfit_error(f"{name} has a negative time")
    return numbers
