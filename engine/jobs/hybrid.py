"""The worker's hybrid quantization: the table, the live effect, the proposal, the search, joins."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.base.events import Reporter, StageFinished, StageStarted
from engine.base.text import printable
from engine.jobs.queries import whole_of
from engine.jobs.warm import KEPT, pipeline_of, recipe_of

if TYPE_CHECKING:
    from engine.base.findings import Finding
    from engine.hybrid import SearchWish, Trials
    from engine.jobs.pipeline import Pipeline
    from engine.quantize import Quantized, QuantizeSettings

__all__ = [
    "dtype_to_lift",
    "effect",
    "find_all_joins",
    "joins",
    "propose",
    "quantized_of",
    "search",
    "table",
]

_BASE = ("load", "optimise", "calibrate")


def table(params: dict[str, Any]) -> dict[str, Any]:
    """Every layer of a build: ``rows`` and ``outputs``; see :mod:`engine.hybrid.table`.

    ``over`` says which samples their errors are over.
    """
    from engine.hybrid import Layers, table_rows
    from engine.report import samples_text

    pipeline = _quantizing(params)
    evaluation = pipeline.evaluation
    rows = table_rows(
        Layers(pipeline.optimised.graph.graph),
        quantized_of(pipeline),
        pipeline.quantize_settings(),
        {layer.tensor: layer.sqnr_db for layer in evaluation.layers},
        pipeline.recipe.target.target_platform,
    )
    outputs = [{"name": o.name, "sqnr_db": o.sqnr_db} for o in evaluation.outputs]
    over = samples_text(evaluation.samples, pipeline.calibration.samples)
    return {"rows": rows, "outputs": outputs, "over": over}


def _quantizing(
    params: Mapping[str, Any], reporter: Reporter | None = None, *further: str
) -> Pipeline:
    """The pipeline of a request.

    Args:
        params: of the request.
        reporter: told of the stages.
        further: the stages behind calibration, to number them.

    Raises:
        UsageError: it does not quantize.
    """
    stages = (*_BASE, *further) if reporter else None
    pipeline = pipeline_of(recipe_of(params), reporter, stages=stages)
    if not pipeline.quantized_build:
        raise UsageError(
            "The build is not quantized: no layer of it can be lifted.",
            remedy="Build with quantization.",
        )
    return pipeline


def quantized_of(pipeline: Pipeline) -> Quantized:
    """The result of a pipeline's quantization as the rooms take it."""
    from engine.quantize import Quantized

    done = pipeline.quantized
    return Quantized(done.graph.graph, done.table, pipeline.reference, done.findings)


def _plain(settings: QuantizeSettings) -> QuantizeSettings:
    """The settings without any choice of layers and ranges."""
    from dataclasses import replace

    return replace(settings, layers={}, ranges={})


def _trials(pipeline: Pipeline) -> Trials:
    """Trials of a model, kept warm: a toggle needs neither samples nor float results again."""
    from engine.hybrid import Trials, some_of

    settings = _plain(pipeline.quantize_settings())
    key = f"trials {pipeline.calibration.key} {settings}"
    kept: Trials | None = KEPT.get(key)
    if kept is None:
        feeds = some_of(pipeline.feeds())
        graph = pipeline.optimised.graph.graph
        seen = pipeline.calibration.observations
        kept = Trials(graph, seen, settings, feeds, everything=pipeline.feeds)
        weight = sum(array.nbytes for feed in feeds for array in feed.values())
        KEPT.put(key, kept, weight)
    kept.reporter = pipeline.reporter
    return kept


class _Stage:
    """Tells the last stage of a job, and takes its time."""

    def __init__(self, pipeline: Pipeline, name: str, title: str) -> None:
        self._pipeline, self._name, self._title = pipeline, name, title

    def __enter__(self) -> None:
        self._begun = time.perf_counter()
        count = len(self._pipeline.stages)
        self._pipeline.reporter.emit(StageStarted(self._name, self._title, count - 1, count))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            seconds = round(time.perf_counter() - self._begun, 4)
            self._pipeline.reporter.emit(StageFinished(self._name, seconds))


