"""Where an ``RKNN`` object tells what it does: standard error, and a file where one is asked for.

As the vendor's class does: errors and warnings always, details with ``verbose``; the file only with
``verbose`` too [RKNN-T1 1.3.2, 3.6.1; RKNN-T2 1.1.0, 3.5.1].
"""

from __future__ import annotations

import itertools
import logging
import sys
from typing import TextIO

from engine.base.errors import OutputError

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
