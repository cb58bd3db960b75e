"""A watch over several boards, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.events import LogLine, Reporter, StageFinished, StageStarted
from engine.devices.address import Address
from engine.devices.connected import choose
from engine.devices.transports import reach as reach_board
from engine.devices.watch.board_watch import BoardWatch, Reach, Told
from engine.devices.watch.recording import Recorder
from engine.devices.watch.sums import BOARDS, WatchSums
from engine.wire.board import BoardFacts
from engine.wire.method import Part
from engine.wire.monitor import BOARD, NOTE, SAMPLE, BoardNote, BoardSample, Monitored, WatchParams

_MOST = 512


class Mailbox:
    """A queue that never blocks who tells: while nobody takes, the oldest samples go.

    So it is while a job is paused.
    """

    def __init__(self) -> None:
        self._waiting: deque[Told | BaseException] = deque()
        self._changed = threading.Condition()

    def put(self, told: Told | BaseException) -> None:
        """Add what was told, or why a thread ended that never should."""
        with self._changed:
            if len(self._waiting) >= _MOST:
                places = enumerate(self._waiting)
                oldest = next((at for at, it in places if isinstance(it, BoardSample)), 0)
                del self._waiting[oldest]
            self._waiting.append(told)
            self._changed.notify()

    def take(self, seconds: float) -> Told | None:
        """The next one; None where there is none within so many seconds.

        Raises:
            BaseException: what ended a thread.
        """
        with self._changed:
            if not self._waiting:
                self._changed.wait(seconds)
            event = self._waiting.popleft() if self._waiting else None
        if isinstance(event, BaseException):
            raise event
        return event


_PARTS: dict[type, Part[Any]] = {BoardFacts: BOARD, BoardNote: NOTE, BoardSample: SAMPLE}
_LOOK_SECONDS = 0.05
_REACH_SECONDS = 60.0
"""How long the first look at a board may take before the time of a watch runs without it."""
_CANCEL_SECONDS, _END_SECONDS = 0.8, 5.0
"""How long boards are waited for that are still tidied; they go on by themselves after it."""


def watch_boards(
    params: WatchParams, reporter: Reporter, *, reach: Reach = reach_board
) -> Monitored:
    """Watch boards until the time is over or the reporter is asked to finish.

    Every board goes its own way: one that cannot be reached holds up no other, and is tried again.
    While the reporter pauses, looks are let go.

    Args:
        params: which boards, how often and how long.
        reporter: takes :data:`BOARD`, :data:`NOTE` and :data:`SAMPLE`.
        reach: gives the transport of an address.

    Raises:
        UsageError: an address is none, or which board is not clear.
        DeviceError: none is named and there is none.
        OutputError, OutputExistsError: the recording cannot be made.
        JobCancelledError: the watch was cancelled; what was recorded stays.
    """
    addresses = _addresses(params.devices)
    recorder = None
    if params.record is not None:
        recorder = Recorder(Path(params.record), params.hertz, force=params.force)
    begun = time.monotonic()
    sums = WatchSums(map(str, addresses))
    mailbox = Mailbox()
    watches = [
        BoardWatch(address, 1 / params.hertz, begun, mailbox.put, reach) for address in addresses
    ]

    def take(event: Told) -> None:
        sums.add(event)
        tell(event, reporter)
        if recorder is not None and (failure := recorder.write(event)):
            reporter.emit(LogLine(failure, "warning"))

    names = watches[0].device if len(watches) == 1 else f"{len(watches)} boards"
    reporter.emit(StageStarted("watch", f"Watch {names}", 0, 1))
    try:
        with _running(watches, mailbox):
            for event in _until_the_end(mailbox, watches, begun, params.seconds, reporter):
                take(event)
        while (left := mailbox.take(0)) is not None:
            take(left)
    finally:
        seconds = round(time.monotonic() - begun, 3)
        if recorder is not None:
            recorder.close(seconds)
    reporter.emit(StageFinished("watch", seconds))
    return Monitored(
        sums.summaries(),
        seconds,
        "" if recorder is None else str(recorder.path),
        (recorder.failure,) if recorder is not None and recorder.failure else (),
    )


def tell(told: Told, reporter: Reporter) -> None:
    """Emit what was told of a board."""
    reporter.emit(_PARTS[type(told)].event(told))


def _addresses(devices: Sequence[str]) -> list[Address]:
    """Each board once."""
    addresses = [Address.parse(device) for device in devices] or [choose(None)]
    if len(addresses) > BOARDS:
        raise UsageError(f"At most {BOARDS} boards are watched at once.")
    return list({str(address): address for address in addresses}.values())


@contextmanager
def _running(watches: Sequence[BoardWatch], mailbox: Mailbox) -> Iterator[None]:
    """The time of the block all boards are watched; after it none is, and nothing is left there."""

    def run(watch: BoardWatch) -> None:
        try:
            watch.run()
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that takes
            mailbox.put(error)

    threads = [
        threading.Thread(target=run, args=(watch,), name=f"watch {watch.device}", daemon=True)
        for watch in watches
    ]
    patience = _CANCEL_SECONDS
    try:
        for thread in threads:
            thread.start()
        yield
        patience = _END_SECONDS
    finally:
        for watch in watches:
            watch.stop()
        end = time.monotonic() + patience
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))


def _until_the_end(
    mailbox: Mailbox,
    watches: Sequence[BoardWatch],
    begun: float,
    seconds: float | None,
    reporter: Reporter,
) -> Iterator[Told]:
    looked = 0.0
    first: float | None = None
    while True:
        now = time.monotonic()
        # the time runs from the first look on: a board over a network takes seconds to be reached
        if (
            seconds is not None
            and now - (begun + _REACH_SECONDS if first is None else first) >= seconds
        ):
            return
        reporter.check_cancelled()
        if time.monotonic() - looked > _LOOK_SECONDS:
            looked = time.monotonic()
            if reporter.finish_requested():
                return
            yield from filter(None, [watch.silence() for watch in watches])
        if (event := mailbox.take(_LOOK_SECONDS)) is not None:
            if first is None and isinstance(event, BoardSample):
                first = time.monotonic()
            yield event
