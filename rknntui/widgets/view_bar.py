"""One line that names the views of a pane and marks the one that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.message import Message
from textual.strip import Strip

from rknntui.widgets.strips import Line, Painted, cells

if TYPE_CHECKING:
    from textual import events


class ViewBar(Painted):
    """Names of views; a click or :meth:`step` chooses another one."""

    DEFAULT_CSS = """
    ViewBar { height: 1; }
    """

    class Changed(Message):
        """Another view is to be shown."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.names = tuple(names)
        self.current = self.names[0]
        self._note = ""

    def choose(self, name: str) -> None:
        """Mark a view and tell."""
        self.current = name
        self.refresh()
        self.post_message(self.Changed(name))

    def step(self, by: int) -> None:
        """Choose the view that many places further."""
        at = self.names.index(self.current)
        self.choose(self.names[(at + by) % len(self.names)])

    def set_note(self, text: str) -> None:
        """Show a text at the right end."""
        if text != self._note:
            self._note = text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        line: Line = []
        for name in self.names:
            here = name == self.current
            line.append((f"[{name}]" if here else f" {name} ", "head" if here else "dim"))
        width = self.size.width
        gap = width - cells(line) - len(self._note) - 1
        if gap > 0:
            line += [(" " * gap, ""), (self._note, "dim")]
        return self.paint(line, width)

    def on_click(self, event: events.Click) -> None:
        """Choose the name under the pointer."""
        x = 0
        for name in self.names:
            x += len(name) + 2
            if event.x < x:
                self.choose(name)
                return
