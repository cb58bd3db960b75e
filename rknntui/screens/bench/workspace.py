"""Workspace Devices: the boards in reach, live, and what is known of the one under the cursor."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from engine import sanitize
from engine.wire.board import BOARD_ABOUT, About, AboutParams
from engine.wire.board_tables import BOARDS
from engine.wire.devices import Device, Listing
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.bench.boards import Looking, Watching, examine, recipe_chip
from rknntui.screens.bench.panes import DoctorPane, MonitorPane
from rknntui.screens.bench.words import NO_BOARD, FactsPane, device_records
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import Fact, FactsLine, ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from textual.timer import Timer

    from rknntui.session.messages import JobChanged, JobEnded, RecipeChanged

REST_SECONDS = 0.3
"""A ready board is asked what it is once the cursor has rested on it for so long."""
_BESIDE = 130
"""Cells from which on the list and the view stand side by side."""
_EMPTY_ROWS = 9


class Devices(TableWorkspace):
    """The list on top or on the left, the board under the cursor below or beside it."""

    NAME = "bench"
    HELP = (
        "The boards on adb, SSH, NTB and USB, and this machine if it is a board; refreshed every "
        "second while this workspace is shown. {bench.use} uses the board under the cursor in "
        "Run. {bench.next-view} switches between what it is, its doctor and its monitor; "
        "{bench.run} starts each. "
        "Settings and system files of a board are not changed; the program writes only in its own "
        "folder there."
    )
    FIRST_FOCUS = "#boards"
    PANES = {"Facts": "board", "Doctor": "doctor", "Monitor": "monitor"}
    DEFAULT_CSS = """
    Devices {
        & #devices-body { layout: horizontal; height: 1fr; }
        & #boards-view { width: 5fr; height: 1fr; }
        & #devices-side { width: 5fr; }
        & #board, & #doctor { height: 1fr; padding: 0 0 0 1; }
        & #doctor, & #monitor { display: none; }
        &.-stacked #devices-body { layout: vertical; }
        &.-stacked #boards-view, &.-stacked #devices-side { width: 1fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._looking = Looking(self, self._looked)
        self._known: tuple[Device, ...] = ()
        self._rest: Timer | None = None
        self._marked: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield FactsLine(id="devices-facts")
        with Container(id="devices-body"):
            table = RecordTable(BOARDS, id="boards", what="devices")
            yield RecordView("Boards", table, id="boards-view")
            with Vertical(id="devices-side"):
                yield ViewBar(tuple(self.PANES), id="devices-views")
                yield FactsPane(id="board")
                yield DoctorPane(id="doctor")
                yield MonitorPane(id="monitor")

    table = getters.query_one("#boards", RecordTable)
    """The boards."""

    pane = getters.query_one(FactsPane)
    """What is known of one."""

    doctor = getters.query_one(DoctorPane)
    """Its examination."""

    monitor = getters.query_one(MonitorPane)
    """Boards watched."""

    @property
    def device(self) -> Device | None:
        """The board under the cursor."""
        record, listing = self.table.record, self.session.listing
        if record is None or listing is None:
            return None
        return next((device for device in listing.devices if device.id == record["id"]), None)

    @property
    def watching(self) -> Watching:
        """The job of the monitor."""
        return Watching(self.workbench, self.monitor)

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self._arrange()

    def _arrange(self) -> None:
        """Below each other the list takes the rows that it has, up to two fifths."""
        stacked = self.size.width < _BESIDE
        self.set_class(stacked, "-stacked")
        rows = self.table.total + 2 if self.table.total else _EMPTY_ROWS
        height = max(4, min(rows, self.size.height * 2 // 5))
        self.query_one("#boards-view").styles.height = height if stacked else "1fr"

    # -- looking -----------------------------------------------------------------------------------

    def update_view(self) -> None:
        self._draw()
        self._looking.resume()

    def hide(self) -> None:
        self._looking.pause()
        super().hide()

    def _looked(self) -> None:
        """The list changed: a board of another connection may be another one."""
        devices = () if self.session.listing is None else self.session.listing.devices
        for device in self._known:
            if device not in devices:
                self.pane.forget(device.id)
        self._known = devices
        self._draw()

    # -- drawing -----------------------------------------------------------------------------------

    def on_target_changed(self) -> None:
        """Another board is used."""
        if self.shown:
            self._draw()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Without a compiled model the recipe's chip is held against the board."""
        if "target_platform" in message.names:
            self.on_model_opened()

    def on_model_opened(self) -> None:
        """Whether another model fits was not asked yet."""
        self.pane.forget()
        if self.shown:
            self._draw()

    def _draw(self) -> None:
        listing, table = self.session.listing, self.table
        devices = () if listing is None else listing.devices
        table.set_empty(with_keys(NO_BOARD) if listing is not None else "Looking for boards…")
        chosen, known = self.session.board, self.pane.known
        table.set_records(device_records(devices, chosen, self._marked, known), keep="id")
        self._arrange()
        self._tell()
        self._moved()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        listing, facts = self.session.listing, self.query_one(FactsLine)
        if self._looking.trouble:
            facts.show(Fact(f"✗ {sanitize(self._looking.trouble, 200)}"))
            return
        if listing is None:
            facts.show("looking for boards")
            return
        ready = sum(device.state == "ready" for device in listing.devices)
        count, notices = len(listing.devices), len(listing.notices)
        summary = f"{count} board{'s' if count != 1 else ''}, {ready} ready"
        notes = [Fact(f"! {notices} notice{'s' if notices != 1 else ''}", (), 1)] if notices else []
        facts.show(summary, self._used(), *notes)

    def _used(self) -> Fact:
        board, device = self.session.board, self.session.device
        if board is None:
            return Fact(f"none is used yet ({key_text('bench.use')})", ("none is used",), 1)
        name = sanitize(board, 80)
        gone = "" if device is not None else ", not in the list"
        return Fact(f"used in Run: {name}{gone}", (f"used: {name}{gone}",))

    @on(Rows.Highlighted, "#boards")
    def _moved(self) -> None:
        self._show()
        if self._rest is not None:
            self._rest.stop()
        device = self.device
        if device is not None and self.view == "Facts" and self.pane.wants(device):
            self._rest = self.set_timer(REST_SECONDS, partial(self._ask_about, device))

    def _show(self) -> None:
        device, listing = self.device, self.session.listing
        notices = () if listing is None else listing.notices
        used = device is not None and device.id == self.session.board
        self.pane.show(device, notices, used=used, model=self.session.container)
        model = Path(self.session.container or "").name
        self.doctor.show("" if device is None else device.id, model)

    def pane_shown(self, view: str) -> None:
        if self.screen.focused is not self.table:
            self.table.focus()
        self._moved()

    # -- one board ---------------------------------------------------------------------------------

    @on(Rows.Chosen, "#boards")
    def action_use(self) -> None:
        """Use the board under the cursor, and ask what it is."""
        if (device := self.device) is None:
            return
        if not device.usable:
            self.notify(f"{device.id} is not ready: {device.what}", markup=False)
            return
        self.session.choose_board(device.id)
        if device.id not in self.pane.known:
            self._ask_about(device)

    def action_run(self) -> None:
        """Ask the board what it is, examine it, or start and stop a watch, as the view is."""
        if self.view == "Monitor":
            self.watching.start_or_stop(self._watched())
            return
        device = self.device
        if device is None:
            return
        if self.view == "Doctor":
            examine(self.workbench, self.doctor, device.id)
        elif device.usable:
            self._ask_about(device)

    def _ask_about(self, device: Device) -> None:
        self.pane.waiting(device.id)
        asked = AboutParams(device.id, self.session.container, chip=recipe_chip(self.session))
        take = partial(self._take_about, device, asked)
        self.ask(BOARD_ABOUT, asked, take, failed=take)

    def _take_about(self, device: Device, asked: AboutParams, answer: About | Exception) -> None:
        session = self.session
        if (asked.model, asked.chip) != (session.container, recipe_chip(session)):
            self._ask_about(device)  # whether another one fits is another answer
            return
        self.pane.take(device.id, answer)
        self._draw()

    # -- the list ----------------------------------------------------------------------------------

    def action_server(self) -> None:
        """Start the adb server."""
        self._looking.start_server()

    def action_add(self) -> None:
        """Ask for the address of a board over SSH."""
        from rknntui.screens.dialogs.dialogs import PromptDialog

        def typed(text: str | None) -> None:
            if text and text.strip():
                self._looking.add(text, partial(self.table.select_record, "id"))

        question = "[user@]host[:port]; host may be an alias of ~/.ssh/config"
        self.app.push_screen(PromptDialog("Add a board over SSH", question), typed)

    def action_forget(self) -> None:
        """Take a board over SSH out of the list."""
        if self.device is not None and self.device.kind == "ssh":
            self._looking.forget(self.device)

    # -- the monitor -------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Mark the board under the cursor, or take its mark away."""
        device = self.device
        if device is not None:
            rest = tuple(name for name in self._marked if name != device.id)
            self._marked = rest if device.id in self._marked else (*rest, device.id)
            self._draw()

    def _watched(self) -> tuple[str, ...]:
        """The boards that a watch would look at: those marked, else the one under the cursor."""
        device = self.device
        return self._marked or (() if device is None else (device.id,))

    @on(MonitorPane.Wanted)
    def _start(self, event: MonitorPane.Wanted) -> None:
        self.watching.start(event)

    def on_job_changed(self, message: JobChanged) -> None:
        """The watch may have seen something."""
        if (job := self.session.jobs.get(message.job)) is not None:
            self.monitor.changed(job)
            self.doctor.changed(job)

    def on_job_ended(self, message: JobEnded) -> None:
        """The watch may be over."""
        if (job := self.session.jobs.get(message.job)) is not None:
            self.monitor.ended(job, message.result)
            self.doctor.ended(job, message.result)
        self.screen.refresh_bindings()

    def action_pause(self) -> None:
        """Hold what is shown; a recording waits."""
        self.watching.pause()

    def action_faster(self) -> None:
        """Look more often."""
        self.monitor.set_hertz(1)

    def action_slower(self) -> None:
        """Look less often."""
        self.monitor.set_hertz(-1)

    def action_record(self) -> None:
        """Ask for a file, watch and record."""
        self.watching.record(self._watched())

    def action_replay(self) -> None:
        """Choose a recording and show it."""
        self.watching.replay()

    # -- what the shell asks -----------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        device, monitor = self.device, self.monitor
        if elsewhere := self.other_view(method):
            return elsewhere
        if method == "run" and self.view == "Monitor" and monitor.going:
            return ""
        if method in ("use", "run", "copy", "copy_command", "mark", "record") and device is None:
            return "no board is in the list."
        if method == "forget" and (device is None or device.kind != "ssh"):
            return "only boards that were added ({bench.add}) are removed."
        if method == "server" and not _needs_server(self.session.listing):
            return "the adb server is up, or there is none to start."
        if method == "pause" and not monitor.running:
            return "nothing is watched ({bench.run} watches)."
        if method in ("faster", "slower") and monitor.recording:
            return "a recording has one rate; stop it first ({bench.run})."
        return super().unavailable_reason(method)

    def copy_text(self) -> str:
        device = self.device
        if self.doctor.has_focus:
            return self.doctor.line_text()
        if self.pane.has_focus and self.pane.lines:
            return "".join(text for text, _ in self.pane.lines[self.pane.cursor]).strip()
        if self.view == "Monitor":
            return self.monitor.rows.text()
        return "" if device is None else device.id

    def command_line(self) -> list[str]:
        if self.view == "Monitor":
            return self.monitor.command(self._watched())
        device, model = self.device, self.session.container
        if device is None:
            return []
        held = ["--model", model] if model is not None and self.view == "Doctor" else []
        return ["rknntui", "doctor", "--device", device.id, *held]


def _needs_server(listing: Listing | None) -> bool:
    return listing is not None and any(notice.code == "adb-server" for notice in listing.notices)
