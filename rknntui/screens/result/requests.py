"""What Result asks of the engine, and the command lines that ask the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.wire.accuracy import EvaluateParams
from engine.wire.board import RunParams
from engine.wire.build import SimulateParams
from engine.wire.codec import encode
from engine.wire.flags import words_of
from rknntui.keys.commandline import command_with

if TYPE_CHECKING:
    from engine.wire.names import Arithmetic
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

SIDES = ("Simulated", "As compiled", "Board")
"""Who computes the outputs: as the toolkit's simulator does, without the roundings that the
vendor's compiler leaves out, and an NPU. These are views of Result."""
SCORE = "Score"
"""The view of the scores: labelled samples, simulated."""
MOST_VALUES = 1000
"""So many of the largest values are asked for."""


@dataclass(frozen=True)
class Subject:
    """What is run, and by whom.

    Attributes:
        session: has the open model, the board and its compiled file.
        side: of :data:`SIDES`, or :data:`SCORE`.
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
    def model(self) -> dict[str, Any]:
        """The file that runs, or the recipe whose build runs; both where the recipe tells which
        layers the file has.
        """
        container = self.session.container
        recipe = dict(self.session.recipe) if container is None else None
        compiled = self.session.compiled if self.side == "Board" else None
        return {"path": compiled or container, "recipe": recipe}

    def request(self, inputs: tuple[str, ...], **more: Any) -> SimulateParams | RunParams:
        """One sample; ``more`` are further fields that both requests have."""
        asked: dict[str, Any] = {**self.model, "inputs": inputs, **more}
        if self.side == "Board":
            return RunParams(**asked, device=self.session.boards.chosen)
        compiled = self.side == "As compiled"
        return SimulateParams(**asked, arithmetic=self.arithmetic, as_compiled=compiled)

    def scoring(self, labels: str) -> EvaluateParams:
        """The labelled samples."""
        return EvaluateParams(dict(self.session.built or self.session.recipe), labels)

    def outdated(self, job: JobView) -> bool:
        """Whether the recipe, or the file or board that ran, is another one by now."""
        session, asked = self.session, job.params
        if self.side == "Board":
            ran = asked.get("device"), asked.get("path")
            if ran != (session.boards.chosen, self.model["path"]):
                return True
        return session.container is None and job.recipe != session.recipe

    def command_line(self, files: Mapping[str, str], labels: str) -> list[str]:
        """The command line that asks the same.

        Args:
            files: name of an input -> path.
            labels: path of the labelled samples.
        """
        session = self.session
        if self.side == SCORE:
            return command_with("evaluate", session, self.scoring(labels))
        request = self.request(tuple(files.get(value.name, "FILE") for value in session.inputs))
        if isinstance(request, SimulateParams):
            return command_with("simulate", session, request)
        file, words = request.path, words_of(RunParams, encode(request))
        if file is None:
            return command_with("run", session, request)
        recipe = None if session.dirty or session.container is not None else session.recipe_path
        build = ["--build", recipe] if recipe is not None else []
        return ["rknntui", "run", file, *build, *words]


def side_of(job: JobView) -> tuple[str, str]:
    """The key of the subject that a job was about."""
    asked = job.params
    if "device" in asked:
        return "Board", ""
    side = SIDES[1] if asked.get("as_compiled") else SIDES[0]
    return side, str(asked.get("arithmetic", "integer"))
