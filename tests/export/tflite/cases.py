"""Small nets around one operator each, and TFLite's interpreter to run what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from engine.export.tflite import TfliteModel, to_tflite
from engine.export.tflite.convert import Port
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, quantize
from tests.quantize.models import Net

Made = Callable[[Net, str], Any]
SHAPE = (1, 6, 9, 8)


def _stem(net: Net, *shape: int) -> str:
    """Something that a layer writes, with both signs: so the case reads no input of the graph."""
    x = net.input(*(shape or SHAPE))
    return str(net.op("Add", x, net.constant(np.array([0.3]))))


def _conv(out: int, kernel: int = 3, **attributes: Any) -> Made:
    return lambda net, x: net.conv(x, 6, out, kernel, **attributes)


def transposed(shape: tuple[int, ...], **attributes: Any) -> Made:
    """A transposed convolution with weights of a shape; of three dimensions it is over a row."""

    def make(net: Net, x: str) -> Any:
        outputs = shape[1] * attributes.get("group", 1)
        given = [net.constant(net.normal(*shape, scale=0.3)), net.constant(net.normal(outputs))]
        if len(shape) == 3:
            x = net.op("Reshape", x, net.constant(ints(1, 6, -1)))
        return net.op("ConvTranspose", x, *given, **attributes)

    return make


def op(kind: str, *constants: Any, behind: Made | None = None, **attributes: Any) -> Made:
    """An operator of ``x``, or of what ``behind`` makes of it."""

    def make(net: Net, x: str) -> Any:
        source = x if behind is None else behind(net, x)
        return net.op(kind, source, *(net.constant(c) for c in constants), **attributes)

    return make


def _const(kind: str, *shape: int) -> Made:
    return lambda net, x: net.op(kind, x, net.constant(net.normal(*shape) + 1.5))


def _self(kind: str, other: Made) -> Made:
    return lambda net, x: net.op(kind, x, other(net, x))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _split(net: Net, x: str) -> Any:
    a, b, c = net.op("Split", x, net.constant(ints(1, 2, 3)), outputs=3, axis=1)
    halves = net.op("Split", x, outputs=2, axis=1, num_outputs=2)
    return net.op("Concat", c, halves[0], b, a, halves[1], axis=1)


def _resize(mode: str, scales: list[float], **attributes: Any) -> Made:
    def make(net: Net, x: str) -> Any:
        given = [1.0] * (2 if "axes" not in attributes else 0) + scales
        return net.op("Resize", x, "", net.constant(np.array(given)), mode=mode, **attributes)

    return make


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape)


_FLAT = op("Flatten", behind=op("GlobalAveragePool"))


_EXACT: Mapping[str, Made] = {
    "conv": _conv(8, 3),
    "conv-stride-symmetric-pads": _conv(8, 3, strides=[2, 2]),
    "conv-stride-same": _conv(8, 3, strides=[2, 2], pads=[1, 0, 1, 1]),
    "conv-no-pads": _conv(8, 3, pads=[0] * 4),
    "conv-uneven-pads": _conv(4, 3, pads=[2, 0, 1, 3]),
    "conv-dilated": _conv(4, 3, dilations=[2, 2], pads=[2] * 4),
    "conv-groups": _conv(8, 3, group=2),
    "depthwise": _conv(6, 3, group=6),
    "depthwise-multiplier": _conv(12, 3, group=6, strides=[2, 1]),
    "conv-relu": op("Relu", behind=_conv(8)),
    "conv-relu6": op("Clip", 0.0, 6.0, behind=_conv(8)),
    "conv-clip": op("Clip", -0.5, 0.7, behind=_conv(8)),
    "max-pool": op("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "max-pool-pads": op("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    "max-pool-ceil": op("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global-maximum": op("GlobalMaxPool"),
    "maximum-row": op("ReduceMax", ints(2), keepdims=0),
    "leaky": op("LeakyRelu", alpha=0.1),
    "relu-alone": op("Relu", behind=op("Transpose", perm=[0, 1, 3, 2])),
    "prelu": lambda net, x: net.op("PRelu", x, net.constant(abs(net.normal(6, 1, 1)))),
    "slice": op("Slice", ints(1, 2), ints(5, 8), ints(1, 3), ints(2, 3)),
    "slice-back": op("Slice", ints(-1), ints(-99), ints(3), ints(-2)),
    "pad": op("Pad", ints(0, 0, 1, 2, 0, 0, 3, 0), 0.0),
    "pad-channels": op("Pad", ints(0, 1, 0, 0, 0, 2, 0, 0)),
    "pad-reflect": op("Pad", ints(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"),
    "transpose": op("Transpose", perm=[0, 3, 1, 2]),
    "transpose-last": op("Transpose", behind=_conv(4), perm=[0, 2, 3, 1]),
    "reshape": op("Reshape", ints(1, -1, 8), behind=_conv(4)),
    "squeeze": op("Squeeze", ints(2), behind=op("GlobalMaxPool")),
    "nearest-twice": _resize(
        "nearest", [2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "nearest-odd": _resize("nearest", [1.5, 0.5]),
    "linear-corners": _resize("linear", [2, 3], coordinate_transformation_mode="align_corners"),
    "depth-to-space": op("DepthToSpace", behind=_conv(12), blocksize=2),
    "depth-to-space-crd": op("DepthToSpace", behind=_conv(12), blocksize=2, mode="CRD"),
    "gather": op("Gather", ints(3, 0, -1), axis=1),
    "tile": op("Tile", ints(1, 2, 1, 3)),
}
_AROUND: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}
_WITHIN_ONE: Mapping[str, Made] = {
    "transposed": transposed((6, 4, 3, 3), strides=[2, 2]),
    "transposed-pads": transposed((6, 4, 4, 4), strides=[2, 2], pads=[1] * 4),
    "transposed-cut": transposed((6, 4, 4, 3), strides=[2, 2], pads=[1, 1, 0, 0]),
    "transposed-sized": transposed((6, 4, 3, 3), strides=[2, 2], output_shape=[18, 16]),
    "average-pool": op("AveragePool", kernel_shape=[3, 3], strides=[3, 3]),
    "average-pool-pads": op("AveragePool", kernel_shape=[3, 3], pads=[1] * 4),
    "average-pool-counted": op("AveragePool", **_AROUND),
    "average-pool-uneven": op("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
    "average-pool-beyond": op("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "average-pool-counted-beyond": op("AveragePool", **_AROUND, strides=[3, 2], ceil_mode=1),
    "average-pool-counted-whole": op("AveragePool", **_AROUND, strides=[2, 1], ceil_mode=1),
    "global-average": op("GlobalAveragePool"),
    "mean-kept": op("ReduceMean", ints(2, 3), keepdims=1),
    "mean-gone": op("ReduceMean", ints(2, 3), keepdims=0),
    "mean-channels": op("ReduceMean", ints(1), keepdims=0),
    "add": _self("Add", _conv(6, 1, pads=[0] * 4)),
    "sub": _self("Sub", _conv(6, 1, pads=[0] * 4)),
    "mul": _self("Mul", _conv(6, 1, pads=[0] * 4)),
    "mul-scalar": op("Mul", 0.37),
    "add-channels": _const("Add", 6, 1, 1),
    "mul-columns": _const("Mul", 1, 8),
    "div-channels": _const("Div", 1, 6, 1, 1),
    "maximum": _self("Max", _conv(6, 1, pads=[0] * 4)),
    "gate": _self("Mul", op("Sigmoid")),
    "squeeze-excite": _self("Mul", op("HardSigmoid", behind=op("GlobalAveragePool"), alpha=0.2)),
    "sigmoid": op("Sigmoid"),
    "tanh": op("Tanh"),
    "hard-swish": op("HardSwish"),
    "hard-sigmoid": op("HardSigmoid", alpha=1 / 6),
    "elu": op("Elu", alpha=0.7),
    "gelu": op("Gelu"),
    "exp": op("Exp", behind=_conv(4)),
    "softmax-channels": op("Softmax", behind=_conv(4), axis=1),
    "softmax-last": op("Softmax", behind=_conv(4), axis=-1),
    "concat": lambda net, x: net.op("Concat", x, net.conv(x, 6, 3), net.op("Sigmoid", x), axis=1),
    "concat-rows": lambda net, x: net.op("Concat", x, net.conv(x, 6, 6), axis=2),
    "split": _split,
    # quarters of sums of integers lie on edges, which TFLite rounds away from zero
    "linear": _resize("linear", [2, 2]),
    "linear-odd": _resize("linear", [1.7, 0.3]),
    "linear-axes": _resize("linear", [1.7, 0.3], axes=[3, -2]),
    "linear-symmetric": _resize(
        "linear", [1.3, 0.7], coordinate_transformation_mode="half_pixel_symmetric"
    ),
    "linear-one": _resize("linear", [0.2, 1], coordinate_transformation_mode="pytorch_half_pixel"),
    "gemm": op("Gemm", _numbers(10, 6), _numbers(10), behind=_FLAT, transB=1),
    "gemm-plain": op("Gemm", _numbers(6, 10), behind=_FLAT),
    "matmul": lambda net, x: net.op("MatMul", x, net.constant(net.normal(8, 5))),
    "matmul-both": _self("MatMul", op("Transpose", behind=_conv(6), perm=[0, 1, 3, 2])),
}
CASES: Mapping[str, tuple[Made, int]] = {
    # name -> how it is made, steps that the interpreter may be off
    **{name: (make, 0) for name, make in _EXACT.items()},
    **{name: (make, 1) for name, make in _WITHIN_ONE.items()},
}


def quantized(
    make: Made, layers: Mapping[str, str] | None = None, shape: tuple[int, ...] = SHAPE
) -> tuple[Net, Graph]:
    """The quantized graph of a case."""
    net = Net(7)
    output = make(net, _stem(net, *shape))
    return net, built(net, net.graph(output), layers=dict(layers or {}))


def built(net: Net, graph: Graph, count: int = 4, **settings: Any) -> Graph:
    """A graph as a build quantizes it, calibrated by some feeds."""
    return quantize(graph, calibrate(graph, net.feeds(count)), QuantizeSettings(**settings)).graph


def stored(net: Net, x: str, *quant: str) -> str:
    """A tensor by way of its integers."""
    return str(net.op("DequantizeLinear", net.op("QuantizeLinear", x, *quant), *quant))


def stored_as(port: Port, array: np.ndarray) -> np.ndarray:
    """A value of an input of the model, as its file takes it."""
    if port.quant is not None and array.dtype == np.uint8:
        array = (array.astype(np.int16) - 128).astype(np.int8)
    elif port.quant is not None and array.dtype != np.int8:
        steps = np.rint(array / np.float32(port.quant.scale[0])) + port.quant.zero_point[0]
        array = np.clip(steps, -128, 127).astype(np.int8)
    return np.ascontiguousarray(np.moveaxis(array, 1, -1) if port.channels_last else array)


def interpreted(model: TfliteModel, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of TFLite's interpreter: name in the model -> stored values in the model's order."""
    runtime = Interpreter(model_content=model.data, num_threads=1)
    runtime.allocate_tensors()
    given = {each["name"]: each["index"] for each in runtime.get_input_details()}
    for port in model.inputs:
        runtime.set_tensor(given[port.name], stored_as(port, feed[port.source]))
    runtime.invoke()
    found = {}
    for port, each in zip(model.outputs, runtime.get_output_details(), strict=True):
        array = runtime.get_tensor(each["index"])
        found[port.source] = np.moveaxis(array, -1, 1) if port.channels_last else array
    return found


def differences(graph: Graph, model: TfliteModel, feed: dict[str, np.ndarray]) -> np.ndarray:
    """All differences of all outputs, in steps of each; of a float output in 1/256."""
    wanted, found = Session(graph).run(feed), interpreted(model, feed)
    all_of_them = []
    for port in model.outputs:
        array = found[port.source].astype(np.float64)
        other = wanted[port.source].astype(np.float64)
        if port.quant is not None and wanted[port.source].dtype.kind in "iu":
            other -= 128 * (wanted[port.source].dtype == np.uint8)
        elif port.quant is not None:
            other = np.rint(other / np.float32(port.quant.scale[0])) + port.quant.zero_point[0]
        elif wanted[port.source].dtype.kind == "f":
            array, other = array * 256, other * 256
        assert array.shape == other.shape
        all_of_them.append(np.abs(array - other).reshape(-1))
    return np.concatenate(all_of_them)


def steps_apart(graph: Graph, model: TfliteModel, feed: dict[str, np.ndarray]) -> float:
    """The largest of them."""
    return float(differences(graph, model, feed).max())


def written(graph: Graph) -> TfliteModel:
    """As TFLite."""
    return to_tflite(graph, "made by a test")
