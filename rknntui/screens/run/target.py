"""Where Run runs: the simulator on this machine, or a board."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from engine import sanitize
from engine.wire.devices import CORES, DEVICES_LIST, DeviceListParams, Listing
from rknntui.keys.text import key_text
from rknntui.screens.accuracy.inputs import start_folder
from rknntui.screens.dialogs.dialogs import ChoiceDialog
from rknntui.screens.run.requests import SIMULATORS, Simulator

if TYPE_CHECKING:
    from engine.wire.devices import Cores, Device
    from rknntui.screens.base.workspace import Workspace

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
        named = {each.name: each for each in SIMULATORS}
        about = {**dict(zip(named, _SIMULATORS_ABOUT, strict=True)), **boards}
        if not boards:
            about[SIMULATORS[0].name] += f". {_no_board(listing)}"

        def chosen(choice: str | None) -> None:
            if choice in named:
                then(None, named[choice])
            elif choice is not None:
                then(choice, simulator)

        start = now or session.board or simulator.name
        dialog = ChoiceDialog("Run on", list(about), now or simulator.name, about, start)
        workspace.app.push_screen(dialog, chosen)

    ssh = workspace.session.ssh_boards
    workspace.ask(DEVICES_LIST, DeviceListParams(ssh, start_server=True), listed)


def ask_compiled(workspace: Workspace, now: str | None, then: Callable[[str], None]) -> None:
    """Ask for a compiled model; ``now`` is the one that was chosen before."""
    from rknntui.screens.dialogs.picker import PathPicker

    def chosen(path: str | None) -> None:
        if path is not None:
            then(path)

    start = now or start_folder(workspace.session.recipe.get("model"))
    title = "Compiled model for the board (.rknn)"
    workspace.app.push_screen(PathPicker(title, start), chosen)


def ask_cores(workspace: Workspace, now: str, then: Callable[[Cores], None]) -> None:
    """Ask for the cores that run the model; those that a chip does not have are refused there."""

    def chosen(cores: str | None) -> None:
        if cores is not None:
            then(cast("Cores", cores))

    workspace.app.push_screen(ChoiceDialog("NPU cores", CORES, now, _CORES_ABOUT), chosen)


def _no_board(listing: Listing) -> str:
    """Why there is nothing else to choose, and what to do."""
    waiting = [d for d in listing.devices if not d.usable]
    tells = f"{key_text('go.devices')} shows Devices, which tells what to do."
    if waiting:
        return f"No board is ready, {len(waiting)} cannot be used yet: {tells}"
    why = "".join(f" {sanitize(notice.what, 200)}" for notice in listing.notices[:1])
    return f"No board is in reach.{why} {tells}"
