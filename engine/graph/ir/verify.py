"""Whether a graph keeps every rule of the IR."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.ir.custom import custom_names, custom_ops_in, is_custom
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import IR_VERSION, OPSET
from engine.graph.ir.shapes import infer_proto
from engine.graph.ir.spec import spec_of
from engine.graph.ir.weightless import weightless_proto


def verify(graph: Graph) -> None:
    """Check every rule; linear in the number of nodes and values.

    The rules: pinned opset and IR version, no functions, no subgraphs, custom operators only of
    domains that the model imports and by names that are not ONNX's (the importers refuse those
    that nobody registered; a graph from a container holds no code, so that none need be here),
    unique names of nodes and values, every value computed before it is read, initializers with a
    tensor of their own type and shape and not among the inputs, outputs that exist; then ONNX's
    checker (operators, attributes, number of inputs) and its inference of types and shapes.

    Raises:
        GraphError: names the node or value and the rule.
    """
    model = graph.model
    for rule in _RULES:
        rule(model)
    proto = weightless_proto(model)
    check_proto(proto)
    infer_proto(proto, custom_ops_in(model))


def _broken(what: str) -> GraphError:
    return GraphError(
        what,
        cause="A rewrite or an importer made a graph that breaks a rule.",
        remedy="Build with a lower optimization level, and report this.",
    )


def _name(text: str | None) -> str:
    return repr(sanitize(text or "", 200))


def _versions(model: ir.Model) -> None:
    if model.ir_version != IR_VERSION:
        raise _broken(f"The graph has IR version {model.ir_version}, not {IR_VERSION}.")
    if model.opset_imports.get("") != OPSET:
        raise _broken(f"The graph has opset {model.opset_imports.get('')}, not {OPSET}.")
    if model.functions:
        raise _broken("The graph has model functions; they must be inlined.")


def _nodes(model: ir.Model) -> None:
    seen: set[str] = set()
    for node in model.graph:
        if not node.name:
            raise _broken(f"A node {node.op_type} has no name.")
        if node.name in seen:
            raise _broken(f"Two nodes are named {_name(node.name)}.")
        seen.add(node.name)
        if is_custom(node):
            _custom(model, node)
        for attribute in node.attributes.values():
            if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                raise _broken(f"Node {_name(node.name)} ({node.op_type}) has a subgraph.")


def _custom(model: ir.Model, node: ir.Node) -> None:
    where = f"Node {_name(node.name)} has the operator {node.domain}:{node.op_type}"
    if node.domain not in model.opset_imports:
        raise _broken(f"{where}, which is not ONNX's, of a domain that the model does not import.")
    if not custom_names(node.op_type):
        raise _broken(f"{where}, which is not ONNX's but has the name of one of ONNX's.")


def _values(model: ir.Model) -> None:
    graph = model.graph
    defined: dict[str, ir.Value] = {}
    computed: set[ir.Value] = set()

    def define(value: ir.Value, where: str) -> None:
        if not value.name:
            raise _broken(f"{where} has a value without a name.")
        if value.name in defined and defined[value.name] is not value:
            raise _broken(f"Two values are named {_name(value.name)}, one of them at {where}.")
        defined[value.name] = value
        computed.add(value)

    for value in graph.inputs:
        if value in computed:
            raise _broken(f"Input {_name(value.name)} is listed twice.")
        define(value, "the list of inputs")
    for value in graph.initializers.values():
        define(value, "the list of initializers")
    for node in graph:
        for used in node.inputs:
            if used is not None and used not in computed:
                raise _broken(_unknown_input(node, used))
        for value in node.outputs:
            if value.name or value.uses() or value.is_graph_output():
                define(value, f"node {_name(node.name)}")


def _unknown_input(node: ir.Node, used: ir.Value) -> str:
    maker = used.producer()
    if maker is not None and maker.graph is node.graph:
        return (
            f"Node {_name(node.name)} reads {_name(used.name)} before "
            f"{_name(maker.name)} has computed it: the nodes are not in order."
        )
    return f"Node {_name(node.name)} reads {_name(used.name)}, which nothing computes."


def _ends(model: ir.Model) -> None:
    graph = model.graph
    inputs = {value.name for value in graph.inputs}
    for name, value in graph.initializers.items():
        if name in inputs:
            raise _broken(f"Initializer {_name(name)} is a graph input too.")
        tensor = value.const_value
        if tensor is None:
            raise _broken(f"Initializer {_name(name)} has no tensor.")
        if value.dtype is not None and value.dtype != tensor.dtype:
            raise _broken(
                f"Initializer {_name(name)} says {value.dtype.name} but holds {tensor.dtype.name}."
            )
        if value.shape is not None and value.shape != tensor.shape:
            raise _broken(
                f"Initializer {_name(name)} says shape {value.shape} but holds {tensor.shape}."
            )
    if not graph.outputs:
        raise _broken("The graph has no outputs.")
    seen: set[str] = set()
    for value in graph.outputs:
        if (value.name or "") in seen:
            raise _broken(f"Output {_name(value.name)} is listed twice.")
        seen.add(value.name or "")
        owned = value.producer() is not None and value.producer().graph is graph  # type: ignore[union-attr]
        if not (owned or value.name in inputs or value.name in graph.initializers):
            raise _broken(f"Output {_name(value.name)} is computed by nothing.")
    for value in (*graph.inputs, *graph.outputs):
        if value.dtype is None:
            raise _broken(f"Input or output {_name(value.name)} has no type.")


def check_channels(model: ir.Model) -> None:
    """Channels of convolutions, which ONNX's inference does not compare with their weights.

    Raises:
        GraphError: names the node.
    """
    for node in model.graph:
        if node.op_type not in ("Conv", "ConvTranspose") or len(node.inputs) < 2:
            continue
        x, weight = node.inputs[0], node.inputs[1]
        have, size = _shape(x), _shape(weight)
        if have is None or size is None or len(have) < 2 or len(size) < 2:
            continue
        group = node.attributes["group"].as_int() if "group" in node.attributes else 1
        channels = size[1] * group if node.op_type == "Conv" else size[0]
        if have[1] >= 0 and channels >= 0 and have[1] != channels:
            raise GraphError(
                f"Node {_name(node.name)} ({node.op_type}) gets {have[1]} channels; its weights "
                f"are for {channels}.",
                cause="An input has another size than the model was made for, or another layout.",
                remedy="Check 'input_size_list': the layout is batch, channels, height, width.",
            )


def _shape(value: ir.Value | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    spec = spec_of(value)
    return spec.shape if spec.rank_known else None


_RULES: tuple[Callable[[ir.Model], None], ...] = (
    _versions,
    _nodes,
    _values,
    _ends,
    check_channels,
)

_CONTEXT = re.compile(r"Name:\s*(?P<name>.*?)\s+OpType:\s*(?P<op>\S+)")


def check_proto(proto: onnx.ModelProto) -> None:
    """ONNX's own checker on a protobuf model (weights stripped or not).

    The checker wants a shape field on every output even where the rank is not known; such outputs
    get an empty one while it runs.

    Raises:
        GraphError: names the node and the rule.
    """
    open_outputs = [
        value.type.tensor_type
        for value in proto.graph.output
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for tensor_type in open_outputs:
        tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError) as error:
        text = str(error)
        match = _CONTEXT.search(text)
        where = f"Node {_name(match['name'])} ({match['op']})" if match else "The graph"
        rule = sanitize(text.split("\n")[0].strip(), 300)
        raise GraphError(
            f"{where} breaks a rule of ONNX: {rule}",
            cause="The model was written by a faulty exporter, or a rewrite made a mistake.",
            remedy="Export the model again with a current exporter.",
        ) from error
    finally:
        for tensor_type in open_outputs:
            tensor_type.ClearField("shape")
