"""Runs that boards measured and that are kept: their list, and two of them side by side."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from engine.wire.devices import FigureLabel
from engine.wire.flags import Argument, Flag
from engine.wire.formats import NAME, NUMBER
from engine.wire.method import Query
from engine.wire.record import record
from engine.wire.table import (
    CHIP,
    DEVICE,
    FIGURES_ARE,
    LAYERS,
    MEDIAN_MS,
    MODEL,
    WHEN,
    Column,
    Table,
    known,
)


@record
class KeptFilter:
    """Which runs: all, or those of a chip, a board's address, or a model's SHA-256."""

    chip: Annotated[
        str | None, Flag(help="Only runs on this chip.", metavar="CHIP", kind="chip")
    ] = None
    device: Annotated[str | None, Flag(help="Only runs on this board.", metavar="DEVICE")] = None
    model: Annotated[
        str | None, Flag(help="Only runs of the file with this SHA-256.", metavar="SHA256")
    ] = None


@record
class Conditions:
    """What was measured where: figures of equal conditions can be compared.

    Attributes:
        model: SHA-256 of the model's file, in hexadecimal digits.
        chip: name of the chip.
        device: address of the board.
        versions: component (``runtime``, ``driver``, ``server``, ``toolkit``) -> version.
        clocks: part -> Hz.
    """

    model: str = ""
    chip: str = ""
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)


@record(kw_only=True)
class KeptRun(Conditions):
    """A run of the history.

    Attributes:
        id: sorts by its time.
        at: seconds since the epoch.
        title: name of the model.
        label: of which kind its figures are.
        points: of the grid that have times.
        layers: rows of the table of layers.
        median: microseconds, the smallest of all points; None without a benchmark.
        damaged: why its file cannot be read; everything but ``id`` is empty then.
    """

    id: str
    at: float = 0.0
    title: str = ""
    label: FigureLabel = "measured"
    points: int = 0
    layers: int = 0
    median: float | None = None
    damaged: str = ""


@record
class KeptRuns:
    """Runs, the newest first."""

    runs: tuple[KeptRun, ...]


@record
class RunPair:
    """Ids of two kept runs."""

    first: Annotated[str, Argument(kind="text")]
    second: Annotated[str, Argument(kind="text")]


@record
class PointChange:
    """A point of the grid that both runs measured.

    Attributes:
        cores, batch, threads: which.
        before, after: medians in microseconds.
        change: ``after / before - 1``; None where the first is 0.
        clear: whether the 95 % intervals of both medians lie apart; None where one has none.
    """

    cores: str
    batch: int
    threads: int
    before: float
    after: float
    change: float | None
    clear: bool | None


@record
class LayerChange:
    """A layer of either run: microseconds of all its steps; None where that run has none."""

    layer: str
    before: float | None
    after: float | None


@record
class RunsCompared:
    """Two runs.

    Attributes:
        labels: of the figures of each.
        differs: what was not equal, as ``chip: rk3576, rk3588``: figures may differ for each of it.
        points: that both have, in the order of the first.
        layers: in the order of the first run, then those of the second alone.
    """

    labels: tuple[FigureLabel, FigureLabel]
    differs: tuple[str, ...]
    points: tuple[PointChange, ...]
    layers: tuple[LayerChange, ...]


# fmt: off
KEPT_RUNS = Table("kept-runs", "A run that was measured and is kept.", (
    Column("id", format=NAME, help="Its name for --compare and --calibrate."),
    WHEN.but(help="When it was measured.", value=known("at")),
    MODEL.but(key="title", help="The model's name; of a damaged file what is wrong with it.",
              value=lambda run: f"damaged: {run.damaged}" if run.damaged else run.title),
    DEVICE.but(help="The board."),
    CHIP,
    Column("points", format=NUMBER, help="Choices of cores and threads with times."),
    MEDIAN_MS.but(help="The smallest median of its points.",
                  value=lambda run: None if run.median is None else run.median / 1000),
    LAYERS.but(help="Layers with times."),
    FIGURES_ARE.but(value=lambda run: None if run.damaged else run.label),
))

MEASURED_LIST = Query("measured.list", KeptFilter, KeptRuns, "perf history", options=False,
    about="List the runs that are kept, the newest first; nothing is measured.",
    tables={"runs": KEPT_RUNS},
    empty="No run is kept.")
MEASURED_COMPARE = Query("measured.compare", RunPair, RunsCompared, "perf compare", options=False,
    about="Set two kept runs side by side.")
# fmt: on
