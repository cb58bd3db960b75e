"""A watch over several boards, each in a thread of its own, and a recording shown again."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.events import LogLine, Reporter, StageFinished, StageStarted
from engine.devices.address import Address
from engine.devices.connected import choose
from engine.devices.transports import reach as reach_board
from engine.devices.watch.board_watch import BoardWatch, Reach, Told
from engine.devices.watch.recording import Recorder, Recording
from engine.wire.board import BoardFacts, BoardState
from engine.wire.method import Part
from engine.wire.monitor import (
    BOARD,
    NOTE,
    SAMPLE,
    BoardNote,
    BoardSample,
    BoardSummary,
    Monitored,
    ReplayParams,
    Span,
    WatchParams,
)

BOARDS = 64
"""Boards of one watch at most."""

_NOTES = 10
_CORES = 64
_SENSORS = 16


class _Sums:
    """Least, sum and greatest of what was added."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = self._minimum = self._maximum = 0.0

    def add(self, value: float | None) -> None:
        """Add a figure; None is none."""
        if value is None:
            return
        self._minimum = min(self._minimum, value) if self._count else value
        self._maximum = max(self._maximum, value) if self._count else value
        self._count += 1
        self._sum += value

    def span(self) -> Span | None:
        """None where there was no figure."""
        if not self._count:
            return None
        # the mean of equal figures is that figure
        mean = min(max(self._sum / self._count, self._minimum), self._maximum)
        return Span(self._minimum, mean, self._maximum)


class _BoardSums:
    def __init__(self, device: str) -> None:
        self.facts = BoardFacts(device, "measured")
        self.samples = self.missed = 0
        self.notes: list[str] = []
        self._load: list[_Sums] = []
        self._clock, self._celsius, self._memory = _Sums(), _Sums(), _Sums()
        self._power: dict[str, _Sums] = {}

    def add(self, state: BoardState | None) -> None:
        if state is None:
            self.missed += 1
            return
        self.samples += 1
        load = (state.npu_load or ())[:_CORES]
        self._load += [_Sums() for _ in range(len(load) - len(self._load))]
        for sums, percent in zip(self._load, load, strict=False):
            sums.add(percent)
        self._clock.add(state.npu_clock)
        self._celsius.add(state.npu_celsius)
        for power in (state.powers or ())[:_SENSORS]:
            self._power.setdefault(power.sensor, _Sums()).add(power.watts)
        memory = state.memory
        if memory is not None and memory.total is not None and memory.available is not None:
            self._memory.add(memory.total - memory.available)

    def summary(self) -> BoardSummary:
        spans = (sums.span() for sums in self._load)
        return BoardSummary(
            facts=self.facts,
            samples=self.samples,
            missed=self.missed,
            npu_load=tuple(span for span in spans if span is not None),
            npu_clock=self._clock.span(),
            celsius=self._celsius.span(),
            memory_used=self._memory.span(),
            power={name: span for name, sums in self._power.items() if (span := sums.span())},
            notes=tuple(self.notes),
        )


class WatchSums:
    """Running figures of several boards.

    Args:
        devices: boards that have a summary even if they never tell anything.
    """

    def __init__(self, devices: Iterable[str] = ()) -> None:
        self._boards = {device: _BoardSums(device) for device in devices}

    def add(self, told: Told) -> None:
        """Take what was told.

        Raises:
            UsageError: it is of one board too many.
        """
        sums = self._boards.get(told.device)
        if sums is None:
            if len(self._boards) >= BOARDS:
                raise UsageError(f"There are more than {BOARDS} boards.")
            sums = self._boards[told.device] = _BoardSums(told.device)
        if isinstance(told, BoardFacts):
            sums.facts = told
        elif isinstance(told, BoardNote):
            if told.text not in sums.notes and len(sums.notes) < _NOTES:
                sums.notes.append(told.text)
        else:
            sums.add(told.state)

    def summaries(self) -> tuple[BoardSummary, ...]:
        """Of each board, in the order in which they came."""
        return tuple(sums.summary() for sums in self._boards.values())


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


# A recording shown again, as it was told or faster.

_LOOK_SECONDS = 0.05
_MOST_A_SECOND = 1000.0
"""Samples; who listens has to read them before the job's record lets them go."""


def replay_recording(params: ReplayParams, reporter: Reporter) -> Monitored:
    """Tell what a recording tells, at its own pace times ``speed``.

    Nothing goes on while the reporter pauses; asked to finish, it ends with what was shown.

    Raises:
        UsageError: the file is no recording, or damaged: what is before the damage was told.
        JobCancelledError: it was cancelled.
    """
    speed = params.speed
    began = time.monotonic()
    sums = WatchSums()
    last = 0.0
    pace = _Pace(reporter)
    with Recording(Path(params.path)) as recording:
        reporter.emit(StageStarted("replay", f"Show {Path(params.path).name}", 0, 1))
        complete = True
        for event in recording:
            if isinstance(event, BoardSample):
                last = max(last, event.at)
                # at 0 the figures alone count, within what the record of a job passes on
                wait = last / speed if speed else 0.0
                if not pace.until(max(wait, pace.told / _MOST_A_SECOND)):
                    complete = False
                    break
                pace.told += 1
            sums.add(event)
            tell(event, reporter)
        notes = (recording.note,) if recording.note else ()
        seconds = recording.seconds if complete else last
    for note in notes:
        reporter.emit(LogLine(note, "warning"))
    reporter.emit(StageFinished("replay", round(time.monotonic() - began, 3)))
    return Monitored(sums.summaries(), round(seconds, 3), "", notes)


class _Pace:
    """A clock that stands still while the reporter pauses.

    Attributes:
        told: samples until now.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._began = time.monotonic()
        self.told = 0

    def until(self, seconds: float) -> bool:
        """Wait until it says so; False where the reporter is asked to finish."""
        while True:
            before = time.monotonic()
            self._reporter.check_cancelled()
            self._began += time.monotonic() - before
            left = self._began + seconds - time.monotonic()
            if self._reporter.finish_requested():
                return False
            if left <= 0:
                return True
            time.sleep(min(left, _LOOK_SECONDS))
