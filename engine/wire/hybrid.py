"""Hybrid quantization: the table, the live effect, proposal, search, and the vendor's two steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from engine.base.findings import Finding
from engine.build import BuildSummary
from engine.wire.accuracy import RoundedOutput
from engine.wire.codec import Above, Key, Omit, Text, Whole
from engine.wire.flags import Argument, Flag, Force, output_flag
from engine.wire.formats import ADDED_BYTES, ADDED_MS, FIGURE, GAIN, NAME, PERCENT
from engine.wire.method import Part, Query, Task
from engine.wire.names import CURVE_KIND
from engine.wire.record import record
from engine.wire.requests import ModelTarget
from engine.wire.table import MAXIMUM, MINIMUM, OBSERVED_MAXIMUM, OBSERVED_MINIMUM, Column, no_noise

LayerDtypes = Mapping[str, str]
"""Layer -> dtype; in a request any name of the layer, in an answer its id."""
Decibels = Mapping[str, float | None]
"""Output -> SQNR in dB; None without noise."""
Budget = Annotated[int, Whole(1, 100_000)]
BudgetMs = Annotated[
    Annotated[float, Above(0)] | None,
    Flag(
        name="--budget-ms",
        help="Milliseconds of an inference on --target-platform at most (estimated); then what "
        "gains most for its time goes first.",
        unit="ms",
    ),
]
PromotedDtype = Annotated[
    str | None,
    Flag(
        name="--dtype",
        help="Dtype of the promoted layers. Default: half precision.",
        metavar="float16|int16",
    ),
]


def _read_dtype(text: str) -> tuple[str, str]:
    """``LAYER[=DTYPE]``, split at the last ``=``."""
    layer, mark, dtype = text.rpartition("=")
    layer, dtype = (layer, dtype) if mark else (text, "float16")
    if not layer or not dtype:
        raise ValueError(f"{text!r} is not LAYER or LAYER=DTYPE.")
    return layer, dtype


def _read_range(text: str) -> tuple[str, tuple[float, float]]:
    """``LAYER=LOW,HIGH``, split at the last ``=``."""
    layer, _, span = text.rpartition("=")
    try:
        low, high = (float(part) for part in span.split(","))
    except ValueError:
        layer = ""
    if not layer:
        raise ValueError(f"{text!r} is not LAYER=LOW,HIGH with two numbers.")
    return layer, (low, high)


def _write_range(item: tuple[str, tuple[float, float]]) -> str:
    layer, (low, high) = item
    return f"{layer}={low},{high}"


# ---------------------------------------------------------------------------------------- requests
@record
class EffectParams(ModelTarget):
    """A build, and layers and ranges in the place of its own."""

    layers: Annotated[
        LayerDtypes | None,
        Flag(
            name="--lift --promote",
            help="A layer, by any of its names; float16 by default.",
            metavar="LAYER[=DTYPE]",
            read=_read_dtype,
            write="=".join,
        ),
    ] = None
    ranges: Annotated[
        Mapping[str, tuple[float, float]] | None,
        Flag(
            name="--range",
            help="Its range.",
            metavar="LAYER=LOW,HIGH",
            read=_read_range,
            write=_write_range,
        ),
    ] = None
    rounding: Annotated[
        bool,
        Flag(
            name="--rounding/--no-rounding",
            help="Measure how far the outputs move when roundings at an edge go the other way, "
            "before and after; that takes several runs.",
        ),
    ] = True


@record
class ProposeParams(ModelTarget):
    """A build; how many layers are promoted to which dtype; how many samples are looked at.

    Attributes:
        gains: whether what each layer gains alone is wanted too.
    """

    budget: Annotated[
        Budget | None,
        Flag(
            help="Number of layers, with moves between them. Default: those worth 0.5 dB.",
            unit="layers",
        ),
    ] = None
    budget_ms: BudgetMs = None
    dtype: PromotedDtype = None
    samples: Omit[Annotated[int, Whole(1, 1000)]] = None
    gains: bool = False


@record
class SearchParams(ModelTarget):
    """A build, and what the search is to reach.

    Attributes:
        floor_db: of every output, or of single ones.
    """

    floor_db: Annotated[
        Mapping[str, float] | float | None,
        Flag(name="--floor", help="SQNR in dB that every output must reach.", unit="dB"),
    ] = None
    budget: Annotated[
        Budget | None, Flag(help="At most this many promoted layers, moves too.", unit="layers")
    ] = None
    budget_ms: BudgetMs = None
    dtype: PromotedDtype = None
    demote: Annotated[
        bool,
        Flag(
            name="--lower --demote",
            help="Start with all promoted; demote what is not needed.",
        ),
    ] = False
    seconds: Annotated[Annotated[float, Above(0)] | None, Flag(help="Time limit in seconds.")] = (
        None
    )


@record(kw_only=True)
class Step1Params(ModelTarget):
    """A recipe and the folder for the three files; see :func:`engine.pipeline.hybrid_steps`."""

    folder: Annotated[
        Text,
        Flag(
            name="-o --output-dir",
            help="Folder for the three files. Default: the current one.",
            kind="folder",
            otherwise=".",
        ),
    ]
    proposal: Annotated[bool, Flag(help="Promote the layers that matter most.")] = False
    proposal_dataset_size: Annotated[
        int, Whole(1, 100_000), Flag(help="Samples used by --proposal.")
    ] = 1
    custom_hybrid: Annotated[
        tuple[tuple[str, str], ...] | None,
        Flag(
            help="Promote all layers between two tensors; may be repeated.",
            metavar="INPUT OUTPUT",
        ),
    ] = None
    force: Force = False


@record
class Step2Params:
    """The files of step 1, edited; the container to write; another dataset than step 1's."""

    model: Annotated[Text, Argument()]
    data: Annotated[Text, Argument()]
    config: Annotated[Text, Argument()]
    dataset: Annotated[Text | None, Flag(help="Instead of step 1's.", kind="file")] = None
    path: Annotated[Text | None, output_flag("The .rknn to write.")] = None
    force: Force = False
    custom_ops: Omit[tuple[Text, ...]] = None


