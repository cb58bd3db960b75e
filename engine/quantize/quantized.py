"""The result of a quantization."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.base.findings import Finding
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap


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
