"""How far a job is, as its events tell it. Standard library only."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from engine.base.events import (
    ArtifactWritten,
    Event,
    Finished,
    LogLine,
    Partial,
    Progress,
    StageFinished,
    StageStarted,
)
from engine.jobs.history import JobRecord
from engine.wire.formats import DURATION

PARTIALS = 5_000
"""Pieces of a result that are kept, such as points of a search."""

LOG_LINES = 20_000
"""Lines of a log that are kept; all of them stay in the job's file."""

AT_ONCE = 0.05
"""Seconds below which a job is not said to have run so long."""


@dataclass
class StageProgress:
    """One stage; ``seconds`` is None until it ends, ``total`` 0 while unknown, ``begun`` by the
    monotonic clock of this process.

    ``steps`` has the part of its work that counts for itself, as the samples of a folder that
    calibration looks through first.
    """

    name: str
    title: str
    done: int = 0
    total: int = 0
    note: str = ""
    seconds: float | None = None
    cached: bool = False
    begun: float = field(default_factory=time.monotonic)
    steps: dict[str, StageProgress] = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """0..1 of this stage."""
        if self.seconds is not None:
            return 1.0
        return min(1.0, self.done / self.total) if self.total else 0.0


@dataclass
class JobProgress:
    """What is known of one job: give it every event, and ask.

    Attributes:
        state: ``running``, ``done``, ``failed`` or ``cancelled``.
        started: seconds since the epoch.
        params: as its record has them.
        steps: what counts before the next stage begins.
        count: number of stages it announced.
        error: as ``EngineError.to_dict`` gives it.
        partials: pieces of the result that came before its end, in their order.
        told: number of pieces of the result so far, kept or not.
        reached: the most that ``fraction`` was: stages that are announced later take nothing back.
    """

    id: str = ""
    method: str = ""
    title: str = ""
    started: float = 0.0
    params: Mapping[str, object] = field(default_factory=dict)
    state: str = "running"
    stages: dict[str, StageProgress] = field(default_factory=dict)
    steps: dict[str, StageProgress] = field(default_factory=dict)
    count: int = 0
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    logged: int = 0
    artifacts: list[ArtifactWritten] = field(default_factory=list)
    seconds: float | None = None
    error: Mapping[str, str | int] | None = None
    partials: deque[Partial] = field(default_factory=lambda: deque(maxlen=PARTIALS))
    told: int = 0
    reached: float = 0.0

    @classmethod
    def of_record(cls, record: JobRecord, events: Iterable[tuple[float, Event]]) -> Self:
        """A job of the history, by its record and its events."""
        view = cls(record.id, record.method, record.title, record.started, record.params)
        for _, event in events:
            view.apply(event)
        view.state, view.error = record.state, record.error
        return view

    @property
    def recipe(self) -> dict[str, object] | None:
        """The recipe that it is about; None where its record names none."""
        recipe = self.params.get("recipe")
        return dict(recipe) if isinstance(recipe, Mapping) else None

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self.state == "running"

    @property
    def took(self) -> str:
        """How long it ran, as it follows its state; empty while that is not known."""
        if self.seconds is None or self.seconds < AT_ONCE:
            return "" if self.seconds is None else " at once"
        return f" {'in' if self.state == 'done' else 'after'} {DURATION.text(self.seconds)}"

    @property
    def stage(self) -> StageProgress | None:
        """The stage that runs (of one inside another the inner one), or the last one."""
        stages = list(self.stages.values())
        last = stages[-1] if stages else None
        return next((stage for stage in reversed(stages) if stage.seconds is None), last)

    @property
    def fraction(self) -> float:
        """0..1 of the whole job; every stage counts alike."""
        if self.state == "done":
            return 1.0
        total = max(self.count, len(self.stages), 1)
        now = sum(stage.fraction for stage in self.stages.values()) / total
        self.reached = max(self.reached, now)
        return self.reached

    def apply(self, event: Event) -> None:
        """Take one event."""
        match event:
            case StageStarted():
                steps, self.steps = self.steps, {}
                self.stages[event.stage] = StageProgress(event.stage, event.title, steps=steps)
                self.count = event.count or self.count
            case StageFinished():
                stage = self._stage(event.stage)
                stage.seconds, stage.cached = event.seconds, event.cached
            case Progress():
                stage = self._counted(event.stage)
                stage.done, stage.total, stage.note = event.done, event.total, event.note
            case LogLine():
                self.log.append(event)
                self.logged += 1
            case Partial():
                self.partials.append(event)
                self.told += 1
            case ArtifactWritten():
                self.artifacts.append(event)
            case Finished():
                if event.state == "done":
                    self.steps = {}
                self.state, self.seconds, self.error = event.state, event.seconds, event.error

    def _counted(self, name: str) -> StageProgress:
        """What a progress is of: a stage, or a step of the one that runs or comes next.

        Steps follow each other: the one before is over once another one, or the stage, counts.
        """
        stage = self.stage
        if name in self.stages or stage is None:
            counted = self._stage(name)
            counted.steps.clear()
            return counted
        steps = self.steps if stage.seconds is not None else stage.steps
        step = steps.pop(name, None) or StageProgress(name, name)
        steps.clear()
        steps[name] = step
        return step

    def _stage(self, name: str) -> StageProgress:
        return self.stages.setdefault(name, StageProgress(name, name))
