"""What a model holds: graphs inside nodes, constants that fit their shapes, what outputs need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from engine.base.errors import SourceModelError
from engine.base.text import did_you_mean, human_bytes, sanitize, shape_text
from engine.frontends.ends import left_out, reached, require_once
from engine.graph.ir.naming import IR_VERSION
from engine.graph.ir.rewriting import refill
from engine.graph.ir.shapes import infer_bounded
from engine.graph.ir.weightless import strip_weights

# the operators of ONNX that hold graphs; in any other one of its own the checker refuses a graph
_HOLDERS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def inner_graphs(node: onnx.NodeProto) -> Sequence[onnx.GraphProto]:
    """The graphs that a node holds itself; asked of every node, so most are told apart quickly."""
    if node.op_type not in _HOLDERS and not node.domain:
        return ()
    graphs: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs.extend(attribute.graphs)
    return graphs


_Holder = TypeVar("_Holder", bound=onnx.GraphProto | onnx.FunctionProto)


def walk(holder: _Holder) -> Iterator[_Holder | onnx.GraphProto]:
    """A graph or function and every graph inside it (protobuf allows about thirty of them in each
    other).
    """
    yield holder
    for node in holder.node:
        for inner in inner_graphs(node):
            yield from walk(inner)


def stored(
    graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Every constant that a model holds, with a name for messages: in graphs, inner graphs, nodes
    and functions, dense and sparse.
    """
    holders: list[onnx.GraphProto | onnx.FunctionProto] = [graph, *functions]
    for part in (part for holder in holders for part in walk(holder)):
        if isinstance(part, onnx.GraphProto):
            for tensor in part.initializer:
                yield tensor.name, tensor
            for sparse in part.sparse_initializer:
                yield from _parts(sparse)
        yield from _held(part.node)


