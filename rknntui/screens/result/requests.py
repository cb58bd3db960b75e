"""What Run asks of the engine and where, and the command lines that ask the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from engine import sanitize
from engine.wire.board import LiveParams, MemoryParams, RunParams
from engine.wire.build import SimulateParams
from engine.wire.codec import encode
from engine.wire.compare import CompareParams
from engine.wire.devices import CORES, DEVICES_LIST, DeviceListParams, Listing
from engine.wire.flags import words_of
from engine.wire.names import ARITHMETICS
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_with
from rknntui.screens.dialogs.dialogs import ChoiceDialog, ask_user
from rknntui.screens.dialogs.picker import PathPicker, start_folder

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from engine.wire.devices import Cores, Device
    from engine.wire.names import Arithmetic
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session


class _Model(TypedDict):
    path: str | None
    recipe: Values | None


@dataclass(frozen=True)
class Simulator:
    """How a quantized graph is simulated.

    Attributes:
        arithmetic: integer kernels, or float between roundings.
        as_compiled: without the roundings that the vendor's compiler fuses at level 3.
    """

    arithmetic: Arithmetic = "integer"
    as_compiled: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the default."""
        reference = ("reference",) if self.arithmetic == "reference" else ()
        return (*reference, "as compiled") if self.as_compiled else reference

    @property
    def name(self) -> str:
        """In the list of targets, and on the line on top."""
        return ", ".join(("simulator", *self.words))


SIMULATORS = tuple(
    Simulator(arithmetic, compiled) for compiled in (False, True) for arithmetic in ARITHMETICS
)
"""All of them, the default first."""


@dataclass(frozen=True)
class Subject:
    """What is run, and where.

    Attributes:
        session: has the open model.
        board: the target; None for the simulator.
        compiled: a compiled model in the place of the open one; None for none.
        cores: of the board's NPU, of :data:`engine.wire.devices.CORES`.
        simulator: how it runs here.
    """

    session: Session
    board: str | None = None
    compiled: str | None = None
    cores: Cores = "auto"
    simulator: Simulator = SIMULATORS[0]

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
        return SimulateParams(
            **self.model,
            inputs=inputs,
            top=top,
            save=save,
            force=force,
            arithmetic=self.simulator.arithmetic,
            as_compiled=self.simulator.as_compiled,
        )

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
            cores=self.cores,
            top=top,
            layers=layers,
            save=save,
            force=force,
        )

    def live(self, inputs: tuple[str, ...]) -> LiveParams:
        """One sample on the board again and again, its layers timed."""
        return LiveParams(**self.model, device=self.board, inputs=inputs, cores=self.cores)

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
        """Whether a job is about this model, on this target: its file, board and cores."""
        asked = job.params
        if asked.get("device") != self.board or asked.get("cores", self.cores) != self.cores:
            return False
        if self.board is None and _simulator(asked) != self.simulator:
            return False
        if "compiled" in asked:  # a comparison, whose file stands beside the recipe
            return asked["compiled"] == self.compiled and self.session.is_ours(job)
        path = asked.get("path")
        return path == self.model["path"] and (path is not None or self.session.is_ours(job))

    def outdated(self, job: JobView) -> bool:
        """Whether the recipe changed since a job was asked for."""
        container = self.session.container
        return container is None and job.recipe is not None and job.recipe != self.session.recipe

    def command_line(self, view: str, files: Mapping[str, str]) -> list[str]:
        """The command line that asks what a view shows; empty where there is none, as of a recipe
        without file on a board.

        Args:
            view: that is shown.
            files: name of an input -> path; a comparison has a sample of its own without them.
        """
        session, names = self.session, [value.name for value in self.session.inputs]
        inputs = tuple(files.get(name, "FILE") for name in names)
        if self.board is None:
            request = self.simulation(inputs, SimulateParams.top, None, False)
            return command_with("simulate", session, request)
        if view == "Compare":
            return command_with(
                "compare", session, self.comparison(inputs if set(names) <= set(files) else None)
            )
        if view == "Memory":
            return self._on_board("memory", self.memory())
        return self._on_board("run", self.run(inputs, RunParams.top, layers=view == "Layers"))

    def _on_board(self, verb: str, request: RunParams | MemoryParams) -> list[str]:
        """The verb and what runs there: a file, with the recipe that names its layers."""
        session, file = self.session, self.model["path"]
        recipe = None if session.dirty or session.container is not None else session.recipe_path
        words = words_of(type(request), encode(request))
        if file is None:
            return [] if recipe is None else ["rknntui", verb, recipe, *words]
        build = ["--build", recipe] if recipe is not None and verb == "run" else []
        return ["rknntui", verb, file, *build, *words]


