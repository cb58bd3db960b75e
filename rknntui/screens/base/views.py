"""The views of a workspace: their names, the one that is shown, and what is said below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on
from textual.containers import Container, Vertical
from textual.message import Message

from rknntui.widgets.line_list import TextRows
from rknntui.widgets.view_bar import ViewBar

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from rknntui.widgets.strips import Line

LOW = 32
"""Lines of a terminal below which little is said beside the figures."""
_FEW_LINES, _MANY_LINES = 4, 8


class Views(Vertical):
    """One pane of several, with a bar of their names above and a few lines below.

    A subclass sets ``VIEWS``, yields the panes in ``panes``, and tells in ``notes`` what is said
    and in ``first_focus`` which widget of the view takes the keys.
    """

    VIEWS: ClassVar[Mapping[str, str]] = {}
    """Name of a view -> id of its pane, in their order."""
    NOTES_FOCUS: ClassVar[bool] = True
    """Whether the lines below take the focus, so that keys scroll them."""
    DEFAULT_CSS = """
    Views {
        height: 1fr;
        & > .views-body { height: 1fr; }
        & > .views-notes { height: auto; padding: 0 1; }
    }
    """

    class Changed(Message):
        """Another view is shown, or (``view`` False) the cursor is elsewhere."""

        def __init__(self, *, view: bool) -> None:
            super().__init__()
            self.view = view

    # -- what a subclass defines -------------------------------------------------------------------

    def panes(self) -> Iterator[Widget]:
        """The panes, each with the id that ``VIEWS`` has."""
        raise NotImplementedError

    def notes(self, width: int) -> list[Line]:
        """What is said below the view, wrapped to so many cells; nothing hides the lines."""
        return []

    def most_notes(self) -> int:
        """Lines that the notes take at most."""
        return _FEW_LINES if self.app.size.height < LOW else _MANY_LINES

    @property
    def first_focus(self) -> Widget:
        """The widget of the view that takes the keys."""
        raise NotImplementedError

    # -- what it does ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield ViewBar(tuple(self.VIEWS))
        with Container(classes="views-body"):
            yield from self.panes()
        yield TextRows(classes="views-notes")

    def on_mount(self) -> None:
        notes = self.told
        notes.SHOW_CURSOR = False
        notes.can_focus = self.NOTES_FOCUS
        notes.display = False
        self._reveal()

    bar = getters.query_one(ViewBar)
    """The names of the views."""

    @property
    def view(self) -> str:
        """The one that is shown."""
        return self.bar.current

    told = getters.query_one(".views-notes", TextRows)
    """The lines below."""

    def tell(self) -> None:
        """Say what belongs to the view, in the width of now."""
        lines = self.notes(max(20, self.size.width - 4))
        notes = self.told
        notes.display = bool(lines)
        notes.styles.height = min(len(lines), self.most_notes())
        same = bool(lines) and lines[:1] == notes.lines[:1]
        notes.set_lines(lines, keep_cursor=self.NOTES_FOCUS or same)

    def on_resize(self) -> None:
        """Wrap anew."""
        self.call_after_refresh(self.tell)

    def _reveal(self) -> None:
        for name, pane in self.VIEWS.items():
            self.query_one(f"#{pane}").display = name == self.view

    @on(ViewBar.Changed)
    def _view_changed(self, event: ViewBar.Changed) -> None:
        event.stop()
        self._reveal()
        self.first_focus.focus()
        self.post_message(self.Changed(view=True))
