"""A pane of text beside what it is about."""

from __future__ import annotations

from textual.message import Message

from rknntui.widgets.line_list import TextRows


class SidePane(TextRows):
    """Text that is wrapped to the pane's width: it tells when that is another one."""

    class Resized(Message):
        """The pane has another width."""

    _told = -1

    def on_resize(self) -> None:
        """Let the text be wrapped anew; on a first visit it was before there was a width."""
        if self.size.width != self._told:
            self._told = self.size.width
            self.post_message(self.Resized())
