"""Jump mode: a letter on every pane; pressing it gives the pane the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import ModalScreen
from textual.widgets import Label

from rknntui.keys.actions import REGISTRY
from rknntui.workspaces import WORKSPACES

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from rknntui.shell import Shell

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


def jump(app: Shell) -> None:
    """Put a letter on every pane, where no dialog is open; go where the user says."""
    if len(app.screen_stack) > 1:
        return
    panes = [widget for widget in app.screen.focus_chain if widget.region.area]
    keys = {key: name for name in WORKSPACES for key in REGISTRY.keys_of(f"go.{name}")}

    def go(name: str | None) -> None:
        if name:
            app.do(app.show(name))

    app.push_screen(JumpOverlay(panes, keys), go)


class JumpOverlay(ModalScreen[str | None]):
    """Dismissed with the name of a workspace; focusing a pane happens here.

    Any other key closes it.

    Args:
        targets: widgets that can have the focus, in the order of the letters.
        workspaces: key -> name of the workspaces, which have their own keys here too.
    """

    DEFAULT_CSS = """
    JumpOverlay { background: $background 30%; }
    JumpOverlay Label {
        position: absolute; width: auto;
        background: $accent; color: $background; text-style: bold;
    }
    """

    def __init__(self, targets: list[Widget], workspaces: dict[str, str]) -> None:
        super().__init__()
        self._targets = dict(zip(LETTERS, targets, strict=False))
        self._workspaces = workspaces

    def compose(self) -> ComposeResult:
        for letter in self._targets:
            yield Label(f" {letter} ", id=f"jump-{letter}")

    def on_mount(self) -> None:
        self._place()

    def on_resize(self) -> None:
        self.call_after_refresh(self._place)

    def _place(self) -> None:
        """Labels follow their panes, also after a resize."""
        for letter, widget in self._targets.items():
            region = widget.region
            label = self.query_one(f"#jump-{letter}", Label)
            label.display = region.width > 0 and region.height > 0
            label.styles.offset = (region.x, region.y)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        target = self._targets.get(event.key)
        if target is not None and target.is_attached:
            self.dismiss(None)
            target.focus()
        else:
            self.dismiss(self._workspaces.get(event.key))
