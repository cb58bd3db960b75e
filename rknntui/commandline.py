"""The command line that does the same as a workspace: a verb, the model and the recipe's flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import OPTIONS

if TYPE_CHECKING:
    from rknntui.state import Session

__all__ = ["command_for", "recipe_flags"]


def recipe_flags(recipe: dict[str, object], leave_out: tuple[str, ...] = ()) -> list[str]:
    """The flags of a recipe's options that are set."""
    words: list[str] = []
    for option in OPTIONS:
        if option.name not in recipe or option.name == "model" or option.name in leave_out:
            continue
        value = recipe[option.name]
        if option.name == "do_quantization":
            words.append("--quantize" if value else "--no-quantize")
        else:
            words += [option.flag, option.render(value)]
    return words


def command_for(verb: str, session: Session) -> list[str]:
    """``rknntui VERB`` on what is open: a container, a saved recipe, or the model with flags."""
    if session.container is not None:
        return ["rknntui", verb, session.container]
    if session.recipe_path is not None and not session.dirty:
        return ["rknntui", verb, session.recipe_path]
    model = session.recipe.get("model")
    if not isinstance(model, str):
        return []
    return ["rknntui", verb, model, *recipe_flags(session.recipe)]
