"""Boards: those that are known, their chips, and the one that is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.message import Message

from rknntui.session.messages import TargetChanged

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.devices import Device, Listing
    from rknntui.session.kept import State


class Boards:
    """The boards of this run, and of earlier ones.

    Args:
        publish: tells a message to everybody.

    Attributes:
        chosen: id of the board that is used, as ``adb:SERIAL``; None where none was chosen.
        listing: boards of the last look; None before one.
        over_ssh: addresses of boards over SSH that the user has named.
        chips: id of a board -> its chip, of those that told it.
        emulated: ids of those that end with the workbench: the next start knows nothing of them.
    """

    def __init__(self, publish: Callable[[Message], None]) -> None:
        self._publish = publish
        self.chosen: str | None = None
        self.listing: Listing | None = None
        self.over_ssh: tuple[str, ...] = ()
        self.chips: dict[str, str] = {}
        self.emulated: set[str] = set()

    def choose(self, board: str | None) -> None:
        """Take the board that runs, measurements and comparisons use; None for none."""
        if board != self.chosen:
            self.chosen = board
            self._publish(TargetChanged())

    def add(self, address: str) -> None:
        """Look for a board over SSH from now on."""
        self.over_ssh = tuple(dict.fromkeys((*self.over_ssh, address)))

    def forget(self, board: str) -> None:
        """Look for a board no more, and use it no more."""
        self.over_ssh = tuple(name for name in self.over_ssh if name != board)
        if self.chosen == board:
            self.choose(None)

    def chip_of(self, board: str | None) -> str:
        """The chip of a board, by its id; empty where it never told."""
        return self.chips.get(board or "", "")

    @property
    def devices(self) -> tuple[Device, ...]:
        """Those that the last look found; none before one."""
        return () if self.listing is None else self.listing.devices

    @property
    def notices(self) -> tuple[Finding, ...]:
        """What the last look found that belongs to no board."""
        return () if self.listing is None else self.listing.notices

    @property
    def device(self) -> Device | None:
        """The chosen board as the last look found it; None where it is not in the list."""
        return next((device for device in self.devices if device.id == self.chosen), None)

    @property
    def met(self) -> bool:
        """Whether the chosen board is known to be there: a name over SSH alone may be wrong."""
        device = self.device
        return device is not None and (device.state == "ready" or bool(self.chip_of(device.id)))

    def answered(self, answer: object) -> None:
        """The worker answered: take what it tells of a board."""
        # by its fields: the types would be imported at the first answer of all
        facts = getattr(answer, "facts", answer)
        device, chip = getattr(facts, "device", ""), getattr(facts, "chip", "")
        if device and chip and self.chips.get(device) != chip:
            self.chips[device] = chip
            self._publish(TargetChanged())

    def restore(self, state: State) -> None:
        """Take those of the last run."""
        self.chosen, self.over_ssh = state.board, state.ssh_boards
        self.chips = dict(state.board_chips)

    def to_state(self) -> dict[str, Any]:
        """What is kept of them for the next start, by field of the state."""
        return {
            "board": None if self.chosen in self.emulated else self.chosen,
            "ssh_boards": self.over_ssh,
            "board_chips": {k: v for k, v in self.chips.items() if k not in self.emulated},
        }
