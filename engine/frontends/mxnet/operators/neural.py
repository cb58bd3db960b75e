"""Convolutions, poolings, normalisations and activations (src/operator/nn and its neighbours)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from engine.frontends.emit import Window, refuse
from engine.frontends.mxnet.call import Call, Converter, Result, named, renamed

_CHANNELS_FIRST = ("NCW", "NCHW", "NCDHW")
_MAX_KERNEL = 4096


def _require_channels_first(call: Call) -> None:
    if call.text("layout", _CHANNELS_FIRST[0]) not in _CHANNELS_FIRST:
        refuse(f"its layout is {call.text('layout')}; channels must come first")


def _window(call: Call, *keys: tuple[str, int]) -> list[list[int]]:
    """Kernel and the like, one number per spatial axis; absent ones take their default."""
    kernel = call.wholes("kernel")
    _require_channels_first(call)
    if not 1 <= len(kernel) <= 3 or len(call.shape()) != len(kernel) + 2:
        refuse(
            f"its kernel {tuple(kernel)} does not fit an input of {len(call.shape())} dimensions"
        )
    window = [kernel]
    for key, default in keys:
        values = call.wholes(key)
        values = values or [default] * len(kernel)
        if len(values) != len(kernel):
            refuse(f"its {key} {tuple(values)} does not fit its kernel {tuple(kernel)}")
        window.append(values)
    if any(not 0 <= n <= _MAX_KERNEL for values in window for n in values) or 0 in kernel:
        refuse("its kernel, stride, dilation or padding is out of range")
    return window


# ---------------------------------------------------------------------------- convolutions
def _convolution(call: Call) -> Result:
    window = _window(call, ("stride", 1), ("dilate", 1), ("pad", 0))
    return _convolved(call, "Conv", window, no_bias=False)


def _deconvolution(call: Call) -> Result:
    """Transposed convolution; ``target_shape`` decides padding and ``adj`` where it is given.

    As ``DeconvolutionParam::InferPad`` of nn/deconvolution-inl.h.
    """
    kernel, strides, dilations, pads, extra = _window(
        call, ("stride", 1), ("dilate", 1), ("pad", 0), ("adj", 0)
    )
    target = call.wholes("target_shape")
    if any(target):
        if len(target) != len(kernel):
            refuse(f"its target_shape {tuple(target)} does not fit its kernel")
        sizes = call.shape()[2:]
        over = [
            s * (n - 1) + (k - 1) * d + 1 - t
            for s, n, k, d, t in zip(strides, sizes, kernel, dilations, target, strict=True)
        ]
        if min(over) < 0:
            refuse(f"its target_shape {tuple(target)} is larger than what it can give")
        pads, extra = [(n + 1) // 2 for n in over], [n % 2 for n in over]
    window = [kernel, strides, dilations, pads]
    return _convolved(call, "ConvTranspose", window, no_bias=True, output_padding=extra)


def _convolved(
    call: Call, op: str, window: list[list[int]], *, no_bias: bool, **attributes: list[int]
) -> Result:
    kernel, strides, dilations, pads = window
    if (stored := list(call.shape(1)[2:])) != kernel:
        refuse(f"its kernel is {tuple(kernel)}, that of its weights {tuple(stored)}")
    bias = [] if call.flag("no_bias", no_bias) else [call.x(2)]
    return call.op(
        op,
        [call.x(0), call.x(1), *bias],
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=[*pads, *pads],
        group=call.whole("num_group", 1),
        **attributes,
    )


def _fully_connected(call: Call) -> Result:
    bias = [] if call.flag("no_bias") else [call.x(2)]
    x, rank = call.x(0), len(call.shape())
    if call.flag("flatten", True) or rank == 2:
        flat = x if rank == 2 else call.w.node("Flatten", [x], axis=1)
        return call.op("Gemm", [flat, call.x(1), *bias], transB=1)
    weight = call.w.node("Transpose", [call.x(1)], perm=(1, 0))
    if not bias:
        return call.op("MatMul", [x, weight])
    return call.op("Add", [call.w.node("MatMul", [x, weight]), *bias])


# -------------------------------------------------------------------------------- poolings
def _pooling(call: Call) -> Result:
    kind = call.text("pool_type", "max")
    if kind not in ("max", "avg", "sum", "lp") or (kind == "lp" and call.whole("p_value", 2) != 2):
        refuse(f"its pool_type is {kind}, or its p_value not 2")
    if call.flag("global_pool"):
        return _global_pooling(call, kind)
    window = _Pool(*_window(call, ("stride", 1), ("pad", 0)))
    kernel, strides, pads = window
    if min(strides) < 1:
        refuse("its stride is 0")
    sizes = call.shape()[2:]
    outs, ends = _pooled(call, sizes, window)
    common: Window = {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *ends]}
    if kind == "max":
        return call.op("MaxPool", [call.x()], **common)
    if kind == "lp":
        return call.op("LpPool", [call.x()], p=2, **common)
    if kind == "avg" and not call.flag("count_include_pad", True):
        return call.op("AveragePool", [call.x()], count_include_pad=0, **common)
    # MXNet divides by the window within input and padding, ONNX by the whole window
    area = math.prod(kernel)
    if kind == "sum":
        factor = np.full((1,) * (2 + len(kernel)), area, np.float32)
    else:
        factor = _shares(sizes, outs, window)
    if np.all(factor == 1):
        return call.op("AveragePool", [call.x()], count_include_pad=1, **common)
    mean = call.w.node("AveragePool", [call.x()], count_include_pad=1, **common)
    return call.op("Mul", [mean, call.w.constant(factor, "window_share")])


class _Pool(NamedTuple):
    """Windows of a pooling, a number for each spatial axis; pads before and behind are the same."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]


