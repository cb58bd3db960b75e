"""The key of encrypted containers: from a file, the environment or typed, never an argument."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import UsageError
from engine.wire.encryption import KeyParams

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = "RKNNTUI_KEY_FILE"
_TEXT = "RKNNTUI_KEY"
_META = "rknntui.key_file"


def _take(ctx: click.Context, _param: click.Parameter, file: Path | None) -> None:
    ctx.meta[_META] = file


key_file_flag = click.option(
    "--key-file",
    metavar="FILE",
    expose_value=False,
    callback=_take,
    type=click.Path(path_type=Path),
    help=f"File with the key of an encrypted container. Default: the file named by {_FILE}, else "
    f"the content of {_TEXT}, else the key is asked for.",
)


def file_key(context: click.Context | None) -> KeyParams | None:
    """The key of ``--key-file``; None where the command has none."""
    named = None if context is None else context.meta.get(_META)
    return None if not named else KeyParams(file=str(Path(named).expanduser().absolute()))


def given_key(context: click.Context | None) -> KeyParams | None:
    """The key that the command line or the environment names; None where they name none."""
    named = file_key(context)
    if named is not None:
        return named
    path = os.environ.get(_FILE)
    if path:
        return KeyParams(file=str(Path(path).expanduser().absolute()))
    text = os.environ.get(_TEXT)
    return KeyParams(text, origin=f"the environment variable {_TEXT}") if text else None


def asked_key(what: str, *, twice: bool = False) -> KeyParams | None:
    """The key that somebody types at the terminal; None where there is no terminal.

    Args:
        what: the key is for.
        twice: whether it is typed again, as a new key is: nobody sees it.

    Raises:
        UsageError: it is empty.
    """
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        return None
    text = click.prompt(
        f"Key of {what}",
        hide_input=True,
        err=True,
        default="",
        show_default=False,
        confirmation_prompt="The same again" if twice else False,
    )
    if not text:
        raise UsageError("The key is empty.", remedy="Type at least one character.")
    return KeyParams(text)


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
