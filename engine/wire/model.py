"""Models: what a file is, its view, a load; its graph, constants, and tensors of a build."""

from __future__ import annotations

from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.build import BuildSummary
from engine.wire.codec import Omit, Text, Whole
from engine.wire.method import Nothing, Query, Task
from engine.wire.record import record
from engine.wire.requests import AtPath, ModelTarget
from engine.wire.segments import Segment

# Graphs: nodes, constants, and the tensors of a build.

Which = Literal["source", "optimised", "quantized"]
"""Which of a build's graphs."""

Bins = Annotated[int, Whole(1, 4096)]
NodeRow = tuple[str, str, str, str, str, int]
"""(name, operator, first output, shape as text, dtype, number of its group)."""


@record
class GraphParams(ModelTarget):
    """A graph of a model."""

    which: Which = "source"


@record(kw_only=True)
class NodeParams(GraphParams):
    """A node of a graph."""

    name: Text


@record(kw_only=True)
class TensorParams(GraphParams):
    """A constant of a graph, and how many bins its histogram has."""

    name: Text
    bins: Bins = 64


@record(kw_only=True)
class LayerParams(ModelTarget):
    """A tensor of a build, and how many bins its histograms have."""

    tensor: Text
    bins: Bins = 64


@record
class Tensor:
    """An input or output; -1 stands for an unknown dimension, ``[-1]`` for an unknown rank."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@record
class TensorQuant:
    """Parameters of a quantized tensor; ``axis`` where there is one scale for each channel."""

    dtype: str
    scale: tuple[float | None, ...]
    zero_point: tuple[int, ...]
    axis: int | None


@record
class TensorRange(TensorQuant):
    """How a build stores a tensor; the range is of every channel."""

    minimum: tuple[float | None, ...] | None
    maximum: tuple[float | None, ...] | None


@record
class VendorQuant(TensorRange):
    """What a vendor's file declares of a quantized tensor beside that; it names no axis.

    Attributes:
        method: ``layer`` or ``channel``; empty where the file does not tell.
        minimum, maximum: the range used.
        observed: (minimum, maximum) seen while calibrating, before it was adjusted; None where the
            file does not tell.
        fraction: fractional bits of a dynamic fixed point type; None for affine types.
    """

    method: str
    observed: tuple[float | None, ...] | None
    fraction: int | None


@record
class GraphView:
    """A graph in the order of execution; ``groups`` are the scopes in the nodes' names.

    Attributes:
        edges: number of a node, number of one that reads what it writes, and so on: each pair once,
            in a flat list, which is read fast.
    """

    nodes: tuple[NodeRow, ...]
    groups: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    edges: tuple[int, ...] = ()


@record
class TensorEnd(Tensor):
    """A tensor that a node reads or writes; one that is left out has the name ``""``."""

    kind: Literal["constant", "input", "activation"]
    quant: TensorQuant | None


@record
class VendorEnd(Tensor):
    """The same of a vendor's file; ``bytes`` as it is stored."""

    kind: Literal["constant", "input", "activation"]
    quant: VendorQuant | None
    native_shape: tuple[int, ...]
    bytes: int | None


@record
class NodeDetail:
    """Everything about one node; ``origin``: the source nodes that it was made of."""

    name: str
    op: str
    domain: str
    attributes: tuple[tuple[str, str], ...]
    inputs: tuple[TensorEnd | VendorEnd, ...]
    outputs: tuple[TensorEnd | VendorEnd, ...]
    origin: tuple[str, ...]


