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

Given = Mapping[str, Any]
Rule = Callable[[IntegerGraph, Given, torch.Tensor], str]
"""Of (graph, arguments by their names in torch, the result): the name of the real result."""


def _first(a: Given) -> Any:
    """The tensor that most operators have first; it has several names."""
    return next(iter(a.values()))


def _one(kind: str, **attributes: Any) -> Rule:
    """An operator of one tensor; an attribute that is a function is one of the arguments."""

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        known = {name: of(a) if callable(of) else of for name, of in attributes.items()}
        return g.node(kind, _first(a), **known)

    return rule


def _real(name: str) -> Callable[[Given], float]:
    return lambda a: float(a.get(name, 1))


def _whole(name: str) -> Callable[[Given], int]:
    return lambda a: int(a[name])


def _two(kind: str) -> Rule:
    """An operator of two tensors that are broadcast, or of one and a number."""

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        if a.get("alpha", 1) != 1:
            raise no_rule("A sum with a factor")
        return g.node(kind, *(_side(g, operand, out) for operand in list(a.values())[:2]))

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
        return name if value.numpy().dtype == kind else g.node("Cast", name, to=to)
    # a number in the code comes as a tensor of its own type
    return g.constant(value.detach().numpy().astype(kind), "number")


def _then(rule: Rule, kind: str) -> Rule:
    """Another operator behind a rule, before its result is rounded."""
    return lambda g, a, out: g.node(kind, rule(g, a, out))


# ------------------------------------------------------------------------------ packed parameters


def _packed(a: Given) -> Any:
    """The object that holds weights and bias."""
    return next(value for value in a.values() if isinstance(value, torch.ScriptObject))


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
    kind = "conv_transpose" if transposed else "conv"

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        packed = _packed(a)
        ops = torch.ops.quantized
        weight, bias = getattr(ops, f"{kind}{dims}d_unpack")(packed)
        prefix = f"{kind}{max(dims, 2)}d"  # a row is packed as a picture of one row

        def told(what: str) -> list[int]:
            return [int(n) for n in getattr(ops, f"{prefix}_{what}")(packed)][-dims:]

        return g.node(
            "ConvTranspose" if transposed else "Conv",
            *_with_parameters(g, _first(a), weight, bias),
            strides=told("stride"),
            pads=2 * told("padding"),
            dilations=told("dilation"),
            group=int(getattr(ops, f"{prefix}_groups")(packed)),
            **({"output_padding": told("output_padding")} if transposed else {}),
        )

    return rule