def _pooled(call: Call, sizes: Sequence[int], window: _Pool) -> tuple[list[int], list[int]]:
    """Output sizes, and the padding behind the input that the windows need (PoolingShape)."""
    kernel, strides, pads = window
    convention = call.text("pooling_convention", "valid")
    if convention not in ("valid", "full"):
        refuse(f"its pooling_convention is {convention}")
    room = [n + 2 * p - k for n, p, k in zip(sizes, pads, kernel, strict=True)]
    if min(room) < 0:
        refuse(f"its kernel {tuple(kernel)} is larger than its padded input")
    up = convention == "full"
    outs = [(r + (s - 1) * up) // s + 1 for r, s in zip(room, strides, strict=True)]
    starts = [(out - 1) * s for out, s in zip(outs, strides, strict=True)]
    ends = [max(p, i + k - n - p) for i, k, n, p in zip(starts, kernel, sizes, pads, strict=True)]
    if not up:
        ends = list(pads)
    empty = any(i >= n + p for i, n, p in zip(starts, sizes, pads, strict=True))
    if empty or any(max(p, e) >= k for p, e, k in zip(pads, ends, kernel, strict=True)):
        refuse("its padding or stride is so large that windows would hold nothing of the input")
    return outs, ends


def _shares(sizes: Sequence[int], outs: Sequence[int], window: _Pool) -> np.ndarray:
    """Whole window over the part of it within input and padding, for each place."""
    kernel, strides, pads = window
    factor = np.ones((1,) * (2 + len(kernel)), np.float32)
    for axis, (n, out, k, s, p) in enumerate(zip(sizes, outs, kernel, strides, pads, strict=True)):
        starts = np.arange(out) * s - p
        inside = np.minimum(starts + k, n + p) - starts
        shape = [1] * (2 + len(kernel))
        shape[axis + 2] = out
        factor = factor * (k / inside).astype(np.float32).reshape(shape)
    return factor


_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}


def _global_pooling(call: Call, kind: str) -> Result:
    rank = len(call.shape())
    if rank < 3:
        refuse(f"its input has {rank} dimensions")
    _require_channels_first(call)
    if kind in _GLOBAL:
        return call.op(_GLOBAL[kind], [call.x()])
    if kind == "sum":
        return call.op("ReduceSum", [call.x(), call.w.ints(*range(2, rank))], keepdims=1)
    return call.op("GlobalLpPool", [call.x()], p=2)


