"""What a board measured, in the forms of the vendor's manuals: texts that are printed and values
that methods return.

Every figure here comes from a board, so that every type has a label: ``measured``, or ``emulated``
where the board is one of :mod:`rknntui_emulator`. Texts name it in their titles; figures of
other kinds (simulated, estimated) have no way in.

Forms: ``eval_perf`` [RKNN-T1 1.3.2, 3.6.9; RKNN-T2 1.1.0, 3.5.9; RKNN-T2 2.3.0, 2.9],
``eval_memory`` [RKNN-T1 1.3.2, 3.6.10; RKNN-T2 1.1.0, 3.5.10; RKNN-T2 2.3.0, 2.10],
``get_sdk_version`` [RKNN-T1 1.3.2, 3.6.11; RKNN-T2 2.3.0, 2.11],
``list_devices`` [RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.base.errors import RuntimeLibraryError
from engine.base.text import human_bytes, sanitize, visible
from engine.devices.measure.perf_report import Clocks, PerfReport, PerfRow
from engine.wire.board import AllocatedMemory
from engine.wire.devices import BoardMemory, FigureLabel

if TYPE_CHECKING:
    from engine.devices.board.results import DeviceMemory, OpenModel

_WIDE = "=" * 72
_MEMORY_RULE = "=" * 54
_VERSION_RULE = "=" * 46
_NAME_WIDTH = 40
_RANKED = 5


def _number(value: float) -> int | float:
    """A figure as the manuals' dictionaries have it: whole, where it is."""
    return int(value) if value == int(value) else round(value, 2)


@dataclass(frozen=True)
class MeasuredPerf:
    """The answer of ``eval_perf``.

    Attributes:
        generation: of the toolkit whose form is used, 1 or 2.
        microseconds: of one run; the median, where there were several.
        report: of the layers, with ``perf_debug``; None without.
        text: the runtime's own text of the report (generation 2).
        clocks: what the board ran at.
        label: ``measured`` or ``emulated``.
    """

    generation: int
    microseconds: float
    report: PerfReport | None = None
    text: str = ""
    clocks: tuple[Clocks, ...] = ()
    label: FigureLabel = "measured"

    @property
    def frames_per_second(self) -> float:
        """Runs in a second; 0 where the time is."""
        return 1e6 / self.microseconds if self.microseconds else 0.0

    def value(self) -> str | dict[str, Any]:
        """What the method returns: generation 1 a dictionary, generation 2 the printed text."""
        return self.dictionary() if self.generation == 1 else self.printed()

    def dictionary(self) -> dict[str, Any]:
        """``total_time`` in microseconds and, with ``perf_debug``, ``layers`` by their numbers.

        The form of generation 1, and of generation 2's manual 1.1.0, which adds ``target``.
        """
        if self.report is None:
            return {"total_time": _number(self.microseconds)}
        total = self.report.microseconds
        return {
            "total_time": _number(self.microseconds if total is None else total),
            "layers": {str(row.id): _layer(row) for row in self.report.rows},
        }

    def printed(self) -> str:
        """The text that ``is_print`` prints."""
        lines = [line for clocks in self.clocks for line in _clock_lines(clocks)]
        if self.report is None:
            average = "Average inference Time" if self.generation == 1 else "Total Time"
            shown = f"{self.microseconds:.{2 if self.generation == 1 else 0}f}"
            body = [f"{average}(us): {shown}", f"FPS: {self.frames_per_second:.2f}", _WIDE]
            return "\n".join([*lines, *self._head(), *body])
        if self.generation == 1:
            return "\n".join([*lines, *self._head(remark=True), *_first_report(self.report)])
        remark = "Warning: The performance result is just for debugging, may worse than actual "
        own = [visible(line) for line in self.text.splitlines()]
        return "\n".join([*lines, "", f"{remark}performance!", self._title, *own])

    @property
    def _title(self) -> str:
        return f"Performance ({self.label})".center(72).rstrip()

    def _head(self, *, remark: bool = False) -> list[str]:
        remarks = [
            "        #### The performance result is just for debugging, ####",
            "        #### may worse than actual performance!            ####",
        ]
        return [_WIDE, self._title, *(remarks if remark else []), _WIDE]


