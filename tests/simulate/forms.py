"""Every quantized operator in many forms, as graphs of one operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from engine.graph.ir import Graph
from engine.quantize import Quantized, calibrate, quantize
from tests.quantize.models import Net, small_cnn

Draw = Callable[[st.SearchStrategy[int]], int]
Form = Callable[[Net, Draw], str]


def _pick(draw: Draw, *choices: int) -> int:
    return draw(st.sampled_from(choices))


def _size(draw: Draw) -> int:
    return draw(st.integers(5, 12))


def _image(net: Net, draw: Draw, channels: int) -> str:
    return net.input(draw(st.integers(1, 2)), channels, _size(draw), _size(draw))


def conv(net: Net, draw: Draw) -> str:
    """Dense, grouped and depthwise, with strides, dilations, pads, with and without bias."""
    group = _pick(draw, 1, 1, 2, 4)
    channels, out = 4 * _pick(draw, 1, 2), 4 * _pick(draw, 1, 3)
    kernel = [_pick(draw, 1, 2, 3), _pick(draw, 1, 3)]
    x = _image(net, draw, channels)
    weight = net.constant(net.normal(out, channels // group, *kernel))
    inputs = [x, weight] + ([net.constant(net.normal(out))] if _pick(draw, 0, 1) else [])
    y = net.op(
        "Conv",
        *inputs,
        group=group,
        strides=[_pick(draw, 1, 2), _pick(draw, 1, 2)],
        dilations=[_pick(draw, 1, 2), 1],
        pads=[_pick(draw, 0, 1), _pick(draw, 0, 1), _pick(draw, 0, 2), 0],
    )
    return net.op("Relu", y) if _pick(draw, 0, 1) else y


def conv_1d_or_3d(net: Net, draw: Draw) -> str:
    """Convolutions over one and over three dimensions."""
    rank = _pick(draw, 1, 3)
    x = net.input(1, 3, *[_size(draw) for _ in range(rank)])
    return net.op("Conv", x, net.constant(net.normal(4, 3, *[2] * rank)))


def conv_transpose(net: Net, draw: Draw) -> str:
    """Its kernel is float, its tensors are 8 bits."""
    group = _pick(draw, 1, 2, 4)
    x = _image(net, draw, 4)
    out = _pick(draw, 1, 3) if group > 1 else 5
    weight = net.constant(net.normal(4, out, 3, 2))
    bias = net.constant(net.normal(out * group))
    return net.op(
        "ConvTranspose",
        x,
        weight,
        bias,
        group=group,
        strides=[2, _pick(draw, 1, 3)],
        pads=[1, 0, 0, 1],
        output_padding=[_pick(draw, 0, 1), 0],
    )


def gemm(net: Net, draw: Draw) -> str:
    """All four orientations, with and without bias."""
    rows, inner, out = draw(st.integers(1, 4)), draw(st.integers(1, 40)), draw(st.integers(1, 9))
    flip_a, flip_b = _pick(draw, 0, 1), _pick(draw, 0, 1)
    x = net.input(*((inner, rows) if flip_a else (rows, inner)))
    weight = net.constant(net.normal(*((out, inner) if flip_b else (inner, out))))
    inputs = [x, weight] + ([net.constant(net.normal(out))] if _pick(draw, 0, 1) else [])
    return net.op("Gemm", *inputs, transA=flip_a, transB=flip_b)


def matmul(net: Net, draw: Draw) -> str:
    """With constant weights on either side, and of two activations."""
    x = net.input(2, 4, 8)
    a, b = [
        lambda: (x, net.constant(net.normal(8, 5))),
        lambda: (x, net.constant(net.normal(2, 8, 3))),
        lambda: (net.constant(net.normal(3, 4)), x),
        lambda: (x, net.input(2, 8, 3)),
    ][draw(st.integers(0, 3))]()
    return net.op("MatMul", a, b)


def add_or_mul(net: Net, draw: Draw) -> str:
    """Two activations, a broadcast one, a constant, the same one twice; with Relu behind."""
    kind = "Add" if _pick(draw, 0, 1) else "Mul"
    x = _image(net, draw, 3)
    other = [
        lambda: net.input(*net.inputs[x]),
        lambda: net.input(1, 3, 1, 1),
        lambda: net.constant(net.normal(1, 3, 1, 1)),
        lambda: net.constant(2.5),
        lambda: x,
    ][draw(st.integers(0, 4))]()
    y = net.op(kind, x, other)
    return net.op("Relu", y) if _pick(draw, 0, 1) else y


def average_pool(net: Net, draw: Draw) -> str:
    """Every combination of pads, ceil_mode and count_include_pad."""
    if _pick(draw, 0, 0, 1):
        return net.op("GlobalAveragePool", _image(net, draw, 3))
    return net.op(
        "AveragePool",
        _image(net, draw, 3),
        kernel_shape=[3, 2],
        strides=[_pick(draw, 1, 2), _pick(draw, 1, 3)],
        pads=[_pick(draw, 0, 1), _pick(draw, 0, 1), _pick(draw, 0, 1), 0],
        ceil_mode=_pick(draw, 0, 1),
        count_include_pad=_pick(draw, 0, 1),
    )


def max_pool(net: Net, draw: Draw) -> str:
    """Pads, dilations and ceil_mode."""
    return net.op(
        "MaxPool",
        _image(net, draw, 3),
        kernel_shape=[3, 2],
        strides=[_pick(draw, 1, 2), _pick(draw, 1, 3)],
        dilations=[_pick(draw, 1, 2), 1],
        pads=[_pick(draw, 0, 1), 0, _pick(draw, 0, 1), 1],
        ceil_mode=_pick(draw, 0, 1),
    )


def concat(net: Net, draw: Draw) -> str:
    """Two or three inputs of different ranges."""
    x = net.input(1, 3, 5)
    parts = [x, net.op("Mul", net.input(1, 2, 5), net.constant(3.0))]
    if _pick(draw, 0, 1):
        parts.append(net.op("Sigmoid", x))
    return net.op("Concat", *parts, axis=1)


def unary(net: Net, draw: Draw) -> str:
    """Functions of one value, with integer kernels and without."""
    kinds = ("Sigmoid", "LeakyRelu", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Softplus")
    kind = (*kinds, "Relu", "Abs", "Neg")[draw(st.integers(0, 9))]
    attributes = {"alpha": 0.3} if kind == "LeakyRelu" else {}
    return str(net.op(kind, _image(net, draw, 3), **attributes))


def movement(net: Net, draw: Draw) -> str:
    """Operators that move values; a Sigmoid behind, so that the result is read in integers."""
    x = net.conv(net.input(1, 4, 6, 6), 4, 4)
    array = net.constant
    moved = [
        lambda: net.op("Transpose", x, perm=[0, 2, 3, 1]),
        lambda: net.op("Reshape", x, array(np.array([4, -1]))),
        lambda: net.op("Flatten", x),
        lambda: net.op(
            "Slice", x, array(np.array([1])), array(np.array([3])), array(np.array([1]))
        ),
        lambda: net.op("Split", x, outputs=2, axis=1, num_outputs=2)[1],
        lambda: net.op("Gather", x, array(np.array([3, 1])), axis=1),
        lambda: net.op("Resize", x, "", array([1.0, 1.0, 2.0, 2.0]), mode="nearest"),
        lambda: net.op("Resize", x, "", array([1.0, 1.0, 2.0, 2.0]), mode="linear"),
        lambda: net.op("DepthToSpace", x, blocksize=2),
        lambda: net.op("SpaceToDepth", x, blocksize=2),
        lambda: net.op("Pad", x, array(np.array([0, 0, 1, 1, 0, 0, 2, 0]))),
        lambda: net.op("ReduceMax", x),
        lambda: net.op("GlobalMaxPool", x),
        lambda: net.op("Tile", x, array(np.array([1, 2, 1, 1]))),
    ][draw(st.integers(0, 13))]()
    return str(net.op("Sigmoid", moved))


def float_kernels(net: Net, draw: Draw) -> str:
    """Operators of two values, and normalizations, without integer kernel."""
    x = net.input(1, 4, 6, 6)
    return str(
        [
            lambda: net.op("Sub", x, net.input(1, 4, 6, 6)),
            lambda: net.op("Div", x, net.constant(3.0)),
            lambda: net.op("Max", x, net.input(1, 4, 1, 1)),
            lambda: net.op("PRelu", x, net.constant(net.normal(4, 1, 1))),
            lambda: net.op("ReduceMean", x),
            lambda: net.op(
                "InstanceNormalization", x, net.constant(net.normal(4)), net.constant(net.normal(4))
            ),
        ][draw(st.integers(0, 5))]()
    )


def built_cnn(count: int = 3) -> tuple[Graph, list[dict[str, np.ndarray]], Quantized]:
    """The small net, so many samples, and its build."""
    net, graph = small_cnn()
    feeds = net.feeds(count)
    return graph, feeds, quantize(graph, calibrate(graph, feeds))


FORMS: dict[str, Form] = {
    form.__name__: form
    for form in (
        conv,
        conv_1d_or_3d,
        conv_transpose,
        gemm,
        matmul,
        add_or_mul,
        average_pool,
        max_pool,
        concat,
        unary,
        movement,
        float_kernels,
    )
}
