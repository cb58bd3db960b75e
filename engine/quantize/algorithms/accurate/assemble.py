"""From statistics and a choice of steps to everything that the QDQ form is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.graph.ir import Graph, QuantParams
from engine.quantize.algorithms.accurate.range_margin import WEIGHINGS, MarginRules, range_ends
from engine.quantize.algorithms.accurate.statistics import Statistics, TailStats
from engine.quantize.algorithms.ranges import activation_table, has_arbitrary_scale
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.dtypes.formats import Format
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.interface import LayerWeights, Prepared, QuantizeSettings, quantize_weights
from engine.quantize.planning.plan import Plan, root_of
from engine.quantize.techniques.channels import Channels
from engine.quantize.techniques.equalize import (
    ChannelRange,
    ConsumerNoise,
    equalization_factors,
    scaled_graph,
)
from engine.quantize.techniques.rounding import corrected_bias, weight_matrix, with_feedback

# By what the range of a graph input may be widened.
_WIDTHS = tuple(1.0 + 0.0025 * i for i in range(17))

# By what the range of a graph output is wider than that of an inner tensor with the same tail. Its
# own rounding is little of the error that arrives there, and its clipping nothing softens.
_RESULTS = 1.25


@dataclass(frozen=True)
class Candidate:
    """A candidate: which steps it takes.

    Attributes:
        equalize: scale channels by their activation ranges.
        margin: let ranges reach beyond the samples, by the rule of ``range_margin`` with this
            weighing; where it is empty every range ends where the samples end.
        feedback: round weights with error feedback.
        bias: correct biases, unless the settings forbid it.
    """

    equalize: bool = True
    margin: str = WEIGHINGS[0]
    feedback: bool = True
    bias: bool = True

    def without_feedback(self) -> Candidate:
        """The same without error feedback, which takes time and is no matter of choice."""
        return replace(self, feedback=False)


@dataclass(frozen=True)
class RangeEnd:
    """One end of a tensor's values, and by each weighing the rules that set the range there."""

    tail: TailStats
    rules: Mapping[str, MarginRules]


@dataclass(frozen=True)
class CalibrationStats:
    """The statistics that every candidate is built from; they depend on none of them."""

    graph: Graph
    plan: Plan
    settings: QuantizeSettings
    channels: Channels
    statistics: Statistics
    above: Mapping[str, RangeEnd]
    below: Mapping[str, RangeEnd]
    readers: list[ConsumerNoise]
    logits: Mapping[str, tuple[float, float]]
    shares: Mapping[str, float]

    def ranges(self, candidate: Candidate, rows: Sequence[int]) -> dict[str, ChannelRange]:
        """The range of every watched tensor's channels, judged by some of the samples."""
        index = np.asarray(rows)
        ranges: dict[str, ChannelRange] = {}
        for name, seen in self.statistics.tensors.items():
            least = np.minimum(seen.low[index].min(axis=0), 0.0)
            most = np.maximum(seen.high[index].max(axis=0), 0.0)
            if candidate.margin and _takes_room(self.plan.formats.get(name)):
                clamps = self.plan.clamps.get(name, ())
                top = min((clamp.high for clamp in clamps), default=np.inf)
                bottom = max((clamp.low for clamp in clamps), default=-np.inf)
                if name in self.above:
                    most = np.minimum(self._end(name, self.above[name], index, candidate), top)
                if name in self.below:
                    least = np.maximum(-self._end(name, self.below[name], index, candidate), bottom)
            ranges[name] = ChannelRange(np.minimum(least, 0.0), np.maximum(most, 0.0))
        return ranges

    def _end(self, name: str, end: RangeEnd, index: np.ndarray, candidate: Candidate) -> np.ndarray:
        rules = end.rules[candidate.margin]
        groups = self.channels.groups.get(name)
        one = groups is None or bool(self.channels.frozen[groups].any()) or not candidate.equalize
        rule = rules.one if one else rules.each
        return range_ends(end.tail, index, self.statistics.samples, rule)


def assemble(stats: CalibrationStats, candidate: Candidate, rows: Sequence[int]) -> Prepared:
    """Quantize by a choice, with ranges from some of the samples.

    Args:
        stats: of all samples.
        candidate: the steps.
        rows: numbers of the samples that ranges may come from.
    """
    plan, channels = stats.plan, stats.channels
    spans = stats.ranges(candidate, rows)
    factors = np.ones(channels.count)
    graph = stats.graph
    if candidate.equalize and channels.count:
        factors = equalization_factors(
            channels, stats.readers, _with_own_scale(plan, spans), stats.shares
        )
        graph = scaled_graph(graph, channels, factors)
    seen, ranges = _tensor_ranges(stats, spans, factors, candidate)
    activations = activation_table(graph, plan, seen, ranges)
    weights = quantize_weights(graph, plan, activations, stats.settings.granularity)
    if candidate.feedback or candidate.bias:
        for name, layer_weights in weights.items():
            weights[name] = _rounded(
                stats, graph, name, layer_weights, factors, candidate, activations
            )
    return Prepared(graph, plan, activations, weights)


def _takes_room(form: Format | None) -> bool:
    """Whether a format is given room beyond the samples here.

    Of 8 bits with a scale that is a power of two it may cost one; affine ones of 16 bits have it
    from :func:`~engine.quantize.algorithms.ranges.activation_table`.
    """
    return form is None or (form.bits > 8) == (form.kind == "dynamic_fixed_point")


