"""A frozen graph, looked at without TensorFlow, and as one of ours.

To be loaded it is converted in a child, loaded as ONNX, and held against TensorFlow's own numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base.errors import SimulationError, SourceModelError, UnsupportedOperatorError
from engine.base.events import Reporter
from engine.base.files import sha256_of
from engine.base.findings import EXTERNAL_WEIGHTS, Finding
from engine.base.peers.far import Message
from engine.base.text import sanitize
from engine.frontends import converter_process
from engine.frontends.ends import require_entries
from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.numeric_check import NumericCheck, compare_outputs, load_reference
from engine.frontends.onnx import load_onnx
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor
from engine.frontends.tensorflow.graphdef import GraphFile, Node, read_graph, tensor_of
from engine.frontends.tensorflow.selection import (
    CONTROL_FLOW,
    Selection,
    candidates,
    needed,
    read_predef,
    refused,
    select,
)
from engine.graph.execute.session import Session
from engine.graph.ir.graph import Graph
from engine.graph.metrics import error_sums

# Inspects a frozen graph without TensorFlow.

_READ = "up to 2 GiB; written by TensorFlow 1 or 2"


def inspect(source: SourceModel) -> SourceSummary:
    """The graph's nodes, where it may begin and end, and what a load will refuse.

    Raises:
        SourceModelError: it cannot be read or is damaged.
    """
    graph = read_graph(source.model)
    findings: list[Finding] = []
    suited = candidates(graph)
    try:
        constants = read_predef(source.options.predef_file) if source.options.predef_file else {}
        selection = select(graph, source.options, constants)
    except SourceModelError as error:
        findings.append(Finding.of_error("name-unknown", "inputs and outputs", error))
        selection = Selection(*suited, frozenset(needed(graph, suited[1], suited[0])))
    why = refused(graph, selection)
    findings.extend(
        Finding("operator-refused", "error", sanitize(name), f"{op}: {reason}")
        for name, (op, reason) in why.items()
    )
    if any(graph.nodes[n].op in CONTROL_FLOW for n in selection.nodes if n in graph.nodes):
        what = (
            "Its loops and branches were lowered when it was frozen. They are written out where "
            "their conditions are constant, and refused where the data decide."
        )
        name = sanitize(source.model.name)
        findings.append(Finding("control-flow-unrolled", "info", name, what))
    constants_held = [node for node in graph.nodes.values() if node.op == "Const"]
    weights = [node for node in constants_held if node.dtype.startswith(("float", "bfloat"))]
    return SourceSummary(
        framework="tensorflow",
        format=format_of(graph),
        version=(("GraphDef producer", str(graph.producer or "not specified"), _READ),),
        files=((source.model.name, sha256_of(source.model)),),
        inputs=tuple(_tensor(graph, name) for name in selection.inputs),
        outputs=tuple(_tensor(graph, name) for name in selection.outputs),
        layers=tuple(_layer(node, why) for node in graph.nodes.values()),
        candidates=suited,
        findings=tuple(findings),
        parameters=sum(math.prod(node.shape or ()) for node in weights),
        weights_bytes=sum(node.bytes for node in weights),
    )


def format_of(graph: GraphFile) -> str:
    """The file in words."""
    producer = f", version {graph.producer}" if graph.producer else ""
    return f"TensorFlow frozen graph (GraphDef{producer})"


def _tensor(graph: GraphFile, name: str) -> SourceTensor:
    node = graph.nodes[tensor_of(name)[0]]
    known = node.op.startswith("Placeholder")
    return SourceTensor(name, node.shape if known else None, node.dtype)


def _layer(node: Node, why: dict[str, tuple[str, str]]) -> SourceLayer:
    op, reason = why.get(node.name, ("", ""))
    return SourceLayer(
        name=node.name,
        op=op or node.op,
        inputs=node.inputs,
        outputs=tuple(f"{node.name}:{i}" for i in range(min(node.outputs, 64))),
        attributes=tuple(node.attributes.items()),
        shape=node.shape,
        dtype=node.dtype,
        refused=reason,
    )


TOLERANCE = 1e-4
"""How far outputs may be from TensorFlow's, times their largest magnitude."""

FAKE_QUANT_SHARE = 0.02
"""With FakeQuant a value on the edge of two steps may go either way, so what is bounded is the root
mean square of the difference, divided by that of the output."""