def _simulator(asked: Values) -> Simulator:
    """The simulator that a job was asked for; the default where it names none."""
    default = SIMULATORS[0]
    return Simulator(
        asked.get("arithmetic", default.arithmetic), asked.get("as_compiled", default.as_compiled)
    )


# Where Run runs: the simulator on this machine, or a board.

_CORES_ABOUT = {
    "auto": "the runtime takes a core that is idle",
    **dict.fromkeys(("0", "1", "2"), "this core alone"),
    "0_1": "two cores together",
    "0_1_2": "three cores together",
    "all": "all cores that the chip has",
}
_SIMULATORS_ABOUT = (
    "integers, fast; the quantized graph on the CPU of this machine, in other times than an NPU's",
    "float, slower; every rounding, as the vendor's simulator computes at level 2",
    "as at level 3, fast; without the roundings that the vendor's compiler leaves out by default",
    "both; what the vendor's simulator computes of the compiled model",
)


def board_text(device: Device) -> str:
    """What is known of a board before it is asked: its names, address, warnings."""
    names = [device.model, device.product, device.device]
    words = [sanitize(word, 80) for word in dict.fromkeys(names) if word]
    said = sanitize(device.what, 200) if device.state != "ready" else ""
    parts = [" ".join(words), said, *(sanitize(warning, 300) for warning in device.warnings)]
    return "; ".join(part for part in parts if part) or f"a board over {device.kind}"


def ask_target(
    workspace: Workspace,
    now: str | None,
    simulator: Simulator,
    then: Callable[[str | None, Simulator], None],
) -> None:
    """Look which boards there are, and ask for one of them or the simulator.

    Args:
        workspace: asks.
        now: the board that is the target; None for the simulator.
        simulator: that runs, or would.
        then: called with the chosen board, or None for the simulator, and the simulator.
    """

    def listed(listing: Listing) -> None:
        boards = {d.id: board_text(d) for d in listing.devices if d.usable}
        session = workspace.session
        for known in (now, session.board):
            if known is not None:  # as of SSH, where it is not in the list
                boards.setdefault(known, "chosen before; not in the list of boards now")
        named = {kind.name: kind for kind in SIMULATORS}
        about = {**dict(zip(named, _SIMULATORS_ABOUT, strict=True)), **boards}
        if not boards:
            about[SIMULATORS[0].name] += f". {_no_board(listing)}"

        def chosen(choice: str) -> None:
            then(*((None, named[choice]) if choice in named else (choice, simulator)))

        start = now or session.board or simulator.name
        dialog = ChoiceDialog("Run on", list(about), now or simulator.name, about, start)
        ask_user(workspace.app, dialog, chosen)

    ssh = workspace.session.ssh_boards
    workspace.ask(DEVICES_LIST, DeviceListParams(ssh, start_server=True), listed)


def ask_compiled(workspace: Workspace, now: str | None, then: Callable[[str], None]) -> None:
    """Ask for a compiled model; ``now`` is the one that was chosen before."""
    start = now or start_folder(workspace.session.recipe.get("model"))
    title = "Compiled model for the board (.rknn)"
    ask_user(workspace.app, PathPicker(title, start), then)


def ask_cores(workspace: Workspace, now: str, then: Callable[[Cores], None]) -> None:
    """Ask for the cores that run the model; those that a chip does not have are refused there."""
    ask_user(workspace.app, ChoiceDialog("NPU cores", CORES, now, _CORES_ABOUT), then)


def _no_board(listing: Listing) -> str:
    """Why there is nothing else to choose, and what to do."""
    waiting = [d for d in listing.devices if not d.usable]
    tells = f"{key_text('go.bench')} shows Devices, which tells what to do."
    if waiting:
        return f"No board is ready, {len(waiting)} cannot be used yet: {tells}"
    why = "".join(f" {sanitize(notice.what, 200)}" for notice in listing.notices[:1])
    return f"No board is in reach.{why} {tells}"
