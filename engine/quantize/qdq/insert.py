"""The QDQ form: a float graph with QuantizeLinear and DequantizeLinear where the NPU has integers.

A quantized tensor's name stands for its dequantized value: the node that computed it writes
``NAME/float``, which is quantized to ``NAME/quantized`` and dequantized to ``NAME``. Tensors that
come in float (graph inputs, results of float operators) keep their names; their dequantized twin
is ``NAME/dequantized``. Constants likewise: ``NAME/quantized`` holds the integers. Half precision
is a Cast to float16 (``NAME/float16``) and one back. A tensor that a reader takes in another format
than it is written in is converted for it as ``NAME__<dtype>``.

A Relu or Clip behind an integer operator stays in the graph, without a scale before it: ONNX
Runtime drops it where saturation does its work. In dynamic fixed point, whose zero point is 0, it
becomes a Max or Min on the integers, which is the same for every value as rounding is monotone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, UniqueNames
from engine.graph.ir.graph import no_collection
from engine.graph.ir.spec import add_constant, name_of, new_value, numbers_of, set_input
from engine.graph.layers import ADDED, GUARD, LayerMap, StoredTensor
from engine.quantize.dtypes.scheme import bias_params, half_params, quantize_bias
from engine.quantize.interface import LayerWeights
from engine.quantize.planning.mixed import operands, preserves_format
from engine.quantize.planning.node_properties import Clamp, Role, WeightPlan, is_constant
from engine.quantize.planning.plan import Plan

# The parts that a QDQ form is made of: constants, Q/DQ pairs, roundings to half precision.


class Builder:
    """Adds constants and nodes to a graph, under names that it does not have yet."""

    def __init__(self, graph: Graph) -> None:
        self.inner = graph.model.graph
        self.values = dict(graph.values)
        self.names = UniqueNames(set(self.values) | {node.name or "" for node in graph.nodes})
        self._parameters: dict[tuple[str, bytes], ir.Value] = {}

    def initializer(
        self, hint: str, array: np.ndarray, dtype: ir.DataType | None = None
    ) -> ir.Value:
        """A constant; ``dtype`` where numpy has no such type (4 bits)."""
        return add_constant(self.inner, self.names.claim(hint), array, dtype)

    def tensor(self, hint: str, dtype: ir.DataType, shape: ir.Shape | None) -> ir.Value:
        """What a node may write."""
        return new_value(self.names.claim(hint), dtype, shape)

    def parameter(self, hint: str, array: np.ndarray) -> ir.Value:
        """A constant; equal ones are made once, as many tensors share their scale."""
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        value = self._parameters.get(key)
        if value is None:
            value = self._parameters[key] = self.initializer(hint, array)
        return value

    def node(
        self, op: str, inputs: list[ir.Value], out: ir.Value, name: str, **attributes: int
    ) -> ir.Node:
        """A node that is in no place yet."""
        node = ir.node(op, inputs, attributes, outputs=[out], name=self.names.claim(name))
        if op not in ("QuantizeLinear", "DequantizeLinear"):
            node.metadata_props[ADDED] = op
        return node

    def insert_after(self, node: ir.Node, after: ir.Node | None) -> ir.Node:
        """Put a node behind another, at the very start without one."""
        if after is not None:
            self.inner.insert_after(after, node)
        elif len(self.inner):
            self.inner.insert_before(self.inner[0], node)
        else:
            self.inner.append(node)
        return node

    def qdq_pair(
        self,
        value: ir.Value,
        out: ir.Value,
        name: str,
        params: QuantParams,
        bounds: tuple[int, int],
    ) -> str:
        """Quantize ``value`` and dequantize it to ``out``, behind the node that writes ``value``.

        Gives the name of the integers, before the bounds.

        Args:
            value: float32.
            out: float32, of the same shape.
            name: of the tensor, for the names of what is added.
            params: of integers.
            bounds: smallest and largest integer; where they are narrower than the dtype, a Max and
                a Min on the integers hold them: ONNX Runtime keeps its integer kernels around them.
        """
        dtype = ir.DataType[params.dtype.upper()]
        scale, zero = (self.parameter(f"{name}/{hint}", a) for hint, a in _arrays(params))
        steps = stored = self.tensor(f"{name}/quantized", dtype, value.shape)
        hint = f"{name}/QuantizeLinear"
        last = self.insert_after(
            self.node("QuantizeLinear", [value, scale, zero], steps, hint), value.producer()
        )
        lowest, highest = np.iinfo(params.dtype).min, np.iinfo(params.dtype).max
        for op, bound, widest in (("Max", bounds[0], lowest), ("Min", bounds[1], highest)):
            if bound == widest:
                continue
            limit = self.parameter(f"{name}/{op}", np.array(bound, params.dtype))
            held = self.tensor(f"{name}/{op.lower()}", dtype, value.shape)
            last = self.insert_after(self.node(op, [steps, limit], held, f"{name}/{op}"), last)
            steps = held
        hint = f"{name}/DequantizeLinear"
        self.insert_after(self.node("DequantizeLinear", [steps, scale, zero], out, hint), last)
        return stored.name or ""

    def cast_fp16(self, value: ir.Value, out: ir.Value, name: str) -> str:
        """Round ``value`` to half precision, as ``out`` in float32, behind what writes it.

        Gives the name of the rounded numbers.
        """
        half = self.tensor(f"{name}/float16", ir.DataType.FLOAT16, value.shape)
        down = self.node("Cast", [value], half, f"{name}/Round", to=ir.DataType.FLOAT16.value)
        self.insert_after(down, value.producer())
        up = self.node("Cast", [half], out, f"{name}/Cast", to=ir.DataType.FLOAT.value)
        self.insert_after(up, down)
        return half.name or ""

    def stored(
        self, name: str, array: np.ndarray, params: QuantParams, before: ir.Node
    ) -> ir.Value:
        """A constant in its format, as float32 for the node that reads it.

        Its scale and zero point belong to it alone: where ONNX Runtime turns int8 weights into
        uint8 (``session.x64quantprecision``) it replaces them one by one and fails on shared ones.
        """
        out = self.tensor(f"{name}/dequantized", ir.DataType.FLOAT, ir.Shape(array.shape))
        if params.is_float:
            half = self.initializer(f"{name}/float16", array.astype(np.float16))
            node = self.node("Cast", [half], out, f"{name}/Cast", to=ir.DataType.FLOAT.value)
        else:
            dtype = ir.DataType[params.dtype.upper()] if params.dtype in ("int4", "uint4") else None
            steps = self.initializer(f"{name}/quantized", array, dtype)
            inputs = [steps]
            for hint, own in _arrays(params):
                narrow = dtype if hint == "zero_point" else None
                inputs.append(self.initializer(f"{name}/{hint}", own, narrow))
            attributes = {} if params.axis is None else {"axis": params.axis}
            node = self.node(
                "DequantizeLinear", inputs, out, f"{name}/DequantizeLinear", **attributes
            )
        self.inner.insert_before(before, node)
        return out


def _arrays(params: QuantParams) -> list[tuple[str, np.ndarray]]:
    """Scale and zero point, with what they are called."""
    held = {"int4": "int8", "uint4": "uint8"}.get(params.dtype, params.dtype)
    shape = () if params.axis is None else (-1,)
    return [
        ("scale", np.asarray(params.scale, dtype=np.float32).reshape(shape)),
        ("zero_point", np.asarray(params.zero_point, dtype=held).reshape(shape)),
    ]


REASON = "float_reason"
"""Key in a node's ``metadata_props``: why the node has no integer kernel."""


