"""Workspace Devices: the boards in reach, live, and what is known of the one under the cursor."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from engine import sanitize
from engine.wire.board import BOARD_ABOUT, About, AboutParams
from engine.wire.devices import DEVICES_LIST, Device, DeviceListParams, Listing
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.base.tables import TableWorkspace
from rknntui.screens.devices.actions import ACTIONS, NO_BOARD
from rknntui.screens.devices.tables import device_fields, device_records
from rknntui.screens.devices.text import about_lines, device_lines, notice_lines
from rknntui.widgets.facts_line import Fact, FactsLine
from rknntui.widgets.findings import wrapped
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from textual.timer import Timer

    from rknntui.widgets.strips import Line

__all__ = ["Devices"]

POLL_SECONDS = 1.0
REST_SECONDS = 0.3
"""A ready board is asked what it is once the cursor has rested on it for so long."""


class Devices(TableWorkspace):
    """The list on top or on the left, the board under the cursor below or beside it."""

    NAME = "devices"
    HELP = (
        "The boards that adb, SSH and USB reach, looked for once a second while this is on the "
        "screen. {devices.use} takes the board under the cursor for Run. {devices.add} adds a "
        "board over SSH. Nothing on a board is changed."
    )
    FIRST_FOCUS = "#boards"
    ACTIONS = ACTIONS
    DEFAULT_CSS = """
    Devices {
        & #devices-body { height: 1fr; }
        & #boards-view { width: 5fr; }
        & #board { width: 4fr; padding: 0 0 0 1; border-left: vkey $panel; }
        &.-stacked #devices-body { layout: vertical; }
        &.-stacked #boards-view { width: 1fr; height: 2fr; min-height: 5; }
        &.-stacked #board { width: 1fr; height: 3fr; border-left: none; border-top: hkey $panel; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._polling: Timer | None = None
        self._looking = False
        self._trouble = ""
        self._about: dict[str, About | Exception] = {}
        self._asked = ""
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield FactsLine(id="devices-facts")
        with Horizontal(id="devices-body"):
            table = RecordTable(device_fields(), id="boards", what="devices")
            yield RecordView("Boards", table, id="boards-view")
            yield SidePane(id="board")

    @property
    def table(self) -> RecordTable:
        """The boards."""
        return self.query_one("#boards", RecordTable)

    @property
    def pane(self) -> SidePane:
        """What is known of one."""
        return self.query_one("#board", SidePane)

    @property
    def device(self) -> Device | None:
        """The board under the cursor."""
        record, listing = self.table.record, self.session.listing
        if record is None or listing is None:
            return None
        return next((device for device in listing.devices if device.id == record["id"]), None)

    def on_mount(self) -> None:
        self._polling = self.set_interval(POLL_SECONDS, self._look, pause=not self.shown)

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self.set_class(self.size.width < 130, "-stacked")

    # -- looking -----------------------------------------------------------------------------------

    def update_view(self) -> None:
        self._draw()
        self._look()
        if self._polling is not None:
            self._polling.resume()

    def hide(self) -> None:
        if self._polling is not None:
            self._polling.pause()
        super().hide()

    def _look(self, *, start_server: bool = False) -> None:
        """Ask for the list, unless an answer is awaited."""
        if self._looking and not start_server:
            return
        self._looking = True
        params = DeviceListParams(ssh=self.session.ssh_boards, start_server=start_server)
        self.ask(DEVICES_LIST, params, self._listed, failed=self._not_listed)

    def _listed(self, listing: Listing) -> None:
        self._looking, self._trouble = False, ""
        before = self.session.listing
        self.session.listing = listing
        for device in () if before is None else before.devices:
            if device not in listing.devices:  # of another connection: it may be another board
                self._about.pop(device.id, None)
        if listing != before:
            self._draw()

    def _not_listed(self, error: Exception) -> None:
        self._looking = False
        trouble = str(getattr(error, "what", error))
        if getattr(error, "kind", "") == "usage" and self.session.ssh_boards:
            self.session.ssh_boards = ()  # kept by hand, or of another version
        if trouble != self._trouble:
            self._trouble = trouble
            self._tell()

    # -- drawing -----------------------------------------------------------------------------------

    def on_board_chosen(self) -> None:
        """Another board is used."""
        if self.shown:
            self._draw()

    def on_model_opened(self) -> None:
        """Whether another model fits was not asked yet."""
        self._about.clear()
        if self.shown:
            self._draw()

    def _draw(self) -> None:
        listing, table = self.session.listing, self.table
        devices = () if listing is None else listing.devices
        known = {name: told for name, told in self._about.items() if isinstance(told, About)}
        table.set_empty(with_keys(NO_BOARD) if listing is not None else "Looking for boards…")
        records = device_records(devices, self.session.board, known)
        table.set_records(records, keep="id")
        self._tell()
        self._moved()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        listing, facts = self.session.listing, self.query_one(FactsLine)
        if self._trouble:
            facts.show(Fact(f"✗ {sanitize(self._trouble, 200)}"))
            return
        if listing is None:
            facts.show("looking for boards")
            return
        ready = sum(device.state == "ready" for device in listing.devices)
        count = len(listing.devices)
        found = f"{count} board{'s' if count != 1 else ''}, {ready} ready"
        facts.show(found, self._used(), *_signs(listing))

    def _used(self) -> Fact:
        board, device = self.session.board, self.session.device
        if board is None:
            return Fact(f"none is used yet ({key_text('devices.use')})", ("none is used",), 1)
        name = sanitize(board, 80)
        gone = "" if device is not None else ", not in the list"
        return Fact(f"used in Run: {name}{gone}", (f"used: {name}{gone}",))

    @on(SidePane.Resized)
    @on(Rows.Highlighted, "#boards")
    def _moved(self) -> None:
        self._show()
        device = self.device
        if self._rest is not None:
            self._rest.stop()
        if device is None or device.state != "ready":
            return
        if device.id not in self._about and device.id != self._asked:
            self._rest = self.set_timer(REST_SECONDS, partial(self._ask_about, device))

    def _show(self) -> None:
        pane, device, listing = self.pane, self.device, self.session.listing
        width = max(20, pane.scrollable_content_region.width or 38)
        lines: list[Line] = []
        if device is not None:
            lines += device_lines(device, device.id == self.session.board, width)
            lines += self._told_of(device, width)
        if listing is not None:
            lines += notice_lines(listing.notices, width)[0 if lines else 1 :]
        pane.set_lines(lines, keep_cursor=True)

    def _told_of(self, device: Device, width: int) -> list[Line]:
        told = self._about.get(device.id)
        if isinstance(told, About):
            return about_lines(told, Path(self.session.container or "").name, width)
        if isinstance(told, Exception):
            parts = (getattr(told, "what", str(told)), getattr(told, "remedy", ""))
            text = " ".join(sanitize(str(part), 1000) for part in parts if part)
            return [[], *wrapped(f"✗ {text}", width, "bad")]
        if self._asked == device.id:
            return [[], [("asking the board…", "dim")]]
        if device.usable:
            return [[], [(f" {key_text('devices.refresh')} ", "key"), ("asks what it is", "")]]
        return []

    # -- one board ---------------------------------------------------------------------------------

    def _ask_about(self, device: Device) -> None:
        self._asked = device.id
        self._show()
        params = AboutParams(device.id, self.session.container)
        take = partial(self._take_about, device.id)
        self.ask(BOARD_ABOUT, params, take, failed=take)

    def _take_about(self, name: str, told: About | Exception) -> None:
        self._about[name] = told
        if self._asked == name:
            self._asked = ""
        self._draw()

    @on(Rows.Chosen, "#boards")
    def action_use(self) -> None:
        """Use the board under the cursor, and ask what it is."""
        device = self.device
        if device is None:
            return
        if not device.usable:
            self.notify(f"{device.id} is not ready: {device.what}", markup=False)
            return
        self.session.choose_board(device.id)
        if not isinstance(self._about.get(device.id), About):
            self._ask_about(device)

    def action_refresh(self) -> None:
        """Look at the board under the cursor again."""
        self._look()
        if (device := self.device) is not None and device.usable:
            self._ask_about(device)

    def action_server(self) -> None:
        """Start the adb server."""
        self._look(start_server=True)

    def action_add(self) -> None:
        """Ask for the address of a board over SSH."""
        from rknntui.screens.dialogs.dialogs import PromptDialog

        question = "[user@]host[:port]; host may be an alias of ~/.ssh/config"
        self.app.push_screen(PromptDialog("Add a board over SSH", question), self._add)

    def _add(self, typed: str | None) -> None:
        if not typed or not typed.strip():
            return
        address = typed.strip() if typed.strip().startswith("ssh:") else f"ssh:{typed.strip()}"
        params = DeviceListParams(ssh=(*self.session.ssh_boards, address))
        self._looking = True
        self.ask(DEVICES_LIST, params, self._added, failed=self._not_added)

    def _added(self, listing: Listing) -> None:
        known = set(self.session.ssh_boards)
        self.session.ssh_boards = tuple(d.id for d in listing.devices if d.kind == "ssh")
        self.workbench.save_state()
        self._listed(listing)
        for name in self.session.ssh_boards:
            if name not in known:
                self.table.select_record("id", name)

    def _not_added(self, error: Exception) -> None:
        self._looking = False
        self.workbench.show_error(error)

    def action_forget(self) -> None:
        """Take a board over SSH out of the list."""
        device, session = self.device, self.session
        if device is None or device.kind != "ssh":
            return
        session.ssh_boards = tuple(name for name in session.ssh_boards if name != device.id)
        if session.board == device.id:
            session.choose_board(None)
        self.workbench.save_state()
        self._looking = False
        self._look()

    # -- what the shell asks -----------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        device = self.device if self.is_attached else None
        if method in ("use", "refresh", "copy", "copy_command"):
            return "" if device is not None else "no board is in the list."
        if method == "forget" and (device is None or device.kind != "ssh"):
            return "only boards that were added ({devices.add}) are removed."
        if method == "server" and not _needs_server(self.session.listing):
            return "the adb server is up, or there is none to start."
        return super().unavailable_reason(method)

    def copy_text(self) -> str:
        device = self.device
        if self.pane.has_focus and self.pane.lines:
            return "".join(text for text, _ in self.pane.lines[self.pane.cursor]).strip()
        return "" if device is None else device.id

    def command_line(self) -> list[str]:
        device = self.device
        return [] if device is None else ["rknntui", "doctor", "--device", device.id]


def _signs(listing: Listing) -> list[Fact]:
    """How many notices there are, where there are any."""
    count = len(listing.notices)
    return [Fact(f"! {count} notice{'s' if count != 1 else ''}", rank=1)] if count else []


def _needs_server(listing: Listing | None) -> bool:
    return listing is not None and any(notice.code == "adb-server" for notice in listing.notices)