def _linear(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    weight, bias = torch.ops.quantized.linear_unpack(_packed(a))
    x = _first(a)
    inputs = _with_parameters(g, x, weight, bias)
    if x.dim() == 2:
        return g.node("Gemm", *inputs, transB=1)
    product = g.node("MatMul", inputs[0], g.node("Transpose", inputs[1], perm=[1, 0]))
    return product if len(inputs) == 2 else g.node("Add", product, inputs[2])


def _float_conv(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    """A convolution of a part that was left in floats."""
    if a["transposed"]:
        raise no_rule("A transposed convolution of floats")
    inputs = [a[name] for name in ("input", "weight", "bias") if a[name] is not None]
    window = _window(a, a["input"].dim() - 2)
    return g.node("Conv", *inputs, **window, group=int(a["groups"]))


def _float_linear(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    operands = [a[name] for name in ("mat1", "mat2", "self")]
    return g.node("Gemm", *operands, alpha=float(a["alpha"]), beta=float(a["beta"]))


# --------------------------------------------------------------------------------- normalizations


def _batch_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    mean = a.get("running_mean", a.get("mean"))
    variance = a.get("running_var", a.get("var"))
    if mean is None or variance is None:
        raise no_rule("A normalization by the batch's own statistics")
    affine = _affine(a, list(mean.shape))
    eps = float(a["eps"])
    return g.node("BatchNormalization", _first(a), *affine, mean, variance, epsilon=eps)


def _affine(a: Given, shape: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and offset of a normalization; 1 and 0 where it has none."""
    weight = a["weight"] if a["weight"] is not None else torch.ones(shape)
    return weight, a["bias"] if a["bias"] is not None else torch.zeros(shape)


def _layer_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    shape = list(a["normalized_shape"])
    weight, bias = _affine(a, shape)
    affine = [weight] if a["bias"] is None else [weight, bias]
    attributes = {"axis": -len(shape), "epsilon": float(a["eps"])}
    return g.node("LayerNormalization", _first(a), *affine, **attributes)


def _instance_norm(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = _first(a)
    return g.node("InstanceNormalization", x, *_affine(a, [x.shape[1]]), epsilon=float(a["eps"]))


# ------------------------------------------------------------------------------------- functions


def _clip(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    low = a.get("min_val", a.get("min"))
    high = a.get("max_val", a.get("max"))
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        raise no_rule("A clamp to a tensor")
    bounds = ["" if bound is None else float(bound) for bound in (low, high)]
    return g.node("Clip", _first(a), *bounds)


def _elu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    if a.get("scale", 1) != 1 or a.get("input_scale", 1) != 1:
        raise no_rule("An ELU with a scale")
    return g.node("Elu", _first(a), alpha=float(a.get("alpha", 1)))


def _prelu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x, weight = list(a.values())[:2]
    slopes = weight.dequantize() if weight.is_quantized else weight
    if slopes.numel() > 1:
        slopes = slopes.reshape(-1, *[1] * (x.dim() - 2))
    return g.node("PRelu", x, slopes.detach().numpy())


def _silu(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = g.real(_first(a))
    return g.node("Mul", x, g.node("Sigmoid", x))


# ----------------------------------------------------------------------------- windows and means


def _sizes(value: Sequence[int] | int, count: int = 2) -> list[int]:
    whole = [value] if isinstance(value, int) else [int(n) for n in value]
    return whole * count if len(whole) == 1 else whole


def _window(a: Given, dims: int) -> dict[str, Any]:
    """Strides, pads and dilations by the arguments of a convolution or a pool."""
    window = {"strides": _sizes(a["stride"], dims), "pads": 2 * _sizes(a["padding"], dims)}
    if "dilation" in a:
        window["dilations"] = _sizes(a["dilation"], dims)
    return window


def _pool(kind: str, dims: int = 2) -> Rule:
    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        if a.get("divisor_override") is not None:
            raise no_rule("A mean with a divisor of its own")
        kernel, window = _sizes(a["kernel_size"], dims), _window(a, dims)
        window["strides"] = window["strides"] or kernel
        if "count_include_pad" in a:
            window["count_include_pad"] = int(a["count_include_pad"])
        ceil = int(a["ceil_mode"])
        return g.node(kind, _first(a), kernel_shape=kernel, ceil_mode=ceil, **window)

    return rule


def _adaptive(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = _first(a)
    before, after = list(x.shape[-2:]), [int(n) for n in a["output_size"]]
    if x.dim() != 4 or any(old % new for old, new in zip(before, after, strict=True)):
        raise no_rule("An adaptive mean of a size that does not divide")
    if after == [1, 1]:
        return g.node("GlobalAveragePool", x)
    kernel = [old // new for old, new in zip(before, after, strict=True)]
    return g.node("AveragePool", x, kernel_shape=kernel, strides=kernel)


def _mean(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    axes = list(a.get("dim") or range(_first(a).dim()))
    return g.node("ReduceMean", _first(a), axes, keepdims=int(a["keepdim"]))


def _resize(mode: str) -> Rule:
    """To a size; nearest elements where that is a Resize as torch chooses them."""

    def rule(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
        x = _first(a)
        before, after = x.shape[2:], out.shape[2:]
        whole = all(old and new % old == 0 for old, new in zip(before, after, strict=True))
        if a.get("scale_factors") is not None and not whole:
            raise no_rule("A resize by factors that are no whole numbers")
        if mode == "linear":
            place = "align_corners" if a["align_corners"] else "pytorch_half_pixel"
        elif whole:
            place = "asymmetric"
        else:
            raise no_rule("A resize to the nearest element by factors that are no whole numbers")
        rules = {"coordinate_transformation_mode": place, "nearest_mode": "floor"}
        return g.node("Resize", x, "", "", list(out.shape), mode=mode, **rules)

    return rule


# ----------------------------------------------------------------------------------------- moves


def _shaped(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    """What keeps the order of elements, whatever it is called: its result says the shape."""
    return g.node("Reshape", _first(a), np.array(out.shape, np.int64))


def _same(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x = _first(a)
    if x.dtype != out.dtype and not (x.is_quantized or out.is_quantized):
        raise no_rule(f"A conversion to {out.dtype}")
    return g.node("Identity", x)


def _permuted(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    rank = _first(a).dim()
    if "dims" in a:
        perm = [int(axis) % rank for axis in a["dims"]]
    else:
        perm = list(range(rank))
        one, other = int(a.get("dim0", 0)) % rank, int(a.get("dim1", 1)) % rank
        perm[one], perm[other] = perm[other], perm[one]
    return g.node("Transpose", _first(a), perm=perm)


def _cat(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    parts, axis = list(a.values())[:2]
    return g.node("Concat", *parts, axis=int(axis))


def _slice(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    size = _first(a).shape[a["dim"]]
    first, last, step = slice(a["start"], a["end"], a["step"]).indices(size)
    return g.node("Slice", _first(a), [first], [last], [a["dim"]], [step])


def _select(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    return g.node("Gather", _first(a), np.array(a["index"], np.int64), axis=int(a["dim"]))


def _pad(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    rank = _first(a).dim()
    before, behind = [0] * rank, [0] * rank
    for at in range(len(a["pad"]) // 2):
        before[rank - 1 - at], behind[rank - 1 - at] = a["pad"][2 * at : 2 * at + 2]
    return g.node("Pad", _first(a), [*before, *behind], float(a.get("value", 0)))


def _channel_shuffle(g: IntegerGraph, a: Given, out: torch.Tensor) -> str:
    x, groups = _first(a), int(a["groups"])
    batch, channels, *rest = x.shape
    turned = g.node("Reshape", x, [batch, groups, channels // groups, *rest])
    perm = [0, 2, 1, *range(3, 3 + len(rest))]
    return g.node("Reshape", g.node("Transpose", turned, perm=perm), list(out.shape))


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
            **{f"quantized::batch_norm{dims}": _batch_norm for dims in ("", "1d", "2d", "3d")},
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
    **_both(
        "aten::relu6 aten::relu6_ quantized::relu6",
        lambda g, a, out: g.node("Clip", _first(a), 0.0, 6.0),
    ),
    **_both(
        "aten::leaky_relu aten::leaky_relu_ quantized::leaky_relu",
        _one("LeakyRelu", alpha=_real("negative_slope")),
    ),
    **_both("aten::elu aten::elu_ quantized::elu", _elu),
    **_both("aten::celu quantized::celu", _one("Celu", alpha=_real("alpha"))),
    **_both("aten::prelu aten::_prelu_kernel quantized::prelu", _prelu),
    **_both("aten::hardsigmoid aten::hardsigmoid_", _one("HardSigmoid", alpha=1 / 6, beta=0.5)),
    **_both("aten::hardswish aten::hardswish_ quantized::hardswish", _one("HardSwish")),
    **_both("aten::silu aten::silu_", _silu),
    **_both("aten::softmax aten::_softmax quantized::softmax", _one("Softmax", axis=_whole("dim"))),
    **_both("aten::log_softmax aten::_log_softmax", _one("LogSoftmax", axis=_whole("dim"))),
    **_both("aten::_native_batch_norm_legit_no_training", _batch_norm),
    "quantized::layer_norm": _layer_norm,
    "quantized::instance_norm": _instance_norm,
    **_both("aten::max_pool2d aten::quantized_max_pool2d quantized::max_pool2d", _pool("MaxPool")),
    **_both("aten::quantized_max_pool1d quantized::max_pool1d", _pool("MaxPool", 1)),
    "aten::avg_pool2d": _pool("AveragePool"),
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
    "aten::pixel_shuffle": _one("DepthToSpace", blocksize=_whole("upscale_factor"), mode="CRD"),
}
"""Operator of torch, without its overload -> what it computes."""