def _layer(row: PerfRow) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": row.name}
    if row.op:
        entry["operation"] = row.op
    if row.target:
        entry["target"] = row.target
    if row.microseconds is not None:
        entry["time"] = _number(row.microseconds)
    return entry


def _clock_lines(clocks: Clocks) -> list[str]:
    unit = 1000 if clocks.part == "CPU" else 1  # the CPU's are printed in kHz
    shown = [f"    - {hertz // unit}" for hertz in clocks.hertz]
    return [f"{clocks.part} Current Frequency List:", *(shown or ["    - Unknown"])]


def _first_report(report: PerfReport) -> list[str]:
    """The tables of generation 1, with names that go on in the next line."""
    lines = [f"{'Layer ID':<12}{'Name':<45}{'Operator':<20}{'Uid':<10}Time(us)"]
    for row in report.rows:
        names = [
            row.name[at : at + _NAME_WIDTH] for at in range(0, len(row.name), _NAME_WIDTH)
        ] or [""]
        uid = "" if row.uid is None else str(row.uid)
        time = "" if row.microseconds is None else str(_number(row.microseconds))
        ops = row.ops or ("",)
        for at in range(max(len(names), len(ops))):
            name = names[at] if at < len(names) else ""
            op = ops[at] if at < len(ops) else ""
            first = (str(row.id), uid, time) if at == 0 else ("", "", "")
            lines.append(f"{first[0]:<12}{name:<45}{op:<20}{first[1]:<10}{first[2]}".rstrip())
    if report.microseconds is not None:
        lines.append(f"Total Time(us): {_number(report.microseconds)}")
        rate = 1e6 / report.microseconds if report.microseconds else 0.0
        lines.append(f"FPS: {rate:.2f}")
    lines.append(_WIDE)
    if report.ranking:
        lines.append(f"{'OP':<20}{'Call Number':<15}{'Total Time(us)':<18}Time Ratio(%)")
        for total in report.ranking[:_RANKED]:
            figures = (total.calls, total.total, total.share)
            calls, time, share = ("" if value is None else str(_number(value)) for value in figures)
            lines.append(f"{total.op:<20}{calls:<15}{time:<18}{share}".rstrip())
        lines.append(_WIDE)
    return lines


def memory_use(*, weight: int, internal: int, dma: int) -> BoardMemory:
    """What ``rknn_mem_size`` says, without the chip's own memory.

    That ``other`` is what is left of the allocation follows from the sum in the manual's example;
    no document says it.

    Args:
        weight: ``total_weight_size``.
        internal: ``total_internal_size``, without inputs and outputs.
        dma: ``total_dma_allocated_size``; older runtimes leave it 0.
    """
    known = weight + internal
    if not dma:
        note = "The runtime does not say what it allocated: total is weights and tensors."
        return BoardMemory(weight, internal, 0, known, note)
    note = (
        f"The runtime says it allocated {human_bytes(dma)}, less than weights and tensors are."
        if dma < known
        else ""
    )
    return BoardMemory(weight, internal, max(dma - known, 0), dma, note)


def memory_value(memory: BoardMemory | AllocatedMemory) -> dict[str, Any]:
    """What ``eval_memory`` returns: bytes by the names of the generation's manual."""
    if isinstance(memory, BoardMemory):
        return {f"{name}_memory": size for name, _, size in _parts(memory)}
    return {
        f"{name.lower()}_memory": {"maximum_allocation": most, "total_allocation": total}
        for name, most, total in _allocations(memory)
    }


