"""Stage C of the accuracy guide: the board [RKNN-T2 1.1.0, 3.6.2]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.accuracy.guide import StepResult, cosine_verdict, worst_verdict
from engine.base.errors import ContainerError, DeviceError, UsageError
from engine.pipeline.board import compare_on_board
from engine.pipeline.layers import require_comparable
from engine.report import sqnr_text
from engine.services.guide_probe import Check, Probe
from engine.wire.guide import StepFinding, Verdict

if TYPE_CHECKING:
    from engine.accuracy.three_way import LayerOnBoard
    from engine.pipeline.board import OnBoard

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
            "Name one: `rknntui accuracy MODEL --guide --device DEVICE`, or use one in "
            "the workspace Devices. " + _PROGRAM,
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