# -------------------------------------------------------------------------- normalisations
def _batch_norm(call: Call) -> Result:
    shape = call.shape()
    axis = call.axis("axis", 1, len(shape))
    gamma, beta = call.array(1).astype(np.float32), call.array(2)
    if call.flag("fix_gamma", True):
        gamma = np.ones_like(gamma)
    mean, variance = (_state(call, index) for index in (3, 4))
    if call.flag("output_mean_var"):
        refuse("it gives its mean and variance as outputs")
    epsilon = call.real("eps", 1e-3)
    arrays = [gamma, beta, mean, variance]
    if any(array.shape != (shape[axis],) for array in arrays):
        refuse(f"its parameters are not of {shape[axis]} channels")
    if axis == 1 and len(shape) > 1:
        names = [
            call.w.constant(array, f"{call.node.name}_{role}")
            for role, array in zip(("gamma", "beta", "mean", "var"), arrays, strict=True)
        ]
        return call.op("BatchNormalization", [call.x(), *names], epsilon=epsilon)
    scale = gamma / np.sqrt(variance.astype(np.float64) + epsilon)
    shift = beta - mean * scale
    rank = [1] * len(shape)
    rank[axis] = -1
    parts = [
        call.w.constant(part.astype(np.float32).reshape(rank), f"{call.node.name}_{role}")
        for role, part in (("scale", scale), ("shift", shift))
    ]
    return call.op("Add", [call.w.node("Mul", [call.x(), parts[0]]), parts[1]])


def _state(call: Call, index: int) -> np.ndarray:
    """Running mean or variance: an input, or, before 0.9, an array of the node's own name."""
    if len(call.values) > index:
        return call.array(index)
    role = ("moving_mean", "moving_var")[index - 3]
    array = call.states(role)
    if array is None:
        refuse(f"its {role} is not in the file of parameters")
    return array


def _per_channel(call: Call, index: int, rank: int) -> str:
    """A vector over the channels as it is broadcast over the places."""
    if rank <= 2:
        return call.x(index)
    shape = call.w.ints(-1, *[1] * (rank - 2))
    return call.w.node("Reshape", [call.x(index), shape])


def _layer_norm(call: Call) -> Result:
    rank = len(call.shape())
    axis = call.axis("axis", -1, rank)
    epsilon = call.real("eps", 1e-5)
    if call.flag("output_mean_var"):
        refuse("it gives its mean and variance as outputs")
    x, weights = call.x(0), [call.x(1), call.x(2)]
    if axis == rank - 1:
        return call.op("LayerNormalization", [x, *weights], axis=-1, epsilon=epsilon)
    order = [i for i in range(rank) if i != axis] + [axis]
    x = call.w.node("Transpose", [x], perm=order)
    x = call.w.node("LayerNormalization", [x, *weights], axis=-1, epsilon=epsilon)
    return call.op("Transpose", [x], perm=np.argsort(order).tolist())


def _group_norm(call: Call) -> Result:
    """Each group of channels normalised, then gamma and beta, per group (to 1.6) or channel."""
    w, shape = call.w, call.shape()
    groups = call.whole("num_groups", 1)
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        refuse(f"{shape} cannot be normalised in {groups} groups")
    if call.shape(1) not in ((shape[1],), (groups,)) or call.shape(1) != call.shape(2):
        refuse("its gamma and beta are neither of the channels nor of the groups")
    grouped = w.node("Reshape", [call.x(0), w.ints(0, groups, -1)])
    ones, zeros = (w.constant(np.full(groups, n, np.float32)) for n in (1, 0))
    x = w.node("InstanceNormalization", [grouped, ones, zeros], epsilon=call.real("eps", 1e-5))
    if call.shape(1) == (shape[1],):
        x = w.node("Reshape", [x, w.ints(*shape)])
        x = w.node("Mul", [x, _per_channel(call, 1, len(shape))])
        return call.op("Add", [x, _per_channel(call, 2, len(shape))])
    x = w.node("Mul", [x, _per_channel(call, 1, 3)])
    x = w.node("Add", [x, _per_channel(call, 2, 3)])
    return call.op("Reshape", [x, w.ints(*shape)])


def _l2_normalization(call: Call) -> Result:
    w, rank = call.w, len(call.shape())
    modes = {"instance": range(1, rank), "channel": range(1, 2), "spatial": range(2, rank)}
    mode = call.text("mode", "instance")
    if mode not in modes or not list(modes[mode]):
        refuse(f"its mode {mode!r} does not fit an input of {rank} dimensions")
    squares = w.node("Mul", [call.x(), call.x()])
    total = w.node("ReduceSum", [squares, w.ints(*modes[mode])], keepdims=1)
    norm = w.node("Sqrt", [w.node("Add", [total, w.scalar(call.real("eps", 1e-10))])])
    return call.op("Div", [call.x(), norm])


# ----------------------------------------------------------------------------- activations
_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
    "mish": "Mish",
}


