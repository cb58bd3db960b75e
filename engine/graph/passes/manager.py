"""Passes in their order, by optimization level, until nothing changes; divisions are checked first.

The levels follow the vendor's description (RKNN-Toolkit user guide, ``optimization_level``): 3 has
everything switched on, 2 and 1 leave out what may touch the accuracy of some models, 0 has
everything switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from engine.base.errors import GraphError, JobCancelledError, PassError
from engine.base.events import LogLine, NullReporter, Reporter
from engine.base.text import sanitize
from engine.graph.ir import Graph, constant_of, infer_model, infer_shapes, spec_of, verify
from engine.graph.ir.folding import DIVISIONS, is_safe_division
from engine.graph.passes.activations import CanonicalClamps, HardActivations, HoistActivations
from engine.graph.passes.base import Pass, PassResult, shape
from engine.graph.passes.cleanup import (
    CommonSubexpressions,
    DeadCode,
    DuplicateConstants,
    NoOps,
    UnusedConstants,
)
from engine.graph.passes.editor import Editor
from engine.graph.passes.folding import ConstantNodes, ConstantSubgraphs, StaticShapes
from engine.graph.passes.layout import LayoutPropagation, TransposeChains, TransposeToReshape
from engine.graph.passes.linear import (
    CanonicalArithmetic,
    CanonicalGemm,
    FuseAffineIntoConsumer,
    FuseAffineIntoProducer,
)
from engine.graph.passes.pooling import CanonicalPooling, PadIntoWindow
from engine.graph.passes.reshaping import CanonicalReshape, CanonicalSlice, ReshapePairs

_REPEATED: tuple[type[Pass], ...] = (
    DeadCode,
    ConstantNodes,
    StaticShapes,
    NoOps,
    ConstantSubgraphs,
    CanonicalReshape,
    ReshapePairs,
    CanonicalSlice,
    CanonicalClamps,
    CanonicalPooling,
    CanonicalGemm,
    CanonicalArithmetic,
    HardActivations,
    FuseAffineIntoProducer,
    FuseAffineIntoConsumer,
    TransposeChains,
    LayoutPropagation,
    TransposeToReshape,
    PadIntoWindow,
    HoistActivations,
    CommonSubexpressions,
)

_LAST: tuple[type[Pass], ...] = (DuplicateConstants, UnusedConstants)

PASSES: tuple[type[Pass], ...] = (*_REPEATED, *_LAST)
"""Every pass, in the order in which they run."""

LEVELS = MappingProxyType({0: "as-is", 1: "clean", 2: "fused", 3: "full"})
"""Optimization level -> name of its pipeline."""


@dataclass(frozen=True)
class Pipeline:
    """Passes to run on a graph.

    Attributes:
        name: for logs.
        repeated: run in this order, again and again while one of them changes something.
        last: run once after that.
        rounds: the most rounds; each is cheap once nothing changes. A network whose sizes are
            computed (a shifted window in every block) closes them block by block, in some 30.
    """

    name: str
    repeated: tuple[type[Pass], ...]
    last: tuple[type[Pass], ...] = ()
    rounds: int = 100


PIPELINES: Mapping[int, Pipeline] = MappingProxyType(
    {
        level: Pipeline(
            name,
            tuple(cls for cls in _REPEATED if cls.level <= level),
            tuple(cls for cls in _LAST if cls.level <= level),
        )
        for level, name in LEVELS.items()
    }
)
"""Optimization level -> pipeline."""


_CLOSING = Pipeline("closed shapes", (ConstantNodes, StaticShapes, ConstantSubgraphs))


@dataclass(frozen=True)
class Optimised:
    """A graph after its passes, and what each of them did, in order."""

    graph: Graph
    log: tuple[PassResult, ...]


def optimise(graph: Graph, level: int = 3, reporter: Reporter | None = None) -> Optimised:
    """Run the passes of an optimization level on a copy of the graph.

    Args:
        graph: stays as it is. A graph with Q/DQ nodes keeps its numbers to the last bit: passes
            that round differently leave it alone.
        level: 0 to 3.
        reporter: told of each pass that changed something, asked between passes whether to stop.

    Returns:
        The graph, verified, with types and shapes; names of inputs and outputs are the source's.

    Raises:
        PassError: a pass failed or broke the graph; names it and those that ran before it.
        JobCancelledError: the reporter said so.
    """
    pipeline = PIPELINES.get(level)
    if pipeline is None:
        raise PassError(
            f"There is no optimization level {level}.", remedy="Choose a level from 0 to 3."
        )
    return run_pipeline(graph, pipeline, reporter)


def run_pipeline(graph: Graph, pipeline: Pipeline, reporter: Reporter | None = None) -> Optimised:
    """Run a pipeline on a copy of the graph; as :func:`optimise` otherwise."""
    events = reporter or NullReporter()
    model = graph.copy().model
    infer_missing(model)
    edit = Editor(model)
    repeated = [cls() for cls in pipeline.repeated if cls.keeps_bits or not edit.quantized]
    last = [cls() for cls in pipeline.last if cls.keeps_bits or not edit.quantized]
    ran: list[str] = []
    for _ in range(pipeline.rounds):
        changes = [_run_one(one, edit, ran, events) for one in repeated]
        if not any(changes):
            break
        _close_shapes(edit)
    for one in last:
        _run_one(one, edit, ran, events)
    edit.write_origins()
    done = [one.result(edit) for one in (*repeated, *last)]
    try:
        infer_missing(model)
        result = Graph(model)
        verify(result)
    except GraphError as error:
        changed = ", ".join(r.name for r in done if r.modified) or "none"
        raise PassError(
            f"The graph is not valid after the pipeline {pipeline.name!r}: {error.what}",
            cause=f"One of the passes that changed it made a mistake: {changed}.",
            remedy="Build with a lower optimization level, and report this.",
        ) from error
    for record in done:
        if record.modified:
            what = ", ".join(f"{count} x {text}" for text, count in record.counts.items())
            events.emit(LogLine(f"{record.name}: {what}", "debug"))
    return Optimised(result, tuple(done))


def with_closed_shapes(graph: Graph) -> Graph:
    """The graph with the sizes that follow from its inputs' sizes alone.

    Inference does not carry computed numbers through every operator: what a Range of a size
    writes is open until the size is a constant. A graph of known shapes, and one whose inputs are
    dynamic, is given back as it is; of others the nodes that compute constants are folded.

    Raises:
        PassError: as of :func:`optimise`.
    """
    if _closed(graph) or not all(spec.static for spec in graph.inputs):
        return graph
    inferred = infer_shapes(graph)
    return inferred if _closed(inferred) else run_pipeline(inferred, _CLOSING).graph


def _closed(graph: Graph) -> bool:
    values = (value for node in graph.nodes for value in node.outputs if value.name)
    return all(spec_of(value).static for value in values)


def _run_one(one: Pass, edit: Editor, ran: list[str], reporter: Reporter) -> bool:
    reporter.check_cancelled()
    try:
        modified = one.run(edit)
    except (JobCancelledError, MemoryError):
        raise
    except Exception as error:
        before = ", ".join(dict.fromkeys(ran)) or "none"
        raise PassError(
            f"The pass {one.name!r} failed: {sanitize(str(error) or type(error).__name__)}",
            cause=f"A mistake of this program. Passes that ran before it: {before}.",
            remedy="Build with a lower optimization level, and report this.",
        ) from error
    ran.append(one.name)
    return modified


def _close_shapes(edit: Editor) -> None:
    """Infer sizes that were open, now that what they are computed from may be a constant."""
    values = [value for node in edit.graph for value in node.outputs if value.name]
    unknown = [value for value in values if shape(value) is None]
    if not unknown:
        return
    with suppress(GraphError):  # sizes that do not fit are told when the graph runs
        infer_model(edit.model)
    for value in unknown:
        if shape(value) is not None:
            edit.requeue(value)


def infer_missing(model: ir.Model) -> None:
    """Infer types and shapes where a value lacks one; the usual case of none costs nothing."""
    if any(
        value.name and (value.type is None or value.shape is None)
        for node in model.graph
        for value in node.outputs
    ):
        infer_model(model)


# Divisions of constants that have no result, told before ONNX Runtime computes them.
#
# The smallest whole number divided by -1, or its remainder, ends the process (SIGFPE): no kernel of
# ONNX Runtime asks before it divides, and it folds constants when a session opens.

_WHOLE = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""Types of which a division can end the process; narrower ones are computed as these."""


def check_divisions(graph: Graph) -> None:
    """Refuse a graph in which two constants are divided that have no quotient.

    Raises:
        GraphError: names the node.
    """
    if not any(map(_divides, graph.model.graph)):
        return
    for node in run_pipeline(graph, _CLOSING).graph.model.graph:
        if not _divides(node):
            continue
        dividend, divisor = (constant_of(value) for value in node.inputs[:2])
        if (
            dividend is None
            or divisor is None
            or is_safe_division(dividend.numpy(), divisor.numpy())
        ):
            continue
        raise GraphError(
            f"Node {sanitize(node.name or '', 120)!r} ({node.op_type}) divides constants whose "
            "quotient does not exist: by 0, or the smallest number of the type by -1.",
            cause="The constants in the model are damaged, or were never meant to be used.",
            remedy="Correct them in the model, or cut the part off with 'outputs'.",
        )


def _divides(node: ir.Node) -> bool:
    """Whether a node divides whole numbers."""
    if node.op_type not in DIVISIONS or len(node.inputs) < 2:
        return False
    return any(value is not None and value.dtype in _WHOLE for value in node.inputs)
