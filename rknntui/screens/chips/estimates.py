"""What Chips asks of the engine, what is varied in it, and the report of an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine import judged
from engine.wire.cost import (
    COST_ADVICE,
    COST_ESTIMATE,
    AdviceAnswer,
    AdviceParams,
    ChipEstimate,
    EstimateParams,
    Estimates,
    WhatIf,
)
from engine.wire.goal import COST_WAYS, Goal, Way, WaysParams
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.dialogs.request import Form

if TYPE_CHECKING:
    from textual.worker import WorkType

    from engine.wire.method import Query
    from rknntui.screens.chips.workspace import Chips

AS_IS = WhatIf()
"""The recipe's own figures."""
FIRST_GOAL = 25.0
"""Frames a second that are proposed as the goal: what a camera gives."""
GOAL = Form("Frames a second to reach", (Goal,))
WHAT_IF = Form(
    "What if (estimated)",
    (WhatIf, Goal),
    {"chips": "all, or those that are marked"},
)
DTYPES = ("int8", "float16")
_REST = 0.25
"""Seconds without another change of the recipe before the model is estimated again."""
_Key = tuple[object, ...]
_Need = tuple[_Key, "Query[Any, Any]", object]


def scenario_words(scenario: WhatIf) -> str:
    """What differs from the recipe, for the line on top: ``float16, batch 4``."""
    parts = [
        scenario.dtype or "",
        *(size.replace("=", " ") for size in scenario.input_sizes),
        f"batch {scenario.batch}" if scenario.batch is not None else "",
        f"{scenario.cores} cores" if scenario.cores > 1 else "",
        f"{scenario.npu_mhz:g} MHz" if scenario.npu_mhz is not None else "",
    ]
    return ", ".join(part for part in parts if part)


