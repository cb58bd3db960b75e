"""What a model costs on a chip: placement, cycles, memory, time. Everything here is estimated."""

from __future__ import annotations

from dataclasses import field
from itertools import accumulate
from typing import Annotated, Literal

from engine.base.findings import Finding, Severity
from engine.wire.codec import Between, Text, Whole
from engine.wire.flags import Flag
from engine.wire.formats import COUNT, SHAPE, SIZE
from engine.wire.method import Query
from engine.wire.record import record
from engine.wire.requests import ModelTarget
from engine.wire.table import (
    ADDED,
    ESTIMATED_CYCLES,
    ESTIMATED_MS,
    MACS,
    REASON,
    REMEDY,
    WEIGHTS,
    Column,
    known,
    most_of,
)

Placed = Literal["NPU", "CPU", "unknown", "none"]
"""Where a layer runs; ``none``: the compiler refuses the model for it; ``unknown``: of generation
1, whose manuals do not say whether the NPU or the CPU computes it."""
Bound = Literal["compute", "memory", "activation", "attention", "cpu", "start", "nothing"]
"""What most of a layer's time is: multiplying, moving bytes, the table of an activation, ...,
starting the layer; ``nothing`` where it takes no time."""


# ----------------------------------------------------------------------------------------- requests
@record
class ChipsParams:
    """Chips whose facts are wanted; all where empty."""

    chips: tuple[Text, ...] = ()


EstimatedChips = Annotated[
    tuple[Text, ...],
    Flag(
        name="--chip",
        help="A chip such as rk3588, once per chip: its cost is estimated.",
        metavar="CHIP",
        kind="chip",
    ),
]
EstimatedDtype = Annotated[
    str | None,
    Flag(
        name="--dtype",
        help="Of an estimate: int8 or float16. Default: as the recipe; float16 where int8 is not.",
        metavar="int8|float16",
    ),
]
OtherSizes = Annotated[
    tuple[Text, ...],
    Flag(
        name="--input-size",
        help="Of an estimate: another shape of an input, or size of an image; once per input.",
        metavar="NAME=1,3,640,640|640x640",
    ),
]
NpuClock = Annotated[
    Annotated[float, Between(1, 10_000)] | None,
    Flag(
        name="--npu-mhz",
        help="Of an estimate: clock of the NPU in MHz. Default: the chip's highest.",
    ),
]


@record
class WhatIf:
    """What an estimate varies beside the recipe.

    Attributes:
        chips: all of both generations where empty.
        dtype: None: the recipe's, int8 where it quantizes and the chip has it, else float16.
        batch: inferences at once; None: the recipe's ``rknn_batch_size``, else 1.
    """

    chips: EstimatedChips = ()
    dtype: EstimatedDtype = None
    input_sizes: OtherSizes = ()
    batch: Annotated[
        Annotated[int, Whole(1, 1024)] | None,
        Flag(
            name="--rknn-batch-size",
            help="Of an estimate: inferences at once. Default: the recipe's, else 1.",
            option="rknn_batch_size",
        ),
    ] = None
    npu_mhz: NpuClock = None
    cores: Annotated[
        int,
        Whole(1, 8),
        Flag(help="NPU cores that share an inference (core_mask)."),
    ] = 1


@record
class EstimateParams(WhatIf, ModelTarget):
    """A model, and what to vary. What is not given is the recipe's.

    Attributes:
        layers: whether each chip's layers are in the answer.
        spans: whether memory over time is in it.
    """

    layers: bool = True
    spans: bool = False


@record
class CostCheckParams(ModelTarget):
    """A model, and the chips to check it for; all where empty.

    Attributes:
        dtype, input_sizes: as of :class:`EstimateParams`.
    """

    chips: EstimatedChips = ()
    dtype: EstimatedDtype = None
    input_sizes: OtherSizes = ()


