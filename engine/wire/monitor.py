"""Boards watched: load of the NPU, clocks, temperatures and memory, several times a second."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from engine.wire.board import BoardFacts, BoardState
from engine.wire.codec import Above, Between, Text
from engine.wire.flags import Flag
from engine.wire.method import Part, Task
from engine.wire.record import record


@record
class WatchParams:
    """Which boards to watch.

    Attributes:
        devices: addresses; none for the only board there is.
        seconds: from the first look on; None until it is asked to finish, or cancelled, which
            gives no result.
        record: for :data:`MONITOR_REPLAY`.
    """

    devices: Annotated[
        tuple[str, ...],
        Flag(
            name="--device",
            help="A board; repeat for more (at most 64). Default: as in run.",
            metavar="DEVICE",
        ),
    ] = ()
    hertz: Annotated[float, Between(0.1, 10), Flag(name="--hz", help="Samples per second.")] = 1.0
    seconds: Annotated[
        Annotated[float, Above(0)] | None, Flag(help="How long. Default: until Ctrl-C.")
    ] = None
    record: Annotated[Text | None, Flag(help="Write what is seen to this file.", kind="file")] = (
        None
    )
    force: Annotated[bool, Flag(help="Replace the file of --record where it exists.")] = False


@record
class ReplayParams:
    """A recording to show again.

    Attributes:
        speed: 2 is twice as fast as it was.
    """

    path: Annotated[Text, Flag(name="--replay", help="Show such a file; no board.", kind="file")]
    speed: Annotated[
        float, Between(0, 1000), Flag(help="Of --replay; 0 is as fast as it goes.")
    ] = 1.0


@record
class BoardSample:
    """A look at a board, or why there is none.

    Attributes:
        at: seconds since the watch began, by this machine's clock.
        state: None where the board could not be asked.
        problem: why, and what is done about it.
    """

    device: str
    at: float
    state: BoardState | None = None
    problem: str = ""


@record
class BoardNote:
    """What is to be known of a board's samples, such as that it is asked less often."""

    device: str
    text: str


@record
class Span:
    """Least, mean and greatest of a figure."""

    minimum: float
    mean: float
    maximum: float


@record
class BoardSummary:
    """What a watch saw of a board; None where it never told.

    Attributes:
        samples: looks that it answered.
        missed: looks that it did not; while it is away, each time that it was tried.
        npu_load: percent, of each core.
        npu_clock: Hz.
        celsius: of the NPU.
        memory_used: bytes of the whole system.
        power: watts, of each sensor.
    """

    facts: BoardFacts
    samples: int
    missed: int
    npu_load: tuple[Span, ...] = ()
    npu_clock: Span | None = None
    celsius: Span | None = None
    memory_used: Span | None = None
    power: dict[str, Span] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@record
class Monitored:
    """The end of a watch: its boards, how long it was, and the file that was written.

    Attributes:
        notes: what is to be known of the recording.
    """

    boards: tuple[BoardSummary, ...]
    seconds: float
    recorded: str = ""
    notes: tuple[str, ...] = ()


BOARD = Part("monitor.board", BoardFacts)
"""A board, when it was reached: before its first sample, and again after it was lost."""
NOTE = Part("monitor.note", BoardNote)
SAMPLE = Part("monitor.sample", BoardSample, kept=False)
"""A look; all of them are for a recording, a job's record has the newest alone."""
# fmt: off
MONITOR_WATCH = Task("monitor.watch", WatchParams, Monitored, "monitor", after="memory",
    about="Watch boards: load of the NPU, clock, temperature and memory.",
    example="Examples: rknntui monitor --device adb:SERIAL --device ssh:pi@board.lan --hz 5 "
    "--record watch.jsonl; rknntui monitor --replay watch.jsonl --speed 10. The exit "
    "code is 13 if no board answered.")
# fmt: on
MONITOR_REPLAY = Task("monitor.replay", ReplayParams, Monitored, "monitor")