def _activation(call: Call) -> Result:
    kind = call.text("act_type")
    if kind == "log_sigmoid":
        # the logarithm of the logistic function, without its loss of digits
        inner = call.w.node("Softplus", [call.w.node("Neg", [call.x()])])
        return call.op("Neg", [inner])
    if kind not in _ACTIVATIONS:
        refuse(f"its act_type is {kind!r}")
    return call.op(_ACTIVATIONS[kind], [call.x()])


def _leaky_relu(call: Call) -> Result:
    """leaky_relu-inl.h; ``rrelu`` takes the middle of its bounds when nothing is trained."""
    kind = call.text("act_type", "leaky")
    slope = call.real("slope", 0.25)
    if kind == "rrelu":
        slope = (call.real("lower_bound", 0.125) + call.real("upper_bound", 0.334)) / 2
    plain: dict[str, tuple[str, dict[str, Any]]] = {
        "leaky": ("LeakyRelu", {"alpha": slope}),
        "rrelu": ("LeakyRelu", {"alpha": slope}),
        "elu": ("Elu", {"alpha": slope}),
        "selu": ("Selu", {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}),
        "gelu": ("Gelu", {"approximate": "none"}),
    }
    if kind in plain:
        op, attributes = plain[kind]
        return call.op(op, [call.x()], **attributes)
    if kind != "prelu":
        refuse(f"its act_type is {kind!r}")
    gamma = call.shape(1)
    if len(gamma) == 1 and gamma[0] > 1:
        return call.op("PRelu", [call.x(), _per_channel(call, 1, len(call.shape()))])
    return call.op("PRelu", [call.x(), call.x(1)])


# -------------------------------------------------------------------- softmax and outputs
def _softmax(op: str, sign: int = 1) -> Converter:
    def convert(call: Call) -> Result:
        if call.flag("use_length"):
            refuse("it takes lengths as an input (use_length)")
        x = call.x() if sign == 1 else call.w.node("Neg", [call.x()])
        temperature = call.real("temperature", 1.0)
        if temperature != 1:
            x = call.w.node("Div", [x, call.w.scalar(temperature)])
        return call.op(op, [x], axis=call.axis("axis", -1, len(call.shape())))

    return convert


def _softmax_activation(call: Call) -> Result:
    """Over the channels, or (``FlatTo2D`` of nn/softmax_activation-inl.h) over the last axis."""
    channel = call.text("mode", "instance") == "channel"
    return call.op("Softmax", [call.x()], axis=1 if channel else -1)


def _softmax_output(call: Call) -> Result:
    if call.flag("multi_output"):
        return call.op("Softmax", [call.x()], axis=1)
    if not call.flag("preserve_shape") and len(call.shape()) != 2:
        refuse(
            f"of an input of {len(call.shape())} dimensions builds of MXNet take the last axis, or "
            "all but the first"
        )
    return call.op("Softmax", [call.x()], axis=-1)


def _same(call: Call) -> Result:
    if call.text("mode", "training") == "always":
        refuse("it drops values at inference too (mode=always)")
    return call.op("Identity", [call.x()])


NEURAL = named(
    {
        "Convolution Convolution_v1": _convolution,
        "Deconvolution": _deconvolution,
        "FullyConnected": _fully_connected,
        "Pooling Pooling_v1": _pooling,
        "BatchNorm BatchNorm_v1 CuDNNBatchNorm _contrib_SyncBatchNorm": _batch_norm,
        "InstanceNorm": renamed("InstanceNormalization", 3, epsilon=("eps", 1e-3)),
        "LayerNorm": _layer_norm,
        "GroupNorm": _group_norm,
        "L2Normalization": _l2_normalization,
        "LRN": renamed(
            "LRN",
            size=("nsize", 0),
            alpha=("alpha", 1e-4),
            beta=("beta", 0.75),
            bias=("knorm", 2.0),
        ),
        "Activation": _activation,
        "LeakyReLU": _leaky_relu,
        "softmax": _softmax("Softmax"),
        "softmin": _softmax("Softmax", -1),
        "log_softmax": _softmax("LogSoftmax"),
        "SoftmaxActivation": _softmax_activation,
        "SoftmaxOutput Softmax": _softmax_output,
        (
            "Dropout LinearRegressionOutput MAERegressionOutput SVMOutput MakeLoss make_loss "
            "BlockGrad stop_gradient _copy identity IdentityAttachKLSparseReg"
        ): _same,
        "LogisticRegressionOutput": renamed("Sigmoid"),
    }
)