def memory_text(memory: BoardMemory | AllocatedMemory, model_bytes: int, label: FigureLabel) -> str:
    """The text that ``eval_memory`` prints with ``is_print``.

    Args:
        memory: what the board says.
        model_bytes: size of the model's file.
        label: of the figures.
    """
    if isinstance(memory, BoardMemory):
        body = ["NPU model memory detail(bytes):"]
        body += [f"    {title}: {human_bytes(size)}" for _, title, size in _parts(memory)]
    else:
        body = [
            line
            for name, most, total in _allocations(memory)
            for line in (
                f"{name} memory:",
                f"    maximum allocation : {human_bytes(most)}",
                f"    total allocation   : {human_bytes(total)}",
            )
        ]
    title = f"Memory Profile Info Dump ({label})".center(54).rstrip()
    tail = [
        "INFO: When evaluating memory usage, we need consider",
        f"the size of model, current model size is: {human_bytes(model_bytes)}",
    ]
    return "\n".join([_MEMORY_RULE, title, _MEMORY_RULE, *body, "", *tail, _MEMORY_RULE])


def _parts(memory: BoardMemory) -> list[tuple[str, str, int]]:
    """Key, title and bytes of each part, as the manual of generation 2 has them."""
    return [
        ("weight", "Weight Memory", memory.weight),
        ("internal", "Internal Tensor Memory", memory.internal),
        ("other", "Other Memory", memory.other),
        ("total", "Total Memory", memory.total),
    ]


def _allocations(memory: AllocatedMemory) -> list[tuple[str, int, int]]:
    """Name, most bytes at one time and sum of all, as the manual of generation 1 has them."""
    system = (memory.system_maximum, memory.system_total)
    npu = (memory.npu_maximum, memory.npu_total)
    return [("System", *system), ("NPU", *npu), ("Total", system[0] + npu[0], system[1] + npu[1])]


def memory_not_available() -> RuntimeLibraryError:
    """The error of ``eval_memory`` where a generation 1 runtime is asked by its C API."""
    return RuntimeLibraryError(
        "eval_memory is not available on this runtime.",
        cause="The C API of generation 1 (librknn_runtime.so) has no query for memory; the "
        "vendor's toolkit asks rknn_server in a way of its own.",
        remedy="Name the vendor's generation 1 toolkit once (rknntui vendor adopt PYTHON): then it "
        "is asked. Or look at the board's free memory in the monitor.",
    )


@dataclass(frozen=True)
class Versions:
    """The answer of ``get_sdk_version``; what is not known is None and is left out.

    Attributes:
        generation: 1 or 2.
        api: of the API that asked.
        server: of rknn_server (generation 1: what its API calls the driver).
        runtime: of the runtime library (generation 2).
        driver: of the kernel's driver, which the manuals do not print.
        label: ``measured`` or ``emulated``.
    """

    generation: int
    api: str | None = None
    server: str | None = None
    runtime: str | None = None
    driver: str | None = None
    label: FigureLabel = "measured"

    def value(self) -> str:
        """What the method returns, and what is printed."""
        if self.generation == 1:
            known = [("API", self.api), ("DRV", self.server)]
        else:
            known = [
                ("API", self.api),
                ("DRV: rknn_server", self.server),
                ("DRV: rknnrt", self.runtime),
                ("DRV: rknpu", self.driver),
            ]
        title = "RKNN VERSION:" if self.label == "measured" else f"RKNN VERSION ({self.label}):"
        lines = [f"    {name}: {sanitize(text, 200)}" for name, text in known if text]
        return "\n".join([_VERSION_RULE, title, *lines, _VERSION_RULE])


def memory_of(opened: OpenModel, now: DeviceMemory | None = None) -> tuple[BoardMemory | None, str]:
    """What a model takes on a board; None and the reason where the runtime has no such query.

    Args:
        opened: as it was loaded.
        now: asked anew; None for what the runtime said when the model was loaded.
    """
    sizes = now or opened.memory
    if sizes is not None:
        memory = memory_use(weight=sizes.weight, internal=sizes.internal, dma=sizes.dma)
        return replace(memory, sram=sizes.sram, sram_free=sizes.sram_free), ""
    why = memory_not_available().cause if opened.generation == 1 else "it has no query for memory."
    return None, f"not available on this runtime: {why}"
