"""The float graph of a source model, loaded, then after the passes of its optimization level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.base.errors import EngineError
from engine.base.findings import Finding
from engine.base.plain import JsonObject
from engine.pipeline.fingerprints import digest_of
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import GraphData, LoadedModel, OptimisedGraph, PassNote
from engine.pipeline.source import CONVERTED
from engine.pipeline.trusted_code import note_of
from engine.recipe import applicability_findings

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded


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


# The first stage: a source model becomes a graph.


def loads_at_once(pipeline: Pipeline) -> bool:
    """Whether the graph is there in milliseconds: no other program has to convert it first."""
    return pipeline.source.model.framework not in CONVERTED or pipeline.has("load")


def _load(pipeline: Pipeline, key: str) -> LoadedModel:
    loaded = _read(pipeline)
    return LoadedModel(key, GraphData(loaded.graph), loaded.source, loaded.findings)


def _read(pipeline: Pipeline) -> Loaded:
    from engine.frontends.load import load_source

    return load_source(pipeline.source.model, pipeline.reporter)


def _from_files(pipeline: Pipeline, key: str, files: Mapping[str, bytes]) -> LoadedModel:
    def again() -> Any:
        return _read(pipeline).graph

    return LoadedModel.from_files(key, files, again, pipeline.source.operators)


def _contents(pipeline: Pipeline) -> JsonObject:
    # every stage asks for this key: none gives results of code that may not run
    _ = pipeline.source.operators
    return pipeline.source.contents()


def _is_valid(pipeline: Pipeline, loaded: LoadedModel) -> bool:
    """Whether external data of the model is what it was; what else it has is in the key."""
    if loaded.source.framework != "onnx":
        return True
    folder = pipeline.source.path.parent
    try:
        return all(digest_of(folder / name) == sha for name, sha in loaded.source.files[1:])
    except EngineError:
        return False


LOAD: Stage[LoadedModel] = Stage(
    name="load",
    title="Load the model",
    run=_load,
    codec=Codec(LoadedModel.to_files, _from_files),
    version=3,  # the source is told by its format alone
    contents=_contents,
    facts=lambda pipeline: pipeline.source.extra(),
    is_valid=_is_valid,
    weight=lambda pipeline: pipeline.source.path.stat().st_size,
    findings=lambda pipeline: pipeline.loaded.findings,
)