class Answers:
    """Answers about the open model; what is missing for a view is asked in the background.

    Args:
        chips: that shows them, and knows what is looked at.

    Attributes:
        asking: whether answers are on their way.
        goal: frames a second that chips are to reach; None: none are asked for.
    """

    def __init__(self, chips: Chips) -> None:
        self._chips = chips
        self._about: object = None
        self._known: dict[_Key, Any] = {}
        self.asking = False
        self.goal: float | None = None

    def overview(self, scenario: WhatIf = AS_IS) -> Estimates:
        """All chips, without their layers; of those that are not known yet there is none."""
        found: Estimates | None = self._answer("chips", scenario)
        if scenario == AS_IS and not self._known:  # until then what the background asked
            found = self._chips.session.estimates
        found = found or Estimates("", (), 0.0)
        return judged(found, self.goal) if self.goal else found

    def estimate(self, chip: str) -> ChipEstimate | None:
        """A chip as it is varied, with its layers and its memory over time."""
        estimates: Estimates | None = self._answer("layers", self._chips.scenario, chip)
        return estimates.chips[0] if estimates is not None and estimates.chips else None

    def advice(self, chip: str) -> AdviceAnswer | None:
        """Ways to make the model faster there."""
        answer: AdviceAnswer | None = self._answer("advice", self._chips.scenario.dtype, chip)
        return answer

    def ways(self, chip: str) -> tuple[Way, ...] | None:
        """What would bring it to the goal, the cheapest first; None where that is not known."""
        key = ("ways", self._chips.scenario, self.goal, chip)
        if key not in self._known:
            return None
        found = self._answer(*key)
        return () if found is None or not found.chips else found.chips[0].ways

    def _answer(self, *key: object) -> Any:
        answer = self._known.get(key)
        return None if isinstance(answer, Exception) else answer

    @property
    def error(self) -> str:
        """Why an answer for what is looked at is missing, with the remedy; else empty."""
        for key, *_ in self._needs():
            if self._chips.view == "Chips" and key[0] != "chips":  # its table stands without them
                continue
            if self._chips.scenario != AS_IS and AS_IS in key:  # what-if may be the way out of it
                continue
            if isinstance(error := self._known.get(key), Exception):
                remedy = str(getattr(error, "remedy", ""))
                return f"{getattr(error, 'what', error)} {remedy}".strip()
        return ""

    # -- asking ----------------------------------------------------------------------------------

    def asked(self, *chips: str, **more: Any) -> dict[str, Any]:
        """The request of an estimate as it is varied, of these chips or all."""
        return {
            **self._chips.session.request,
            **vars(replace(self._chips.scenario, chips=chips)),
            **more,
        }

    def forget(self) -> None:
        """Ask everything again."""
        self._known.clear()
        self._about = None

    def update(self, *, rest: bool = False) -> None:
        """Ask for what is missing; ``rest`` waits first for further changes."""
        about = self._chips.session.request
        if about != self._about:
            self._about = about
            self._known.clear()
            self._chips.draw()
        if not about or self._missing() is None:
            return
        self.asking = True

        async def questions() -> None:
            import asyncio

            if rest:
                await asyncio.sleep(_REST)
            await self._ask()

        # not a coroutine: one that is replaced before it starts would never be awaited
        work: WorkType[None] = questions
        self._chips.run_worker(work, group="chips:estimate", exclusive=True)

    async def _ask(self) -> None:
        from engine import EngineError

        # without a view it is being taken from the screen
        while self._chips.view and (missing := self._missing()) is not None:
            key, method, params = missing
            self._chips.draw()
            about = self._about
            try:
                answer: object = await self._chips.bridge.call(method, params)
            except EngineError as error:
                answer = error
            if not self._chips.view or about != self._about:
                return
            self._known[key] = answer
        self.asking = False
        self._chips.draw()

    def _missing(self) -> _Need | None:
        return next((need for need in self._needs() if need[0] not in self._known), None)

    def _needs(self) -> Iterator[_Need]:
        """What the view shows, the most important first."""
        view, scenario, looked_at = self._chips.view, self._chips.scenario, self._chips.chip
        for one in dict.fromkeys((AS_IS, scenario)):
            whole = EstimateParams(**self._chips.session.request, **vars(one), layers=False)
            yield ("chips", one), COST_ESTIMATE, whole
        for chip in self._chips.compared if view == "Compare" else (looked_at,):
            params = EstimateParams(**self.asked(chip, spans=True))
            yield ("layers", scenario, chip), COST_ESTIMATE, params
        if view == "Advice":
            advice = AdviceParams(
                **self._chips.session.request, chip=looked_at, dtype=scenario.dtype
            )
            yield ("advice", scenario.dtype, looked_at), COST_ADVICE, advice
        if view == "Chips" and self.goal is not None:  # what chips need that may miss it
            first = self._chips.compared
            for chip in sorted(self._chips.missing, key=lambda chip: chip not in first):
                ways = WaysParams(**self.asked(chip, layers=False, fps=self.goal))
                yield ("ways", scenario, self.goal, chip), COST_WAYS, ways


_KINDS: dict[str, Literal["chips", "layers", "tensors", "roofline"]] = {
    "Chips": "chips", "Memory": "tensors", "Roofline": "roofline"
}  # fmt: skip


def ask_report(chips: Chips) -> None:
    """Ask for a file, then estimate and write it: all chips, or those that the view shows."""
    kind = _KINDS.get(chips.view, "layers")
    names = () if chips.view == "Chips" else chips.compared
    params = EstimateParams(**chips.answers.asked(*names, spans=True))

    def write(path: str) -> None:
        from engine import COST_REPORTS, cost_report

        form = Path(path).suffix
        if form.lower() not in COST_REPORTS:
            chips.not_now(f"a report ends in {', '.join(COST_REPORTS)}.")
            return
        output = chips.workbench.output
        chips.ask(
            COST_ESTIMATE,
            params,
            lambda found: output.write_file(path, cost_report(found, form, kind)),
        )

    start = str(Path.cwd() / f"{chips.session.stem}-{kind}.html")
    ask_user(chips.app, PathPicker("Report (.html, .csv, .svg)", start, new=True), write)
