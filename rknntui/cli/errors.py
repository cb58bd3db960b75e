"""Errors of commands: text on stderr, with --json an object on stdout, an exit code."""

from __future__ import annotations

import contextlib
import sys

import click

from engine import EngineError, sanitize
from rknntui.cli.output import abandon_stdout, emit

LIMIT = 2000
"""Characters of one part of an error; names in it come from files."""


def failed(error: BaseException, *, as_json: bool) -> int:
    """Tell the error and return its exit code."""
    if isinstance(error, BrokenPipeError):  # the reader (head, a closed pager) went away
        abandon_stdout()
        return 0
    data = _as_data(error)
    if as_json:
        with contextlib.suppress(EngineError):  # standard error tells it too
            emit({"error": data}, "", as_json=True)
    lines = [f"error: {sanitize(str(data['what']), LIMIT)}"]
    if data["cause"]:
        lines.append(f"  likely cause: {sanitize(str(data['cause']), LIMIT)}")
    if data["remedy"]:  # lines of code stay lines
        first, *more = str(data["remedy"]).split("\n")
        lines.append(f"  fix: {sanitize(first, LIMIT)}")
        lines += [f"  {sanitize(line, LIMIT)}" for line in more]
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or None
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    return int(data["exit_code"])


def _as_data(error: BaseException) -> dict[str, str | int]:
    if isinstance(error, EngineError):
        return error.to_dict()
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _data("cancelled", "Cancelled.", "", "", 130)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "rknntui"
        remedy = f"See {command} --help."
        return _data("usage", error.format_message(), "", remedy, 2)
    if isinstance(error, click.ClickException):
        return _data("usage", error.format_message(), "", "", error.exit_code)
    from engine import log_crash, resource_error

    if (known := resource_error(error)) is not None:
        return known.to_dict()

    path = log_crash(error)
    return _data(
        "internal",
        f"Internal error; please report it: {type(error).__name__}.",
        "A bug in this program.",
        f"Report it with the log file {path}.",
        70,
    )


def _data(kind: str, what: str, cause: str, remedy: str, code: int) -> dict[str, str | int]:
    return {"kind": kind, "what": what, "cause": cause, "remedy": remedy, "exit_code": code}
