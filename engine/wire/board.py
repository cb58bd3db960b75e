"""One board: what it is, what it does now, and a model that runs there."""

from __future__ import annotations

from typing import Annotated

from engine.wire.build import SimulatedOutput
from engine.wire.codec import Omit, Whole
from engine.wire.devices import (
    CORES,
    BoardAnswer,
    BoardMemory,
    Cores,
    FigureLabel,
    ModelOnBoard,
)
from engine.wire.doctor import Check
from engine.wire.flags import Board, Flag, Force, InputFiles, Layered, Saved, Top
from engine.wire.method import Query, Task
from engine.wire.record import record
from engine.wire.requests import BuildOfModel, ModelTarget

HOT = 85.0
"""Degrees Celsius from which a zone is called hot; chips are throttled about there."""

NPU_ZONES = ("npu-thermal", "soc-thermal", "cpu-thermal")
"""Zones that tell how warm the NPU is, the nearest first."""


@record
class Temperature:
    """A thermal zone: its type as the kernel calls it (``npu-thermal``) and degrees Celsius.

    Attributes:
        throttled: degrees that the kernel lowers clocks to stay below, the highest of its passive
            trip points; None where it has none.
    """

    zone: str
    celsius: float
    throttled: Omit[float] = None


@record
class Power:
    """What a sensor of the board says: its name (``ina226``, ``battery``) and watts."""

    sensor: str
    watts: float


@record
class SystemMemory:
    """Memory of the board in bytes; None where this kernel does not tell.

    Attributes:
        total: all that the system has.
        available: for new programs; of kernels before 3.14 free memory and the page cache.
        cma_total, cma_free: contiguous memory, which NPUs without an IOMMU need.
        swap_total, swap_free: swap.
    """

    total: int | None = None
    available: int | None = None
    cma_total: int | None = None
    cma_free: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None


@record
class BoardState:
    """One look at a board; None where it does not tell, with the reason in ``missing``.

    Attributes:
        npu_load: percent of each core.
        npu_clock, ddr_clock: Hz.
        npu_governor: of the NPU's clock.
        cpu_clocks: (policy, Hz) of each group of cores.
        temperatures: of all zones that have a type, in the kernel's order.
        memory: of the system; the NPU's buffers count in it, and in no process.
        powers: of all sensors; what each of them is of is the board's own wiring.
        missing: name of an attribute -> why it is None.
    """

    npu_load: tuple[float, ...] | None = None
    npu_clock: int | None = None
    npu_governor: str | None = None
    ddr_clock: int | None = None
    cpu_clocks: tuple[tuple[str, int], ...] | None = None
    temperatures: tuple[Temperature, ...] | None = None
    memory: SystemMemory | None = None
    powers: tuple[Power, ...] | None = None
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def npu_celsius(self) -> float | None:
        """Temperature of the NPU, or of the chip where it has no zone of its own."""
        return next((zone.celsius for zone in self._npu_zones), None)

    @property
    def hot(self) -> tuple[float, str]:
        """Degrees from which the NPU is called hot, and the zone whose trip point that is; empty
        where no zone tells one, and the documented limit stands.
        """
        zones = ((zone.throttled, zone.zone) for zone in self._npu_zones)
        return next(((limit, zone) for limit, zone in zones if limit is not None), (HOT, ""))

    @property
    def _npu_zones(self) -> list[Temperature]:
        known = {zone.zone.replace("_", "-"): zone for zone in self.temperatures or ()}
        return [known[name] for name in NPU_ZONES if name in known]

    def reason(self, attribute: str) -> str:
        """Why an attribute is None; empty where it is not."""
        return dict(self.missing).get(attribute, "")


@record
class BoardFacts:
    """What a board is. All texts are fit to be shown; empty where it does not tell.

    Attributes:
        device: as the user gives it, ``adb:SERIAL``.
        label: of all figures of it.
        chip: its name in :mod:`engine.facts`.
        model, serial, system, kernel: as the board says.
        cores: of its NPU; 0 where the chip is not known.
    """

    device: str
    label: FigureLabel
    chip: str = ""
    model: str = ""
    serial: str = ""
    system: str = ""
    kernel: str = ""
    cores: int = 0