def _with_own_scale(plan: Plan, spans: Mapping[str, ChannelRange]) -> dict[str, ChannelRange]:
    """Without the inputs of a Concat that take the scale of its output."""
    borrowed = {root for concat in plan.concats for root in concat.sharing}
    return {name: span for name, span in spans.items() if name not in borrowed}


def noise_shares(graph: Graph) -> dict[str, float]:
    """Tensors that only averages read -> 1 / window: so much of their noise power is left."""
    shares: dict[str, float] = {}
    for name, value in graph.values.items():
        readers = [use.node for use in value.uses()]
        if not readers or value.is_graph_output() or value.shape is None:
            continue
        windows = []
        for node in readers:
            window = 1
            if node.op_type == "GlobalAveragePool":
                sizes = [size for size in value.shape[2:] if isinstance(size, int)]
                window = int(np.prod(sizes))
            elif node.op_type == "AveragePool":
                window = int(np.prod(node.attributes.get_ints("kernel_shape", (1,))))
            windows.append(window)
        if min(windows) > 1:
            shares[name] = 1.0 / min(windows)
    return shares


def _tensor_ranges(
    stats: CalibrationStats,
    spans: Mapping[str, ChannelRange],
    factors: np.ndarray,
    candidate: Candidate,
) -> tuple[Observations, dict[str, tuple[float, float]]]:
    """What the tensors of the equalized graph were seen to hold, and the ranges chosen."""
    plan, groups = stats.plan, stats.channels.groups
    tensors: dict[str, Observation] = {}
    ranges: dict[str, tuple[float, float]] = {}
    results = {root_of(spec.name, plan.sources) for spec in stats.graph.outputs}
    for name in plan.tensors:
        root = root_of(name, plan.sources)
        span, seen = spans[root], stats.statistics.tensors[root]
        own = factors[groups[root]] if root in groups else np.ones(1)
        if own.size != span.low.size:
            own = np.ones(1)
        low, high = (seen.low / own).min(initial=0.0), (seen.high / own).max(initial=0.0)
        tensors[name] = Observation(float(low), float(high))
        if name == root:
            ranges[name] = float((span.low / own).min()), float((span.high / own).max())
            if name in stats.statistics.values and has_arbitrary_scale(plan.formats.get(name)):
                ranges[name] = _input_range(stats.statistics.values[name], *ranges[name])
            roomy = candidate.margin and _takes_room(plan.formats.get(name))
            if roomy and name in results and not plan.clamps.get(name):
                ranges[name] = ranges[name][0] * _RESULTS, ranges[name][1] * _RESULTS
            if candidate.margin and name in stats.logits:
                ranges[name] = stats.logits[name]
            if name in stats.settings.ranges:
                ranges[name] = stats.settings.ranges[name]
    return Observations(stats.statistics.samples, tensors), ranges


def _input_range(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """The range of a graph input with the least rounding error of its values.

    Pixels stand on a grid themselves. With mean and std of 127.5 every one of them falls between
    two steps of the plain range, which makes three times the noise of a slightly wider one.
    """
    best, least = (low, high), np.inf
    for factor in _WIDTHS:
        params = activation_params(low * factor, high * factor)
        error = float(np.square(values - params.dequantize(params.quantize(values))).mean())
        if error < 0.9 * least:
            best, least = (low * factor, high * factor), error
    return best


def _rounded(
    stats: CalibrationStats,
    graph: Graph,
    name: str,
    layer_weights: LayerWeights,
    factors: np.ndarray,
    candidate: Candidate,
    activations: Mapping[str, QuantParams],
) -> LayerWeights:
    """One layer with error feedback and a corrected bias, as far as its form has them."""
    moments = stats.statistics.moments.get(name)
    weight_plan = stats.plan.weights[name]
    weight = graph.constant(weight_plan.weight)
    if moments is None or weight is None or moments.is_empty:
        return layer_weights
    node, groups = graph.node(name), moments.groups
    column = _column_factors(stats, moments.tensor, groups, moments.length, factors)
    # integers with a zero point, powers of two and half precision stay the nearest ones
    symmetric = stats.plan.schemes[name].weight.kind == "symmetric"
    second = moments.second if candidate.feedback and symmetric else None
    if second is not None:
        scaled = second / (column[:, :, None] * column[:, None, :])
        layer_weights = with_feedback(node, weight, layer_weights, scaled)
    if candidate.bias and stats.settings.bias_correction and node.op_type != "MatMul":
        dequantized = layer_weights.params.dequantize(layer_weights.integers)
        real, rounded = (weight_matrix(node, array, groups) for array in (weight, dequantized))
        bias = corrected_bias(real, rounded, layer_weights.bias, moments.mean / column)
        layer_weights = replace(layer_weights, bias=bias)
    return layer_weights


def _column_factors(
    stats: CalibrationStats, tensor: str, groups: int, length: int, factors: np.ndarray
) -> np.ndarray:
    """(G, K): by what each row of a column is divided in the equalized graph."""
    group = stats.channels.groups.get(tensor)
    if group is None:
        return np.ones((groups, length))
    own = factors[group].reshape(groups, -1)
    return np.repeat(own, length // own.shape[1], axis=1)
