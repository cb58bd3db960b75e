"""A compiled model on a board: what ``inference``, ``eval_perf`` and the like do with a target."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from logging import Logger
from pathlib import Path
from typing import Any

import numpy as np

from engine.api.input_adapter import to_data_type
from engine.api.signatures import RUNTIME, Parameters
from engine.base.errors import UsageError
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput, TensorAttributes, zero_input
from engine.devices.connected import open_board
from engine.devices.measure.benchmark import Reading, core_problem
from engine.devices.measure.benchmark_runs import fix_clocks_of, state_by_agent
from engine.devices.measure.measured import (
    MeasuredPerf,
    Versions,
    memory_not_available,
    memory_use,
)
from engine.devices.measure.perf_text import parse_perf_text
from engine.devices.probe.identify import BoardIdentity
from engine.devices.probe.versions import read_versions
from engine.devices.toolkit.board import memory_by_toolkit, toolkit_known
from engine.devices.transport import Transport
from engine.facts import chip as chip_facts
from engine.wire.board import AllocatedMemory
from engine.wire.devices import BoardMemory, FigureLabel

_WARMUP = 5
_LOOPS = 10
_NO_EFFECT = ("arithmetic", "fallback_prior_device", "target_sub_class", "rknn2precompile")
"""Arguments of ``init_runtime`` that the C API has no place for."""


class BoardModel:
    """A model that is loaded on a board.

    Args:
        board: the way to it; closed with this.
        identity: what it is.
        runtime: what runs the model there.
        opened: the model.
        arguments: the arguments of ``init_runtime``.
        generation: of the toolkit whose forms are used.
    """

    def __init__(
        self,
        board: Transport,
        identity: BoardIdentity,
        runtime: BoardRuntime,
        opened: OpenModel,
        arguments: Parameters,
        generation: int,
    ) -> None:
        self._board, self._identity, self._runtime = board, identity, runtime
        self._opened, self._given, self._generation = opened, arguments, generation
        self._previous: list[np.ndarray] | None = None

    @classmethod
    def start(cls, model: Path, given: Parameters, generation: int, log: Logger) -> BoardModel:
        """Load a compiled model on the board that is asked for.

        Args:
            model: the vendor's compiled model; an emulated board takes a container of ours, too.
            given: the arguments of ``init_runtime``.
            generation: of the toolkit whose rules hold.
            log: takes what a user should know of the board.

        Raises:
            UsageError, DeviceError, ContainerError: it cannot run there.
        """
        mask = _core_mask(given)
        for name in _NO_EFFECT:
            if given.get(name, RUNTIME[name]) != RUNTIME[name]:
                log.warning("init_runtime: %s has no effect on a board.", name)
        board, identity = open_board(str(given["target"]), given["device_id"])
        try:
            if identity.emulated:
                log.warning("init_runtime: this board is emulated; no NPU computes or is timed.")
            runtime = BoardRuntime(board, chip=identity.chip or "")
            try:
                opened = runtime.open(model, perf=bool(given["perf_debug"]), core_mask=mask)
            except BaseException:
                runtime.close()
                raise
        except BaseException:
            board.close()
            raise
        for note in opened.notes:
            log.warning("init_runtime: %s", note)
        return cls(board, identity, runtime, opened, given, generation)

    @property
    def label(self) -> FigureLabel:
        """Of every figure: ``measured``, or ``emulated`` where the board is."""
        return "emulated" if self._identity.emulated else "measured"

    def run(self, given: Parameters) -> list[np.ndarray]:
        """The outputs of ``inference``, float32 in the model's order; those of four axes are NCHW.

        With ``async_mode`` those of the call before; the first call gives its own.

        Raises:
            UsageError: the inputs do not fit the model.
            DeviceError: the board or its runtime fails.
        """
        prepared = given_inputs(given, self._opened.inputs)
        outputs = [output.channels_first for output in self._runtime.run(prepared).outputs]
        if not self._given["async_mode"]:
            return outputs
        before, self._previous = self._previous, outputs
        return outputs if before is None else before

    def perf(self, given: Parameters, log: Logger) -> MeasuredPerf:
        """Time the model, with the clocks fixed meanwhile where that is asked for.

        Args:
            given: the arguments of ``eval_perf``: without ``inputs`` they are zeros; ``loop_cnt``
                inferences are timed, ten for None, after five that are not; with ``fix_freq`` the
                clocks that the vendor's script sets are set, and restored afterwards.
            log: takes which clocks could not be set.
        """
        loops, fix_clocks = given["loop_cnt"], bool(given["fix_freq"])
        count = _LOOPS if loops is None else _whole(loops, "loop_cnt")
        wanted = self._opened.inputs
        prepared = (
            [zero_input(attributes) for attributes in wanted]
            if given["inputs"] is None
            else given_inputs(given, wanted)
        )
        try:
            if fix_clocks:
                for note in fix_clocks_of(self._runtime, self._identity.chip):
                    log.warning("eval_perf: %s", note)
            measured = self._runtime.run(prepared, warmup=_WARMUP, loops=count, outputs=False)
            state = state_by_agent(self._runtime, self._identity.chip)
        finally:
            if fix_clocks:
                self._runtime.restore_clocks()
        return MeasuredPerf(
            self._generation,
            statistics.median(measured.run_us or measured.wall_us),
            report=parse_perf_text(measured.perf) if measured.perf else None,
            text=measured.perf or "",
            clocks=tuple(part for part in Reading.of(state).listed() if part.hertz),
            label=self.label,
        )

    def memory(self) -> BoardMemory | AllocatedMemory:
        """What the model takes; in generation 1 the vendor's toolkit is asked, where it is known.

        Raises:
            RuntimeLibraryError: the runtime has no such query, and there is no toolkit to ask.
            ToolkitError, DeviceError: the toolkit cannot be used, or fails.
        """
        if self._opened.generation == 1:
            return self._memory_by_toolkit()
        memory_kinds = self._runtime.memory()
        return memory_use(
            weight=memory_kinds.weight, internal=memory_kinds.internal, dma=memory_kinds.dma
        )

    @property
    def model_bytes(self) -> int:
        """Size of the model's file."""
        return self._opened.file.size

    def versions(self) -> Versions:
        """Of the runtime library, rknn_server and the driver."""
        chip, generation = self._identity.chip, self._opened.generation
        board_versions = read_versions(self._board, chip, generation)
        server = (
            str(board_versions.server.version)
            if board_versions.server and board_versions.server.version
            else None
        )
        return Versions(
            self._generation,
            api=self._opened.api_version,
            server=self._opened.driver_version if generation == 1 else server,
            runtime=self._opened.api_version if generation == 2 else None,
            driver=self._opened.driver_version if generation == 2 else None,
            label=self.label,
        )

    def close(self) -> None:
        """Free the model and let the board go."""
        try:
            self._runtime.close()
        finally:
            self._board.close()

    def _memory_by_toolkit(self) -> AllocatedMemory:
        """As the vendor's toolkit asks rknn_server, which the C API of generation 1 cannot."""
        if self._board.kind != "adb" or not toolkit_known():
            raise memory_not_available()
        address = Address("adb", self._board.name)
        chip = self._identity.chip or str(self._given["target"]).lower()
        return memory_by_toolkit(self._opened.file.path, address, chip)


