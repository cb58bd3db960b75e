"""Names that several options share: dtypes, algorithms, granularities; the vendor's and ours.

Sources: [RKNN-T1 1.3.2, 3.6.3], [RKNN-T2 1.1.0, 3.3.2 and 3.5.2], [RKNN-T2 2.3.0, 2.2]; what later
code of the vendor names is told apart in the refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.facts import Chip, chips

GENERATION_1_DTYPES = (
    "asymmetric_quantized-u8",
    "dynamic_fixed_point-8",
    "dynamic_fixed_point-16",
)
"""Quantized dtypes of generation 1's chips."""

DTYPES = (
    "w8a8",
    "w8a16",
    "w4a16",
    "w4a8",
    "w16a16i",
    "w16a16i_dfp",
    "asymmetric_quantized-8",
    "asymmetric_quantized-16",
    *GENERATION_1_DTYPES,
)
"""Quantized dtypes of a whole model: generation 2's, its two older ones, generation 1's."""

DTYPE_ALIASES = MappingProxyType(
    {
        "asymmetric_affine-u8": "asymmetric_quantized-u8",
        "dynamic_fixed_point-i8": "dynamic_fixed_point-8",
        "dynamic_fixed_point-i16": "dynamic_fixed_point-16",
    }
)
"""Other spellings of :data:`DTYPES`: those of generation 1's files and later code."""

LATER_DTYPES = {dtype: later for later, dtype in DTYPE_ALIASES.items()}
"""The manual's dtypes of generation 1 -> what its toolkits from 1.6 on call them."""

LAYER_DTYPES = (
    "float16",
    "float32",
    "int16",
    "int8",
    "asymmetric_affine-u8",
    "dynamic_fixed_point-i8",
    "dynamic_fixed_point-i16",
)
"""Dtypes of one layer, by the names of the hybrid quantization files of both generations."""

LAYER_DTYPE_ALIASES = MappingProxyType(LATER_DTYPES | {"fp16": "float16", "fp32": "float32"})

FLOAT_DTYPES = ("float16", "float32")
"""Types of a build without quantization; ``float32`` is ours."""

ALGORITHM_ABOUT = MappingProxyType(
    {
        "normal": "The minimum and maximum observed in calibration; fast.",
        "kl_divergence": "The range with the smallest KL divergence between float and quantized "
        "histogram.",
        "mmse": "Ranges and weights with the smallest squared error; slower.",
        "accurate": "rknntui extension: optimises ranges, channel scales and rounding together; "
        "reads the samples again.",
        "vendor": "rknntui extension: like normal of rknn-toolkit2, for comparisons.",
    }
)
"""Quantization algorithm -> a line on it; the last two are ours."""

ALGORITHMS = tuple(ALGORITHM_ABOUT)
"""Quantization algorithms."""

REFUSED_ALGORITHMS = MappingProxyType(
    {
        "gdq": "Toolkit 2.3.2 names it and no manual says what it computes; accurate is ours.",
        "moving_average": "Later toolkits of generation 1 name it and no manual says what it "
        "computes; normal is the nearest.",
    }
)

GRANULARITIES = ("channel", "layer")
"""Granularity of weights, the vendor's ``quantized_method``."""

REFUSED_GRANULARITIES = MappingProxyType(
    {
        f"group{size}": "Toolkit 2.3.2 takes it for w4a16 and no manual describes it."
        for size in range(32, 257, 32)
    }
)

EXECUTION_TARGETS = ("auto", "npu", "cpu", "gpu")
"""Where ``op_target`` lets an operator run [RKNN-T2 2.3.0, 2.2]."""


# A line on each value of the options that have a list of them: what it is, which chips have it.


def chips_with(dtype: str) -> tuple[str, ...]:
    """The chips that have a dtype, in the order of the table of chips."""
    return tuple(c.name for c in chips() if dtype in c.dtypes)


def _on(dtype: str) -> str:
    names = chips_with(dtype)
    return f"On {' '.join(names)}." if names else "According to the manuals no chip supports it."


def _platform(chip: Chip) -> str:
    cores = f"{chip.npu_cores} NPU core{'s' if chip.npu_cores > 1 else ''}"
    return f"{cores}: {', '.join(chip.dtypes)} ({chip.toolkit})."


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
