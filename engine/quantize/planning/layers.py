"""The layers of a graph: of a float one, and of one that came with quantization of its own.

Those of a float graph are what its nodes do and the clamps behind them say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph, QuantParams, params_of
from engine.graph.ir.spec import array_of, maker_of, name_of
from engine.graph.layers import (
    ADDED,
    FUSED_ACTIVATIONS,
    Layer,
    LayerMap,
    StoredTensor,
    origins,
    with_own_ids,
)
from engine.quantize.dtypes.formats import Scheme
from engine.quantize.planning.node_properties import WEIGHTED, Clamp, Role, WeightPlan, role_of


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
        start = maker_of(first)
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


# Source models that bring quantization of their own: what their Q/DQ nodes say.


def read_qdq_params(graph: Graph) -> dict[str, QuantParams]:
    """The parameters of all Q/DQ nodes of a graph, for sources that bring their own quantization.

    The key is the name of the dequantized tensor; for constants, too. Weights with a scale per
    block are left out: they have no entry of that form.
    """
    table = {}
    for node in graph.nodes:
        if node.op_type == "DequantizeLinear" and (params := params_of(node)) is not None:
            table[node.outputs[0].name or ""] = params
    return table


_NO_LAYER = frozenset({"QuantizeLinear", "DequantizeLinear", "Constant"})
_ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear", "Cast"})
_FEEDS_KERNELS = FUSED_ACTIVATIONS | {"DequantizeLinear", "Cast"}
_BOUNDS = frozenset({"Max", "Min", "Clip"})


def layers_of(graph: Graph) -> LayerMap:
    """The layers of a graph with Q/DQ nodes that was not quantized here, as far as they tell.

    Tensors between a layer and its activation or its rounding lie inside it: one kernel computes
    both.
    """
    stored = {one.tensor: one for one in _stored(graph)}
    rounded = {one.computed: one for one in stored.values()}
    layers: list[Layer] = []
    absorbed: set[str] = set()
    for node in graph.nodes:
        if node.op_type in _NO_LAYER or ADDED in node.metadata_props or node.name in absorbed:
            continue
        parts = _until_rounded(node)
        end = rounded.get(name_of(parts[-1].outputs[0])) if parts else None
        inner = tuple(name_of(part.outputs[0]) for part in parts[:-1] or parts)
        values = (value for part in (*parts[:0:-1], node) for value in part.outputs)
        written = [value.name for value in values if value.name and value.name not in inner]
        outputs = (*([] if end is None else [end.tensor]), *written)
        if not outputs:
            continue
        nodes = tuple(part.name or "" for part in parts or [node])
        absorbed.update(nodes)
        layers.append(
            Layer(
                nodes[0],
                node.op_type,
                kind_of(node, role_of(node.op_type), node.op_type in WEIGHTED),
                nodes,
                inner,
                outputs,
                tuple(dict.fromkeys(one for part in parts or [node] for one in origins(part))),
                "float32" if end is None else end.dtype,
            )
        )
    return LayerMap(with_own_ids(layers, graph.values), stored)


def _stored(graph: Graph) -> Iterator[StoredTensor]:
    """What is rounded, by the pairs of nodes that do it: the second of them gives the tensor."""
    for node in graph.nodes:
        source = node.inputs[0] if node.op_type in ("DequantizeLinear", "Cast") else None
        params = None if source is None or array_of(source) is not None else params_of(node)
        if source is None or params is None:
            continue
        first = source.producer()
        while first is not None and first.op_type in _BOUNDS:
            first = maker_of(first.inputs[0])
        computed = None if first is None or first.op_type not in _ROUNDING else first.inputs[0]
        if first is not None and computed is not None:
            value = name_of(node.outputs[0])
            places = (name_of(computed), name_of(first.outputs[0]))
            yield StoredTensor(value, *places, value, params.dtype, params)


def _until_rounded(node: ir.Node) -> list[ir.Node]:
    """A layer's nodes up to the rounding of what they write; none where there is no such chain."""
    first = node.inputs[0] if node.inputs else None
    source = maker_of(first, *_FEEDS_KERNELS)
    if source is None:
        return []
    chain, value = [node], node.outputs[0]
    while len(value.uses()) == 1 and not value.is_graph_output():
        reader = value.consumers()[0]
        if reader.op_type == "QuantizeLinear" or (reader.op_type == "Cast" and len(chain) > 1):
            return chain
        if reader.op_type not in FUSED_ACTIVATIONS:
            return []
        chain.append(reader)
        value = reader.outputs[0]
    return []
