"""Methods return a status as the vendor's do: 0 or -1, and the reason in the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

from engine.base.errors import EngineError, InternalError, UsageError
from engine.base.paths import log_crash
from engine.base.resources import resource_error
from engine.base.text import sanitize

Result = TypeVar("Result")


class _Logging(Protocol):
    _log: logging.Logger


def path_text(given: Any, name: str) -> str:
    """A path argument as text.

    Raises:
        UsageError: it is something else, or empty.
    """
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise UsageError(
            f"{name} is {sanitize(repr(given), 80)}; it must be the path of a file.",
            cause="The argument was left out, or something else was given.",
            remedy=f"Give text or a pathlib.Path as {name}.",
        )
    text = os.fspath(given)
    if not text or "\0" in text:
        raise UsageError(
            f"{name} is {text!r}; it must be the path of a file.",
            cause="A variable was empty, or the text is not a path.",
            remedy=f"Give the path of a file as {name}.",
        )
    return text


def returns_status(
    failure: Any,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Turn errors into log lines and ``failure``, as the vendor's methods do."""

    def wrap(method: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(method)
        def call(self: _Logging, *args: Any, **keywords: Any) -> Any:
            try:
                return method(self, *args, **keywords)
            except EngineError as error:
                shown = error
            except Exception as error:  # noqa: BLE001 - the vendor's methods return -1, never raise
                shown = resource_error(error) or InternalError(
                    f"Internal error; please report it: {type(error).__name__}: "
                    f"{sanitize(str(error), 200)}",
                    cause="A bug in this program.",
                    remedy=f"Report it with the log file {log_crash(error)}.",
                )
            self._log.error("%s: %s", method.__name__, shown)
            return failure

        return call

    return wrap
