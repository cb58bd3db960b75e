"""Calibration, the quantized graph with its quant table, and how far its results are from float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.pipeline.layers import (
    find_all_range_mismatches,
    quantize_as,
    quantize_settings,
    quantized_of,
)
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import Calibration, Evaluation, GraphData, QuantizedGraph

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.quantize import Observations, Quantized


def _quantize(pipeline: Pipeline, key: str) -> QuantizedGraph:
    settings = quantize_settings(pipeline)
    done = quantize_as(pipeline, settings)
    lifted = _auto_hybrid(pipeline, done)
    if lifted:
        settings = replace(settings, layers={**lifted, **settings.layers})
        done = quantize_as(pipeline, settings)
    own = done.reference is not pipeline.optimised.graph.graph
    return QuantizedGraph(
        key,
        GraphData(done.graph),
        done.table,
        (*done.findings, *_lifted_note(lifted)),
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
    findings=_findings,
)


def _evaluate(pipeline: Pipeline, key: str) -> Evaluation:
    from engine.accuracy.evaluate import evaluate
    from engine.simulate import integer_coverage

    done = quantized_of(pipeline)
    outputs, layers = evaluate(done, pipeline.feeds(), pipeline.reporter)
    return Evaluation(key, outputs, layers, integer_coverage(done.graph, done.layers))


EVALUATE: Stage[Evaluation] = Stage(
    name="evaluate",
    title="Compare simulated with float",
    run=_evaluate,
    inputs=("quantize",),
    codec=Codec(Evaluation.to_files, lambda _, key, files: Evaluation.from_files(key, files)),
    quantized_only=True,
)


# What the calibration samples show of every tensor of the float graph.

_UNFINISHED = "calibrating"
"""What the cache calls observations of a calibration that is not done."""


def _calibrate(pipeline: Pipeline, key: str) -> Calibration:
    from engine.quantize import calibrate, sample_limit

    options, cache = pipeline.recipe.dataset, pipeline.cache

    def keep(seen: Observations) -> None:
        """Keep what was seen so far, for the case that the calibration is killed."""
        if cache is not None:
            cache.put(_UNFINISHED, key, seen.to_files())

    feeds = pipeline.feeds()
    seen = calibrate(
        pipeline.optimised.graph.graph,
        feeds,
        reporter=pipeline.reporter,
        limit=sample_limit(options.batch_size, options.epochs),
        resume=_left_off(pipeline, key),
        checkpoint=keep,
    )
    if cache is not None:
        cache.drop(_UNFINISHED, key)
    return Calibration(key, seen, seen.samples, (*feeds.findings, *_skipped(pipeline.dataset)))


def _left_off(pipeline: Pipeline, key: str) -> Observations | None:
    """What an earlier run of this calibration saw before it was killed."""
    from engine.quantize import Observations

    if pipeline.cache is None or pipeline.refresh:
        return None
    files = pipeline.cache.get(_UNFINISHED, key)
    if files is None:
        return None
    try:
        return Observations.from_files(files)
    except QuantizationError:
        return None


def _skipped(dataset: Dataset) -> list[Finding]:
    if not dataset.skipped:
        return []
    names = ", ".join(path.name for path, _ in dataset.skipped[:3])
    return [
        Finding(
            "pictures-skipped",
            "warning",
            "dataset",
            f"{len(dataset.skipped)} images could not be used, such as {names}.",
            cause=dataset.skipped[0][1],
            remedy="Repair or remove them.",
        )
    ]


CALIBRATE: Stage[Calibration] = Stage(
    name="calibrate",
    title="Calibrate",
    run=_calibrate,
    inputs=("optimise",),
    codec=Codec(Calibration.to_files, lambda _, key, files: Calibration.from_files(key, files)),
    quantized_only=True,
    contents=lambda pipeline: {"dataset": pipeline.samples.digest},
    facts=lambda pipeline: {"generation": pipeline.generation},
    findings=lambda pipeline: pipeline.calibration.findings,
)
