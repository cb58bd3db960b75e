"""Extracts the subgraph between chosen inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from engine.base.errors import SourceModelError
from engine.base.text import did_you_mean, sanitize
from engine.frontends.ends import left_out, reached, require_once
from engine.frontends.onnx.tensors import reads
from engine.graph.ir.rewriting import refill
from engine.graph.ir.shapes import infer_bounded
from engine.graph.ir.weightless import strip_weights

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

    needed = reached(ends, sources)
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
        slim = onnx.ModelProto()
        slim.CopyFrom(proto)
        strip_weights(slim.graph)
        inferred = infer_bounded(slim).graph
        known = {v.name: v for v in (*inferred.value_info, *inferred.output)} | known
    for name in names:
        if name not in known:
            # the type of a tensor behind an operator that inference does not know
            known[name] = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    copies = {}
    for name in names:
        copies[name] = onnx.ValueInfoProto()
        copies[name].CopyFrom(known[name])
    return copies


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put the nodes into an order of execution, in place; nothing changes where they are.

    Raises:
        SourceModelError: the graph runs in a circle; names a node of it.
    """
    computed = {name for node in graph.node for name in node.output if name}
    seen: set[str] = set()
    for node in graph.node:
        if any(name in computed and name not in seen for name in reads(node)):
            break
        seen.update(node.output)
    else:
        return
    _reorder(graph, computed)


def _reorder(graph: onnx.GraphProto, computed: set[str]) -> None:
    nodes = list(graph.node)
    readers: dict[str, list[int]] = {}
    open_inputs = []
    for index, node in enumerate(nodes):
        waits = {name for name in reads(node) if name in computed}
        open_inputs.append(len(waits))
        for name in waits:
            readers.setdefault(name, []).append(index)
    ready = [index for index, count in enumerate(open_inputs) if count == 0]
    order: list[int] = []
    for index in ready:  # grows while it is read
        order.append(index)
        for name in nodes[index].output:
            for reader in readers.get(name, ()):
                open_inputs[reader] -= 1
                if open_inputs[reader] == 0:
                    ready.append(reader)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, open_inputs, strict=True) if count)
        raise SourceModelError(
            f"The graph runs in a circle through node {sanitize(stuck.name or stuck.op_type)!r}.",
            cause="The file was damaged or written by a faulty exporter.",
            remedy="Export the model again.",
        )
    refill(graph.node, [nodes[index] for index in order])
