"""In a process of its own: a frozen graph becomes an ONNX file, and TensorFlow's results for it.

Started through :mod:`engine.frontends.converter_process`; nothing else imports this module.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.peers.far import Message
from engine.base.text import sanitize
from engine.frontends.numeric_check import Run, save_reference
from engine.frontends.tensorflow.handlers import HANDLERS, restore_weights, take_out
from engine.frontends.tensorflow.prepare import (
    TF_ERRORS,
    Input,
    Prepared,
    imported,
    parse,
    prepare,
    said,
)
from engine.frontends.tensorflow.rewrites import rewrite
from engine.frontends.tensorflow.selection import read_predef
from engine.frontends.tensorflow.unroll import has_control_flow, unroll

_OPSET = 18
"""The newest that tf2onnx 1.17 writes."""
_MAX_INLINE = 1 << 30
_NO_NET = "TF2ONNX_CATCH_ERRORS"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def convert(request: Message, out: Path) -> Message:
    """Convert a frozen graph.

    Args:
        request: ``path``; ``inputs`` and ``outputs``, tensor names; ``sizes``, a shape per input
            or None; ``predef``, a path or None; ``nchw``.
        out: the ONNX file to write; TensorFlow's own results go to ``reference.npz`` beside it.

    Returns:
        ``findings``, and ``compared``: why there is no reference, empty where there is one.

    Raises:
        SourceModelError, UnsupportedOperatorError: as the front end's ``load`` says.
    """
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    constants = read_predef(Path(request["predef"])) if request["predef"] else {}
    ready = prepare(
        parse(Path(request["path"])),
        request["inputs"],
        request["outputs"],
        request["sizes"],
        constants,
        nchw=request["nchw"],
    )
    why = write_reference(ready, out)
    if why and any(node.op == "RandomUniform" for node in ready.graph.node):
        raise UnsupportedOperatorError(
            f"The graph draws random numbers, and whether they matter cannot be tried. {why}",
            remedy="Freeze the model for inference, without its dropout.",
        )
    findings = list(ready.findings)
    try:
        graph, ends = _plain(ready, findings)
        graph, weights = take_out(graph)
        graph = rewrite(graph)
    except TF_ERRORS as error:  # attributes of a damaged file, found when they are used
        raise _failed(error) from error
    proto = _converted(graph, ready, ends, request, tuple(weights))
    restore_weights(proto, weights)
    _check(proto)
    large = proto.ByteSize() > _MAX_INLINE
    onnx.save(proto, str(out), save_as_external_data=large)
    findings.extend(_notes(ready))
    return {"findings": [f.to_dict() for f in findings], "compared": why}


def _plain(ready: Prepared, findings: list[Finding]) -> tuple[Any, tuple[str, ...]]:
    """The graph with functions inlined and lowered loops written out, and its ends."""
    graph, ends = ready.graph, ready.outputs
    if has_control_flow(graph) or any(_calls(node, graph) for node in graph.node):
        names = [f"{one.node}:0" for one in ready.inputs]
        with tf.Graph().as_default():
            graph = tf2onnx.tf_loader.tf_optimize(names, list(ends), _inlinable(graph))
    if has_control_flow(graph):
        graph, ends = unroll(graph, ends)
        what = "Loops and branches of the model were made a fixed list of operators."
        cause = "An NPU runs the same operators every time."
        findings.append(Finding("control-flow-resolved", "info", "model", what, cause))
    return graph, ends


_KEEP_APART = ("_noinline", "_XlaMustCompile")


def _inlinable(graph: Any) -> Any:
    """A copy whose functions may be inlined: Keras wraps grouped convolutions to be compiled."""
    free = tf.compat.v1.GraphDef()
    free.CopyFrom(graph)
    functions = free.library.function
    nodes = [*free.node, *(node for function in functions for node in function.node_def)]
    for holder in (*nodes, *functions):
        for name in _KEEP_APART:
            holder.attr.pop(name, None)
    return free


def _calls(node: Any, graph: Any) -> bool:
    return node.op in _CALLS or any(node.op == f.signature.name for f in graph.library.function)


def _converted(
    graph: Any, ready: Prepared, ends: tuple[str, ...], request: Any, more: tuple[str, ...]
) -> Any:
    """What tf2onnx makes of it, with the source's names of inputs and outputs.

    ``more`` names placeholders that are no inputs of the source.
    """
    names = [f"{one.node}:0" for one in ready.inputs]
    graph, ends = _distinct(graph, ends)
    renamed = dict(zip(names, (one.tensor for one in ready.inputs), strict=True))
    renamed |= dict(zip(ends, ready.outputs, strict=True))
    turned = [n for n, one in zip(names, ready.inputs, strict=True) if len(one.shape) == 4]
    options = {
        "name": "model",
        "input_names": [*names, *(f"{name}:0" for name in more)],
        "output_names": list(ends),
        "opset": _OPSET,
        "custom_op_handlers": {op: (handler, []) for op, handler in HANDLERS.items()},
        "inputs_as_nchw": turned if request["nchw"] else None,
        "tensors_to_rename": {a: b for a, b in renamed.items() if a != b},
    }
    proto = _written(graph, options)
    input_names = [value.name for value in proto.graph.input]
    lost = [one.tensor for one in ready.inputs if one.tensor not in input_names]
    if lost:
        raise SourceModelError(
            f"The outputs do not depend on the input {sanitize(lost[0])!r}.",
            cause="Only its shape is read, or what it decides is constant.",
            remedy="Leave it out of 'inputs', or give its value in 'predef_file'.",
        )
    order = {one.tensor: number for number, one in enumerate(ready.inputs)}
    proto.graph.input.sort(key=lambda value: order.get(value.name, len(order)))
    return proto


def _written(graph: Any, options: Message) -> Any:
    """What tf2onnx writes.

    Its optimisers are run without their net first, which copies the whole model before each of
    them; where one fails, all are run again with it, and that one is left out.
    """
    # whatever its value is, the variable takes the net away (tf2onnx 1.17)
    os.environ[_NO_NET] = "FALSE"
    try:
        return tf2onnx.convert.from_graph_def(graph, **options)[0]
    except TF_ERRORS:
        del os.environ[_NO_NET]
    try:
        return tf2onnx.convert.from_graph_def(graph, **options)[0]
    except TF_ERRORS as error:
        raise _failed(error) from error


def _distinct(graph: Any, ends: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """Give outputs that became one tensor, or an input, nodes of their own."""
    holders = {node.name: node for node in graph.node}
    seen: set[str] = set()
    tensors = []
    for number, end in enumerate(ends):
        full = end if ":" in end else f"{end}:0"
        node = holders[full.rpartition(":")[0]]
        if full in seen or node.op in ("Placeholder", "Const"):
            with tf.Graph().as_default() as known:
                tf.import_graph_def(graph, name="")
                kind = known.get_tensor_by_name(full).dtype
            identity = graph.node.add(name=f"rknntui_output_{number}", op="Identity", input=[end])
            identity.attr["T"].type = kind.as_datatype_enum
            full = f"{identity.name}:0"
        seen.add(full)
        tensors.append(full)
    return graph, tuple(tensors)


def _failed(error: BaseException) -> SourceModelError:
    return SourceModelError(
        f"The graph could not be converted: {said(error)}.",
        cause="An operator is used in a way that tf2onnx does not know, or a size does not fit.",
        remedy="Give fixed sizes in 'input_size_list', or cut the graph with 'inputs' and "
        "'outputs' so that the operator is left out.",
    )


def _check(proto: Any) -> None:
    """Refuse what tf2onnx left as it was: it tells of that in a log line only."""
    _check_nodes(proto.graph)
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise _failed(error) from error


def _check_nodes(graph: Any) -> None:
    for node in graph.node:
        known = node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type, _OPSET, "")
        if not known:
            raise UnsupportedOperatorError(
                f"Node {sanitize(node.name)!r} is a {sanitize(node.op_type, 80)}, which tf2onnx "
                "does not convert as it is used here.",
                remedy="Cut the graph with 'inputs' or 'outputs' so that it is left out.",
            )
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _check_nodes(attribute.g)


def _notes(ready: Prepared) -> list[Finding]:
    quantized = sum(node.op.startswith("FakeQuant") for node in ready.graph.node)
    if not quantized:
        return []
    what = f"{quantized} FakeQuant nodes were kept as quantization parameters."
    cause = "The model was trained with quantization in mind."
    remedy = "Build with do_quantization off to use them as they are."
    return [Finding("fake-quant-kept", "info", "model", what, cause, remedy)]


# --------------------------------------------------------------------------------------- reference


DRAWS = 2
"""How many sets of inputs are compared: normal numbers, and numbers from 0 to 1."""
_SEED = 20211
_MAX_BYTES = 1 << 30


def write_reference(ready: Prepared, out: Path) -> str:
    """Run the graph in TensorFlow and write what it gives beside ``out``.

    Returns:
        Why there is nothing to compare; empty where there is.

    Raises:
        SourceModelError: TensorFlow does not take the graph.
    """
    runs: list[Run] = []
    graph = imported(ready.graph)
    try:
        with tf.compat.v1.Session(graph=graph) as session:
            for draw in range(DRAWS):
                feeds = _feeds(ready.inputs, draw)
                results = [np.asarray(r) for r in session.run(list(ready.outputs), feeds)]
                if sum(array.nbytes for array in results) > _MAX_BYTES:
                    return "Its outputs are larger than 1 GiB."
                runs.append((list(feeds.values()), results))
    except TF_ERRORS as error:
        return f"TensorFlow does not run the graph here: {said(error)}."
    save_reference(out, runs)
    return ""


def _feeds(inputs: tuple[Input, ...], draw: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(_SEED + draw)
    return {f"{one.node}:0": _random(rng, one, draw) for one in inputs}


def _random(rng: np.random.Generator, one: Input, draw: int) -> np.ndarray:
    dtype = np.dtype(one.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, one.shape).astype(bool)
    if dtype == np.uint8:
        return rng.integers(0, 256, one.shape).astype(np.uint8)
    if dtype.kind in "iu":
        # places and identifiers more often than quantities: small ones fit any table
        return rng.integers(0, 2, one.shape).astype(dtype)
    values = rng.normal(size=one.shape) if draw == 0 else rng.uniform(size=one.shape)
    return values.astype(dtype)
