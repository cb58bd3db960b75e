"""The list of boards, kept fresh, boards that the user adds, and why an action cannot act."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine import EMULATED_CHIPS
from engine.wire.devices import (
    DEVICES_ADD,
    DEVICES_LIST,
    DEVICES_REMOVE,
    AddBoardParams,
    Device,
    DeviceListParams,
    Listing,
    NamedBoard,
)
from rknntui.screens.dialogs.request import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.bench.workspace import Bench

POLL_SECONDS = 1.0
_ADDRESS = re.compile(r"ssh:[\w.@:%\[\]-]{1,300}")
NEW_BOARD = Form("Add a board", (AddBoardParams,))


class Looking:
    """Keeps ``session.boards.listing`` fresh while its workspace is shown.

    Args:
        owner: asks for it.
        changed: called when there is something else to show.

    Attributes:
        timer: looks again and again.
        trouble: why the last look told nothing; empty where it did.
    """

    def __init__(self, owner: Bench, changed: Callable[[], None]) -> None:
        self._owner, self._changed = owner, changed
        self._waiting = False
        self.timer = owner.set_interval(POLL_SECONDS, self.look, pause=True)
        self.trouble = ""

    def look(self, *, start_server: bool = False) -> None:
        """Ask for the list, unless an answer is awaited; no more once nobody looks at it."""
        if not (self._owner.shown or self._owner.run.waiting):
            self.timer.pause()
        elif start_server or not self._waiting:
            self._waiting = True
            params = DeviceListParams(self._owner.session.boards.over_ssh, start_server)
            self._owner.ask(DEVICES_LIST, params, self._listed, failed=self._failed)

    def _listed(self, listing: Listing) -> None:
        boards = self._owner.session.boards
        before, boards.listing = boards.listing, listing
        self._tell("", listing != before)
        if self._owner.run.waiting:
            self._owner.run.seen(listing.devices)

    def _failed(self, error: Exception) -> None:
        boards = self._owner.session.boards
        named = tuple(name for name in boards.over_ssh if _ADDRESS.fullmatch(name))
        if getattr(error, "kind", "") == "usage" and named != boards.over_ssh:
            boards.over_ssh = named  # of a state file that was changed by hand
            self._owner.notify("What is no address of a board was removed.", severity="warning")
            self._waiting = False
            self.look()
        else:
            self._tell(str(getattr(error, "what", error)))

    def _tell(self, trouble: str, changed: bool = False) -> None:
        self._waiting = False
        if changed or trouble != self.trouble:
            self.trouble = trouble
            self._changed()

    # -- boards that the user names ----------------------------------------------------------------

    def ask_board(self, then: Callable[[str], object]) -> None:
        """Ask which board to add; ``then`` is called with its id."""
        owner, session = self._owner, self._owner.session

        def add(params: AddBoardParams) -> None:
            if params.over == "emulated":
                owner.notify(f"Starting an emulated {params.chip}…", markup=False)
            owner.ask(DEVICES_ADD, params, lambda board: added(params, board))

        def added(params: AddBoardParams, board: NamedBoard) -> None:
            if params.over == "ssh":
                session.boards.add(board.device)
            elif params.over == "emulated":
                session.boards.emulated.add(board.device)
            owner.workbench.save_state()
            for note in board.notes:
                owner.notify(note, severity="warning", timeout=15, markup=False)
            then(board.device)
            self.look()

        chip = session.chip if session.chip in EMULATED_CHIPS else "rk3588"
        boards = session.boards
        real = any(one.usable and one.id not in boards.emulated for one in boards.devices)
        now = AddBoardParams("adb" if real else "emulated", chip=chip)
        choices = {"chip": EMULATED_CHIPS}
        NEW_BOARD.ask(owner.app, now, then=add, check=_addressed, choices=choices)

    def forget(self, device: Device) -> None:
        """Let a board on the network go; an emulated one ends."""
        self._owner.session.boards.forget(device.id)
        self._owner.workbench.save_state()
        self._owner.ask(DEVICES_REMOVE, NamedBoard(device.id), lambda _: self.look())


def _addressed(params: AddBoardParams) -> AddBoardParams:
    """The same; ValueError where there is no address and it needs one, or one that it lacks."""
    emulated, named = params.over == "emulated", bool(params.address.strip())
    if emulated and named:
        raise ValueError("address: an emulated board has none; it is over adb or ssh.")
    if not emulated and not named:
        raise ValueError("address: it is needed, as 192.168.0.7:5555 or pi@board.")
    return params


# Why a key cannot act now.

_ON_BOARD = (
    *("use", "run", "mark", "watch", "record", "examine", "compare", "memory"),
    *("next_view", "previous_view"),
)


def reason(bench: Bench, method: str) -> str:
    """Why an action of Bench cannot run now, keys as in help texts; empty when it can."""
    device, watch, session = bench.device, bench.watch_job, bench.session
    if {"run": bench.run.going, "watch": watch.now is not None}.get(method):
        return ""  # the key ends it
    if method == "compare" and bench.view == "Runs":
        return "" if bench.views.run_pair else "there are no two runs ({bench.run} measures)."
    none = session.boards.listing is not None and bench.has_class("-empty")
    added = device is not None and (
        device.kind == "ssh" or (device.kind == "adb" and ":" in device.id.removeprefix("adb:"))
    )
    whys = {
        "no board is in the list ({bench.add} adds one).": (
            method in _ON_BOARD and device is None and (none or method == "use" or not bench.board)
        ),
        "no model is open ({app.open} opens one).": (
            method in ("run", "compare", "memory") and session.model is None
        ),
        "a comparison needs the model itself, not its container; open the model.": (
            method == "compare" and session.container is not None
        ),
        "only boards that were added ({bench.add}) are removed.": method == "forget" and not added,
        "the adb server is up, or there is none to start.": (
            method == "server" and all(one.code != "adb-server" for one in session.boards.notices)
        ),
        "" if device is None else f"{device.id} is not ready: {device.what}": (
            method == "use" and device is not None and not device.usable
        ),
        "a recording has one rate; stop it first ({bench.watch}).": (
            method == "step_rate" and watch.recording
        ),
        "nothing is watched ({bench.watch} watches).": method == "pause" and watch.now is None,
        "no layer of the build is under the cursor.": (
            method in ("node", "drill") and not bench.views.layer_id
        ),
    }
    return next((why for why, holds in whys.items() if holds), "")