@record
class Histogram:
    """Counts of equal bins from ``low`` to ``high``."""

    low: float
    high: float
    counts: tuple[int, ...]

    def over(self, low: float, high: float, bins: int) -> tuple[float, ...]:
        """The counts over other bins from ``low`` to ``high``; a count is shared by overlap."""
        out = [0.0] * bins
        if high <= low:
            out[bins // 2] = float(sum(self.counts))
            return tuple(out)
        width = (high - low) / bins
        step = (self.high - self.low) / max(1, len(self.counts))
        for index, count in enumerate(self.counts):
            left = self.low + index * step
            ends = (min(bins - 1, max(0, int((end - low) / width))) for end in (left, left + step))
            first, last = ends
            for at in range(first, last + 1):
                shared = min(left + step, low + (at + 1) * width) - max(left, low + at * width)
                out[at] += count * max(0.0, shared / step if step > 0 else 1.0)
        return tuple(out)


@record
class Channels:
    """Range of every channel along ``axis``."""

    axis: int
    minimum: tuple[float | None, ...]
    maximum: tuple[float | None, ...]


@record
class TensorStatistics(Tensor):
    """A constant; figures are over its finite values, None where there are none."""

    count: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    zeros: int
    finite: bool
    histogram: Histogram | None
    channels: Channels | None


@record
class Saturation:
    """Shares of 1 of a tensor's float values below and above what the integers hold.

    A value counts where it lies more than half a step beyond the end of the range, so that
    rounding alone cannot have brought it there.
    """

    low: float
    high: float


@record
class LayerSpread:
    """One tensor over the calibration samples, float and simulated.

    Attributes:
        golden, simulated: counts of equal bins between ``low`` and ``high``.
        range: the observed (minimum, maximum) of the float values.
        channels: the greatest absolute float value of each channel (axis 1); empty without.
        sqnr_db, cosine: simulated; None without noise, or where it is no number.
    """

    tensor: str
    layer: str
    op: str
    samples: int
    low: float
    high: float
    golden: tuple[int, ...]
    simulated: tuple[int, ...]
    range: tuple[float | None, float | None]
    quant: TensorRange | None
    saturation: Saturation | None
    sqnr_db: float | None
    cosine: float | None
    channels: tuple[float, ...] = ()

    @property
    def reach(self) -> tuple[float, float] | None:
        """From where to where the integers reach, over all channels; None where they have none."""
        quant = self.quant
        lows = [low for low in (quant and quant.minimum) or () if low is not None]
        highs = [high for high in (quant and quant.maximum) or () if high is not None]
        return (min(lows), max(highs)) if lows and highs else None

    @property
    def clipped(self) -> float | None:
        """Share of the float values that the integers cannot hold (0..1); None in float."""
        lost = self.saturation
        return None if lost is None else lost.low + lost.high


@record
class RangeRow:
    """A tensor of the quant table.

    Attributes:
        scales: how many; ``scale`` is the smallest, ``scale_max`` the largest of them.
        zero_point: None where the channels' differ.
        minimum, maximum: over all channels; None where the tensor has none, as below.
        observed_minimum, observed_maximum: of the calibration.
    """

    tensor: str
    dtype: str
    scales: int
    scale: float | None
    scale_max: float | None
    zero_point: int | None
    minimum: float | None
    maximum: float | None
    observed_minimum: float | None
    observed_maximum: float | None


@record
class Ranges:
    """The quant table of a build."""

    tensors: tuple[RangeRow, ...]


GRAPH = Query("graph", GraphParams, GraphView)
NODE = Query("node", NodeParams, NodeDetail)
TENSOR = Query("tensor", TensorParams, TensorStatistics)
LAYER = Query("layer", LayerParams, LayerSpread)
RANGES = Query("ranges", ModelTarget, Ranges)


@record
class LoadParams(ModelTarget):
    """A model to load; ``refresh`` takes nothing from the cache."""

    refresh: bool = False


@record
class WorkerFacts:
    """The worker: version, process number, resident memory in MB (10**6 bytes)."""

    version: str
    pid: int
    rss_mb: float


@record
class FileKind:
    """What a file is, by its content; ``why`` it is taken for that."""

    kind: str
    format: str
    why: str


@record
class Pair:
    """A model of two files."""

    model: str
    weights: str


@record
class Pairs:
    """The models that a file may be one half of."""

    pairs: tuple[Pair, ...]


@record
class Port(Tensor):
    """An input or output of a vendor's model, as the file declares it."""

    layout: str
    runtime_dtype: str
    runtime_layout: str
    source_dtype: str
    mean: tuple[float | None, ...]
    std: tuple[float | None, ...]
    rgb2bgr: bool | None
    quant: VendorQuant | None


@record
class Candidates:
    """Names of tensors that suit as inputs and outputs of a model."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@record
class Preflight:
    """What a load is going to meet.

    Attributes:
        versions: (name, what was found, what is read).
        operators: (operator, how many, why it is refused or empty).
    """

    recognised: FileKind
    files: tuple[str, ...]
    versions: tuple[tuple[str, str, str], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    candidates: Candidates
    operators: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]


@record(kw_only=True)
class GraphFacts:
    """A loaded graph in figures.

    Attributes:
        operators: operator -> count, most frequent first.
        parameters: elements of all weights; ``weights_bytes`` their bytes.
    """

    inputs: tuple[Port | Tensor, ...]
    outputs: tuple[Port | Tensor, ...]
    nodes: int
    operators: dict[str, int]
    parameters: int
    weights_bytes: int


@record(kw_only=True)
class ModelView(GraphFacts):
    """A model as a whole, of any kind of file.

    Attributes:
        recipe: of a container, or of the recipe that was opened.
        summary: of a container's build, with what the file itself cannot know.
        preflight: of a source model.
        vendor: what only a vendor's file has, name -> fact, nested.
        loaded: whether a source model's graph is there.
        segments: of a container that is cut into some.
    """

    kind: str
    path: str
    name: str
    format: str
    sha256: str
    findings: tuple[Finding, ...]
    recipe: Values | None
    summary: BuildSummary | None
    preflight: Omit[Preflight] = None
    vendor: Omit[Values] = None
    loaded: Omit[bool] = None
    segments: Omit[tuple[Segment, ...]] = None


@record(kw_only=True)
class Loaded(GraphFacts):
    """A source model that was loaded; ``seconds`` measured, ``cached`` when nothing was done."""

    framework: str
    format: str
    producer: str
    files: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    seconds: float
    cached: bool


PING = Query("ping", Nothing, WorkerFacts)
WARM = Query("warm", Nothing, WorkerFacts)
SNIFF = Query("sniff", AtPath, FileKind)
PAIRS = Query("pairs", AtPath, Pairs)
# fmt: off
OPEN = Query("open", ModelTarget, ModelView, "inspect", options=False, after="demo",
    about="Show what a file is and what it contains.",
    example="TARGET is a model of any of the seven frameworks (either file of a pair), a recipe, "
    "or any .rknn or .rknnop file. Without --load nothing is converted: it reports what a load "
    "needs.")
# fmt: on
LOAD = Task("load", LoadParams, Loaded, "inspect --load", options="source")
