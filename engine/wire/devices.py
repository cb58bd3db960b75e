"""Boards: the list of those in reach, and what a board's doctor finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from engine.base.findings import Finding
from engine.wire.codec import Above, Key, Omit, Text, Whole
from engine.wire.cost import Step
from engine.wire.doctor import Check, Checks
from engine.wire.flags import Board, Flag, Layered
from engine.wire.formats import MICROSECONDS
from engine.wire.method import Part, Query, Task
from engine.wire.record import record
from engine.wire.requests import BuildOfModel, ModelTarget
from engine.wire.table import ADDED, Column

AdbStateName = Literal[
    "ready",
    "offline",
    "unauthorized",
    "connecting",
    "no permissions",
    "recovery",
    "sideload",
    "bootloader",
    "unknown",
]
"""States in which an adb server lists a board; ``ready`` is its ``device``."""

DeviceState = (
    AdbStateName
    | Literal["not listed", "flash mode", "no adb", "needs the vendor's toolkit", "not asked"]
)

Cores = Literal["auto", "0", "1", "2", "0_1", "0_1_2", "all"]
CORES: tuple[Cores, ...] = get_args(Cores)
"""Choices of NPU cores [RKNN-T2 2.3.0, 2.7]."""

FigureLabel = Literal["measured", "emulated"]
"""Of every figure of a board; ``emulated`` where the board is."""


@record(kw_only=True)
class BoardAnswer:
    """What every answer of a board says of its figures.

    Attributes:
        label: of which kind they are.
        device: address of the board, as the user gives it.
        chip: its name in :mod:`engine.facts`.
        runtime, driver: their versions, as the board says them.
        notes: what is to be known of the figures.
    """

    label: FigureLabel
    device: str
    chip: str
    runtime: str
    driver: str = ""
    notes: tuple[str, ...] = ()


def _read_ssh(text: str) -> str:
    return text if text.startswith("ssh:") else f"ssh:{text}"


@record
class DeviceListParams:
    """How to look.

    Attributes:
        ssh: boards that the user has named, as ``ssh:[user@]host[:port]``.
        start_server: start an adb server that is not up; takes up to ten seconds.
        ask: log in to the boards of ``ssh``; else they are listed as ``not asked``.
    """

    ssh: Annotated[
        tuple[str, ...],
        Flag(
            help="List a board that is reached over SSH, too; once per board.",
            metavar="[ssh:][USER@]HOST[:PORT]",
            read=_read_ssh,
        ),
    ] = ()
    start_server: bool = False
    ask: bool = False


@record
class Device:
    """A board in the list. All texts of boards are without control characters.

    Attributes:
        id: its name as the user gives it: ``adb:SERIAL``, ``ntb:SERIAL``, ``ssh:ADDRESS``,
            ``local``; ``usb:PORT`` for what cannot be used yet. Where boards share a serial
            number: ``adb:usb:PORT``, or ``adb:SERIAL#NUMBER`` without a port.
        kind: how it is reached; ``usb`` where it cannot be.
        state: ``ready`` boards can be used; ``not asked`` ones may be.
        what: the state as a sentence.
        cause, remedy: why it is so, and what the user can do; empty where it is ready.
        serial: serial number or address.
        product, model, device: what it says of itself.
        transport_id: the adb server's number of its connection.
        address: USB port (``usb:1-1.4``) or network address.
        warnings: what the user should know before using it.
    """

    id: str
    kind: Literal["adb", "ssh", "local", "ntb", "usb"]
    state: DeviceState
    what: str
    cause: str = ""
    remedy: str = ""
    serial: str = ""
    product: str = ""
    model: str = ""
    device: str = ""
    transport_id: int | None = None
    address: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it makes sense to open it."""
        return self.state in ("ready", "not asked")


Over = Literal["emulated", "adb", "ssh"]


@record
class AddBoardParams:
    """A board to bring into the list.

    Attributes:
        over: how it is reached; an emulated one is started, and ends with the worker.
        address: of a board on the network; none of an emulated one.
        chip: of an emulated one.
    """

    over: Annotated[
        Over, Flag(help="An emulated board needs no hardware; adb and ssh need an address.")
    ] = "emulated"
    address: Annotated[
        str,
        Flag(
            help="Of adb as 192.168.0.7:5555, of ssh as pi@board or a name of ~/.ssh/config.",
            metavar="[USER@]HOST[:PORT]",
        ),
    ] = ""
    chip: Annotated[str, Flag(help="The chip of an emulated board.", kind="chip")] = "rk3588"


