"""Inner tensors of a run, fetched without changing what the run computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.execute.lower import OFFSET
from engine.graph.ir.custom import is_custom
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import add_constant, array_of, constant_of, new_value


@dataclass(frozen=True, eq=False)
class Fetch:
    """How one wanted tensor comes out of a run.

    Attributes:
        source: the output of the session that has it; empty for a constant.
        shift: subtract 128 and give int8 (the tensor was lowered to uint8).
        scale, zero_point: dequantize with these; shaped to broadcast.
        constant: the value itself, for constants.
    """

    source: str
    shift: bool = False
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    constant: np.ndarray | None = None

    def is_identity(self, tensor: str) -> bool:
        """Whether the session's output of this name is the tensor, with nothing left to do."""
        return self.source == tensor and not self.shift and self.scale is None

    def finish(self, array: np.ndarray) -> np.ndarray:
        """The wanted tensor from what the session gave."""
        if self.scale is not None and self.zero_point is not None:
            steps = array.astype(np.int32) - self.zero_point
            real: np.ndarray = steps.astype(np.float32) * self.scale
            return real
        if self.shift:
            return (array.astype(np.int16) - OFFSET).astype(np.int8)
        return array


def add_outputs(
    source: Graph, lowered: Graph, wanted: Sequence[str]
) -> tuple[Graph, dict[str, Fetch]]:
    """A copy of ``lowered`` with outputs from which every wanted tensor of ``source`` follows.

    ONNX Runtime fuses DequantizeLinear, operator and QuantizeLinear into an integer kernel only
    when nothing else reads the tensors between them. So of a quantized graph:

    * a quantized tensor is exposed itself: the fusion stays;
    * a float tensor that is quantized or was dequantized comes from its integers, dequantized here
      in float32 as DequantizeLinear does. It is what the next layer sees;
    * a tensor that was rounded to half precision is exposed itself, whoever quantizes it next;
    * any other float tensor (before an activation that is fused) is computed once more beside the
      graph, from its nearest integers. They are dequantized by Cast, Sub and Mul there, constants
      at once: ONNX Runtime would merge a second DequantizeLinear with the first, and so the
      copy with the node.

    A float graph just gets more outputs.

    Args:
        source: the graph in which the names mean something.
        lowered: what runs: ``source``, or its form after ``lower_for_runtime``.
        wanted: names of any values.

    Raises:
        GraphError: an unknown name.
    """
    copy = lowered.copy()
    exposure = _Exposure(source, copy)
    fetches = {name: exposure.fetch(name) for name in wanted}
    return Graph(copy.model), fetches


