"""The parts that a QDQ form is made of: constants, Q/DQ pairs, roundings to half precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, UniqueNames
from engine.graph.layers import ADDED


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
        name = self.names.claim(hint)
        tensor = ir.Tensor(array, dtype=dtype, name=name)
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
        self.inner.register_initializer(value)
        return value

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
        kind = ir.TensorType(ir.DataType[params.dtype.upper()])
        scale, zero = self._scalars(name, params)
        stored = self.names.claim(f"{name}/quantized")
        steps = ir.Value(name=stored, type=kind, shape=value.shape)
        hint = f"{name}/QuantizeLinear"
        last = self.insert_after(
            self.node("QuantizeLinear", [value, scale, zero], steps, hint), value.producer()
        )
        lowest, highest = np.iinfo(params.dtype).min, np.iinfo(params.dtype).max
        for op, bound, widest in (("Max", bounds[0], lowest), ("Min", bounds[1], highest)):
            if bound == widest:
                continue
            limit = self.parameter(f"{name}/{op}", np.array(bound, params.dtype))
            held = ir.Value(
                name=self.names.claim(f"{name}/{op.lower()}"), type=kind, shape=value.shape
            )
            last = self.insert_after(self.node(op, [steps, limit], held, f"{name}/{op}"), last)
            steps = held
        hint = f"{name}/DequantizeLinear"
        self.insert_after(self.node("DequantizeLinear", [steps, scale, zero], out, hint), last)
        return stored

    def cast_fp16(self, value: ir.Value, out: ir.Value, name: str) -> str:
        """Round ``value`` to half precision, as ``out`` in float32, behind what writes it.

        Gives the name of the rounded numbers.
        """
        stored = self.names.claim(f"{name}/float16")
        half = ir.Value(
            name=stored,
            type=ir.TensorType(ir.DataType.FLOAT16),
            shape=value.shape,
        )
        down = self.node("Cast", [value], half, f"{name}/Round", to=ir.DataType.FLOAT16.value)
        self.insert_after(down, value.producer())
        up = self.node("Cast", [half], out, f"{name}/Cast", to=ir.DataType.FLOAT.value)
        self.insert_after(up, down)
        return stored

    def stored(
        self, name: str, array: np.ndarray, params: QuantParams, before: ir.Node
    ) -> ir.Value:
        """A constant in its format, as float32 for the node that reads it.

        Its scale and zero point belong to it alone: where ONNX Runtime turns int8 weights into
        uint8 (``session.x64quantprecision``) it replaces them one by one and fails on shared ones.
        """
        out = ir.Value(
            name=self.names.claim(f"{name}/dequantized"),
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=ir.Shape(array.shape),
        )
        if params.is_float:
            half = self.initializer(f"{name}/float16", array.astype(np.float16))
            node = self.node("Cast", [half], out, f"{name}/Cast", to=ir.DataType.FLOAT.value)
        else:
            dtype = ir.DataType[params.dtype.upper()] if params.dtype in ("int4", "uint4") else None
            steps = self.initializer(f"{name}/quantized", array, dtype)
            scale, zero = _arrays(params)
            inputs = [
                steps,
                self.initializer(f"{name}/scale", scale),
                self.initializer(f"{name}/zero_point", zero, dtype),
            ]
            attributes = {} if params.axis is None else {"axis": params.axis}
            node = self.node(
                "DequantizeLinear", inputs, out, f"{name}/DequantizeLinear", **attributes
            )
        self.inner.insert_before(before, node)
        return out

    def _scalars(self, name: str, params: QuantParams) -> tuple[ir.Value, ir.Value]:
        scale, zero = _arrays(params)
        return self.parameter(f"{name}/scale", scale), self.parameter(f"{name}/zero_point", zero)


def _arrays(params: QuantParams) -> tuple[np.ndarray, np.ndarray]:
    held = {"int4": "int8", "uint4": "uint8"}.get(params.dtype, params.dtype)
    scale = np.asarray(params.scale, dtype=np.float32)
    zero = np.asarray(params.zero_point, dtype=held)
    return (scale.reshape(()), zero.reshape(())) if params.axis is None else (scale, zero)
