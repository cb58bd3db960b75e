"""Answers of the worker about models: short, stateless, from warm caches."""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine
from engine.base.content import reading
from engine.base.errors import GraphError, RecipeError, SourceModelError, UsageError

if TYPE_CHECKING:
    from engine.frontends.onnx import SourceLook
    from engine.graph.ir import Graph
    from engine.jobs.pipeline import Pipeline
    from engine.jobs.results import LoadedModel, OptimisedGraph, QuantizedGraph
    from engine.jobs.told import ToldGraph

    Seen = SourceLook | Graph | ToldGraph

__all__ = [
    "graph",
    "layer",
    "node",
    "open_model",
    "ping",
    "sniff_file",
    "source_pairs",
    "tensor",
    "warm",
]


def _rss_mb() -> float:
    """Resident memory of this process in MB (10**6 bytes)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def ping(_params: dict[str, Any]) -> dict[str, Any]:
    """Version, process number and resident memory."""
    return {"version": engine.__version__, "pid": os.getpid(), "rss_mb": _rss_mb()}


def warm(_params: dict[str, Any]) -> dict[str, Any]:
    """Import what opening and building need, so that the first request does not wait for it."""
    import engine.frontends.onnx
    import engine.jobs.looks
    import engine.jobs.pipeline
    import engine.jobs.warm  # noqa: F401 - for the next request

    gc.collect()
    gc.freeze()  # the libraries stay for good: no collection has to look through them again
    return ping({})


def text_of(params: Mapping[str, Any], name: str) -> str:
    """A parameter that is a text.

    Raises:
        UsageError: it is missing or no text.
    """
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"The request needs {name}, a text.")
    return value


def whole_of(params: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    """A parameter that is a whole number from ``low`` to ``high``.

    Raises:
        UsageError: it is something else.
    """
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name} is a whole number from {low} to {high}.")
    return value


def sniff_file(params: dict[str, Any]) -> dict[str, Any]:
    """What a file is, by its content: kind, format, why."""
    from engine.frontends.sniff import sniff

    seen = sniff(Path(text_of(params, "path")))
    return {"kind": seen.kind, "format": seen.format, "why": seen.why}


def source_pairs(params: dict[str, Any]) -> dict[str, Any]:
    """The models that the file ``path`` may be one half of: ``pairs`` of {model, weights}."""
    from engine.frontends.source import find_pairs

    pairs = find_pairs(Path(text_of(params, "path")))
    return {"pairs": [{"model": str(main), "weights": str(other)} for main, other in pairs]}


def open_model(params: dict[str, Any]) -> dict[str, Any]:
    """The model view of a source model, a container of ours, a vendor's file, or the model that a
    recipe names.
    """
    from engine.frontends.sniff import sniff

    path = Path(text_of(params, "path"))
    kind = sniff(path).kind
    if kind == "rknn":
        return _container_view(path)
    if kind in VENDOR_KINDS:
        from engine.jobs.vendor import vendor_model

        return vendor_model(path)
    if kind == "recipe":
        from engine.recipe import load_recipe

        values = load_recipe(path).to_values()
        if "model" not in values:
            raise SourceModelError(f"{path} names no model.", remedy="Set model in the recipe.")
        return {**_source_view({"recipe": values}), "recipe": values}
    return _source_view(params)


def _source_view(params: Mapping[str, Any]) -> dict[str, Any]:
    from engine.jobs.looks import source_view
    from engine.jobs.warm import pipeline_of, recipe_of

    return source_view(pipeline_of(recipe_of(params)))


def _container_view(path: Path) -> dict[str, Any]:
    from engine.graph.ir import describe
    from engine.jobs.pack import opened, unknown_finding
    from engine.jobs.runner import does_not_run
    from engine.recipe import portable_values

    found = opened(path)
    unknown = unknown_finding(found, path)
    with reading(lambda why: does_not_run(path, why)):
        told, recipe = describe(found.graph), portable_values(found.recipe)
    summary = None
    if found.summary is not None:
        # what a file of its own cannot know of itself
        missing = {"container_bytes": found.size, "stages": [], "next_command": _simulate(path)}
        summary = {**found.summary, **missing}
    return {
        "kind": "rknn",
        "path": str(path),
        "name": path.name,
        "format": "RKNN TUI container",
        "sha256": found.sha256,
        **told,
        "findings": [] if unknown is None else [unknown.to_dict()],
        "recipe": recipe,
        "summary": summary,
    }


def _simulate(path: Path) -> str:
    return shlex.join(["rknntui", "simulate", str(path), "--input", "FILE"])


WHICH = ("source", "optimised", "quantized")
VENDOR_KINDS = ("rknn_vendor", "rknnop")


def graph_of(params: Mapping[str, Any]) -> tuple[str, Graph]:
    """(key, graph) of a request: ``path`` or ``recipe``, and ``which``.

    Raises:
        UsageError: no such graph.
    """
    asked = _asked(params)
    if isinstance(asked, tuple):
        return asked
    if not isinstance(asked, Mapping):
        raise UsageError("A compiled model of the vendor has no graph that could be used.")
    from engine.jobs.warm import pipeline_of, recipe_of

    which = params.get("which", "source")
    pipeline = pipeline_of(recipe_of(asked))
    result: LoadedModel | OptimisedGraph | QuantizedGraph
    if which == "source":
        result = pipeline.loaded
    elif which == "optimised":
        result = pipeline.optimised
    else:
        result = pipeline.quantized
    return result.key, result.graph.graph


def _asked(params: Mapping[str, Any]) -> tuple[str, Graph] | ToldGraph | Mapping[str, Any]:
    """The graph of a container or vendor's file, or the request with the recipe of its path."""
    which = params.get("which", "source")
    if which not in WHICH:
        raise UsageError(f"which is one of {', '.join(WHICH)}.")
    if params.get("recipe") is not None:
        return params
    from engine.frontends.sniff import sniff

    path = Path(text_of(params, "path"))
    kind = sniff(path).kind
    if kind == "rknn":
        from engine.jobs.pack import opened

        found = opened(path)
        if which == "quantized" and not found.quantized:
            raise UsageError(f"{path.name} is not quantized: it has no quantized graph.")
        return found.sha256, found.graph
    if kind in VENDOR_KINDS:
        from engine.jobs.vendor import vendor_graph

        return vendor_graph(path)
    if kind == "recipe":
        from engine.recipe import load_recipe

        return {"recipe": load_recipe(path).to_values()}
    return params


