"""Reporters that listen to a watch, and boards that a test has in its hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.base.errors import EngineError
from engine.base.events import CallbackReporter, Event, LogLine
from engine.devices.address import Address
from engine.devices.transport import Transport
from engine.devices.watch.watch import watch_boards
from engine.wire.board import BoardFacts
from engine.wire.monitor import BOARD, NOTE, SAMPLE, BoardNote, BoardSample, Monitored, WatchParams
from tests.devices.waiting import until
from tests.safety import PATIENCE


@dataclass
class Heard:
    """What was told, and the two ways to end it."""

    events: list[Event] = field(default_factory=list)
    cancelled: bool = False
    finish: bool = False
    result: Monitored | None = None
    error: EngineError | None = None

    @property
    def reporter(self) -> CallbackReporter:
        return CallbackReporter(
            self.events.append, lambda: self.cancelled, finish=lambda: self.finish
        )

    def boards(self, device: str = "") -> list[BoardFacts]:
        found = [BOARD.of(event) for event in list(self.events)]
        return [each for each in found if each is not None and device in each.device]

    def notes(self, device: str = "") -> list[BoardNote]:
        found = [NOTE.of(event) for event in list(self.events)]
        return [each for each in found if each is not None and device in each.device]

    def samples(self, device: str = "") -> list[BoardSample]:
        found = [SAMPLE.of(event) for event in list(self.events)]
        return [each for each in found if each is not None and device in each.device]

    def answered(self, device: str = "") -> list[BoardSample]:
        return [each for each in self.samples(device) if each.state is not None]

    def problems(self, device: str = "") -> list[BoardSample]:
        return [each for each in self.samples(device) if each.problem]

    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, LogLine)]


@contextmanager
def watching(
    params: WatchParams, reach: Callable[[Address], Transport] | None = None
) -> Iterator[Heard]:
    """The time of the block a watch goes on; it is asked to finish, and has ended after it."""
    heard, others = Heard(), watch_threads()

    def run() -> None:
        try:
            more = {} if reach is None else {"reach": reach}
            heard.result = watch_boards(params, heard.reporter, **more)
        except EngineError as error:
            heard.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield heard
        heard.finish = True
        thread.join(PATIENCE)
    finally:
        heard.cancelled = True
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert watch_threads() == others


def watch_threads() -> list[str]:
    """Threads of boards that are watched."""
    return [each.name for each in threading.enumerate() if each.name.startswith("watch ")]


def hears(heard: Heard, what: Callable[[], object], told: str) -> None:
    """Wait until something was heard, or the watch failed."""
    until(lambda: heard.error is not None or what(), told)
    assert heard.error is None, heard.error
