"""Random graphs from the operators that the engine supports, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.shape_inference import infer_node_outputs

from engine.graph.ir import OPSET, Graph, infer_shapes
from tests.graph.models import finish, tensor


class Builder:
    """Adds nodes and knows the shape of every tensor it made."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.types: dict[str, onnx.TypeProto] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.pool: list[str] = []

    def const(self, numbers) -> str:
        """Whole numbers are int64, others float32."""
        array, name = np.asarray(numbers), f"c{len(self.constants)}"
        self.constants[name] = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        kind = TensorProto.INT64 if array.dtype.kind == "i" else TensorProto.FLOAT
        self.has(name, array.shape, kind)
        return name

    def has(self, name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> None:
        self.types[name] = helper.make_tensor_type_proto(kind, shape)
        self.shapes[name] = tuple(shape)

    def normal(self, *dims: int, scale: float = 1.0) -> str:
        return self.const(self.rng.normal(size=dims) * scale)

    def op(self, kind: str, *inputs, outputs: int = 1, shape=None, **attributes):
        """A node that reads tensors by name, or numbers; gives the name of what it makes."""
        read = [each if isinstance(each, str) else self.const(each) for each in inputs]
        name = f"t{len(self.nodes)}"
        made = [name] if outputs == 1 else [f"{name}{'abc'[index]}" for index in range(outputs)]
        node = helper.make_node(kind, read, made, f"n{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        types = {each: self.types[each] for each in read if each}
        data = {
            each: numpy_helper.from_array(self.constants[each])
            for each in read
            if each in self.constants
        }
        opset = [helper.make_opsetid("", OPSET)]
        schema = onnx.defs.get_schema(kind, OPSET)
        found = infer_node_outputs(schema, node, types, data, opset_imports=opset)
        for each in made:
            inferred = found[each].tensor_type
            dims = shape or tuple(dim.dim_value for dim in inferred.shape.dim)
            self.has(each, dims, inferred.elem_type)
        return name if outputs == 1 else made

    def back_and_forth(self, x: str, between: Callable[[Builder, str], str], *perm: int) -> str:
        """What is computed of the tensor in another layout, back in its own."""
        y = between(self, self.op("Transpose", x, perm=perm))
        return self.op("Transpose", y, perm=np.argsort(perm).tolist())

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]


def conv(b: Builder, x: str) -> str:
    _, c, h, w = b.shapes[x]
    groups = b.pick(1, 1, c, 2 if c % 2 == 0 else 1)
    out = c if groups == c else int(b.rng.integers(1, 5)) * groups
    k = b.pick(1, 3) if min(h, w) > 2 else 1
    pad = b.pick(0, k // 2)
    stride = b.pick(1, 1, 2) if min(h, w) > 3 else 1
    weight = b.normal(out, c // groups, k, k, scale=(2 / (c // groups * k * k)) ** 0.5)
    bias = [b.normal(out, scale=0.1)] if b.chance(0.5) else []
    return b.op(
        "Conv", x, weight, *bias, group=groups, pads=[pad] * 4,
        strides=[stride] * 2, kernel_shape=[k, k],
    )  # fmt: skip


def transposed_conv(b: Builder, x: str) -> str:
    _, c, h, w = b.shapes[x]
    if h * w > 400:
        return conv(b, x)
    groups = 2 if c % 2 == 0 and b.chance(0.5) else 1
    out = int(b.rng.integers(1, 4))
    weight = b.normal(c, out, 2, 2, scale=(1 / c) ** 0.5)
    bias = [b.normal(out * groups, scale=0.1)] if b.chance(0.5) else []
    more = {"strides": [2, 2], "kernel_shape": [2, 2]}
    return b.op("ConvTranspose", x, weight, *bias, group=groups, **more)


def normalize(b: Builder, x: str) -> str:
    c = b.shapes[x][1]
    scale, means = b.rng.uniform(0.5, 1.5, c), [b.rng.normal(size=c) * 0.3 for _ in range(2)]
    return b.op("BatchNormalization", x, scale, *means, b.rng.uniform(0.5, 1.5, c))


def arithmetic(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    c = shape[1]
    dims = b.pick((c, 1, 1), (1, c, 1, 1), (1,), (), (1, 1, 1, 1)) if len(shape) == 4 else ()
    kind = b.pick("Mul", "Add", "Sub", "Div")
    number = b.const(b.rng.uniform(0.5, 2.0, dims) * b.pick(1, -1))
    if b.chance(0.1):
        number = b.const(1.0 if kind in ("Mul", "Div") else 0.0)
    return b.op(kind, *((number, x) if kind != "Div" and b.chance(0.3) else (x, number)))


def activation(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    kind = b.pick(
        "Relu", "Relu", "Clip", "Clip0", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSwish",
        "Silu", "HardSigmoid", "WrittenOut", "Max", "Min", "Elu",
    )  # fmt: skip
    if kind == "Clip":
        return b.op("Clip", x, 0.0, 6.0)
    if kind == "Clip0":
        return b.op("Clip", x, *b.pick(("", 1.0), (0.0, ""), (-1.0, 1.0), (0.0, 3.4028235e38)))
    if kind == "PRelu":
        dims = (shape[1], *(1,) * (len(shape) - 2))
        slope = b.const(np.full(dims, 0.25))
        return b.op("PRelu", x, b.const(b.rng.uniform(0, 0.5, dims)) if b.chance(0.5) else slope)
    if kind == "Silu":
        return b.op("Mul", x, b.op("Sigmoid", x))
    if kind == "HardSigmoid":
        gate = b.op("HardSigmoid", x, alpha=b.pick(0.2, 1 / 6), beta=0.5)
        return b.op("Mul", gate, x) if b.chance(0.6) else gate
    if kind == "WrittenOut":
        clipped = b.op("Clip", b.op("Add", x, 3.0), 0.0, 6.0)
        form = b.pick("gate", "swish", "unit")
        if form == "gate":
            return b.op("Div", clipped, 6.0)
        if form == "swish":
            return b.op("Div", b.op("Mul", x, clipped), 6.0)
        return b.op("Clip", b.op("Add", b.op("Mul", x, 0.25), 0.5), 0.0, 1.0)
    if kind in ("Max", "Min"):
        return b.op(kind, x, b.pick(0.0, 1.0))
    return b.op(kind, x, **({"alpha": 0.1} if kind == "LeakyRelu" else {}))


def pool(b: Builder, x: str) -> str:
    h, w = b.shapes[x][2:]
    kind = b.pick("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Whole")
    if min(h, w) < 2 or kind in ("GlobalAveragePool", "ReduceMean", "Whole"):
        if b.chance(0.7) and min(h, w) >= 2:  # keep pictures alive in most graphs
            return conv(b, x)
        if kind == "Whole":
            return b.op("AveragePool", x, kernel_shape=[h, w])
        if kind == "ReduceMean":
            return b.op("ReduceMean", x, [2, -1], keepdims=1)
        return b.op("GlobalAveragePool", x)
    k = b.pick(2, 3) if min(h, w) > 2 else 2
    pad = b.pick(0, 1)
    attributes = {"kernel_shape": [k, k], "strides": [b.pick(1, 2)] * 2, "pads": [pad] * 4}
    if kind == "AveragePool":
        attributes["count_include_pad"] = b.pick(0, 1)
    return b.op(kind, x, **attributes)


def padded(b: Builder, x: str) -> str:
    value = b.pick(0.0, 0.0, 1.0, float("-inf"))
    top, left, bottom, right = (int(v) for v in b.rng.integers(0, 2, 4))
    inputs = [b.const([0, 0, top, left, 0, 0, bottom, right]), b.const(value)]
    if value == 0 and b.chance(0.3):
        inputs = [[top, left, bottom, right], "", [2, 3]]
    y = b.op("Pad", x, *inputs)
    if np.isinf(value):
        return x if min(b.shapes[y][2:]) < 3 else b.op("MaxPool", y, kernel_shape=[3, 3])
    return conv(b, y) if b.chance(0.6) else pool(b, y)


def concat_split(b: Builder, x: str) -> str:
    c = b.shapes[x][1]
    kind = b.pick("concat", "split", "slice", "backwards")
    if kind == "concat":
        parts = [conv(b, x) for _ in range(2)]
        if b.shapes[parts[0]][2:] != b.shapes[parts[1]][2:]:
            parts = [parts[0], b.op("Tanh", parts[0])]
        y = b.op("Concat", *parts, axis=b.pick(1, -3))
        return b.op("Relu", y) if b.chance(0.6) else y
    if kind == "split" and c >= 2:
        left = int(b.rng.integers(1, c))
        names = b.op("Split", x, [left, c - left], outputs=2, axis=b.pick(1, -3))
        return activation(b, b.op("Concat", *names[::-1], axis=1))
    if kind == "backwards":
        return b.op("Slice", x, [-1], [np.iinfo(np.int64).min], [3], [-1])
    return b.op("Slice", x, [0, 0], [np.iinfo(np.int64).max, max(1, c - 1)], [3, -3])


def residual(b: Builder, x: str) -> str:
    return b.op("Add", x, activation(b, normalize(b, x)))


def channels_last(b: Builder, x: str) -> str:
    """A part written as TensorFlow exports it, with transposes around everything."""

    def inside(b: Builder, y: str) -> str:
        for _ in range(int(b.rng.integers(1, 5))):
            kind = b.pick("act", "bias", "softmax", "concat", "pair", "mean", "pad", "self")
            if kind == "act":
                y = b.op(b.pick("Relu", "Sigmoid", "Tanh"), y)
            elif kind == "bias":
                y = b.op(b.pick("Add", "Mul"), y, b.normal(b.shapes[y][3]))
            elif kind == "softmax":
                y = b.op("Softmax", y, axis=-1)
            elif kind == "concat":
                y = b.op("Concat", y, y, axis=3)
            elif kind == "pair":
                y = b.back_and_forth(y, conv, 0, 3, 1, 2)
            elif kind == "mean":
                y = b.op("ReduceMean", y, [1, 2], keepdims=1)
            elif kind == "pad":
                y = b.op("Pad", y, [0, 1, 0, 0, 0, 0, 1, 0])
            else:
                y = b.op("Add", y, b.op("Relu", y))
        if b.chance(0.2):
            b.pool.append(b.op("Sigmoid", y))
        return y

    return b.back_and_forth(x, inside, 0, 2, 3, 1)


def computed_shape(b: Builder, x: str) -> str:
    """Reshape to a shape that the graph computes, as PyTorch exports ``view``."""
    n, c, h, w = b.shapes[x]
    rows = b.op("Unsqueeze", b.op("Gather", b.op("Shape", x), 0, axis=0), [0])
    target = b.op("Concat", rows, [c], [-1], axis=0)
    y = b.op("Reshape", x, target, shape=(n, c, h * w))
    y = b.op(b.pick("Relu", "Softmax", "Identity"), y)
    back = b.op("Reshape", y, [0, 0, h, w])
    if n > 1 or b.chance(0.5):
        return back
    return b.op("Unsqueeze", b.op("Squeeze", back, [0]), [0])


def resize(b: Builder, x: str) -> str:
    h, w = b.shapes[x][2:]
    if h * w > 300:
        return pool(b, x)
    return b.op("Resize", x, "", [1.0, 1.0, 2.0, 2.0], mode=b.pick("nearest", "linear"))


def no_op(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    kind = b.pick("Identity", "Dropout", "Cast", "Reshape", "Transpose", "Add", "Pair")
    if kind == "Cast":
        return b.op("Cast", x, to=1)
    if kind == "Reshape":
        return b.op("Reshape", x, shape)
    if kind == "Transpose":
        return b.op("Transpose", x, perm=list(range(len(shape))))
    if kind == "Add":
        return b.op("Add", x, [0.0])
    if kind == "Pair":
        return b.back_and_forth(x, lambda _, y: y, 0, 3, 1, 2)
    return b.op(kind, x)


def twice(b: Builder, x: str) -> str:
    """The same computed twice, as exporters without sharing do."""
    return b.op("Add", b.op("Sigmoid", x), b.op("Sigmoid", x))


_STEPS: tuple[Callable[[Builder, str], str], ...] = (
    conv, conv, conv, transposed_conv, normalize, normalize, arithmetic, arithmetic, activation,
    activation, activation, pool, padded, concat_split, residual, channels_last, computed_shape,
    resize, no_op, twice,
)  # fmt: skip


def head(b: Builder, x: str) -> str:
    """A classifier: flat, products with constants, perhaps probabilities."""
    k = int(np.prod(b.shapes[x][1:]))
    flat = b.op("Flatten", x) if b.chance(0.5) else b.op("Reshape", x, [0, -1])
    if b.chance(0.5):
        y = b.op("Add", b.op("MatMul", flat, b.normal(k, 6, scale=k**-0.5)), b.normal(6))
    else:
        turned = b.pick(0, 1)
        weight = b.normal(*((6, k) if turned else (k, 6)), scale=k**-0.5)
        y = b.op(
            "Gemm", flat, weight, b.normal(6), transB=turned,
            alpha=b.pick(1.0, 0.5), beta=b.pick(1.0, 2.0),
        )  # fmt: skip
    if b.chance(0.4):
        y = arithmetic(b, y)
    if b.chance(0.3):
        y = b.op("BatchNormalization", y, *(b.rng.uniform(0.5, 1.5, 6) for _ in range(4)))
    y = activation(b, y)
    return b.op("Softmax", y, axis=b.pick(-1, 1)) if b.chance(0.5) else y


def random_graph(seed: int, steps: int = 14) -> Graph:
    """A graph of about 25 nodes; some of its inner tensors are outputs too."""
    b = Builder(seed)
    shape = (b.pick(1, 1, 2), int(b.rng.integers(1, 5)), b.pick(6, 8, 9), b.pick(6, 8, 9))
    b.has("input", shape)
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
    outputs = outputs or [b.op("Identity", "input")]
    ends = [tensor(name, *b.shapes[name]) for name in outputs]
    name = f"random_{seed}"
    proto = finish(b.nodes, [tensor("input", *shape)], ends, b.constants, name=name)
    onnx.checker.check_model(proto)
    return infer_shapes(Graph.from_proto(proto))
