"""Layers that ``op_target`` moves to a CPU, where they compute in float [RKNN-T2 2.3.0, 2.2]."""

from __future__ import annotations

from collections.abc import Mapping

from engine.base.errors import QuantizationError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph

__all__ = ["cpu_layers"]

_ON_CPU = "float16"
"""The dtype of what a CPU computes: the simulator's float type between quantized layers."""


def cpu_layers(graph: Graph, targets: Mapping[str, str]) -> dict[str, str]:
    """Output tensor of an operator -> dtype of its layer, for those that run on the CPU.

    Args:
        graph: the optimised float graph, which the operators' tensors belong to.
        targets: output tensor -> ``cpu``, ``npu``, ``gpu`` or ``auto``.

    Raises:
        QuantizationError: no operator writes a tensor of that name; has the nearest.
    """
    known = [value.name for node in graph.nodes for value in node.outputs if value.name]
    written = set(known)
    for name in targets:
        if name not in written:
            raise QuantizationError(
                f"op_target names {sanitize(name, 120)}, and no operator writes such a tensor.",
                cause="An operator is named by its output tensor in the optimised graph.",
                remedy=did_you_mean(name, known) or "Take the name from the table of layers.",
            )
    return {name: _ON_CPU for name, where in targets.items() if where == "cpu"}