@record
class NamedBoard:
    """A board by its id.

    Attributes:
        chip: what is known of it.
        notes: what is to be known of it.
    """

    device: str
    chip: str = ""
    notes: tuple[str, ...] = ()


@record
class Listing:
    """What one look found.

    Attributes:
        devices: boards, by transport and name.
        notices: what belongs to no board: no adb server, adb and NTB side by side.
    """

    devices: tuple[Device, ...]
    notices: tuple[Finding, ...] = ()

    def names(self, kind: str) -> list[str]:
        """The boards of a transport that are ready, or that NTB reaches, as ``device_id`` of the
        manual names them: ids without their transport, mostly serial numbers.
        """
        states = ("ready", "needs the vendor's toolkit")
        ids = [d.id for d in self.devices if d.kind == kind and d.state in states]
        return [name.partition(":")[2] for name in ids]


@record
class ExamineParams:
    """A board for the doctor, and what is to run there.

    Attributes:
        device: None for the only one.
        test: run the model once, with zeros. Nothing of the board is changed, but for files in the
            program's own folder.
        chip: of the recipe that is open; compared where there is no model.
    """

    device: Annotated[
        str | None,
        Flag(
            help="Check a board instead: adb:SERIAL, ssh:[USER@]HOST[:PORT] or local.",
            metavar="DEVICE",
        ),
    ] = None
    model: Annotated[
        str | None,
        Flag(
            help="Check this compiled model against the board (chip, versions, storage, memory), "
            "then run it there once with zeros.",
            metavar="FILE.rknn",
            kind="file",
        ),
    ] = None
    test: bool = False
    chip: str | None = None


@record
class BatchModel:
    """A model that is compiled for several frames at once, and how many."""

    batch: Annotated[int, Whole(2, 1024)]
    model: Text


def _read_batch(text: str) -> BatchModel:
    number, equals, file = text.partition("=")
    if not (equals and file and number.isascii() and number.isdigit() and len(number) < 5):
        raise ValueError(f"{text!r} is not N=FILE, such as 4=model_b4.rknn.")
    return BatchModel(int(number), str(Path(file).absolute()))


def _write_batch(batch: Mapping[str, Any]) -> str:
    return f"{batch['batch']}={batch['model']}"


@record(kw_only=True)
class PerfParams(ModelTarget):
    """What to measure on a board.

    Attributes:
        path: of a compiled model, of an emulated board also a container of ours; None for the build
            of ``recipe`` there.
        batches: each is a row of the grid.
        build: that the model was compiled from. Not needed where the model is a container of ours.
    """

    device: Board = None
    cores: Annotated[
        tuple[Cores, ...],
        Flag(help=f"NPU cores, once per point; default auto: {', '.join(CORES)}.", metavar="CORES"),
    ] = ("auto",)
    threads: Annotated[
        tuple[Annotated[int, Whole(1, 32)], ...],
        Flag(
            help="Threads that run the model at the same time, once per point. Default: 1.",
        ),
    ] = (1,)
    warmup: Annotated[int, Whole(0, 100_000), Flag(help="Inferences before the timed ones.")] = 5
    loops: Annotated[
        Annotated[int, Whole(1, 100_000)] | None,
        Flag(help="Inferences that are timed. Default: 50."),
    ] = None
    seconds: Annotated[
        Annotated[float, Above(0, 86_400)] | None,
        Flag(help="Time each point for so long, at most a day; not with --loops."),
    ] = None
    layers: Layered = False
    fix_clocks: Annotated[
        bool, Flag(help="Set the clocks of the vendor's script; restored afterwards.")
    ] = False
    build: BuildOfModel = None
    batches: Annotated[
        tuple[BatchModel, ...],
        Flag(
            name="--batch",
            help="The same model compiled for N frames at once (rknn_batch_size), once per batch: "
            "also timed at each point.",
            metavar="N=FILE.rknn",
            read=_read_batch,
            write=_write_batch,
        ),
    ] = ()


@record
class MeasuredPoint:
    """What the times of one choice of cores and threads say, in microseconds.

    Attributes:
        cores, threads, batch: which point; a time is of all frames of a batch.
        count: inferences that were timed.
        minimum, median, p90, p99, maximum: of their times; None where it failed.
        low, high: a 95 % interval of the median; None for fewer than 5 inferences.
        frames_per_second: of all threads together.
        clocks: part -> Hz, after the runs.
        celsius: zone -> temperature, after the runs.
        throttled: whether a clock fell while it ran.
        notes: what is to be known of the figures.
        failed: why there are none.
    """

    cores: str
    threads: int
    count: int = 0
    minimum: float | None = None
    median: float | None = None
    p90: float | None = None
    p99: float | None = None
    maximum: float | None = None
    low: float | None = None
    high: float | None = None
    frames_per_second: float | None = None
    clocks: dict[str, int] = field(default_factory=dict)
    celsius: dict[str, float] = field(default_factory=dict)
    throttled: bool = False
    notes: tuple[str, ...] = ()
    failed: str = ""
    batch: int = 1