@record
class AdviceParams(ModelTarget):
    """A model and the chip that it is to be made faster for.

    Attributes:
        dtype, input_sizes, npu_mhz: as of :class:`EstimateParams`.
    """

    chip: str | None = None
    dtype: str | None = None
    input_sizes: tuple[Text, ...] = ()
    npu_mhz: float | None = None


def _read_run(text: str) -> str | None:
    return None if text == "newest" else text


@record
class CalibrateParams(ModelTarget):
    """A model and a run of it that was measured, from the history of ``perf``.

    Attributes:
        run: the id of the run; None: the newest of this model on any board.
    """

    run: Annotated[
        str | None,
        Flag(
            help="Id of the kept run. Default: the newest of a model of this name.",
            metavar="ID",
            read=_read_run,
        ),
    ] = None


# ----------------------------------------------------------------------------------------- answers
@record
class ChipFigure:
    """One figure of a chip: name, value with its unit, where it is from."""

    name: str
    value: str
    source: str


@record
class ChipFacts:
    """What is known of a chip.

    Attributes:
        dtypes: quantized dtypes of its toolkit, in the vendor's words.
        confidence: of an estimate: ``fitted`` to published rates of this chip, ``derived`` from a
            chip of the same design, ``structural`` where no rate was ever published.
    """

    name: str
    generation: int
    toolkit: str
    npu_cores: int
    dtypes: tuple[str, ...]
    figures: tuple[ChipFigure, ...]
    confidence: str


@record
class Chips:
    """The chips asked for."""

    chips: tuple[ChipFacts, ...]


@record
class Interval:
    """A figure with the interval that holds it nine times in ten."""

    value: float
    low: float
    high: float


@record(kw_only=True)
class Step:
    """What a compiler or a runtime takes as one step, as it calls it; empty where it says nothing.

    Attributes:
        name: ``Conv:/stem/conv``.
        op, dtype: ``ConvExSwish``, ``INT8``.
        target: where it runs: ``NPU``, ``CPU``, ``GPU``.
    """

    name: str = ""
    op: str = ""
    dtype: str = ""
    target: str = ""


# fmt: off
@record(kw_only=True)
class LayerCost(Step):
    """A layer as the compiler lays it out.

    Attributes:
        id: the layer of the build that it belongs to (``layer.id``), the first where it does the
            work of several; a layer that the compiler adds has that of the layer it serves.
        layers: all of them.
        shapes_in, shape_out: as the compiler prints them.
        ddr_cycles, npu_cycles, total_cycles: as it prints them; 0 of generation 1, which has none.
    """

    id: str
    layers: tuple[str, ...]
    target: Placed
    reason: Annotated[str, REASON.but(width=8)]
    remedy: Annotated[str, REMEDY.but(width=8)]
    shapes_in: Annotated[str, Column("", "inputs", SHAPE, "Shapes that it reads.",
                                     known("shapes_in"), only="file")]
    shape_out: Annotated[str, Column("", "output shape", SHAPE, "The shape that it writes.",
                                     known("shape_out"), width=10)]
    ddr_cycles: Annotated[int, ADDED, Column("", "DDR cycles", COUNT, "Cycles of memory, "
                                             "estimated.", known("ddr_cycles"), width=10)]
    npu_cycles: Annotated[int, ADDED, Column("", "est. NPU cycles", COUNT,
                                             "Cycles of the NPU, estimated.")]
    total_cycles: Annotated[int, ADDED, ESTIMATED_CYCLES.but(
        key="total_cycles", help="Its cycles, estimated.")]
    read_bytes: Annotated[int, ADDED, Column("", "read", SIZE, "Bytes that it reads in an "
                                             "inference, weights among them, estimated.", width=9)]
    write_bytes: Annotated[int, ADDED, Column("", "written", SIZE, "Bytes that it writes, "
                                              "estimated.", width=9)]
    weight_bytes: Annotated[int, ADDED, WEIGHTS.but(
        help="Bytes of its weights.", value=known("weight_bytes"), width=9)]
    macs: Annotated[int, ADDED, MACS]
    time_ms: Annotated[float, ADDED, ESTIMATED_MS]
    bound: Annotated[Bound, most_of("time_ms"), Column("", help="What most of its time is.",
                                                       width=10)]

    @property
    def finding(self) -> Finding:
        """That it is not on the NPU, why, and what to do."""
        where = {"none": "refused", "unknown": "not known where"}
        severity: Severity = "error" if self.target == "none" else "warning"
        what = f"{where.get(self.target, f'on the {self.target}')}: {self.reason}"
        return Finding("placement", severity, self.id, what, remedy=self.remedy)

    @property
    def intensity(self) -> float | None:
        """Operations for each byte moved, a multiply-accumulate is two; None without any."""
        moved = self.read_bytes + self.write_bytes
        return 2 * self.macs / moved if self.macs > 0 and moved > 0 else None

    @property
    def gops(self) -> float | None:
        """10^9 operations a second; None where it multiplies nothing or takes no time."""
        if self.macs <= 0 or self.time_ms <= 0:
            return None
        return 2 * self.macs / (self.time_ms * 1e6)


