"""Answers of the worker about models: short, stateless, from warm caches."""

from __future__ import annotations

import gc
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import GraphError, RecipeError, SourceModelError, UsageError
from engine.base.findings import Finding
from engine.base.version import __version__
from engine.build import BuildSummary
from engine.services.registry import answers
from engine.wire.codec import typed
from engine.wire.method import Nothing
from engine.wire.model import (
    GRAPH,
    LAYER,
    NODE,
    OPEN,
    PAIRS,
    PING,
    SNIFF,
    TENSOR,
    WARM,
    FileKind,
    GraphParams,
    GraphView,
    LayerParams,
    LayerSpread,
    ModelView,
    NodeDetail,
    NodeParams,
    Pair,
    Pairs,
    TensorParams,
    TensorStatistics,
    WorkerFacts,
)
from engine.wire.names import VENDOR_KINDS
from engine.wire.requests import AtPath, ModelTarget
from engine.wire.segments import Segment

if TYPE_CHECKING:
    from engine.container import Container
    from engine.frontends.onnx import SourceInspection
    from engine.graph.ir import Graph
    from engine.pipeline.pipeline import Pipeline
    from engine.services.source_info import ReadOnlyGraph

    Seen = SourceInspection | Graph | ReadOnlyGraph


def _rss_mb() -> float:
    """Resident memory of this process in MB (10**6 bytes)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


@answers(PING)
def ping(_params: Nothing) -> WorkerFacts:
    """Version, process number and resident memory."""
    return WorkerFacts(__version__, os.getpid(), _rss_mb())


@answers(WARM)
def warm(params: Nothing) -> WorkerFacts:
    """Import what opening and building need, so that the first request does not wait for it."""
    import engine.frontends.onnx
    import engine.pipeline.pipeline
    import engine.services.source_info
    import engine.services.state  # noqa: F401 - for the next request

    gc.collect()
    gc.freeze()  # the libraries stay for good: no collection has to look through them again
    return ping.function(params)


@answers(SNIFF)
def sniff(params: AtPath) -> FileKind:
    """What a file is, by its content."""
    from engine.frontends.sniff import sniff

    seen = sniff(Path(params.path))
    return FileKind(seen.kind, seen.format, seen.why)


@answers(PAIRS)
def pairs(params: AtPath) -> Pairs:
    """The models that a file may be one half of."""
    from engine.frontends.load import find_pairs

    pairs = find_pairs(Path(params.path))
    return Pairs(tuple(Pair(str(main), str(other)) for main, other in pairs))


@answers(OPEN)
def open(params: ModelTarget) -> ModelView:  # noqa: A001 - the word of the protocol
    """The model view of a source model, a container of ours, a vendor's file, or the model that a
    recipe names.
    """
    from engine.frontends.sniff import sniff

    path = _path_of(params)
    kind = sniff(path).kind
    if kind == "rknn":
        return _container_view(path)
    if kind in VENDOR_KINDS:
        from engine.services.vendor_files import vendor_model

        return vendor_model(path)
    if kind == "recipe":
        from engine.recipe import load_recipe

        values = load_recipe(path).to_values()
        if "model" not in values:
            raise SourceModelError(
                f"{path} is a recipe that names no model.",
                remedy="Write `source: {model: FILE}` in it, or open the model itself.",
            )
        return replace(_source_view(ModelTarget(recipe=values)), recipe=values)
    return _source_view(params)


def _path_of(params: ModelTarget) -> Path:
    if not params.path:
        raise UsageError("The request needs path, a text.")
    return Path(params.path)


def _source_view(params: ModelTarget) -> ModelView:
    from engine.services.source_info import source_view
    from engine.services.state import get_pipeline, recipe_at

    return source_view(get_pipeline(recipe_at(params)))


def _container_view(path: Path) -> ModelView:
    from engine.graph.ir import describe
    from engine.pipeline.runner import does_not_run, load_packed, unknown_finding
    from engine.recipe import portable_values

    container = load_packed(path)
    unknown = unknown_finding(container, path)
    with reading(lambda why: does_not_run(path, why)):
        description, recipe = describe(container.graph), portable_values(container.recipe)
    summary, unread = _summary_of(container, path)
    return ModelView(
        kind="rknn",
        path=str(path),
        name=path.name,
        format=_format_of(container),
        sha256=container.sha256,
        **vars(description),
        findings=tuple(finding for finding in (unknown, unread) if finding is not None),
        recipe=recipe,
        summary=summary,
        segments=_segments_of(container),
    )


def _segments_of(container: Container) -> tuple[Segment, ...] | None:
    if not container.segments:
        return None
    from engine.export.segments import segments_of, segments_told

    return segments_told(container, segments_of(container))


def _format_of(container: Container) -> str:
    level = container.encryption_level
    return "RKNN TUI container" + ("" if level is None else f", encrypted (level {level})")


def _summary_of(container: Container, path: Path) -> tuple[BuildSummary | None, Finding | None]:
    """The summary of a container's build, or what to tell of one that is not as it should be."""
    if container.summary is None:
        return None, None
    # what a file of its own cannot know of itself
    missing = {"container_bytes": container.size, "stages": [], "next_command": _simulate(path)}
    try:
        return typed(BuildSummary, {**container.summary, **missing}), None
    except TypeError:
        what = "The summary of the build in this file cannot be read."
        cause = "Another version or another program wrote it."
        remedy = "Build its model again where you need the summary; the file runs without it."
        finding = Finding("container-summary-unread", "warning", path.name, what, cause, remedy)
        return None, finding


