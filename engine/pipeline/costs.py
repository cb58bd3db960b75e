"""What a build costs on the chips: estimates and checks as they are told, and choices of layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.base.errors import EngineError, UsageError
from engine.cost.sizes import input_sizes, read_sizes
from engine.hybrid.noise_model import ChoiceCost
from engine.pipeline.calibrated import apply, calibration, kept_calibrations, measured_of, save
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stages.estimate import cost_inputs, estimate_stage
from engine.wire.cost import (
    AdviceAnswer,
    Calibrated,
    CheckAnswer,
    ChipCheck,
    ChipEstimate,
    Estimates,
    WhatIf,
)

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.cost import ChipEstimate
    from engine.wire.hybrid import LayerRow


def estimates(
    pipeline: Pipeline,
    what_if: WhatIf,
    *,
    layers: bool = True,
    spans: bool = False,
    calibrated: bool = True,
) -> Estimates:
    """What the pipeline's model costs on the chips asked for.

    Args:
        pipeline: of the recipe.
        what_if: what to vary.
        layers, spans: whether each chip's layers, and its memory over time, are in the answer.
        calibrated: whether runs of the user's boards correct the times.

    Raises:
        EngineError: the model cannot be loaded, or has a shape that is not fixed; a chip or dtype
            is not known.
    """
    asked = pipeline.with_stage(estimate_stage(what_if))
    # what the stage takes is there before the clock starts
    _ = asked.loaded.graph.graph, asked.optimised.graph.graph
    begun = time.perf_counter()
    raw = asked.get(estimate_stage(what_if)).chips
    kept = kept_calibrations() if calibrated else {}
    chips = tuple(_told(apply(estimate, kept), layers=layers, spans=spans) for estimate in raw)
    seconds = round(time.perf_counter() - begun, 4)
    return Estimates(pipeline.source.path.name, chips, seconds)


def _told(estimate: ChipEstimate, *, layers: bool, spans: bool) -> ChipEstimate:
    memory = estimate.memory
    if memory is not None and not spans:
        memory = replace(memory, spans=())
    return replace(estimate, memory=memory, layers=estimate.layers if layers else ())


def check(pipeline: Pipeline, chips: Sequence[str], dtype: str | None = None) -> CheckAnswer:
    """Which layers do not run on the NPU of each chip, why, and what to do.

    Raises:
        EngineError: as :func:`estimates`.
    """
    answer = estimates(pipeline, WhatIf(tuple(chips), dtype, batch=1))
    return CheckAnswer(answer.model, tuple(map(_check_of, answer.chips)))


def _check_of(estimate: ChipEstimate) -> ChipCheck:
    rows = tuple(
        row
        for row in estimate.layers
        # a reason without another target: what the NPU of generation 1 computes slowly
        if (row.target != "NPU" or row.reason) and row.op not in ("InputOperator", "OutputOperator")
    )
    return ChipCheck(
        estimate.chip,
        estimate.generation,
        estimate.dtype,
        npu_layers=estimate.npu_layers,
        cpu_layers=estimate.cpu_layers,
        refused_layers=estimate.refused_layers,
        rows=rows,
        problem=estimate.problem,
        unknown_layers=estimate.unknown_layers,
        warnings=estimate.warnings,
    )


def advice(
    pipeline: Pipeline, chip: str, dtype: str | None = None, npu_mhz: float | None = None
) -> AdviceAnswer:
    """Ways to make the model faster on a chip, the largest gain first.

    Raises:
        EngineError: as :func:`estimates`.
    """
    from engine.cost.estimate import advice as advise

    inputs = cost_inputs(pipeline, WhatIf((chip,), dtype, batch=1, npu_mhz=npu_mhz))
    estimate, advices = advise(pipeline.loaded.graph.graph, chip, *inputs)
    if estimate.problem:
        raise UsageError(estimate.problem, remedy=estimate.remedy)
    kept = kept_calibrations()
    factor = kept[chip].factor if chip in kept else 1.0
    rows = tuple(
        replace(advised, gain_ms=None if advised.gain_ms is None else advised.gain_ms * factor)
        for advised in advices
    )
    time_ms = apply(estimate, kept).time_ms
    return AdviceAnswer(chip, None if time_ms is None else time_ms.value, rows)


def calibrate(pipeline: Pipeline, run: str | None = None) -> Calibrated:
    """Correct the estimates of a chip by a measured run of this model, and keep that.

    Args:
        pipeline: of the recipe that the measured model was compiled from.
        run: the id of the run; None: the newest of a model of this name.

    Raises:
        EngineError: there is no such run, it does not fit, or it cannot be kept.
    """
    name = pipeline.source.path.name
    measured = measured_of(run, pipeline.source.path.stem)
    what_if = WhatIf(
        (measured.chip,),
        batch=measured.batch,
        cores=measured.cores,
        npu_mhz=measured.npu_mhz,
    )
    estimated = estimates(pipeline, what_if, calibrated=False).chips[0]
    kept_ratio = calibration(measured, estimated, name)
    save(kept_ratio)
    return kept_ratio


def resized(pipeline: Pipeline, sizes: Sequence[str]) -> Pipeline:
    """The pipeline of a model whose inputs have other sizes.

    Args:
        pipeline: of the recipe.
        sizes: as of :func:`engine.cost.sizes.input_sizes`.

    Raises:
        UsageError: a text is no size, or names no input.
    """
    if not sizes:
        return pipeline
    given = read_sizes(sizes)
    recipe = pipeline.recipe
    try:
        shapes = {spec.name: spec.shape for spec in pipeline.loaded.graph.graph.inputs}
    except EngineError:
        if recipe.source.inputs is None:  # dynamic: the sizes given are all that is known
            named = list(given) if "" not in given else None
            size_list = [list(size) for size in given.values()]
            return pipeline.with_recipe(recipe.with_values(inputs=named, input_size_list=size_list))
        shapes = {}
    if not shapes:
        shapes = dict.fromkeys(recipe.source.inputs or (), ())
    sized = input_sizes(sizes, shapes)
    return pipeline.with_recipe(recipe.with_values(input_size_list=[*map(list, sized.values())]))


# What choices of hybrid quantization cost on the recipe's chip (estimated).


class EstimatedCosts:
    """Estimates of a recipe's model with other choices, each made once.

    Nothing is kept on disk: a search asks for many that nobody asks for again.

    Args:
        pipeline: of the recipe.
        chip: that it is built for.
    """

    def __init__(self, pipeline: Pipeline, chip: str) -> None:
        self.chip = chip
        self._pipeline = pipeline
        self._known: dict[frozenset[tuple[str, str]], ChipEstimate | None] = {}

    def estimate(self, choices: Mapping[str, str]) -> ChipEstimate | None:
        """With these dtypes, layers included; None where there is none."""
        key = frozenset(choices.items())
        if key not in self._known:
            self._known[key] = self._estimate(choices)
        return self._known[key]

    def of(self, choices: Mapping[str, str]) -> ChoiceCost | None:
        """As of :class:`engine.hybrid.noise_model.ChoiceCosts`."""
        estimate = self.estimate(choices)
        if estimate is None or estimate.time_ms is None or estimate.memory is None:
            return None
        return ChoiceCost(estimate.time_ms.value, estimate.memory.total)

    def _estimate(self, choices: Mapping[str, str]) -> ChipEstimate | None:
        try:
            estimate = self._again(choices)
        except EngineError:  # hybrid quantization goes on without figures of time
            return None
        return None if estimate.problem else estimate

    @cached_property
    def _again(self) -> Callable[[Mapping[str, str]], ChipEstimate]:
        """What does not depend on a choice is done once: a search asks for hundreds.

        ``layer.id`` -> dtype, of the layers that differ -> the estimate, calibrated; the recipe's
        batch counts.
        """
        from engine.cost.estimate import repeated

        settings, layers = cost_inputs(self._pipeline, WhatIf((self.chip,)))
        again = repeated(self._pipeline.loaded.graph.graph, self.chip, settings, layers)
        kept = kept_calibrations()
        return lambda chosen: apply(again(chosen), kept)


def costs_of(pipeline: Pipeline) -> EstimatedCosts | None:
    """The costs on the recipe's chip; None where the recipe names none."""
    chip = pipeline.recipe.target.target_platform
    return None if chip is None else EstimatedCosts(pipeline, chip)


