"""The list of boards, looked for again and again, and the boards over SSH that a user named."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.devices import DEVICES_LIST, Device, DeviceListParams, Listing
from rknntui.screens.base.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

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
        named = self._owner.session.ssh_boards
        if _is_refusal(error) and named:  # of a state file that was changed by hand
            self._sift(named, error)
        else:
            self._tell(error)

    def _sift(self, named: tuple[str, ...], error: Exception, dropped: bool = False) -> None:
        """Ask for boards one by one, and drop those whose address is refused, no others.

        Args:
            named: those that were not asked for yet.
            error: why all together were refused.
            dropped: whether one was dropped.
        """
        if not named:
            if dropped:
                self._ask(False)
            else:
                self._tell(error)
            return
        owner, first = self._owner, named[0]
        go_on = partial(self._sift, named[1:], error)

        def failed(of_first: Exception) -> None:
            if not _is_refusal(of_first):  # as that there is no worker: it says nothing of a board
                self._tell(of_first)
                return
            session = owner.session
            session.ssh_boards = tuple(name for name in session.ssh_boards if name != first)
            told = f"{sanitize(first, 80)} is not the address of a board; it was removed."
            owner.notify(told, severity="warning", markup=False)
            go_on(True)

        params = DeviceListParams((first,))
        owner.ask(DEVICES_LIST, params, lambda _: go_on(dropped), failed=failed)

    def _tell(self, error: Exception) -> None:
        self._waiting = False
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


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "kind", "") == "usage"
