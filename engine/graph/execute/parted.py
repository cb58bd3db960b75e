"""A graph that gives most of its tensors, few of them at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.graph.execute.lower import is_quantized, lower_for_runtime
from engine.graph.execute.session_setup import check_feeds
from engine.graph.execute.submodels import SubmodelBuilder
from engine.graph.ir.graph import Graph
from engine.graph.ir.shapes import infer_shapes

PART_BYTES = 12 << 20
"""Tensors that are given at the same time; what is small enough is still in the cache then."""
_OUTPUTS = 128
"""Tensors of one part: ONNX Runtime's set-up grows with the square of a session's outputs."""


class PartedRun:
    """Runs a float graph in parts and gives wanted tensors as they come.

    A part is a session of its own; every node is in one of them. Tensors that a later part needs
    are kept until then, all others as long as the caller keeps them.

    Args:
        graph: no Q/DQ pairs: a cut between them would take integer kernels apart.
        tensors: which to give; inputs of the graph are none of them, nor are integers of a
            quantized graph, which may run as uint8.
        threads: of one operator.

    Attributes:
        groups: the tensors of every part, in the order of the graph.

    Raises:
        SimulationError: ONNX Runtime does not take the graph.
    """

    def __init__(self, graph: Graph, tensors: Sequence[str], *, threads: int = 1) -> None:
        if any(value.dtype is None for node in graph.nodes for value in node.outputs):
            graph = infer_shapes(graph)
        if is_quantized(graph):
            # int8 activations: ONNX Runtime's own way to uint8 fails on nodes that it inserted
            graph = lower_for_runtime(graph)
        model = SubmodelBuilder(graph)
        self._inputs = graph.inputs
        self._constants: dict[str, np.ndarray] = {}
        order: dict[str, int] = {}
        for name in dict.fromkeys(tensors):
            index, constant = model.position(name), model.constant(name)
            if index is not None:
                order[name] = index
            elif constant is not None:
                self._constants[name] = constant
        self.groups = _groups(graph, order)
        self._parts = model.parts(self.groups, threads)
        self._last = {n: i for i, part in enumerate(self._parts) for n in part.inputs}

    def run(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """The wanted tensors on one sample, in the order of the graph, part by part.

        Raises:
            UsageError: feeds that do not fit the inputs.
            SimulationError: a part does not run.
        """
        known = check_feeds(feeds, self._inputs)
        if self._constants:
            yield dict(self._constants)
        for number, (names, part) in enumerate(zip(self.groups, self._parts, strict=True)):
            outputs = part.run(known)
            named = {name: outputs[name] if name in outputs else known[name] for name in names}
            for name in part.inputs:
                if self._last[name] == number:
                    del known[name]
            known.update({n: array for n, array in outputs.items() if n in self._last})
            del outputs
            yield named


def _groups(graph: Graph, positions: Mapping[str, int]) -> list[list[str]]:
    """Tensors in the order of their nodes, those of one node together."""
    groups: list[list[str]] = []
    room, last = 0, -1
    for name, position in sorted(positions.items(), key=lambda item: item[1]):
        size = graph.spec(name).size
        nbytes = PART_BYTES // 8 if size is None else 4 * size
        full = not groups or nbytes > room or len(groups[-1]) >= _OUTPUTS
        if full and position != last:
            groups.append([])
            room = PART_BYTES
        groups[-1].append(name)
        room -= nbytes
        last = position
    return groups