def _simulate(path: Path) -> str:
    return shlex.join(["rknntui", "simulate", str(path), "--input", "FILE"])


def _asked(params: GraphParams) -> Graph | ReadOnlyGraph | ModelTarget:
    """The graph of a container or vendor's file, or the request with the recipe of its path."""
    if params.recipe is not None:
        return params
    from engine.frontends.sniff import sniff

    path = _path_of(params)
    kind = sniff(path).kind
    if kind == "rknn":
        from engine.pipeline.runner import load_packed

        container = load_packed(path)
        if params.which == "quantized" and not container.quantized:
            raise UsageError(f"{path.name} is not quantized: it has no quantized graph.")
        return container.graph
    if kind in VENDOR_KINDS:
        from engine.services.vendor_files import vendor_graph

        return vendor_graph(path)
    if kind == "recipe":
        from engine.recipe import load_recipe

        return ModelTarget(recipe=load_recipe(path).to_values())
    return params


def _seen(params: GraphParams) -> Seen:
    """What answers a request about a graph: a look at the files where that is enough."""
    asked = _asked(params)
    if not isinstance(asked, ModelTarget):
        return asked
    from engine.services.source_info import plain_onnx, source_inspection
    from engine.services.state import get_pipeline, recipe_at

    recipe = recipe_at(asked)
    if params.which == "source":
        plain = plain_onnx(recipe)
        return _loaded_or_told(get_pipeline(recipe)) if plain is None else source_inspection(plain)
    pipeline = get_pipeline(recipe)
    result = pipeline.optimised if params.which == "optimised" else pipeline.quantized
    return result.graph.graph


def _loaded_or_told(pipeline: Pipeline) -> Seen:
    """The graph, or where it cannot be had at once the layers as the files tell them."""
    from engine.pipeline.stages.graph import loads_at_once
    from engine.services.source_info import ReadOnlyGraph, summary_of

    if loads_at_once(pipeline):
        try:
            return pipeline.loaded.graph.graph
        except (RecipeError, SourceModelError):
            pass  # a model that cannot be loaded is shown too; its view says why not
    return ReadOnlyGraph.of_source(summary_of(pipeline.source.model))


@answers(GRAPH)
def graph(params: GraphParams) -> GraphView:
    """The graph view: nodes in order, groups, inputs, outputs."""
    from engine.graph.ir import Graph, graph_view

    seen = _seen(params)
    return graph_view(seen) if isinstance(seen, Graph) else seen.graph


@answers(NODE)
def node(params: NodeParams) -> NodeDetail:
    """Everything about one node."""
    from engine.graph.ir import Graph, node_detail

    seen, name = _seen(params), params.name
    return node_detail(seen, name) if isinstance(seen, Graph) else seen.node(name)


@answers(TENSOR)
def tensor(params: TensorParams) -> TensorStatistics:
    """Statistics of a constant tensor."""
    from engine.graph.ir import tensor_statistics

    array = _seen(params).constant(params.name)
    if array is None:
        raise GraphError(
            f"{params.name} is not a constant.",
            cause="It is computed from the inputs, so it has no stored values.",
            remedy="After a build, the layer view has its values over the calibration samples.",
        )
    return tensor_statistics(array, params.bins, name=params.name)


@answers(LAYER)
def layer(params: LayerParams) -> LayerSpread:
    """Histograms of one tensor over the calibration samples, float and simulated."""
    from engine.accuracy.histograms import tensor_histograms
    from engine.pipeline.layers import quantized_of
    from engine.services.state import WORKER_STATE, get_pipeline, recipe_at

    pipeline = get_pipeline(recipe_at(params))
    key = f"layer {pipeline.quantized.key} {params.bins} {params.tensor}"
    return WORKER_STATE.get_or_make(
        key,
        lambda: tensor_histograms(
            quantized_of(pipeline), pipeline.feeds, params.tensor, params.bins
        ),
    )
