"""What Run asks of the engine, and the command lines that ask the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from engine import sanitize
from engine.wire.board import LiveParams, MemoryParams, RunParams
from engine.wire.build import SimulateParams
from engine.wire.compare import CompareParams
from rknntui.keys.commandline import command_for

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

__all__ = ["Subject"]


class _Model(TypedDict):
    path: str | None
    recipe: Values | None


@dataclass(frozen=True)
class Subject:
    """What is run, and where.

    Attributes:
        session: has the open model.
        board: the target; None for the simulator.
        compiled: a compiled model in the place of the open one; None for none.
    """

    session: Session
    board: str | None = None
    compiled: str | None = None

    @property
    def model(self) -> _Model:
        """The file that runs, or the recipe whose build runs; both where the recipe tells which
        layers the file has.
        """
        container = self.session.container
        recipe = dict(self.session.recipe) if container is None else None
        return {"path": (self.compiled if self.board else None) or container, "recipe": recipe}

    @property
    def name(self) -> str:
        """Of the file that runs, for titles."""
        path = self.model["path"] or str(self.session.recipe.get("model") or "model")
        return sanitize(Path(path).name, 60)

    def simulation(
        self, inputs: tuple[str, ...], top: int, save: str | None, force: bool
    ) -> SimulateParams:
        """One sample in the simulator."""
        return SimulateParams(**self.model, inputs=inputs, top=top, save=save, force=force)

    def run(
        self,
        inputs: tuple[str, ...],
        top: int,
        *,
        layers: bool = False,
        save: str | None = None,
        force: bool = False,
    ) -> RunParams:
        """One sample on the board."""
        return RunParams(
            **self.model,
            device=self.board,
            inputs=inputs,
            top=top,
            layers=layers,
            save=save,
            force=force,
        )

    def live(self, inputs: tuple[str, ...]) -> LiveParams:
        """One sample on the board again and again, its layers timed."""
        return LiveParams(**self.model, device=self.board, inputs=inputs)

    def memory(self) -> MemoryParams:
        """What the model takes on the board."""
        return MemoryParams(**self.model, device=self.board)

    def comparison(self, inputs: tuple[str, ...] | None) -> CompareParams:
        """Golden, simulator and board; without inputs over the first calibration sample."""
        recipe = dict(self.session.recipe)
        return CompareParams(
            recipe=recipe, device=self.board, compiled=self.compiled, inputs=inputs
        )

    def started(self, job: JobView) -> bool:
        """Whether a job is about this model, on this target."""
        path = job.params.get("path")
        if job.params.get("device") != self.board:
            return False
        return self.session.is_ours(job) or (path is not None and path == self.model["path"])

    def outdated(self, job: JobView) -> bool:
        """Whether the recipe changed since a job was asked for."""
        container = self.session.container
        return container is None and job.recipe is not None and job.recipe != self.session.recipe

    def command(self, verb: str, inputs: list[str]) -> list[str]:
        """The command line of a verb, ``inputs`` being files or what stands for them; empty where
        there is none, as of a recipe without file on a board.
        """
        files = [word for path in inputs for word in ("--input", path)]
        if self.board is None or verb == "compare":
            words = command_for(verb, self.session)
        else:
            words = self._on_board(verb)
        if not words:
            return []
        if self.board is not None:
            words += ["--device", self.board]
        if verb == "compare" and self.compiled is not None:
            words += ["--compiled", self.compiled]
        return [*words, *files]

    def _on_board(self, verb: str) -> list[str]:
        """The verb and what runs there: a file, with the recipe that names its layers."""
        session, file = self.session, self.model["path"]
        recipe = None if session.dirty or session.container is not None else session.recipe_path
        if file is None:
            return [] if recipe is None else ["rknntui", verb, recipe]
        build = ["--build", recipe] if recipe is not None and verb == "run" else []
        return ["rknntui", verb, file, *build]
