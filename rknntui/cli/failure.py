"""How a failed command ends: words on stderr, with --json an object on stdout, an exit code."""

from __future__ import annotations

import json
import os
import sys

import click

from engine import printable

__all__ = ["failed"]

LIMIT = 2000
"""Characters of one part of an error; names in it come from files."""


def failed(error: BaseException, *, as_json: bool) -> int:
    """Tell the error and return its exit code."""
    if isinstance(error, BrokenPipeError):
        # the reader (head, a closed pager) went away; python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    data = _as_data(error)
    if as_json:
        sys.stdout.write(json.dumps({"error": data}, indent=2) + "\n")
    lines = [f"error: {printable(str(data['what']), LIMIT)}"]
    if data["cause"]:
        lines.append(f"  likely cause: {printable(str(data['cause']), LIMIT)}")
    if data["remedy"]:
        lines.append(f"  remedy: {printable(str(data['remedy']), LIMIT)}")
    sys.stderr.write("\n".join(lines) + "\n")
    return int(data["exit_code"])


def _as_data(error: BaseException) -> dict[str, str | int]:
    from engine import EngineError

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
    from engine import log_crash

    path = log_crash(error)
    return _data(
        "internal",
        f"This program made a mistake: {type(error).__name__}.",
        "A case that was not thought of.",
        f"Report it with the log file {path}.",
        70,
    )


def _data(kind: str, what: str, cause: str, remedy: str, code: int) -> dict[str, str | int]:
    return {"kind": kind, "what": what, "cause": cause, "remedy": remedy, "exit_code": code}
