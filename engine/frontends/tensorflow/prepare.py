"""In the child: a frozen graph cut to what is asked for, with fixed sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.frontends.ends import reached
from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.selection import CONTROL_FLOW, fixed_shape, refusal_of

NodeDef = Any
"""A message of TensorFlow, which comes without types."""

TF_ERRORS: tuple[type[Exception], ...] = (
    *(tf.errors.OpError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(NotImplementedError, RuntimeError, AssertionError, OverflowError),
)
"""What TensorFlow and tf2onnx raise for a graph that they do not take; they have no common base."""


_SCALARS_SINCE = 24
"""GraphDefs before this version have no shape where they tell a scalar's (array_ops.cc)."""


@dataclass(frozen=True)
class Input:
    """An input of the cut graph.

    Attributes:
        tensor: its name in the source.
        node: the placeholder that stands for it.
        shape: sizes, as TensorFlow has them (NHWC).
        dtype: numpy's name.
    """

    tensor: str
    node: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Prepared:
    """A graph whose only placeholders are ``inputs``; ``outputs`` are tensor names."""

    graph: Any
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    findings: tuple[Finding, ...]


def parse(path: Path) -> Any:
    """The GraphDef of a file.

    Raises:
        SourceModelError: it is none.
    """
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(path.read_bytes())
    except (DecodeError, OSError, UnicodeDecodeError) as error:
        raise SourceModelError(
            f"{path.name} is not a TensorFlow graph: {said(error)}.",
            cause="The download or the export was interrupted, or the file was changed.",
            remedy="Get the file again, or freeze the model again.",
        ) from error
    return graph


def said(error: BaseException) -> str:
    """The first lines of what TensorFlow says of an error."""
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return sanitize(" ".join(str(text).split()), 400).rstrip(".")


def imported(graph: Any) -> Any:
    """The graph as TensorFlow understands it, with inferred types and shapes.

    Raises:
        SourceModelError: TensorFlow does not take it.
    """
    tf_graph = tf.Graph()
    try:
        with tf_graph.as_default(), tf.device("/cpu:0"):
            tf.import_graph_def(graph, name="")
    except TF_ERRORS as error:
        raise SourceModelError(
            f"TensorFlow {tf.__version__} does not take the graph: {said(error)}.",
            cause="The file is damaged, or a size in 'input_size_list' does not fit it.",
            remedy="Check the sizes; else freeze the model again.",
        ) from error
    return tf_graph


def prepare(
    graph: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    sizes: Sequence[Sequence[int]] | None,
    constants: Mapping[str, np.ndarray],
    nchw: bool,
) -> Prepared:
    """Cut ``graph`` at its inputs and outputs, put constants in, fix sizes.

    Raises:
        SourceModelError: names or sizes do not fit, or more inputs are needed.
        UnsupportedOperatorError: what remains has an operator that is not taken.
    """
    nodes = {node.name: node for node in graph.node}
    known = _specs(graph, nodes, inputs)
    findings: list[Finding] = []
    taken: list[Input] = []
    for number, tensor in enumerate(inputs):
        dtype, shape = known[tensor]
        size = None if sizes is None else sizes[number]
        fixed = fixed_shape(tensor, shape, size, nchw=nchw, findings=findings)
        taken.append(Input(tensor, _free_name(tensor, nodes), fixed, dtype))
    replaced = {one.tensor: one.node for one in taken}
    replaced |= {f"{name}:0": _free_name(f"{name}:0", nodes) for name in constants}
    replacements = {one.node: placeholder(one.node, one.dtype, one.shape) for one in taken}
    for name, value in constants.items():
        kind = tf.dtypes.as_dtype(_known_type(nodes.get(name)) or value.dtype)
        own = replaced[f"{name}:0"]
        replacements[own] = constant(own, value.astype(kind.as_numpy_dtype), kind)
    cut = _pruned(graph, nodes, replacements, replaced, outputs)
    _refuse_open(cut, taken, nodes)
    return Prepared(cut, tuple(taken), tuple(outputs), tuple(findings))


def _known_type(node: Any) -> int:
    """Number of the type of a node's first output, as its attributes tell it; 0 unknown."""
    if node is None:
        return 0
    return next((int(node.attr[k].type) for k in ("dtype", "DstT", "T") if k in node.attr), 0)


def _specs(
    graph: Any, nodes: Mapping[str, NodeDef], tensors: Sequence[str]
) -> dict[str, tuple[str, list[int | None] | None]]:
    """Type and shape of tensors; of inner ones, as TensorFlow infers them."""
    specs: dict[str, tuple[str, list[int | None] | None]] = {}
    for tensor in tensors:
        node = nodes[tensor_of(tensor)[0]]
        # decoders of pictures, which are not taken themselves, give bytes
        unknown = tf.uint8 if node.op.startswith("Decode") else tf.float32
        try:
            dtype = tf.dtypes.as_dtype(_known_type(node) or unknown).as_numpy_dtype
        except (TypeError, KeyError):
            dtype = np.float32
        shape = _attribute_shape(node)
        if shape == [] and graph.versions.producer < _SCALARS_SINCE:
            shape = None
        if not node.op.startswith("Placeholder"):
            dtype, shape = _inferred(graph, nodes, tensor) or (dtype, shape)
        name = np.dtype(dtype).name
        if np.dtype(dtype).kind not in "fiub" and name != "bfloat16":
            raise SourceModelError(
                f"The input {sanitize(tensor)!r} holds elements of type {name}, not numbers.",
                remedy="Cut the graph behind it with 'inputs'.",
            )
        specs[tensor] = (name, shape)
    return specs


