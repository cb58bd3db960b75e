"""What quantization takes and gives: settings, what an algorithm prepares, the quantized graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.graph.ir import Graph, QuantParams, QuantTable
from engine.graph.ir.spec import numbers_of
from engine.graph.layers import LayerMap
from engine.quantize.calibration.observations import Observations
from engine.quantize.dtypes.scheme import weight_params
from engine.quantize.planning.plan import Plan


@dataclass(frozen=True)
class QuantizeSettings:
    """How to quantize.

    Attributes:
        dtype: quantized dtype of the whole model, as ``w8a8``.
        algorithm: ``normal``, ``kl_divergence``, ``mmse``, and ours: ``accurate``, ``vendor``.
        granularity: of the weights: ``channel`` (one scale per output channel) or ``layer``.
        bias_correction: whether biases absorb the mean error of the rounded weights (ours).
        layers: tensor of the float graph -> dtype of the layer that writes it, where it differs
            from the model's (hybrid quantization).
        ranges: tensor -> (minimum, maximum) in its unit, set by hand; these override the algorithm.
    """

    dtype: str = "w8a8"
    algorithm: str = "normal"
    granularity: str = "channel"
    bias_correction: bool = True
    layers: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


# The result of a quantization.


@dataclass(frozen=True)
class Quantized:
    """A quantized graph.

    Attributes:
        graph: the QDQ graph: activations, weights and biases in the formats of their dtypes.
        table: parameters of every quantized tensor, activations, weights and biases, and of the
            conversions between layers of two dtypes.
        reference: the float graph that ``graph`` is the quantized form of. Its outputs are those of
            the graph that was given; inner tensors may be scaled, where an algorithm equalized
            them. Layers are compared with this graph.
        findings: what the user should know of this quantization.
        layers: of ``reference``, and where ``graph`` has their tensors.
    """

    graph: Graph
    table: QuantTable
    reference: Graph
    findings: tuple[Finding, ...] = ()
    layers: LayerMap = field(default_factory=LayerMap)


# The constants of weighted layers as integers: rounded to nearest, ready for an algorithm.


@dataclass(frozen=True)
class LayerWeights:
    """The constants of one weighted node, quantized.

    Attributes:
        params: of the weight.
        integers: the weight as it is stored, of its shape and ``params.dtype`` (see
            :meth:`engine.graph.ir.QuantParams.quantize`).
        bias: real values, float32, one per output channel; None without a bias. When the QDQ graph
            is written it becomes what the layer's scheme asks for: int32 at scale ``input scale *
            weight scale`` in w8a8. A node of Conv, ConvTranspose or Gemm without a bias in the
            float graph may get one.
    """

    params: QuantParams
    integers: np.ndarray
    bias: np.ndarray | None


def quantize_weights(
    graph: Graph, plan: Plan, activations: Mapping[str, QuantParams], granularity: str
) -> dict[str, LayerWeights]:
    """Weights of all weighted nodes of the plan, rounded to the nearest integer.

    Args:
        graph: the float graph.
        plan: of this graph.
        activations: parameters of the plan's tensors.
        granularity: ``channel`` or ``layer`` (one scale a tensor).

    Returns:
        node name -> its quantized constants, in the order of the graph.
    """
    layer_weights: dict[str, LayerWeights] = {}
    for _, weight_plan, tensor in plan.weighted(graph):
        weight = numbers_of(graph.value(weight_plan.weight))
        bias = None if weight_plan.bias is None else graph.constant(weight_plan.bias)
        scheme = plan.schemes[weight_plan.node]
        axis = weight_plan.axis if granularity == "channel" and scheme.per_channel else None
        read = activations[plan.read_as(tensor, weight_plan.node)]
        bounded = bias if scheme.bias == "int32" else None
        params = weight_params(weight, axis, bounded, read.scale[0], scheme.weight)
        layer_weights[weight_plan.node] = LayerWeights(params, params.quantize(weight), bias)
    return layer_weights


# What an algorithm of its own hands over: everything that the QDQ form is written from.

Feeds = Callable[[], Iterable[Mapping[str, np.ndarray]]]
"""Gives the calibration samples anew: input -> array, as the graph takes it."""


@dataclass(frozen=True)
class CalibratedGraph:
    """What an algorithm is given.

    Attributes:
        graph: the float graph.
        plan: of this graph.
        observations: of this graph.
        settings: granularity, bias correction, ranges set by hand.
        feeds: gives the calibration samples anew; None where they are not at hand.
        reporter: gets log lines and progress, and may cancel.
    """

    graph: Graph
    plan: Plan
    observations: Observations
    settings: QuantizeSettings
    feeds: Feeds | None
    reporter: Reporter

    def nearest(self, activations: Mapping[str, QuantParams]) -> dict[str, LayerWeights]:
        """The weights of all layers, rounded to the nearest integer."""
        return quantize_weights(self.graph, self.plan, activations, self.settings.granularity)


@dataclass(frozen=True)
class Prepared:
    """A float graph, ready to be written with Q/DQ nodes.

    Attributes:
        graph: the float graph. Its outputs compute what those of the given graph do; inner tensors
            may be scaled.
        plan: of this graph.
        activations: parameters of all tensors and constants of the plan.
        weights: node name -> its quantized constants, of every weighted node of the plan.
        findings: what the user should know.
    """

    graph: Graph
    plan: Plan
    activations: Mapping[str, QuantParams]
    weights: Mapping[str, LayerWeights]
    findings: tuple[Finding, ...] = ()


Prepare = Callable[[CalibratedGraph], Prepared]
"""An algorithm; one that reads the samples says what it leaves out without ``feeds``.

Raises:
    QuantizationError: the observations belong to another graph; samples that are needed are missing
        or do not run.
"""
