"""A compiled model on a board that only the vendor's generation 1 toolkit reaches, as over NTB."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from logging import Logger
from pathlib import Path
from typing import Any

import numpy as np

from engine.api.board_model import given_inputs
from engine.api.signatures import Parameters
from engine.base.errors import UsageError
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

    def run(
        self, inputs: Any, *, data_format: Any, data_type: Any, pass_through: Any
    ) -> list[np.ndarray]:
        """The outputs in the model's own layout, as the toolkit returns them."""
        ports = self._board.inputs
        prepared = given_inputs(inputs, ports, data_format, data_type, pass_through)
        return self._board.run(self._rknn, prepared)

    def perf(
        self,
        inputs: Any,
        *,
        data_format: Any = None,
        data_type: Any = None,
        loops: int | None = None,
        fix_clocks: bool,
        log: Logger,
    ) -> MeasuredPerf:
        """What the toolkit's ``eval_perf`` measures; the median of ``loops`` calls of it."""
        if inputs is not None:
            log.info("eval_perf: the toolkit takes inputs of its own.")
        if self._given["perf_debug"]:
            report = self._board.report(self._rknn)
            return MeasuredPerf(self._generation, report.microseconds or 0.0, report=report)
        times = [
            float(self._board.time(self._rknn)["total_time"]) for _ in range(max(1, loops or 1))
        ]
        return MeasuredPerf(self._generation, statistics.median(times))

    @property
    def label(self) -> FigureLabel:
        """Of every figure: the toolkit reaches real boards alone."""
        return "measured"

    def memory(self) -> AllocatedMemory:
        """What the model takes.

        Raises:
            UsageError: ``init_runtime`` was called without ``eval_mem``.
        """
        if not self._given["eval_mem"]:
            raise UsageError(
                "The memory is not evaluated in this session.",
                remedy="Call init_runtime with eval_mem=True.",
            )
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
