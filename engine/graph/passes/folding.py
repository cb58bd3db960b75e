"""Constants: what depends on no input is computed once.

* ``Constant`` nodes become initializers.
* ``Shape`` and ``Size`` of a tensor of known shape become initializers.
* Nodes that read only initializers are computed in ONNX Runtime, all of a round in one session,
  and replaced by their results. A constant that is quantized or dequantized stays as it is: its
  Q/DQ pair says how the weight is held.
"""

from __future__ import annotations

import math
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.graph.execute.runtime import RUNTIME_ERRORS, plain_session, refuse_shortage
from engine.graph.ir import IR_VERSION, STANDARD_DOMAINS
from engine.graph.ir.folding import DIVISIONS, is_safe_division
from engine.graph.ir.spec import ancestors
from engine.graph.passes.base import NodePass, Pass, is_constant, operators, shape
from engine.graph.passes.editor import Editor

# A result above this size is only kept where it is no larger than what it was computed from.
LARGEST_RESULT = 1 << 22

# All results together that are larger than what they were computed from.
LARGEST_GROWTH = 1 << 28

# Constants up to this size go into the folded model (Reshape and Slice want theirs there), larger
# ones are fed and so are not copied.
_INLINE = 1024

_NEVER = operators(
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear RandomNormal RandomNormalLike "
    "RandomUniform RandomUniformLike Multinomial Bernoulli Constant"
)


