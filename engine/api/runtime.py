"""What ``init_runtime`` starts: the simulator, or a model on a board."""

from __future__ import annotations

from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api.board_model import BoardModel
from engine.api.signatures import Parameters
from engine.api.simulated_model import SimulatedModel, ignored_arguments
from engine.api.toolkit_model import ToolkitModel
from engine.base.errors import DeviceError, UsageError
from engine.base.leftovers import owned_file
from engine.base.text import sanitize
from engine.devices.toolkit.board import toolkit_address
from engine.wire.names import ARITHMETICS

if TYPE_CHECKING:
    from engine.graph.ir import CustomOperators
    from engine.pipeline.pipeline import Pipeline


def own_chip() -> str:
    """The chip of the machine that this runs on.

    Raises:
        DeviceError: it is no board with an NPU that is known.
    """
    from engine.devices.address import Address
    from engine.devices.probe.identify import identify
    from engine.devices.transports import reach

    board = reach(Address("local"))
    try:
        identity = identify(board)
    finally:
        board.close()
    if not identity.chip:
        raise DeviceError(
            "This machine is no board with an NPU that is known.",
            cause="Without a target a model runs on the machine itself.",
            remedy="Run the script on the board, or name one in reach: init_runtime("
            "target='rk3588', device_id=...).",
        )
    return identity.chip


def start_board(
    model: Path | bytes, given: Parameters, generation: int, log: Logger
) -> BoardModel | ToolkitModel:
    """Load a model on a board.

    Args:
        model: file of a compiled model, or the content of a container of ours.
        given: the arguments of ``init_runtime``.
        generation: of the toolkit whose rules hold.
        log: takes what a user should know of the board.

    Raises:
        EngineError: there is no such board, or it cannot run this model.
    """
    device = given["device_id"]
    address = toolkit_address(None if device is None else str(device), generation)
    if address is not None and isinstance(model, Path):
        return ToolkitModel(model, address, given, generation, log)
    if isinstance(model, Path):
        return BoardModel.start(model, given, generation, log)
    with owned_file("board", "model.rknn", model) as path:
        return BoardModel.start(path, given, generation, log)


def start_simulator(
    build: Pipeline | None,
    loaded: Path | None,
    given: Parameters,
    generation: int,
    operators: CustomOperators | None,
    log: Logger,
) -> SimulatedModel:
    """The simulator of a build, or of a container.

    Raises:
        UsageError: there is no such ``arithmetic``.
        EngineError: neither is there, or the file is no container of ours.
    """
    for name in ignored_arguments(given):
        if name == "perf_debug" and generation == 1 and build is not None:
            log.warning("init_runtime: with perf_debug eval_perf shows uids (estimated).")
        elif name == "core_mask" and build is not None:
            log.warning("init_runtime: core_mask counts in estimates; no result changes.")
        else:
            log.warning("init_runtime: %s has no effect in the simulator.", name)
    arithmetic = given["arithmetic"]
    if arithmetic not in ARITHMETICS:
        raise UsageError(
            f"The simulator has no arithmetic {sanitize(str(arithmetic), 40)!r}.",
            remedy=f"It has {' and '.join(ARITHMETICS)}.",
        )
    if build is not None:
        return SimulatedModel.of_build(build).in_form(arithmetic)
    if loaded is None:
        raise UsageError("There is nothing to run.", remedy="Call build or load_rknn first.")
    return SimulatedModel.of_container(loaded, generation, operators).in_form(arithmetic)
