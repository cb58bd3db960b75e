"""The accuracy guide, a step a job."""

from __future__ import annotations

from typing import Literal

from engine.wire.codec import Text, Values
from engine.wire.method import Task
from engine.wire.record import record

__all__ = ["GUIDE", "Answer", "GuideParams", "NextStep", "Step", "StepFinding", "Verdict"]

Verdict = Literal["pass", "warning", "fail", "told"]


@record
class GuideParams:
    """The step to run.

    Attributes:
        done: ids of the steps that ran.
        step: the one to run, where it is not the next.
        reference: npy files with the outputs of the original framework for the first calibration
            sample, one for each output.
        device: the board of stage C; None: the stage says how to name one.
        compiled: what runs there, see :class:`engine.wire.compare.CompareParams`.
    """

    recipe: Values
    done: tuple[str, ...] | None = None
    step: str | None = None
    reference: tuple[Text, ...] | None = None
    device: str | None = None
    compiled: Text | None = None


@record
class StepFinding:
    """One thing that a step found."""

    label: str
    value: str
    verdict: Verdict = "told"


@record
class Step:
    """A step that ran.

    Attributes:
        source: where the manuals have it.
        did: what ran, on what.
        advice: what to do now; ``changes``: option -> value that does it.
    """

    id: str
    stage: str
    title: str
    source: str
    did: str
    found: tuple[StepFinding, ...]
    verdict: Verdict
    advice: str
    changes: Values


@record
class NextStep:
    """The step that is due next, and why."""

    id: str
    title: str
    why: str


@record
class Answer:
    """The step that ran, None where nothing is left; the one after it; how many there are."""

    step: Step | None
    next: NextStep | None
    total: int


GUIDE = Task("guide", GuideParams, Answer)
