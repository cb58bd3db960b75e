"""The line between two panes: the mouse drags it, keys move it, the next start has it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.strip import Strip

from rknntui.widgets.strips import Painted

if TYPE_CHECKING:
    from textual import events
    from textual.app import App
    from textual.widget import Widget

    from rknntui.shell import Shell

STEP = 5
"""Percent that a key moves it."""
LEAST = 15
"""Percent that each pane keeps."""


class Divider(Painted):
    """Stands between its two siblings; where the workspace's style gives it one line of height
    they are one above the other. Where it was never moved they are as the workspace has them.
    """

    DEFAULT_CSS = """
    Divider { width: 1; height: 1fr; color: $panel; }
    Divider:hover { color: $primary; }
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._stacked = False
        self._dragged = False

    @property
    def shares(self) -> dict[str, int]:
        """Percent of the pane before each divider, by its place and whether it lies."""
        return cast("Shell", self.app).dividers

    @property
    def _place(self) -> str:
        return f"{self.id} {'stacked' if self._stacked else 'beside'}"

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return self.paint([(("─" * width if width > 1 else "│"), "")], width)

    def on_resize(self) -> None:
        """It may lie now, and stood before."""
        stacked = self.size.width > 1
        if stacked != self._stacked or self._place in self.shares:
            self._stacked = stacked
            self._apply()

    def _panes(self) -> tuple[Widget, Widget]:
        siblings = self.parent.children if self.parent is not None else ()
        at = list(siblings).index(self)
        return siblings[at - 1], siblings[at + 1]

    def _apply(self) -> None:
        """Give the panes the share that the user chose; else what the workspace says."""
        share = self.shares.get(self._place)
        for pane, size in zip(self._panes(), (f"{share}%", "1fr"), strict=True):
            for rule in ("width", "height"):
                pane.styles.clear_rule(rule)
            if share is not None and self._stacked:
                pane.styles.height = size
            elif share is not None:
                pane.styles.width = size

    def move(self, by: int) -> None:
        """Move it by some percent."""
        first, second = self._panes()
        before = first.outer_size.height if self._stacked else first.outer_size.width
        after = second.outer_size.height if self._stacked else second.outer_size.width
        now = self.shares.get(self._place, round(100 * before / max(1, before + after)))
        self._take(now + by)

    def _take(self, share: int) -> None:
        self.shares[self._place] = max(LEAST, min(100 - LEAST, share))
        self._apply()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged = True
        self.capture_mouse()
        event.stop()

    def on_mouse_up(self) -> None:
        self._dragged = False
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self._dragged:
            return
        region = self._panes()[0].region.union(self._panes()[1].region)
        x, y = event.screen_x - region.x, event.screen_y - region.y
        part, whole = (y, region.height) if self._stacked else (x, region.width)
        self._take(round(100 * part / max(1, whole)))


def move_shown(app: App[None], by: int) -> None:
    """Move the line between the panes that are shown by some percent."""
    shown = next((divider for divider in app.screen.query(Divider) if divider.region.area), None)
    if shown is None:
        app.notify("No line between panes can be moved here.", severity="warning")
    else:
        shown.move(by)
