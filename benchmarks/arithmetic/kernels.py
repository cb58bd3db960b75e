"""Every integer kernel beside exact integer arithmetic, on the tensors that a net really has.

The reference sums integers, multiplies once by a float64 scale, and rounds once, halves to the even
integer (:mod:`engine.simulate.reference`). A kernel multiplies by a float32 scale: only values that
lie within a float32's error of the edge between two integers may come out otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.graph.execute import Session
from engine.graph.execute.means import means_in_stages
from engine.graph.ir import Graph
from engine.graph.layers import LayerMap
from engine.simulate import (
    QuantizedLayer,
    integer_coverage,
    quantized_layers,
    reference_layer,
    stored_steps,
    unrounded_layer,
)


@dataclass
class Held:
    """A kernel held to exact arithmetic.

    Attributes:
        kernel: of ONNX Runtime.
        layers, values: that were looked at.
        unequal: values that are another integer.
        largest: the greatest difference in steps.
        edge: of the unequal values, how far the exact result lies from the edge between two
            integers at most, in steps.
    """

    kernel: str
    layers: int = 0
    values: int = 0
    unequal: int = 0
    largest: int = 0
    edge: float = 0.0


def hold_kernels(
    graph: Graph,
    layers: LayerMap,
    feeds: Sequence[Mapping[str, np.ndarray]],
    into: dict[str, Held] | None = None,
) -> dict[str, Held]:
    """Hold the integer kernels of a quantized graph to exact arithmetic.

    Args:
        graph: with Q/DQ pairs.
        layers: of it.
        feeds: samples; each layer is given its real inputs, as the session has them.
        into: figures to add to.

    Returns:
        Kernel -> figures.
    """
    by_kernel = {} if into is None else into
    graph = means_in_stages(graph)  # what is computed in stages is held stage by stage
    kernels = {row.layer: row.kernel for row in integer_coverage(graph, layers) if row.integer}
    names = {layer.node: layer.id for layer in layers.layers}
    held = [
        (layer, kernels[names[layer.name]])
        for layer in quantized_layers(graph, layers)
        if names[layer.name] in kernels
    ]
    tensors = sorted({name for layer, _ in held for name in _tensors(layer)})
    session = Session(graph, outputs=tensors)
    for feed in feeds:
        values = session.run(feed, tensors)
        for layer, kernel in held:
            _hold(layer, values, by_kernel.setdefault(kernel, Held(kernel)))
    return by_kernel


def _tensors(layer: QuantizedLayer) -> list[str]:
    read = [value.name for value in layer.node.inputs if value is not None and value.name]
    return [*read, *(output[0] for output in layer.outputs if output is not None)]


def _hold(layer: QuantizedLayer, values: Mapping[str, np.ndarray], held: Held) -> None:
    outputs = [output for output in layer.outputs if output is not None]
    if any(not params.dtype.endswith("int8") for _, params in outputs):
        return
    expected, exact = reference_layer(layer, values), unrounded_layer(layer, values)
    for (name, params), integers, real in zip(outputs, expected, exact, strict=True):
        apart = np.abs(stored_steps(params, values[name]) - integers)
        moved = apart > 0
        held.layers += 1
        held.values += apart.size
        held.unequal += int(moved.sum())
        held.largest = max(held.largest, int(apart.max(initial=0)))
        edges = np.abs(real[moved] - np.floor(real[moved]) - 0.5)
        held.edge = max(held.edge, float(edges.max(initial=0.0)))
