"""The line between two panes: the mouse drags it, keys move it, the next start has it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.strip import Strip

from rknntui.shell import InShell
from rknntui.widgets.strips import Painted

if TYPE_CHECKING:
    from textual import events
    from textual.app import App
    from textual.geometry import Size
    from textual.widget import Widget


LEAST = 15
"""Percent that each pane keeps."""


class Divider(InShell, Painted):
    """Stands between the two panes beside it, or lies where their container puts one below another.

    Where it was never moved they are as the workspace has them.
    """

    DEFAULT_CSS = """
    Divider { width: auto; height: auto; color: $panel; }
    Divider:hover { color: $primary; }
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._applied: tuple[str, list[Widget]] = ("", [])
        self._dragged = False

    @property
    def shares(self) -> dict[str, int]:
        """Percent of the pane before each divider, by its place and whether it lies."""
        return self.workbench.dividers

    @property
    def stacked(self) -> bool:
        """Whether it lies."""
        return cast("Widget", self.parent).layout.name == "vertical"

    @property
    def _place(self) -> str:
        return f"{self.id} {'stacked' if self.stacked else 'beside'}"

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width if self.stacked else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 if self.stacked else container.height

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return self.paint([("─" * width if self.stacked else "│", "")], width)

    def on_mount(self) -> None:
        """Stand there only while there are panes on both sides: each layout may have others."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._follow, immediate=True)

    def _follow(self, _: object) -> None:
        panes = self.panes()
        between, place = len(panes) > 1, self._place
        if between != bool(self.display):
            self.display = between
        before, self._applied = self._applied, (place, panes)
        if before != self._applied and {place, before[0]} & self.shares.keys():
            self._apply()

    def panes(self) -> list[Widget]:
        """What is shown right before and behind it."""
        siblings = list(cast("Widget", self.parent).children)
        at = siblings.index(self)
        before = [pane for pane in siblings[:at] if pane.display]
        behind = [pane for pane in siblings[at + 1 :] if pane.display]
        return before[-1:] + behind[:1]

    def _apply(self) -> None:
        """Give the panes the share that the user chose; else what the workspace says."""
        share = self.shares.get(self._place)
        for pane, size in zip(self.panes(), (f"{share}%", "1fr"), strict=False):
            for rule in ("width", "height", "max_width", "max_height"):
                pane.styles.clear_rule(rule)
            if share is not None and self.stacked:
                pane.styles.height, pane.styles.max_height = size, "100%"
            elif share is not None:
                pane.styles.width, pane.styles.max_width = size, "100%"

    def move(self, by: int) -> None:
        """Move it by some percent."""
        before, behind = (
            pane.outer_size.height if self.stacked else pane.outer_size.width
            for pane in self.panes()
        )
        now = self.shares.get(self._place, round(100 * before / max(1, before + behind)))
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
        first, second = self.panes()
        region = first.region.union(second.region)
        x, y = event.screen_x - region.x, event.screen_y - region.y
        part, whole = (y, region.height) if self.stacked else (x, region.width)
        self._take(round(100 * part / max(1, whole)))


def move_shown(app: App[None], by: int) -> None:
    """Move the line between the panes around the focus by some percent, else the first shown."""
    shown = [divider for divider in app.screen.query(Divider) if divider.region.area]
    around = app.focused.ancestors if app.focused is not None else ()
    near = (divider for node in around for divider in shown if divider.parent is node)
    if (divider := next(near, shown[0] if shown else None)) is not None:
        divider.move(by)
    else:
        app.notify("No line between panes can be moved here.", severity="warning")
