"""The view Facts: the state of a board, and what a ready one tells of itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from engine import sanitize
from engine.wire.board import About
from rknntui.keys.text import key_text
from rknntui.screens.devices.text import about_lines, device_lines, notice_lines
from rknntui.widgets.findings import wrapped
from rknntui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine import Finding
    from engine.wire.devices import Device
    from rknntui.widgets.strips import Line


class FactsPane(SidePane):
    """One board, and the notices of the list."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._answers: dict[str, About | Exception] = {}
        self._device: Device | None = None
        self._used = False
        self._model = ""
        self._notices: Sequence[Finding] = ()
        self.asked = ""

    @property
    def known(self) -> Mapping[str, About]:
        """What boards told of themselves, by their ids."""
        return {name: told for name, told in self._answers.items() if isinstance(told, About)}

    def show(
        self, device: Device | None, notices: Sequence[Finding], *, used: bool, model: str | None
    ) -> None:
        """Show a board.

        Args:
            device: the one under the cursor.
            notices: of the list as a whole.
            used: whether it is the board that runs use.
            model: path of the compiled model that is open.
        """
        same = self._device is not None and device is not None and self._device.id == device.id
        self._device, self._notices, self._used = device, notices, used
        self._model = Path(model).name if model else ""
        self._lay_out(keep_cursor=same)

    def wants(self, device: Device) -> bool:
        """Whether a board is to be asked what it is, unasked by the user."""
        return device.state == "ready" and device.id not in {*self._answers, self.asked}

    def waiting(self, device: str) -> None:
        """A board is being asked."""
        self.asked = device
        self._lay_out(keep_cursor=True)

    def take(self, device: str, told: About | Exception) -> None:
        """Take what a board told, or why it did not."""
        self._answers[device] = told
        if self.asked == device:
            self.asked = ""

    def forget(self, device: str | None = None) -> None:
        """Forget what a board told, or all of them."""
        if device is None:
            self._answers.clear()
        else:
            self._answers.pop(device, None)

    @on(SidePane.Resized)
    def _rewrap(self) -> None:
        self._lay_out(keep_cursor=True)

    def _lay_out(self, *, keep_cursor: bool) -> None:
        width = max(20, (self.scrollable_content_region.width or 40) - 1)
        lines: list[Line] = []
        if self._device is not None:
            lines += device_lines(self._device, self._used, width)
            lines += self._told_of(self._device, width)
        lines += notice_lines(self._notices, width)[0 if lines else 1 :]
        self.set_lines(lines, keep_cursor=keep_cursor)

    def _told_of(self, device: Device, width: int) -> list[Line]:
        told = self._answers.get(device.id)
        if self.asked == device.id and not isinstance(told, About):
            return [[], [("asking the board…", "dim")]]
        if isinstance(told, About):
            return about_lines(told, self._model, width)
        if isinstance(told, Exception):
            parts = (getattr(told, "what", str(told)), getattr(told, "remedy", ""))
            text = " ".join(sanitize(str(part), 1000) for part in parts if part)
            return [[], *wrapped(f"✗ {text}", width, "bad")]
        if device.usable:
            return [[], [(f" {key_text('devices.run')} ", "key"), ("asks what it is", "")]]
        return []
