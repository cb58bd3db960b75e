"""The accuracy guide, a step a job."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from engine.base.plain import Values
from engine.wire.codec import Text
from engine.wire.flags import Flag
from engine.wire.method import Task
from engine.wire.record import record

Verdict = Literal["pass", "warning", "fail", "told"]


@record
class GuideParams:
    """The step to run.

    Attributes:
        done: ids of the steps that ran.
        step: the one to run, where it is not the next.
        compiled: what runs on the board, see :class:`engine.wire.compare.CompareParams`.
    """

    recipe: Values
    done: tuple[str, ...] | None = None
    step: str | None = None
    reference: Annotated[
        tuple[Text, ...] | None,
        Flag(
            help="With --guide: an npy with an output of the original framework for the first "
            "sample of the dataset; once per output.",
            kind="file",
        ),
    ] = None
    device: Annotated[
        str | None,
        Flag(help="With --guide: the board that its last stage compares with.", metavar="DEVICE"),
    ] = None
    compiled: Annotated[
        Text | None,
        Flag(
            help="With --device, for a real board: the model compiled from `export --layers`.",
            kind="file",
        ),
    ] = None


@record
class StepFinding:
    """One thing that a step found."""

    label: str
    value: str
    verdict: Verdict = "told"


@record
class StepResult:
    """What a step did and found.

    Attributes:
        did: what ran, on what.
        found: in the order of weight.
        verdict: of the step.
        advice: what to do now; ``changes``: option -> value that does it.
    """

    did: str
    found: tuple[StepFinding, ...]
    verdict: Verdict
    advice: str = ""
    changes: Values = field(default_factory=dict)


@record(kw_only=True)
class Step(StepResult):
    """A step that ran; ``source``: where the manuals have it."""

    id: str
    stage: str
    title: str
    source: str


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


GUIDE = Task("guide", GuideParams, Answer, "accuracy --guide")
