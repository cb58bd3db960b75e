"""Words for chips and their estimates, for the command line, reports and the workspace Chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import human_bytes, sanitize

if TYPE_CHECKING:
    from engine.wire.cost import ChipCheck, ChipEstimate, Interval

__all__ = ["BASIS", "CHIP_COLUMNS", "chip_cells", "figure_name", "interval_text", "on_cpu"]

BASIS = {
    "fitted": "fitted to published rates of this chip",
    "derived": "derived from a chip of the same design",
    "structural": "structural, not validated: no rate of this chip was published",
    "calibrated": "calibrated by a run on your board",
}
"""What an estimate of time stands on."""

CHIP_COLUMNS = (
    "chip", "dtype", "cores", "frames/s", "time ms", "memory", "internal", "weights", "NPU", "CPU",
    "refused", "basis",
)  # fmt: skip
"""Of the table of chips, in text and in reports."""

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


def interval_text(found: Interval | None, digits: int) -> str:
    """A figure with the interval that holds it nine times in ten: ``1.77 (1.29 to 2.43)``.

    Args:
        found: the figure; a dash stands for None.
        digits: behind the point; two more below 0.5, where bounds would be the same otherwise.
    """
    if found is None:
        return "-"
    digits += 2 * (0 < found.value < 0.5)
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def chip_cells(each: ChipEstimate) -> tuple[str, ...]:
    """The cells of :data:`CHIP_COLUMNS`; dashes stand for what there is not."""
    memory, places = each.memory, ["-"] * 3
    sizes = () if memory is None else (memory.total, memory.internal, memory.weight)
    if not each.problem:
        places = [str(each.npu_layers), on_cpu(each), str(each.refused_layers)]
    return (
        each.chip,
        each.dtype,
        str(each.cores),
        interval_text(each.fps, 1),
        interval_text(each.time_ms, 2),
        *(map(human_bytes, sizes) if sizes else ["-"] * 3),
        *places,
        "-" if each.problem else each.confidence,
    )


def on_cpu(each: ChipEstimate | ChipCheck) -> str:
    """How many layers run on the CPU, in words where that is not public."""
    if each.cpu_layers is not None:
        return str(each.cpu_layers)
    return f"unknown ({each.unknown_layers})" if each.unknown_layers else "unknown"
