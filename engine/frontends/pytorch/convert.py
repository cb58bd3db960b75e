"""TorchScript to a graph: torch converts it in a child process, the result is compared here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import EngineError, SourceModelError
from engine.base.events import Reporter
from engine.base.findings import EXTERNAL_WEIGHTS, Finding
from engine.base.peers.far import Message
from engine.base.text import sanitize
from engine.frontends import converter_process
from engine.frontends.loaded import Loaded, SourceInfo
from engine.frontends.numeric_check import NumericCheck, compare_outputs, load_reference
from engine.frontends.onnx import load_onnx
from engine.frontends.pytorch.inspect import traced_inputs
from engine.frontends.pytorch.pickles import Archive
from engine.frontends.pytorch.screen import screen
from engine.frontends.source import LoadOptions, SourceModel
from engine.graph.execute.session import Session
from engine.graph.ir.graph import Graph
from engine.graph.ir.shapes import infer_shapes
from engine.graph.ir.spec import spec_of
from engine.graph.passes.folding import ConstantNodes, ConstantSubgraphs, StaticShapes
from engine.graph.passes.manager import Pipeline, run_pipeline

_SECONDS = 60.0
_SECONDS_PER_MIB = 3.0
_SECONDS_PER_MIB_OF_INPUT = 6.0
_GROWTH = 1 << 30
# ViT-B/16, 330 MiB, takes 12 bytes a byte; its feature maps 100 a byte of its input
_GROWTH_PER_BYTE = 32
_GROWTH_PER_BYTE_OF_INPUT = 256
_MAX_ELEMENTS = 1 << 28
_OWN_BUSINESS = ("opset-converted", EXTERNAL_WEIGHTS)
# findings about the file in between, which no user has
_UNKNOWN = "output-size-unknown"
_SIZES = Pipeline("sizes", (ConstantNodes, StaticShapes, ConstantSubgraphs))


def convert(source: SourceModel, reporter: Reporter) -> Loaded:
    """Convert a TorchScript file.

    The graph's inputs are the tensors that ``forward`` takes, by their names; its outputs are
    ``output``, ``output0`` and so on, or the keys of the dictionary that ``forward`` gives.

    Raises:
        SourceModelError: damaged, without or with wrong sizes, or its numbers come out different.
        UnsupportedOperatorError: it names an operator that is not on the list of those that only
            compute; or torch's exporters or the graph do not have one of it.
        WorkerError: torch crashed, or took too long or too much memory.
    """
    converter_process.require("pytorch")
    with Archive(source.model) as archive:
        archive.check()
        screen(source.model.name, archive.records.items(), archive.read)
        traced = traced_inputs(archive)
        digest = archive.digest()
    options = source.options
    sizes = _sizes(options)
    request = {
        "model": str(source.model.resolve()),
        "sizes": sizes,
        "traced": traced,
        "route": options.pytorch_route,
    }
    seconds, growth = _limits(source.model.stat().st_size, sizes or ())
    with converter_process.convert(
        "pytorch", request, reporter, seconds=seconds, growth=growth, reads=[source.model]
    ) as (path, answer):
        loaded = _graph(path, source, LoadOptions())
        _compare(loaded.graph, path, answer, source.model.name)
        if (options.inputs, options.outputs, options.input_initial_val) != (None, None, None):
            loaded = _graph(path, source, options)
    words = f"TorchScript, by way of {answer['route']}"
    info = SourceInfo("pytorch", words, ((source.model.name, digest),), "PyTorch")
    findings = [Finding.from_dict(finding) for finding in answer["findings"]]
    notes = [finding for finding in loaded.findings if finding.code not in _OWN_BUSINESS]
    return Loaded(loaded.graph, (*findings, *notes), info)


def _limits(size: int, inputs: Sequence[Sequence[int]]) -> tuple[float, int]:
    """(seconds, bytes of memory) that a file of ``size`` bytes may take.

    Sizes of inputs are the user's, and feature maps grow with them; a small file with small inputs
    has no reason to take more than the first of each sum.
    """
    elements = 4 * min(_MAX_ELEMENTS, sum(math.prod(max(0, n) for n in one) for one in inputs))
    seconds = _SECONDS + (_SECONDS_PER_MIB * size + _SECONDS_PER_MIB_OF_INPUT * elements) / (
        1 << 20
    )
    return seconds, _GROWTH + _GROWTH_PER_BYTE * size + _GROWTH_PER_BYTE_OF_INPUT * elements


def _sizes(options: LoadOptions) -> list[list[int]] | None:
    """The sizes as the child takes them, whatever kind of whole numbers they were given as."""
    given = options.input_size_list
    try:
        return None if given is None else [[int(number) for number in size] for size in given]
    except (TypeError, ValueError) as error:
        raise SourceModelError(
            "'input_size_list' has an entry that is not a list of whole numbers.",
            remedy="Write it as [[1, 3, 224, 224]].",
        ) from error


def _graph(path: Path, source: SourceModel, options: LoadOptions) -> Loaded:
    """The file that torch wrote, as a graph; cut and with constants where ``options`` ask."""
    try:
        loaded = load_onnx(
            path,
            inputs=options.inputs,
            input_initial_val=options.input_initial_val,
            outputs=options.outputs,
        )
        return _sized(loaded)
    except EngineError as error:
        name = sanitize(source.model.name)
        raise type(error)(
            error.what.replace(path.name, name), cause=error.cause, remedy=error.remedy
        ) from error


def _sized(loaded: Loaded) -> Loaded:
    """With the sizes that torch's exporters compute by nodes, where nothing but sizes go in."""
    if all(spec.static for node in loaded.graph.nodes for spec in map(spec_of, node.outputs)):
        return loaded
    graph = infer_shapes(run_pipeline(loaded.graph, _SIZES).graph, refresh=True)
    known = {spec.name for spec in graph.outputs if spec.static}
    kept = [f for f in loaded.findings if f.code != _UNKNOWN or f.where not in known]
    return replace(loaded, graph=graph, findings=tuple(kept))


def _compare(graph: Graph, path: Path, answer: Message, name: str) -> None:
    """Refuse a graph that does not give what torch gave for the same inputs."""
    session, worst = Session(graph), NumericCheck()
    known = {spec.name for spec in session.inputs}
    for inputs, outputs in load_reference(path):
        named = zip(answer["inputs"], inputs, strict=True)
        results = session.run({name: array for name, array in named if name in known})
        arrays = [results[name] for name in answer["outputs"]]
        worst = worst.worse(compare_outputs(outputs, arrays))
    if not worst.within(answer["tolerance"]):
        raise SourceModelError(
            f"{sanitize(name)} comes out different from what PyTorch computes"
            + (f": {worst.misfit}." if worst.misfit else f" by {worst.error:.1e} of its range."),
            cause="A rewrite of this program, or ONNX Runtime, treats an operator otherwise.",
            remedy="Report it; load with the other pytorch_route (script or export) meanwhile.",
        )