# fmt: on
@record
class TensorSpan:
    """A tensor in internal memory: bytes ``start`` to ``end``, from layer ``first`` to ``last``
    (indexes of the estimate's layers).
    """

    tensor: str
    start: int
    end: int
    first: int
    last: int


@record
class MemoryCost:
    """Bytes of a model on a chip; ``spans``: the tensors in internal memory over time."""

    internal: int
    weight: int
    total: int
    spans: tuple[TensorSpan, ...] = ()

    def alive(self, layer: int) -> tuple[TensorSpan, ...]:
        """The tensors in internal memory while a layer runs, by address."""
        alive = (span for span in self.spans if span.first <= layer <= span.last)
        return tuple(sorted(alive, key=lambda span: (span.start, span.end, span.tensor)))

    @property
    def peak(self) -> tuple[int, int]:
        """The first layer at which most bytes are alive, and these bytes."""
        changes: dict[int, int] = {}
        for span in self.spans:
            size = span.end - span.start
            changes[span.first] = changes.get(span.first, 0) + size
            changes[span.last + 1] = changes.get(span.last + 1, 0) - size
        layers = sorted(changes)
        sums = list(accumulate(changes[layer] for layer in layers))
        most = max(sums, default=0)
        return (layers[sums.index(most)], most) if layers else (0, 0)


@record
class OnChip:
    """Where the layers of a model run on a chip.

    Attributes:
        problem: why nothing is known of them (an operator that it refuses, no such dtype).
        cpu_layers: None for generation 1, of which it is not public.
        unknown_layers: that the NPU or the CPU computes, which is not public.
        warnings: what crashes the vendor's compiler or has no effect in it, and what to do.
    """

    chip: str
    generation: int
    dtype: str
    problem: str = field(default="", kw_only=True)
    npu_layers: int = field(default=0, kw_only=True)
    cpu_layers: int | None = field(default=0, kw_only=True)
    refused_layers: int = field(default=0, kw_only=True)
    unknown_layers: int = field(default=0, kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)


