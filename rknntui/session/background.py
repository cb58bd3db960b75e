"""What is asked without the user's asking, so that Overview and the tabs have their figures.

One question after another, the cheapest first, none while a file is being opened. A job of the user
ends one of these. Another recipe or model asks anew; what is known is kept in the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from engine import EngineError, sanitize
from engine.wire.names import VENDOR_KINDS
from rknntui.session.history import of_dataset

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from rknntui.bridge import Bridge
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

REST = 0.25
"""Seconds without another change of the recipe before anything is asked."""
HISTORY = 200
"""So many jobs are looked through for the builds of a model."""
_BUILDING = frozenset(("accuracy", "compare.board", "compile", "evaluate", "export", "simulate"))
"""Jobs that build the recipe where it was not built before."""
_Need = tuple[str, object, Callable[[], Awaitable[None]]]
"""Step, what its answer is of, the question."""


class Background:
    """Asks what is missing for the steps.

    Args:
        session: has what is known, and takes the answers.
        bridge: asks.

    Attributes:
        enabled: whether more is asked than the check of the recipe; a preference that is kept.
    """

    def __init__(self, session: Session, bridge: Bridge) -> None:
        self._session = session
        self._bridge = bridge
        self._known: dict[str, object] = {}
        self.enabled = True

    def forget(self) -> None:
        """Another file is open: ask everything again, and end what is still asked of the last."""
        self._known.clear()
        self._bridge.discard_unasked()

    def ended(self, job: JobView) -> None:
        """A job of the background ended; one that made way for the user's is begun again."""
        if job.state == "cancelled":
            self._known.pop("proposal", None)

    async def work(self) -> None:
        """Ask what is missing, until nothing is; a newer call replaces this one."""
        await asyncio.sleep(REST)
        while not self._session.opening:
            need = next((n for n in self._needs() if self._known.get(n[0]) != n[1]), None)
            if need is None:
                return
            step, key, question = need
            self._known.pop(step, None)  # a question that is cut short leaves a part of its answer
            self._session.known(step, "")
            why: str | None = None
            try:
                await question()
            except EngineError as error:
                why = f"{error.what} {error.remedy}".strip()
            except asyncio.CancelledError:
                self._session.known(step)
                raise
            self._known[step] = key
            self._session.known(step, why)

    def _needs(self) -> Iterator[_Need]:
        session = self._session
        model, recipe = session.model, dict(session.recipe)
        if model is None or model.kind in VENDOR_KINDS:
            return
        if session.container is None:
            yield "builds", (recipe.get("model"), session.summary), self._builds
            yield "config", recipe, lambda: self._validate(recipe)
            if recipe.get("dataset"):
                yield "dataset", of_dataset(recipe), lambda: self._dataset(recipe)
        if (unseen := built_unseen(session)) is not None and not session.running:
            yield "build", unseen, lambda: self._build(unseen)
        if model.loaded is False or not self.enabled:
            return
        yield "estimate", recipe, self._estimate
        if session.container is None:
            yield "joins", session.built or recipe, self._joins
        summary, built = session.summary, session.built
        if summary is not None and session.chip and session.toolkits is None:
            yield "toolkits", True, self._toolkits
        if summary is not None and built is not None and summary.quantized and not session.running:
            yield "proposal", summary.key, lambda: self._proposal(built)

    # -- the questions -----------------------------------------------------------------------------

    async def _builds(self) -> None:
        from engine import build_rows, list_jobs

        records = await asyncio.to_thread(list_jobs, HISTORY)
        model = self._session.recipe.get("model")
        rows = await asyncio.to_thread(build_rows, records, model)
        self._session.builds = tuple(row for row in rows if row.state == "done")

    async def _build(self, recipe: Values) -> None:
        """What another job has built is taken from the cache."""
        from engine.wire.build import BUILD, BuildParams

        name = sanitize(self._session.stem, 80)
        await self._bridge.submit(BUILD, BuildParams(recipe=recipe), f"build {name}", quiet=True)

    async def _validate(self, recipe: Values) -> None:
        from engine.wire.requests import VALIDATE, OfRecipe

        answer = await self._bridge.call(VALIDATE, OfRecipe(recipe))
        if recipe == self._session.recipe:
            self._session.set_problems(answer)

    async def _dataset(self, recipe: Values) -> None:
        from engine.wire.dataset import DATASET_CHECK, CheckParams

        if self._session.dataset is None:
            facts = await self._bridge.call(DATASET_CHECK, CheckParams(recipe=recipe))
            self._session.set_dataset(facts)

    async def _estimate(self) -> None:
        """Of one chip after the other, the target's first, which alone is asked for its layers:
        what the user asks waits for one.
        """
        from engine import chips
        from engine.wire.cost import COST_ESTIMATE, ChipEstimate, EstimateParams
        from engine.wire.layers import layer_rows

        session, rows, seconds = self._session, list[ChipEstimate](), 0.0
        own = session.chip.lower()
        for name in sorted((chip.name for chip in chips()), key=lambda name: name != own):
            params = EstimateParams(**session.request, chips=(name,), layers=name == own)
            answer = await self._bridge.call(COST_ESTIMATE, params)
            if name == own:
                session.layers.fill("estimated", layer_rows(answer.chips[0]))
            rows += (replace(row, layers=()) for row in answer.chips)
            seconds += answer.seconds
            session.estimates = replace(answer, chips=tuple(rows), seconds=seconds)
            session.known("estimate", "")

    async def _toolkits(self) -> None:
        from engine.wire.vendor import VENDOR_KNOWN, ToolkitsParams

        await self._bridge.call(VENDOR_KNOWN, ToolkitsParams())

    async def _joins(self) -> None:
        from engine.wire.hybrid import JOINS
        from engine.wire.requests import ModelTarget

        recipe = self._session.built or dict(self._session.recipe)
        self._session.joins = (await self._bridge.call(JOINS, ModelTarget(recipe=recipe))).findings

    async def _proposal(self, built: Values) -> None:
        from engine.wire.hybrid import PROPOSE, ProposeParams

        last = self._session.last_of(PROPOSE)
        if last is None or last[0].recipe != built:
            params = ProposeParams(recipe=built, gains=True)
            await self._bridge.submit(PROPOSE, params, "gains of layers", background=True)


def built_unseen(session: Session) -> Values | None:
    """The open recipe where a job of this run built it on its way to something else."""
    building = _BUILDING if session.compiled else {*_BUILDING, "devices.perf"}
    seen = session.built == session.recipe or not any(
        job.method in building and job.state == "done" and job.recipe == session.recipe
        for job in session.jobs.values()
    )
    return None if seen else dict(session.recipe)
