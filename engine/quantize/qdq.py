"""The QDQ form: a float graph with QuantizeLinear and DequantizeLinear where the NPU has integers.

A quantized tensor's name stands for its dequantized value: the node that computed it writes
``NAME/float``, which is quantized to ``NAME/quantized`` and dequantized to ``NAME``. Tensors that
come in float (graph inputs, results of float operators) keep their names; their dequantized twin
is ``NAME/dequantized``. Constants likewise: ``NAME/quantized`` holds the integers.

A Relu or Clip behind an integer operator stays in the graph, without a scale before it: ONNX
Runtime drops it where saturation does its work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, UniqueNames
from engine.quantize.forms import WeightPlan, data_inputs
from engine.quantize.operators import Role
from engine.quantize.plan import Plan
from engine.quantize.scheme import bias_params, quantize_bias
from engine.quantize.weights import LayerWeights

__all__ = ["GUARD", "REASON", "insert_qdq", "table_of"]

GUARD = "/guard"
"""What the name of a node ends in that only keeps ONNX Runtime from choosing an integer kernel."""

REASON = "float_reason"
"""Key in a node's ``metadata_props``: why the node has no integer kernel."""


def insert_qdq(
    graph: Graph,
    plan: Plan,
    activations: Mapping[str, QuantParams],
    weights: Mapping[str, LayerWeights],
) -> tuple[Graph, dict[str, QuantParams]]:
    """A copy of the graph in QDQ form, and the parameters of its weights and biases.

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
    return Graph(writer.graph.model), writer.table


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
        self._inner = graph.model.graph
        self._plan = plan
        self._params = params
        self._weights = weights
        self._values = dict(graph.values)
        self._names = UniqueNames(set(self._values) | {node.name or "" for node in graph.nodes})
        self._parameters: dict[tuple[str, bytes], ir.Value] = {}

    def guards(self) -> None:
        """Put ``Max(x, lowest float)``, which changes nothing, behind the nodes that need it."""
        for name in sorted(self._plan.guarded):
            node = self.graph.node(name)
            value = node.outputs[0]
            tensor = value.name or ""
            out = ir.Value(name=tensor, type=value.type, shape=value.shape)
            value.name = self._names.claim(f"{tensor}/unguarded")
            self._replace(value, out, keep_float_readers=False)
            lowest = self._parameter("lowest_float", np.array(np.finfo(np.float32).min))
            guard = ir.node("Max", [value, lowest], name=f"{name}{GUARD}", outputs=[out])
            self._inner.insert_after(node, guard)
            self._values[tensor] = out

    def weights(self) -> None:
        """Quantize the weights and biases of all weighted nodes."""
        for node in list(self.graph.nodes):
            plan = self._plan.weights.get(node.name or "")
            if plan is not None:
                self._quantize_weight(node, plan)

    def _quantize_weight(self, node: ir.Node, plan: WeightPlan) -> None:
        data = next(v for v in data_inputs(node) if v.name != plan.weight)
        scale = self._params[data.name or ""].scale[0]
        given = self._weights[plan.node]
        value = self._dequantized_constant(plan.weight, given.integers, given.params, node)
        node.replace_input_with(1, value)
        if given.bias is None:
            return
        params = bias_params(scale, given.params)
        name = plan.bias or self._names.claim(f"{plan.node}/bias")
        value = self._dequantized_constant(name, quantize_bias(given.bias, params), params, node)
        if len(node.inputs) < 3:
            node.resize_inputs(3)
        node.replace_input_with(2, value)

    def constants(self) -> None:
        """Quantize the constants that operators take as activations."""
        for name in self._plan.constants:
            params = self._params[name]
            constant = self._values[name]
            uses = [
                use
                for use in constant.uses()
                if self._plan.roles.get(use.node.name or "") is Role.INTEGER
                and _is_data(use.node, use.idx)
            ]
            value = self._dequantized_constant(
                name, params.quantize(_array(constant)), params, uses[0].node
            )
            for use in uses:
                use.node.replace_input_with(use.idx, value)

    def activations(self) -> None:
        """Put a Q/DQ pair behind every quantized activation."""
        for name in self._plan.tensors:
            value = self._values[name]
            params = self._params[name]
            producer = value.producer()
            comes_in_float = producer is None or not self._is_quantized(producer)
            self.table[name] = params
            out = ir.Value(type=value.type, shape=value.shape)
            out.name = self._names.claim(f"{name}/dequantized") if comes_in_float else name
            if not comes_in_float:
                value.name = self._names.claim(f"{name}/float")
            self._replace(value, out, keep_float_readers=comes_in_float)
            quantized = self._quantize(value, name, params, producer)
            self._dequantize(quantized, out, name, params, None)

    def _is_quantized(self, node: ir.Node) -> bool:
        name = (node.name or "").removesuffix(GUARD)
        return self._plan.roles.get(name, Role.FLOAT) is not Role.FLOAT

    def _replace(self, old: ir.Value, new: ir.Value, *, keep_float_readers: bool) -> None:
        """Let the readers of ``old`` read ``new``; a float tensor's float readers keep it."""
        for use in tuple(old.uses()):
            if not keep_float_readers or (
                self._is_quantized(use.node) and _is_data(use.node, use.idx)
            ):
                use.node.replace_input_with(use.idx, new)
        if old.is_graph_output() and not keep_float_readers:
            for index, output in enumerate(self._inner.outputs):
                if output is old:
                    self._inner.outputs[index] = new

    def _own_scalars(self, name: str, params: QuantParams) -> tuple[ir.Value, ir.Value]:
        """Scale and zero point of a constant.

        They belong to this constant alone: where ONNX Runtime turns int8 weights into uint8
        (``session.x64quantprecision``) it replaces them one by one and fails on shared ones.
        """
        scale, zero = _arrays(params)
        return (
            self._initializer(f"{name}/scale", scale),
            self._initializer(f"{name}/zero_point", zero),
        )

    def _scalars(self, name: str, params: QuantParams) -> tuple[ir.Value, ir.Value]:
        scale, zero = _arrays(params)
        return self._parameter(f"{name}/scale", scale), self._parameter(f"{name}/zero_point", zero)

    def _parameter(self, wish: str, array: np.ndarray) -> ir.Value:
        """An initializer; equal ones are made once, as many tensors share their scale."""
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        found = self._parameters.get(key)
        if found is None:
            found = self._initializer(wish, array)
            self._parameters[key] = found
        return found

    def _initializer(self, wish: str, array: np.ndarray) -> ir.Value:
        name = self._names.claim(wish)
        tensor = ir.tensor(array, name=name)
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
        self._inner.register_initializer(value)
        return value

    def _quantize(
        self, value: ir.Value, name: str, params: QuantParams, after: ir.Node | None
    ) -> ir.Value:
        scale, zero = self._scalars(name, params)
        out = ir.Value(
            name=self._names.claim(f"{name}/quantized"),
            type=ir.TensorType(ir.DataType[params.dtype.upper()]),
            shape=value.shape,
        )
        node = ir.node(
            "QuantizeLinear",
            [value, scale, zero],
            outputs=[out],
            name=self._names.claim(f"{name}/QuantizeLinear"),
        )
        self._place(node, after)
        return out

    def _dequantize(
        self, value: ir.Value, out: ir.Value, name: str, params: QuantParams, before: ir.Node | None
    ) -> None:
        if value.const_value is None:
            scale, zero = self._scalars(name, params)
        else:
            scale, zero = self._own_scalars(name, params)
        node = ir.node(
            "DequantizeLinear",
            [value, scale, zero],
            {} if params.axis is None else {"axis": params.axis},
            outputs=[out],
            name=self._names.claim(f"{name}/DequantizeLinear"),
        )
        if before is not None:
            self._inner.insert_before(before, node)
        else:
            self._place(node, value.producer())

    def _place(self, node: ir.Node, after: ir.Node | None) -> None:
        if after is not None:
            self._inner.insert_after(after, node)
        elif len(self._inner):
            self._inner.insert_before(self._inner[0], node)
        else:
            self._inner.append(node)

    def _dequantized_constant(
        self, name: str, integers: np.ndarray, params: QuantParams, before: ir.Node
    ) -> ir.Value:
        key = name if name not in self.table else self._names.claim(name)
        self.table[key] = params
        quantized = self._initializer(f"{key}/quantized", integers)
        out = ir.Value(
            name=self._names.claim(f"{key}/dequantized"),
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=ir.Shape(integers.shape),
        )
        self._dequantize(quantized, out, key, params, before)
        return out

    def finish(self) -> None:
        """Drop constants that nothing reads any more, and note why float layers are float."""
        for node in list(self._inner):
            reason = self._plan.reasons.get(node.name or "")
            if reason:
                node.metadata_props[REASON] = reason
            if node.op_type == "Constant" and not any(
                value.uses() or value.is_graph_output() for value in node.outputs
            ):
                self._inner.remove(node, safe=True)
        for name, value in list(self._inner.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del self._inner.initializers[name]


def _is_data(node: ir.Node, index: int) -> bool:
    return any(value is node.inputs[index] for value in data_inputs(node))


def _arrays(params: QuantParams) -> tuple[np.ndarray, np.ndarray]:
    scale = np.asarray(params.scale, dtype=np.float32)
    zero = np.asarray(params.zero_point, dtype=params.dtype)
    return (scale.reshape(()), zero.reshape(())) if params.axis is None else (scale, zero)


def _array(value: ir.Value) -> np.ndarray:
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None:
        raise ValueError(f"{value.name} is no constant")
    return tensor.numpy()


def table_of(graph: Graph) -> dict[str, QuantParams]:
    """The parameters of all Q/DQ nodes of a graph, for sources that bring their own quantization.

    The key is the name of the dequantized tensor; for constants, too.
    """
    table: dict[str, QuantParams] = {}
    for node in graph.nodes:
        if node.op_type != "DequantizeLinear" or node.inputs[1] is None:
            continue
        scale = ir.convenience.get_const_tensor(node.inputs[1])
        if scale is None or scale.numpy().dtype != np.float32:
            continue
        zero_value = node.inputs[2] if len(node.inputs) > 2 else None
        zero_tensor = None if zero_value is None else ir.convenience.get_const_tensor(zero_value)
        stored = node.inputs[0]
        if zero_tensor is not None:
            dtype = str(zero_tensor.numpy().dtype)
        else:
            dtype = graph.spec(stored.name or "").dtype if stored is not None else "unknown"
        if dtype not in ("int8", "uint8", "int16", "uint16", "int32"):
            continue
        scales = scale.numpy().reshape(-1)
        zeros = (
            np.zeros(scales.size, dtype=np.int64)
            if zero_tensor is None
            else zero_tensor.numpy().reshape(-1)
        )
        table[node.outputs[0].name or ""] = QuantParams(
            dtype=dtype,
            scale=tuple(float(s) for s in scales),
            zero_point=tuple(int(z) for z in zeros),
            axis=node.attributes.get_int("axis", 1) if scale.numpy().ndim else None,
        )
    return table
