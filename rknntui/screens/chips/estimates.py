"""What Chips asks of the engine, one question at a time, and the answers of the open model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.wire.cost import (
    COST_ADVICE,
    COST_CHECK,
    COST_ESTIMATE,
    AdviceAnswer,
    AdviceParams,
    CheckAnswer,
    ChipCheck,
    ChipEstimate,
    CostCheckParams,
    EstimateParams,
    Estimates,
    WhatIf,
)
from rknntui.screens.chips.scenario import AS_IS

if TYPE_CHECKING:
    from textual.worker import WorkType

    from engine.wire.method import Query
    from rknntui.screens.base.workspace import Workspace

_REST = 0.25
"""Seconds without another change of the recipe before the model is estimated again."""
_LAYERED = ("Layers", "Compare", "Memory", "Roofline")


@dataclass(frozen=True)
class Want:
    """What is looked at.

    Attributes:
        view: that is shown.
        chip: whose layers are.
        others: chips that it is compared with.
        scenario: what is varied.
    """

    view: str
    chip: str
    others: tuple[str, ...] = ()
    scenario: WhatIf = AS_IS


_Key = tuple[object, ...]


class Answers:
    """Answers about the open model; what is missing for a view is asked in the background.

    Args:
        workspace: that shows them.
        wanted: tells what is looked at now.
        changed: called when there is an answer more, or another model.
    """

    def __init__(
        self, workspace: Workspace, wanted: Callable[[], Want], changed: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._wanted = wanted
        self._changed = changed
        self._about: object = None
        self._known: dict[_Key, Any] = {}
        self.asking = False

    # -- answers ---------------------------------------------------------------------------------

    def overview(self, scenario: WhatIf = AS_IS) -> Estimates | None:
        """All chips, without their layers; None before the answer, and where it failed."""
        return self._answer(("chips", scenario), Estimates)

    def estimate(self, chip: str, scenario: WhatIf = AS_IS) -> ChipEstimate | None:
        """A chip with its layers and its memory over time."""
        found = self._answer(("layers", scenario, chip), Estimates)
        return found.chips[0] if found is not None and found.chips else None

    def check(self, chip: str, scenario: WhatIf = AS_IS) -> ChipCheck | None:
        """The layers of a chip that are not on its NPU."""
        found = self._answer(("check", scenario.dtype), CheckAnswer)
        rows = () if found is None else found.chips
        return next((row for row in rows if row.chip == chip), None)

    def advice(self, chip: str, scenario: WhatIf = AS_IS) -> AdviceAnswer | None:
        """Ways to make the model faster there."""
        return self._answer(("advice", scenario.dtype, chip), AdviceAnswer)

    @property
    def error(self) -> str:
        """Why an answer for what is looked at is missing, with the remedy; else empty."""
        varied = self._wanted().scenario != AS_IS
        for key, *_ in self._needs():
            if varied and AS_IS in key:  # what-if may be the way out of an error
                continue
            if isinstance(error := self._known.get(key), Exception):
                remedy = str(getattr(error, "remedy", ""))
                return f"{getattr(error, 'what', error)} {remedy}".strip()
        return ""

    def _answer(self, key: _Key, kind: type[Any]) -> Any:
        found = self._known.get(key)
        return found if isinstance(found, kind) else None

    # -- asking ----------------------------------------------------------------------------------

    @property
    def model(self) -> dict[str, Any]:
        """The open model, as a request has it; empty where there is none."""
        session = self._workspace.session
        if session.container is not None:
            return {"path": session.container}
        return {"recipe": dict(session.recipe)} if session.recipe.get("model") else {}

    def forget(self) -> None:
        """Ask everything again."""
        self._known.clear()
        self._about = None

    def update(self, *, rest: bool = False) -> None:
        """Ask for what is missing; ``rest`` waits first for further changes."""
        about = self.model
        if about != self._about:
            self._about = about
            self._known.clear()
            self._changed()
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
        self._workspace.run_worker(work, group="chips:estimate", exclusive=True)

    async def _ask(self) -> None:
        from engine import EngineError

        while (missing := self._missing()) is not None:
            key, method, params = missing
            self._changed()
            about = self._about
            try:
                answer: object = await self._workspace.bridge.call(method, params)
            except EngineError as error:
                answer = error
            if not self._workspace.is_attached or about != self._about:
                return
            self._known[key] = answer
        self.asking = False
        self._changed()

    def _missing(self) -> tuple[_Key, Query[Any, Any], Any] | None:
        return next((need for need in self._needs() if need[0] not in self._known), None)

    def _needs(self) -> Iterator[tuple[_Key, Query[Any, Any], Any]]:
        """What the view shows, the most important first."""
        want, model = self._wanted(), self.model
        scenarios = (want.scenario, AS_IS) if want.scenario != AS_IS else (AS_IS,)
        for scenario in reversed(scenarios):
            params = EstimateParams(**model, **vars(scenario), layers=False)
            yield ("chips", scenario), COST_ESTIMATE, params
        if not want.chip:
            return
        if want.view in _LAYERED:
            chips = (want.chip, *want.others) if want.view == "Compare" else (want.chip,)
            compared = scenarios if want.view == "Layers" else scenarios[:1]
            for scenario in compared:
                for chip in chips:
                    varied = vars(replace(scenario, chips=(chip,)))
                    params = EstimateParams(**model, **varied, spans=True)
                    yield ("layers", scenario, chip), COST_ESTIMATE, params
        dtype = want.scenario.dtype
        if want.view == "Check":
            yield ("check", dtype), COST_CHECK, CostCheckParams(**model, dtype=dtype)
        if want.view == "Advice":
            asked = AdviceParams(**model, chip=want.chip, dtype=dtype)
            yield ("advice", dtype, want.chip), COST_ADVICE, asked
