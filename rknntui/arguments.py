"""The options of a source model: in a recipe, and as flags beside the file that is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine import Option


def source_names() -> frozenset[str]:
    """The names of the options that say what is loaded and how."""
    from engine import OPTIONS

    return frozenset(o.name for o in OPTIONS if o.section == "source")


def source_options(recipe: Mapping[str, object]) -> dict[str, object]:
    """The options of a recipe that change which graph is seen, without the model itself."""
    return {n: recipe[n] for n in source_names() if n in recipe and n != "model"}


def given_options(words: Sequence[str]) -> dict[str, object]:
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
    options: dict[str, object] = {}
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
        value_of, before = option.parse(value), options.get(option.name)
        if isinstance(before, dict) and option.repeated:
            value_of = {**before, **value_of}
        options[option.name] = absolute(option, value_of)
    return options


def absolute(option: Option, value: Any) -> object:
    """An option's value, its paths from the current folder on."""
    if option.kind == "path":
        return str(Path(value).absolute())
    if option.kind in ("paths", "code"):
        return [None if path is None else str(Path(path).absolute()) for path in value]
    return value
