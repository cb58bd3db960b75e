"""Half precision in a simulated graph: which tensors are rounded to it, and where it overflows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from engine.base.findings import Finding
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize import ADDED
from engine.quantize.checks import overflow_finding

__all__ = ["find_overflow", "rounded_tensors"]


def rounded_tensors(graph: Graph) -> tuple[str, ...]:
    """The float32 tensors that hold numbers rounded to half precision, in the graph's order."""
    return tuple(
        node.outputs[0].name or ""
        for node in graph.nodes
        if node.op_type == "Cast" and ADDED in node.metadata_props and _is_activation(node)
    )


def _is_activation(node: ir.Node) -> bool:
    source = node.inputs[0]
    return (
        source is not None
        and source.dtype == ir.DataType.FLOAT16
        and source.const_value is None
        and source.producer() is not None
    )


def find_overflow(
    graph: Graph, reference: Graph, feeds: Mapping[str, np.ndarray]
) -> Finding | None:
    """The first tensor whose numbers half precision cannot hold on one sample.

    Args:
        graph: simulated, with roundings to half precision.
        reference: its float graph.
        feeds: an array for every input.

    Returns:
        A finding that names the layer; None where every number fits.
    """
    names = rounded_tensors(graph)
    if not names:
        return None
    found = Session(graph, outputs=names).run(feeds, names)
    first = next((name for name in names if np.isinf(found[name]).any()), None)
    if first is None:
        return None
    source = first if first in reference.values else first.rsplit("/", 1)[0].rsplit("__", 1)[0]
    largest = np.inf
    if source in reference.values:
        largest = float(np.abs(Session(reference).run(feeds, [source])[source]).max())
    return overflow_finding(source, largest)