def given_inputs(given: Parameters, wanted: Sequence[TensorAttributes]) -> list[BoardInput]:
    """The inputs of ``inference`` or ``eval_perf``, one array for each of a model's.

    Raises:
        UsageError: they are too many or too few, or none.
    """
    inputs = given["inputs"]
    arrays = [inputs] if isinstance(inputs, np.ndarray) else inputs
    if not isinstance(arrays, Sequence) or len(arrays) != len(wanted):
        raise UsageError(
            f"The model has {len(wanted)} inputs.",
            remedy="Give a list of numpy arrays, one per input, in the model's order.",
        )
    formats = _each(given["data_format"], len(wanted), "data_format")
    through = _each(given.get("inputs_pass_through"), len(wanted), "inputs_pass_through")
    return [
        _board_input(index, array, attributes, formats[index], given["data_type"], through[index])
        for index, (array, attributes) in enumerate(zip(arrays, wanted, strict=True))
    ]


def _board_input(
    index: int,
    array: Any,
    port: TensorAttributes,
    data_format: Any,
    data_type: Any,
    pass_through: Any,
) -> BoardInput:
    if not isinstance(array, np.ndarray):
        raise UsageError(f"Input {index} is a {type(array).__name__}, not an ndarray.")
    values: np.ndarray = array
    if data_type is not None:
        values = to_data_type(values, data_type, port.name or str(index))
    if values.ndim == len(port.shape) - 1:  # without its batch of 1
        values = values[None]
    layout = str(data_format).upper() if data_format is not None and values.ndim == 4 else None
    return BoardInput(values, layout, bool(pass_through))


def _each(option: Any, count: int, name: str) -> list[Any]:
    """What was given for each input: one value for all, or one for each."""
    alone = not isinstance(option, Sequence | np.ndarray) or isinstance(option, str)
    values = [option] * count if alone else list(option)
    if len(values) != count:
        raise UsageError(f"{name} has {len(values)} entries for {count} inputs.")
    return values


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(f"{name} is {sanitize(repr(value), 40)}, and no whole number.")
    return int(value)


def _core_mask(arguments: Parameters) -> int | None:
    """``core_mask`` as the runtime takes it; None where the runtime chooses.

    Raises:
        UsageError: it is no number, or the chip has no such cores [RKNN-T2 2.3.0, 2.7].
    """
    asked = arguments.get("core_mask")
    mask = 0 if asked is None else _whole(asked, "core_mask")
    if not mask:
        return None
    target = str(arguments["target"]).lower()
    facts = chip_facts(target)
    problem = core_problem(mask, facts) if facts else ""
    if problem:
        raise UsageError(
            f"core_mask {mask} does not fit {sanitize(target, 40)}.",
            cause=problem,
            remedy="Leave core_mask at RKNN.NPU_CORE_AUTO, or name cores that it has.",
        )
    return mask
