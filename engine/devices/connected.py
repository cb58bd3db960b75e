"""A board that is connected for the time of one job: the way to it, what it is, and the stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.errors import DeviceError
from engine.base.events import Progress, Reporter, StageFinished, StageStarted
from engine.devices.address import Address
from engine.devices.choose import choose
from engine.devices.probe.identify import BoardIdentity, identify
from engine.devices.transport import Transport
from engine.devices.transports import reach
from engine.wire.devices import BoardAnswer, FigureLabel

if TYPE_CHECKING:
    from engine.devices.board.results import OpenModel


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
