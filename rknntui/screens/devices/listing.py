"""The list of boards, looked for again and again, and the boards over SSH that a user named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.devices import DEVICES_LIST, Device, DeviceListParams, Listing
from rknntui.screens.base.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

__all__ = ["Looking"]

POLL_SECONDS = 1.0


class Looking:
    """Keeps ``session.listing`` fresh while its workspace is shown.

    Args:
        owner: asks for it.
        changed: called when there is something else to show.

    Attributes:
        trouble: why the last look told nothing; empty where it did.
    """

    def __init__(self, owner: Workspace, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._changed = changed
        self._waiting = False
        self._timer: Timer | None = None
        self.trouble = ""

    @property
    def active(self) -> bool:
        """Whether it looks again and again."""
        return self._timer is not None

    def resume(self) -> None:
        """Look now and once a second from now on."""
        self.look()
        if self._timer is None:
            self._timer = self._owner.set_interval(POLL_SECONDS, self.look)

    def pause(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def look(self) -> None:
        """Ask for the list, unless an answer is awaited."""
        if not self._waiting:
            self._ask(False)

    def start_server(self) -> None:
        """Start the adb server, and look."""
        self._ask(True)

    def _ask(self, start_server: bool) -> None:
        self._waiting = True
        params = DeviceListParams(self._owner.session.ssh_boards, start_server)
        self._owner.ask(DEVICES_LIST, params, self._listed, failed=self._failed)

    def _listed(self, listing: Listing) -> None:
        trouble, self._waiting, self.trouble = self.trouble, False, ""
        before, self._owner.session.listing = self._owner.session.listing, listing
        if listing != before or trouble:
            self._changed()

    def _failed(self, error: Exception) -> None:
        self._waiting = False
        session = self._owner.session
        if getattr(error, "kind", "") == "usage" and session.ssh_boards:
            session.ssh_boards = ()  # of a state file that was changed by hand
        trouble = str(getattr(error, "what", error))
        if trouble != self.trouble:
            self.trouble = trouble
            self._changed()

    # -- boards over SSH ---------------------------------------------------------------------------

    def add(self, typed: str, then: Callable[[str], object]) -> None:
        """Add a board by its address; ``then`` is called with its id once it is in the list."""
        text = typed.strip()
        address = text if text.startswith("ssh:") else f"ssh:{text}"
        session = self._owner.session
        known = set(session.ssh_boards)

        def added(listing: Listing) -> None:
            session.ssh_boards = tuple(d.id for d in listing.devices if d.kind == "ssh")
            self._owner.workbench.save_state()
            self._listed(listing)
            for name in session.ssh_boards:
                if name not in known:
                    then(name)

        def refused(error: Exception) -> None:
            self._waiting = False
            self._owner.workbench.show_error(error)

        self._waiting = True
        params = DeviceListParams((*session.ssh_boards, address))
        self._owner.ask(DEVICES_LIST, params, added, failed=refused)

    def forget(self, device: Device) -> None:
        """Take a board over SSH out of the list."""
        session = self._owner.session
        session.ssh_boards = tuple(name for name in session.ssh_boards if name != device.id)
        if session.board == device.id:
            session.choose_board(None)
        self._owner.workbench.save_state()
        self._ask(False)
