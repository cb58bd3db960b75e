"""The float graph after the passes of its optimization level."""

from __future__ import annotations

from collections.abc import Iterator

from engine.base.findings import Finding
from engine.pipeline.operators import note_of
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import GraphData, OptimisedGraph, PassNote
from engine.recipe import applicability_findings


def _optimise(pipeline: Pipeline, key: str) -> OptimisedGraph:
    from engine.graph.passes import apply_requested, optimise

    options = pipeline.recipe.quantization
    graph = pipeline.loaded.graph.graph
    done = optimise(graph, options.optimization_level, pipeline.reporter)
    requested = apply_requested(
        done.graph,
        model_pruning=options.model_pruning,
        remove_reshape=options.remove_reshape,
        reporter=pipeline.reporter,
    )
    log = tuple(PassNote(r.name, int(r.modified)) for r in (*done.log, *requested.log))
    return OptimisedGraph(key, GraphData(requested.graph), log, requested.findings)


def _findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Those of the passes, of options that change nothing, and of the inputs."""
    from engine.dataset import Preprocess

    yield from pipeline.optimised.findings
    yield from applicability_findings(pipeline.recipe)
    graph = pipeline.optimised.graph.graph
    preprocess = Preprocess.from_recipe(pipeline.recipe, pipeline.generation)
    yield from preprocess.notes(graph.inputs)
    custom = note_of(graph)
    if custom is not None:
        yield custom


OPTIMISE: Stage[OptimisedGraph] = Stage(
    name="optimise",
    title="Optimise the graph",
    run=_optimise,
    inputs=("load",),
    codec=Codec(
        OptimisedGraph.to_files,
        lambda pipeline, key, files: OptimisedGraph.from_files(
            key, files, pipeline.source.operators
        ),
    ),
    findings=_findings,
)
