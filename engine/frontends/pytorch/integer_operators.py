"""What each of torch's operators computes, in ONNX, on the numbers that its integers stand for.

torch's kernels of integers compute the operator on the numbers and round once; so does a node
between ``DequantizeLinear`` and ``QuantizeLinear``. Imported in the child process only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onnx import helper

from engine.frontends.pytorch.integer_graph import IntegerGraph, Stored, no_rule

__all__ = ["RULES", "Rule"]

Given = Mapping[str, Any]
Rule = Callable[[IntegerGraph, Given, torch.Tensor], str]
"""Of (graph, arguments by their names in torch, the result): the name of the real result."""


def _first(a: Given) -> Any:
    """The tensor that most operators have first; it has several names."""
    return next(iter(a.values()))


def _packed(a: Given) -> Any:
    """The object that holds weights and bias."""
    return next(value for value in a.values() if isinstance(value, torch.ScriptObject))


def _scalar(g: IntegerGraph, value: float) -> str:
    return g.constant(np.array(value, np.float32), "number")


def _one(kind: str, **fixed: Any) -> Rule:
    """An operator of one tensor."""
    return lambda g, a, out: str(g.node(kind, g.real(_first(a)), **fixed))


def _two(kind: str) -> Rule:
    """An operator of two tensors that are broadcast, or of one and a number."""

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        first, second = list(a.values())[:2]
        if a.get("alpha", 1) != 1:
            raise no_rule("A sum with a factor")
        sides = [_side(g, each, out) for each in (first, second)]
        return str(g.node(kind, *sides))

    return rule


def _side(g: IntegerGraph, value: Any, out: torch.Tensor) -> str:
    kind = np.dtype("float32") if out.is_quantized else out.numpy().dtype
    if not isinstance(value, torch.Tensor):
        return g.constant(np.array(value, kind), "number")
    if value.is_quantized:
        return g.real(value)
    if g.knows(value):
        name = g.real(value)
        to = helper.np_dtype_to_tensor_dtype(kind)
        return name if value.numpy().dtype == kind else str(g.node("Cast", name, to=to))
    # a number in the code comes as a tensor of its own type
    return g.constant(value.detach().numpy().astype(kind), "number")


def _then(rule: Rule, kind: str, **fixed: Any) -> Rule:
    """Another operator behind a rule, before its result is rounded."""
    return lambda g, a, out: str(g.node(kind, rule(g, a, out), **fixed))


# ------------------------------------------------------------------------------ packed parameters


def _bias_steps(x: torch.Tensor, weight: torch.Tensor) -> Stored:
    """Steps of the int32 sums of a layer: those of its input times those of its weights."""
    step = np.float64(x.q_scale()) * np.asarray(Stored.of(weight).scale, np.float64)
    scale = np.asarray(step, np.float32)
    return Stored(scale, np.zeros(scale.shape, np.int32))


def _with_parameters(
    g: IntegerGraph, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> list[str]:
    """The inputs of a node: numbers, weights and bias."""
    inputs = [g.real(x), g.weight(weight)]
    if bias is not None and x.is_quantized:
        inputs.append(g.bias(bias, _bias_steps(x, weight)))
    elif bias is not None:
        inputs.append(g.constant(bias.detach().numpy().astype(np.float32), "bias"))
    return inputs


def _conv(dims: int, *, transposed: bool = False) -> Rule:
    """A convolution whose weights are in an object that the engine for integers packed."""
    kind = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        packed = _packed(a)
        ops = torch.ops.quantized
        weight, bias = getattr(ops, f"{kind}_unpack")(packed)
        # a row is packed as a picture of one row
        prefix = ("conv_transpose" if transposed else "conv") + f"{max(dims, 2)}d"

        def told(what: str) -> list[int]:
            return [int(n) for n in getattr(ops, f"{prefix}_{what}")(packed)][-dims:]

        pads = told("padding")
        attributes: dict[str, Any] = {
            "strides": told("stride"),
            "pads": [*pads, *pads],
            "dilations": told("dilation"),
            "group": int(getattr(ops, f"{prefix}_groups")(packed)),
        }
        if transposed:
            attributes["output_padding"] = told("output_padding")
        made = "ConvTranspose" if transposed else "Conv"
        return str(g.node(made, *_with_parameters(g, _first(a), weight, bias), **attributes))

    return rule


def _linear(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    weight, bias = torch.ops.quantized.linear_unpack(_packed(a))
    x = _first(a)
    inputs = _with_parameters(g, x, weight, bias)
    if x.dim() == 2:
        return str(g.node("Gemm", *inputs, transB=1))
    made = g.node("MatMul", inputs[0], g.node("Transpose", inputs[1], perm=[1, 0]))
    return str(made if len(inputs) == 2 else g.node("Add", made, inputs[2]))


def _float_conv(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    """A convolution of a part that was left in floats."""
    if a["transposed"]:
        raise no_rule("A transposed convolution of floats")
    inputs = [g.real(a["input"]), g.real(a["weight"])]
    if a["bias"] is not None:
        inputs.append(g.real(a["bias"]))
    dims = a["input"].dim() - 2
    pads = _sizes(a["padding"], dims)
    made = g.node(
        "Conv",
        *inputs,
        strides=_sizes(a["stride"], dims),
        pads=[*pads, *pads],
        dilations=_sizes(a["dilation"], dims),
        group=int(a["groups"]),
    )
    return str(made)


def _float_linear(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    given = [g.real(a[name]) for name in ("mat1", "mat2", "self")]
    return str(g.node("Gemm", *given, alpha=float(a["alpha"]), beta=float(a["beta"])))


# --------------------------------------------------------------------------------- normalizations


def _batch_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    mean = a.get("running_mean", a.get("mean"))
    variance = a.get("running_var", a.get("var"))
    if mean is None or variance is None:
        raise no_rule("A normalization by the batch's own statistics")
    ones = torch.ones_like(mean)
    parts = [a["weight"] if a["weight"] is not None else ones]
    parts += [a["bias"] if a["bias"] is not None else torch.zeros_like(mean), mean, variance]
    inputs = [g.real(_first(a)), *map(g.real, parts)]
    return str(g.node("BatchNormalization", *inputs, epsilon=float(a["eps"])))


def _layer_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    shape = list(a["normalized_shape"])
    weight = a["weight"] if a["weight"] is not None else torch.ones(shape)
    inputs = [g.real(_first(a)), g.real(weight)]
    if a["bias"] is not None:
        inputs.append(g.real(a["bias"]))
    made = g.node("LayerNormalization", *inputs, axis=-len(shape), epsilon=float(a["eps"]))
    return str(made)


def _instance_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    channels = _first(a).shape[1]
    weight = a["weight"] if a["weight"] is not None else torch.ones(channels)
    bias = a["bias"] if a["bias"] is not None else torch.zeros(channels)
    inputs = [g.real(each) for each in (_first(a), weight, bias)]
    return str(g.node("InstanceNormalization", *inputs, epsilon=float(a["eps"])))


# ------------------------------------------------------------------------------------- functions


def _clip(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    low = a.get("min_val", a.get("min"))
    high = a.get("max_val", a.get("max"))
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        raise no_rule("A clamp to a tensor")
    bounds = ["" if each is None else _scalar(g, each) for each in (low, high)]
    return str(g.node("Clip", g.real(_first(a)), *bounds))


def _relu6(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return str(g.node("Clip", g.real(_first(a)), _scalar(g, 0.0), _scalar(g, 6.0)))


def _leaky(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return str(g.node("LeakyRelu", g.real(_first(a)), alpha=float(a["negative_slope"])))


def _elu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    if a.get("scale", 1) != 1 or a.get("input_scale", 1) != 1:
        raise no_rule("An ELU with a scale")
    return str(g.node("Elu", g.real(_first(a)), alpha=float(a.get("alpha", 1))))


def _celu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return str(g.node("Celu", g.real(_first(a)), alpha=float(a["alpha"])))


def _prelu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x, weight = list(a.values())[:2]
    slopes = weight.dequantize() if weight.is_quantized else weight
    if slopes.numel() > 1:
        slopes = slopes.reshape(-1, *[1] * (x.dim() - 2))
    return str(g.node("PRelu", g.real(x), g.constant(slopes.detach().numpy(), "slope")))


def _hard_sigmoid(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return str(g.node("HardSigmoid", g.real(_first(a)), alpha=1 / 6, beta=0.5))


def _hard_swish(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return str(g.node("HardSwish", g.real(_first(a))))


def _silu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = g.real(_first(a))
    return str(g.node("Mul", x, g.node("Sigmoid", x)))


def _softmax(kind: str) -> Rule:
    return lambda g, a, out: str(g.node(kind, g.real(_first(a)), axis=int(a["dim"])))


# ----------------------------------------------------------------------------- windows and means


def _sizes(value: Sequence[int] | int, count: int = 2) -> list[int]:
    whole = [value] if isinstance(value, int) else [int(n) for n in value]
    return whole * count if len(whole) == 1 else whole


def _max_pool(dims: int) -> Rule:
    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        kernel = _sizes(a["kernel_size"], dims)
        pads = _sizes(a["padding"], dims)
        made = g.node(
            "MaxPool",
            g.real(_first(a)),
            kernel_shape=kernel,
            strides=_sizes(a["stride"], dims) or kernel,
            pads=[*pads, *pads],
            dilations=_sizes(a["dilation"], dims),
            ceil_mode=int(a["ceil_mode"]),
        )
        return str(made)

    return rule


def _average_pool(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    if a.get("divisor_override") is not None:
        raise no_rule("A mean with a divisor of its own")
    kernel, pads = _sizes(a["kernel_size"]), _sizes(a["padding"])
    made = g.node(
        "AveragePool",
        g.real(_first(a)),
        kernel_shape=kernel,
        strides=_sizes(a["stride"]) or kernel,
        pads=[*pads, *pads],
        ceil_mode=int(a["ceil_mode"]),
        count_include_pad=int(a["count_include_pad"]),
    )
    return str(made)


def _adaptive(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = _first(a)
    before, after = list(x.shape[-2:]), [int(n) for n in a["output_size"]]
    if x.dim() != 4 or any(size % wanted for size, wanted in zip(before, after, strict=True)):
        raise no_rule("An adaptive mean of a size that does not divide")
    if after == [1, 1]:
        return str(g.node("GlobalAveragePool", g.real(x)))
    kernel = [size // wanted for size, wanted in zip(before, after, strict=True)]
    return str(g.node("AveragePool", g.real(x), kernel_shape=kernel, strides=kernel))


def _mean(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    axes = list(a.get("dim") or range(_first(a).dim()))
    return str(g.node("ReduceMean", g.real(_first(a)), axes=axes, keepdims=int(a["keepdim"])))


def _resize(mode: str) -> Rule:
    """To a size; nearest elements as torch chooses them, by a Gather where that is no Resize."""

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        x = _first(a)
        before, after = x.shape[2:], out.shape[2:]
        whole = all(b and w % b == 0 for b, w in zip(before, after, strict=True))
        if a.get("scale_factors") is not None and not whole:
            raise no_rule("A resize by factors that are no whole numbers")
        if mode == "linear":
            place = "align_corners" if a["align_corners"] else "pytorch_half_pixel"
        elif whole:
            place = "asymmetric"
        else:
            raise no_rule("A resize to the nearest element by factors that are no whole numbers")
        sizes = g.constant(np.array(out.shape, np.int64), "sizes")
        made = g.node(
            "Resize",
            g.real(x),
            "",
            "",
            sizes,
            mode=mode,
            coordinate_transformation_mode=place,
            nearest_mode="floor",
        )
        return str(made)

    return rule


# ----------------------------------------------------------------------------------------- moves


def _shaped(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    """What keeps the order of elements, whatever it is called: its result says the shape."""
    shape = g.constant(np.array(out.shape, np.int64), "shape")
    return str(g.node("Reshape", g.real(_first(a)), shape))


def _same(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = _first(a)
    if x.dtype != out.dtype and not (x.is_quantized or out.is_quantized):
        raise no_rule(f"A conversion to {out.dtype}")
    return str(g.node("Identity", g.real(x)))


def _permuted(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    rank = _first(a).dim()
    if "dims" in a:
        perm = [int(axis) % rank for axis in a["dims"]]
    else:
        perm = list(range(rank))
        one, other = (
            int(a.get(name, default)) % rank for name, default in (("dim0", 0), ("dim1", 1))
        )
        perm[one], perm[other] = perm[other], perm[one]
    return str(g.node("Transpose", g.real(_first(a)), perm=perm))


def _cat(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    parts, axis = list(a.values())[:2]
    return str(g.node("Concat", *map(g.real, parts), axis=int(axis)))


def _slice(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    size = _first(a).shape[a["dim"]]
    first, last, step = slice(a["start"], a["end"], a["step"]).indices(size)
    bounds = [g.constant(np.array([n], np.int64)) for n in (first, last, a["dim"], step)]
    return str(g.node("Slice", g.real(_first(a)), *bounds))


def _select(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    index = g.constant(np.array(a["index"], np.int64), "index")
    return str(g.node("Gather", g.real(_first(a)), index, axis=int(a["dim"])))


def _pad(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    rank = _first(a).dim()
    before, behind = [0] * rank, [0] * rank
    for at in range(len(a["pad"]) // 2):
        before[rank - 1 - at], behind[rank - 1 - at] = a["pad"][2 * at : 2 * at + 2]
    pads = g.constant(np.array([*before, *behind], np.int64), "pads")
    return str(g.node("Pad", g.real(_first(a)), pads, _scalar(g, a.get("value", 0))))


def _channel_shuffle(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x, groups = _first(a), int(a["groups"])
    batch, channels, *rest = x.shape
    shape = g.constant(np.array([batch, groups, channels // groups, *rest], np.int64), "shape")
    turned = g.node("Reshape", g.real(x), shape)
    perm = [0, 2, 1, *range(3, 3 + len(rest))]
    back = g.constant(np.array(out.shape, np.int64), "shape")
    return str(g.node("Reshape", g.node("Transpose", turned, perm=perm), back))


def _pixel_shuffle(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    size = int(a["upscale_factor"])
    return str(g.node("DepthToSpace", g.real(_first(a)), blocksize=size, mode="CRD"))


def _both(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


def _fused(names: Mapping[str, Rule]) -> dict[str, Rule]:
    """Rules, and the same with a ReLU that torch computes in one step with them."""
    return {**names, **{f"{name}_relu": _then(rule, "Relu") for name, rule in names.items()}}


RULES: Mapping[str, Rule] = {
    **_fused(
        {
            **{f"quantized::conv{dims}d": _conv(dims) for dims in (1, 2, 3)},
            "quantized::linear": _linear,
            "quantized::add": _two("Add"),
            "quantized::mul": _two("Mul"),
            "quantized::add_scalar": _two("Add"),
            "quantized::mul_scalar": _two("Mul"),
            "quantized::cat": _cat,
            "quantized::batch_norm": _batch_norm,
            "quantized::batch_norm1d": _batch_norm,
            "quantized::batch_norm2d": _batch_norm,
            "quantized::batch_norm3d": _batch_norm,
        }
    ),
    **{f"quantized::conv_transpose{n}d": _conv(n, transposed=True) for n in (1, 2, 3)},
    **_both("aten::convolution aten::_convolution", _float_conv),
    "aten::addmm": _float_linear,
    **_both("quantized::matmul aten::mm aten::bmm aten::matmul", _two("MatMul")),
    **_both("aten::add aten::add_", _two("Add")),
    **_both("aten::sub aten::sub_", _two("Sub")),
    **_both("aten::mul aten::mul_", _two("Mul")),
    **_both("aten::div aten::div_", _two("Div")),
    **_both("aten::relu aten::relu_", _one("Relu")),
    **_both("aten::sigmoid aten::sigmoid_ quantized::sigmoid", _one("Sigmoid")),
    **_both("aten::tanh aten::tanh_", _one("Tanh")),
    **_both("aten::hardtanh aten::hardtanh_ aten::clamp aten::clamp_ quantized::clamp", _clip),
    **_both("aten::relu6 aten::relu6_ quantized::relu6", _relu6),
    **_both("aten::leaky_relu aten::leaky_relu_ quantized::leaky_relu", _leaky),
    **_both("aten::elu aten::elu_ quantized::elu", _elu),
    **_both("aten::celu quantized::celu", _celu),
    **_both("aten::prelu aten::_prelu_kernel quantized::prelu", _prelu),
    **_both("aten::hardsigmoid aten::hardsigmoid_", _hard_sigmoid),
    **_both("aten::hardswish aten::hardswish_ quantized::hardswish", _hard_swish),
    **_both("aten::silu aten::silu_", _silu),
    **_both("aten::softmax aten::_softmax quantized::softmax", _softmax("Softmax")),
    **_both("aten::log_softmax aten::_log_softmax", _softmax("LogSoftmax")),
    **_both("aten::_native_batch_norm_legit_no_training", _batch_norm),
    "quantized::layer_norm": _layer_norm,
    "quantized::instance_norm": _instance_norm,
    **_both("aten::max_pool2d aten::quantized_max_pool2d quantized::max_pool2d", _max_pool(2)),
    **_both("aten::quantized_max_pool1d quantized::max_pool1d", _max_pool(1)),
    "aten::avg_pool2d": _average_pool,
    **_both("aten::_adaptive_avg_pool2d aten::adaptive_avg_pool2d", _adaptive),
    "aten::mean": _mean,
    "aten::upsample_nearest2d": _resize("nearest"),
    "aten::upsample_bilinear2d": _resize("linear"),
    **_both(
        "aten::view aten::reshape aten::_reshape_alias aten::_unsafe_view aten::flatten "
        "aten::squeeze aten::squeeze_ aten::unsqueeze aten::unsqueeze_",
        _shaped,
    ),
    **_both(
        "aten::clone aten::contiguous aten::detach aten::alias aten::_to_copy aten::lift_fresh "
        "aten::quantize_per_tensor aten::dequantize quantized::dropout",
        _same,
    ),
    **_both("aten::permute aten::transpose aten::t", _permuted),
    "aten::cat": _cat,
    "aten::slice": _slice,
    "aten::select": _select,
    "aten::constant_pad_nd": _pad,
    **_both("aten::channel_shuffle aten::native_channel_shuffle", _channel_shuffle),
    "aten::pixel_shuffle": _pixel_shuffle,
}
"""Operator of torch, without its overload -> what it computes."""
