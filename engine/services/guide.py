"""The job ``guide``: runs the next step of the accuracy procedure, and names the one after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.accuracy.guide import STEPS, Fact, Step, cosine_verdict, next_step, worst_verdict
from engine.base.errors import ContainerError, DeviceError, UsageError
from engine.base.events import Reporter
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir.arrays import read_npy
from engine.pipeline.board import BoardChoice, compare_on_board
from engine.pipeline.layers import require_comparable
from engine.recipe import Recipe
from engine.report import sqnr_text
from engine.services.guide_float import FLOAT_CHECKS, float_verdict
from engine.services.guide_probe import Check, Probe
from engine.services.guide_quantized import QUANTIZED_CHECKS, quantized_verdict
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_of
from engine.wire.guide import GUIDE, Answer, GuideParams, NextStep, StepFinding, StepResult, Verdict
from engine.wire.guide import Step as Told

if TYPE_CHECKING:
    from engine.accuracy.three_way import LayerOnBoard
    from engine.pipeline.board import OnBoard

# Stage C of the accuracy guide: the board [RKNN-T2 1.1.0, 3.6.2].

_PROGRAM = (
    "Where your own program on the board gives other results, search there: use exactly the same "
    "npy, and check colour order, layout, want_float, scale and the code behind the outputs."
)
_RUNTIME = (
    "Update the board's runtime library and driver to the newest versions (`rknntui doctor "
    "--device` has them), and see which layers run on the CPU (`rknntui perf --layers`). What is "
    "left is a fault of runtime or compiler: the vendor asks for the model and this analysis."
)


def _c1(probe: Probe) -> StepResult:
    if probe.board is None:
        return StepResult(
            "Not run: no board was named.",
            (StepFinding("board", "not named"),),
            "told",
            "Name one: `rknntui accuracy MODEL --guide --device DEVICE`, or choose one "
            "as the target's board in the workbench. " + _PROGRAM,
        )

    require_comparable(probe.pipeline)
    try:
        comparison = compare_on_board(probe.pipeline, probe.feeds[0], probe.board)
    except (ContainerError, DeviceError, UsageError) as error:
        advice = error.advice
        return StepResult(
            "Tried to run the layers on the board.",
            (StepFinding("board", error.what, "warning"),),
            "warning",
            advice,
        )
    return _result(comparison)


def _result(comparison: OnBoard) -> StepResult:
    head = comparison.head
    did = (
        f"Ran the first sample on {head.device} ({head.chip}, {head.label}) and compared "
        f"{len(comparison.layers)} layers with the simulator, each on the board's own inputs."
    )
    findings = [StepFinding("runtime, driver", f"{head.runtime or '?'}, {head.driver or '?'}")]
    apart = [layer for layer in comparison.layers if layer.diverges]
    findings += [
        StepFinding(layer.row.layer, _words(layer), _verdict(layer)) for layer in apart[:5]
    ]
    if comparison.missing:
        findings.append(StepFinding("not given by the board", f"{len(comparison.missing)} layers"))
    if not apart:
        findings.append(StepFinding("layers", comparison.verdict, "pass"))
        return StepResult(did, tuple(findings), "pass", _PROGRAM)
    # what is left of it behind the last layers decides how bad it is
    verdict = worst_verdict(("warning", _verdict(comparison.layers[-1])))
    return StepResult(did, tuple(findings), verdict, f"{comparison.verdict} {_RUNTIME}")


def _verdict(layer: LayerOnBoard) -> Verdict:
    """By the cosine of board and simulator."""
    cosine = layer.between.cosine
    return worst_verdict(
        ("warning", "fail" if cosine is None else cosine_verdict(cosine))
        if layer.diverges
        else (cosine_verdict(cosine or 0.0),)
    )


def _words(layer: LayerOnBoard) -> str:
    steps = "" if layer.own_steps is None else f", up to {layer.own_steps:.3g} steps"
    sqnr = None if layer.own is None else layer.own.sqnr
    return f"by itself {sqnr_text(sqnr)} from the simulator{steps}"


BOARD_CHECKS: Mapping[str, Check] = {"C1": _c1}
"""Step -> what it runs."""


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
        **vars(outcome),
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
