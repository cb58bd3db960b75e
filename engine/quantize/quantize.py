"""quantize(): from a float graph and observations to the QDQ graph and its quant table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.events import LogLine, NullReporter, Reporter
from engine.base.findings import Finding
from engine.base.text import did_you_mean, printable
from engine.graph.ir import Graph, QuantTable
from engine.options.names import (
    ALGORITHMS,
    GRANULARITIES,
    REFUSED_ALGORITHMS,
    REFUSED_GRANULARITIES,
)
from engine.quantize import accurate, by_ranges, kl_check, mmse_layers, vendor_mode
from engine.quantize.calibrate import Observations
from engine.quantize.checks import overflows, with_ranges_of_roots, without_effect
from engine.quantize.conform import conform
from engine.quantize.formats import check_dtype, check_layer_dtype
from engine.quantize.forms import array_of
from engine.quantize.honoured import honoured
from engine.quantize.plan import Plan, is_quantized_source, plan
from engine.quantize.prepared import Feeds, Prepared
from engine.quantize.qdq import insert_qdq
from engine.quantize.settings import QuantizeSettings
from engine.quantize.sources import table_of

__all__ = ["Quantized", "quantize", "to_float16"]

Prepare = Callable[[Graph, Plan, Observations, QuantizeSettings, Feeds | None, Reporter], Prepared]

# Algorithms that are more than a choice of ranges.
_PREPARE: Mapping[str, Prepare] = {
    "accurate": accurate.prepare,
    "kl_divergence": kl_check.prepare,
    "mmse": mmse_layers.prepare,
    "vendor": vendor_mode.prepare,
}


@dataclass(frozen=True)
class Quantized:
    """A quantized graph.

    Attributes:
        graph: the QDQ graph: activations, weights and biases in the formats of their dtypes.
        table: parameters of every quantized tensor, activations, weights and biases, and of the
            conversions between layers of two dtypes.
        reference: the float graph that ``graph`` is the quantized form of. Its outputs are those of
            the graph that was given; inner tensors may be scaled, where an algorithm equalized
            them. Layers are compared with this graph.
        findings: what the user should know of this quantization.
    """

    graph: Graph
    table: QuantTable
    reference: Graph
    findings: tuple[Finding, ...] = ()


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
        return Quantized(graph, QuantTable(table_of(graph)), graph, (_kept(graph),))
    found = check_dtype(settings.dtype)
    for dtype in dict.fromkeys(settings.layers.values()):
        found += check_layer_dtype(dtype)
    decided = plan(graph, settings.dtype, settings.layers)
    if not decided.formats:
        raise QuantizationError(
            "The graph has nothing that can be quantized.",
            cause=_nothing_because(graph),
            remedy="Build it without quantization (--no-quantize).",
        )
    settings = with_ranges_of_roots(settings, decided)
    # without integers there is nothing that an algorithm could choose
    algorithm = settings.algorithm if decided.tensors else ""
    found += () if algorithm else without_effect(settings)
    prepare = _PREPARE.get(algorithm, by_ranges.prepare)
    ready = prepare(graph, decided, observations, settings, feeds, reporter)
    if algorithm in _PREPARE:
        ready = conform(ready, settings.granularity)
    found += (*ready.findings, *overflows(ready.activations, ready.weights))
    reporter.check_cancelled()
    quantized, table = insert_qdq(ready.graph, ready.plan, ready.activations, ready.weights)
    how = ", ".join(part for part in (settings.dtype, algorithm, settings.granularity) if part)
    reporter.emit(LogLine(f"{len(table)} tensors quantized to {how}"))
    done = Quantized(quantized, QuantTable(table), ready.graph, found)
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
    for tensor, got in honoured(settings.layers, done).items():
        if got != settings.layers[tensor]:
            raise QuantizationError(
                f"The layer of {printable(tensor, 120)!r} is {got}, not {settings.layers[tensor]}.",
                cause=f"The algorithm {settings.algorithm} cannot give it another dtype.",
                remedy="Choose the algorithm normal, or leave the layer as it is.",
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
            return f"The weights {printable(name, 80)!r} hold NaN or infinity."
    if any(spec.dtype == "float16" for spec in (*graph.inputs, *graph.outputs)):
        return "It computes in float16, and float32 is what is quantized: export it in float32."
    return "No operator of it has an 8-bit form."


def _kept(graph: Graph) -> Finding:
    pairs = sum(node.op_type == "DequantizeLinear" for node in graph.nodes)
    return Finding(
        code="source-quantization-kept",
        severity="info",
        where="source model",
        what=f"The model brings its own quantization ({pairs} DequantizeLinear nodes); it is kept.",
        cause="It was quantized, or trained with quantization, by the tool that wrote it.",
        remedy="To quantize it here, start from the float model.",
    )
