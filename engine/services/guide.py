"""The job ``guide``: runs the next step of the accuracy procedure, and names the one after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from engine.accuracy.guide import STEPS, Fact, Step, next_step
from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir.arrays import read_npy
from engine.pipeline.board import BoardChoice
from engine.recipe import Recipe
from engine.services.guide_board import BOARD_CHECKS
from engine.services.guide_float import FLOAT_CHECKS, float_verdict
from engine.services.guide_probe import Check, Probe
from engine.services.guide_quantized import QUANTIZED_CHECKS, quantized_verdict
from engine.services.handler import runs
from engine.services.state import get_pipeline, recipe_of
from engine.wire.guide import GUIDE, Answer, GuideParams, NextStep
from engine.wire.guide import Step as Told

_CHECKS: Mapping[str, Check] = {**FLOAT_CHECKS, **QUANTIZED_CHECKS, **BOARD_CHECKS}
_ALGORITHMS = ("normal", "kl_divergence", "mmse", "accurate")


@runs(GUIDE)
def guide(params: GuideParams, reporter: Reporter) -> Answer:
    """Run one step.

    Raises:
        UsageError: ``done`` names no steps, or the model is not quantized and was not meant to be.
    """
    recipe = recipe_of(params.recipe)
    known = [step.id for step in STEPS]
    done = params.done or ()
    if not set(done) <= set(known):
        raise UsageError(f"done is a list of steps, of {', '.join(known)}.")
    if not recipe.dataset.dataset:
        raise UsageError(
            "The accuracy guide needs samples, and no dataset is set.",
            remedy="Set dataset to a dataset.txt or a folder of images.",
        )
    pipeline = get_pipeline(recipe, reporter, last="")
    probe = Probe(pipeline, _reference(params.reference), _board(params))
    holds = _facts(recipe, probe)
    step = _asked(params.step, known) or next_step(done, holds)
    if step is None:
        return Answer(None, None, len(STEPS))
    with probe.pipeline.step("guide", step.title):
        outcome = _CHECKS[step.id](probe)
    after = next_step([*done, step.id], holds)
    then = None if after is None else NextStep(after.id, after.title, after.why)
    facts = Told(
        id=step.id,
        stage=step.stage,
        title=step.title,
        source=step.source,
        did=outcome.did,
        found=outcome.found,
        verdict=outcome.verdict,
        advice=outcome.advice,
        changes=outcome.changes,
    )
    return Answer(facts, then, len(STEPS))


def _asked(step: str | None, known: list[str]) -> Step | None:
    if step is None:
        return None
    if step not in known:
        raise UsageError(
            f"The guide has no step {sanitize(step, 40)}.",
            remedy=did_you_mean(step, known) or f"It has {', '.join(known)}.",
        )
    return STEPS[known.index(step)]


def _facts(recipe: Recipe, probe: Probe) -> Callable[[Fact], bool]:
    options = recipe.quantization
    algorithm = options.quantized_algorithm
    place = _ALGORITHMS.index(algorithm) if algorithm in _ALGORITHMS else 0

    def holds(fact: Fact) -> bool:
        if fact == "always":
            return True
        if fact in ("float wrong", "float right"):
            return (float_verdict(probe) == "fail") == (fact == "float wrong")
        if fact == "board due":
            board = probe.board is not None and quantized_verdict(probe) == "fail"
            return not board and float_verdict(probe) != "fail"
        if float_verdict(probe) == "fail" or quantized_verdict(probe) == "pass":
            return False
        if fact == "quantized short":
            return True
        if fact == "per layer":
            return options.quantized_method == "layer"
        return place < _ALGORITHMS.index(fact.removeprefix("before "))

    return holds


def _board(params: GuideParams) -> BoardChoice | None:
    """The board of stage C, where one is named."""
    if params.device is None and params.compiled is None:
        return None
    return BoardChoice(
        params.device, compiled=None if params.compiled is None else Path(params.compiled)
    )


def _reference(paths: Sequence[str] | None) -> list[np.ndarray] | None:
    """The user's outputs of the original framework.

    Raises:
        UsageError: one of the npy files cannot be read.
    """
    if paths is None:
        return None
    arrays = []
    for path in paths:
        try:
            arrays.append(read_npy(Path(path)))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The reference {sanitize(path)} could not be read: {sanitize(str(error), 200)}",
                remedy="Save every output of the original framework with numpy.save.",
            ) from error
    return arrays
