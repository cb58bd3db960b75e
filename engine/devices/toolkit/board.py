"""A model on a board, loaded and run there by the vendor's generation 1 toolkit.

Methods and their arguments: [RKNN-T1 1.3.2, 3.6.6 to 3.6.11, 3.6.15].
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import DeviceError, RuntimeLibraryError
from engine.base.events import Reporter
from engine.base.text import sanitize, shape_text
from engine.container.vendor import VendorModel, VendorPort, inspect_vendor
from engine.devices.address import Address
from engine.devices.board.model_file import ModelFile, model_file, require_fit
from engine.devices.board.tensors import (
    BoardInput,
    TensorAttributes,
    prepared_input,
    zero_input,
)
from engine.devices.measure.perf_report import PerfReport, PerfRow
from engine.devices.transports.ntb import PROXY, ask_proxy, missing
from engine.facts import chips
from engine.toolkit import environments
from engine.toolkit.toolkit import RemoteRKNN, Toolkit
from engine.wire.board import AllocatedMemory
from engine.wire.devices import BoardAnswer
from engine.wire.vendor import ToolkitEnvironment

OPEN_SECONDS = 300.0
"""How long the toolkit may take to load a model on a board; it sends it over USB."""
RUN_SECONDS = 300.0
_PROXY_SECONDS = 3.0
_TYPES = ("float32", "float16", "int8", "uint8", "int16")
_MOST_LAYERS = 100_000
_API = re.compile(r"\bAPI:\s*([^\n(]+)")
_DRIVER = re.compile(r"DRV:\s*([^\n(]+)")
_MOST_BYTES = 1 << 50


def toolkit_for(address: Address) -> ToolkitEnvironment:
    """The environment of the toolkit that reaches a board.

    Raises:
        DeviceError: there is none; says how to get one.
        ToolkitError: the one that there is cannot be used.
    """
    if not toolkit_known():
        raise missing(address.name)
    return environments.find(1)


def toolkit_known() -> bool:
    """Whether there is an environment of the generation 1 toolkit, usable or not."""
    return any(one.generation == 1 for one in environments.known())


def toolkit_address(device: str | None, generation: int = 2) -> Address | None:
    """The address of a board that only the toolkit reaches; None for every other.

    Args:
        device: as the user gives it. In scripts of generation 1 a serial number alone may be of
            either kind, as the manual has it: the vendor's proxy is asked for it.
        generation: of the script.

    Raises:
        UsageError: it is no address.
    """
    if device is None:
        return None
    address = Address.parse(device)
    if address.kind == "ntb":
        return address
    program = shutil.which(PROXY) if generation == 1 and device == address.name else None
    if program is not None:
        with contextlib.suppress(DeviceError):
            if any(one.serial == device for one in ask_proxy(program, _PROXY_SECONDS)):
                return Address("ntb", device)
    return None


class ToolkitBoard:
    """A model that the toolkit runs on a board.

    Every method raises :class:`~engine.base.errors.DeviceError` where the toolkit refuses, and
    :class:`~engine.base.errors.CompilerError` where its process ends.

    Attributes:
        file: the model.
        chip: that the board was opened as.
        api_version, driver_version: as the toolkit tells them; empty where it does not.
        inputs: what the model takes, as its file tells it: NHWC where it has four axes.
        output_names: as the file has them.
    """

    def __init__(
        self, toolkit: Toolkit, address: Address, file: ModelFile, vendor: VendorModel
    ) -> None:
        self._toolkit, self._address = toolkit, address
        self.file = file
        self.chip = ""
        self.api_version = self.driver_version = ""
        self.inputs = tuple(_attributes(at, port) for at, port in enumerate(vendor.inputs))
        self.output_names = tuple(sanitize(port.tensor.name, 200) for port in vendor.outputs)

    @property
    def words(self) -> str:
        """The toolkit, with its version."""
        return f"rknn-toolkit {self._toolkit.environment.version}".rstrip()

    def head(self, *notes: str) -> BoardAnswer:
        """What every answer about the model on this board begins with; ``notes``: further ones."""
        how = (
            f"{self.words} ran it over {self._address.kind.upper()}: times are those of its "
            "eval_perf, and the state of the board (clocks, temperatures, memory of the system) is "
            "not read that way."
        )
        return BoardAnswer(
            label="measured",
            device=str(self._address),
            chip=self.chip,
            runtime=self.api_version,
            driver=self.driver_version,
            notes=(how, *notes),
        )

    @contextmanager
    def session(
        self, *, perf: bool = False, memory: bool = False, chip: str | None = None
    ) -> Iterator[RemoteRKNN]:
        """The model, loaded and ready, for the time of the block.

        Args:
            perf: have each layer timed, which slows the run.
            memory: have allocations counted.
            chip: that the board has; None tries those that the model was built for.
        """
        rknn = self._toolkit.rknn(verbose=False)
        try:
            self._require_listed(rknn)
            mark = self._toolkit.mark
            status = rknn.call("load_rknn", path=self.file.path, seconds=OPEN_SECONDS)
            self._check("load_rknn", status, mark)
            self._start(rknn, perf=perf, memory=memory, chip=chip)
            yield rknn
        finally:
            if self._toolkit.alive:
                rknn.release(seconds=RUN_SECONDS)

    def _require_listed(self, rknn: RemoteRKNN) -> None:
        """Refuse a board that the toolkit does not see, before it searches for it."""
        listing = rknn.call("list_devices", seconds=OPEN_SECONDS)
        pair = listing if isinstance(listing, tuple | list) and len(listing) == 2 else None
        if pair is None or not all(isinstance(names, list | tuple) for names in pair):
            return
        names = [str(name) for name in pair[1 if self._address.kind == "ntb" else 0]]
        if self._address.name not in names:
            listed = ", ".join(sanitize(name, 64) for name in names[:10]) or "none"
            raise DeviceError(
                f"{self.words} does not list the board {self._address}.",
                cause=f"By {self._address.kind} it lists {listed}. A board uses either adb or NTB, "
                "and npu_transfer_proxy has to run for NTB.",
                remedy="Check the cable and the board's mode: rknntui devices list",
            )

    def _start(self, rknn: RemoteRKNN, *, perf: bool, memory: bool, chip: str | None) -> None:
        tried = (chip,) if chip else (self.chip,) if self.chip else self.file.chips or _FIRST
        mark = self._toolkit.mark
        status: Any = -1
        for target in tried:
            status = rknn.call(
                "init_runtime",
                target=target,
                device_id=self._address.name,
                perf_debug=perf,
                eval_mem=memory,
                seconds=OPEN_SECONDS,
            )
            if status == 0:
                self.chip = target
                break
        self._check("init_runtime", status, mark)
        if not self.api_version:
            versions = str(rknn.call("get_sdk_version", seconds=RUN_SECONDS))
            self.api_version = _version(_API, versions)
            self.driver_version = _version(_DRIVER, versions)

    def run(self, rknn: RemoteRKNN, inputs: Sequence[BoardInput]) -> list[np.ndarray]:
        """The outputs of one inference, in the model's own layout.

        Raises:
            UsageError: the inputs do not fit the model.
        """
        prepared = [
            prepared_input(value, attributes)
            for value, attributes in zip(inputs, self.inputs, strict=True)
        ]
        types = {str(tensor.array.dtype) for tensor in prepared}
        one = types.pop() if len(types) == 1 else "float32"  # the toolkit takes one type for all
        one = one if one in _TYPES else "float32"
        through = [int(tensor.pass_through) for tensor in prepared]
        mark = self._toolkit.mark
        outputs = rknn.call(
            "inference",
            inputs=[tensor.array.astype(one, copy=False) for tensor in prepared],
            data_type=one,
            data_format="nhwc",
            inputs_pass_through=through if any(through) else None,
            seconds=RUN_SECONDS,
        )
        arrays = outputs if isinstance(outputs, list | tuple) else [outputs]
        if not arrays or not all(isinstance(array, np.ndarray) for array in arrays):
            raise self._refused("inference", outputs, mark)
        return list(arrays)

    def time(self, rknn: RemoteRKNN) -> dict[str, Any]:
        """What ``eval_perf`` returns: ``total_time`` in microseconds, perhaps ``layers``."""
        mark = self._toolkit.mark
        figures = rknn.call("eval_perf", is_print=False, seconds=RUN_SECONDS)
        if not isinstance(figures, dict) or not _is_number(figures.get("total_time")):
            raise self._refused("eval_perf", figures, mark)
        return figures

    def report(self, rknn: RemoteRKNN) -> PerfReport:
        """The times of the layers, in a session with ``perf``."""
        figures = self.time(rknn)
        layers = figures.get("layers")
        rows = layers.items() if isinstance(layers, dict) else ()
        return PerfReport(
            "generation 1",
            tuple(_row(at, key, row) for at, (key, row) in enumerate(rows) if at < _MOST_LAYERS),
            microseconds=float(figures["total_time"]),
            total_kind="operators",
        )

    def memory(self, rknn: RemoteRKNN) -> AllocatedMemory:
        """What the model takes, in a session with ``memory``."""
        mark = self._toolkit.mark
        sizes = rknn.call("eval_memory", is_print=False, seconds=RUN_SECONDS)
        try:
            system, npu = (_allocation(sizes[name]) for name in ("system_memory", "npu_memory"))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._refused("eval_memory", sizes, mark) from None
        return AllocatedMemory(*system, *npu)

    def _check(self, method: str, status: Any, mark: int) -> None:
        if status != 0:
            raise self._refused(method, status, mark)

    def _refused(self, method: str, result: Any, mark: int) -> DeviceError:
        refusal = self._toolkit.refused(method, mark, result)
        kind = DeviceError if method == "init_runtime" else RuntimeLibraryError
        return kind(
            f"{self.words} could not do it on {self._address}: {method} returned "
            f"{sanitize(repr(result), 60)}.",
            cause=refusal.cause,
            remedy=f"{refusal.remedy} Is the model for this board ({self.file.words})?",
        )


_FIRST = tuple(one.name for one in chips() if one.generation == 1)


@contextmanager
def toolkit_board(
    address: Address, model: Path, reporter: Reporter | None
) -> Iterator[ToolkitBoard]:
    """The toolkit, started for a model on a board, for the time of the block.

    Args:
        address: of the board.
        model: a compiled model of generation 1.
        reporter: told what the toolkit prints; asked whether to stop.

    Raises:
        ContainerError: the file is no compiled model, or damaged.
        RuntimeLibraryError: it is of generation 2, or a container of ours.
        DeviceError: there is no toolkit that reaches the board.
        ToolkitError: the one that there is cannot be used.
    """
    environment = toolkit_for(address)
    file = model_file(model)
    require_fit(file, _FIRST[0] if file.generation == 2 else "", emulated=False)
    with Toolkit(environment, None, reporter, reads=[model], board=True) as toolkit:
        yield ToolkitBoard(toolkit, address, file, inspect_vendor(model))


def memory_by_toolkit(
    model: Path, address: Address, chip: str, reporter: Reporter | None = None
) -> AllocatedMemory:
    """What a model takes on a generation 1 board that the toolkit reaches too, as over adb.

    Raises:
        ToolkitError: there is no such toolkit.
        DeviceError, CompilerError: as of :class:`ToolkitBoard`.
    """
    environments.find(1)
    with (
        toolkit_board(address, model, reporter) as board,
        board.session(memory=True, chip=chip) as rknn,
    ):
        board.run(rknn, [zero_input(attributes) for attributes in board.inputs])
        return board.memory(rknn)


def _attributes(at: int, port: VendorPort) -> TensorAttributes:
    """An input as a board would describe it; pictures are taken as NHWC, as the toolkit does."""
    shape = port.tensor.shape
    layout = "UNDEFINED"
    if len(shape) == 4:
        n, c, h, w = shape
        shape, layout = (n, h, w, c), "NHWC"
    elements = int(np.prod(shape, dtype=np.int64)) if shape else 1
    if elements <= 0 or elements > _MOST_BYTES:
        raise RuntimeLibraryError(
            f"Input {at} of the model has the shape {shape_text(shape)}.",
            cause="The file does not tell its real shape.",
            remedy="Build the model again.",
        )
    return TensorAttributes(
        index=at,
        name=sanitize(port.tensor.name, 200),
        shape=shape,
        layout=layout,
        dtype=port.tensor.dtype.upper() or "UINT8",
        elements=elements,
        size=elements,
    )


def _row(at: int, key: Any, row: Any) -> PerfRow:
    """A layer of ``eval_perf``; nothing of it is believed."""
    values = row if isinstance(row, dict) else {}
    text = str(key)
    time: Any = values.get("time")
    op = sanitize(str(values.get("operation", "")), 80)
    return PerfRow(
        id=int(text) if text.isdecimal() and len(text) < 10 else at,
        op=op,
        ops=(op,) if op else (),
        name=sanitize(str(values.get("name", "")), 300),
        target="NPU",
        microseconds=float(time) if _is_number(time) else None,
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e15


def _allocation(values: Any) -> list[int]:
    both = [int(values[f"{name}_allocation"]) for name in ("maximum", "total")]
    if not all(0 <= size < _MOST_BYTES for size in both):
        raise ValueError
    return both


def _version(form: re.Pattern[str], text: str) -> str:
    match = form.search(text)
    return sanitize(match[1].strip(), 80) if match else ""