# ----------------------------------------------------------------------------------------- answers
# fmt: off
@record(kw_only=True)
class Promotable:
    """A layer that may get another dtype.

    Attributes:
        promote_ms, promote_bytes: estimated on the recipe's chip: what promoting it alone adds to
            an inference, and to the weights; None without a chip.
    """

    tensor: str
    id: Annotated[str, Key("layer")]
    op: str
    sources: Annotated[tuple[str, ...], Key("source")]
    promote_ms: Annotated[float | None, Column(
        "", "+ms", ADDED_MS, "What promoting it adds to an inference, estimated.", width=7)] = None
    promote_bytes: Annotated[int | None, Column(
        "", "+bytes", ADDED_BYTES, "What promoting it adds to the weights.", width=9)] = None


@record(kw_only=True)
class LayerRow(Promotable):
    """A layer of a build; see :mod:`engine.hybrid.layers`.

    Attributes:
        minimum, maximum: that its integers hold; None in float.
        time_ms: estimated on the recipe's chip, as it is built; None without a chip.
        target: where it runs there: ``NPU``, ``CPU``, ``none``; empty without a chip.
    """

    node: str
    aliases: tuple[str, ...]
    dtype: str
    choices: tuple[str, ...]
    minimum: Annotated[float | None, MINIMUM]
    maximum: Annotated[float | None, MAXIMUM]
    observed_minimum: Annotated[float | None, OBSERVED_MINIMUM]
    observed_maximum: Annotated[float | None, OBSERVED_MAXIMUM]
    sqnr_db: float | None
    samples: int
    kind: str
    time_ms: float | None = None
    target: str = ""

    @property
    def base(self) -> str:
        """The dtype that it has where nothing is asked for it: the first of its choices."""
        return self.choices[0]

    @property
    def lift(self) -> str:
        """What a promotion makes it: float16, else int16, else float32; empty for none."""
        better = () if self.base.startswith("float") else ("float16", "int16", "float32")
        return next((dtype for dtype in better if dtype in self.choices[1:]), "")


# fmt: on
@record
class OutputFigure:
    """SQNR of an output; None without noise."""

    name: str
    sqnr_db: float | None


@record
class Table:
    """Every layer of a build; ``over``: which samples their errors are over.

    Attributes:
        chip: that the times are estimated on; empty where the recipe names none, or there is no
            estimate.
        time_ms, bytes: of the whole build there: an inference, memory; estimated.
    """

    rows: tuple[LayerRow, ...]
    outputs: tuple[OutputFigure, ...]
    over: str
    chip: str = ""
    time_ms: float | None = None
    bytes: int | None = None


@record
class EffectOutput(OutputFigure):
    """SQNR of an output with the other choice, and with the build's own.

    Attributes:
        rounding, rounding_before: how far other roundings move it, in both; None where that was
            not asked for.
    """

    before_db: float | None
    rounding: RoundedOutput | None = None
    rounding_before: RoundedOutput | None = None


@record
class RequestCheck:
    """One request and what the build has.

    Attributes:
        layer: its id; of a range the tensor, where that is no layer's.
        kind: ``dtype`` or ``range``.
        asked, got: in words.
        ok: whether they agree.
        why: where they do not.
        line: of the file that asked; 0 without one.
    """

    layer: str
    kind: str
    asked: str
    got: str
    ok: bool
    why: str = ""
    line: int = 0


@record
class Effect:
    """What another choice would do, over the first ``samples``, in words ``over``; ``seconds``
    measured.

    Attributes:
        time_ms, time_before_ms, bytes: estimated on the recipe's chip: an inference with the choice
            and as built, memory with it; None without a chip.
    """

    outputs: tuple[EffectOutput, ...]
    honoured: tuple[RequestCheck, ...]
    seconds: float
    samples: int
    over: str
    label: str
    time_ms: float | None = None
    time_before_ms: float | None = None
    bytes: int | None = None


def _gain(row: Ranked) -> float:
    return no_noise(row.gain_db)


