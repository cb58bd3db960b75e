"""Answers of the worker about chips: their facts, and what a model costs on them (estimated)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.cost.chips import chips_named, known_chips
from engine.pipeline.costs import advice as advise
from engine.pipeline.costs import calibrate as calibrated
from engine.pipeline.costs import check as checked
from engine.pipeline.costs import estimates, resized
from engine.pipeline.goals import ways_to_rate
from engine.services.registry import answers
from engine.services.state import get_pipeline, load_directly, recipe_at
from engine.wire.cost import (
    COST_ADVICE,
    COST_CALIBRATE,
    COST_CHECK,
    COST_CHIPS,
    COST_ESTIMATE,
    AdviceAnswer,
    AdviceParams,
    Calibrated,
    CalibrateParams,
    CheckAnswer,
    Chips,
    ChipsParams,
    CostCheckParams,
    EstimateParams,
    Estimates,
)
from engine.wire.goal import COST_WAYS, Ways, WaysParams
from engine.wire.requests import ModelTarget

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline


@answers(COST_CHIPS)
def chips(params: ChipsParams) -> Chips:
    """What is known of each chip.

    Raises:
        UsageError: a chip is not known.
    """
    return Chips(known_chips(params.chips))


@answers(COST_ESTIMATE)
def estimate(params: EstimateParams) -> Estimates:
    """What a model costs on the chips asked for.

    Raises:
        EngineError: the model cannot be loaded at once, or has a shape that is not fixed; a chip or
            a dtype is not known.
    """
    named = tuple(chip.name for chip in chips_named(params.chips))
    pipeline = _pipeline(params, params.input_sizes)
    return estimates(
        pipeline, replace(params, chips=named), layers=params.layers, spans=params.spans
    )


@answers(COST_CHECK)
def check(params: CostCheckParams) -> CheckAnswer:
    """Which layers do not run on the NPU of each chip asked for, why, and what to do.

    Raises:
        EngineError: as of :func:`estimate`.
    """
    named = tuple(chip.name for chip in chips_named(params.chips))
    pipeline = _pipeline(params, params.input_sizes)
    return checked(pipeline, named, params.dtype)


@answers(COST_ADVICE)
def advice(params: AdviceParams) -> AdviceAnswer:
    """Ways to make a model faster on a chip.

    Raises:
        UsageError: no chip is named, or none of that name is known.
        EngineError: as of :func:`estimate`.
    """
    pipeline = _pipeline(params, params.input_sizes)
    name = params.chip or pipeline.recipe.target.target_platform
    if name is None:
        raise UsageError(
            "Advice is for one chip, and none is named.",
            remedy="Name a chip, or set target_platform.",
        )
    return advise(pipeline, chips_named((name,))[0].name, params.dtype, params.npu_mhz)


@answers(COST_WAYS)
def ways(params: WaysParams) -> Ways:
    """What the chips need that do not reach a frame rate for sure.

    Raises:
        EngineError: as of :func:`estimate`.
    """
    named = tuple(chip.name for chip in chips_named(params.chips))
    pipeline = _pipeline(params, params.input_sizes)
    return ways_to_rate(pipeline, replace(params, chips=named), params.fps)


@answers(COST_CALIBRATE)
def calibrate(params: CalibrateParams) -> Calibrated:
    """Correct the estimates of a chip by a measured run, from now on.

    Raises:
        UsageError: there is no such run, or it does not fit the model.
        EngineError: as of :func:`estimate`.
    """
    return calibrated(_pipeline(params), params.run)


def _pipeline(params: ModelTarget, sizes: tuple[str, ...] = ()) -> Pipeline:
    """The pipeline of a request; its model is there already unless it is to have other sizes."""
    pipeline = get_pipeline(recipe_at(params), last="estimate")
    if not sizes:
        _ = load_directly(pipeline)
    return resized(pipeline, sizes)