def _seen(params: Mapping[str, Any]) -> Seen:
    """What answers a request about a graph: a look at the files where that is enough."""
    asked = _asked(params)
    if isinstance(asked, tuple):
        return asked[1]
    if not isinstance(asked, Mapping):
        return asked
    if params.get("which", "source") == "source":
        from engine.jobs.looks import look_of, plain_onnx
        from engine.jobs.warm import pipeline_of, recipe_of

        recipe = recipe_of(asked)
        plain = plain_onnx(recipe)
        if plain is not None:
            return look_of(plain)
        return _loaded_or_told(pipeline_of(recipe))
    return graph_of(params)[1]


def _loaded_or_told(pipeline: Pipeline) -> Seen:
    """The graph, or where it cannot be had at once the layers as the files tell them."""
    from engine.jobs.looks import summary_of
    from engine.jobs.told import ToldGraph

    if pipeline.loads_at_once:
        try:
            return pipeline.loaded.graph.graph
        except (RecipeError, SourceModelError):
            pass  # a model that cannot be loaded is shown too; its view says why not
    return ToldGraph.of_source(summary_of(pipeline.source.model))


def graph(params: dict[str, Any]) -> dict[str, Any]:
    """The graph view: nodes in order, groups, inputs, outputs."""
    from engine.graph.ir import Graph, graph_view

    seen = _seen(params)
    return graph_view(seen) if isinstance(seen, Graph) else seen.graph


def node(params: dict[str, Any]) -> dict[str, Any]:
    """Everything about one node."""
    from engine.graph.ir import Graph, node_detail

    name = text_of(params, "name")
    seen = _seen(params)
    return node_detail(seen, name) if isinstance(seen, Graph) else seen.node(name)


def tensor(params: dict[str, Any]) -> dict[str, Any]:
    """Statistics of a constant tensor."""
    from engine.graph.ir import tensor_statistics

    name = text_of(params, "name")
    bins = whole_of(params, "bins", 64, 1, 4096)
    array = _seen(params).constant(name)
    if array is None:
        raise GraphError(
            f"{name} is no constant.",
            cause="It is computed from the inputs, so it has no values of its own.",
            remedy="After a build, the layer view has its values over the calibration samples.",
        )
    return tensor_statistics(array, bins, name=name)


def layer(params: dict[str, Any]) -> dict[str, Any]:
    """Histograms of one tensor over the calibration samples, float and simulated."""
    from engine.jobs.evaluate import tensor_histograms
    from engine.jobs.warm import KEPT, pipeline_of, recipe_of

    name = text_of(params, "tensor")
    bins = whole_of(params, "bins", 64, 1, 4096)
    pipeline = pipeline_of(recipe_of(params))
    key = f"layer {pipeline.quantized.key} {bins} {name}"
    found: dict[str, Any] | None = KEPT.get(key)
    if found is None:
        found = tensor_histograms(pipeline, name, bins)
        KEPT.put(key, found)
    return found
