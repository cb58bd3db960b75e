"""What Result asks of the engine, and the command lines that ask the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from engine.wire.board import RunParams
from engine.wire.build import SimulateParams
from engine.wire.codec import encode
from engine.wire.flags import words_of
from rknntui.keys.commandline import command_with

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from engine.wire.names import Arithmetic
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

SIDES = ("Simulated", "As compiled", "Board")
"""Who computes the outputs: as the toolkit's simulator does, without the roundings that the
vendor's compiler leaves out, and an NPU. These are views of Result."""
MOST_VALUES = 1000
"""So many of the largest values are asked for."""


class _Model(TypedDict):
    path: str | None
    recipe: Values | None


@dataclass(frozen=True)
class Subject:
    """What is run, and by whom.

    Attributes:
        session: has the open model, the board and its compiled file.
        side: of :data:`SIDES`.
        arithmetic: of the simulator: integer kernels, or float between roundings.
    """

    session: Session
    side: str = SIDES[0]
    arithmetic: Arithmetic = "integer"

    @property
    def key(self) -> tuple[str, str]:
        """Results of one key take each other's place."""
        return self.side, "" if self.side == "Board" else self.arithmetic

    @property
    def model(self) -> _Model:
        """The file that runs, or the recipe whose build runs; both where the recipe tells which
        layers the file has.
        """
        container = self.session.container
        recipe = dict(self.session.recipe) if container is None else None
        compiled = self.session.compiled if self.side == "Board" else None
        return {"path": compiled or container, "recipe": recipe}

    def request(
        self,
        inputs: tuple[str, ...],
        *,
        top: int = MOST_VALUES,
        save: str | None = None,
        force: bool = False,
    ) -> SimulateParams | RunParams:
        """One sample; ``save`` is a folder for its outputs."""
        if self.side == "Board":
            return RunParams(
                **self.model,
                device=self.session.boards.chosen,
                inputs=inputs,
                top=top,
                save=save,
                force=force,
            )
        return SimulateParams(
            **self.model,
            inputs=inputs,
            top=top,
            save=save,
            force=force,
            arithmetic=self.arithmetic,
            as_compiled=self.side == "As compiled",
        )

    def outdated(self, job: JobView) -> bool:
        """Whether the recipe, or the file or board that ran, is another one by now."""
        session, asked = self.session, job.params
        if self.side == "Board":
            ran = asked.get("device"), asked.get("path")
            if ran != (session.boards.chosen, self.model["path"]):
                return True
        return session.container is None and job.recipe != session.recipe

    def command_line(self, files: Mapping[str, str]) -> list[str]:
        """The command line that asks the same; empty where there is none, as of a recipe without
        file on a board. ``files``: name of an input -> path.
        """
        session = self.session
        inputs = tuple(files.get(value.name, "FILE") for value in session.inputs)
        request = self.request(inputs, top=SimulateParams.top)
        if isinstance(request, SimulateParams):
            return command_with("simulate", session, request)
        file, words = self.model["path"], words_of(RunParams, encode(request))
        recipe = None if session.dirty or session.container is not None else session.recipe_path
        if file is None:
            return [] if recipe is None else ["rknntui", "run", recipe, *words]
        build = ["--build", recipe] if recipe is not None else []
        return ["rknntui", "run", file, *build, *words]


def side_of(job: JobView) -> tuple[str, str]:
    """The key of the subject that a job was about."""
    asked = job.params
    if "device" in asked:
        return "Board", ""
    side = SIDES[1] if asked.get("as_compiled") else SIDES[0]
    return side, str(asked.get("arithmetic", "integer"))
