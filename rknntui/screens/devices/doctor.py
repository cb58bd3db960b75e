"""The view Doctor: a board examined step by step; what would mend it is listed, never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from engine import sanitize
from rknntui.keys.text import key_text
from rknntui.screens.devices.text import check_lines
from rknntui.widgets.findings import wrapped
from rknntui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from engine.wire.doctor import Checks
    from rknntui.widgets.strips import Line

__all__ = ["DoctorPane"]


class DoctorPane(SidePane):
    """The last examination of each board."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._known: dict[str, Checks | Exception] = {}
        self._shown = ""
        self.asked = ""

    def show(self, device: str) -> None:
        """Show the examination of a board; empty for none."""
        again = device == self._shown
        self._shown = device
        self._lay_out(keep_cursor=again)

    def waiting(self, device: str) -> None:
        """A board is being examined."""
        self.asked = device
        self.show(device)

    def take(self, device: str, found: Checks | Exception) -> None:
        """Take what was found."""
        self._known[device] = found
        if self.asked == device:
            self.asked = ""
        if self._shown == device:
            self._lay_out(keep_cursor=False)

    @on(SidePane.Resized)
    def _rewrap(self) -> None:
        self._lay_out(keep_cursor=True)

    def _lay_out(self, *, keep_cursor: bool) -> None:
        width = max(20, (self.scrollable_content_region.width or 40) - 1)
        self.set_lines(self._made(width), keep_cursor=keep_cursor)

    def _made(self, width: int) -> list[Line]:
        run, name = key_text("devices.run"), sanitize(self._shown, 80)
        if not self._shown:
            return [[("No board is in the list.", "dim")]]
        if self.asked == self._shown:
            return [[(f"examining {name}…", "dim")]]
        found = self._known.get(self._shown)
        if found is None:
            text = "examines the board from the cable to the driver; nothing of it is changed"
            return [[(f" {run} ", "key"), (text, "")]]
        if isinstance(found, Exception):
            parts = (getattr(found, "what", str(found)), getattr(found, "remedy", ""))
            told = " ".join(sanitize(str(part), 1000) for part in parts if part)
            return wrapped(f"✗ {told}", width, "bad")
        bad = sum(check.state == "bad" for check in found.checks)
        verdict = f"{bad} problem{'s' if bad != 1 else ''}" if bad else "no problem found"
        lines: list[Line] = [[(name, "head"), (f"  {verdict}", "bad" if bad else "good")]]
        lines += check_lines(found.checks, width)
        if any(check.commands for check in found.checks):
            told = f"{key_text('devices.copy')} copies the command under the cursor; none is run."
            lines += [[], *wrapped(told, width, "dim")]
        return lines

    def line_text(self) -> str:
        """What stands under the cursor: of a command without its sign."""
        if not self.lines:
            return ""
        return "".join(text for text, _ in self.lines[self.cursor]).strip().removeprefix("$ ")
