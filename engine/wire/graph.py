"""Graphs: nodes, constants, and the tensors of a build."""

from __future__ import annotations

from typing import Annotated, Literal

from engine.wire.codec import Text, Whole
from engine.wire.method import Query
from engine.wire.record import record
from engine.wire.requests import ModelTarget

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
class VendorQuant(TensorQuant):
    """What a vendor's file declares of a quantized tensor beside that; it names no axis.

    Attributes:
        method: ``layer`` or ``channel``; empty where the file does not tell.
        minimum, maximum: the range used.
        observed: (minimum, maximum) seen while calibrating, before it was adjusted; None where the
            file does not tell.
        fraction: fractional bits of a dynamic fixed point type; None for affine types.
    """

    method: str
    minimum: tuple[float | None, ...]
    maximum: tuple[float | None, ...]
    observed: tuple[float | None, ...] | None
    fraction: int | None


@record
class GraphView:
    """A graph in the order of execution; ``groups`` are the scopes in the nodes' names."""

    nodes: tuple[NodeRow, ...]
    groups: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


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


@record
class Channels:
    """Range of every channel along ``axis``."""

    axis: int
    minimum: tuple[float | None, ...]
    maximum: tuple[float | None, ...]


@record
class TensorStatistics:
    """A constant; figures are over its finite values, None where there are none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
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
class TensorRange:
    """How a build stores a tensor; the range is of every channel."""

    dtype: str
    scale: tuple[float | None, ...]
    zero_point: tuple[int, ...]
    minimum: tuple[float | None, ...] | None
    maximum: tuple[float | None, ...] | None


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
