"""Every rule: where it fires, where it must not, and that the numbers stay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from onnx import helper

from engine.graph.passes import optimise
from tests.graph.passes.support import furthest, model, operators, random_feeds, run


def node(op, inputs, output, **attributes):
    outputs = output.split()
    return helper.make_node(op, inputs.split(), outputs, f"{op}_{outputs[0]}", **attributes)


def f32(*dims, low=0.5, high=1.5, seed=1):
    return np.random.default_rng(seed).uniform(low, high, dims).astype(np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


BN = {"s": f32(4, seed=2), "b": f32(4, seed=3), "m": f32(4, seed=4), "v": f32(4, seed=5)}
X = {"x": (1, 4, 6, 6)}


@dataclass
class Case:
    """Nodes, and what each level makes of them."""

    nodes: list
    after: str
    fires: str = ""
    inputs: dict = field(default_factory=lambda: dict(X))
    outputs: tuple = ("y",)
    constants: dict = field(default_factory=dict)
    level: int = 3
    tolerance: float = 2e-6


def conv(source, output, weight="w", **attributes):
    return node("Conv", f"{source} {weight}", output, **attributes)


W = {"w": f32(4, 4, 3, 3, low=-1)}
PAD1 = {"pads": [1, 1, 1, 1]}


def _bn(source, output):
    return node("BatchNormalization", f"{source} s b m v", output)


CASES = {
    # -- folding and clean-up ------------------------------------------------------------------
    "constants are computed": Case(
        [node("Mul", "a a", "b"), node("Sqrt", "b", "c"), node("Add", "x c", "y")],
        "Add",
        "constant-folding",
        constants={"a": f32(4, 1, 1)},
        tolerance=0,
    ),
    "a large result is not kept": Case(
        [node("Expand", "a d", "b"), node("ReduceSum", "b", "c"), node("Add", "x c", "y")],
        "Expand ReduceSum Add",
        constants={"a": f32(1, 1), "d": i64(1200, 1200)},
        tolerance=0,
    ),
    "a Range whose end is computed is a constant, and what has its length": Case(
        [
            node("Shape", "x", "d", start=2, end=3),
            node("Squeeze", "d", "n"),
            node("Cast", "n", "end", to=1),
            node("Range", "start end step", "r"),
            node("Add", "r half", "middle"),
            node("Shape", "middle", "count"),
            node("Expand", "middle count", "row"),
            node("Add", "x row", "y"),
        ],
        "Add",
        "constant-folding",
        constants={"start": np.float32(0), "step": np.float32(1), "half": np.float32(0.5)},
        tolerance=0,
    ),
    "a Range that is too long is not kept": Case(
        [
            node("Range", "start end step", "r"),
            node("ReduceSum", "r", "s"),
            node("Add", "x s", "y"),
        ],
        "Range ReduceSum Add",
        constants={"start": np.float32(0), "end": np.float32(2e6), "step": np.float32(1)},
        tolerance=0,
    ),
    "shapes are computed": Case(
        [
            node("Shape", "x", "d"),
            node("Gather", "d zero", "n"),
            node("Unsqueeze", "n zeros", "u"),
            node("Concat", "u rest", "t", axis=0),
            node("Reshape", "x t", "y"),
        ],
        "Reshape",
        "static-shapes",
        constants={"zero": np.array(0, np.int64), "zeros": i64(0), "rest": i64(-1)},
        tolerance=0,
    ),
    "identity, dropout and neutral numbers go": Case(
        [
            node("Identity", "x", "a"),
            node("Dropout", "a", "b"),
            node("Mul", "b one", "c"),
            node("Add", "zero c", "d"),
            node("Transpose", "d", "e", perm=[0, 1, 2, 3]),
            node("Slice", "e from to", "f"),
            node("Sigmoid", "f", "y"),
        ],
        "Sigmoid",
        "no-ops",
        constants={
            "one": np.ones(1, np.float32),
            "zero": np.zeros((1, 1), np.float32),
            "from": i64(0, 0),
            "to": i64(9, 9),
        },
        tolerance=0,
    ),
    "ends of the graph keep an Identity": Case(
        [node("Identity", "x", "y"), node("Identity", "x", "z")],
        "Identity Identity",
        outputs=("y", "z"),
        tolerance=0,
    ),
    "a no-op between ends becomes Identity": Case(
        [node("Transpose", "x", "y", perm=[0, 1, 2, 3])], "Identity", "no-ops", tolerance=0
    ),
    "Dropout with training switched off goes": Case(
        [node("Dropout", "x ratio training", "a"), node("Tanh", "a", "y")],
        "Tanh",
        "no-ops",
        constants={"ratio": np.array(0.5, np.float32), "training": np.array(False)},
        tolerance=0,
    ),
    "Pad before a MaxPool whose indices are read stays": Case(
        [
            node("Pad", "x pads low", "a"),
            node("MaxPool", "a", "b i", kernel_shape=[3, 3]),
            node("Cast", "i", "c", to=1),
            node("Add", "b c", "y"),
        ],
        "Pad MaxPool Cast Add",
        constants={"pads": i64(0, 0, 1, 1, 0, 0, 1, 1), "low": np.array(-np.inf, np.float32)},
        tolerance=0,
    ),
    "Pad with minus infinity into MaxPool": Case(
        [node("Pad", "x pads low", "a"), node("MaxPool", "a", "y", kernel_shape=[3, 3])],
        "MaxPool",
        "pad-into-window",
        constants={"pads": i64(0, 0, 1, 1, 0, 0, 1, 1), "low": np.array(-np.inf, np.float32)},
        tolerance=0,
    ),
    "a mask that is read keeps its Dropout": Case(
        [
            node("Dropout", "x", "a mask"),
            node("Cast", "mask", "c", to=1),
            node("Add", "a c", "y"),
        ],
        "Dropout Cast Add",
        tolerance=0,
    ),
    "a broadcasting one is no no-op": Case(
        [node("Mul", "x ones", "y")],
        "Mul",
        inputs={"x": (1, 4)},
        constants={"ones": np.ones((3, 4), np.float32)},
        tolerance=0,
    ),
    "a reversed slice is no no-op": Case(
        [node("Slice", "x from to axes steps", "y")],
        "Slice",
        constants={
            "from": i64(-1),
            "to": i64(np.iinfo(np.int64).min),
            "axes": i64(2),
            "steps": i64(-1),
        },
        tolerance=0,
    ),
    "dead branches go": Case(
        [node("Relu", "x", "y"), node("Exp", "x", "a"), node("Log", "a", "b")],
        "Relu",
        "dead-code",
        tolerance=0,
    ),
    # -- canonical forms -----------------------------------------------------------------------
    "flatten, squeeze and unsqueeze are one reshape": Case(
        [
            node("Flatten", "x", "a"),
            node("Unsqueeze", "a zero", "b"),
            node("Squeeze", "b zero", "c"),
            node("Softmax", "c", "y"),
        ],
        "Reshape Softmax",
        "canonical-reshape",
        constants={"zero": i64(0)},
        tolerance=0,
    ),
    "a reshape that is read twice stays for its reader": Case(
        [
            node("Reshape", "x t", "a"),
            node("Reshape", "a u", "b"),
            node("ReduceSum", "a", "c"),
            node("Mul", "b c", "y"),
        ],
        "Reshape Reshape ReduceSum Mul",
        "canonical-reshape",
        constants={"t": i64(1, 4, 36), "u": i64(1, 12, 12)},
        tolerance=0,
    ),
    "reshapes around a softmax go": Case(
        [node("Reshape", "x t", "a"), node("Softmax", "a", "b"), node("Reshape", "b u", "y")],
        "Softmax",
        "reshape-pairs",
        constants={"t": i64(24, 6), "u": i64(1, 4, 6, 6)},
        tolerance=0,
    ),
    "reshapes around a softmax over another axis stay": Case(
        [node("Reshape", "x t", "a"), node("Softmax", "a", "b"), node("Reshape", "b u", "y")],
        "Reshape Softmax Reshape",
        constants={"t": i64(4, 36), "u": i64(1, 4, 6, 6)},
        tolerance=0,
    ),
    "MatMul and Add are Gemm": Case(
        [node("MatMul", "x w", "a"), node("Add", "b a", "y")],
        "Gemm",
        "canonical-gemm",
        inputs={"x": (2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a product that is read twice stays MatMul": Case(
        [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Mul", "a c", "y")],
        "MatMul Add Mul",
        inputs={"x": (2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a product of rank 3 stays MatMul": Case(
        [node("MatMul", "x w", "a"), node("Add", "a b", "y")],
        "MatMul Add",
        inputs={"x": (1, 2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "Gemm takes alpha and beta in": Case(
        [node("Gemm", "x w b", "y", alpha=0.5, beta=2.0, transA=1)],
        "Gemm",
        "canonical-gemm",
        inputs={"x": (5, 2)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a Gemm of two inputs stays": Case(
        [node("Gemm", "x z", "y", alpha=0.5)],
        "Gemm",
        inputs={"x": (2, 5), "z": (5, 3)},
        tolerance=0,
    ),
    "Sub and Div by powers of two": Case(
        [node("Sub", "x a", "b"), node("Div", "b c", "y")],
        "Add Mul",
        "canonical-arithmetic",
        constants={"a": f32(4, 1, 1), "c": np.array([-4.0], np.float32)},
        tolerance=0,
    ),
    "Div by three stays": Case(
        [node("Div", "x c", "y")], "Div", constants={"c": np.array(3, np.float32)}, tolerance=0
    ),
    "means over the picture": Case(
        [
            node("ReduceMean", "x axes", "a", keepdims=0),
            node("AveragePool", "x", "b", kernel_shape=[6, 6]),
            node("Flatten", "b", "c"),
            node("Add", "a c", "y"),
        ],
        "GlobalAveragePool Reshape GlobalAveragePool Reshape Add",
        "canonical-pooling",
        constants={"axes": i64(-1, 2)},
        level=1,
    ),
    "a mean of a layer normalization stays": Case(
        [
            node("Reshape", "x rows", "t"),
            node("ReduceMean", "t axes", "a"),
            node("Sub", "t a", "b"),
            node("Mul", "b b", "c"),
            node("ReduceMean", "c axes", "y"),
        ],
        "Reshape ReduceMean Sub Mul ReduceMean",
        constants={"axes": i64(2), "rows": i64(1, 4, -1)},
        tolerance=0,
    ),
    "a mean over rows stays": Case(
        [node("ReduceMean", "x axes", "y")], "ReduceMean", constants={"axes": i64(2)}, tolerance=0
    ),
    # -- activations ---------------------------------------------------------------------------
    "clamps merge": Case(
        [node("Relu", "x", "a"), node("Clip", "a low high", "b"), node("Relu", "b", "y")],
        "Clip",
        "canonical-clamps",
        constants={"low": np.array(-1, np.float32), "high": np.array(1, np.float32)},
        tolerance=0,
    ),
    "clamps that do not overlap": Case(
        [node("Clip", "x a b", "t"), node("Clip", "t c d", "y")],
        "Clip",
        "canonical-clamps",
        constants={
            k: np.array(n, np.float32) for k, n in zip("abcd", (-2, -1, 0.5, 1), strict=True)
        },
        tolerance=0,
    ),
    "Max and Min are clamps": Case(
        [node("Max", "x zero", "a"), node("Min", "six a", "y")],
        "Clip",
        "canonical-clamps",
        constants={"zero": np.zeros(1, np.float32), "six": np.array(0.5, np.float32)},
        tolerance=0,
    ),
    "Relu after Sigmoid goes": Case(
        [node("Sigmoid", "x", "a"), node("Relu", "a", "y")], "Sigmoid", tolerance=0
    ),
    "PRelu with one slope": Case(
        [node("PRelu", "x a", "b"), node("PRelu", "b z", "y")],
        "LeakyRelu Relu",
        "canonical-clamps",
        constants={"a": np.full((4, 1, 1), 0.2, np.float32), "z": np.zeros(1, np.float32)},
        tolerance=0,
    ),
    "PRelu with a slope per channel stays": Case(
        [node("PRelu", "x a", "y")], "PRelu", constants={"a": f32(4, 1, 1)}, tolerance=0
    ),
    "HardSigmoid and HardSwish written out": Case(
        [
            node("Add", "x three", "a"),
            node("Clip", "a zero six", "b"),
            node("Mul", "x b", "c"),
            node("Div", "c six", "d"),
            node("Add", "d three", "e"),
            node("Clip", "e zero six", "f"),
            node("Div", "f six", "g"),
            node("Mul", "g d", "h"),
            node("Mul", "h quarter", "i"),
            node("Add", "half i", "j"),
            node("Clip", "j zero one", "y"),
        ],
        "HardSwish HardSwish HardSigmoid",
        "hard-activations",
        constants={
            k: np.array(n, np.float32)
            for k, n in (
                ("three", 3),
                ("zero", 0),
                ("six", 6),
                ("quarter", 0.3),
                ("half", 0.5),
                ("one", 1),
            )
        },
    ),
    "a gate with another slope is no HardSwish": Case(
        [node("HardSigmoid", "x", "a", alpha=0.2, beta=0.5), node("Mul", "x a", "y")],
        "HardSigmoid Mul",
        tolerance=0,
    ),
    "Relu moves before Transpose and Concat": Case(
        [
            conv("x", "a", **PAD1),
            conv("x", "b", "u", **PAD1),
            node("Concat", "a b", "c", axis=1),
            node("Transpose", "c", "d", perm=[0, 2, 3, 1]),
            node("Relu", "d", "y"),
        ],
        "Conv Conv Relu Relu Concat Transpose",
        "activations-first",
        constants=W | {"u": f32(2, 4, 3, 3, low=-1)},
        tolerance=0,
    ),
    "what is empty leaves a Concat": Case(
        [
            conv("x", "a", **PAD1),
            node("Concat", "none x a none", "b", axis=1),
            node("Concat", "none b", "c", axis=1),
            node("Sigmoid", "c", "y"),
        ],
        "Conv Concat Sigmoid",
        constants=W | {"none": f32(1, 0, 6, 6)},
        tolerance=0,
    ),
    "Relu stays behind a Concat of an input": Case(
        [conv("x", "a", **PAD1), node("Concat", "a x", "b", axis=1), node("Relu", "b", "y")],
        "Conv Concat Relu",
        constants=W,
        tolerance=0,
    ),
    "Clip moves before MaxPool": Case(
        [
            conv("x", "a"),
            node("MaxPool", "a", "b", kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
            node("Clip", "b low high", "y"),
        ],
        "Conv Clip MaxPool",
        "activations-first",
        constants=W | {"low": np.array(0.5, np.float32), "high": np.array(1, np.float32)},
        tolerance=0,
    ),
    # -- into weights --------------------------------------------------------------------------
    "everything per channel goes into Conv": Case(
        [
            conv("x", "a"),
            _bn("a", "n"),
            node("Mul", "k n", "p"),
            node("Sub", "c p", "q"),
            node("Div", "q k", "r"),
            node("Add", "r one", "y"),
        ],
        "Conv",
        "fold-into-weights",
        constants=W | BN | {"k": f32(4, 1, 1), "c": f32(1, 4, 1, 1), "one": f32()},
    ),
    "grouped ConvTranspose": Case(
        [node("ConvTranspose", "x u b", "a", group=2, strides=[2, 2]), _bn("a", "y")],
        "ConvTranspose",
        "fold-into-weights",
        constants=BN | {"u": f32(4, 2, 3, 3, low=-1)},
    ),
    "Gemm and MatMul take scales": Case(
        [
            node("Gemm", "x u", "a"),
            node("Mul", "a s", "p"),
            node("BatchNormalization", "p s b m v", "q"),
            node("MatMul", "q t", "r"),
            node("Mul", "r k", "y"),
        ],
        "Gemm MatMul",
        "fold-into-weights",
        inputs={"x": (3, 5)},
        constants=BN | {"u": f32(5, 4), "t": f32(4, 2), "k": f32(2)},
    ),
    "shared weights are not changed under another reader": Case(
        [conv("x", "a"), _bn("a", "n"), conv("x", "c"), node("Add", "n c", "y")],
        "Conv Conv Add",
        "fold-into-weights",
        constants=W | BN,
    ),
    "a Conv that is an output of the graph keeps its numbers": Case(
        [conv("x", "a"), _bn("a", "y")],
        "Conv BatchNormalization",
        outputs=("y", "a"),
        constants=W | BN,
    ),
    "a Conv that is read twice keeps its numbers": Case(
        [conv("x", "a"), _bn("a", "n"), node("Add", "a n", "y")],
        "Conv BatchNormalization Add",
        constants=W | BN,
    ),
    "a constant per column is no scale per channel": Case(
        [conv("x", "a", **PAD1), node("Mul", "a k", "y")],
        "Conv Mul",
        constants=W | {"k": f32(6)},
    ),
    "weights that would overflow stay": Case(
        [conv("x", "a"), node("Mul", "a k", "y")],
        "Conv Mul",
        constants={
            "w": np.full((4, 4, 3, 3), 1e20, np.float32),
            "k": np.full((4, 1, 1), 1e25, np.float32),
        },
    ),
    "training BatchNormalization stays": Case(
        [
            conv("x", "a"),
            node("BatchNormalization", "a s b m v", "y mean var", training_mode=1),
        ],
        "Conv BatchNormalization",
        constants=W | BN,
        tolerance=0,
    ),
    "BatchNormalization before Conv without padding": Case(
        [_bn("x", "n"), node("Conv", "n u b", "y", group=2)],
        "Conv",
        "fold-ahead-into-weights",
        constants=BN | {"u": f32(4, 2, 3, 3, low=-1)},
    ),
    "a scale before a padded Conv": Case(
        [node("Mul", "x k", "n"), conv("n", "y", **PAD1)],
        "Conv",
        "fold-ahead-into-weights",
        constants=W | {"k": f32(4, 1, 1)},
    ),
    "an offset before a padded Conv stays": Case(
        [node("Add", "x k", "n"), conv("n", "y", **PAD1)],
        "Add Conv",
        constants=W | {"k": f32(4, 1, 1)},
        tolerance=0,
    ),
    # -- transposes and pads -------------------------------------------------------------------
    "inverse transposes go": Case(
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Transpose", "a", "b", perm=[0, 3, 1, 2]),
            node("Tanh", "b", "y"),
        ],
        "Tanh",
        "transpose-chains",
        tolerance=0,
    ),
    "transposes merge": Case(
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Transpose", "a", "y", perm=[0, 2, 1, 3]),
        ],
        "Transpose",
        "transpose-chains",
        inputs={"x": (2, 3, 4, 5)},
        tolerance=0,
    ),
    "channels last comes back": Case(
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Add", "a k", "b"),
            node("Softmax", "b", "c", axis=-1),
            node("Concat", "c a", "d", axis=3),
            node("ReduceMean", "d axes", "e", keepdims=1),
            node("Mul", "e d", "f"),
            node("Pad", "f pads", "g"),
            node("Transpose", "g", "y", perm=[0, 3, 1, 2]),
        ],
        "Add Softmax Concat GlobalAveragePool Mul Pad",
        "transpose-regions",
        constants={
            "k": f32(4),
            "axes": i64(1, 2),
            "pads": i64(0, 1, 0, 0, 0, 0, 1, 0),
        },
    ),
    "a transpose that would come back elsewhere stays": Case(
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Sigmoid", "a", "b"),
            node("ReduceMax", "b axes", "y", keepdims=0),
        ],
        "Transpose Sigmoid ReduceMax",
        constants={"axes": i64(1)},
        tolerance=0,
    ),
    "an output in channels last keeps its layout": Case(
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Sigmoid", "a", "s"),
            node("Transpose", "s", "y", perm=[0, 3, 1, 2]),
        ],
        "Sigmoid Transpose",
        "transpose-regions",
        outputs=("y", "s"),
        tolerance=0,
    ),
    "a transpose of axes of length 1 is a reshape": Case(
        [node("GlobalMaxPool", "x", "a"), node("Transpose", "a", "y", perm=[0, 2, 3, 1])],
        "GlobalMaxPool Reshape",
        "transpose-to-reshape",
        tolerance=0,
    ),
    "Pad into Conv": Case(
        [node("Pad", "x pads", "a"), conv("a", "y", pads=[0, 1, 0, 1])],
        "Conv",
        "pad-into-window",
        constants=W | {"pads": i64(0, 0, 1, 1, 0, 0, 2, 0)},
    ),
    "Pad with ones stays": Case(
        [node("Pad", "x pads one", "a"), conv("a", "y")],
        "Pad Conv",
        constants=W | {"pads": i64(0, 0, 1, 1, 0, 0, 1, 1), "one": np.array(1, np.float32)},
    ),
    "Pad of channels stays": Case(
        [node("Pad", "x pads", "a"), conv("a", "y")],
        "Pad Conv",
        constants={"w": f32(2, 5, 3, 3), "pads": i64(0, 1, 0, 0, 0, 0, 0, 0)},
    ),
    "mirrored Pad stays": Case(
        [node("Pad", "x pads", "a", mode="reflect"), conv("a", "y")],
        "Pad Conv",
        constants=W | {"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    "Pad into AveragePool counts": Case(
        [node("Pad", "x pads", "a"), node("AveragePool", "a", "y", kernel_shape=[3, 3])],
        "AveragePool",
        "pad-into-window",
        constants={"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    "Pad before an AveragePool that does not count its own stays": Case(
        [
            node("Pad", "x pads", "a"),
            node("AveragePool", "a", "y", kernel_shape=[3, 3], **PAD1),
        ],
        "Pad AveragePool",
        constants={"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    "Pad with zeros before MaxPool stays": Case(
        [node("Pad", "x pads", "a"), node("MaxPool", "a", "y", kernel_shape=[3, 3])],
        "Pad MaxPool",
        constants={"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
        tolerance=0,
    ),
    # -- duplicates ----------------------------------------------------------------------------
    "the same computed twice": Case(
        [
            node("Sigmoid", "x", "a"),
            node("Sigmoid", "x", "b"),
            node("Add", "a k", "c"),
            node("Add", "b l", "d"),
            node("Mul", "c d", "y"),
        ],
        "Sigmoid Add Mul",
        "common-subexpressions",
        constants={"k": np.array(2, np.float32), "l": np.array(2, np.float32)},
        tolerance=0,
    ),
    "two outputs of the graph stay two": Case(
        [node("Sigmoid", "x", "y"), node("Sigmoid", "x", "z")],
        "Sigmoid Sigmoid",
        outputs=("y", "z"),
        tolerance=0,
    ),
    "other attributes are another node": Case(
        [
            node("LeakyRelu", "x", "a", alpha=0.1),
            node("LeakyRelu", "x", "b", alpha=0.2),
            node("Mul", "a b", "y"),
        ],
        "LeakyRelu LeakyRelu Mul",
        tolerance=0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name) -> None:
    case = CASES[name]
    graph = model(case.nodes, case.inputs, case.outputs, case.constants)
    feeds = random_feeds(graph, seed=7)
    done = optimise(graph, case.level)
    assert operators(done.graph) == case.after.split()
    modified = {r.name for r in done.log if r.modified}
    assert not case.fires or case.fires in modified
    assert [s.name for s in done.graph.outputs] == [s.name for s in graph.outputs]
    assert [s.shape for s in done.graph.outputs] == [s.shape for s in graph.outputs]
    assert furthest(run(graph, feeds), run(done.graph, feeds)) <= case.tolerance
    below = optimise(graph, case.level if not case.fires else 0)
    assert furthest(run(graph, feeds), run(below.graph, feeds)) <= case.tolerance


def test_canonical_forms_in_detail() -> None:
    slices = [
        node("Slice", "x from to", "a"),
        node("Split", "a", "b c", axis=-3, num_outputs=2),
        node("Mul", "b c", "y"),
    ]
    constants = {"from": i64(-1, 0, 1, -3), "to": i64(9, 4, np.iinfo(np.int64).max, -1)}
    done = optimise(model(slices, X, ["y"], constants), 1).graph
    first = next(n for n in done.nodes if n.op_type == "Slice")
    written = [v.const_value.numpy().tolist() for v in first.inputs[1:]]
    assert written == [[1, 3], [6, 5], [2, 3], [1, 1]]
    second = next(n for n in done.nodes if n.op_type == "Split")
    assert second.attributes.get_int("axis") == 1
    assert second.inputs[1].const_value.numpy().tolist() == [2, 2]


def test_gemm_holds_outputs_by_inputs() -> None:
    nodes = [node("Gemm", "x w b", "y", alpha=0.5)]
    constants = {"w": f32(5, 3), "b": f32(3)}
    done = optimise(model(nodes, {"x": (2, 5)}, ["y"], constants), 1).graph
    gemm = next(iter(done.nodes))
    assert gemm.attributes.get_int("transB") == 1
    assert "alpha" not in gemm.attributes
    assert gemm.inputs[1].name == "w"
    assert gemm.inputs[1].const_value.numpy().shape == (3, 5)


def test_equal_matrices_are_stored_once_but_biases_are_not() -> None:
    nodes = [conv("x", "a", **PAD1), node("Conv", "a u c", "y", pads=[1, 1, 1, 1])]
    constants = W | {"u": W["w"].copy(), "c": np.zeros(4, np.float32)}
    done = optimise(model(nodes, X, ["y"], constants), 3).graph
    assert set(done.model.graph.initializers) == {"w", "c"}


def test_infinite_and_nan_values_pass_through() -> None:
    nodes = [conv("x", "a"), _bn("a", "n"), node("Identity", "n", "i"), node("Tanh", "i", "y")]
    graph = model(nodes, X, ["y"], W | BN)
    feeds = random_feeds(graph)
    feeds["x"][0, 0, 0, 0] = np.nan
    feeds["x"][0, 1, 5, 5] = np.inf
    reference = run(graph, feeds)
    assert np.isnan(reference["y"]).any()
    assert furthest(reference, run(optimise(graph, 3).graph, feeds)) < 1e-5
