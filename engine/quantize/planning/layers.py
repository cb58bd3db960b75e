"""The layers of a float graph, as what its nodes do and the clamps behind them say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph
from engine.graph.layers import Layer, LayerMap, origins, with_own_ids
from engine.quantize.dtypes.formats import Scheme
from engine.quantize.planning.node_properties import Clamp, WeightPlan, name_of
from engine.quantize.planning.operators import Role


def find_layers(
    nodes: Iterable[ir.Node],
    roles: Mapping[str, Role],
    weights: Mapping[str, WeightPlan],
    clamps: Mapping[str, tuple[Clamp, ...]],
) -> LayerMap:
    """The layers of a float graph.

    Args:
        nodes: of the graph, in its order.
        roles: node -> role; nodes without one are no layers.
        weights: node -> its constants.
        clamps: tensor -> the clamps that end in it.
    """
    nodes = list(nodes)
    values = (value for node in nodes for value in (*node.inputs, *node.outputs))
    tensors = {name_of(value) for value in values if value is not None}
    return LayerMap(with_own_ids(_layers(nodes, roles, weights, clamps), tensors))


def _layers(
    nodes: list[ir.Node],
    roles: Mapping[str, Role],
    weights: Mapping[str, WeightPlan],
    clamps: Mapping[str, tuple[Clamp, ...]],
) -> Iterator[Layer]:
    by_name = {node.name or "": node for node in nodes}
    behind: dict[str, list[ir.Node]] = {}
    for chain in clamps.values():
        parts = [by_name[clamp.node] for clamp in chain]
        first = parts[0].inputs[0]
        start = None if first is None else first.producer()
        if start is not None:
            behind[start.name or ""] = parts
    absorbed = {part.name for parts in behind.values() for part in parts}
    for node in nodes:
        name = node.name or ""
        role = roles.get(name)
        if role is None or name in absorbed or node.op_type == "Constant":
            continue
        parts = behind.get(name, [])
        inner = tuple(name_of(part.inputs[0]) for part in parts)
        written = (value.name or "" for part in (*parts[-1:], node) for value in part.outputs)
        outputs = tuple(tensor for tensor in written if tensor and tensor not in inner)
        if not outputs:
            continue
        yield Layer(
            name,
            node.op_type,
            kind_of(node, role, name in weights),
            (name, *(part.name or "" for part in parts)),
            inner,
            outputs,
            tuple(dict.fromkeys(source for part in (node, *parts) for source in origins(part))),
        )


def kind_of(node: ir.Node, role: Role, weighted: bool) -> str:
    """The kind of a layer (:attr:`Layer.kind`)."""
    if role is Role.FLOAT:
        return "float"
    if weighted:
        return "weighted"
    return "move" if role is Role.PASSTHROUGH or node.op_type == "Concat" else "arithmetic"


def with_dtypes(layers: LayerMap, schemes: Mapping[str, Scheme]) -> LayerMap:
    """The layers with the dtypes that they compute in."""
    return LayerMap(
        tuple(
            replace(layer, dtype=schemes[layer.node].activation.dtype)
            if layer.node in schemes
            else layer
            for layer in layers.layers
        )
    )


# Layers that ``op_target`` moves to a CPU, where they compute in float [RKNN-T2 2.3.0, 2.2].

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
