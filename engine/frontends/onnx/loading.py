"""Load an ONNX file: read, clean, cut, fix sizes, convert, infer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.ends import INITIAL_FORM, unused_input
from engine.frontends.loaded import Loaded, SourceInfo, check_loaded, told_of
from engine.frontends.onnx.axes import fix_inputs, running_sizes
from engine.frontends.onnx.canonicalize import canonicalize, refuse_unsupported
from engine.frontends.onnx.contrib import complete, rewrite_for_ort, write_out
from engine.frontends.onnx.control import expand
from engine.frontends.onnx.opset import needs_rewrite, rewrite_old_operators, to_pinned_opset
from engine.frontends.onnx.read import (
    SourceFile,
    attach_mapped,
    map_external,
    read_onnx,
    told_files,
    told_opset,
)
from engine.frontends.onnx.tensors import extract_subgraph, forget_shapes, make_dense, sort_nodes
from engine.frontends.source import SourceModel
from engine.graph.ir.custom import CustomOperators, assign_custom_domain
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import IR_VERSION, OPSET
from engine.graph.ir.shapes import infer_proto
from engine.graph.ir.spec import constant_of, spec_of
from engine.graph.ir.verify import check_channels, check_proto
from engine.graph.ir.weightless import strip_weights


def load_onnx(
    path: str | os.PathLike[str],
    *,
    inputs: Sequence[str] | None = None,
    input_size_list: Sequence[Sequence[int]] | None = None,
    input_initial_val: Sequence[Any] | None = None,
    outputs: Sequence[str] | None = None,
    operators: CustomOperators | None = None,
) -> Loaded:
    """Read an ONNX file into a graph of opset 21 with fixed sizes.

    Args:
        path: the file.
        inputs: tensors that become the graph's inputs, in this order; inner ones cut the graph.
        input_size_list: a shape per input, with the batch; fixes dynamic sizes or changes fixed
            ones.
        input_initial_val: per input None, or an array, lists or the path of an npy file: such an
            input becomes a constant.
        outputs: tensors that become the graph's outputs, in this order.
        operators: custom operators that are registered; their nodes stay.

    Raises:
        SourceModelError: the file cannot be read, is damaged or something else, a name is unknown,
            or sizes do not fit.
        UnsupportedOperatorError: an operator that this version does not take; names it.
    """
    file = read_onnx(path)
    proto = file.proto
    producer = sanitize(f"{proto.producer_name} {proto.producer_version}".strip(), 100)
    info = SourceInfo("onnx", file.format, file.files, producer)
    name = file.path.name
    with told_of(name):
        canonicalize(proto)
        make_dense(proto.graph, name)
        assign_custom_domain(proto, operators)
        sort_nodes(proto.graph)
        unused = extract_subgraph(proto, inputs or None, outputs or None)
        refuse_unsupported(proto, file.opset, name, operators)
        example = partial(running_sizes, proto)
        findings = fix_inputs(proto.graph, input_size_list, input_initial_val, example)
        resolved = expand(proto.graph, file.opset, name)
        write_out(proto.graph, file.opset)
        graph = _finish(file, operators)
    check_loaded(graph, name)
    if resolved is not None:
        findings.append(_resolved(file.path.name, resolved))
    return Loaded(graph, (*findings, *_notes(file, graph, unused)), info)


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """:func:`load_onnx` of a source model with its options."""
    del reporter  # reading and converting take milliseconds; nothing here can be interrupted
    options = source.options
    return load_onnx(
        source.model,
        inputs=options.inputs,
        input_size_list=options.input_size_list,
        input_initial_val=options.input_initial_val,
        outputs=options.outputs,
        operators=options.operators,
    )


def _resolved(name: str, switches: Sequence[str]) -> Finding:
    what = "Branches, loops and sequences of the model were made a fixed list of operators."
    cause = "An NPU runs the same operators every time."
    remedy = ""
    if switches:
        named = " and ".join(repr(sanitize(switch, 60)) for switch in switches[:4])
        what += f" Both branches that {named} decides are computed each time."
        remedy = f"Give {named} a value with 'input_initial_val', and one branch is left: "
        remedy += f"{INITIAL_FORM}."
    return Finding("control-flow-resolved", "info", name, what, cause, remedy)


def _finish(file: SourceFile, operators: CustomOperators | None) -> Graph:
    proto = file.proto
    proto.ir_version = IR_VERSION
    # imports that no operator needs go
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=file.opset)
    assign_custom_domain(proto, operators)
    mapped = map_external(file.path, proto.graph)
    weights = strip_weights(proto.graph)
    declared = forget_shapes(proto.graph)
    rewrite_old_operators(proto.graph, file.opset)
    complete(proto.graph)
    check_proto(proto)
    if file.opset != OPSET:
        # adapters of old operators need the ranks of their inputs
        if needs_rewrite(proto.graph, file.opset):
            proto = infer_proto(proto, operators)
        proto = to_pinned_opset(proto, file.opset, file.path.name)
        forget_shapes(proto.graph)
        check_proto(proto)
    proto = infer_proto(proto, operators)
    if rewrite_for_ort(proto.graph, weights):
        forget_shapes(proto.graph)
        proto = infer_proto(proto, operators)
    for value in proto.graph.output:
        if not value.type.tensor_type.HasField("shape") and value.name in declared:
            value.type.CopyFrom(declared[value.name])
    proto.ClearField("producer_name")
    proto.ClearField("producer_version")
    proto.ClearField("model_version")
    graph = Graph.from_proto(proto, weights, operators=operators)
    attach_mapped(graph.model, mapped)
    graph = Graph(graph.model) if mapped else graph
    check_channels(graph.model)
    return graph


def _notes(file: SourceFile, graph: Graph, unused: Sequence[str]) -> list[Finding]:
    findings = told_files(file.path.name, [name for name, _ in file.files[1:]])
    opset = f"Upgraded from opset {file.opset} to {OPSET}."
    findings += told_opset(file.path.name, file.opset, opset)
    findings.extend(map(unused_input, unused))
    open_outputs = [spec for spec in graph.outputs if not spec.static]
    if open_outputs:
        from engine.graph.passes import with_closed_shapes

        open_outputs = [spec for spec in with_closed_shapes(graph).outputs if not spec.static]
    findings.extend(
        Finding(
            code="output-size-unknown",
            severity="warning",
            where=sanitize(spec.name),
            what=f"The size of output {sanitize(spec.name)!r} depends on the data.",
            cause="An operator such as NonZero or NonMaxSuppression decides it at run time.",
            remedy="Cut the graph before it with 'outputs'.",
        )
        for spec in open_outputs
    )
    what = "A Resize with align_corners has a scale that gives no whole size."
    cause = (
        "ONNX Runtime, which computes here, steps by the rounded size as PyTorch and TensorFlow "
        "do; ONNX's own text steps by the size before rounding."
    )
    remedy = "Export it with sizes in the place of scales."
    rounded = [sanitize(node.name or "Resize") for node in graph.nodes if _rounds(node)]
    findings += [Finding("resize-rounded", "warning", n, what, cause, remedy) for n in rounded]
    return findings


def _rounds(node: ir.Node) -> bool:
    """Whether a Resize aligns corners by scales that give no whole size."""
    mode = node.attributes.get("coordinate_transformation_mode")
    if node.op_type != "Resize" or mode is None or mode.as_string() != "align_corners":
        return False
    scales = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    source = node.inputs[0]
    if scales is None or source is None or scales.size == 0:
        return False
    spec = spec_of(source)
    exact = np.asarray(spec.shape) * scales.numpy() if spec.static else np.zeros(1)
    return not np.allclose(exact, np.round(exact), atol=1e-4)
