"""Quick answers about source models: their files are inspected, nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import EngineError, GraphError, RecipeError
from engine.base.findings import Finding
from engine.base.text import sanitize

if TYPE_CHECKING:
    import numpy as np

    from engine.frontends.onnx import SourceInspection
    from engine.frontends.source import SourceModel, SourceSummary
    from engine.pipeline.pipeline import Pipeline
    from engine.recipe import Recipe
    from engine.wire.model import GraphView, ModelView, NodeDetail

NO_SIZES = "sizes-missing"
"""Code of the finding of :func:`missing_sizes`."""

CHECKED_NODES = 2000
"""Models of at most so many nodes are loaded when they are opened (30 ms for 100 nodes on two
cores), so that every finding is there at once; of larger ones a build or ``validate`` tells the
rest. They are not loaded behind the user's back: a load holds Python's lock for a second in which
no query is answered."""

CHECKED_BYTES = 64_000_000
"""Largest model that is loaded when it is opened."""


def plain_onnx(recipe: Recipe) -> Path | None:
    """The ONNX file whose source graph a recipe means, if the file alone decides that graph.

    None for other frameworks, and where the recipe cuts the model, sets sizes, gives inputs a value
    or registers operators: then only loading tells.
    """
    from engine.frontends.sniff import sniff

    said = recipe.source
    changed = (
        *(said.inputs, said.input_size_list, said.input_initial_val, said.outputs),
        *(said.custom_ops, said.op_packages),
    )
    if said.model is None or any(option is not None for option in changed):
        return None
    path = Path(said.model)
    return path if sniff(path).kind == "onnx" else None


def source_inspection(path: Path) -> SourceInspection:
    """The inspection of an ONNX file, kept until it changes; opening and the graph view share one.

    Raises:
        SourceModelError: it cannot be read, or is damaged or something else.
    """
    from engine.frontends.onnx import inspect_file
    from engine.pipeline.fingerprints import file_fingerprint
    from engine.services.state import WORKER_STATE

    try:
        key = f"look {file_fingerprint(path)}"
    except OSError:
        return inspect_file(path)  # which tells what is wrong
    return WORKER_STATE.get_or_make(key, lambda: inspect_file(path), lambda _: path.stat().st_size)


def summary_of(source: SourceModel) -> SourceSummary:
    """What the files of a source model say, kept until they change.

    Raises:
        SourceModelError: they cannot be read, or are damaged.
    """
    from engine.frontends.load import inspect_source
    from engine.pipeline.fingerprints import file_fingerprint
    from engine.services.state import WORKER_STATE

    said = source.options
    changed = (said.inputs, said.input_size_list, said.input_initial_val, said.operators)
    if source.framework == "onnx" and all(option is None for option in changed):
        return source_inspection(source.model).summary
    try:
        stamps = [
            file_fingerprint(path) for path in (source.model, source.weights) if path is not None
        ]
    except OSError:
        return inspect_source(source)  # which tells what is wrong
    key = f"summary {stamps} {source.options}"
    return WORKER_STATE.get_or_make(
        key, lambda: inspect_source(source), lambda summary: 500 * len(summary.layers)
    )


def source_view(pipeline: Pipeline) -> ModelView:
    """The model view of a source model; it need not be loadable.

    What loading would say of it stands among the findings: an error there is why it cannot be
    built. ``loaded`` says whether the graph is there, or another program has to convert it first.
    """
    from engine.frontends.views import preflight, source_model
    from engine.pipeline.stages.graph import loads_at_once

    source = pipeline.source.model
    summary = summary_of(source)
    plain = plain_onnx(pipeline.recipe)
    if plain is not None:
        report = preflight(source, summary)
        view = replace(source_inspection(plain).model, path=str(plain), preflight=report)
    else:
        view = source_model(source, summary)
    if not loads_at_once(pipeline):
        missing = missing_sizes(source, summary)
        return replace(view, loaded=False, findings=(*missing, *view.findings))
    return replace(view, loaded=True) if _large(view, source) else _loaded(view, pipeline, plain)


def missing_sizes(source: SourceModel, summary: SourceSummary) -> tuple[Finding, ...]:
    """The finding, if there is one, that a conversion waits for sizes that only the user knows.

    A TorchScript file says no sizes that hold; those it was traced with suit as the remedy. A
    TensorFlow graph may leave open more than the batch, which a load sets to 1.
    """
    said = source.options
    if said.input_size_list is not None or not summary.inputs:
        return ()
    if source.framework == "tensorflow" and (said.inputs or said.predef_file):
        return ()  # the inputs are others, which only the conversion tells
    shapes = [tensor.shape for tensor in summary.inputs]
    known = [list(shape) for shape in shapes if shape is not None and -1 not in shape[1:]]
    if source.framework == "tensorflow" and len(known) == len(shapes):
        return ()
    names = ", ".join(sanitize(tensor.name, 60) for tensor in summary.inputs[:8])
    traced = len(known) == len(shapes) and not any(-1 in shape for shape in known)
    if traced:
        advice = f"Set input_size_list to {known}, which it was traced with, or to other sizes."
    else:
        advice = "Set input_size_list: the sizes of each input, in their order, with the batch."
    return (
        Finding(
            NO_SIZES,
            "error",
            "input_size_list",
            f"The file does not fix the sizes of its inputs ({names}), which a load needs.",
            remedy=advice,
            changes={"input_size_list": known} if traced else {},
        ),
    )


def _large(view: ModelView, source: SourceModel) -> bool:
    files = [path for path in (source.model, source.weights) if path is not None]
    size = sum(path.stat().st_size for path in files)
    return view.nodes > CHECKED_NODES or size > CHECKED_BYTES


def _loaded(view: ModelView, pipeline: Pipeline, plain: Path | None) -> ModelView:
    """The view with what a load tells of inputs, outputs and findings, or why it cannot be."""
    from engine.graph.ir import describe

    source = pipeline.source.model
    try:
        loaded = pipeline.loaded
    except EngineError as error:
        findings = view.findings
        known = any(finding.severity == "error" for finding in findings)
        if not known or isinstance(error, RecipeError):
            others = (finding for finding in findings if finding.what != error.what)
            findings = (_refused(pipeline.source.path, error), *others)
        return replace(view, loaded=False, findings=findings)
    graph = loaded.graph.graph
    facts = describe(graph)
    if plain is not None:
        look = source_inspection(plain)
        if look.open:
            look.complete(graph)
    elif source.framework == "onnx":  # the part that the recipe takes
        view = replace(
            view,
            nodes=facts.nodes,
            operators=facts.operators,
            parameters=facts.parameters,
            weights_bytes=facts.weights_bytes,
        )
    codes = {finding.code for finding in loaded.findings}
    kept = (note for note in view.findings if plain is None and note.code not in codes)
    return replace(
        view,
        loaded=True,
        inputs=facts.inputs,
        outputs=facts.outputs,
        findings=(*loaded.findings, *kept),
    )


def _refused(path: Path, error: EngineError) -> Finding:
    from engine.options import named_option

    where = named_option(f"{error.what} {error.remedy}") or path.name
    return Finding(
        "not-loadable", "error", where, error.what, cause=error.cause, remedy=error.remedy
    )


class ReadOnlyGraph:
    """The graph view of a file that is not converted, and the details of its layers.

    Args:
        graph: the graph view.
        detail: name of a layer -> its detail; raises GraphError for an unknown one.
        why: why there are no values of tensors.
    """

    def __init__(self, graph: GraphView, detail: Callable[[str], NodeDetail], why: str) -> None:
        self.graph = graph
        self._detail = detail
        self._why = why

    @classmethod
    def of_source(cls, summary: SourceSummary) -> ReadOnlyGraph:
        """Of a source model before its conversion."""
        from engine.frontends.views import layer_detail, source_graph

        return cls(
            source_graph(summary),
            lambda name: layer_detail(summary, name),
            "The model is not converted yet, or cannot be.",
        )

    def node(self, name: str) -> NodeDetail:
        """Everything that the file tells of one layer; GraphError where there is none."""
        return self._detail(name)

    def constant(self, name: str) -> np.ndarray | None:
        """Raises GraphError: there are no values here."""
        raise GraphError(
            f"The values of {sanitize(name)} are not there.",
            cause=self._why,
            remedy="Load the model; of a compiled model only types and sizes are shown.",
        )
