"""The list of values of an option, with a line on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from engine import chips_with
from rknntui.screens.dialogs.dialogs import ChoiceDialog

if TYPE_CHECKING:
    from textual.app import App

    from engine import Option
    from rknntui.session.drafts import Values

UNSET = "none"
"""Stands for no value, where an option need not have one."""


def choose(
    app: App[Any],
    option: Option,
    recipe: Mapping[str, object],
    then: Callable[[Values], None],
) -> None:
    """Show the values of an option; ``then`` gets the change of the recipe that was chosen."""
    about = values_about(option, recipe)
    now = recipe.get(option.name, option.default)

    def take(choice: str | None) -> None:
        if choice is not None:
            then({option.name: None if choice == UNSET else choice})

    dialog = ChoiceDialog(option.name, tuple(about), UNSET if now is None else str(now), about)
    app.push_screen(dialog, take)


def values_about(option: Option, recipe: Mapping[str, object]) -> dict[str, str]:
    """Value -> a line on it, in the order of the list; of a dtype whether the target has it."""
    about = {choice: option.about.get(choice, "") for choice in option.choices}
    target = recipe.get("target_platform")
    if option.name == "quantized_dtype" and target:
        for dtype, text in about.items():
            if target not in chips_with(dtype):
                about[dtype] = f"✗ not on {target}. {text}"
    if option.default is None:
        return {UNSET: "No value. " + option.help, **about}
    return about


def turned(option: Option, value: object, step: int) -> object:
    """The value that left or right makes of another one; the same where they do nothing.

    Args:
        option: whose value it is.
        value: that it has now.
        step: -1 for left, 1 for right.
    """
    if option.kind == "bool" or (option.kind == "flags" and isinstance(value, bool)):
        return not value
    if option.kind == "choice":
        unset = (None,) if option.default is None else ()
        choices = (*unset, *option.choices)
        at = choices.index(value) if value in choices else 0
        return choices[(at + step) % len(choices)]
    if option.kind == "int":
        new = (value if isinstance(value, int) else 0) + step
        low, high = option.minimum, option.maximum
        if (low is None or new >= low) and (high is None or new <= high):
            return new
    return value
