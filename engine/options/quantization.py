"""Options of quantization, of hybrid quantization and of rewrites."""

from __future__ import annotations

from engine.options.kinds import boolean, choice, integer, mapping, number, ranges
from engine.options.names import (
    ALGORITHM_ABOUT,
    ALGORITHMS,
    DTYPE_ABOUT,
    DTYPE_ALIASES,
    DTYPES,
    EXECUTION_TARGETS,
    FLOAT_DTYPES,
    GRANULARITIES,
    LAYER_DTYPE_ALIASES,
    LAYER_DTYPES,
    METHOD_ABOUT,
    REFUSED_ALGORITHMS,
    REFUSED_GRANULARITIES,
    chips_with,
)
from engine.options.section import Section


class Quantization(Section):
    """Number formats, ranges and rewrites."""

    NAME = "quantization"
    TITLE = "Quantization"
    STAGE = "quantize"

    do_quantization = boolean(
        "Whether to quantize. If not, the float graph passes through all stages.",
        default=True,
        generations=(1, 2),
        stage="calibrate",
    )
    quantized_dtype = choice(
        "Types of weights and activations; docs/dtypes.md lists which chips support them.",
        default="w8a8",
        choices=DTYPES,
        generations=(1, 2),
        aliases=DTYPE_ALIASES,
        about=DTYPE_ABOUT,
    )
    quantized_algorithm = choice(
        "How ranges are computed from the calibration; accurate and vendor are rknntui extensions.",
        default="normal",
        choices=ALGORITHMS,
        unsupported=REFUSED_ALGORITHMS,
        about=ALGORITHM_ABOUT,
    )
    quantized_method = choice(
        "One scale per output channel of a weight (channel) or one per weight (layer).",
        default="channel",
        choices=GRANULARITIES,
        unsupported=REFUSED_GRANULARITIES,
        about=METHOD_ABOUT,
    )
    bias_correction = boolean(
        "Whether biases compensate the mean error of the rounded weights.",
        default=True,
        generations=(),
    )
    quantized_layers = mapping(
        "Hybrid quantization: layer (any of its names) = its dtype, if it differs from the "
        "model's dtype.",
        choices=LAYER_DTYPES,
        generations=(),
        aliases=LAYER_DTYPE_ALIASES,
    )
    quantized_ranges = ranges(
        "Hybrid quantization: tensor or layer = minimum and maximum; these override the algorithm.",
        generations=(),
    )
    auto_hybrid = boolean(
        "Promote the layers that lose most by quantization, until the thresholds below are met.",
        default=False,
    )
    auto_hybrid_cos_thresh = number(
        "auto_hybrid promotes a layer whose cosine to float is below this value.",
        default=0.98,
        minimum=-1.0,
        maximum=1.0,
    )
    auto_hybrid_euc_thresh = number(
        "auto_hybrid promotes a layer whose Euclidean distance to float is above this value; "
        "default: no limit.",
        default=None,
        minimum=0.0,
    )
    quantized_hybrid_level = integer(
        "A hybrid quantization level of toolkit 2.3.2.",
        default=0,
        role="refused",
        reason="No manual says which layers a level promotes; use quantized_layers or auto_hybrid.",
    )
    op_target = mapping(
        "Output tensor of an operator = where it runs; on cpu it computes in float.",
        choices=EXECUTION_TARGETS,
    )
    float_dtype = choice(
        "How a build without quantization computes: float16 as on the chip; default: float32 in "
        "this simulator.",
        default=None,
        choices=FLOAT_DTYPES,
        about={
            "float16": f"16 bits. On {' '.join(chips_with('float16'))}.",
            "float32": "32 bits, rknntui extension for comparisons on this machine; no NPU "
            "computes in it.",
        },
        stage="container",
    )
    quantize_weight = boolean(
        "In a build without quantization: store weights in 8 bits, compute in float.",
        default=False,
        stage="container",
    )
    optimization_level = integer(
        "0: graph unchanged; 3: all passes; 1 and 2 skip some that may change accuracy.",
        default=3,
        minimum=0,
        maximum=3,
        generations=(1, 2),
        stage="optimise",
    )
    model_pruning = boolean(
        "Remove channels whose weights are all zero; the results do not change.",
        default=False,
        stage="optimise",
    )
    remove_reshape = boolean(
        "Remove Reshape nodes at inputs and outputs; this changes their shapes.",
        default=False,
        stage="optimise",
    )
    rknn_batch_size = integer(
        "Batch size of the built model; calibration is not changed.",
        default=None,
        minimum=1,
        maximum=1024,
        generations=(1, 2),
        stage="container",
    )