class _Exposure:
    def __init__(self, source: Graph, target: Graph) -> None:
        self._source = source
        self._target = target
        self._outputs = {value.name for value in target.model.graph.outputs}
        self._names = UniqueNames(set(target.values))
        self._beside: dict[ir.Value, ir.Value] = {}
        self._quantized = any(node.op_type == "QuantizeLinear" for node in target.nodes)

    def fetch(self, name: str) -> Fetch:
        original = self._source.value(name)
        constant = constant_of(original)
        if constant is not None:
            return Fetch("", constant=constant.numpy())
        if original.is_graph_output() or original.is_graph_input():
            return Fetch(name)
        value = self._target.value(name)
        folded = constant_of(value)
        if folded is not None:
            return Fetch("", constant=folded.numpy())
        if value.dtype != original.dtype:
            return Fetch(self._add(value), shift=True)
        if _is_rounded(value):
            return Fetch(self._add(value))
        node = _integer_twin(value)
        if node is not None:
            integers = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
            scale, zero = _parameters(node, integers)
            if integers is not None and scale is not None and zero is not None:
                return Fetch(self._add(integers), scale=scale, zero_point=zero)
        maker = value.producer()
        # what a custom operator gives is no part of a kernel: it can be read as it is
        if self._quantized and _is_float(value) and maker is not None and not is_custom(maker):
            return Fetch(self._add(self._twin(value)))
        return Fetch(self._add(value))

    def _add(self, value: ir.Value) -> str:
        name = value.name or ""
        if name not in self._outputs:
            self._target.model.graph.outputs.append(value)
            self._outputs.add(name)
        return name

    def _twin(self, source: ir.Value) -> ir.Value:
        """The value, computed again by copies of its float producers."""
        waiting = [source]
        while waiting:
            value = waiting[-1]
            node = value.producer()
            if node is None or value in self._beside:
                waiting.pop()
                continue
            open_inputs = [v for v in node.inputs if v is not None and self._needs_twin(v)]
            if open_inputs:
                waiting.extend(open_inputs)
                continue
            self._copy_node(node)
            waiting.pop()
        return self._beside[source]

    def _needs_twin(self, value: ir.Value) -> bool:
        if value in self._beside or not _is_float(value):
            return False
        node = value.producer()
        return node is not None and node.op_type != "Constant" and not is_custom(node)

    def _copy_node(self, node: ir.Node) -> None:
        if node.op_type == "DequantizeLinear" and self._dequantize_beside(node):
            return
        outputs = [
            ir.Value(
                name=self._names.claim(f"{value.name}_beside") if value.name else None,
                type=value.type,
                shape=value.shape,
            )
            for value in node.outputs
        ]
        inputs = [
            None if value is None else self._beside.get(value, value) for value in node.inputs
        ]
        twin = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            outputs=outputs,
            name=f"{node.name}_beside",
        )
        self._target.model.graph.append(twin)
        self._beside.update(zip(node.outputs, outputs, strict=True))

    def _dequantize_beside(self, node: ir.Node) -> bool:
        """``(float(q) - zero_point) * scale``: as exact as DequantizeLinear in float32."""
        out, integers = node.outputs[0], node.inputs[0]
        if integers is None:
            return False
        scale, zero = _parameters(node, integers)
        if scale is None or zero is None:
            return False
        constant = array_of(integers)
        if constant is not None:
            real = Fetch("", scale=scale, zero_point=zero).finish(constant)
            self._beside[out] = self._constant(f"{out.name}_beside", real)
            return True
        to_float = ir.AttrInt64("to", ir.DataType.FLOAT.value)
        value = self._step("Cast", out, [integers], [to_float])
        offset = self._constant(f"{out.name}_beside_zero", zero.astype(np.float32))
        value = self._step("Sub", out, [value, offset])
        factor = self._constant(f"{out.name}_beside_scale", scale)
        self._beside[out] = self._step("Mul", out, [value, factor])
        return True

    def _step(
        self, op: str, like: ir.Value, inputs: list[ir.Value], attributes: Sequence[ir.Attr] = ()
    ) -> ir.Value:
        name = self._names.claim(f"{like.name}_beside_{op}")
        value = new_value(name, ir.DataType.FLOAT, like.shape)
        node = ir.Node("", op, inputs, attributes, outputs=[value], name=name)
        self._target.model.graph.append(node)
        return value

    def _constant(self, hint: str, array: np.ndarray) -> ir.Value:
        return add_constant(self._target.model.graph, self._names.claim(hint), array)


def _is_float(value: ir.Value) -> bool:
    return value.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, None)


def _is_rounded(value: ir.Value) -> bool:
    """Whether a value comes back from half precision: no kernel spans that, it is read as it is."""
    producer = value.producer()
    source = producer.inputs[0] if producer is not None and producer.op_type == "Cast" else None
    return source is not None and source.dtype == ir.DataType.FLOAT16


def _integer_twin(value: ir.Value) -> ir.Node | None:
    """The Q or DQ node that has a float value as integers."""
    producer = value.producer()
    if producer is not None and producer.op_type == "DequantizeLinear":
        return producer
    for use in value.uses():
        if use.node.op_type == "QuantizeLinear" and use.idx == 0:
            return use.node
    return None


def _parameters(
    node: ir.Node, integers: ir.Value | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Scale (float32) and zero point (int32) of a Q or DQ node, shaped to broadcast."""
    scale = array_of(node.inputs[1])
    zero_value = node.inputs[2] if len(node.inputs) > 2 else None
    zeros = array_of(zero_value)
    if scale is None or (zero_value is not None and zeros is None):
        return None, None
    if scale.dtype != np.float32 or "block_size" in node.attributes:
        return None, None
    zero = np.zeros(scale.shape, np.int32) if zeros is None else zeros.astype(np.int32)
    if scale.size == 1:
        return scale.reshape(()), zero.reshape(())
    rank = None if integers is None or integers.shape is None else integers.shape.rank()
    if rank is None:
        return None, None
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    shape = [1] * rank
    shape[axis] = scale.size
    return scale.reshape(shape), zero.reshape(shape)
