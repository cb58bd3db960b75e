"""What is deployed of a build: the graph in the form that options of the last stage ask for.

``float_dtype`` and ``quantize_weight`` decide about a build without quantization, then
``dynamic_input`` about its input shapes, then ``rknn_batch_size`` about the batch. Calibration and
evaluation come before and see the model as it was loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import DatasetError, QuantizationError
from engine.base.findings import Finding
from engine.base.text import shape_text
from engine.pipeline.pipeline import Pipeline, Stage
from engine.pipeline.results import Deployed
from engine.report import sqnr_rank, sqnr_text

if TYPE_CHECKING:
    from engine.graph.ir import Graph
    from engine.recipe import Recipe

_COMPARED = 4
"""Samples at each further set of shapes that are compared with float."""


def _deploy(pipeline: Pipeline, _key: str) -> Deployed:
    """The graphs of a pipeline whose quantized (or optimised) graph is done.

    Raises:
        GraphError: the model cannot take the batch, or differs by more than sizes between shapes.
        QuantizationError: the float form that is asked for does not exist.
    """
    from engine.graph.passes import rebind_input_shapes, set_batch_size

    base = pipeline.optimised.graph.graph
    findings: list[Finding] = []
    if pipeline.quantized_build:
        graph = pipeline.quantized.graph.graph
    else:
        graph, notes = _float_form(base, pipeline.recipe)
        findings += notes
    others: list[Graph] = []
    for shapes in (pipeline.recipe.source.dynamic_input or ())[1:]:
        sized = pipeline.with_recipe(
            pipeline.recipe.with_values(dynamic_input=None, input_size_list=shapes)
        )
        other = sized.optimised.graph.graph
        others.append(rebind_input_shapes(graph, base, other))
        findings.append(_at_shapes(others[-1], other, sized))
    size = pipeline.recipe.quantization.rknn_batch_size or 1
    if size > 1:
        findings.append(_batch_note(size))
    return Deployed(
        set_batch_size(graph, size),
        tuple(set_batch_size(one, size) for one in others),
        tuple(findings),
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
    from engine.graph.execute import Session
    from engine.graph.metrics import sqnr

    shapes = ", ".join(shape_text(spec.shape) for spec in graph.inputs)
    simulated, float_ = Session(graph), Session(golden)
    simulated.run({s.name: np.zeros(s.shape, dtype=s.dtype) for s in graph.inputs})
    how = "runs"
    if pipeline.recipe.dataset.dataset:
        try:
            errors = [
                sqnr_rank(sqnr(expected.reshape(-1), simulated.run(feed)[name].reshape(-1)))
                for feed, _ in zip(pipeline.feeds(), range(_COMPARED), strict=False)
                for name, expected in float_.run(feed).items()
                if expected.dtype.kind == "f"
            ]
        except DatasetError as error:
            how = f"was built; its dataset does not fit: {error.what}"
        else:
            lowest = min(errors, default=math.inf)
            if lowest < math.inf:
                how = f"runs; its lowest SQNR is {sqnr_text(lowest, digits=1)} (simulated)"
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
        f"The model has batch size {size}: axis 0 of inputs and outputs is {size}.",
        cause="rknn_batch_size is set. It helps on chips with several cores.",
        remedy="Feed that many samples and split the outputs.",
    )


def _findings(pipeline: Pipeline) -> Iterator[Finding]:
    from engine.simulate import Simulator

    if not pipeline.quantized_build:
        float_dtype = pipeline.recipe.quantization.float_dtype
        graph = pipeline.optimised.graph.graph
        yield from Simulator(graph, float_dtype=float_dtype).findings
    yield from pipeline.deployed.findings


DEPLOY: Stage[Deployed] = Stage(
    name="deploy",
    run=_deploy,
    inputs=("quantize",),
    options="container",
    findings=_findings,
)
