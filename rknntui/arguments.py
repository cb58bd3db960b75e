"""Flags beside the file that the workbench opens: the options of its source model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["given_options"]


def given_options(words: Sequence[str]) -> dict[str, Any]:
    """The options that are said behind the file's name, as ``--weights FILE``.

    Args:
        words: of the command line, behind the file's name.

    Returns:
        Option name -> value; paths are absolute.

    Raises:
        UsageError: a word that is no such flag, or a flag without a value.
        RecipeError: a text that is no value of its option.
    """
    from engine import OPTIONS, UsageError, did_you_mean

    flags = {o.flag: o for o in OPTIONS if o.section == "source" and o.name != "model"}
    given: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        flag, equals, value = waiting.pop(0).partition("=")
        if flag not in flags:
            raise UsageError(
                f"{flag} is not an option of the workbench.",
                remedy=did_you_mean(flag, flags)
                or f"It accepts the options of the model source: {', '.join(flags)}.",
            )
        if not equals:
            if not waiting:
                raise UsageError(f"{flag} needs a value.", remedy=f"Write {flag} VALUE.")
            value = waiting.pop(0)
        option = flags[flag]
        found = option.parse(value)
        if option.kind == "path":
            found = str(Path(found).absolute())
        elif option.kind in ("paths", "code"):
            found = [None if p is None else str(Path(p).absolute()) for p in found]
        given[option.name] = {**given.get(option.name, {}), **found} if option.repeated else found
    return given
