"""Weights of a model that ONNX Runtime is given: shared by nobody, and apart where large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.graph.execute.lower import lower_for_runtime
from engine.graph.ir.graph import Graph, no_collection
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import maker_of
from engine.graph.ir.weightless import weightless_proto


def duplicate_shared_weights(graph: Graph) -> Graph:
    """A copy in which every operator has int8 weights and zero points of its own.

    ``session.x64quantprecision`` turns int8 weights into uint8 operator by operator and names the
    results after what they were; ONNX Runtime 1.31 then fails on the second operator that has the
    same weight or zero point ("Attempt to replace the existing tensor"). Exporters and passes that
    merge equal constants make such graphs. One without them comes back as it is.

    What is computed from constants and shapes alone counts as a weight: ONNX Runtime computes it
    while it loads the graph.
    """
    if not any(True for _ in _shared(graph.model.graph, _fixed(graph.model.graph))):
        return graph
    copy = graph.copy()
    inner = copy.model.graph
    fixed = _fixed(inner)
    names = UniqueNames(set(copy.values) | {node.name or "" for node in inner})
    for node in list(inner):
        if _reads_int8_weight(node, fixed):
            for use in list(node.outputs[0].uses())[1:]:
                use.node.replace_input_with(use.idx, _twin(inner, node, names))
    for node, index in list(_shared(inner, _fixed(inner))):
        value = node.inputs[index]
        if value is not None:
            node.replace_input_with(index, _duplicate(inner, value, names))
    return Graph(copy.model)


def _fixed(graph: ir.Graph) -> set[ir.Value]:
    """Tensors that nodes compute from constants and shapes alone."""
    fixed: set[ir.Value] = set()
    for node in graph:
        if node.op_type in ("Constant", "Shape", "Size") or (
            node.inputs
            and all(v is None or v in fixed or v.const_value is not None for v in node.inputs)
        ):
            fixed.update(node.outputs)
    return fixed


def _reads_int8_weight(node: ir.Node, fixed: set[ir.Value]) -> bool:
    stored = node.inputs[0] if node.op_type == "DequantizeLinear" else None
    if stored is None:
        return False
    if stored in fixed:
        return stored.dtype == ir.DataType.INT8
    return stored.const_value is not None and stored.const_value.dtype == ir.DataType.INT8


def _shared(graph: ir.Graph, fixed: set[ir.Value]) -> Iterator[tuple[ir.Node, int]]:
    """(DequantizeLinear, input) whose weight or zero point an earlier one has too.

    A node with several readers counts for its weight: it is one operator's weight and another's.
    Nodes that quantize such numbers have zero points of their own too, or equal ones become one.
    """
    seen: set[ir.Value] = set()
    for node in graph:
        quantizes = node.op_type == "QuantizeLinear" and node.outputs[0] in fixed
        if not quantizes and not _reads_int8_weight(node, fixed):
            continue
        if (
            not quantizes
            and len(node.outputs[0].uses()) > 1
            and not node.outputs[0].is_graph_output()
        ):
            yield node, 0
        for index in (2,) if quantizes else (0, 2):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or value.const_value is None:
                continue
            if value in seen:
                yield node, index
            seen.add(value)


def _twin(graph: ir.Graph, node: ir.Node, names: UniqueNames) -> ir.Value:
    """The output of a copy of a DequantizeLinear, with constants of its own."""
    stored = node.inputs[0]
    quantizer = maker_of(stored)
    inputs = list(node.inputs)
    if quantizer is not None:
        inputs[0] = _copied(graph, quantizer, quantizer.inputs, names)
    return _copied(graph, node, inputs, names)


def _copied(
    graph: ir.Graph, node: ir.Node, inputs: Sequence[ir.Value | None], names: UniqueNames
) -> ir.Value:
    output = node.outputs[0]
    value = ir.Value(name=names.claim(f"{output.name}_own"), type=output.type, shape=output.shape)
    twin = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        outputs=[value],
        name=names.claim(f"{node.name}_own"),
    )
    graph.insert_after(node, twin)
    return value


def _duplicate(graph: ir.Graph, value: ir.Value, names: UniqueNames) -> ir.Value:
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"{value.name} is not a constant")
    name = names.claim(f"{value.name}_own")
    own = ir.Value(
        name=name,
        type=value.type,
        shape=value.shape,
        const_value=ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name),
    )
    graph.register_initializer(own)
    return own


# The message of a graph without its large constants, which a session is given beside it.
#
# A session of a message with all weights in it holds them three times while it is opened: as
# arrays, in the message, and as ONNX Runtime parsed them. Opening ResNet-18 (45 MB) takes a fifth
# of the time where it is given the arrays themselves.

_INLINE = 4096
"""Bytes of a constant up to which it stays in the message."""
_PLAIN = frozenset("fiub")  # kinds of numpy's types that ONNX Runtime takes as they are


def constants_apart(graph: Graph) -> tuple[onnx.ModelProto, dict[str, ir.TensorProtocol]]:
    """The message of a graph in which nothing is said of its large constants, and those by name.

    The graph is only read. Constants that are outputs stay in the message, and so do those whose
    type numpy has not; those that nothing reads are left out.
    """
    with no_collection():
        proto = weightless_proto(graph.model)
    inner, constants = proto.graph, graph.model.graph.initializers
    declared = [value.name for value in inner.input if value.name in constants]
    inputs = [value for value in inner.input if value.name not in constants]
    del inner.input[:]
    inner.input.extend(inputs)
    apart: dict[str, ir.TensorProtocol] = {}
    for name in declared:
        value = constants[name]
        tensor = value.const_value
        # ONNX Runtime forgets a constant that nothing reads, and then misses it
        if tensor is None or not (value.uses() or value.is_graph_output()):
            continue
        if _is_apart(tensor) and not value.is_graph_output():
            apart[name] = tensor
        else:
            inner.initializer.append(serde.serialize_tensor(tensor))
            inner.initializer[-1].name = name
    return proto, apart


def message_and_weights(graph: Graph) -> tuple[bytes, Mapping[str, np.ndarray]]:
    """The serialised message that names its large constants as being elsewhere, and their values,
    which must live as long as a session of it.
    """
    proto, apart = constants_apart(graph)
    weights = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in apart.items()}
    proto.graph.initializer.extend(elsewhere(name, array) for name, array in weights.items())
    return proto.SerializeToString(), weights


def elsewhere(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A constant whose values a session is given apart from the message."""
    tensor = onnx.TensorProto(name=name, dims=array.shape)
    tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "memory"), ("offset", 0), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _is_apart(tensor: ir.TensorProtocol) -> bool:
    plain = tensor.dtype.bitwidth >= 8 and tensor.dtype.numpy().kind in _PLAIN
    return plain and tensor.nbytes > _INLINE


# The form in which ONNX Runtime runs a graph, made once for each graph.


class RuntimeModel:
    """A quantized graph as it runs: int8 activations as uint8, no weights that operators share.

    Tensors have the names that they have in the graph.

    Attributes:
        graph: of that form.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = duplicate_shared_weights(lower_for_runtime(graph))

    @cached_property
    def data(self) -> bytes:
        """The serialised graph."""
        return self.graph.to_bytes()


_FORMS: WeakKeyDictionary[Graph, RuntimeModel] = WeakKeyDictionary()


def prepare_for_ort(graph: Graph) -> RuntimeModel:
    """The form of a graph, kept for as long as the graph is.

    A build looks at one graph four times (which kernels run, simulated against float, layers
    alone, the simulator), and making the form takes as long as ONNX Runtime takes to load it. A
    graph that runs as it is has nothing to keep: its bytes would hold all float weights again.
    """
    form = _FORMS.get(graph)
    if form is None:
        form = RuntimeModel(graph)
        if form.graph is not graph:
            _FORMS[graph] = form
    return form
