"""Stage B of the accuracy guide: the quantized model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.accuracy.analyse import analyse, noisiest
from engine.accuracy.guide import cosine_verdict, worst_verdict
from engine.base.errors import EngineError
from engine.hybrid import find_range_mismatches, propose
from engine.options import Value, Values
from engine.pipeline.layers import by_layer, quantized_of
from engine.pipeline.results import Evaluation
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.report import samples_text, sqnr_text
from engine.services.guide_probe import Check, Probe, cosine_text, cosines
from engine.wire.build import LayerAccuracy
from engine.wire.guide import StepFinding, StepResult, Verdict

_FEW, _ENOUGH = 5, 20
_RANKED = 5
_HIDDEN = ("mixed-range-concat", "kl-divergence-loses")
"""Findings of a build about losses that a figure over all values of an output can hide."""
_SHARE_OF_BAD_SET = 0.5  # of the distance to 1 that one sample alone must take away


def quantized_verdict(probe: Probe) -> Verdict:
    """What the recipe's build loses, by its worst output."""
    return cosine_verdict(_lowest(probe.pipeline.evaluation))


def _lowest(evaluation: Evaluation) -> float:
    return min((output.cosine for output in evaluation.outputs), default=1.0)


def _told(evaluation: Evaluation) -> tuple[StepFinding, ...]:
    return tuple(
        StepFinding(
            output.name,
            f"cosine {output.cosine:.5f}, SQNR {sqnr_text(output.sqnr_db)}",
            cosine_verdict(output.cosine),
        )
        for output in evaluation.outputs
    )


def _b1(probe: Probe) -> StepResult:
    evaluation = probe.pipeline.evaluation
    verdict = quantized_verdict(probe)
    lowest = _lowest(evaluation)
    advice = {
        "pass": "Close to float. Confirm it with your own metric: `rknntui evaluate` measures it.",
        "warning": "A small loss. Measure your own metric (`rknntui evaluate`) before you spend "
        "time on improvements.",
    }.get(verdict, "The quantized model loses much; the next steps look for the reason.")
    if lowest < 0.8:
        advice = "The outputs are wrong altogether: that is configuration or the shape of the "
        advice += "graph, not the algorithm."
    over = samples_text(evaluation.samples, probe.pipeline.calibration.samples)
    did = f"Built as the recipe says and compared it with float over {over} (simulated)."
    hidden = [f for f in probe.pipeline.findings if f.code in _HIDDEN and f.severity == "warning"]
    if hidden and verdict == "pass":
        verdict = "warning"
        advice = f"Near enough to float as a whole, which hides a part. {hidden[0].remedy}"
    findings = (*_told(evaluation), *(StepFinding(f.where, f.what, "warning") for f in hidden))
    return StepResult(did, findings, verdict, advice, dict(hidden[0].changes) if hidden else {})


def _b2_dtype(probe: Probe) -> StepResult:
    dtype = probe.recipe.quantization.quantized_dtype
    few = "4" in dtype.split("a")[0]
    findings = (StepFinding("quantized_dtype", dtype, "warning" if few else "pass"),)
    did = "Read the quantized dtype."
    if not few:
        return StepResult(did, findings, "pass", "Eight bits or more: not the first suspect.")
    return _trial(
        probe, {"quantized_dtype": "w8a8"}, "Weights of 4 bits suit few models", findings, did
    )


def _b2_colours(probe: Probe) -> StepResult:
    swap = probe.recipe.preprocess.quant_img_RGB2BGR
    specs = probe.pipeline.optimised.graph.graph.inputs
    order = StepFinding("quant_img_RGB2BGR", "yes" if swap else "no")
    pictures = any(len(spec.shape) == 4 and 3 in (spec.shape[1], spec.shape[3]) for spec in specs)
    files = [path for entry in probe.pipeline.dataset.entries for path in entry]
    if not pictures or all(path.suffix.lower() == ".npy" for path in files):
        return StepResult(
            "Looked for images in the calibration set.",
            (order,),
            "pass",
            "No images of three channels: the order does not matter here.",
        )
    turned = probe.with_options(quant_img_RGB2BGR=not isinstance(swap, bool) or not swap)
    first = probe.pipeline.dataset.first(len(probe.feeds))
    graph = probe.pipeline.optimised.graph.graph
    other = probe.run(graph, list(turned.feeds(first)))
    values = cosines(probe.outputs, probe.run(graph), other)
    lowest = min(values.values(), default=1.0)
    findings = (order, *cosine_text(values, "float outputs with the other order: cosine"))
    did = "Ran the probes in float with their channels in the other order."
    if lowest >= 0.999:
        return StepResult(did, findings, "pass", "The outputs hardly depend on the order.")
    return StepResult(
        did,
        findings,
        "told",
        "The order matters to this model, and only you know which it was trained with: yes for "
        "BGR (most Caffe models), no for RGB.",
    )


