"""A list of any length, drawn line by line: only what is visible is ever made."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rknntui.widgets.strips import Line, Painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events


class Rows(Painted, ScrollView, can_focus=True):
    """A cursor over ``row_count`` lines that a subclass draws in ``row_line``.

    A move repaints two lines; leaving the view scrolls by a third of it, which keeps traffic low on
    a slow line.
    """

    BINDINGS = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "jump(0)", "First", show=False),
        Binding("end,G", "jump(-1)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    DEFAULT_CSS = """
    Rows {
        overflow-x: hidden; overflow-y: auto;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    """

    cursor: reactive[int] = reactive(0, repaint=False)
    """Index of the row under the cursor."""

    SHOW_CURSOR: bool = True
    """Whether the row under the cursor is highlighted; without it keys scroll."""

    empty: Sequence[Line] = ()
    """What stands there instead of rows: which key fills the list."""

    head: int = 0
    """Lines at the top that do not scroll, drawn by ``head_line``."""

    _height: int = 0
    """Rows that there was room for before a resize."""

    class OfRow(Message):
        """Something of the row under the cursor."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows
            self.index = rows.cursor

        @property
        def control(self) -> Rows:
            """The list, for ``@on`` selectors."""
            return self.rows

    class Highlighted(OfRow):
        """The cursor is on another row."""

        def can_replace(self, message: Message) -> bool:
            """Only the last position of a held key matters."""
            return isinstance(message, Rows.Highlighted) and message.rows is self.rows

    class Chosen(OfRow):
        """Enter or a click on the row under the cursor."""

    @property
    def row_count(self) -> int:
        """Number of rows."""
        raise NotImplementedError

    def row_line(self, index: int, width: int) -> Line:
        """One row in at most ``width`` cells."""
        raise NotImplementedError

    def head_line(self, y: int, width: int) -> Line:
        """One of the ``head`` lines at the top."""
        return []

    def head_clicked(self, x: int) -> None:
        """Somebody clicked into the lines at the top, at column ``x``."""

    def rows_changed(self, *, keep_cursor: bool = True) -> None:
        """Draw anew after rows were added, removed or changed."""
        count = self.row_count
        self.virtual_size = Size(0, count + self.head)
        self.set_reactive(Rows.cursor, min(self.cursor, max(0, count - 1)) if keep_cursor else 0)
        if not keep_cursor:
            self.scroll_to(0, 0, animate=False, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y < self.head:
            return self.paint(self.head_line(y, width), width)
        index = y + self.scroll_offset.y - self.head
        if not self.row_count and y - self.head < len(self.empty):
            return self.paint(self.empty[y - self.head], width)
        if not 0 <= index < self.row_count:
            return Strip.blank(width, self.rich_style)
        strip = self.paint(self.row_line(index, width), width)
        if self.SHOW_CURSOR and index == self.cursor:
            strip = self.style_strip(strip, "cursor")
        return strip

    def refresh_row(self, index: int) -> None:
        """Repaint one row."""
        y = index - self.scroll_offset.y + self.head
        if not self.size:  # hidden: what was painted before would stand when it is shown
            self.refresh()
        elif self.head <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, self.row_count - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        if old == new:
            return
        self.reveal(new)
        self.refresh_row(old)
        self.refresh_row(new)
        self.post_message(self.Highlighted(self))

    def on_resize(self) -> None:
        """Keep the row under the cursor in view where it was; a reader who scrolled away stays."""
        before, self._height = self._height, self.scrollable_content_region.height - self.head
        if self.SHOW_CURSOR and (before < 1 or 0 <= self.cursor - self.scroll_offset.y < before):
            self.reveal(self.cursor)

    def reveal(self, index: int) -> None:
        """Scroll so that the row is visible; before there is a height it waits for one."""
        if not self._height:
            return
        height = max(1, self.scrollable_content_region.height - self.head)
        top = self.scroll_offset.y
        if top <= index < top + height:
            return
        third = height // 3
        if index == top + height:
            target = index - height + 1 + third
        elif index == top - 1:
            target = index - third
        else:
            target = index - height // 2
        self.scroll_to(y=max(0, target), animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        if self.SHOW_CURSOR:
            self.cursor += by
        else:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def action_page(self, direction: int) -> None:
        """Move by a screenful."""
        self.action_move(direction * max(1, self.scrollable_content_region.height - 1))

    def action_jump(self, index: int) -> None:
        """Move to the first (0) or last (-1) row."""
        last = self.row_count - 1
        if self.SHOW_CURSOR:
            self.cursor = last if index < 0 else 0
        else:
            self.scroll_to(y=last if index < 0 else 0, animate=False)

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.row_count:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y - self.head
        if event.y < self.head:
            self.head_clicked(event.x)
        if event.y >= self.head and 0 <= index < self.row_count:
            chosen = index == self.cursor or event.chain > 1
            self.cursor = index
            if chosen:
                self.action_choose()

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)


class TextRows(Rows):
    """Lines that were made beforehand; replacing them repaints only those that differ."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.lines: list[Line] = []

    @property
    def row_count(self) -> int:
        return len(self.lines)

    def row_line(self, index: int, width: int) -> Line:
        return self.lines[index]

    def render_line(self, y: int) -> Strip:
        """The last line says by an ellipsis that there are more below."""
        strip = super().render_line(y)
        if y < self.size.height - 1 or self.scroll_offset.y + y + 1 >= self.row_count:
            return strip
        width = self.scrollable_content_region.width
        return Strip.join([strip.crop(0, width - 2), self.paint([(" …", "dim")], 2)])

    def set_lines(self, lines: Sequence[Line], *, keep_cursor: bool = False) -> None:
        """Show other lines; the cursor stays where it was or goes to the top."""
        old, self.lines = self.lines, list(lines)
        if not keep_cursor and (self.scroll_offset.y or self.cursor):
            self.rows_changed(keep_cursor=False)
            return
        if len(old) != len(lines):
            self.virtual_size = Size(0, len(lines) + self.head)
            self.set_reactive(Rows.cursor, min(self.cursor, max(0, len(lines) - 1)))
            self.refresh_row(self.scroll_offset.y + self.size.height - 1)
        for index, (before, after) in enumerate(zip_longest(old, lines)):
            if before != after:
                self.refresh_row(index)

    def text(self) -> str:
        """All lines as plain text."""
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)


class Prose(TextRows, can_focus=False):
    """Lines to be read: there is no cursor, and no key scrolls them."""

    SHOW_CURSOR = False


# A pane of text beside what it is about.


class SidePane(TextRows):
    """Text that is wrapped to the pane's width: it tells when that is another one."""

    class Resized(Message):
        """The pane has another width."""

    _told = -1

    @property
    def text_width(self) -> int:
        """Cells of a line; before there is a width, some."""
        return max(20, (self.scrollable_content_region.width or 40) - 1)

    def on_resize(self) -> None:
        """Let the text be wrapped anew; on a first visit it was before there was a width."""
        if self.size.width != self._told:
            self._told = self.size.width
            self.post_message(self.Resized())
