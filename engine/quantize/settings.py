"""What is asked of a quantization, beside the graph and what calibration saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.findings import Finding
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap


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
