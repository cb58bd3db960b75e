"""A line for a path, in which an absolute path can be typed over the folder that stands there."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input


class PathInput(Input):
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