_SECONDS = 60.0
_SECONDS_PER_MIB = 3.0
_GROWTH = 1 << 30
# ResNet-50, 100 MiB, takes 36 bytes a byte
_GROWTH_PER_BYTE = 64
_SHOWN = 3


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """The graph of a frozen GraphDef.

    Args:
        source: the file, and the options ``inputs``, ``input_size_list``, ``outputs``,
            ``predef_file`` and ``input_is_nchw``. Inputs and outputs are nodes (``x``) or tensors
            (``x:0``); without them the candidates of :func:`inspect` are taken.
        reporter: asked whether to stop; then the child is ended.

    Returns:
        A graph with the inputs ``x:0`` as TensorFlow has them (NHWC; NCHW with ``input_is_nchw``
        where they have four axes).

    Raises:
        SourceModelError: damaged, names or sizes that do not fit, TensorFlow not installed, or
            numbers that are not TensorFlow's.
        UnsupportedOperatorError: names the operator and the node.
        WorkerError: TensorFlow's process died.
    """
    graph = read_graph(source.model)
    options = source.options
    constants = read_predef(options.predef_file) if options.predef_file else {}
    selection = select(graph, options, constants)
    _refuse(graph, selection)
    sizes = options.input_size_list
    require_entries(selection.inputs, sizes, "input_size_list")
    request = {
        "path": str(source.model.resolve()),
        "inputs": selection.inputs,
        "outputs": selection.outputs,
        "sizes": sizes,
        "predef": str(options.predef_file.resolve()) if options.predef_file else None,
        "nchw": options.input_is_nchw,
    }
    size = source.model.stat().st_size
    with converter_process.convert(
        "tensorflow",
        request,
        reporter,
        seconds=_SECONDS + _SECONDS_PER_MIB * (size >> 20),
        growth=_GROWTH + _GROWTH_PER_BYTE * size,
        reads=[source.model, *([options.predef_file] if options.predef_file else [])],
    ) as (path, answer):
        loaded = load_onnx(path)
        findings = [Finding.from_dict(f) for f in answer["findings"]]
        quantized = any(f.code == "fake-quant-kept" for f in findings)
        nchw = options.input_is_nchw
        findings.append(_compared(loaded.graph, path, answer, nchw=nchw, quantized=quantized))
    kept = [f for f in loaded.findings if f.code not in ("opset-converted", EXTERNAL_WEIGHTS)]
    files = ((source.model.name, sha256_of(source.model)),)
    producer = f"TensorFlow (GraphDef {graph.producer})" if graph.producer else "TensorFlow"
    info = SourceInfo("tensorflow", format_of(graph), files, producer)
    return replace(loaded, findings=(*findings, *kept), source=info)


def _refuse(graph: GraphFile, selection: Selection) -> None:
    why = refused(graph, selection)
    if not why:
        return
    name, (op, reason) = next(iter(why.items()))
    others = sorted({other for other, _ in why.values()} - {op})
    more = f" (and {', '.join(others[:_SHOWN])})" if others else ""
    raise UnsupportedOperatorError(
        f"Node {sanitize(name)!r} is a {op}{more}: {reason}",
        remedy="Cut the model before it (outputs), or export the model to ONNX.",
    )


def _compared(graph: Graph, path: Path, answer: Message, *, nchw: bool, quantized: bool) -> Finding:
    """Hold the graph against TensorFlow's own results.

    Raises:
        SourceModelError: they differ.
    """
    if answer["compared"]:
        what = "The converted graph could not be compared with TensorFlow's own results."
        remedy = "Compare its outputs with yours before you build on them."
        cause = answer["compared"]
        return Finding("numbers-not-compared", "warning", "model", what, cause, remedy)
    # nothing of the graph is rewritten: what differs is what the conversion did
    session = Session(graph, level="disabled", lower=False)
    worst = 0.0
    for inputs, outputs in load_reference(path):
        feeds = {
            spec.name: _turned(array, nchw=nchw)
            for spec, array in zip(graph.inputs, inputs, strict=True)
        }
        try:
            results = session.run(feeds)
        except SimulationError as error:
            raise _not_equal(f"it does not run: {error.what}") from error
        for (name, result), expected in zip(results.items(), outputs, strict=True):
            worst = max(worst, _difference(name, expected, result, quantized=quantized))
    told = f"On random inputs the graph's outputs are TensorFlow's within {worst:.1e}"
    told += " (root mean square; FakeQuant)." if quantized else "."
    return Finding("numbers-compared", "info", "model", told)


def _turned(array: np.ndarray, *, nchw: bool) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if nchw and array.ndim == 4 else array


def _difference(name: str, expected: np.ndarray, result: np.ndarray, *, quantized: bool) -> float:
    """How far an output is from TensorFlow's, as :data:`TOLERANCE` or its sister measures it."""
    if quantized and expected.dtype.kind == "f" and expected.shape == result.shape:
        share = math.sqrt(error_sums(expected, result)[0].share)
        if not share <= FAKE_QUANT_SHARE:
            raise _not_equal(f"output {sanitize(name)!r} differs by {share:.1%} of its energy")
        return share
    apart: NumericCheck = compare_outputs([expected], [result])
    if apart.within(TOLERANCE) or (quantized and not apart.misfit):
        return apart.error
    if apart.misfit:
        raise _not_equal(f"of {sanitize(name)!r}, {apart.misfit}")
    raise _not_equal(
        f"output {sanitize(name)!r} differs by {apart.error:.3g} of its largest value"
        if apart.error > TOLERANCE
        else f"{apart.flipped:.1%} of output {sanitize(name)!r} differ"
    )


def _not_equal(how: str) -> SourceModelError:
    return SourceModelError(
        f"The converted graph does not compute what TensorFlow computes: {how}.",
        cause="An operator was converted wrongly, or the graph is chaotic on random inputs.",
        remedy="Cut the graph with 'outputs' to find the operator, and report it.",
    )
