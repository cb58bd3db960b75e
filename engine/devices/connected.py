"""A board that is connected for the time of one job: the way to it, and what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.errors import DeviceError
from engine.devices.address import Address
from engine.devices.choose import choose
from engine.devices.probe.identify import BoardIdentity, identify
from engine.devices.reach import reach
from engine.devices.transport import Transport
from engine.wire.devices import BoardAnswer, FigureLabel

if TYPE_CHECKING:
    from engine.devices.board.results import OpenModel

__all__ = ["Connected", "connected"]


@dataclass(frozen=True)
class Connected:
    """A board.

    Attributes:
        address: as the user gives it.
        transport: the way to it.
        identity: what it is.
    """

    address: Address
    transport: Transport
    identity: BoardIdentity

    @property
    def label(self) -> FigureLabel:
        """Of all its figures."""
        return "emulated" if self.identity.emulated else "measured"

    @property
    def chip(self) -> str:
        """Its name in :mod:`engine.facts`.

        Raises:
            DeviceError: it is not known.
        """
        if self.identity.chip is None:
            raise DeviceError(
                f"The chip of {self.address} is not known.",
                cause=self.identity.note
                or "Its device tree names none that has an NPU of Rockchip.",
                remedy=f"See `rknntui doctor --device {self.address}`.",
            )
        return self.identity.chip

    def head(self, opened: OpenModel, *notes: str) -> BoardAnswer:
        """What every answer about a model that is loaded here begins with.

        Args:
            opened: the model; what it notes stands first.
            notes: further ones.
        """
        return BoardAnswer(
            label=self.label,
            device=str(self.address),
            chip=self.chip,
            runtime=opened.api_version,
            driver=opened.driver_version,
            notes=(*opened.notes, *notes),
        )


@contextmanager
def connected(device: str | None) -> Iterator[Connected]:
    """Connect to a board for the time of the block.

    Args:
        device: its address; None for the only one there is.

    Raises:
        UsageError: there are several, or it is no address.
        DeviceError: there is no such board, or it cannot be used.
    """
    address = choose(device)
    with closing(reach(address)) as transport:
        yield Connected(address, transport, identify(transport))
