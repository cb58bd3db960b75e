"""``eval_perf`` and ``eval_memory`` without a board: estimates in the forms of the manuals.

Every printed text says ``estimated`` in its title. Forms: ``eval_perf`` of the vendor's simulator
[RKNN-T1 1.3.2, 3.5 and 3.6.9] and of the runtime [RKNN-T2 2.3.0, 2.9], ``eval_memory``
[RKNN-T1 1.3.2, 3.6.10; RKNN-T2 2.3.0, 2.10].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.base.text import aligned, human_bytes, sanitize
from engine.wire.board import AllocatedMemory
from engine.wire.cost import ChipEstimate, LayerCost, WhatIf
from engine.wire.devices import BoardMemory

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline

_WIDE = "=" * 72
_RULE = "-" * 120
_MEMORY_RULE = "=" * 54
_ALL_CORES = 0xFFFF
_REMARK = "Estimated for {chip}, not measured: {low:.2f} to {high:.2f} ms, nine times in ten."


def cores_of(mask: object) -> int:
    """How many cores a ``core_mask`` names: AUTO is one, ALL as many as a chip has."""
    if not isinstance(mask, int) or isinstance(mask, bool) or mask <= 0:
        return 1
    return 8 if mask == _ALL_CORES else min(8, mask.bit_count())


def estimate_of_build(build: Pipeline, core_mask: object = 0) -> ChipEstimate:
    """What the build costs on the chip of its ``target_platform``.

    Raises:
        UsageError: no chip is named, or the model cannot be estimated there.
    """
    from engine.pipeline.costs import estimates

    chip = build.recipe.target.target_platform
    if chip is None:
        raise UsageError(
            "The chip to estimate for is not known.",
            remedy="Name target_platform in config, or call init_runtime with the target of a "
            "board to measure.",
        )
    estimate = estimates(build, WhatIf((chip,), cores=cores_of(core_mask)), spans=False).chips[0]
    if estimate.problem:
        raise UsageError(estimate.problem, remedy=estimate.remedy)
    return estimate


def uids_of_build(build: Pipeline) -> dict[str, int]:
    """``layer.id`` -> uid: its place among the layers of the build's container."""
    from engine.quantize import layers_of

    layers = (
        build.quantized.layers if build.quantized_build else layers_of(build.deployed.graph)
    ).layers
    return {layer.id: uid for uid, layer in enumerate(layers)}


