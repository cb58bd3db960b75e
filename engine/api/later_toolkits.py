"""Arguments and methods of later toolkits of generation 1, which the manual V1.3.2 does not name.

Names and defaults: the vendor's comparison "RKNNToolkit2 API Difference With Toolkit1" in the
``doc`` folder of its public repository. What changes no number here is accepted with a warning;
what would change numbers and is not done here is refused with the way to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.base.errors import UsageError
from engine.base.text import sanitize

_FIXED = "the passes of the loaded graph are chosen by optimization_level"
NO_EFFECT: Mapping[str, tuple[Any, str]] = {
    "quantize_input_node": (
        False,
        "inputs of a quantized build are quantized here wherever a layer takes them so",
    ),
    "output_optimize": (0, "it is about how fast a board gives its outputs"),
    "merge_dequant_layer_and_output_node": (
        False,
        "it is about where a board turns its outputs into floats",
    ),
    "dtype": ("float32", "the source model is computed in float32"),
    "optimize": ("Default", _FIXED),
    "deconv_merge": (True, _FIXED),
    "conv_mul_merge": (True, _FIXED),
    "force_builtin_perm": (False, _FIXED),
    "remove_tensorflow_output_permute": (False, "outputs keep the layout of the source model"),
    "do_sparse_network": (True, "sparse weights are computed as they are"),
    "model_data_format": ("zone", "a container has one form"),
    "restart": (False, "a build always starts from the loaded model, and keeps its stages"),
    "quantized_moving_alpha": (0.01, "no algorithm here has it"),
    "quantized_divergence_nbins": (1024, "the histograms of kl_divergence have their own bins"),
    "mmse_epoch": (3, "mmse here has no rounds to count"),
    "input_fitting": ("scale", "pictures are scaled to the size of the input"),
}
"""Arguments of ``config`` that change no number here -> default, why."""

_BY_MEAN = "Use mean_values and std_values, or channel_mean_value."
_PICTURES = "Save the pictures as you want them, and name those in the dataset."
REFUSED: Mapping[str, tuple[Any, str]] = {
    "caffe_mean_file": (None, _BY_MEAN),
    "mean_file": (None, _BY_MEAN),
    "input_normalization": (None, _BY_MEAN),
    "force_gray": (None, _PICTURES),
    "random_brightness": (None, _PICTURES),
    "random_contrast": (None, _PICTURES),
    "random_crop": (None, _PICTURES),
    "random_flip": (None, _PICTURES),
    "random_mirror": (None, _PICTURES),
    "samples": (-1, "Name the samples that count in the dataset."),
    "model_quantize": (None, "Use hybrid_quantization_step1 and hybrid_quantization_step2."),
    "quantized_hybrid": (False, "Use hybrid_quantization_step1 and hybrid_quantization_step2."),
    "inputs_scale_range": (None, "Use quantized_ranges (ours), by the name of the tensor."),
}
"""Arguments of ``config`` that are refused where they are not their default -> default, remedy."""

LATER_CONFIG: Mapping[str, Any] = {
    name: default for table in (NO_EFFECT, REFUSED) for name, (default, _) in table.items()
}
"""Every such argument -> its default."""

LATER_METHODS: Mapping[str, str] = {
    "direct_build": "Call load_... and build, or hybrid_quantization_step2 with the files of "
    "hybrid_quantization_step1.",
    "load_firmware": "The firmware of a compute stick comes with its own tools.",
    "fetch_rknn_model_config": "Use `rknntui inspect FILE.rknn`; it reads models of every version.",
    "optimize_onnx": "build optimises; `rknntui export --format onnx` writes what it made.",
}
"""Methods that only the vendor's code has -> what to do instead."""


def refused_config(name: str, value: Any) -> None:
    """Raises UsageError where an argument of ``REFUSED`` is not its default."""
    default, remedy = REFUSED[name]
    if value != default:
        raise UsageError(
            f"config {name}={sanitize(repr(value), 60)} is not available.",
            cause="It is of later toolkits of generation 1, and not simulated here.",
            remedy=remedy,
        )
