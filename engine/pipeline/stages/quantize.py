"""The quantized graph and its quant table, out of the float graph and what calibration saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.base.errors import QuantizationError, ShortOfMemoryError, SimulationError
from engine.base.findings import Finding
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.pipeline.layers import find_all_range_mismatches, quantize_settings
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import GraphData, QuantizedGraph

if TYPE_CHECKING:
    from engine.quantize import Quantized, QuantizeSettings

__all__ = ["QUANTIZE", "is_covered"]

_UNCOVERED = "coverage-unknown"


def _quantize(pipeline: Pipeline, key: str) -> QuantizedGraph:
    from engine.quantize import quantize
    from engine.simulate import integer_coverage

    optimised = pipeline.optimised.graph.graph

    def run(settings: QuantizeSettings) -> Quantized:
        return quantize(
            optimised,
            pipeline.calibration.observations,
            settings,
            feeds=pipeline.feeds,
            reporter=pipeline.reporter,
        )

    settings = quantize_settings(pipeline)
    done = run(settings)
    lifted = _auto_hybrid(pipeline, done)
    if lifted:
        done = run(replace(settings, layers={**lifted, **settings.layers}))
    found = [*done.findings, *_lifted_note(lifted)]
    try:
        coverage = integer_coverage(done.graph, done.layers)
    except ShortOfMemoryError:
        raise  # it says nothing of the build, and must not be kept as if it did
    except SimulationError as error:
        # a graph that does not run fails in the next stage, where there is one
        coverage = ()
        found.append(_uncovered(error))
    own = done.reference is not optimised
    return QuantizedGraph(
        key,
        GraphData(done.graph),
        done.table,
        coverage,
        tuple(found),
        GraphData(done.reference) if own else None,
        done.layers,
    )


def _auto_hybrid(pipeline: Pipeline, done: Quantized) -> dict[str, str]:
    """The layers that ``auto_hybrid`` lifts: layer -> dtype."""
    options = pipeline.recipe.quantization
    dtype = _lift_dtype(pipeline)
    if not dtype:
        return {}
    from engine.hybrid import auto_layers, subsample

    return auto_layers(
        done,
        subsample(pipeline.feeds()),
        cosine=options.auto_hybrid_cos_thresh,
        euclidean=options.auto_hybrid_euc_thresh,
        dtype=dtype,
        reporter=pipeline.reporter,
    )


def _lift_dtype(pipeline: Pipeline) -> str:
    """What ``auto_hybrid`` lifts layers to, by the name of the target's generation; empty
    without it.

    Raises:
        QuantizationError: the target has no half precision for single layers.
    """
    if not pipeline.recipe.quantization.auto_hybrid:
        return ""
    from engine.hybrid import promotion_dtype

    target = pipeline.recipe.target.target_platform
    dtype = promotion_dtype(quantize_settings(pipeline).dtype, target)
    if not dtype:
        raise QuantizationError(
            f"auto_hybrid has no dtype to promote layers to on {target}.",
            cause="Its chips compute in integers only.",
            remedy="Switch auto_hybrid off, or choose another target, or none to simulate.",
        )
    return dtype


def _lifted_note(lifted: Mapping[str, str]) -> list[Finding]:
    if not lifted:
        return []
    names = ", ".join(sanitize(name, 60) for name in list(lifted)[:5])
    return [
        Finding(
            "auto-hybrid-lifted",
            "info",
            "auto_hybrid",
            f"{len(lifted)} layers are float16, such as {names}.",
            cause="Their isolated error exceeds auto_hybrid_cos_thresh or auto_hybrid_euc_thresh.",
            remedy="A search (rknntui hybrid search) finds fewer layers that gain more.",
        )
    ]


def is_covered(result: QuantizedGraph) -> bool:
    """Whether a kept result says how its layers run: else that is found out anew."""
    return all(finding.code != _UNCOVERED for finding in result.findings)


def _uncovered(error: SimulationError) -> Finding:
    return Finding(
        _UNCOVERED,
        "warning",
        "simulator",
        f"Which layers run in integers could not be read: {error.what}",
        cause="ONNX Runtime does not run the quantized graph.",
        remedy="Leave the layer that it names in float (quantized_layers), or report it.",
    )


def _facts(pipeline: Pipeline) -> JsonObject:
    """The dtypes that names mean, which depend on the target."""
    return {"dtype": quantize_settings(pipeline).dtype, "lift": _lift_dtype(pipeline)}


def _findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Those of the quantization, of joins, and of how this machine simulates the result."""
    from engine.simulate import Simulator

    quantized = pipeline.quantized
    yield from quantized.findings
    yield from find_all_range_mismatches(pipeline)
    yield from Simulator(pipeline.optimised.graph.graph, quantized.graph.graph).findings


QUANTIZE: Stage[QuantizedGraph] = Stage(
    name="quantize",
    title="Quantize",
    run=_quantize,
    inputs=("calibrate",),
    codec=Codec(
        QuantizedGraph.to_files,
        lambda pipeline, key, files: QuantizedGraph.from_files(
            key, files, pipeline.source.operators
        ),
    ),
    quantized_only=True,
    facts=_facts,
    is_valid=lambda _, result: is_covered(result),
    findings=_findings,
)