class ConstantNodes(NodePass):
    """``Constant`` nodes to initializers."""

    name = "constant-nodes"
    level = 1
    summary = "Constant nodes become initializers."
    roots = frozenset({"Constant"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One ``Constant``; one whose value is an output of the graph stays."""
        out = node.outputs[0]
        tensor = ir.convenience.get_const_tensor(out)
        if tensor is None or out.is_graph_output():
            return self.near(node, "its value is an output of the graph, or no tensor")
        _replace_by_constant(edit, out, tensor.numpy())
        return self.did("Constant to initializer")


def _replace_by_constant(edit: Editor, out: ir.Value, array: np.ndarray) -> None:
    """Let the readers of ``out`` read an initializer of the same name; its producer is removed."""
    name, out.name = out.name or "", None
    edit.redirect(out, edit.constant(array, name or "constant", inherits=bool(name)))
    producer = out.producer()
    if producer is not None:
        edit.drop_if_dead(producer)


class StaticShapes(NodePass):
    """``Shape`` and ``Size`` of tensors whose shape is known."""

    name = "static-shapes"
    level = 1
    summary = "Shape and Size of tensors of known shape become constants."
    roots = frozenset({"Shape", "Size"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One ``Shape`` or ``Size``."""
        dims = shape(node.inputs[0])
        if dims is None:
            return self.near(node, "the shape of its input is not known")
        if node.outputs[0].is_graph_output():
            return self.near(node, "its result is an output of the graph")
        if node.op_type == "Size":
            constant = np.array(prod(dims), dtype=np.int64)
        else:
            start = node.attributes.get_int("start", 0)
            end = node.attributes.get_int("end", len(dims))
            constant = np.array(dims[start:end], dtype=np.int64)
        _replace_by_constant(edit, node.outputs[0], constant)
        return self.did(f"{node.op_type} to constant")


class ConstantSubgraphs(Pass):
    """Everything that is computed from initializers alone."""

    name = "constant-folding"
    level = 1
    summary = "What depends on no input is computed once, in ONNX Runtime."

    def __init__(self) -> None:
        super().__init__()
        self._grown = 0

    def apply(self, edit: Editor) -> None:
        """One round: find, compute in one session, replace.

        The nodes are in order, so one walk finds whole chains.
        """
        foldable: dict[ir.Node, None] = {}
        sizes: dict[ir.Value, int] = {}
        for node in edit.graph:
            if self._foldable(node, foldable, sizes):
                foldable[node] = None
        if not foldable:
            return
        results_needed = [
            value
            for node in foldable
            for value in node.outputs
            if any(use.node not in foldable for use in value.uses())
        ]
        results = _compute(list(foldable), results_needed)
        for value in results_needed:
            computed = results.get(value.name or "")
            producer = value.producer()
            if computed is None:
                if producer is not None:
                    self.near(producer, "ONNX Runtime cannot compute it")
                continue
            op = producer.op_type if producer is not None else ""
            _replace_by_constant(edit, value, computed)
            self.did(f"{op} computed")

    def _foldable(
        self, node: ir.Node, foldable: dict[ir.Node, None], sizes: dict[ir.Value, int]
    ) -> bool:
        if node.domain not in STANDARD_DOMAINS or not node.inputs:
            return False
        read = _read(node, sizes)
        if read is None:
            return False
        if node.op_type in _NEVER:
            return False
        if any(value.is_graph_output() for value in node.outputs):
            return self.near(node, "its result is an output of the graph")
        if any(a.type in _SUBGRAPHS for a in node.attributes.values()):
            return self.near(node, "it has a subgraph")
        if node.op_type in DIVISIONS and not _survives(node):
            return self.near(node, "it divides whole numbers by what is 0, or not known yet")
        for value in node.outputs:
            dims = _known_shape(value, node)
            if dims is None or value.dtype is None:
                if value.name and value.uses():
                    return self.near(node, "the size of its result is not known")
                continue
            size = int(prod(dims) * value.dtype.itemsize)
            if size > LARGEST_RESULT and size > _stored(node):
                return self.near(node, f"its result of {size} bytes is too large to keep")
            if size > read and self._grown + size > LARGEST_GROWTH:
                return self.near(node, "the graph's results are too large together to keep")
            self._grown += size if size > read else 0
            sizes[value] = size
        return True


def _read(node: ir.Node, sizes: dict[ir.Value, int]) -> int | None:
    """Bytes of a node's inputs, each counted once; None where one of them is no constant."""
    read = 0
    for value in dict.fromkeys(node.inputs):
        if value is None:
            continue
        if is_constant(value) and value.const_value is not None:
            read += value.const_value.nbytes
        elif value in sizes:
            read += sizes[value]
        else:
            return None
    return read


def _stored(node: ir.Node) -> int:
    """Bytes of the initializers that a node's results are computed from, each counted once."""
    roots: set[ir.Value] = set()
    seen: set[ir.Value] = set()
    stack = [value for value in node.inputs if value is not None]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.const_value is not None:
            roots.add(value)
        elif (producer := value.producer()) is not None:
            stack.extend(v for v in producer.inputs if v is not None)
    return sum(value.const_value.nbytes for value in roots if value.const_value is not None)


def _survives(node: ir.Node) -> bool:
    """Whether a division may be computed here; a divisor that is computed waits for a round."""
    if node.inputs[0] is None or node.inputs[0].dtype in _FLOATS:
        return True
    known = [None if v is None or v.const_value is None else v.const_value for v in node.inputs]
    if len(known) != 2 or known[1] is None:
        return False
    return is_safe_division(None if known[0] is None else known[0].numpy(), known[1].numpy())


def _known_shape(value: ir.Value, node: ir.Node) -> tuple[int, ...] | None:
    """The shape of a result; also of a Range of known numbers, which inference may leave open."""
    dims = shape(value)
    if dims is not None or node.op_type != "Range":
        return dims
    tensors = [v.const_value for v in node.inputs if v is not None and v.const_value is not None]
    if len(tensors) != 3 or any(tensor.size != 1 for tensor in tensors):
        return None
    start, limit, step = (float(tensor.numpy().reshape(())) for tensor in tensors)
    count = (limit - start) / step if step else math.inf
    return (max(math.ceil(count), 0),) if math.isfinite(count) else None


_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)
_SUBGRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _compute(nodes: list[ir.Node], values: list[ir.Value]) -> dict[str, np.ndarray]:
    """The values of ``values``; all in one session, or where that fails node by node."""
    try:
        return _run(nodes, values)
    except RUNTIME_ERRORS as error:
        refuse_shortage(error)
        if len(nodes) == 1:
            return {}
    results: dict[str, np.ndarray] = {}
    for value in values:
        needed = ancestors([value])
        try:
            results.update(_run([node for node in nodes if node in needed], [value]))
        except RUNTIME_ERRORS as error:
            refuse_shortage(error)
            continue
    return results


def _run(nodes: list[ir.Node], values: list[ir.Value]) -> dict[str, np.ndarray]:
    proto = onnx.ModelProto(ir_version=IR_VERSION)
    graph = nodes[0].graph
    opsets = getattr(graph, "opset_imports", {"": 21})
    for domain, version in opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.graph.name = "constants"
    feeds: dict[str, np.ndarray] = {}
    seen: set[ir.Value] = set()
    for node in nodes:
        serde.serialize_node_into(proto.graph.node.add(), node)
        for value in node.inputs:
            if value is None or value in seen or value.const_value is None:
                continue
            if value.producer() is not None or not value.name:
                continue
            seen.add(value)
            tensor = value.const_value
            if tensor.nbytes <= _INLINE:
                proto.graph.initializer.append(serde.serialize_tensor(tensor))
                proto.graph.initializer[-1].name = value.name
            else:
                dims = [int(d) for d in tensor.shape.numpy()]
                proto.graph.input.append(
                    onnx.helper.make_tensor_value_info(value.name, int(tensor.dtype), dims)
                )
                feeds[value.name] = tensor.numpy()
    for value in values:
        proto.graph.output.append(serde.serialize_value(value))
    names = [value.name or "" for value in values]
    session = plain_session(proto.SerializeToString())
    return dict(zip(names, session.run(names, feeds), strict=True))