@record(kw_only=True)
class TimedStep(Step):
    """What the runtime ran as one step; None where it does not print a figure.

    Attributes:
        microseconds: with the timing of layers on, which slows the run.
        traffic: bytes read and written, together.
    """

    microseconds: Annotated[
        float | None, ADDED, Column("", "time µs", MICROSECONDS, "Its time on the board.")
    ] = None
    traffic: Annotated[int | None, ADDED] = None
    ddr_cycles: Annotated[Omit[int], ADDED] = None
    npu_cycles: Annotated[Omit[int], ADDED] = None
    total_cycles: Annotated[Omit[int], ADDED] = None


@record
class LayerTime(TimedStep):
    """A row of the runtime's own table of layers.

    Attributes:
        number: its number there; 0 where it was not kept.
        id: of the build's layer that it computes; empty or None where it is none, or not known.
        also: further layers that it computes; the time is that of all.
    """

    number: Annotated[int, Key("id")] = 0
    id: Annotated[str | None, Key("layer")] = ""
    also: tuple[str, ...] = ()


@record
class BoardMemory:
    """What a model takes on a board, in bytes.

    Attributes:
        weight, internal: weights, and the largest need of activations.
        other: the rest of what was allocated for it.
        total: all that was allocated for it.
        note: what is to be known of the figures.
        sram, sram_free: of the chip's own memory, and what is left of it; 0 where there is none.
    """

    weight: int
    internal: int
    other: int
    total: int
    note: str = ""
    sram: int = 0
    sram_free: int = 0


@record(kw_only=True)
class ModelOnBoard(BoardAnswer):
    """What a board says of a model that it ran.

    Attributes:
        layers: of the runtime's table; empty where it was not asked for.
        memory: of the model; None where the runtime does not tell, as in generation 1.
        memory_reason: why it does not.
    """

    layers: tuple[LayerTime, ...] = ()
    memory: BoardMemory | None = None
    memory_reason: str = ""


@record(kw_only=True)
class PerfLook(ModelOnBoard):
    """What was measured so far at a point of the grid, told while it is measured.

    Attributes:
        at: seconds of the board's clock that count, since the point began.
        cores, threads: which point.
        count: inferences so far.
        frames_per_second: since the look before.
        median, p90, p99: microseconds, of the last 20,000 inferences at most.
        clocks, celsius: as of a :class:`MeasuredPoint`.
        throttled: whether a clock fell since the point began.
        layers: in the looks that timed them, which is not while the others run.
    """

    at: float
    cores: str
    threads: int
    count: int
    frames_per_second: float
    median: float
    p90: float
    p99: float
    clocks: dict[str, int] = field(default_factory=dict)
    celsius: dict[str, float] = field(default_factory=dict)
    throttled: bool = False


@record(kw_only=True)
class Performance(ModelOnBoard):
    """What a board measured of a model.

    Attributes:
        points: in the order of measuring.
        left_out: points that cannot be measured there, with the reason.
        text: the table of layers as the runtime printed it.
        kept: name in the history.
    """

    points: tuple[MeasuredPoint, ...]
    left_out: tuple[str, ...] = ()
    text: str = ""
    kept: str = ""


# fmt: off
DEVICES_PERF = Task("devices.perf", PerfParams, Performance, "perf run",
    about="Time a compiled model on a board (measured).",
    example="Example: rknntui perf model.rknn --device ssh:pi@board.lan --cores 0_1_2 --threads 3")
DEVICES_LIST = Query("devices.list", DeviceListParams, Listing, "devices list", options=False,
    about="List the boards in reach: by adb, by NTB, on USB, and this machine where it is one.")
DEVICES_ADD = Query("devices.add", AddBoardParams, NamedBoard)
DEVICES_REMOVE = Query("devices.remove", NamedBoard, NamedBoard)
DEVICES_EXAMINE = Task("devices.examine", ExamineParams, Checks, "doctor",
    options=False, after="devices",
    about="Check this machine and installation, or a board.")
# fmt: on
EXAMINED = Part("devices.check", Check)
"""A check of ``devices.examine``, told as soon as it is done."""
PERF_LOOK = Part("devices.perf-look", PerfLook, kept=False)
"""A look at a measurement of ``devices.perf`` that has a time, told twice a second."""
