"""Words for chips and their estimates, for the command line, reports and the workspace Chips."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine import sanitize

if TYPE_CHECKING:
    from engine.wire.cost import ChipCheck, ChipEstimate, Interval
    from engine.wire.formats import Format

__all__ = ["BASIS", "figure_name", "interval_text", "on_cpu", "problem_lines"]

BASIS = {
    "fitted": "fitted to published rates of this chip",
    "derived": "derived from a chip of the same design",
    "structural": "structural, not validated: no rate of this chip was published",
    "calibrated": "calibrated by a run on your board",
}
"""What an estimate of time stands on."""

_FIGURES = {
    "compiler_bus": "memory bus as the compiler counts",
    "cpu": "CPU",
    "cpu_mhz": "CPU clock",
    "dtypes": "quantized dtypes",
    "host_link": "link to the host",
    "macs_fp16": "MACs in float16",
    "macs_int16": "MACs in int16",
    "macs_int8": "MACs in int8",
    "memory_bandwidth": "memory bandwidth",
    "memory_bits": "memory width",
    "memory_mhz": "memory clock",
    "npu_buffer": "internal buffer of the NPU",
    "npu_bus": "bus of the NPU",
    "npu_cores": "NPU cores",
    "npu_mhz": "NPU clock",
    "rates": "frame rates",
    "sram": "SRAM",
    "tops_int8": "peak in int8",
}


def figure_name(name: str) -> str:
    """A figure of ``engine/facts/figures.csv`` in words; its own name where there are none."""
    return _FIGURES.get(name) or sanitize(name, 60)


def interval_text(interval: Interval | None, form: Format) -> str:
    """A figure with the interval that holds it nine times in ten: ``1.770 (1.290 to 2.430)``."""
    if interval is None:
        return form.show(None)
    return f"{form.text(interval.value)} ({form.text(interval.low)} to {form.text(interval.high)})"


def problem_lines(chips: Iterable[ChipEstimate]) -> list[str]:
    """Why a chip has no estimate, and what the others leave out; equal ones together."""
    told: dict[str, list[str]] = {}
    for each in chips:
        for text in (f"{each.problem} {each.remedy}".strip(), *each.warnings, *each.notes):
            if text:
                told.setdefault(text, []).append(each.chip)
    return [f"{', '.join(names)}: {sanitize(text)}" for text, names in told.items()]


def on_cpu(each: ChipEstimate | ChipCheck) -> str:
    """How many layers run on the CPU, in words where that is not public."""
    if each.cpu_layers is not None:
        return str(each.cpu_layers)
    return f"unknown ({each.unknown_layers})" if each.unknown_layers else "unknown"
