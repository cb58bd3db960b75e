"""A board that is chosen and connected for one job: the way to it, what it is, and the stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.errors import DeviceError, UsageError
from engine.base.events import Progress, Reporter, StageFinished, StageStarted
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.listing import poll
from engine.devices.probe.identify import BoardIdentity, identify
from engine.devices.transport import Transport
from engine.devices.transports import reach
from engine.wire.devices import BoardAnswer, FigureLabel

if TYPE_CHECKING:
    from engine.devices.board.results import OpenModel

# Which board a call means that names a chip and perhaps a board, as ``init_runtime`` does.

_SECONDS = 3.0


def choose(device_id: str | None) -> Address:
    """The board of an id, or the only one there is; the program's own board comes first.

    Args:
        device_id: see :mod:`engine.devices.address`; None for the only one.

    Raises:
        UsageError: there are several, or the id is none.
        DeviceError: there is none.
    """
    if device_id is not None:
        return Address.parse(str(device_id))
    listing = poll(seconds=_SECONDS, start_server=True)
    ready = [device.id for device in listing.devices if device.state == "ready"]
    if "local" in ready:
        return Address("local")
    if len(ready) > 1:
        raise UsageError(
            f"There are {len(ready)} boards.",
            remedy=f"Name one (device_id, or --device): {', '.join(ready[:20])}.",
        )
    if ready:
        return Address.parse(ready[0])
    others = [d for d in listing.devices if d.state != "ready"]
    said = [(d.what, d.remedy) for d in others] + [(n.what, n.remedy) for n in listing.notices]
    raise DeviceError(
        "There is no board that can be used.",
        cause=" ".join(what for what, _ in said[:3]),
        remedy=" ".join(remedy for _, remedy in said[:3] if remedy)
        or "Connect a board by USB, or name one (device_id, or --device), such as ssh:user@host.",
    )


def open_board(target: str, device_id: str | None) -> tuple[Transport, BoardIdentity]:
    """The way to a board with the chip that is wanted, and what it is.

    Args:
        target: name of the chip, as ``rk3588``.
        device_id: as for :func:`choose`.

    Raises:
        UsageError, DeviceError: there is no such board, or it has another chip.
    """
    address = choose(device_id)
    board = reach(address)
    try:
        identity = identify(board)
        name = target.lower()
        if name not in (identity.chip, identity.soc):
            has = identity.chip or "an unknown chip"
            raise DeviceError(
                f"The board {address} has {has}, and target is {sanitize(name, 40)}.",
                cause="Models are compiled for one chip.",
                remedy=f"Give target='{identity.chip}', or another board."
                if identity.chip
                else "See `rknntui doctor --device`.",
            )
    except BaseException:
        board.close()
        raise
    return board, identity


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


_STEPS = 100


class BoardStages:
    """The stages of one job.

    Args:
        reporter: told of them.
        titles: of all, in their order.
    """

    def __init__(self, reporter: Reporter, titles: Sequence[str]) -> None:
        self._reporter, self._titles = reporter, tuple(titles)

    @contextmanager
    def stage(self, title: str) -> Iterator[str]:
        """One of them, for the time of the block; gives its name in the events."""
        index = self._titles.index(title)
        name = f"board-{index}"
        begun = time.perf_counter()
        self._reporter.emit(StageStarted(name, title, index, len(self._titles)))
        yield name
        self._reporter.emit(StageFinished(name, round(time.perf_counter() - begun, 3)))

    def sending(self, stage: str) -> Callable[[int, int], None]:
        """Takes how many bytes of how many are on the board, and tells each hundredth of them."""
        shown = -1

        def moved(done: int, total: int) -> None:
            nonlocal shown
            step = _STEPS if done >= total else done * _STEPS // total
            if step != shown:
                shown = step
                self._reporter.emit(Progress(stage, done, total, "bytes"))

        return moved