def with_costs(
    rows: Sequence[LayerRow], costs: EstimatedCosts, built: Mapping[str, str], dtype: str
) -> tuple[LayerRow, ...]:
    """The rows of the hybrid table with what each layer costs.

    What promoting a layer adds is the difference of its own rows in two estimates, of the build and
    of all layers promoted. Conversions between dtypes, which depend on the neighbours, are not in.

    Args:
        rows: without costs.
        costs: of their recipe.
        built: ``layer.id`` -> dtype as the build has it.
        dtype: of promoted layers; empty where the chip has none.
    """
    now = costs.estimate(built)
    if now is None:
        return tuple(rows)
    every = {row.id: dtype for row in rows if dtype in row.choices}
    lifted = costs.estimate(every) if every else None
    own, more = _by_layer(now), {} if lifted is None else _by_layer(lifted)
    return tuple(_with(row, own.get(row.id), more.get(row.id), dtype) for row in rows)


_Figures = tuple[float, int, str]
"""ms, bytes of weights, place."""


def _by_layer(estimate: ChipEstimate) -> dict[str, _Figures]:
    figures: dict[str, _Figures] = {}
    for row in estimate.layers:
        if row.op in ("InputOperator", "OutputOperator", "exDataConvert"):
            continue
        time, weights, place = figures.get(row.id, (0.0, 0, row.target))
        place = place if place != "NPU" else row.target
        figures[row.id] = (time + row.time_ms, weights + row.weight_bytes, place)
    return figures


def _with(row: LayerRow, own: _Figures | None, more: _Figures | None, dtype: str) -> LayerRow:
    if own is None:
        return row  # it is fused into another layer, or removed
    costed = replace(row, time_ms=own[0], target=own[2])
    if more is None or row.dtype == dtype or dtype not in row.choices:
        return costed
    return replace(costed, promote_ms=more[0] - own[0], promote_bytes=more[1] - own[1])
