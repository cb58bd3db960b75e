"""What is deployed of a build: the graph in the form that options of the last stage ask for.

``float_dtype`` and ``quantize_weight`` decide about a build without quantization, then
``dynamic_input`` about its input shapes, then ``rknn_batch_size`` about the batch. Calibration and
evaluation come before and see the model as it was loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import DatasetError, QuantizationError
from engine.base.findings import Finding
from engine.base.text import shape_text
from engine.graph.execute import Session, sqnr
from engine.graph.ir import Graph
from engine.graph.passes import for_other_shapes, widen_batch

if TYPE_CHECKING:
    from engine.jobs.pipeline import Pipeline
    from engine.recipe import Recipe

__all__ = ["Deployed", "deploy"]

_COMPARED = 4
"""Samples at each further set of shapes that are compared with float."""


@dataclass(frozen=True)
class Deployed:
    """A build as it is simulated and packed.

    Attributes:
        graph: for the first set of input shapes.
        others: for the further sets of ``dynamic_input``, in their order.
        findings: what the options changed.
    """

    graph: Graph
    others: tuple[Graph, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """All of them; inputs and outputs have the same names and types."""
        return (self.graph, *self.others)


def deploy(pipeline: Pipeline, again: Callable[[Recipe], Pipeline]) -> Deployed:
    """The graphs of a pipeline whose quantized (or optimised) graph is done.

    Args:
        pipeline: of the build.
        again: a pipeline of the same source for another recipe.

    Raises:
        GraphError: the model cannot take the batch, or differs by more than sizes between shapes.
        QuantizationError: the float form that is asked for does not exist.
    """
    base = pipeline.optimised.graph.graph
    found: list[Finding] = []
    if pipeline.quantized_build:
        graph = pipeline.quantized.graph.graph
    else:
        graph, notes = _float_form(base, pipeline.recipe)
        found += notes
    others: list[Graph] = []
    for shapes in (pipeline.recipe.source.dynamic_input or ())[1:]:
        sized = again(pipeline.recipe.with_values(dynamic_input=None, input_size_list=shapes))
        other = sized.optimised.graph.graph
        others.append(for_other_shapes(graph, base, other))
        found.append(_at_shapes(others[-1], other, sized))
    size = pipeline.recipe.quantization.rknn_batch_size or 1
    if size > 1:
        found.append(_batch_note(size))
    return Deployed(
        widen_batch(graph, size), tuple(widen_batch(one, size) for one in others), tuple(found)
    )


def _float_form(graph: Graph, recipe: Recipe) -> tuple[Graph, list[Finding]]:
    """A build without quantization as a chip computes it."""
    from engine.quantize import Observations, QuantizeSettings, is_quantized_source, quantize

    part = recipe.quantization
    if is_quantized_source(graph) or (part.float_dtype != "float16" and not part.quantize_weight):
        return graph, []
    settings = QuantizeSettings(
        dtype="w8a16" if part.quantize_weight else "float16",
        granularity=part.quantized_method,
        bias_correction=False,  # there is no dataset whose mean error could be known
    )
    try:
        done = quantize(graph, Observations(0, {}), settings)
    except QuantizationError:
        if part.quantize_weight:
            raise
        return graph, []  # nothing in it computes with floats
    if not part.quantize_weight:
        return done.graph, []
    weights = [p for p in done.table.values() if p.dtype == "int8"]
    return done.graph, [
        Finding(
            "weights-quantized",
            "info",
            "quantize_weight",
            f"{len(weights)} weights are stored in 8 bits with a scale per "
            f"{part.quantized_method}; layers compute in float16 (simulated).",
            cause="quantize_weight is set in a build without quantization.",
        )
    ]


def _at_shapes(graph: Graph, golden: Graph, pipeline: Pipeline) -> Finding:
    """That a further set of shapes runs, and how near its outputs are to float's."""
    shapes = ", ".join(shape_text(spec.shape) for spec in graph.inputs)
    simulated, float_ = Session(graph), Session(golden)
    simulated.run({s.name: np.zeros(s.shape, dtype=s.dtype) for s in graph.inputs})
    how = "runs"
    if pipeline.recipe.dataset.dataset:
        try:
            errors = [
                sqnr(wanted.reshape(-1), simulated.run(feed)[name].reshape(-1))
                for feed, _ in zip(pipeline.feeds(), range(_COMPARED), strict=False)
                for name, wanted in float_.run(feed).items()
                if wanted.dtype.kind == "f"
            ]
        except DatasetError as error:
            how = f"was built; its dataset does not fit: {error.what}"
        else:
            finite = [e for e in errors if np.isfinite(e)]
            how = f"runs; its lowest SQNR is {min(finite):.1f} dB (simulated)" if finite else "runs"
    return Finding(
        "dynamic-input-shape",
        "info",
        "dynamic_input",
        f"The model {how} at {shapes}.",
        cause="It has the weights and scales of the first set of shapes, which was calibrated.",
    )


def _batch_note(size: int) -> Finding:
    return Finding(
        "batch-widened",
        "info",
        "rknn_batch_size",
        f"The model takes and gives {size} samples at once: axis 0 of inputs and outputs is "
        f"{size}.",
        cause="rknn_batch_size is set. It helps on chips with several cores.",
        remedy="Feed that many samples; take the outputs apart.",
    )
