"""Where an ``RKNN`` object tells what it does: standard error, and a file where one is asked for.

As the vendor's class does: errors and warnings always, details with ``verbose``; the file only with
``verbose`` too [RKNN-T1 1.3.2, 3.6.1; RKNN-T2 1.1.0, 3.5.1].
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TextIO, TypeVar

from engine.base.errors import EngineError, OutputError, UsageError, internal_error
from engine.base.paths import log_crash
from engine.base.resources import resource_error
from engine.base.text import sanitize

_numbers = itertools.count(1)


class _Lines(logging.Formatter):
    """``E what happened``; a record that is marked plain is a report and has no letter."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        text = super().format(record)
        return text if getattr(record, "plain", False) else f"{record.levelname[0]} {text}"


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at that moment, as redirections and tests expect."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.stream = sys.stderr
        super().emit(record)


def open_log(verbose: bool | str, verbose_file: str | None) -> logging.Logger:
    """A logger of its own for one object.

    Raises:
        OutputError: the file cannot be written.
    """
    logger = logging.getLogger(f"engine.api.{next(_numbers)}")
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    handlers: list[logging.Handler] = [_StandardError()]
    if verbose and verbose_file:
        try:
            handlers.append(logging.FileHandler(verbose_file, encoding="utf-8"))
        except OSError as error:
            raise OutputError(
                f"The log file {verbose_file} cannot be written: {error.strerror or error}.",
                remedy="Choose another verbose_file.",
            ) from error
    for handler in handlers:
        handler.setFormatter(_Lines())
        logger.addHandler(handler)
    return logger


def close_log(logger: logging.Logger) -> None:
    """Close the handlers, the file with them."""
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


# Methods return a status as the vendor's do: 0 or -1, and the reason in the log.

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
                shown = resource_error(error) or internal_error(
                    error, f"Report it with the log file {log_crash(error)}."
                )
            self._log.error("%s: %s", method.__name__, shown)
            return failure

        return call

    return wrap