def _attribute_shape(node: Any) -> list[int | None] | None:
    # asking a map of protobuf for a key that it lacks would add it
    if "shape" not in node.attr or node.attr["shape"].shape.unknown_rank:
        return None
    shape = node.attr["shape"].shape
    return [d.size if d.size >= 0 else None for d in shape.dim]


def _inferred(
    graph: Any, nodes: Mapping[str, NodeDef], tensor: str
) -> tuple[type, list[int | None] | None] | None:
    functions = {f.signature.name for f in graph.library.function}
    part = _pruned(graph, nodes, {}, {}, [tensor])
    if any(refusal_of(node.op, functions) for node in part.node):
        return None
    try:
        value = imported(part).get_tensor_by_name(tensor)
    except (SourceModelError, KeyError, ValueError):
        return None
    shape = value.shape
    return value.dtype.as_numpy_dtype, None if shape.rank is None else shape.as_list()


def _free_name(tensor: str, nodes: Mapping[str, NodeDef]) -> str:
    """The placeholder's name: the node's own where its first output is cut."""
    node, number = tensor_of(tensor)
    if number == 0 and nodes[node].op.startswith(("Placeholder", "Const")):
        return node
    name = f"{node}_output_{number}"
    while name in nodes:
        name += "_"
    return name


def placeholder(name: str, dtype: str, shape: Sequence[int]) -> NodeDef:
    """A Placeholder."""
    node = tf.compat.v1.NodeDef(name=name, op="Placeholder")
    node.attr["dtype"].type = tf.dtypes.as_dtype(dtype).as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return node


def constant(name: str, value: Any, kind: tf.DType) -> NodeDef:
    """A Const."""
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = kind.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, kind))
    return node


def _pruned(
    graph: Any,
    nodes: Mapping[str, NodeDef],
    replacements: Mapping[str, NodeDef],
    replaced: Mapping[str, str],
    outputs: Sequence[str],
) -> Any:
    """What ``outputs`` need of ``graph``, with ``replacements`` in place of ``replaced`` tensors.

    What only says in which order nodes run is left out, but where lowered loops need it.
    """
    ordered = any(node.op in CONTROL_FLOW for node in graph.node)
    cut = tf.compat.v1.GraphDef()
    cut.versions.CopyFrom(graph.versions)

    def copied(name: str) -> list[str]:
        """Copy a node; the names of those that it reads."""
        node = cut.node.add()
        if name in replacements:
            node.CopyFrom(replacements[name])
            return []
        node.CopyFrom(_source(name, nodes))
        node.device = ""
        node.attr.pop("_class", None)
        del node.input[:]
        for before in nodes[name].input:
            if not before.startswith("^"):
                node.input.append(_renamed(before, replaced))
            elif ordered:
                node.input.append(before)
        if node.op == "PlaceholderWithDefault":
            _to_identity(node)
        return [tensor_of(i.lstrip("^"))[0] for i in node.input]

    reached([tensor_of(name)[0] for name in outputs], copied)
    _copy_called(graph, cut)
    return cut


def _copy_called(graph: Any, cut: Any) -> None:
    """Copy those functions of the library that the nodes of ``cut`` call, also through others."""
    functions = {f.signature.name: f for f in graph.library.function}
    bodies = {name: function.node_def for name, function in functions.items()}
    starts = [name for node in cut.node for name in _called(node)] if functions else []
    for name in reached(
        starts, lambda n: [c for inner in bodies.get(n, ()) for c in _called(inner)]
    ):
        if name in functions:
            cut.library.function.add().CopyFrom(functions[name])


def _called(node: Any) -> list[str]:
    values = node.attr.values()
    named = [value.func.name for value in values if value.HasField("func")]
    listed = [f.name for value in values if value.HasField("list") for f in value.list.func]
    return [node.op, *named, *listed]


def _source(name: str, nodes: Mapping[str, NodeDef]) -> Any:
    if name not in nodes:
        raise SourceModelError(
            f"The graph reads a node {sanitize(name)!r} that it does not have.",
            cause="The file is damaged, or a part of the graph was cut out carelessly.",
            remedy="Freeze the model again.",
        )
    return nodes[name]


def _renamed(tensor: str, replaced: Mapping[str, str]) -> str:
    node, number = tensor_of(tensor)
    return replaced.get(f"{node}:{number}", tensor)


def _to_identity(node: Any) -> None:
    kind = node.attr["dtype"].type
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = kind


def _refuse_open(cut: Any, taken: Sequence[Input], nodes: Mapping[str, NodeDef]) -> None:
    names = {node.name for node in cut.node}
    useless = [one.tensor for one in taken if one.node not in names]
    if useless:
        raise SourceModelError(
            f"No output needs the input {sanitize(useless[0])!r}.",
            remedy="Leave it out of 'inputs', or name the outputs that need it.",
        )
    known = {one.node for one in taken}
    functions = {f.signature.name for f in cut.library.function}
    in_functions = (
        (f" of the function {sanitize(function.signature.name, 80)!r}", node)
        for function in cut.library.function
        for node in function.node_def
    )
    for where, node in (*(("", node) for node in cut.node), *in_functions):
        if not where and node.op.startswith("Placeholder") and node.name not in known:
            shape = _attribute_shape(node)
            shown = "?" if shape is None else shape_text(-1 if d is None else d for d in shape)
            raise SourceModelError(
                f"The outputs need the placeholder {sanitize(node.name)!r} ({shown}) as well.",
                remedy="Name it in 'inputs', or give its value in 'predef_file'.",
            )
        why = refusal_of(node.op, functions)
        if why:  # TensorFlow must never run it, in whatever function it stands
            raise UnsupportedOperatorError(
                f"Node {sanitize(node.name)!r}{where} is a {node.op}: {why}",
                remedy="Cut the model before it (outputs), or export the model to ONNX.",
            )
