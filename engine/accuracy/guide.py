"""The manual's procedure for finding lost accuracy, as data: steps, when each is due, verdicts.

Sources: [RKNN-T2 1.1.0, 3.6], [RKNN-TS 1.4.0, 2] (docs/references.md). Steps without a source are
ours. Rule of both manuals: a later stage is not begun while an earlier one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from engine.wire.guide import Verdict

Fact = Literal[
    "always",
    "float wrong",
    "float right",
    "quantized short",
    "per layer",
    "before kl_divergence",
    "before mmse",
    "before accurate",
    "board due",
]
"""What must hold for a step to be due; who runs the steps finds out."""

GOOD = 0.99
"""From this cosine on two results agree [RKNN-T2 1.1.0, 3.6.1.1]."""
FAIR = 0.98
"""Below this cosine a result is taken as wrong [RKNN-T2 1.1.0, 3.6.1.1]."""

STAGES = {"A": "Float", "B": "Quantized", "C": "Board"}


@dataclass(frozen=True)
class Step:
    """One step of the procedure.

    Attributes:
        id: stable name, stage first.
        title: what is done, in a few words.
        why: what it tells.
        due: what must hold for it to be worth running.
        source: where the manuals have it; empty for ours.
    """

    id: str
    title: str
    why: str
    due: Fact
    source: str = ""

    @property
    def stage(self) -> str:
        """``A Float``, ``B Quantized`` or ``C Board``."""
        return f"{self.id[0]} {STAGES[self.id[0]]}"


STEPS: tuple[Step, ...] = (
    Step(
        "A1",
        "Float16 against the source model",
        "the quantized model cannot be better than the float one",
        "always",
        "RKNN-T2 1.1.0, 3.6.1.1",
    ),
    Step(
        "A2",
        "Check the configuration of the inputs",
        "mean, std, channel order and layout are the usual causes of wrong float results",
        "float wrong",
        "RKNN-T2 1.1.0, 3.6.1.1",
    ),
    Step(
        "A3",
        "Outputs at optimization levels 0 to 3",
        "a pass that changes results shows at the first level that runs it",
        "float wrong",
        "RKNN-T2 1.1.0, 3.6.1.1",
    ),
    Step(
        "B1",
        "Quantize and compare",
        "shows the loss with the current settings",
        "float right",
        "RKNN-T2 1.1.0, 3.6.1.2.1",
    ),
    Step(
        "B2.1",
        "Quantized dtype",
        "the dtype limits the accuracy of every method",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.1",
    ),
    Step(
        "B2.2",
        "Channel order of the calibration images",
        "images in the wrong channel order give ranges that do not match the deployed inputs",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.1",
    ),
    Step(
        "B2.3",
        "Calibrate with the probe sample only",
        "if this is much better, the calibration set does not represent the probe",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.1",
    ),
    Step(
        "B2.4",
        "Number of calibration samples",
        "one or two samples do not cover the value ranges of real inputs",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.1",
    ),
    Step(
        "B2.5",
        "Concat with mismatched ranges",
        "boxes and scores in one tensor share one scale",
        "quantized short",
    ),
    Step(
        "B3.1",
        "Weights per channel",
        "improves accuracy at almost no cost",
        "per layer",
        "RKNN-T2 1.1.0, 3.6.1.2.2",
    ),
    Step(
        "B3.2",
        "Ranges by kl_divergence",
        "helps when there are outliers",
        "before kl_divergence",
        "RKNN-T2 2.3.0, 2.2",
    ),
    Step(
        "B3.3",
        "Ranges by mmse",
        "takes longer to build, runs as fast",
        "before mmse",
        "RKNN-T2 1.1.0, 3.6.1.2.2",
    ),
    Step(
        "B3.4",
        "Algorithm accurate",
        "equalization, learned rounding and ranges optimised against the output error",
        "before accurate",
    ),
    Step(
        "B4.1",
        "Rank the layers",
        "the isolated error separates layers that cause error from layers that inherit it",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.2",
    ),
    Step(
        "B4.2",
        "Promote the worst layers to float16",
        "a few layers often cause most of the error",
        "quantized short",
        "RKNN-T2 1.1.0, 3.6.1.2.2; RKNN-TS 1.4.0, 2",
    ),
    Step(
        "B5",
        "Without quantization, or trained with it",
        "the last resort when neither methods nor promoted layers suffice",
        "quantized short",
    ),
    Step(
        "C1",
        "Compare with a board",
        "the simulator is not the hardware",
        "board due",
        "RKNN-T2 1.1.0, 3.6.2",
    ),
)
"""All steps in their order."""


def cosine_verdict(cosine: float) -> Verdict:
    """The verdict on a cosine similarity; NaN fails."""
    if cosine >= GOOD:
        return "pass"
    return "warning" if cosine >= FAIR else "fail"


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; ``pass`` of none."""
    order: tuple[Verdict, ...] = ("fail", "warning", "pass")
    present = set(verdicts)
    return next((verdict for verdict in order if verdict in present), "pass")


def next_step(done: Collection[str], holds: Callable[[Fact], bool]) -> Step | None:
    """The first step that was not done and is due; None at the end.

    Args:
        done: ids of steps.
        holds: whether a fact holds; asked in the order of the steps, each time anew.
    """
    return next((step for step in STEPS if step.id not in done and holds(step.due)), None)
