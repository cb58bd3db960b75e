"""Words for what is known of a chip, for the command line and the workspace Chips."""

from __future__ import annotations

from engine import sanitize

__all__ = ["BASIS", "figure_name"]

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
    """A figure of ``engine/chips/figures.csv`` in words; its own name where there are none."""
    return _FIGURES.get(name) or sanitize(name, 60)
