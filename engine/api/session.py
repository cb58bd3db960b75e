"""What ``init_runtime`` got ready to run and to measure: a board or the simulator."""

from __future__ import annotations

from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.api.signatures import Parameters
from engine.base.errors import UsageError

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
        from engine.api.runtime import start_board

        self._given = given
        self._board = start_board(model, given, generation, self._log)

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
            EngineError: neither is there, or the file is no container of ours.
        """
        from engine.api.runtime import start_simulator

        self._given, self._build = given, build
        self._simulated = start_simulator(build, loaded, given, generation, operators, self._log)

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
        how = {
            "data_format": given["data_format"],
            "data_type": given["data_type"],
            "pass_through": given["inputs_pass_through"],
        }
        if self._board is not None:
            return self._board.run(given["inputs"], **how)
        if self._simulated is None:
            raise UsageError("The runtime is not ready.", remedy="Call init_runtime first.")
        outputs, warnings = self._simulated.run(given["inputs"], **how)
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
        measured = self._board.perf(
            given["inputs"],
            data_format=given["data_format"],
            data_type=given["data_type"],
            loops=given["loop_cnt"],
            fix_clocks=bool(given["fix_freq"]),
            log=self._log,
        )
        self._print(measured.printed(), given)
        return measured.value()

    def memory(self, given: Parameters, generation: int, container_bytes: int) -> Any:
        """The answer of ``eval_memory``, bytes, in the form of a generation: measured or estimated.

        Args:
            given: the arguments of ``eval_memory``.
            container_bytes: of the build.

        Raises:
            EngineError: the board fails, or there is no build to estimate.
        """
        if self._board is None:
            from engine.api.estimated import EstimatedMemory

            estimated = EstimatedMemory(generation, self._estimate())
            self._print(estimated.printed(container_bytes), given)
            return estimated.value()
        from engine.devices.measure.measured import memory_text, memory_value

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
