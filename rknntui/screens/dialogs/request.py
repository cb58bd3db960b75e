"""A form for the parameters of a request, made from their declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static

from engine.wire.flags import Param, params_of
from rknntui.screens.dialogs.dialogs import Dialog

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

# A dialog of several lines to fill in.


class FieldsDialog(Dialog):
    """Asks for several texts; dismissed with what ``read`` makes of them, None for Esc.

    Args:
        fields: name, label and hint of each line.
        texts: that the lines have at first, by name.
        read: what the texts mean; a ValueError says what is wrong, and the dialog stays.
        note: below the lines before anything is wrong.
    """

    # before the field has them: a field that is typed right after is the next one already
    BINDINGS = [
        Binding("down", "field(1)", "Next", show=False, priority=True),
        Binding("up", "field(-1)", "Before", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    FieldsDialog Horizontal { height: 1; background: $background; }
    FieldsDialog Label { background: $background; }
    FieldsDialog .hint { width: 1fr; color: $text-muted; padding-left: 1; text-wrap: nowrap; }
    FieldsDialog #problem { color: $error; min-height: 1; }
    """

    def __init__(
        self,
        fields: Sequence[tuple[str, str, str]],
        texts: Mapping[str, str],
        read: Callable[[dict[str, str]], Any],
        note: str = "",
    ) -> None:
        super().__init__()
        self._fields = fields
        self._texts = texts
        self._read = read
        self._note = note

    def compose(self) -> ComposeResult:
        lines: list[Widget] = []
        for name, label, hint in self._fields:
            text = self._texts.get(name, "")
            entry = Input(text, id=name, compact=True, select_on_focus=True)
            entry.cursor_blink = False
            hint_label = Label(hint, classes="hint", markup=False)
            lines.append(Horizontal(Label(label, markup=False), entry, hint_label))
        yield self.box(*lines, Static(self._note, id="problem", markup=False))

    def action_field(self, by: int) -> None:
        """Go to the next field, or the one before."""
        (self.focus_next if by > 0 else self.focus_previous)("Input")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on where every text is a value."""
        event.stop()
        texts = {name: self.query_one(f"#{name}", Input).value for name, _, _ in self._fields}
        try:
            request = self._read(texts)
        except ValueError as error:
            self.query_one("#problem", Static).update(f"✗ {error}")
            self.app.bell()
        else:
            self.dismiss(request)


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
        known, hint_of = _known(now), hints or {}
        cut = {name for name, hint in hint_of.items() if len(hint) > _ROOM}
        self._told = {
            name: hint_of[name] if name in cut else known[name].flag.help for name in names
        }
        self._width = max(len(known[name].label) for name in names) + 1
        self.TITLE_TEXT = title
        texts = {name: known[name].text(getattr(now, name)) for name in names}
        fields = [(n, known[n].label, hint_of.get(n) or _hint(known[n])) for n in names]
        super().__init__(fields, texts, lambda texts: check(read_form(now, texts)))

    def on_mount(self) -> None:
        """The values stand below each other."""
        for label in self.query("Horizontal > Label:first-child"):
            label.styles.width = self._width

    def on_descendant_focus(self) -> None:
        """Say below the lines what the one with the focus is for, in full."""
        focused = self.focused
        help_text = self._told.get(focused.id or "", "") if focused is not None else ""
        self.query_one("#problem", Static).update(help_text)


def read_form(now: R, texts: Mapping[str, str]) -> R:
    """A request with what the lines of a form say; ValueError says which line is wrong."""
    known = _known(now)
    changed: Any = {name: known[name].parse(text) for name, text in texts.items()}
    return cast("R", replace(cast("Any", now), **changed))


def _known(now: Any) -> dict[str, Param]:
    return {param.path[0]: param for param in params_of(type(now)) if len(param.path) == 1}


def _hint(param: Param) -> str:
    """Choices or bounds; else the help."""
    if param.choices:
        return " or ".join(param.choices)
    return "yes or no" if param.of is bool else param.flag.help