@record
class ChipEstimate(OnChip):
    """What a model costs on one chip; without an estimate (``problem``) every figure is None.

    Attributes:
        confidence: as of :class:`ChipFacts`, or ``calibrated`` by a run of the user's board.
        time_ms, fps: of an inference, with all ``cores`` and the ``batch``: ``fps`` counts each.
        peak_gops: 10^9 operations a second that its MACs do at this dtype, clock and number of
            cores; a multiply-accumulate is two. None where its clock is not published.
        bandwidth_gbs: 10^9 bytes a second between NPU and memory; None where it is not known.
        stratum: kind of network that the interval is of; empty where there is one kind.
        reaches: ``yes``, ``no`` or ``maybe``: whether it does the frames a second asked for, and
            its whole interval with it; empty where none were asked for, or there is no estimate.
        notes: what the figures leave out, in sentences.
    """

    cores: int
    batch: int
    npu_mhz: float
    confidence: str
    remedy: str = ""
    time_ms: Interval | None = None
    fps: Interval | None = None
    memory: MemoryCost | None = None
    total_cycles: int = 0
    macs: int = 0
    layers: tuple[LayerCost, ...] = ()
    notes: tuple[str, ...] = ()
    label: str = "estimated"
    peak_gops: float | None = None
    bandwidth_gbs: float | None = None
    stratum: str = ""
    reaches: str = ""

    def roof(self, intensity: float) -> float | None:
        """10^9 operations a second that so many for each byte allow; None: a rate is not known."""
        if not self.peak_gops or not self.bandwidth_gbs:
            return None
        return min(self.peak_gops, self.bandwidth_gbs * intensity)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the vendor's compiler fails at; then the layers off the NPU, refused ones first."""
        known = [Finding("compiler", "warning", self.chip, text) for text in self.warnings]
        rows = sorted(self.layers, key=lambda row: row.target != "none")
        return (*known, *(row.finding for row in rows if row.reason and row.target != "NPU"))


@record
class Estimates:
    """A model on several chips, in the order asked for; ``seconds`` that it took.

    Attributes:
        fps_asked: frames a second that :attr:`ChipEstimate.reaches` is of; 0 without.
    """

    model: str
    chips: tuple[ChipEstimate, ...]
    seconds: float
    findings: tuple[Finding, ...] = ()
    fps_asked: float = 0.0

    def of(self, chip: str) -> ChipEstimate | None:
        """That of a chip; None where it is not among them."""
        return next((row for row in self.chips if row.chip == chip), None)


@record(kw_only=True)
class ChipCheck(OnChip):
    """A model on one chip: how many layers where, and the rows of those not on the NPU."""

    rows: tuple[LayerCost, ...]


@record
class CheckAnswer:
    """A model on the chips asked for."""

    model: str
    chips: tuple[ChipCheck, ...]


@record
class Advice:
    """One way to make a model faster.

    Attributes:
        title: what to do, in one line.
        why: the reason, with the numbers of this model.
        layers: ids of the layers that it is about.
        gain_ms: what it saves, estimated; None where it cannot be told.
        source: of the manual's tip.
    """

    title: str
    why: str
    layers: tuple[str, ...]
    gain_ms: float | None
    source: str


@record
class AdviceAnswer:
    """Ways to make a model faster on a chip, the largest gain first; ``time_ms`` as it is."""

    chip: str
    time_ms: float | None
    advice: tuple[Advice, ...]


@record
class Calibrated:
    """What a measured run says about the estimates of its chip.

    Attributes:
        factor: estimates of this chip are multiplied by it: measured time over estimated, nearer
            to 1 the more of the difference may be chance.
        spread: half width of the calibrated interval, of the logarithm, for networks of the same
            ``stratum`` as the measured one.
    """

    chip: str
    run: str
    measured_ms: float
    estimated_ms: float
    factor: float
    notes: tuple[str, ...] = field(default=())
    spread: float | None = None
    stratum: str = ""


COST_CHIPS = Query("cost.chips", ChipsParams, Chips)
# fmt: off
COST_ESTIMATE = Query("cost.estimate", EstimateParams, Estimates, "perf estimate",
    about="Estimate the cost of each layer on a chip.",
    example="Example: rknntui perf estimate model.onnx --chip rk3588 --fail-over 20ms")
COST_CHECK = Query("cost.check", CostCheckParams, CheckAnswer, "check", after="chips",
    about="Check which layers of a model run on the NPU of each chip.",
    example="Example: rknntui check model.onnx --chip rk3566 --fail-cpu 0")
COST_ADVICE = Query("cost.advice", AdviceParams, AdviceAnswer)
COST_CALIBRATE = Query("cost.calibrate", CalibrateParams, Calibrated, "perf calibrate",
    about="Correct a chip's estimates by a kept run.")
# fmt: on
