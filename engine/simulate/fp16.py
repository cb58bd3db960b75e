"""Overflows of float16 in a simulated graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.base.findings import Finding
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.layers import LayerMap
from engine.quantize.checks import overflow_finding

__all__ = ["find_overflow"]


def find_overflow(
    graph: Graph, layers: LayerMap, reference: Graph, feeds: Mapping[str, np.ndarray]
) -> Finding | None:
    """The first tensor whose numbers half precision cannot hold on one sample.

    Args:
        graph: simulated, with roundings to half precision.
        layers: of it.
        reference: its float graph.
        feeds: an array for every input.

    Returns:
        A finding that names the layer; None where every number fits.
    """
    halves = {one.value: one.tensor for one in layers.stored.values() if one.dtype == "float16"}
    if not halves:
        return None
    found = Session(graph, outputs=tuple(halves)).run(feeds, tuple(halves))
    first = next((name for name in halves if np.isinf(found[name]).any()), None)
    if first is None:
        return None
    source = halves[first]
    largest = np.inf
    if source in reference.values:
        largest = float(np.abs(Session(reference).run(feeds, [source])[source]).max())
    return overflow_finding(layers.id_of(source), largest)
