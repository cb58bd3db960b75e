"""What ``init_runtime`` got ready to run and to measure: a board or the simulator."""

from __future__ import annotations

from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.api.signatures import RUNTIME, Parameters
from engine.base.errors import UsageError
from engine.base.text import sanitize
from engine.wire.names import ARITHMETICS

if TYPE_CHECKING:
    from engine.api.board_model import BoardModel
    from engine.api.simulated_model import SimulatedModel
    from engine.api.toolkit_model import ToolkitModel
    from engine.graph.ir import CustomOperators
    from engine.pipeline.pipeline import Pipeline
    from engine.wire.cost import ChipEstimate


class Session:
    """One model at a time, on a board or in the simulator; none before ``start``.

    Args:
        log: takes what is printed, and what a user should know.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._simulated: SimulatedModel | None = None
        self._board: BoardModel | ToolkitModel | None = None
        self._build: Pipeline | None = None
        self._given: Parameters = {}

    def start_board(self, model: Path | bytes, given: Parameters, generation: int) -> None:
        """Load a model on the board of a target.

        Args:
            model: file of a compiled model, or the content of a container of ours.
            given: the arguments of ``init_runtime``.
            generation: of the toolkit whose rules hold.

        Raises:
            EngineError: there is no such board, or it cannot run this model.
        """
        from engine.api.board_model import BoardModel
        from engine.api.toolkit_model import ToolkitModel
        from engine.base.leftovers import owned_file
        from engine.devices.toolkit.board import toolkit_address

        self._given = given
        device = given["device_id"]
        address = toolkit_address(None if device is None else str(device), generation)
        if not isinstance(model, Path):
            with owned_file("board", "model.rknn", model) as path:
                self._board = BoardModel.start(path, given, generation, self._log)
        elif address is not None:
            self._board = ToolkitModel(model, address, given, generation, self._log)
        else:
            self._board = BoardModel.start(model, given, generation, self._log)

    def start_simulator(
        self,
        build: Pipeline | None,
        loaded: Path | None,
        given: Parameters,
        generation: int,
        operators: CustomOperators | None,
    ) -> None:
        """Simulate a build, or a container.

        Raises:
            UsageError: there is no such ``arithmetic``.
            EngineError: neither is there, or the file is no container of ours.
        """
        from engine.api.simulated_model import SimulatedModel

        self._given, self._build = given, build
        for name, default in RUNTIME.items():
            if name in ("target", "arithmetic") or given.get(name, default) == default:
                continue
            if name == "perf_debug" and generation == 1 and build is not None:
                how = "with perf_debug eval_perf shows uids (estimated)"
            elif name == "core_mask" and build is not None:
                how = "core_mask counts in estimates; no result changes"
            else:
                how = f"{name} has no effect in the simulator"
            self._log.warning("init_runtime: %s.", how)
        arithmetic = given["arithmetic"]
        if arithmetic not in ARITHMETICS:
            raise UsageError(
                f"The simulator has no arithmetic {sanitize(str(arithmetic), 40)!r}.",
                remedy=f"It has {' and '.join(ARITHMETICS)}.",
            )
        if build is not None:
            model = SimulatedModel.of_build(build)
        elif loaded is not None:
            model = SimulatedModel.of_container(loaded, generation, operators)
        else:
            raise UsageError("There is nothing to run.", remedy="Call build or load_rknn first.")
        self._simulated = model.in_form(arithmetic)

    @property
    def on_board(self) -> bool:
        """Whether a board has the model."""
        return self._board is not None

    @property
    def board(self) -> BoardModel | ToolkitModel:
        """The model on its board.

        Raises:
            UsageError: there is none.
        """
        if self._board is None:
            raise UsageError(
                "This needs a board.", remedy="Call init_runtime with the target of a board first."
            )
        return self._board

    def run(self, given: Parameters) -> list[np.ndarray]:
        """The outputs, float32, in the model's own layout.

        Args:
            given: the arguments of ``inference``.

        Raises:
            UsageError: nothing is ready, or the inputs do not fit the model.
            DeviceError: the board or its runtime fails.
        """
        if self._board is not None:
            return self._board.run(given)
        if self._simulated is None:
            raise UsageError("The runtime is not ready.", remedy="Call init_runtime first.")
        outputs, warnings = self._simulated.run(
            given["inputs"],
            data_format=given["data_format"],
            data_type=given["data_type"],
            pass_through=given["inputs_pass_through"],
        )
        for warning in warnings:
            self._log.warning("%s", warning)
        return list(outputs.values())

    def perf(self, given: Parameters, generation: int) -> Any:
        """The answer of ``eval_perf``, in the form of a generation: measured or estimated.

        Args:
            given: the arguments of ``eval_perf``.

        Raises:
            EngineError: the board fails, or there is no build to estimate.
        """
        if self._board is None:
            from engine.api.estimated import EstimatedPerf, uids_of_build

            estimate, uids = self._estimate(), None
            if self._build is not None and generation == 1 and self._given["perf_debug"]:
                uids = uids_of_build(self._build)
            estimated = EstimatedPerf(generation, estimate, uids)
            self._print(estimated.printed(), given)
            return estimated.value()
        measured = self._board.perf(given, self._log)
        self._print(measured.printed(), given)
        return measured.value()

    def memory(self, given: Parameters, generation: int, container_bytes: int) -> Any:
        """The answer of ``eval_memory``, bytes, in the form of a generation: measured or estimated.

        Args:
            given: the arguments of ``eval_memory``.
            container_bytes: of the build.

        Raises:
            UsageError: ``init_runtime`` was called without ``eval_mem``.
            EngineError: the board fails, or there is no build to estimate.
        """
        from engine.devices.measure.measured import memory_text, memory_value

        if self._board is None:
            from engine.api.estimated import memory_estimate

            estimated, text = memory_estimate(generation, self._estimate(), container_bytes)
            self._print(text, given)
            return memory_value(estimated)
        if not self._given["eval_mem"]:
            raise UsageError(
                "The memory is not evaluated in this session.",
                remedy="Call init_runtime with eval_mem=True.",
            )
        measured = self._board.memory()
        self._print(memory_text(measured, self._board.model_bytes, self._board.label), given)
        return memory_value(measured)

    def _print(self, text: str, arguments: Parameters) -> None:
        if arguments["is_print"]:
            self._log.warning("%s", text, extra={"plain": True})

    def _estimate(self) -> ChipEstimate:
        from engine.api.estimated import estimate_of_build

        if self._simulated is None or self._build is None:
            raise UsageError(
                "This needs a board, or a build in the simulator.",
                remedy="Call init_runtime after build, or with the target of a board.",
            )
        return estimate_of_build(self._build, self._given.get("core_mask"))

    def close(self) -> None:
        """Forget the model, and let the board go."""
        self._simulated, self._build = None, None
        board, self._board = self._board, None
        if board is not None:
            board.close()
