"""A line for searching or filtering as one types."""

from __future__ import annotations

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class SearchLine(Input):
    """Hidden until it is opened. Enter keeps the text, Esc drops it; both hide the line."""

    BINDINGS = [
        Binding("escape", "drop", "Cancel", show=True),
        Binding("enter", "keep", "Keep", show=True),
    ]
    DEFAULT_CSS = """
    SearchLine {
        dock: bottom; display: none; height: 1;
        border: none; padding: 0; background: $surface;
    }
    SearchLine:focus { border: none; background: $surface; }
    SearchLine.-open { display: block; }
    """

    class Typed(Message):
        """The text changed; ``done`` when the line was closed."""

        def __init__(self, line: SearchLine, text: str, done: bool = False) -> None:
            super().__init__()
            self.line = line
            self.text = text
            self.done = done

        @property
        def control(self) -> SearchLine:
            """The line, for ``@on`` selectors."""
            return self.line

    def __init__(self, placeholder: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(placeholder=placeholder, id=id, compact=True)
        self.cursor_blink = False

    def open(self) -> None:
        """Show the line and give it the focus."""
        self.add_class("-open")
        self.value = ""
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.has_class("-open"):
            self.post_message(self.Typed(self, event.value))

    def action_keep(self) -> None:
        """Close and keep the text."""
        self._close(self.value)

    def action_drop(self) -> None:
        """Close and drop the text."""
        self._close("")

    def _close(self, text: str) -> None:
        self.remove_class("-open")
        self.post_message(self.Typed(self, text, done=True))
