"""Layers that bring numbers to a common scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields

_REGIONS = {0: "ACROSS_CHANNELS", 1: "WITHIN_CHANNEL"}
_BN_MODES = {0: "LEARN", 1: "INFERENCE"}


def _batch_norm(at: Layer, param: Fields) -> Tensor:
    """batch_norm_layer.cpp: blobs are mean and variance, both times the third blob, a factor.

    A factor of 0 stands for no statistics: mean and variance are 0 then.
    """
    eps = param.number("eps", 1e-5)
    if not param.flag("use_global_stats", True):
        return _of_this_batch(at, eps)
    channels = at.x.shape[1]
    mean, variance = at.blob([channels], "mean"), at.blob([channels], "one")
    total = float(at.blob([1], "factor")[0])
    factor = np.float32(0 if total == 0 else 1 / total)
    scale, bias = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    if param.flag("scale_bias", False):  # NVIDIA's fork keeps what is Scale elsewhere
        scale, bias = at.blob([channels], "one"), at.blob([channels], "bias")
    return _normalised(at, eps, scale, bias, mean * factor, variance * factor)


def _normalised(at: Layer, eps: float, *arrays: np.ndarray) -> Tensor:
    """By scale, bias, mean and variance."""
    names = ("scale", "bias", "mean", "variance")
    operands = [at.constant(array, name) for array, name in zip(arrays, names, strict=True)]
    return at.top("BatchNormalization", at.x.name, *operands, epsilon=eps)


def _of_this_batch(at: Layer, eps: float) -> Tensor:
    """``use_global_stats: false``: mean and variance of what goes through, as in training."""
    stored = at.weights.stored(at.spec) or 0
    at.blobs_used = max(at.blobs_used, stored)  # statistics that are not used
    centred, variance = _centred(at, [0, *range(2, at.x.rank)])
    deviation = at.node("Sqrt", at.node("Add", variance, at.scalar(eps)))
    at.note(
        "batch-statistics",
        "It normalises by the mean and variance of its input (use_global_stats: false).",
        "The file says so; nets that were trained as usual have true here, or leave it out.",
    )
    return at.top("Div", centred, deviation)


def _centred(at: Layer, axes: Sequence[int]) -> tuple[str, str]:
    """The input without its mean over some axes, and its variance."""
    centred = at.node("Sub", at.x.name, at.node("ReduceMean", at.x.name, at.ints(*axes)))
    return centred, at.node("ReduceMean", at.node("Mul", centred, centred), at.ints(*axes))


def _bn(at: Layer, param: Fields) -> Tensor:
    """BN of two forks, told apart by their parameters and the number of blobs.

    PSPNet's (hszhao/PSPNet, bn_layer.cpp): slope, bias, mean and variance. SegNet's
    (TimoSaemann/caffe-segnet-cudnn5, bn_layer.cpp): scale and shift, which hold the statistics
    where bn_mode is INFERENCE.
    """
    fillers = [param.message(f"{name}_filler") for name in ("slope", "scale", "bias", "shift")]
    first, second = (a if a.line else b for a, b in (fillers[:2], fillers[2:]))
    channels = at.x.shape[1]
    if "bn_mode" in param or at.weights.stored(at.spec) == 2:
        return _segnet_bn(at, param, first, second)
    param.ignore("frozen", "momentum", "engine")
    eps = param.number("eps", 1e-5)
    scale, bias = at.blob([channels], "one", first), at.blob([channels], "bias", second)
    mean, variance = at.blob([channels], "mean"), at.blob([channels], "one")
    return _normalised(at, eps, scale, bias, mean, variance)


def _segnet_bn(at: Layer, param: Fields, scale_filler: Fields, shift_filler: Fields) -> Tensor:
    if param.choice("bn_mode", _BN_MODES, "LEARN") == "LEARN":
        raise at.refuse(
            "its bn_mode is LEARN, which normalises by the statistics of a batch",
            "Compute the statistics with SegNet's compute_bn_statistics.py and give the net "
            "for inference, with bn_mode: INFERENCE.",
        )
    sides = [at.x.shape[1], *[1] * (at.x.rank - 2)]
    scale = at.blob([at.x.shape[1]], "one", scale_filler).reshape(sides)
    shift = at.blob([at.x.shape[1]], "bias", shift_filler).reshape(sides)
    product = at.node("Mul", at.x.name, at.constant(scale, "scale"))
    return at.top("Add", product, at.constant(shift, "shift"))


def _lrn(at: Layer, param: Fields) -> Tensor:
    """lrn_layer.cpp; within a channel the sum is an average over a padded square."""
    size = param.integer("local_size", 5)
    alpha, beta = param.number("alpha", 1.0), param.number("beta", 0.75)
    k = param.number("k", 1.0)
    if at.x.rank != 4 or size < 1 or size % 2 == 0 or size > 1 << 16:
        raise at.fault(f"local_size {size} is even or none, or its bottom has not 4 axes")
    if param.choice("norm_region", _REGIONS, "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        return at.top("LRN", at.x.name, size=size, alpha=alpha, beta=beta, bias=k)
    square = at.node("Mul", at.x.name, at.x.name)
    average = at.node(
        "AveragePool",
        square,
        kernel_shape=[size, size],
        pads=[size // 2] * 4,
        count_include_pad=1,
    )
    scaled = at.node("Add", at.node("Mul", average, at.scalar(alpha)), at.scalar(1.0))
    divisor = at.node("Pow", scaled, at.scalar(-beta))
    return at.top("Mul", at.x.name, divisor)


def _normalize(at: Layer, param: Fields) -> Tensor:
    """normalize_layer.cpp of the SSD fork: ``scale * x / sqrt(sum(x * x) + eps)``."""
    everywhere = param.flag("across_spatial", True)
    shared = param.flag("channel_shared", True)
    eps, filler = param.number("eps", 1e-10), param.message("scale_filler")
    axes = range(1, at.x.rank) if everywhere else [1]
    total = at.node("ReduceSumSquare", at.x.name, at.ints(*axes))
    length = at.node("Sqrt", at.node("Add", total, at.scalar(eps)))
    scale = at.blob([1] if shared else [at.x.shape[1]], "one", filler)
    scale = scale.reshape(scale.size, *[1] * (at.x.rank - 2))
    unit = at.node("Div", at.x.name, length)
    return at.top("Mul", unit, at.constant(scale, "scale"))


def _mvn(at: Layer, param: Fields) -> Tensor:
    """mvn_layer.cpp: ``(x - mean) / (sqrt(variance) + eps)``, the eps outside of the root."""
    axes = [1, 2, 3] if param.flag("across_channels", False) else [2, 3]
    eps = param.number("eps", 1e-9)
    if not param.flag("normalize_variance", True):
        mean = at.node("ReduceMean", at.x.name, at.ints(*axes))
        return at.top("Sub", at.x.name, mean)
    centred, variance = _centred(at, axes)
    deviation = at.node("Add", at.node("Sqrt", variance), at.scalar(eps))
    return at.top("Div", centred, deviation)


def _softmax(at: Layer, param: Fields) -> Tensor:
    """softmax_layer.cpp."""
    return at.top("Softmax", at.x.name, axis=at.axis(param, "axis", 1))


def _dropout(at: Layer, param: Fields) -> Tensor:
    """dropout_layer.cpp: nothing, outside of training; old files scaled in training already."""
    param.ignore("dropout_ratio", "scale_train", "sample_weights_test")
    return at.x


LAYERS: Mapping[str, Converter] = {
    "BN": one_top(_bn, "bn_param", least=2),
    "BatchNorm": one_top(
        _batch_norm,
        "batch_norm_param",
        ignored=("moving_average_fraction", "engine", "scale_filler", "bias_filler"),
        least=2,
    ),
    "Dropout": one_top(_dropout, "dropout_param"),
    "LRN": one_top(_lrn, "lrn_param", ignored=("engine",)),
    "MVN": one_top(_mvn, "mvn_param", rank=4),
    "Normalize": one_top(_normalize, "norm_param", least=2),
    "Softmax": one_top(_softmax, "softmax_param", ignored=("engine",)),
}
