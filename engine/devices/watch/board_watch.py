"""One board that is watched: reached, looked at, and reached again where it was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing

from engine.base.errors import (
    DeviceError,
    EngineError,
    JobCancelledError,
)
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.board.session import BoardSession
from engine.devices.probe.identify import board_facts, identify
from engine.devices.probe.state import StateReader, once_paths, parse, watch_paths
from engine.devices.transport import UNREACHABLE, Transport
from engine.wire.board import BoardFacts, BoardState
from engine.wire.monitor import BoardNote, BoardSample

Told = BoardFacts | BoardNote | BoardSample
"""What a watch tells of a board."""

Reach = Callable[[Address], Transport]

FIRST_SECONDS, LAST_SECONDS = 1.0, 10.0
"""How long a board that was lost is left alone; twice as long each time that it stays away."""

SILENT_SECONDS = 5.0
"""After so long it is said that nothing is heard; the transport gives a board up later."""

_SLOW_LOOKS = 3
_TEXT_LIMIT = 1000
_MOST_NOTES = 10


class BoardWatch:
    """Looks at one board until it is told to stop; :meth:`run` is for a thread of its own.

    Where the agent can run all the time it reads the files of the board and tells them in a stream;
    else they are asked for over the transport, which may take longer than is wanted.

    Args:
        address: of the board.
        interval: seconds from look to look.
        begun: when the watch began, by ``time.monotonic``.
        tell: takes what is told, in that thread.
        reach: gives the transport.
    """

    def __init__(
        self,
        address: Address,
        interval: float,
        begun: float,
        tell: Callable[[Told], object],
        reach: Reach,
    ) -> None:
        self.device = str(address)
        self._address, self._interval, self._begun = address, interval, begun
        self._tell, self._reach = tell, reach
        self._stopped = threading.Event()
        self._noted: set[str] = set()
        self._answered = False
        self._heard: float | None = None

    def silence(self) -> BoardSample | None:
        """That a board which told has fallen silent, once; None where it has not.

        For another thread than that of :meth:`run`.
        """
        heard, now = self._heard, self._now()
        if heard is None or now - heard < max(SILENT_SECONDS, 3 * self._interval):
            return None
        self._heard = None
        problem = f"Nothing was heard of the board for {now - heard:.0f} s. It is waited for."
        return BoardSample(self.device, round(now, 3), None, problem)

    def stop(self) -> None:
        """Have it end, within a tenth of a second unless the board hangs."""
        self._stopped.set()

    def run(self) -> None:
        """Look until :meth:`stop`; nothing of it is left on the board."""
        wait = FIRST_SECONDS
        while not self._stopped.is_set():
            self._answered = False
            problem = "The board tells nothing any more."
            try:
                self._watch()
            except EngineError as error:
                parts = (error.what, error.cause, error.remedy)
                problem = " ".join(part for part in parts if part)
            if self._stopped.is_set():
                return
            if self._answered:
                wait = FIRST_SECONDS
            self._sample(self._now(), problem=f"{problem} Tried again in {wait:g} s.")
            self._stopped.wait(wait)
            wait = min(2 * wait, LAST_SECONDS)

    def _watch(self) -> None:
        """Look until the board is lost."""
        with closing(self._reach(self._address)) as board:
            self._check()
            identity = identify(board)
            self._check()
            self._tell(board_facts(self.device, identity))
            with closing(self._looks(board, identity.chip)) as looks:
                for at, state in looks:
                    self._answered = True
                    self._sample(at, state)

    def _looks(
        self, board: Transport, chip: str | None
    ) -> Generator[tuple[float, BoardState], None, None]:
        if board.converses:
            try:
                yield from self._streamed(board, chip)
            except UNREACHABLE:
                raise
            except DeviceError as error:
                if self._answered:
                    raise
                reason = error.what
        else:
            reason = "The adbd of this board is old (it has no shell_v2)."
        self._note(f"{reason} Its files are asked for at each look.")
        yield from self._polled(board, chip)

    def _streamed(
        self, board: Transport, chip: str | None
    ) -> Generator[tuple[float, BoardState], None, None]:
        """Looks of the agent."""
        times = BoardTimes()
        with BoardSession(board, check=self._check, alone=False) as session:
            lasting = session.read(once_paths(chip))
            with closing(session.watch(watch_paths(chip), interval=self._interval)) as looks:
                for look in looks:
                    state = parse({**lasting, **look.values}, chip)
                    yield times.at(look.at, self._now()), state

    def _polled(
        self, board: Transport, chip: str | None
    ) -> Generator[tuple[float, BoardState], None, None]:
        """Looks over the transport, as often as that allows."""
        reader = StateReader(board, chip, self._check, together=True)
        due, took = self._now(), list[float]()
        while True:
            at = self._now()
            state = reader.look()
            took.append(self._now() - at)
            yield at, state
            if len(took) == _SLOW_LOOKS and (least := min(took)) > self._interval:
                self._note(
                    f"A look at this board takes {least:.2g} s, so there are fewer than "
                    f"{1 / self._interval:g} a second."
                )
            del took[_SLOW_LOOKS:]
            due = max(due + self._interval, self._now())
            self._stopped.wait(max(0.0, due - self._now()))
            self._check()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise JobCancelledError("The watch has ended.", remedy="Start it again.")

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _sample(self, at: float, state: BoardState | None = None, problem: str = "") -> None:
        self._heard = None if state is None else self._now()
        self._tell(BoardSample(self.device, round(at, 3), state, sanitize(problem, _TEXT_LIMIT)))

    def _note(self, text: str) -> None:
        """Tell something once, however often the board is reached again."""
        text = sanitize(text, _TEXT_LIMIT)
        if text not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(text)
            self._tell(BoardNote(self.device, text))


_DRIFT = 1e-3
_LATE_SECONDS = 60.0


class BoardTimes:
    """Puts times of a board's clock, which starts anywhere, on this machine's.

    A look cannot have been later than it was heard of, and the one that was heard of soonest tells
    where the board's clock is. That is let go by 0.1 % of the time, which is more than any two
    clocks differ by. A board that makes no sense is believed to have looked when it was heard.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._before = 0.0
        self._last = 0.0

    def at(self, told: float, heard: float) -> float:
        """When a look was, by this machine's clock; never before the one that was told last.

        Args:
            told: of the board's clock, in seconds.
            heard: of this machine's clock.
        """
        lag = heard - told
        if self._offset is None or told < self._before or lag - self._offset > _LATE_SECONDS:
            self._offset = lag
        else:
            self._offset = min(lag, self._offset + _DRIFT * (told - self._before))
        self._before = told
        self._last = max(self._last, told + self._offset)
        return self._last
