"""A compiled model on a board that only the vendor's generation 1 toolkit reaches, as over NTB."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from logging import Logger
from pathlib import Path

import numpy as np

from engine.api.board_model import given_inputs
from engine.api.signatures import Parameters
from engine.devices.address import Address
from engine.devices.measure.measured import MeasuredPerf, Versions
from engine.devices.toolkit.board import ToolkitBoard, toolkit_board
from engine.wire.board import AllocatedMemory
from engine.wire.devices import FigureLabel

_NO_EFFECT = ("async_mode", "rknn2precompile", "core_mask", "fallback_prior_device")


class ToolkitModel:
    """A model that the toolkit has loaded on a board, for what a script does with a target.

    Args:
        model: the vendor's compiled model.
        address: of the board.
        arguments: the arguments of ``init_runtime``.
        generation: of the toolkit whose forms are used.
        log: takes what a user should know.

    Raises:
        EngineError: there is no toolkit for it, no such board, or it cannot run the model.
    """

    def __init__(
        self, model: Path, address: Address, arguments: Parameters, generation: int, log: Logger
    ) -> None:
        for name in _NO_EFFECT:
            if arguments.get(name) not in (None, False, 0, "cpu"):
                log.warning("init_runtime: %s has no effect on a board over NTB.", name)
        self._given, self._generation = arguments, generation
        with ExitStack() as held:
            self._board: ToolkitBoard = held.enter_context(toolkit_board(address, model, None))
            self._rknn = held.enter_context(
                self._board.session(
                    perf=bool(arguments["perf_debug"]),
                    memory=bool(arguments["eval_mem"]),
                    chip=str(arguments["target"]).lower(),
                )
            )
            self._held = held.pop_all()

    def run(self, given: Parameters) -> list[np.ndarray]:
        """The outputs in the model's own layout, as the toolkit returns them."""
        return self._board.run(self._rknn, given_inputs(given, self._board.inputs))

    def perf(self, given: Parameters, log: Logger) -> MeasuredPerf:
        """What the toolkit's ``eval_perf`` measures; the median of ``loop_cnt`` calls of it."""
        if given["inputs"] is not None:
            log.info("eval_perf: the toolkit takes inputs of its own.")
        if self._given["perf_debug"]:
            report = self._board.report(self._rknn)
            return MeasuredPerf(self._generation, report.microseconds or 0.0, report=report)
        loops = max(1, given["loop_cnt"] or 1)
        times = [float(self._board.time(self._rknn)["total_time"]) for _ in range(loops)]
        return MeasuredPerf(self._generation, statistics.median(times))

    @property
    def label(self) -> FigureLabel:
        """Of every figure: the toolkit reaches real boards alone."""
        return "measured"

    def memory(self) -> AllocatedMemory:
        """What the model takes."""
        return self._board.memory(self._rknn)

    @property
    def model_bytes(self) -> int:
        """Size of the model's file."""
        return self._board.file.size

    def versions(self) -> Versions:
        """As the toolkit tells them."""
        board = self._board
        return Versions(
            self._generation, api=board.api_version or None, server=board.driver_version or None
        )

    def close(self) -> None:
        """Free the model and end the toolkit."""
        self._held.close()
