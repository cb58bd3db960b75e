"""``mmse``: scales of channels, ranges, weights and biases by the squared error of the layers.

Searching the range of a whole tensor gains little: most channels are far smaller than the largest
one and are rounded with its step. So, in this order,

1. every channel that layers allow to be scaled is divided by ``share ** EXPONENT``, its share of
   the tensor's largest channel (Nagel et al. 2019, section 4.1; Xiao et al. 2023, "SmoothQuant",
   eq. 4). The outputs stay what they are. With an exponent of 1 every channel would end where its
   samples ended, and each that goes further would be clipped; a small one leaves small channels
   room;
2. ranges of least squared error (:mod:`engine.quantize.algorithms.range_search`), of pixels on
   their own lattice;
3. weights that make the least squared error at the layer's output, given the second moments of
   its input (Frantar et al. 2022, "GPTQ"), instead of the nearest ones;
4. biases that take back the mean error (:mod:`engine.quantize.techniques.rounding`).

Step 2 works on what calibration kept. The others read the samples once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from engine.graph.ir import Graph
from engine.graph.ir.spec import numbers_of
from engine.quantize.algorithms.range_search import pixel_grid_range
from engine.quantize.algorithms.ranges import activation_table, choose_ranges
from engine.quantize.calibration.calibrate import calibrate
from engine.quantize.calibration.input_means import input_sums
from engine.quantize.calibration.observations import MeanInput, Observations
from engine.quantize.interface import (
    CalibratedGraph,
    LayerWeights,
    Prepared,
    QuantizeSettings,
)
from engine.quantize.planning.plan import Plan
from engine.quantize.techniques.channels import Channels, find_channels
from engine.quantize.techniques.equalize import scaled_graph
from engine.quantize.techniques.moments import Moments, make_moments
from engine.quantize.techniques.rounding import correct_biases, with_feedback

EXPONENT = 0.35
"""Chosen with CAUTION, on folds of the calibration photographs, from 0, 0.25, 0.35 and 0.5."""

# Smaller shares than this are noise, and their factors would leave the weights' range.
_SMALLEST_SHARE = 1e-3

# Columns of a layer's input over all samples: three times those of the longest kernel.
_COLUMNS = 1800

# Of an input, for its lattice.
_PIXELS = 1 << 15


def prepare(calibrated: CalibratedGraph) -> Prepared:
    """Quantize by least squared error.

    As :data:`~engine.quantize.interface.Prepare`; without ``feeds`` only ranges are chosen.
    """
    plan, settings, reporter = calibrated.plan, calibrated.settings, calibrated.reporter
    moments, pixels = dict[str, Moments](), dict[str, np.ndarray]()
    if calibrated.feeds is not None:
        graph, seen = calibrated.graph, calibrated.observations
        channels = find_channels(graph, plan)
        inputs = seen.inputs
        if channels.count:
            factors = channel_factors(plan, channels, seen, settings)
            inputs = scaled_means(graph, plan, channels, factors, seen)
            graph = scaled_graph(graph, channels, factors)
        again = _SecondPass(graph, plan, seen.samples)
        seen = calibrate(
            graph,
            again.noting_pixels(calibrated.feeds()),
            reporter=reporter,
            limit=seen.samples,
            visit=again.visit,
            brief=True,
        )
        calibrated = replace(calibrated, graph=graph, observations=replace(seen, inputs=inputs))
        moments, pixels = again.moments, again.pixels
    graph, seen = calibrated.graph, calibrated.observations
    ranges = choose_ranges(calibrated)
    for name, values in pixels.items():
        if name in ranges and name not in settings.ranges and plan.formats[name].bits == 8:
            ranges[name] = pixel_grid_range(values, *ranges[name])
    activations = activation_table(graph, plan, seen, ranges, settings.ranges)
    weights = calibrated.nearest(activations)
    for name, own in moments.items():
        reporter.check_cancelled()
        weights[name] = least_error_weights(graph, plan, weights[name], own)
    if settings.bias_correction and seen.samples:
        weights = correct_biases(graph, plan, weights, seen)
    return Prepared(graph, plan, activations, weights)


def channel_factors(
    plan: Plan, channels: Channels, observations: Observations, settings: QuantizeSettings
) -> np.ndarray:
    """By what every group of channels is divided, float64; 1 where it must not be scaled.

    Tensors with a range set by hand keep their unit, and so do those without known channels.
    """
    shares = np.zeros(channels.count)
    borrowed = {root for concat in plan.concats for root in concat.sharing}
    fixed = channels.frozen.copy()
    for name, groups in channels.groups.items():
        if name in settings.ranges:
            fixed[groups] = True
        seen = observations.tensors.get(name)
        if seen is None or name in plan.sources or name in borrowed or seen.peaks is None:
            continue
        peaks = np.array(seen.peaks)
        if peaks.size == groups.size and peaks.max() > 0:
            np.maximum.at(shares, groups, peaks / peaks.max())
    factors = np.where(shares > 0, np.maximum(shares, _SMALLEST_SHARE), 1.0) ** EXPONENT
    factors[fixed] = 1.0
    return factors


def scaled_means(
    graph: Graph,
    plan: Plan,
    channels: Channels,
    factors: np.ndarray,
    observations: Observations,
) -> dict[str, MeanInput]:
    """The mean inputs of weighted layers where every channel is divided by its factor."""
    means = dict(observations.inputs)
    for node, input_sum in input_sums(graph, plan).items():
        groups, seen = channels.groups.get(input_sum.tensor), means.get(node)
        if groups is None or seen is None:
            continue
        own = factors[groups]
        total = seen.total.reshape(own.size, -1) / own[:, None]
        means[node] = MeanInput(total.reshape(seen.total.shape), seen.positions)
    return means


class _SecondPass:
    """What the second pass over the samples gathers, beside ranges and histograms."""

    def __init__(self, graph: Graph, plan: Plan, samples: int) -> None:
        every = make_moments(graph, plan, _COLUMNS, samples)
        self.moments = {name: own for name, own in every.items() if not own.is_wide}
        self.pixels: dict[str, np.ndarray] = {}
        self._each = max(_PIXELS // max(samples, 1), 64)
        self._readers: dict[str, list[Moments]] = {}
        for own in self.moments.values():
            self._readers.setdefault(own.tensor, []).append(own)

    def visit(self, tensor: str, array: np.ndarray, sample: int) -> None:
        """Take the input of weighted layers."""
        for reader in self._readers.get(tensor, ()):
            reader.add(array, sample)

    def noting_pixels(
        self, feeds: Iterable[Mapping[str, np.ndarray]]
    ) -> Iterable[Mapping[str, np.ndarray]]:
        """The samples, of whose inputs some values are kept."""
        for feed in feeds:
            for name, array in feed.items():
                flat = np.asarray(array).reshape(-1)
                some = flat[:: max(flat.size // self._each, 1)]
                kept = self.pixels.get(name, some[:0])
                self.pixels[name] = np.concatenate([kept, some])
            yield feed


def least_error_weights(
    graph: Graph, plan: Plan, nearest: LayerWeights, moments: Moments
) -> LayerWeights:
    """The layer with weights rounded for the least squared error of its output.

    Only symmetric integers are: 4-bit groups, fixed point and half precision stay as they are.
    """
    scheme, second = plan.schemes[moments.node], moments.second
    weight = numbers_of(graph.value(plan.weights[moments.node].weight))
    if scheme.weight.kind != "symmetric" or second is None or moments.is_empty:
        return nearest
    return with_feedback(graph.node(moments.node), weight, nearest, second)