def _b2_probe(probe: Probe) -> StepResult:
    options = probe.recipe.quantization
    graph = probe.pipeline.optimised.graph.graph
    feed = probe.feeds[0]
    settings = QuantizeSettings(
        dtype=options.quantized_dtype,
        algorithm="normal",
        granularity=options.quantized_method,
    )
    alone = quantize(graph, calibrate(graph, [feed]), settings, feeds=lambda: iter([feed]))
    expected = probe.run(graph, [feed])
    before = cosines(
        probe.outputs, expected, probe.run(probe.pipeline.quantized.graph.graph, [feed])
    )
    after = cosines(probe.outputs, expected, probe.run(alone.graph, [feed]))
    low, high = min(before.values(), default=1.0), min(after.values(), default=1.0)
    findings = (
        *cosine_text(before, "calibrated with the set: cosine"),
        *cosine_text(after, "calibrated with the probe only: cosine"),
    )
    did = "Calibrated with only the first sample and ran that sample."
    if cosine_verdict(low) == "pass":
        return StepResult(did, findings, "pass", "This sample is near float either way.")
    if 1 - high < _SHARE_OF_BAD_SET * (1 - low):
        return StepResult(
            did,
            findings,
            "warning",
            "Much better with its own ranges: the calibration set has other scenes, or outliers. "
            "Choose samples like the deployed inputs.",
        )
    return StepResult(
        did,
        findings,
        "pass",
        "Not better with its own ranges: the calibration set is not the cause.",
    )


def _b2_count(probe: Probe) -> StepResult:
    samples = probe.pipeline.calibration.samples
    did = "Counted the calibration samples."
    if samples >= _ENOUGH:
        finding = StepFinding("samples", str(samples), "pass")
        return StepResult(did, (finding,), "pass", "Enough; many more seldom help.")
    verdict: Verdict = "fail" if samples < _FEW else "warning"
    return StepResult(
        did,
        (StepFinding("samples", str(samples), verdict),),
        verdict,
        "Few: the manuals recommend 50 to 200. `rknntui dataset make` selects them from a folder.",
    )


def _b2_joins(probe: Probe) -> StepResult:
    pipeline = probe.pipeline
    joins = find_range_mismatches(
        pipeline.optimised.graph.graph,
        pipeline.calibration.observations,
        source=pipeline.loaded.graph.graph,
        layers=by_layer(pipeline, probe.recipe.quantization.quantized_layers or {}),
    )
    did = "Searched for Concat and Add inputs with very different ranges."
    if not joins:
        finding = StepFinding("joins", "no mismatched ranges", "pass")
        return StepResult(did, (finding,), "pass", "Nothing to repair here.")
    findings = tuple(StepFinding(join.where, join.what, "warning") for join in joins)
    changes = _layers_of(probe, *(join.changes for join in joins))
    if not changes:
        return StepResult(did, findings, "warning", joins[0].remedy)
    return _trial(probe, changes, "The joined values get a scale each", findings, did)


def _layers_of(probe: Probe, *changes: Values) -> dict[str, Value]:
    """Several changes as one: the layers that they lift together."""
    merged: dict[str, Value] = {}
    lifted = by_layer(probe.pipeline, probe.recipe.quantization.quantized_layers or {})
    for one in changes:
        lifted |= one.get("quantized_layers") or {}
        merged |= {name: value for name, value in one.items() if name != "quantized_layers"}
    return {**merged, "quantized_layers": lifted} if lifted else merged


def _method(changes: Values, gain: str) -> Check:
    def check(probe: Probe) -> StepResult:
        return _trial(probe, changes, gain, (), "")

    return check


