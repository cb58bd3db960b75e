"""Lines to type in: a text, a path that can be typed over the folder there, a choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from textual import events
    from textual.visual import VisualType


class TextLine(Input):
    """An input of one line, whose cursor does not blink: each blink would be sent."""

    def __init__(self, value: str = "", **settings: Any) -> None:
        super().__init__(value, compact=True, **settings)
        self.cursor_blink = False


class PathInput(TextLine):
    """An input that begins the path anew where Emacs and Bash users expect it.

    ``/`` or ``~`` typed behind a slash drops what stands before it; Backspace right after that
    brings it back. A pasted absolute path replaces the whole text.
    """

    _dropped: tuple[str, int, str] | None = None
    """Text and position of the cursor before the path was begun anew, and the text after that."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Every key and every paste comes through here, deletions too (with an empty text)."""
        before = self.value[:start]
        pasted = _absolute(text) if len(text) > 1 else ""
        if pasted:
            super().replace(pasted, 0, len(self.value))
        elif text in ("/", "~") and before.endswith("/"):
            value = self.value
            super().replace(text, 0, end)
            self._dropped = (value, end, self.value) if self.value != value else None
        else:
            super().replace(text, start, end)

    def action_delete_left(self) -> None:
        """Delete a character, or undo that the path was begun anew."""
        dropped, self._dropped = self._dropped, None
        if dropped and self.value == dropped[2] and self.cursor_position == 1:
            self.value, self.cursor_position = dropped[:2]
        else:
            super().action_delete_left()


def expanded(text: str) -> Path:
    """The path of a line: ``~`` and ``~user`` are homes; that of an unknown user stays as it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _absolute(text: str) -> str:
    """A pasted absolute path, without spaces and quotes around it; empty for any other text."""
    path = text.strip()
    if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
        path = path[1:-1]
    return path if expanded(path).is_absolute() else ""


class ChoiceLine(Static, can_focus=True):
    """One of a few values on a line; left and right choose, and so does what a value begins with.

    Args:
        choices: value -> how it is shown.
        value: that is chosen at first.
        id: the widget's id.
    """

    BINDINGS = [
        Binding("left", "turn(-1)", "Previous value", show=False),
        Binding("right,space", "turn(1)", "Next value", show=False),
    ]
    DEFAULT_CSS = "ChoiceLine { height: 1; background: $background; }"
    value: reactive[str] = reactive("", layout=True)

    def __init__(self, choices: Mapping[str, str], value: str, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._choices = dict(choices)
        self._typed = ""
        self.styles.width = max(20, *(cell_len(shown) + 4 for shown in choices.values()))
        self.set_reactive(
            ChoiceLine.value, value if value in self._choices else next(iter(choices))
        )

    def render(self) -> VisualType:
        shown = self._choices[self.value]
        return f"{shown} ◂ ▸" if self.has_focus else shown

    def action_turn(self, step: int) -> None:
        """Take the next or previous value."""
        values = list(self._choices)
        self.value = values[(values.index(self.value) + step) % len(values)]

    def on_key(self, event: events.Key) -> None:
        """Take the value that begins with what was typed."""
        letter = event.character or ""
        for typed in (self._typed + letter, letter):
            match = next((v for v in self._choices if letter and v and v.startswith(typed)), None)
            if match is not None and letter.isprintable() and not letter.isspace():
                self._typed, self.value = typed, match
                event.stop()
                return

    def on_click(self, event: events.Click) -> None:
        """The mark on the left takes the value before, all else the next one."""
        at = event.x - cell_len(self._choices[self.value]) - 1
        self.action_turn(-1 if at == 0 else 1)

    def on_blur(self) -> None:
        """What is typed later is another word."""
        self._typed = ""
