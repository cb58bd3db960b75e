"""Random graphs from the operators that the engine supports, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from engine.graph.ir import Graph, infer_shapes
from tests.graph.models import finish, tensor


class Builder:
    """Adds nodes and knows the shape of every tensor it made."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.pool: list[str] = []

    def const(self, array, dtype=np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(numbers, np.int64)

    def normal(self, *dims: int, scale: float = 1.0) -> str:
        return self.const(self.rng.normal(size=dims) * scale)

    def op(self, kind: str, inputs: list[str], shape, **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], f"n{len(self.nodes)}", **attributes)
        )
        self.shapes[name] = tuple(int(d) for d in shape)
        return name

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]


def conv(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    groups = b.pick(1, 1, c, 2 if c % 2 == 0 else 1)
    out = c if groups == c else int(b.rng.integers(1, 5)) * groups
    k = b.pick(1, 3) if min(h, w) > 2 else 1
    pad = b.pick(0, k // 2)
    stride = b.pick(1, 1, 2) if min(h, w) > 3 else 1
    weight = b.normal(out, c // groups, k, k, scale=(2 / (c // groups * k * k)) ** 0.5)
    inputs = [x, weight] + ([b.normal(out, scale=0.1)] if b.chance(0.5) else [])
    size = [(d + 2 * pad - k) // stride + 1 for d in (h, w)]
    return b.op(
        "Conv", inputs, (n, out, *size), group=groups, pads=[pad] * 4,
        strides=[stride] * 2, kernel_shape=[k, k],
    )  # fmt: skip


def transposed_conv(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    if h * w > 400:
        return conv(b, x)
    groups = 2 if c % 2 == 0 and b.chance(0.5) else 1
    out = int(b.rng.integers(1, 4))
    weight = b.normal(c, out, 2, 2, scale=(1 / c) ** 0.5)
    inputs = [x, weight] + ([b.normal(out * groups, scale=0.1)] if b.chance(0.5) else [])
    return b.op(
        "ConvTranspose", inputs, (n, out * groups, 2 * h, 2 * w), group=groups,
        strides=[2, 2], kernel_shape=[2, 2],
    )  # fmt: skip


def normalize(b: Builder, x: str) -> str:
    c = b.shapes[x][1]
    return b.op(
        "BatchNormalization",
        [
            x,
            b.const(b.rng.uniform(0.5, 1.5, c)),
            b.normal(c, scale=0.3),
            b.normal(c, scale=0.3),
            b.const(b.rng.uniform(0.5, 1.5, c)),
        ],
        b.shapes[x],
    )


def arithmetic(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    c = shape[1]
    dims = b.pick((c, 1, 1), (1, c, 1, 1), (1,), (), (1, 1, 1, 1)) if len(shape) == 4 else ()
    kind = b.pick("Mul", "Add", "Sub", "Div")
    number = b.const(b.rng.uniform(0.5, 2.0, dims) * b.pick(1, -1))
    if b.chance(0.1):
        number = b.const(np.full((), 1.0 if kind in ("Mul", "Div") else 0.0))
    inputs = [number, x] if kind != "Div" and b.chance(0.3) else [x, number]
    return b.op(kind, inputs, shape)


def activation(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    kind = b.pick(
        "Relu", "Relu", "Clip", "Clip0", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSwish",
        "Silu", "HardSigmoid", "WrittenOut", "Max", "Min", "Elu",
    )  # fmt: skip
    if kind == "Clip":
        return b.op("Clip", [x, b.const(0.0), b.const(6.0)], shape)
    if kind == "Clip0":
        low, high = b.pick(("", 1.0), (0.0, ""), (-1.0, 1.0), (0.0, 3.4028235e38))
        names = ["" if n == "" else b.const(n) for n in (low, high)]
        return b.op("Clip", [x, *names], shape)
    if kind == "PRelu":
        c = shape[1]
        slope = b.const(np.full((c, *(1,) * (len(shape) - 2)), 0.25))
        if b.chance(0.5):
            slope = b.const(b.rng.uniform(0, 0.5, (c, *(1,) * (len(shape) - 2))))
        return b.op("PRelu", [x, slope], shape)
    if kind == "Silu":
        return b.op("Mul", [x, b.op("Sigmoid", [x], shape)], shape)
    if kind == "HardSigmoid":
        alpha = b.pick(0.2, 1 / 6)
        gate = b.op("HardSigmoid", [x], shape, alpha=alpha, beta=0.5)
        return b.op("Mul", [gate, x], shape) if b.chance(0.6) else gate
    if kind == "WrittenOut":
        shifted = b.op("Add", [x, b.const(3.0)], shape)
        clipped = b.op("Clip", [shifted, b.const(0.0), b.const(6.0)], shape)
        form = b.pick("gate", "swish", "unit")
        if form == "gate":
            return b.op("Div", [clipped, b.const(6.0)], shape)
        if form == "swish":
            return b.op("Div", [b.op("Mul", [x, clipped], shape), b.const(6.0)], shape)
        slope = b.op("Mul", [x, b.const(0.25)], shape)
        return b.op(
            "Clip", [b.op("Add", [slope, b.const(0.5)], shape), b.const(0.0), b.const(1.0)], shape
        )
    if kind in ("Max", "Min"):
        return b.op(kind, [x, b.const(b.pick(0.0, 1.0))], shape)
    attributes = {"alpha": 0.1} if kind == "LeakyRelu" else {}
    return b.op(kind, [x], shape, **attributes)


def pool(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    kind = b.pick("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Whole")
    if min(h, w) < 2 or kind in ("GlobalAveragePool", "ReduceMean", "Whole"):
        if b.chance(0.7) and min(h, w) >= 2:  # keep pictures alive in most graphs
            return conv(b, x)
        if kind == "Whole":
            return b.op("AveragePool", [x], (n, c, 1, 1), kernel_shape=[h, w])
        if kind == "ReduceMean":
            return b.op("ReduceMean", [x, b.ints(2, -1)], (n, c, 1, 1), keepdims=1)
        return b.op("GlobalAveragePool", [x], (n, c, 1, 1))
    k = b.pick(2, 3) if min(h, w) > 2 else 2
    pad = b.pick(0, 1)
    attributes = {"kernel_shape": [k, k], "strides": [b.pick(1, 2)] * 2, "pads": [pad] * 4}
    stride = attributes["strides"][0]
    if kind == "AveragePool":
        attributes["count_include_pad"] = b.pick(0, 1)
    size = [(d + 2 * pad - k) // stride + 1 for d in (h, w)]
    return b.op(kind, [x], (n, c, *size), **attributes)


def padded(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    value = b.pick(0.0, 0.0, 1.0, float("-inf"))
    top, left, bottom, right = (int(v) for v in b.rng.integers(0, 2, 4))
    inputs = [x, b.ints(0, 0, top, left, 0, 0, bottom, right), b.const(value)]
    if value == 0 and b.chance(0.3):
        inputs = [x, b.ints(top, left, bottom, right), "", b.ints(2, 3)]
    y = b.op("Pad", inputs, (n, c, h + top + bottom, w + left + right))
    if np.isinf(value):
        h, w = b.shapes[y][2:]
        if min(h, w) < 3:
            return x
        return b.op("MaxPool", [y], (n, c, h - 2, w - 2), kernel_shape=[3, 3])
    return conv(b, y) if b.chance(0.6) else pool(b, y)


def concat_split(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    kind = b.pick("concat", "split", "slice", "backwards")
    if kind == "concat":
        parts = [conv(b, x) for _ in range(2)]
        sizes = [b.shapes[p][2:] for p in parts]
        if sizes[0] != sizes[1]:
            parts = [parts[0], b.op("Tanh", [parts[0]], b.shapes[parts[0]])]
        total = sum(b.shapes[p][1] for p in parts)
        y = b.op("Concat", parts, (n, total, *b.shapes[parts[0]][2:]), axis=b.pick(1, -3))
        return b.op("Relu", [y], b.shapes[y]) if b.chance(0.6) else y
    if kind == "split" and c >= 2:
        left = int(b.rng.integers(1, c))
        names = [f"t{len(b.nodes)}a", f"t{len(b.nodes)}b"]
        b.nodes.append(
            helper.make_node(
                "Split", [x, b.ints(left, c - left)], names, f"n{len(b.nodes)}", axis=b.pick(1, -3)
            )
        )
        b.shapes[names[0]], b.shapes[names[1]] = (n, left, h, w), (n, c - left, h, w)
        swapped = b.op("Concat", names[::-1], (n, c, h, w), axis=1)
        return activation(b, swapped)
    if kind == "backwards":
        inputs = [x, b.ints(-1), b.ints(np.iinfo(np.int64).min), b.ints(3), b.ints(-1)]
        return b.op("Slice", inputs, (n, c, h, w))
    inputs = [x, b.ints(0, 0), b.ints(np.iinfo(np.int64).max, max(1, c - 1)), b.ints(3, -3)]
    return b.op("Slice", inputs, (n, max(1, c - 1), h, w))


def residual(b: Builder, x: str) -> str:
    y = activation(b, normalize(b, x))
    return b.op("Add", [x, y], b.shapes[x])


def channels_last(b: Builder, x: str) -> str:
    """A part written as TensorFlow exports it, with transposes around everything."""
    n, c, h, w = b.shapes[x]
    y = b.op("Transpose", [x], (n, h, w, c), perm=[0, 2, 3, 1])
    for _ in range(int(b.rng.integers(1, 5))):
        kind = b.pick("act", "bias", "softmax", "concat", "pair", "mean", "pad", "self")
        shape = b.shapes[y]
        if kind == "act":
            y = b.op(b.pick("Relu", "Sigmoid", "Tanh"), [y], shape)
        elif kind == "bias":
            y = b.op(b.pick("Add", "Mul"), [y, b.normal(shape[3])], shape)
        elif kind == "softmax":
            y = b.op("Softmax", [y], shape, axis=-1)
        elif kind == "concat":
            y = b.op("Concat", [y, y], (*shape[:3], 2 * shape[3]), axis=3)
        elif kind == "pair":
            there = b.op("Transpose", [y], [shape[i] for i in (0, 3, 1, 2)], perm=[0, 3, 1, 2])
            there = conv(b, there)
            dims = b.shapes[there]
            y = b.op("Transpose", [there], [dims[i] for i in (0, 2, 3, 1)], perm=[0, 2, 3, 1])
        elif kind == "mean":
            y = b.op("ReduceMean", [y, b.ints(1, 2)], (shape[0], 1, 1, shape[3]), keepdims=1)
        elif kind == "pad":
            y = b.op(
                "Pad",
                [y, b.ints(0, 1, 0, 0, 0, 0, 1, 0)],
                (shape[0], shape[1] + 1, shape[2] + 1, shape[3]),
            )
        else:
            y = b.op("Add", [y, b.op("Relu", [y], shape)], shape)
    dims = b.shapes[y]
    if b.chance(0.2):
        b.pool.append(b.op("Sigmoid", [y], dims))
    return b.op("Transpose", [y], [dims[i] for i in (0, 3, 1, 2)], perm=[0, 3, 1, 2])


def computed_shape(b: Builder, x: str) -> str:
    """Reshape to a shape that the graph computes, as PyTorch exports ``view``."""
    n, c, h, w = b.shapes[x]
    dims = b.op("Shape", [x], (4,))
    batch = b.op("Gather", [dims, b.const(0, np.int64)], (), axis=0)
    rows = b.op("Unsqueeze", [batch, b.ints(0)], (1,))
    target = b.op("Concat", [rows, b.ints(c), b.ints(-1)], (3,), axis=0)
    y = b.op("Reshape", [x, target], (n, c, h * w))
    y = b.op(b.pick("Relu", "Softmax", "Identity"), [y], (n, c, h * w))
    back = b.op("Reshape", [y, b.ints(0, 0, h, w)], (n, c, h, w))
    if n > 1 or b.chance(0.5):
        return back
    flat = b.op("Squeeze", [back, b.ints(0)], (c, h, w))
    return b.op("Unsqueeze", [flat, b.ints(0)], (n, c, h, w))


def resize(b: Builder, x: str) -> str:
    n, c, h, w = b.shapes[x]
    if h * w > 300:
        return pool(b, x)
    mode = b.pick("nearest", "linear")
    scales = b.const([1, 1, 2, 2])
    return b.op("Resize", [x, "", scales], (n, c, 2 * h, 2 * w), mode=mode)


def no_op(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    kind = b.pick("Identity", "Dropout", "Cast", "Reshape", "Transpose", "Add", "Pair")
    if kind == "Cast":
        return b.op("Cast", [x], shape, to=1)
    if kind == "Reshape":
        return b.op("Reshape", [x, b.ints(*shape)], shape)
    if kind == "Transpose":
        return b.op("Transpose", [x], shape, perm=list(range(len(shape))))
    if kind == "Add":
        return b.op("Add", [x, b.const(np.zeros(1))], shape)
    if kind == "Pair":
        y = b.op("Transpose", [x], [shape[i] for i in (0, 3, 1, 2)], perm=[0, 3, 1, 2])
        return b.op("Transpose", [y], shape, perm=[0, 2, 3, 1])
    return b.op(kind, [x], shape)


def twice(b: Builder, x: str) -> str:
    """The same computed twice, as exporters without sharing do."""
    shape = b.shapes[x]
    return b.op("Add", [b.op("Sigmoid", [x], shape), b.op("Sigmoid", [x], shape)], shape)


_STEPS: tuple[Callable[[Builder, str], str], ...] = (
    conv, conv, conv, transposed_conv, normalize, normalize, arithmetic, arithmetic, activation,
    activation, activation, pool, padded, concat_split, residual, channels_last, computed_shape,
    resize, no_op, twice,
)  # fmt: skip


def head(b: Builder, x: str) -> str:
    """A classifier: flat, products with constants, perhaps probabilities."""
    n, c, h, w = b.shapes[x]
    k = c * h * w
    flat = (
        b.op("Flatten", [x], (n, k))
        if b.chance(0.5)
        else b.op("Reshape", [x, b.ints(0, -1)], (n, k))
    )
    if b.chance(0.5):
        y = b.op("MatMul", [flat, b.normal(k, 6, scale=k**-0.5)], (n, 6))
        y = b.op("Add", [y, b.normal(6)], (n, 6))
    else:
        turned = b.pick(0, 1)
        weight = b.normal(*((6, k) if turned else (k, 6)), scale=k**-0.5)
        y = b.op(
            "Gemm", [flat, weight, b.normal(6)], (n, 6), transB=turned,
            alpha=b.pick(1.0, 0.5), beta=b.pick(1.0, 2.0),
        )  # fmt: skip
    if b.chance(0.4):
        y = arithmetic(b, y)
    if b.chance(0.3):
        y = b.op(
            "BatchNormalization",
            [y, *(b.const(b.rng.uniform(0.5, 1.5, 6)) for _ in range(4))],
            (n, 6),
        )
    y = activation(b, y)
    return b.op("Softmax", [y], (n, 6), axis=b.pick(-1, 1)) if b.chance(0.5) else y


def random_graph(seed: int, steps: int = 14) -> Graph:
    """A graph of about 25 nodes; some of its inner tensors are outputs too."""
    b = Builder(seed)
    shape = (b.pick(1, 1, 2), int(b.rng.integers(1, 5)), b.pick(6, 8, 9), b.pick(6, 8, 9))
    b.shapes["input"] = shape
    b.pool = ["input"]
    for _ in range(steps):
        x = b.pool[-1] if b.chance(0.75) else b.pick(*b.pool[-4:])
        if len(b.shapes[x]) != 4:
            x = b.pool[0]
        b.pool.append(b.pick(*_STEPS)(b, x))
    last = [t for t in b.pool if len(b.shapes[t]) == 4][-1]
    if last != "input" and b.chance(0.6):
        b.pool.append(head(b, last))
    outputs = [b.pool[-1]] if b.pool[-1] != "input" else []
    read = {name for node in b.nodes for name in node.input}
    for name in b.pool[1:-1]:
        if (name not in read or b.chance(0.1)) and name not in outputs and name != "input":
            outputs.append(name)
    return _graph(b, shape, outputs or [b.op("Identity", ["input"], shape)], seed)


def _graph(b: Builder, shape, outputs: list[str], seed: int) -> Graph:
    ends = [tensor(name, *b.shapes[name]) for name in outputs]
    name = f"random_{seed}"
    proto = finish(b.nodes, [tensor("input", *shape)], ends, b.constants, name=name)
    onnx.checker.check_model(proto)
    return infer_shapes(Graph.from_proto(proto))
