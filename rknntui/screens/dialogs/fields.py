"""A dialog of several lines to fill in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static

from rknntui.screens.dialogs.dialogs import Dialog

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


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
            told = Label(hint, classes="hint", markup=False)
            lines.append(Horizontal(Label(label, markup=False), entry, told))
        yield self.box(*lines, Static(self._note, id="problem", markup=False))

    def action_field(self, by: int) -> None:
        """Go to the next field, or the one before."""
        (self.focus_next if by > 0 else self.focus_previous)("Input")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on where every text is a value."""
        event.stop()
        texts = {name: self.query_one(f"#{name}", Input).value for name, _, _ in self._fields}
        try:
            found = self._read(texts)
        except ValueError as error:
            self.query_one("#problem", Static).update(f"✗ {error}")
            self.app.bell()
        else:
            self.dismiss(found)
