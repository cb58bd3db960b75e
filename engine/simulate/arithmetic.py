"""The two arithmetics of a quantized graph: integer kernels, and the float form."""

from __future__ import annotations

from collections.abc import Sequence

from engine.graph.execute import Session, is_quantized
from engine.graph.ir import Graph
from engine.quantize import vendor_form
from engine.wire.names import Arithmetic

__all__ = ["open_arithmetic"]


def open_arithmetic(
    graph: Graph,
    arithmetic: Arithmetic = "integer",
    *,
    outputs: Sequence[str] | None = None,
    threads: int = 1,
) -> Session:
    """A session of a graph in one of its arithmetics.

    Both are right. ``integer`` sums integers exactly and rounds once, in fused kernels.
    ``reference`` computes each operator in float32 between dequantized tensors, in the form that is
    handed to the vendor's toolkit: its simulator has these numbers, bit by bit. They differ where a
    value lies on the edge between two integers (docs/accuracy.md).

    Args:
        graph: of a build; without Q/DQ pairs both are the float session.
        arithmetic: ``integer`` or ``reference``.
        outputs: inner tensors that runs give besides the graph's outputs.
        threads: of one operator.

    Raises:
        SimulationError: ONNX Runtime does not take the graph.
    """
    if arithmetic == "integer" or not is_quantized(graph):
        return Session(graph, outputs=outputs, threads=threads)
    return Session(vendor_form(graph), outputs=outputs, threads=threads, reference=True)