def _held(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t.name or f"{attribute.name} of {node.name}", attribute.t
            for tensor in attribute.tensors:
                yield tensor.name or f"{attribute.name} of {node.name}", tensor
            if attribute.HasField("sparse_tensor"):
                yield from _parts(attribute.sparse_tensor)


def _parts(sparse: onnx.SparseTensorProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    yield sparse.values.name, sparse.values
    yield f"indices of {sparse.values.name}", sparse.indices


def reads(node: onnx.NodeProto) -> Sequence[str]:
    """The tensors that a node needs: its inputs, and what its graphs take from around them."""
    inner = inner_graphs(node)
    own: Sequence[str] = node.input
    if not inner:
        return own
    return [*own, *(name for graph in inner for name in _captured(graph))]


def _captured(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(name for node in graph.node for name in node.output)
    taken = [name for node in graph.node for name in reads(node)]
    taken += [value.name for value in graph.output]
    return [name for name in taken if name and name not in own]


def check_tensor_sizes(
    model: Path, graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> None:
    """Compare the data of initializers and of tensors in attributes with their dimensions.

    ONNX's checker does not, and reading such a tensor later would fail, or read too much.

    Raises:
        SourceModelError: names the tensor.
    """
    for name, tensor in stored(graph, functions):
        fault = _fault(tensor)
        if fault:
            shown = sanitize(str(name), 100)  # protobuf gives bytes for what is no UTF-8
            raise SourceModelError(
                f"{model} is a damaged ONNX model: its tensor {shown!r} {fault}.",
                cause="The file was cut short or changed after it was written.",
                remedy="Copy, download or export it again.",
            )


def _fault(tensor: onnx.TensorProto) -> str:
    try:
        kind = ir.DataType(tensor.data_type)
    except ValueError:
        return f"has the unknown type {tensor.data_type}"
    count = 1
    for dim in tensor.dims:
        if dim < 0:
            return f"has the dimension {dim}"
        count *= dim
    shape = shape_text(tensor.dims)
    if kind == ir.DataType.UNDEFINED:
        return "has no type"
    bits = 8 if kind == ir.DataType.STRING else int(kind.itemsize * 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""  # a tensor only stays outside where its length fits
    odd = _other_fields(tensor, kind)
    if odd:
        return f"keeps its {kind.name} numbers in {odd}"
    if kind == ir.DataType.STRING:
        have, need, unit = len(tensor.string_data), count, "texts"
    elif tensor.HasField("raw_data"):
        have, need, unit = len(tensor.raw_data), -(-count * bits // 8), "bytes"
    else:
        have, need, unit = _typed(tensor, kind), count, "numbers"
        packed = -(-count * bits // 8)
        if bits < 8 and have == packed:
            return ""
    return "" if have == need else f"({shape}) holds {have} {unit} instead of {need}"


_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def _other_fields(tensor: onnx.TensorProto, kind: ir.DataType) -> str:
    """The first field with numbers that a tensor of this type does not have (onnx.proto)."""
    own = "" if tensor.HasField("raw_data") else onnx.helper.tensor_dtype_to_field(kind)
    return next((name for name in _FIELDS if name != own and len(getattr(tensor, name))), "")


def _typed(tensor: onnx.TensorProto, kind: ir.DataType) -> int:
    numbers: Sized = getattr(tensor, onnx.helper.tensor_dtype_to_field(kind))
    pairs = kind in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)
    return len(numbers) // 2 if pairs else len(numbers)


_MAX_BYTES = 1 << 28


def make_dense(graph: onnx.GraphProto, source: str) -> None:
    """Turn sparse initializers, and those in ``Constant`` nodes, into dense ones; in place.

    Raises:
        SourceModelError: one is damaged, or all together would pass 256 MiB.
    """
    total = 0
    for part in walk(graph):
        for sparse in part.sparse_initializer:
            dense = _dense(sparse, source, total)
            total += dense.nbytes
            part.initializer.append(numpy_helper.from_array(dense, sparse.values.name))
        del part.sparse_initializer[:]
        for node in part.node:
            if node.op_type != "Constant":
                continue
            for attribute in node.attribute:
                if attribute.HasField("sparse_tensor"):
                    dense = _dense(attribute.sparse_tensor, source, total)
                    total += dense.nbytes
                    tensor = numpy_helper.from_array(dense)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _dense(sparse: onnx.SparseTensorProto, source: str, total: int) -> np.ndarray:
    name = sanitize(sparse.values.name, 100)
    dims = tuple(sparse.dims)
    try:
        values = numpy_helper.to_array(sparse.values)
        indices = numpy_helper.to_array(sparse.indices)
        size = prod(dims) * values.itemsize
        if not dims or min(dims) < 0 or values.ndim != 1 or indices.dtype != np.int64:
            raise ValueError("its dimensions or types are not those of a sparse tensor")
        if total + size > _MAX_BYTES:
            raise SourceModelError(
                f"{source} has sparse constants of more than {human_bytes(_MAX_BYTES)} when dense "
                f"({name!r}).",
                remedy="Export it with dense weights in a file beside the model.",
            )
        flat = _places(indices, dims, len(values))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SourceModelError(
            f"{source} is a damaged ONNX model: its sparse constant {name!r} cannot be read: "
            f"{sanitize(str(error), 200)}.",
            cause="The file was changed after it was written, or written by a faulty exporter.",
            remedy="Export the model again with dense weights.",
        ) from error
    dense = np.zeros(prod(dims), values.dtype)
    dense[flat] = values
    return dense.reshape(dims)


def _places(indices: np.ndarray, dims: tuple[int, ...], count: int) -> np.ndarray:
    """Where the numbers stand in the flattened tensor (onnx.proto, SparseTensorProto)."""
    if indices.shape == (count, len(dims)):
        bounded = ((indices >= 0) & (indices < np.array(dims))).all()
        flat = np.ravel_multi_index(tuple(indices.T), dims) if bounded else None
    elif indices.shape == (count,):
        flat = indices if ((indices >= 0) & (indices < prod(dims))).all() else None
    else:
        raise ValueError(f"{count} numbers have indices of shape {indices.shape}")
    if flat is None:
        raise ValueError("an index lies outside")
    return np.asarray(flat)


# Extracts the subgraph between chosen inputs and outputs.

_RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomUniform"})


def extract_subgraph(
    proto: onnx.ModelProto, inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> tuple[str, ...]:
    """Keep what ``outputs`` need, back to ``inputs``; in place.

    Args:
        proto: a cleaned model whose nodes are in order.
        inputs: names of graph inputs or inner tensors; None for the graph's own. Their order
            becomes the order of the graph's inputs.
        outputs: names of any tensors that are computed; None for the graph's own.

    Returns:
        The inputs that no output needs; they stay.

    Raises:
        SourceModelError: an unknown name, a constant as input, or outputs that need an input
            which is not listed.
    """
    graph = proto.graph
    if inputs is None and outputs is None:
        return ()
    own = [value.name for value in graph.input]
    makers = {name: node for node in graph.node for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer}
    starts = list(inputs) if inputs is not None else own
    ends = list(outputs) if outputs is not None else [value.name for value in graph.output]
    _check_names(starts, "inputs", {*own, *makers}, constants)
    _check_names(ends, "outputs", {*own, *makers}, constants)
    if outputs is not None:
        _check_computed(graph, ends, {*own, *starts})
    begin = set(starts)

    def sources(name: str) -> Sequence[str]:
        return [] if name in begin or name not in makers else reads(makers[name])

    needed = set(reached(ends, sources))
    missing = [name for name in own if name in needed and name not in begin]
    if missing:
        raise left_out(missing)
    _rebuild(proto, starts, ends, needed)
    read = {name for node in graph.node for name in reads(node)} | set(ends)
    return tuple(name for name in starts if name not in read)


def _check_names(names: Sequence[str], what: str, known: set[str], constants: set[str]) -> None:
    require_once(what, names, names)
    for name in names:
        if name in constants and name not in known:
            raise SourceModelError(
                f"{sanitize(name)!r} in {what} is a constant of the model.",
                remedy="Name a tensor that is computed from the inputs.",
            )
        if name not in known:
            raise SourceModelError(
                f"The model has no tensor {sanitize(name)!r}, which {what} names.",
                remedy=did_you_mean(name, known) or "Look tensor names up in the graph view.",
            )


def _check_computed(graph: onnx.GraphProto, ends: Sequence[str], starts: set[str]) -> None:
    """Refuse outputs that depend on no input, but those that the model itself has.

    Raises:
        SourceModelError: names the first of them.
    """
    asked = set(ends) - {value.name for value in graph.output} - starts
    moving = set(starts)
    for node in graph.node:
        if not moving.isdisjoint(reads(node)) or node.op_type in _RANDOM:
            moving.update(node.output)
    for name in ends:
        if name in asked and name not in moving:
            raise SourceModelError(
                f"{sanitize(name)!r} in outputs is a constant of the model: no input decides it.",
                remedy="Name a tensor that is computed from the inputs.",
            )


def _rebuild(
    proto: onnx.ModelProto, starts: Sequence[str], ends: Sequence[str], needed: set[str]
) -> None:
    graph = proto.graph
    infos = _infos(proto, {*starts, *ends})
    begin = set(starts)
    nodes = [
        node for node in graph.node if any(n in needed and n not in begin for n in node.output)
    ]
    for node in nodes:
        # a node may also compute a tensor that is an input now: its name goes to the input
        for index, name in enumerate(node.output):
            if name in begin:
                node.output[index] = ""
    used = {name for node in nodes for name in reads(node)} | set(ends)
    tensors = [tensor for tensor in graph.initializer if tensor.name in used]
    refill(graph.node, nodes)
    refill(graph.initializer, tensors)
    refill(graph.input, (infos[name] for name in starts))
    refill(graph.output, (infos[name] for name in ends))
    del graph.value_info[:]


def _infos(proto: onnx.ModelProto, names: set[str]) -> dict[str, onnx.ValueInfoProto]:
    """Type and shape of the tensors ``names``, from the file or by inference."""
    graph = proto.graph
    known = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
    if any(name not in known for name in names):
        slim = deepcopy(proto)
        strip_weights(slim.graph)
        inferred = infer_bounded(slim).graph
        known = {v.name: v for v in (*inferred.value_info, *inferred.output)} | known
    for name in names:
        if name not in known:
            # the type of a tensor behind an operator that inference does not know
            known[name] = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return {name: deepcopy(known[name]) for name in names}


def infer_outputs(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    constants: Mapping[str, np.ndarray],
) -> dict[str, onnx.TypeProto]:
    """Output -> the type that ONNX infers for a node of its own domain.

    Args:
        types: of its inputs.
        constants: numbers of those inputs that inference may read; others may be in it.

    Raises:
        SchemaError, InferenceError, ValidationError, RuntimeError, ValueError: as ONNX raises them.
    """
    kinds: dict[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(node.op_type, opset),
        node,
        dict(types),
        {n: numpy_helper.from_array(constants[n], n) for n in node.input if n in constants},
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=IR_VERSION,
    )
    return kinds


def forget_shapes(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Drop what the file says of inner and output shapes: the inputs decide, by inference.

    Returns:
        The types of the outputs as they were.
    """
    del graph.value_info[:]
    declared = {value.name: deepcopy(value.type) for value in graph.output}
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return declared


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put the nodes into an order of execution, in place; nothing changes where they are.

    Raises:
        SourceModelError: the graph runs in a circle; names a node of it.
    """
    makers: dict[str, int] = {}
    for at, node in enumerate(graph.node):
        for name in filter(None, node.output):
            makers.setdefault(name, at)  # a second one is no circle; the checker tells of it
    sources = {
        at: [makers[name] for name in reads(node) if name in makers]
        for at, node in enumerate(graph.node)
    }
    if all(source < at for at, before in sources.items() for source in before):
        return
    try:
        order = [graph.node[at] for at in TopologicalSorter(sources).static_order()]
    except CycleError as error:
        stuck = graph.node[min(error.args[1])]
        raise SourceModelError(
            f"The graph runs in a circle through node {sanitize(stuck.name or stuck.op_type)!r}.",
            cause="The file was damaged or written by a faulty exporter.",
            remedy="Export the model again.",
        ) from error
    refill(graph.node, order)
