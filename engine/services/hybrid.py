"""The worker's hybrid quantization: table, live effect, proposal, search, joins, the two steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import atomic_write, refuse_existing
from engine.base.text import sanitize
from engine.base.trust import trusted_code
from engine.hybrid import (
    Evaluator,
    Layers,
    noise_samples,
    promotion_dtype,
    subsample,
    table_rows,
    verify_requests,
)
from engine.hybrid import propose as propose_layers
from engine.hybrid import search as find
from engine.pipeline.costs import costs_of, with_costs
from engine.pipeline.hybrid_steps import build_step2, write_step1
from engine.pipeline.layers import (
    by_layer,
    by_tensor,
    find_all_range_mismatches,
    quantize_settings,
    quantized_of,
    resolve_promotion_dtype,
)
from engine.pipeline.trusted_code import load_custom_ops
from engine.quantize.checks import check_range
from engine.report import samples_text
from engine.services.registry import answers, runs
from engine.services.state import WORKER_STATE, get_pipeline, recipe_at, recipe_of
from engine.wire.accuracy import RoundedOutput
from engine.wire.hybrid import (
    EFFECT,
    JOINS,
    PROPOSE,
    SEARCH,
    STEP1,
    STEP2,
    TABLE,
    Built,
    Effect,
    EffectOutput,
    EffectParams,
    Joins,
    OutputFigure,
    Proposal,
    ProposeParams,
    SearchParams,
    SearchResult,
    Step1,
    Step1Params,
    Step2Params,
    StepFiles,
    Table,
)
from engine.wire.requests import ModelTarget

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline


@answers(TABLE)
def table(params: ModelTarget) -> Table:
    """Every layer of a build; see :mod:`engine.hybrid.layers`."""
    pipeline = _quantizing(params)
    evaluation = pipeline.evaluation
    settings, chip = quantize_settings(pipeline), pipeline.recipe.target.target_platform
    rows = table_rows(
        Layers(pipeline.optimised.graph.graph),
        quantized_of(pipeline),
        settings,
        {layer.tensor: layer for layer in evaluation.layers},
        chip,
    )
    costs = costs_of(pipeline)
    whole = None if costs is None else costs.of(settings.layers)
    if costs is not None:
        dtype = promotion_dtype(settings.dtype, chip)
        rows = with_costs(rows, costs, settings.layers, dtype)
    return Table(
        rows,
        tuple(OutputFigure(o.name, o.sqnr_db) for o in evaluation.outputs),
        samples_text(evaluation.samples, pipeline.calibration.samples),
        chip="" if costs is None or whole is None else costs.chip,
        time_ms=None if whole is None else whole.time_ms,
        bytes=None if whole is None else whole.bytes,
    )


def _quantizing(
    params: ModelTarget,
    reporter: Reporter | None = None,
    *further: str,
    last: str = "calibrate",
) -> Pipeline:
    """The pipeline of a request.

    Args:
        params: of the request.
        reporter: told of the stages.
        further: steps of the request itself behind the stages.
        last: the last stage that it takes, to number them.

    Raises:
        UsageError: it does not quantize.
    """
    pipeline = get_pipeline(recipe_at(params), reporter, last=last, then=further)
    if not pipeline.quantized_build:
        raise UsageError(
            "The build is not quantized: no layer can be promoted.",
            remedy="Build with quantization.",
        )
    return pipeline


def _trials(pipeline: Pipeline) -> Evaluator:
    """Trials of a model, kept warm: a toggle needs neither samples nor float results again."""
    settings = replace(quantize_settings(pipeline), layers={}, ranges={})
    key = f"trials {pipeline.calibration.key} {settings}"
    kept = WORKER_STATE.get_or_make(
        key,
        lambda: Evaluator(
            pipeline.optimised.graph.graph,
            pipeline.calibration.observations,
            settings,
            subsample(pipeline.feeds()),
            everything=pipeline.feeds,
        ),
        lambda made: sum(array.nbytes for feed in made.feeds for array in feed.values()),
    )
    kept.reporter = pipeline.reporter
    return kept


@runs(EFFECT)
def effect(params: EffectParams, reporter: Reporter) -> Effect:
    """What other layers and ranges than a build's would do to its outputs, simulated over the first
    calibration samples.
    """
    pipeline = _quantizing(params, reporter, "effect")
    own = quantize_settings(pipeline)
    layers = by_layer(pipeline, params.layers or {})
    ranges = by_tensor(pipeline, _ranges(params))
    trials = _trials(pipeline)
    begun = time.perf_counter()
    with pipeline.step("effect", "Try the choice of layers"):
        before = trials.run(own.layers, own.ranges)
        moved = [_moved(trials, own.layers, own.ranges)] if params.rounding else [{}]
        after = trials.run(layers, ranges)
        moved.append(_moved(trials, layers, ranges) if params.rounding else {})
        rows = verify_requests(trials.build(layers, ranges), layers, ranges)
        costs = costs_of(pipeline)
        old, new = (None, None) if costs is None else (costs.of(own.layers), costs.of(layers))
    return Effect(
        outputs=tuple(
            EffectOutput(n, v, before.sqnr[n], moved[1].get(n), moved[0].get(n))
            for n, v in after.sqnr.items()
        ),
        honoured=rows,
        seconds=round(time.perf_counter() - begun, 4),
        samples=len(trials.feeds),
        over=samples_text(len(trials.feeds), pipeline.calibration.samples),
        label="simulated",
        time_ms=None if new is None else new.time_ms,
        time_before_ms=None if old is None else old.time_ms,
        bytes=None if new is None else new.bytes,
    )


def _moved(
    trials: Evaluator, layers: Mapping[str, str], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, RoundedOutput]:
    """Output -> how far other roundings move it."""
    return {output.name: output for output in trials.rounding(layers, ranges).outputs}


def _ranges(params: EffectParams) -> Mapping[str, tuple[float, float]]:
    """The ranges of a request.

    Raises:
        UsageError: one is none with 0 in it.
    """
    ranges = params.ranges or {}
    for name, (low, high) in ranges.items():
        fault = check_range(float(low), float(high))
        if fault:
            raise UsageError(f"The range of {sanitize(name, 120)!r} cannot be used: {fault}")
    return ranges


@runs(PROPOSE)
def propose(params: ProposeParams, reporter: Reporter) -> Proposal:
    """Layers to lift; see :mod:`engine.hybrid.proposal`."""
    pipeline = _quantizing(params, reporter, "propose", last="quantize")
    quantized = quantized_of(pipeline)
    with pipeline.step("propose", "Weigh every rounding"):
        proposal = propose_layers(
            quantized,
            subsample(
                pipeline.feeds(), params.samples or noise_samples(Layers(quantized.reference))
            ),
            dtype=resolve_promotion_dtype(pipeline, params.dtype),
            budget=params.budget,
            reporter=reporter,
            costs=costs_of(pipeline),
            budget_ms=params.budget_ms,
            gains=params.gains,
        )
    asked = by_layer(pipeline, pipeline.recipe.quantization.quantized_layers or {})
    return replace(proposal, asked={**asked, **proposal.layers})


@runs(SEARCH)
def search(params: SearchParams, reporter: Reporter) -> SearchResult:
    """Find the layers to lift or lower; see :mod:`engine.hybrid.search`.

    The reporter gets the points of the curve, may pause, stop, or ask for the best so far.
    """
    pipeline = _quantizing(params, reporter, "search")
    own = quantize_settings(pipeline)
    asked = replace(params, dtype=resolve_promotion_dtype(pipeline, params.dtype))
    trials = _trials(pipeline)
    with pipeline.step("search", "Search the layers that matter"):
        return find(trials, asked, costs_of(pipeline), layers=own.layers, ranges=own.ranges)


@answers(JOINS)
def joins(params: ModelTarget) -> Joins:
    """Joins of unlike ranges of a recipe's model, with figures once calibrated."""
    return Joins(tuple(find_all_range_mismatches(get_pipeline(recipe_at(params)))))


