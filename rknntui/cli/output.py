"""The only module that writes to standard output: data, as text or as JSON."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any

from engine import OutputError, escaped, sanitize

LINE_LIMIT = 20_000
"""Characters of one line for people; longer ones are names that somebody made to hurt."""


def emit(data: Any, text: str | Iterable[str], *, as_json: bool, compact: bool = False) -> bool:
    """Write ``data`` (plain, or a type of the wire) as JSON, or the text for people.

    A reader that goes away (head, a closed pager) has what it wanted: that is no failure.

    Args:
        data: for programs.
        text: for people, a line or several.
        as_json: which of the two.
        compact: whether JSON is one line, of which there are more.

    Returns:
        Whether somebody reads.

    Raises:
        OutputError: standard output is closed or full.
    """
    if as_json:
        from engine.wire.codec import encode  # help and tables need no codec

        return _write(_json(encode(data) if is_dataclass(data) else data, compact=compact))
    body = text if isinstance(text, str) else "\n".join(text)
    # whatever name got into it: a control character must not reach a terminal
    return _write("\n".join(sanitize(line, LINE_LIMIT) for line in body.split("\n")))


class LiveLines:
    """The last lines of a terminal, written again and again in their place."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @staticmethod
    def possible() -> bool:
        """Whether standard output is a terminal that can."""
        return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, lines: Sequence[str], above: Sequence[str] = ()) -> bool:
        """Write these lines in place of the last ones, and others above them for good.

        Returns:
            Whether somebody reads.
        """
        size = shutil.get_terminal_size()
        up = f"\x1b[{len(self._lines)}A" if self._lines else ""
        self._lines = [sanitize(line, size.columns - 1) for line in lines[: size.lines - 1]]
        kept = [sanitize(line, LINE_LIMIT) for line in above]
        text = "\n".join(f"\r\x1b[K{line}" for line in [*kept, *self._lines])
        return _write(f"{up}{text}\x1b[J") if text else True


def _json(data: Any, *, compact: bool) -> str:
    # a terminal acts on control characters in names, and bytes of a file name that are no UTF-8
    # stand in Python's text as lone surrogates: JSON has an escape for both
    plain = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    indent = None if compact else 2
    text = json.dumps(_finite(data), indent=indent, ensure_ascii=not plain)
    return escaped(text)


def _write(text: str) -> bool:
    """Whether somebody reads."""
    if sys.stdout is None:
        raise OutputError(
            "Standard output is closed.",
            cause="The command was started with >&- or by a program that gives none.",
            remedy="Send it to a file or to /dev/null.",
        )
    # a terminal of another character set shows what it has not as an escape
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
        return False
    except OSError as error:
        abandon_stdout()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise OutputError(
            f"Standard output could not be written: {error.strerror or error}.",
            cause="The disk or the quota is full." if full else "What it leads to refused it.",
            remedy="Free space or send it elsewhere.",
        ) from error
    return True


def abandon_stdout() -> None:
    """Lead what is still to be written nowhere, as Python would complain again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _finite(data: Any) -> Any:
    """JSON has no infinity or NaN: null stands for them."""
    if isinstance(data, float):
        return data if data == data and abs(data) != float("inf") else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