@dataclass(frozen=True)
class EstimatedPerf:
    """The answer of ``eval_perf``.

    Attributes:
        generation: whose form is used.
        estimate: of the build.
        uids: of its layers; where they are given, generation 1's form is that of hardware, with
            operators and uids.
    """

    generation: int
    estimate: ChipEstimate
    uids: Mapping[str, int] | None = None

    @property
    def microseconds(self) -> float:
        """Of a run."""
        return 0.0 if self.estimate.time_ms is None else self.estimate.time_ms.value * 1000

    def value(self) -> str | dict[str, Any]:
        """What the method returns: generation 1 a dictionary, generation 2 the printed text."""
        if self.generation == 2:
            return self.printed()
        layers = {
            str(at): {"name": row.name, "time": round(row.time_ms * 1000, 2)}
            for at, row in enumerate(self.estimate.layers)
        }
        return {"total_time": round(self.microseconds, 2), "layers": layers}

    def printed(self) -> str:
        """The text that ``is_print`` prints."""
        time, title = self.estimate.time_ms, "Performance (estimated)".center(72).rstrip()
        remarks = [] if time is None else [_REMARK.format(
            chip=self.estimate.chip, low=time.low, high=time.high
        )]  # fmt: skip
        remarks += [sanitize(note) for note in self.estimate.notes]
        body = self._first() if self.generation == 1 else self._second()
        return "\n".join([_WIDE, title, *remarks, _WIDE, *body])

    def _rate(self) -> float:
        return 0.0 if self.estimate.fps is None else self.estimate.fps.value

    def _first(self) -> list[str]:
        """As the vendor's simulator of generation 1 prints it; with uids as its boards do."""
        if self.uids is None:
            lines = [f"{'Layer ID':<12}{'Name':<60}Time(us)"]
            for at, row in enumerate(self.estimate.layers):
                lines.append(f"{at:<12}{sanitize(row.name, 58):<60}{row.time_ms * 1000:.0f}")
        else:
            lines = [f"{'Layer ID':<12}{'Name':<60}{'Operator':<24}{'Uid':<10}Time(us)"]
            for at, row in enumerate(self.estimate.layers):
                uid = max((self.uids[one] for one in row.layers if one in self.uids), default="")
                name, op = sanitize(row.name, 58), sanitize(row.op, 22)
                lines.append(f"{at:<12}{name:<60}{op:<24}{uid:<10}{row.time_ms * 1000:.0f}")
        lines.append(f"Total Time(us): {self.microseconds:.0f}")
        lines.append(f"FPS({self.estimate.npu_mhz:.0f}MHz): {self._rate():.2f}")
        return [*lines, _WIDE]

    def _second(self) -> list[str]:
        """As the runtime of generation 2 (from 1.6) prints it."""
        head = (
            "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape",
            "Cycles(DDR/NPU/Total)", "Time(us)", "MacUsage(%)", "RW(KB)", "FullName",
        )  # fmt: skip
        rows = (self._cells(at, row) for at, row in enumerate(self.estimate.layers, 1))
        table = aligned([head, *rows])
        traffic = sum(row.read_bytes + row.write_bytes for row in self.estimate.layers)
        return [
            _RULE,
            "Network Layer Information Table".center(120).rstrip(),
            _RULE,
            table[0],
            _RULE,
            *table[1:],
            _RULE,
            f"Total Operator Elapsed Per Frame Time(us): {self.microseconds:.0f}",
            f"Total Memory Read/Write Per Frame Size(KB): {traffic / 1024:.2f}",
            f"FPS: {self._rate():.2f}",
            _RULE,
        ]

    def _cells(self, at: int, row: LayerCost) -> tuple[str, ...]:
        cycles = f"{row.ddr_cycles}/{row.npu_cycles}/{row.total_cycles}"
        return (
            str(at),
            row.op,
            row.dtype.upper(),
            row.target,
            row.shapes_in or "\\",
            row.shape_out or "\\",
            cycles,
            f"{row.time_ms * 1000:.0f}",
            self._usage(row),
            str(row.read_bytes // 1024),
            sanitize(row.name, 200),
        )

    def _usage(self, row: LayerCost) -> str:
        """Percent of the multipliers that the layer keeps busy."""
        peak = self.estimate.peak_gops
        if not row.macs or not row.time_ms or not peak:
            return "\\"
        return f"{min(100.0, 100 * 2 * row.macs / (peak * 1e6 * row.time_ms)):.2f}"


def memory_estimate(
    generation: int, estimate: ChipEstimate, model_bytes: int
) -> tuple[BoardMemory | AllocatedMemory, str]:
    """The bytes of ``eval_memory``, and the text that ``is_print`` prints.

    What the runtime itself takes is not estimated and 0. ``model_bytes``: of the container of ours.
    """
    memory = estimate.memory
    weight, internal = (0, 0) if memory is None else (memory.weight, memory.internal)
    total = weight + internal
    if generation == 2:
        figures = (
            ("Weight Memory", weight),
            ("Internal Tensor Memory", internal),
            ("Total Memory", total),
        )
        body = ["NPU model memory detail(bytes):"]
        body += [f"    {name}: {human_bytes(size)}" for name, size in figures]
    else:
        body = [
            "NPU memory:",
            f"    maximum allocation : {human_bytes(total)}",
            f"    total allocation   : {human_bytes(total)}",
        ]
    title = f"Memory Profile Info Dump (estimated for {estimate.chip})".center(54).rstrip()
    tail = [
        "INFO: What the runtime and the system take is not estimated.",
        f"INFO: the container of this build has {human_bytes(model_bytes)}.",
    ]
    text = "\n".join([_MEMORY_RULE, title, _MEMORY_RULE, *body, "", *tail, _MEMORY_RULE])
    if generation == 2:
        return BoardMemory(weight, internal, 0, total), text
    return AllocatedMemory(0, 0, total, total), text
