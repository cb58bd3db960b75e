"""A form for the parameters of a request, made from their declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from textual.widgets import Static

from engine.wire.flags import Param, params_of
from rknntui.screens.dialogs.fields import FieldsDialog

R = TypeVar("R")
_ROOM = 34
"""Characters beside a line."""


class RequestDialog(FieldsDialog):
    """A line for each parameter; dismissed with the request as it is asked for, None for Esc.

    Args:
        title: what is asked.
        now: the request as it stands: what the lines have at first.
        names: fields that are asked for, in this order.
        hints: field -> a few words beside its line, where they say more than choices or bounds;
            below the lines stand those that are longer than the line, else the help.
        check: gives the request that is meant; ValueError says what is wrong.
    """

    KEYS_TEXT = "↑↓ field · Enter accept · Esc cancel"
    DEFAULT_CSS = """
    RequestDialog Input { width: 20; }
    """

    def __init__(
        self,
        title: str,
        now: Any,
        names: Sequence[str],
        hints: dict[str, str] | None = None,
        check: Callable[[Any], Any] = lambda asked: asked,
    ) -> None:
        known, told = _known(now), hints or {}
        cut = {name for name, hint in told.items() if len(hint) > _ROOM}
        self._told = {name: told[name] if name in cut else known[name].flag.help for name in names}
        self._width = max(len(known[name].label) for name in names) + 1
        self.TITLE_TEXT = title
        texts = {name: known[name].text(getattr(now, name)) for name in names}
        fields = [(n, known[n].label, told.get(n) or _hint(known[n])) for n in names]
        super().__init__(fields, texts, lambda texts: check(read_form(now, texts)))

    def on_mount(self) -> None:
        """The values stand below each other."""
        for label in self.query("Horizontal > Label:first-child"):
            label.styles.width = self._width

    def on_descendant_focus(self) -> None:
        """Say below the lines what the one with the focus is for, in full."""
        focused = self.focused
        told = self._told.get(focused.id or "", "") if focused is not None else ""
        self.query_one("#problem", Static).update(told)


def read_form(now: R, texts: Mapping[str, str]) -> R:
    """A request with what the lines of a form say; ValueError says which line is wrong."""
    known = _known(now)
    changed: Any = {name: known[name].parse(text) for name, text in texts.items()}
    return cast("R", replace(cast("Any", now), **changed))


def _known(now: Any) -> dict[str, Param]:
    return {each.path[0]: each for each in params_of(type(now)) if len(each.path) == 1}


def _hint(param: Param) -> str:
    """Choices or bounds; else the help."""
    if param.choices:
        return " or ".join(param.choices)
    return "yes or no" if param.of is bool else param.flag.help