def effect(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """What other layers and ranges than a build's would do to its outputs.

    Args:
        params: ``recipe`` of the build; ``layers`` {tensor: dtype} and ``ranges`` {tensor: [low,
            high]} in the place of its own.
        reporter: told of the stages, asked whether to stop.

    Returns:
        ``outputs`` [{name, sqnr_db, before_db}], ``honoured`` [{tensor, kind, asked, got, ok,
        why}], ``seconds``; simulated over the first calibration samples.
    """
    from engine.hybrid import verify

    pipeline = _quantizing(params, reporter, "effect")
    own = pipeline.quantize_settings()
    layers = pipeline.by_tensor(layers_of(params))
    ranges = pipeline.by_tensor(ranges_of(params))
    trials = _trials(pipeline)
    begun = time.perf_counter()
    with _Stage(pipeline, "effect", "Try the choice of layers"):
        before = trials.run(own.layers, own.ranges)
        after = trials.run(layers, ranges)
        rows = verify(trials.build(layers, ranges), layers, ranges)
    return {
        "outputs": after.outputs(before),
        "honoured": [row.to_json() for row in rows],
        "seconds": round(time.perf_counter() - begun, 4),
        "samples": len(trials.feeds),
        "label": "simulated",
    }


def layers_of(params: Mapping[str, Any]) -> dict[str, str]:
    """``layers`` of a request.

    Raises:
        UsageError: it is no mapping of tensor to dtype.
    """
    given = params.get("layers") or {}
    if not isinstance(given, Mapping) or not all(isinstance(v, str) for v in given.values()):
        raise UsageError("layers is an object of tensor -> dtype.")
    return {str(name): dtype for name, dtype in given.items()}


def ranges_of(params: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """``ranges`` of a request.

    Raises:
        UsageError: it is no mapping of tensor to two numbers that make a range with 0 in it.
    """
    from engine.quantize.checks import check_range

    given = params.get("ranges") or {}
    if not isinstance(given, Mapping):
        raise UsageError("ranges is an object of tensor -> [minimum, maximum].")
    found: dict[str, tuple[float, float]] = {}
    for name, span in given.items():
        shown = printable(str(name), 120)
        try:
            low, high = (float(end) for end in span)
        except (TypeError, ValueError):
            raise UsageError(f"The range of {shown!r} is not two numbers.") from None
        fault = check_range(low, high)
        if fault:
            raise UsageError(f"The range of {shown!r} cannot be used: {fault}")
        found[str(name)] = (low, high)
    return found


def propose(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Layers to lift: ``layers`` {tensor: dtype} and ``ranking``; see engine.hybrid.proposal."""
    from engine.hybrid import Layers, noise_samples, some_of
    from engine.hybrid import propose as propose_layers

    pipeline = _quantizing(params, reporter, "quantize", "propose")
    budget = None if params.get("budget") is None else whole_of(params, "budget", 1, 1, 100_000)
    quantized = quantized_of(pipeline)
    with _Stage(pipeline, "propose", "Weigh every rounding"):
        count = whole_of(params, "samples", noise_samples(Layers(quantized.reference)), 1, 1000)
        found = propose_layers(
            quantized,
            some_of(pipeline.feeds(), count),
            dtype=dtype_to_lift(params, pipeline),
            budget=budget,
            reporter=reporter,
        )
    return found.to_json()


def search(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Find the layers to lift or lower; see :mod:`engine.hybrid.search`.

    Args:
        params: ``recipe``; ``floor_db`` (a number, or output -> number), ``budget``, ``dtype``,
            ``lower``, ``seconds``.
        reporter: gets the curve's points as ``Partial("hybrid.curve")``, may pause, stop, or ask
            for the best so far.

    Returns:
        ``best`` {layers, outputs, ...}, ``curve`` [point], ``reached``, ``ended``, ``trials``.
    """
    from engine.hybrid import search as find

    pipeline = _quantizing(params, reporter, "search")
    wish = _wish(params, pipeline.quantize_settings(), dtype_to_lift(params, pipeline))
    trials = _trials(pipeline)
    with _Stage(pipeline, "search", "Search the layers that matter"):
        return find(trials, wish).to_json()


def dtype_to_lift(params: Mapping[str, Any], pipeline: Pipeline) -> str:
    """The dtype of lifted layers: as asked, else half precision by the name of its generation.

    Raises:
        UsageError: none is asked for, and the target has no half precision for single layers.
    """
    from engine.hybrid import lift_dtype

    target = pipeline.recipe.target.target_platform
    dtype = str(params.get("dtype") or lift_dtype(pipeline.quantize_settings().dtype, target))
    if not dtype:
        raise UsageError(
            f"{target} has no half precision that layers could be lifted to.",
            cause="Its chips compute in integers only.",
            remedy="Choose another target, or none to simulate.",
        )
    return dtype


def _wish(params: Mapping[str, Any], own: QuantizeSettings, dtype: str) -> SearchWish:
    from engine.hybrid import SearchWish

    floor = params.get("floor_db")
    if isinstance(floor, Mapping):
        floor = {str(name): _number(value, "floor_db") for name, value in floor.items()}
    elif floor is not None:
        floor = _number(floor, "floor_db")
    seconds = params.get("seconds")
    return SearchWish(
        floor_db=floor,
        budget=None if params.get("budget") is None else whole_of(params, "budget", 1, 1, 100_000),
        dtype=dtype,
        lower=bool(params.get("lower")),
        seconds=None if seconds is None else _number(seconds, "seconds"),
        layers=own.layers,
        ranges=own.ranges,
    )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} is a number.")
    return float(value)


def joins(params: dict[str, Any]) -> dict[str, Any]:
    """Joins of unlike ranges of a recipe's model: ``findings``, with figures once calibrated."""
    found = find_all_joins(pipeline_of(recipe_of(params)))
    return {"findings": [finding.to_dict() for finding in found]}


def find_all_joins(pipeline: Pipeline) -> Sequence[Finding]:
    """Joins of unlike ranges, by the calibration where it is there, else by the structure."""
    from engine.hybrid import find_joins, lift_dtype

    recipe = pipeline.recipe
    seen = pipeline.calibration.observations if pipeline.is_calibrated else None
    return find_joins(
        pipeline.optimised.graph.graph,
        seen,
        source=pipeline.loaded.graph.graph,
        outputs=recipe.source.outputs,
        layers=pipeline.by_tensor(recipe.quantization.quantized_layers or {}),
        dtype=lift_dtype(recipe.quantization.quantized_dtype, recipe.target.target_platform),
    )
