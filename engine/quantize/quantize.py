"""quantize(): from a float graph and observations to the QDQ graph and its quant table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.events import LogLine, NullReporter, Reporter
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph, QuantTable
from engine.graph.ir.spec import array_of
from engine.options.names import (
    ALGORITHMS,
    GRANULARITIES,
    REFUSED_ALGORITHMS,
    REFUSED_GRANULARITIES,
)
from engine.quantize.algorithms import accurate
from engine.quantize.algorithms import kl_divergence as kl_check
from engine.quantize.algorithms import mmse as mmse_layers
from engine.quantize.algorithms import ranges as by_ranges
from engine.quantize.algorithms import vendor as vendor_mode
from engine.quantize.calibration.observations import Observations
from engine.quantize.checks import (
    applied_dtypes,
    float16_overflows,
    ineffective_algorithm,
    resolve_shared_ranges,
)
from engine.quantize.dtypes.formats import check_dtype, check_layer_dtype
from engine.quantize.interface import CalibratedGraph, Feeds, Prepare, Quantized, QuantizeSettings
from engine.quantize.planning.layers import layers_of, read_qdq_params
from engine.quantize.planning.plan import is_quantized_source, plan
from engine.quantize.qdq.insert import insert_qdq

# Algorithms that are more than a choice of ranges.
_PREPARE: Mapping[str, Prepare] = {
    "accurate": accurate.prepare,
    "kl_divergence": kl_check.prepare,
    "mmse": mmse_layers.prepare,
    "vendor": vendor_mode.prepare,
}


def quantize(
    graph: Graph,
    observations: Observations,
    settings: QuantizeSettings | None = None,
    *,
    feeds: Feeds | None = None,
    reporter: Reporter | None = None,
) -> Quantized:
    """Quantize a float graph.

    Args:
        graph: the float graph; one with Q/DQ nodes of its own keeps its quantization as it is.
        observations: of the same graph; a model that is float16 throughout needs none.
        settings: how; the defaults when None.
        feeds: gives the calibration samples anew, for algorithms that read them once more.
        reporter: gets a log line and progress, and may cancel.

    Raises:
        QuantizationError: an unknown option, a layer or range that does not exist, observations of
            another graph, or nothing to quantize.
    """
    settings = settings or QuantizeSettings()
    _check_names(settings)
    reporter = reporter or NullReporter()
    if is_quantized_source(graph):
        table = QuantTable(read_qdq_params(graph))
        return Quantized(graph, table, graph, (_kept(graph),), layers_of(graph))
    findings = check_dtype(settings.dtype)
    for dtype in dict.fromkeys(settings.layers.values()):
        findings += check_layer_dtype(dtype)
    decided = plan(graph, settings.dtype, settings.layers)
    if not decided.formats:
        raise QuantizationError(
            "The graph has nothing that can be quantized.",
            cause=_nothing_because(graph),
            remedy="Build it without quantization (--no-quantize).",
        )
    settings = resolve_shared_ranges(settings, decided)
    # without integers there is nothing that an algorithm could choose
    algorithm = settings.algorithm if decided.tensors else ""
    findings += () if algorithm else ineffective_algorithm(settings)
    prepare = _PREPARE.get(algorithm, by_ranges.prepare)
    ready = prepare(CalibratedGraph(graph, decided, observations, settings, feeds, reporter))
    reporter.check_cancelled()
    quantized, params, layers = insert_qdq(
        ready.graph, ready.plan, ready.activations, ready.weights
    )
    findings += (*ready.findings, *float16_overflows(ready.activations, ready.weights, layers))
    how = ", ".join(part for part in (settings.dtype, algorithm, settings.granularity) if part)
    reporter.emit(LogLine(f"{len(params)} tensors quantized to {how}"))
    done = Quantized(quantized, QuantTable(params), ready.graph, findings, layers)
    _verify(settings, done)
    return done


def _check_names(settings: QuantizeSettings) -> None:
    """Are algorithm and granularity among those that there are?

    Raises:
        QuantizationError: one is not.
    """
    for option, value, known, refused in (
        ("algorithm", settings.algorithm, ALGORITHMS, REFUSED_ALGORITHMS),
        ("granularity", settings.granularity, GRANULARITIES, REFUSED_GRANULARITIES),
    ):
        if value not in known:
            raise QuantizationError(
                f"Quantization {option} {value!r} is not available.",
                cause=refused.get(value, f"This version has {', '.join(known)}."),
                remedy=did_you_mean(value, known) or f"Choose {known[0]}.",
            )


def _verify(settings: QuantizeSettings, done: Quantized) -> None:
    """No layer silently has another dtype than was asked for.

    Raises:
        QuantizationError: the algorithm did not follow the plan.
    """
    for name, got in applied_dtypes(settings.layers, done).items():
        if got != settings.layers[name]:
            raise QuantizationError(
                f"The layer {sanitize(name, 120)!r} is {got}, not {settings.layers[name]}.",
                cause=f"The algorithm {settings.algorithm} cannot give it another dtype.",
                remedy="Choose the algorithm normal, or do not change the layer.",
            )


def to_float16(graph: Graph) -> Quantized:
    """A graph as chips with half precision compute it without quantization (``float_dtype``).

    Every weight and every tensor between two layers is rounded to half precision; layers sum in
    float32 (the width of the NPU's sums is not documented).
    """
    return quantize(graph, Observations(0, {}), QuantizeSettings(dtype="float16"))


def _nothing_because(graph: Graph) -> str:
    for name, value in graph.model.graph.initializers.items():
        array = array_of(value)
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"The weights {sanitize(name, 80)!r} hold NaN or infinity."
    if any(spec.dtype == "float16" for spec in (*graph.inputs, *graph.outputs)):
        return "It computes in float16, and float32 is what is quantized: export it in float32."
    return "No operator of it has an 8-bit form."


def _kept(graph: Graph) -> Finding:
    pairs = sum(node.op_type == "DequantizeLinear" for node in graph.nodes)
    return Finding(
        code="source-quantization-kept",
        severity="info",
        where="source model",
        what=f"The model is already quantized ({pairs} DequantizeLinear nodes); it is kept.",
        cause="It was quantized, or trained with quantization, by the tool that wrote it.",
        remedy="To quantize it here, start from the float model.",
    )
