"""The chips of Deploy: which are compiled for, how, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.compile import COMPILE, Compiled, CompiledModels, CompileParams
from rknntui.screens.deploy.jobs import chip_states, newest_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.wire.codec import Values
    from engine.wire.cost import ChipFacts
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session


class Targets:
    """What is known of the chips for the open model.

    Args:
        session: has the model, the recipe and the jobs.

    Attributes:
        generations: chip -> generation, of all chips in their order; empty before an answer.
        marked: those that are compiled for.
        settings: quantizer, samples and toolkit.
        found: chip -> what became of it.
        looked_at: the chip whose result is shown; empty for none.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.generations: dict[str, int] = {}
        self.marked: dict[str, None] = {}
        self.settings = CompileParams(recipe={}, path="")
        self.found: dict[str, Compiled] = {}
        self.looked_at = ""
        self._recipe: Values | None = None

    # -- chips -----------------------------------------------------------------------------------

    def know(self, chips: Iterable[ChipFacts]) -> None:
        """Take what the engine knows of the chips."""
        self.generations = {row.name: row.generation for row in chips}

    @property
    def names(self) -> tuple[str, ...]:
        """All chips."""
        return tuple(self.generations)

    @property
    def target(self) -> str:
        """The chip of the recipe; empty where it names none."""
        name = str(self._session.recipe.get("target_platform") or "").lower()
        return name if name in self.generations else ""

    @property
    def chip(self) -> str:
        """The chip that is looked at, else one that was compiled, else the recipe's."""
        return self.looked_at or next(iter(self.found), "") or self.target

    @property
    def result(self) -> Compiled | None:
        """What became of the chip that is looked at."""
        return self.found.get(self.chip)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The chips that would be compiled for: those marked, else the one that is looked at."""
        marked = tuple(name for name in self.names if name in self.marked)
        return marked or ((self.chip,) if self.chip else ())

    @property
    def request(self) -> CompileParams:
        """What would be compiled, and how."""
        return replace(self.settings, chips=self.wanted)

    def mark(self, name: str) -> None:
        """Compile for a chip, or no longer."""
        if name in self.marked:
            del self.marked[name]
        else:
            self.marked[name] = None

    def mark_all(self, names: Iterable[str]) -> None:
        """Mark chips; where all of them are, none."""
        names = list(names)
        every = all(name in self.marked for name in names)
        for name in names:
            if every:
                del self.marked[name]
            else:
                self.marked[name] = None

    def step(self, by: int) -> None:
        """Look at the chip that many places further, of those that were compiled."""
        names = list(self.found)
        if names:
            at = names.index(self.chip) if self.chip in names else 0
            self.looked_at = names[(at + by) % len(names)]

    # -- results ---------------------------------------------------------------------------------

    def forget(self) -> None:
        """Another model is open; what an earlier run made of it comes back."""
        self.found, self.looked_at, self._recipe = {}, "", None
        self.restore()

    def restore(self) -> None:
        """Take the last compilation of the open model, also of an earlier run."""
        last = self._session.last_of(COMPILE)
        if last is not None:
            self.take(*last)

    def take(self, job: JobView, result: CompiledModels) -> None:
        """Take what was made; of other chips the results stay."""
        self.found |= {row.chip: row for row in result.chips}
        self._recipe = job.recipe

    @property
    def outdated(self) -> bool:
        """Whether the recipe changed since the last compilation."""
        return self._recipe is not None and self._recipe != self._session.recipe

    @property
    def job(self) -> JobView | None:
        """The compilation of the open model that runs, else the last one of this run."""
        session = self._session
        return newest_job((j for j in session.jobs.values() if session.is_ours(j)), (COMPILE.name,))

    @property
    def states(self) -> dict[str, str]:
        """Chip -> what a running compilation does for it."""
        job = self.job
        if job is None or not job.running:
            return {}
        asked = job.params.get("chips")
        names = [str(name) for name in asked] if isinstance(asked, list | tuple) else []
        return chip_states(job, names)
