"""Stage A of the accuracy guide: the float model, before anything is quantized."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.accuracy.guide import cosine_verdict, worst_verdict
from engine.accuracy.rows import float_rows
from engine.base.errors import EngineError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.passes import PIPELINES, optimise
from engine.options import Values
from engine.options.normalisation import NORMALISATIONS
from engine.quantize import to_float16
from engine.services.guide_probe import Check, Probe, cosine_text, cosines
from engine.services.state import WORKER_STATE
from engine.wire.guide import StepFinding, StepResult, Verdict

_HALF_MAX = 65504.0
_WIDE, _NARROW = 30.0, 0.05


def float_verdict(probe: Probe) -> Verdict:
    """Whether the float16 model gives what the source model does; kept between steps."""
    pipeline = probe.pipeline
    key = f"guide {pipeline.key('calibrate')}"
    half_cosines: dict[str, float] | None = None if probe.given else WORKER_STATE.get(key)
    if half_cosines is None:
        half_cosines = _half_cosines(probe)
        if not probe.given:
            WORKER_STATE.put(key, half_cosines)
    return worst_verdict(cosine_verdict(value) for value in half_cosines.values())


def _half_cosines(probe: Probe) -> dict[str, float]:
    return cosines(probe.outputs, probe.expected, probe.run(_half(probe)))


def _half(probe: Probe) -> Graph:
    """The optimised graph in half precision; in float32 where it has no such form."""
    graph = probe.pipeline.optimised.graph.graph
    try:
        return to_float16(graph).graph
    except EngineError:
        return graph


def _a1(probe: Probe) -> StepResult:
    values = _half_cosines(probe)
    findings = [*cosine_text(values), *_inputs(probe), *_overflow(probe)]
    verdict = worst_verdict(cosine_verdict(value) for value in values.values())
    against = "the outputs you gave" if probe.given else "the source model as it was loaded here"
    advice = {
        "pass": "The float model is right; quantization comes next.",
        "warning": "A small difference: half precision explains it where values are large.",
    }.get(
        verdict, "The float model already differs from the reference: fix this before you quantize."
    )
    if not probe.given and verdict == "pass":
        advice += (
            " Whether mean, std and channel order are those of the training shows only against "
            "outputs of the original framework (--reference)."
        )
    count = len(probe.feeds)
    return StepResult(
        f"Ran {count} calibration samples in float16 (simulated) and compared them with {against}.",
        tuple(findings),
        verdict,
        advice,
    )


def _inputs(probe: Probe) -> list[StepFinding]:
    """What the network sees, where that looks odd."""
    findings = []
    for name in probe.feeds[0]:
        values = np.stack([feed[name] for feed in probe.feeds])
        if values.dtype.kind != "f":
            continue
        low, high, spread = float(values.min()), float(values.max()), float(values.std())
        odd = max(abs(low), abs(high)) > _WIDE or spread < _NARROW
        text = f"{low:.4g} to {high:.4g} after mean and std"
        if odd and spread < _NARROW:
            text += ": hardly any contrast; were the values normalised twice?"
        elif odd:
            text += ": correct only for a network that normalises its input itself"
        findings.append(StepFinding(f"input {name}", text, "warning" if odd else "told"))
    return findings


def _overflow(probe: Probe) -> list[StepFinding]:
    """Layers whose values half precision cannot hold."""
    graph = probe.pipeline.optimised.graph.graph
    tensors = [row.golden for row in float_rows(graph) if row.computed]
    results = Session(graph, outputs=tensors).run(probe.feeds[0], tensors)
    large = {
        name: float(np.abs(array).max())
        for name, array in results.items()
        if array.size and not bool((np.abs(array) <= _HALF_MAX).all())
    }
    if not large:
        return [StepFinding("float16 range", f"every layer stays below {_HALF_MAX:.0f}", "pass")]
    return [
        StepFinding(
            name, f"reaches {value:.4g}, float16 holds {_HALF_MAX:.0f}: rescale this layer", "fail"
        )
        for name, value in sorted(large.items(), key=lambda item: -item[1])[:5]
    ]


def _a2(probe: Probe) -> StepResult:
    settings = probe.recipe.preprocess
    findings = (
        StepFinding("mean_values", str(settings.mean_values or "0")),
        StepFinding("std_values", str(settings.std_values or "1")),
        StepFinding("quant_img_RGB2BGR", "yes" if settings.quant_img_RGB2BGR else "no"),
    )
    if not probe.given:
        return StepResult(
            "Read the settings of the inputs.",
            findings,
            "told",
            "Both results had the same inputs, so these settings do not explain the difference. "
            "Whether they are right shows only against outputs of the original framework: give "
            "them with --reference.",
        )
    now, tried = _alternatives(probe)
    best = max(tried, key=lambda item: item[1], default=None)
    lines = tuple(
        StepFinding(name, f"worst cosine {value:.5f}", cosine_verdict(value))
        for name, value, _ in sorted(tried, key=lambda item: -item[1])[:6]
    )
    as_set = StepFinding("as set", f"worst cosine {now:.5f}", cosine_verdict(now))
    did = f"Ran the first sample with {len(tried)} other ways to prepare it, in float32."
    if best is None or cosine_verdict(best[1]) == "fail" or best[1] <= now:
        advice = (
            "No other mean, std or channel order gives the reference. Check input_size_list, "
            "inputs, outputs and the order of the reference files; else a graph pass is the cause."
        )
        return StepResult(did, (*findings, as_set, *lines), "fail", advice)
    return StepResult(
        did,
        (*findings, as_set, *lines),
        cosine_verdict(best[1]),
        f"The reference was made with {best[0]}.",
        best[2],
    )


def _alternatives(probe: Probe) -> tuple[float, list[tuple[str, float, Values]]]:
    """The worst cosine as set, and (name, worst cosine, changes) of other preparations."""
    pipeline = probe.pipeline
    inputs = pipeline.optimised.graph.graph.inputs
    session = Session(pipeline.loaded.graph.graph)
    first = pipeline.dataset.first(1)

    def score(feeds: Mapping[str, np.ndarray]) -> float:
        return min(cosines(probe.outputs, probe.expected, [session.run(feeds)]).values())

    now = score(probe.feeds[0])
    tried: list[tuple[str, float, Values]] = []
    shapes = [spec.shape for spec in inputs] if len(inputs) == 1 else []
    for usual in NORMALISATIONS:
        for swap in (False, True):
            changes = {**usual.changes(shapes), "quant_img_RGB2BGR": swap}
            if len(changes) == 1:
                continue
            try:
                feeds = next(iter(probe.with_options(**changes).feeds(first)))
            except EngineError:
                continue
            tried.append((f"{usual.name}, {'BGR' if swap else 'RGB'}", score(feeds), changes))
    return now, tried


def _a3(probe: Probe) -> StepResult:
    source = probe.pipeline.loaded.graph.graph
    expected = probe.run(source)
    findings: list[StepFinding] = []
    culprit: int | None = None
    for level in PIPELINES:
        probe.reporter.check_cancelled()
        done = optimise(source, level)
        values = cosines(probe.outputs, expected, probe.run(done.graph))
        lowest = min(values.values(), default=1.0)
        verdict = cosine_verdict(lowest)
        ran = sum(record.modified for record in done.log)
        findings.append(
            StepFinding(
                f"level {level}", f"worst cosine {lowest:.6f}, {ran} passes changed it", verdict
            )
        )
        if verdict != "pass" and culprit is None:
            culprit = level
    did = "Optimised the source model at every level and compared the outputs in float32."
    if culprit is None:
        return StepResult(
            did,
            tuple(findings),
            "pass",
            "No pass changes the results: half precision does. Rescale layers with large values, "
            "or keep the model and quantize it to 16-bit integers.",
        )
    if culprit == 0:
        return StepResult(
            did, tuple(findings), "fail", "Even the source graph differs: report this."
        )
    return StepResult(
        did,
        tuple(findings),
        "fail",
        f"A pass of level {culprit} changes the results. Build with the level below, and report "
        "this with the model.",
        {"optimization_level": culprit - 1},
    )


FLOAT_CHECKS: Mapping[str, Check] = {"A1": _a1, "A2": _a2, "A3": _a3}
"""Step -> what it runs."""