@no_collection()
def insert_qdq(
    graph: Graph,
    plan: Plan,
    activations: Mapping[str, QuantParams],
    weights: Mapping[str, LayerWeights],
) -> tuple[Graph, dict[str, QuantParams], LayerMap]:
    """A copy of the graph in QDQ form, the parameters of all its tensors and constants, and its
    layers.

    Args:
        graph: the float graph.
        plan: of this graph.
        activations: parameters of the plan's tensors and constants.
        weights: node name -> its quantized constants, of every weighted node of the plan.
    """
    writer = _Writer(graph.copy(), plan, activations, weights)
    writer.guards()
    writer.weights()
    writer.constants()
    writer.activations()
    writer.finish()
    layers = LayerMap(plan.layers.layers, writer.stored)
    return Graph(writer.graph.model), writer.table, layers


class _Writer:
    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        params: Mapping[str, QuantParams],
        weights: Mapping[str, LayerWeights],
    ) -> None:
        self.graph = graph
        self.table: dict[str, QuantParams] = {}
        self.stored: dict[str, StoredTensor] = {}
        self._guards: dict[str, str] = {}
        self._plan = plan
        self._params = params
        self._weights = weights
        self._build = Builder(graph)
        self._reads = dict(_reads(graph, plan))

    def guards(self) -> None:
        """Put ``Max(x, lowest float)``, which changes nothing, behind the nodes that need it."""
        for name in sorted(self._plan.guarded):
            node = self.graph.node(name)
            value = node.outputs[0]
            tensor = value.name or ""
            out = ir.Value(name=tensor, type=value.type, shape=value.shape)
            value.name = self._build.names.claim(f"{tensor}/unguarded")
            value.replace_all_uses_with(out, replace_graph_outputs=True)
            lowest = self._build.parameter("lowest_float", np.array(np.finfo(np.float32).min))
            guard = ir.node("Max", [value, lowest], name=f"{name}/guard", outputs=[out])
            guard.metadata_props[ADDED] = GUARD
            self._guards[guard.name or ""] = name
            self._build.inner.insert_after(node, guard)
            self._build.values[tensor] = out

    def weights(self) -> None:
        """Store the weights and biases of all weighted nodes in their formats."""
        for node, plan, tensor in list(self._plan.weighted(self.graph)):
            self._store_weight(node, plan, tensor)

    def _store_weight(self, node: ir.Node, plan: WeightPlan, tensor: str) -> None:
        layer_weights = self._weights[plan.node]
        value = self._constant(plan.weight, layer_weights.integers, layer_weights.params, node)
        node.replace_input_with(1, value)
        if layer_weights.bias is None:
            return
        name = plan.bias or self._build.names.claim(f"{plan.node}/bias")
        bias = layer_weights.bias.reshape(-1)
        kind = self._plan.schemes[plan.node].bias
        if kind == "float32":
            value = self._build.initializer(f"{name}/float32", bias.astype(np.float32))
        elif kind == "float16":
            half = half_params()
            value = self._constant(name, half.quantize(bias), half, node)
        else:
            scale = self._params[self._plan.read_as(tensor, plan.node)].scale[0]
            params = bias_params(scale, layer_weights.params)
            value = self._constant(name, quantize_bias(bias, params), params, node)
        set_input(node, 2, value)

    def _constant(
        self, name: str, array: np.ndarray, params: QuantParams, before: ir.Node
    ) -> ir.Value:
        key = name if name not in self.table else self._build.names.claim(name)
        self.table[key] = params
        return self._build.stored(key, array, params, before)

    def constants(self) -> None:
        """Store the constants that operators take as activations."""
        for name in self._plan.constants:
            constant = self._build.values[name]
            array = numbers_of(constant)
            for key in (name, *(boundary.name for boundary in self._plan.boundaries.get(name, ()))):
                uses = self._uses(constant, key)
                if uses:
                    params = self._params[key]
                    value = self._constant(key, params.quantize(array), params, uses[0][0])
                    for node, index in uses:
                        node.replace_input_with(index, value)

    def activations(self) -> None:
        """Put a Q/DQ pair, or a rounding to half precision, behind every activation."""
        converted: dict[str, QuantParams] = {}
        constants = set(self._plan.constants)
        for name in self._plan.formats:
            if name in constants:
                continue
            self.table[name] = self._params[name]
            source = self._write(name, self._build.values[name])
            for boundary in self._plan.boundaries.get(name, ()):
                converted[boundary.name] = self._params[boundary.name]
                self._read(source, boundary.name, boundary.name, name)
        # as in the vendor's file, conversions come last
        self.table.update(converted)

    def _write(self, name: str, value: ir.Value) -> ir.Value:
        """Give a tensor its format; returns the value that its other formats are made of."""
        producer = value.producer()
        writer = "" if producer is None else producer.name or ""
        writer = self._guards.get(writer, writer)
        scheme = self._plan.schemes.get(writer)
        if producer is None or scheme is None:
            # it comes in float, and what stays in float reads it so
            self._read(value, name, f"{name}/dequantized", name)
            return value
        # what is before clamps has no format; what has two says with a rounding which is its own
        plain = name not in self._plan.clamps and name not in self._plan.boundaries
        if plain and preserves_format(producer, self._plan.roles[writer], scheme):
            return value
        out = ir.Value(name=name, type=value.type, shape=value.shape)
        value.replace_all_uses_with(out, replace_graph_outputs=True)
        form = self._plan.formats[name]
        if form.kind == "dynamic_fixed_point" and form.bits == 8 and name in self._plan.clamps:
            value = self._without_clamps(name)
        else:
            value.name = self._build.names.claim(f"{name}/float")
        self._form(value, out, name, name)
        return out

    def _read(self, source: ir.Value, key: str, hint: str, tensor: str) -> None:
        """Give the readers of a tensor that want it in a format of its own a value in it."""
        uses = self._uses(source, key)
        if not uses:
            return
        out = ir.Value(
            name=self._build.names.claim(hint) if hint != key else hint,
            type=source.type,
            shape=source.shape,
        )
        for node, index in uses:
            node.replace_input_with(index, out)
        self._form(source, out, key, tensor)

    def _uses(self, value: ir.Value, key: str) -> list[tuple[ir.Node, int]]:
        return [
            (use.node, use.idx)
            for use in value.uses()
            if self._reads.get((use.node.name or "", use.idx)) == key
        ]

    def _form(self, value: ir.Value, out: ir.Value, key: str, tensor: str) -> None:
        """Write ``out``: the numbers of ``value`` in the format of ``key``."""
        params, computed = self._params[key], value.name or ""
        if params.is_float:
            stored = self._build.cast_fp16(value, out, key)
        else:
            stored = self._pair(value, out, key, tensor)
        self.stored[key] = StoredTensor(
            tensor, computed, stored, out.name or "", params.dtype, params
        )

    def _pair(self, value: ir.Value, out: ir.Value, key: str, tensor: str) -> str:
        params = self._params[key]
        clamps = self._plan.clamps.get(tensor, ()) if key == tensor else ()
        bounds = (int(np.iinfo(params.dtype).min), int(np.iinfo(params.dtype).max))
        if params.narrow and tensor not in self._plan.sources:
            if params.dtype == "int8":
                bounds = _within(params, clamps)
            elif not any(clamp.low >= 0 for clamp in clamps):
                value = self._floor(value, key, params)
        return self._build.qdq_pair(value, out, key, params, bounds)

    def _floor(self, value: ir.Value, key: str, params: QuantParams) -> ir.Value:
        """``Max(value, lowest)`` in float: there is no Max on integers of 16 bits."""
        name = self._build.names.claim(f"{key}/max")
        out = ir.Value(name=name, type=value.type, shape=value.shape)
        lowest = np.array(params.limits[0] * params.scale[0], np.float32)
        limit = self._build.parameter(f"{key}/lowest", lowest)
        node = self._build.node("Max", [value, limit], out, f"{key}/Max")
        self._build.insert_after(node, value.producer())
        return out

    def _without_clamps(self, name: str) -> ir.Value:
        """Take the Relu and Clip nodes before a tensor away; gives what the first of them read."""
        nodes = [self.graph.node(clamp.node) for clamp in self._plan.clamps[name]]
        first = nodes[0].inputs[0]
        if first is None:
            raise ValueError(f"{nodes[0].name} has no input")
        for node in reversed(nodes):
            self._build.inner.remove(node, safe=True)
        return first

    def finish(self) -> None:
        """Drop constants that nothing reads any more, and note why float layers are float."""
        inner = self._build.inner
        for node in list(inner):
            reason = self._plan.reasons.get(node.name or "")
            if reason:
                node.metadata_props[REASON] = reason
            if node.op_type == "Constant" and not any(
                value.uses() or value.is_graph_output() for value in node.outputs
            ):
                inner.remove(node, safe=True)
        for name, value in list(inner.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del inner.initializers[name]


def _reads(graph: Graph, plan: Plan) -> Iterator[tuple[tuple[str, int], str]]:
    """(node name, index of an input) -> key of the parameters that it is read with."""
    for node in graph.nodes:
        name = node.name or ""
        scheme = plan.schemes.get(name)
        if scheme is None:
            continue
        role = plan.roles[name]
        whole = role is Role.INTEGER or scheme.activation.is_float
        taken = operands(node, role, scheme, plan.weights.get(name))
        for index, value in enumerate(node.inputs):
            if value is None or name_of(value) not in plan.formats:
                continue
            if any(value is one for one in taken) and (whole or not is_constant(value)):
                yield (name, index), plan.read_as(name_of(value), name)


def _within(params: QuantParams, clamps: Iterable[Clamp]) -> tuple[int, int]:
    """Smallest and largest integer of a tensor whose clamps are held on its integers."""
    low, high = params.limits
    for clamp in clamps:
        ends = params.quantize(np.array([clamp.low, clamp.high], dtype=np.float32))
        first, last = int(ends[0]), int(ends[1])
        low, high = min(max(low, first), last), min(max(high, first), last)
    return low, high