# fmt: off
@record(kw_only=True)
class Ranked(Promotable):
    """A proposed layer.

    Attributes:
        gain_db: what it gains at the outputs; None where nothing is left of the error.
        share: of the error, of 1.
        together: the layers that are promoted with it, since one alone would gain less; gain and
            costs are of all of them.
        gain_per_ms: dB for each millisecond that it adds; None where it adds less than 0.5 µs.
    """

    gain_db: Annotated[float | None, Column(
        "", "gain dB", GAIN, "What promoting it gains at the outputs (simulated); all: nothing is "
        "left of the error.", _gain)]
    share: Annotated[float | None, Column(
        "error_share", "of error %", PERCENT, "The error that promoting it takes away.", width=10)]
    gain_per_ms: Annotated[float | None, Column(
        "", "dB/ms", FIGURE, "Its gain for each millisecond that it adds.", width=7)] = None
    together: Annotated[tuple[str, ...], Column(
        "", "with", NAME, "What is promoted with it: gain and costs are of all of them.",
        lambda own: ", ".join(own.together) or None, from_width=100)] = ()


# fmt: on
@record(kw_only=True)
class Promotions:
    """Layers with the dtypes that are proposed for them, moves between them too."""

    layers: LayerDtypes
    ranking: tuple[Ranked, ...]


@record(kw_only=True)
class Proposal(Promotions):
    """Layers to promote, moves between them too; ``before`` and ``after`` predicted.

    Attributes:
        gains: every layer, and what promoting it alone gains; empty where that was not asked for.
        asked: what a recipe says that has them: the layers that it promotes already, too.
        chip: that the times are estimated on; empty without one.
        time_before_ms, time_after_ms: estimated there: an inference as built, and as proposed.
    """

    before: Decibels
    after: Decibels
    label: str = "simulated"
    asked: LayerDtypes = field(default_factory=dict)
    gains: tuple[Ranked, ...] = ()
    chip: str = ""
    time_before_ms: float | None = None
    time_after_ms: float | None = None


@record
class CurvePoint:
    """A build of a search, simulated over so many ``samples``; 0 in an older history.

    Attributes:
        step: from 0, the build without a choice.
        tensor, layer: that was promoted or demoted in this step; empty in step 0.
        dtype: that it has now.
        layers: everything that differs from the model's dtype, moves too.
        promoted: the layers that count.
        predicted: of the model that proposes.
        seconds: since the start, measured.
        score: of the user's function.
        time_ms, bytes: estimated on the recipe's chip: an inference, memory; None without a chip.
    """

    step: int
    tensor: str
    layer: str
    dtype: str
    layers: LayerDtypes
    promoted: tuple[str, ...]
    outputs: Decibels
    predicted: Decibels
    seconds: float
    score: float | None
    label: str = "simulated"
    time_ms: float | None = None
    bytes: int | None = None
    samples: int = 0


@record
class SearchResult:
    """What a search found.

    Attributes:
        best: the point that meets the floor with the fewest layers, else the best one.
        reached: whether the floor was met; None without one.
        ended: ``floor``, ``budget``, ``time``, ``asked`` or ``nothing more``.
        trials: how many builds were made.
    """

    best: CurvePoint
    curve: tuple[CurvePoint, ...]
    reached: bool | None
    ended: str
    trials: int


@record
class Joins:
    """Joins of unlike ranges."""

    findings: tuple[Finding, ...]


@record
class StepFiles:
    """The three files of step 1."""

    model: str
    data: str
    config: str


@record(kw_only=True)
class Step1(Promotions):
    """What step 1 wrote, and proposed; the figures only with a proposal."""

    files: StepFiles
    before: Omit[Decibels] = None
    after: Omit[Decibels] = None
    label: Omit[str] = None


@record
class Built:
    """What step 2 built, what became of every edit, and the file that was written."""

    summary: BuildSummary
    honoured: tuple[RequestCheck, ...]
    path: str | None


# fmt: off
TABLE = Query("hybrid.table", ModelTarget, Table, "hybrid table",
    about="List the layers of a build with dtype, range, SQNR and cost on --target-platform.")
JOINS = Query("joins", ModelTarget, Joins, "hybrid joins",
    about="Find inputs with mismatched ranges before a build.")
EFFECT = Task("hybrid.effect", EffectParams, Effect, "hybrid effect",
    about="Show the effect of other dtypes and ranges.")
PROPOSE = Task("hybrid.propose", ProposeParams, Proposal, "hybrid propose",
    about="Rank the layers by the gain of promoting them.")
SEARCH = Task("hybrid.search", SearchParams, SearchResult, "hybrid search",
    about="Find the layers to promote for a floor or a budget.")
STEP1 = Task("hybrid.step1", Step1Params, Step1, "hybrid step1",
    about="Write the three files of hybrid quantization step 1.")
STEP2 = Task("hybrid.step2", Step2Params, Built, "hybrid step2", options=False,
    about="Build from the edited files of step 1.")
# fmt: on
CURVE = Part(CURVE_KIND, CurvePoint)