@runs(STEP1)
def step1(params: Step1Params, reporter: Reporter) -> Step1:
    """Write structure, data and configuration; propose layers where asked."""
    files, proposal = write_step1(
        get_pipeline(recipe_at(params), reporter, last="calibrate"),
        Path(params.folder),
        proposal=params.proposal,
        proposal_dataset_size=params.proposal_dataset_size,
        custom_hybrid=params.custom_hybrid,
        overwrite=params.force,
    )
    paths = StepFiles(str(files.model), str(files.data), str(files.config))
    if proposal is None:
        return Step1(files=paths, layers={}, ranking=())
    known = ("layers", "ranking", "before", "after", "label")
    return Step1(files=paths, **{name: getattr(proposal, name) for name in known})


@runs(STEP2)
def step2(params: Step2Params, reporter: Reporter) -> Built:
    """Build from the files of step 1, and write the container where asked."""
    path = None if params.path is None else Path(params.path)
    if path is not None:
        refuse_existing(path, overwrite=params.force)
    named = {"custom_ops": list(params.custom_ops)} if params.custom_ops else {}
    done = build_step2(
        Path(params.model),
        Path(params.data),
        Path(params.config),
        dataset=None if params.dataset is None else Path(params.dataset),
        reporter=reporter,
        memory=WORKER_STATE,
        operators=load_custom_ops(recipe_of(named), allowed=trusted_code()) or None,
    )
    if path is not None:
        size = atomic_write(path, done.result.container, overwrite=params.force)
        reporter.emit(ArtifactWritten(str(path), "rknn", size))
    return Built(done.result.summary, done.honoured, None if path is None else str(path))