@record
class VersionRow:
    """A component that runs models: driver, runtime, server, toolkit.

    Attributes:
        name: what it is.
        version: as it is written there; empty where it is not there or not told.
        path: the file on the board.
        note: why there is no version, or what is to be known of it.
    """

    name: str
    version: str = ""
    path: str = ""
    note: str = ""


@record
class AboutParams:
    """A board, and a compiled model that is to run on it (None for none).

    Attributes:
        chip: of the recipe that is open; compared where there is no model.
    """

    device: str
    model: str | None = None
    chip: str | None = None


@record
class About:
    """What a board is, what runs models there, and whether a model fits it.

    Attributes:
        fit: of the model against the board: chip, generation, versions, room. Empty without one.
    """

    facts: BoardFacts
    state: BoardState
    versions: tuple[VersionRow, ...] = ()
    fit: tuple[Check, ...] = ()


@record(kw_only=True)
class RunParams(ModelTarget):
    """A model to run on a board, and a file for every input.

    ``path`` is a compiled model; where the board is emulated also a container of ours, or a
    ``recipe``, whose build runs then. With both the file runs, and the recipe tells how pictures
    become inputs and what the layers are called.

    Attributes:
        build: a recipe or container of ours that does the same for a compiled model.
        cores: of :data:`engine.wire.devices.CORES`.
    """

    device: Board = None
    inputs: InputFiles
    cores: Annotated[
        Cores, Flag(help=f"NPU cores that run the model: {', '.join(CORES)}.", metavar="CORES")
    ] = "auto"
    loops: Annotated[
        int, Whole(1, 100_000), Flag(help="Inferences that are timed, after the first.")
    ] = 1
    layers: Layered = False
    save: Saved = None
    top: Top = 5
    force: Force = False
    build: BuildOfModel = None


@record(kw_only=True)
class Ran(ModelOnBoard):
    """One sample that ran on a board.

    Attributes:
        outputs: their figures; ``label`` is that of the run.
        milliseconds: median time of an inference by the runtime, or where that does not tell by
            the board's clock around it, which ``notes`` say then.
        saved: files that were written.
    """

    outputs: tuple[SimulatedOutput, ...]
    milliseconds: float | None = None
    saved: tuple[str, ...] = ()


@record(kw_only=True)
class MemoryParams(ModelTarget):
    """A model whose memory on a board is asked for; ``path`` and ``recipe`` as for a run."""

    device: Board = None


@record
class AllocatedMemory:
    """What generation 1's ``eval_memory`` tells of the system and of the NPU, in bytes: the most at
    one time, and the sum of all allocations since the model was loaded.
    """

    system_maximum: int
    system_total: int
    npu_maximum: int
    npu_total: int


@record(kw_only=True)
class MemoryReport(BoardAnswer):
    """What a model takes on a board.

    Attributes:
        allocated: of generation 1, as the vendor's toolkit tells it; else None.
        memory: None where the runtime has no such query, with the reason.
        text: in the form of the manual; empty without figures.
        model_bytes: size of the file.
        system: of the whole board, with the model loaded.
    """

    memory: BoardMemory | None = None
    reason: str = ""
    text: str = ""
    model_bytes: int = 0
    system: SystemMemory | None = None
    allocated: AllocatedMemory | None = None


BOARD_ABOUT = Query("board.about", AboutParams, About)
# fmt: off
BOARD_RUN = Task("board.run", RunParams, Ran, "run", after="doctor",
    about="Run inputs through a model on a board.",
    example="On this machine: rknntui simulate. Example: rknntui run model.rknn --device "
    "ssh:pi@board.lan --input photo.jpg --loops 20 --save outputs/")
BOARD_MEMORY = Task("board.memory", MemoryParams, MemoryReport, "memory",
    after="perf",
    about="Show what a model takes on a board, or estimate it for a chip.",
    example="Examples: rknntui memory model.rknn --device adb:515e9b401c060c0b; rknntui "
    "memory model.onnx --chip rk3566")
# fmt: on