def _trial(
    probe: Probe, changes: Values, gain: str, known: tuple[StepFinding, ...], did: str
) -> StepResult:
    """Build with other options; they are proposed where the worst output gets nearer to float."""
    words = ", ".join(f"{name} {_shown(value)}" for name, value in changes.items())
    tried = f"{did} Built with {words} and compared it with float (simulated).".strip()
    before = _lowest(probe.pipeline.evaluation)
    try:
        evaluation = probe.with_options(**changes).evaluation
    except EngineError as error:
        return StepResult(tried, known, "told", f"Not possible here: {error.what}")
    after = _lowest(evaluation)
    findings = (*known, StepFinding("before", f"worst cosine {before:.5f}", cosine_verdict(before)))
    findings += _told(evaluation)
    if after <= before:
        return StepResult(
            tried, findings, "told", "Not better than before: keep the current setting."
        )
    verdict = cosine_verdict(after)
    reached = "that is near enough" if verdict == "pass" else "not enough alone"
    advice = f"{gain}: the worst output goes from {before:.5f} to {after:.5f}; {reached}."
    return StepResult(tried, findings, verdict, advice, dict(changes))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"of {len(value)} layers"
    return "yes" if value is True else "no" if value is False else str(value)


def _b4_rank(probe: Probe) -> StepResult:
    pipeline = probe.pipeline
    report = analyse(quantized_of(pipeline), probe.feeds, reporter=probe.reporter)
    ranked = noisiest(report, _RANKED)
    findings = tuple(StepFinding(layer.id, _ranked(layer), _guilt(layer)) for layer in ranked)
    guilty = [layer.id for layer in ranked if _guilt(layer) != "pass"]
    advice = (
        f"Layers with a large error of their own: {', '.join(guilty)}."
        if guilty
        else "No single layer has a large error: the error accumulates over many layers."
    )
    verdict = worst_verdict(_guilt(layer) for layer in ranked)
    return StepResult(
        f"Ran every layer isolated on float inputs, for {report.samples} samples (simulated).",
        findings,
        verdict,
        advice,
    )


def _guilt(layer: LayerAccuracy) -> Verdict:
    if layer.isolated is None:
        return "pass"
    return cosine_verdict(layer.isolated.cosine or 0.0)


def _ranked(layer: LayerAccuracy) -> str:
    parts = []
    if layer.isolated is not None:
        parts.append(f"isolated {sqnr_text(layer.isolated_sqnr)}")
        cosine = layer.isolated.cosine
        parts.append("cosine nan" if cosine is None else f"cosine {cosine:.5f}")
    if layer.added_share is not None:
        parts.append(f"{layer.added_share:.0%} of its error is introduced here")
    if layer.saturation is not None and layer.saturation.low + layer.saturation.high > 0.001:
        parts.append(f"{layer.saturation.low + layer.saturation.high:.2%} of its values clipped")
    return ", ".join(parts)


def _b4_lift(probe: Probe) -> StepResult:
    pipeline = probe.pipeline
    proposal = propose(quantized_of(pipeline), probe.feeds[:1], reporter=probe.reporter)
    did = "Predicted for every rounding what it does to the outputs."
    if not proposal.layers:
        return StepResult(did, (), "told", "No small group of layers dominates the error.")
    changes = _layers_of(probe, {"quantized_layers": dict(proposal.layers)})
    findings = tuple(StepFinding(name, f"to {dtype}") for name, dtype in proposal.layers.items())
    return _trial(probe, changes, f"{len(proposal.layers)} layers in float16", findings, did)


def _b5(probe: Probe) -> StepResult:
    del probe
    return StepResult(
        "Nothing to run.",
        (),
        "told",
        "Build without quantization (float16 on the NPU), or use quantization-aware training "
        "(QAT): the quantization parameters of a QAT model are kept.",
        {"do_quantization": False},
    )


QUANTIZED_CHECKS: Mapping[str, Check] = {
    "B1": _b1,
    "B2.1": _b2_dtype,
    "B2.2": _b2_colours,
    "B2.3": _b2_probe,
    "B2.4": _b2_count,
    "B2.5": _b2_joins,
    "B3.1": _method({"quantized_method": "channel"}, "A scale for every channel"),
    "B3.2": _method({"quantized_algorithm": "kl_divergence"}, "Ranges by kl_divergence"),
    "B3.3": _method({"quantized_algorithm": "mmse"}, "Ranges by mmse"),
    "B3.4": _method({"quantized_algorithm": "accurate"}, "Our algorithm"),
    "B4.1": _b4_rank,
    "B4.2": _b4_lift,
    "B5": _b5,
}
"""Step -> what it runs."""
