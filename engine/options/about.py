"""A line on each value of the options that have a list of them: what it is, which chips have it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.facts import Chip, chips

__all__ = ["DTYPE_ABOUT", "METHOD_ABOUT", "PLATFORM_ABOUT", "chips_with"]


def chips_with(dtype: str) -> tuple[str, ...]:
    """The chips that have a dtype, in the order of the table of chips."""
    return tuple(c.name for c in chips() if dtype in c.dtypes)


def _on(dtype: str) -> str:
    names = chips_with(dtype)
    return f"On {' '.join(names)}." if names else "According to the manuals no chip supports it."


def _platform(chip: Chip) -> str:
    cores = f"{chip.npu_cores} NPU core{'s' if chip.npu_cores > 1 else ''}"
    return f"{cores}; {', '.join(chip.dtypes)} ({chip.toolkit})."


_NUMBERS = {
    "w8a8": "8-bit integers, the default of most chips.",
    "w8a16": "8-bit weights, float16 activations.",
    "w4a16": "4-bit weights, float16 activations.",
    "w4a8": "4-bit weights, 8-bit activations.",
    "w16a16i": "16-bit integers.",
    "w16a16i_dfp": "16-bit integers, each scale a power of two.",
    "asymmetric_quantized-8": "The older name of w8a8.",
    "asymmetric_quantized-16": "The older name of w16a16i.",
    "asymmetric_quantized-u8": "Unsigned 8-bit integers, the default of generation 1.",
    "dynamic_fixed_point-8": "8-bit integers, each scale a power of two.",
    "dynamic_fixed_point-16": "16-bit integers, each scale a power of two.",
}

DTYPE_ABOUT: Mapping[str, str] = MappingProxyType(
    {name: f"{text} {_on(name)}" for name, text in _NUMBERS.items()}
)
"""Of ``quantized_dtype``."""

PLATFORM_ABOUT: Mapping[str, str] = MappingProxyType({c.name: _platform(c) for c in chips()})
"""Of ``target_platform``."""

METHOD_ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "channel": "One scale for each output channel of a weight: more accurate.",
        "layer": "One scale for the whole weight.",
    }
)
"""Of ``quantized_method``."""
