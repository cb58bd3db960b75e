"""Nets around conditions, choices, normalizations and recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.export.tflite.cases import Made, ints, op, transposed
from tests.quantize.models import Net


def _chosen(kind: str) -> Made:
    """Where a comparison with a scalar holds the value, else something else."""

    def make(net: Net, x: str) -> Any:
        held = net.op(kind, x, net.constant(np.array(0.25)))
        return net.op("Where", held, net.op("Sigmoid", x), net.constant(np.array([[-0.5]])))

    return make


def _logic(net: Net, x: str) -> Any:
    low = net.op("Less", x, net.constant(np.array(-0.3)))
    high = net.op("Greater", x, net.constant(np.array(0.6)))
    either = net.op("Xor", net.op("Or", low, high), net.op("And", low, high))
    return net.op("Where", net.op("Not", either), x, net.conv(x, 6, 6))


def _equal(net: Net, x: str) -> Any:
    top = net.op("ReduceMax", x, net.constant(ints(1)), keepdims=1)
    return net.op("Cast", net.op("Equal", x, top), to=1)


def _normal(net: Net, *shape: int) -> str:
    return net.constant(net.normal(*shape) * 0.3 + 1.0)


def _batch_norm(net: Net, x: str) -> Any:
    mean, variance = net.constant(net.normal(6)), net.constant(abs(net.normal(6)) + 0.3)
    moved = net.op("Transpose", x, perm=[0, 1, 3, 2])  # nothing it could be folded into
    return net.op(
        "BatchNormalization", moved, _normal(net, 6), net.constant(net.normal(6)), mean, variance
    )


def _instance(net: Net, x: str) -> Any:
    return net.op("InstanceNormalization", x, _normal(net, 6), net.constant(net.normal(6)))


def _layer_norm(net: Net, x: str) -> Any:
    return net.op("LayerNormalization", x, _normal(net, 8), net.constant(net.normal(8)), axis=-1)


def _scatter(net: Net, x: str) -> Any:
    index = net.constant(np.array([[0, 2], [0, 4]]))
    other = net.op("Slice", net.op("Tanh", x), *(net.constant(ints(n)) for n in (1, 3, 1)))
    return net.op("ScatterND", x, index, net.op("Squeeze", other, net.constant(ints(0))))


def _gather_elements(net: Net, x: str) -> Any:
    index = np.random.default_rng(2).integers(-9, 9, (1, 6, 5, 8))
    return net.op("GatherElements", x, net.constant(index), axis=2)


def _computed_gather(net: Net, x: str) -> Any:
    flat = net.op("Reshape", x, net.constant(ints(6, -1)))
    most = net.op("ArgMax", net.op("Sigmoid", flat), axis=1, keepdims=0)
    table = net.constant(np.random.default_rng(5).normal(size=(72, 4)))
    return net.op("Gather", table, most)


def _gemm(net: Net, x: str) -> Any:
    flat = net.op("Reshape", net.op("GlobalAveragePool", x), net.constant(ints(2, 3)))
    other = net.op("Tanh", flat)
    return net.op("Gemm", flat, other, net.constant(net.normal(2)), transB=1, alpha=0.5, beta=2.0)


def _recurrent(kind: str, gates: int, **more: Any) -> Made:
    """A layer over 9 steps of 6 features; with ``states`` it starts from some and gives its last.

    ``steps`` repeats the sequence.
    """
    states, repeat = more.pop("states", False), more.pop("steps", 9) // 9

    def make(net: Net, x: str) -> Any:
        rows = net.op("ReduceMean", x, net.constant(ints(3)), keepdims=0)
        rows = net.op("Transpose", rows, perm=[2, 0, 1])
        if repeat > 1:
            rows = net.op("Tile", rows, net.constant(ints(repeat, 1, 1)))
        ways, units = 2 if more.get("direction") == "bidirectional" else 1, 5
        given = [
            net.constant(net.normal(ways, gates * units, 6, scale=0.5)),
            net.constant(net.normal(ways, gates * units, units, scale=0.4)),
            net.constant(net.normal(ways, 2 * gates * units, scale=0.3)),
        ]
        count = 3 if kind == "LSTM" else 2
        if states:
            start = net.op("ReduceMax", rows, net.constant(ints(0)), keepdims=1)
            start = net.op("Slice", start, *(net.constant(ints(n)) for n in (0, 5, 2)))
            start = net.op("Concat", *[start] * ways, axis=0)
            given += ["", *[start] * (count - 1)]
        found = net.op(kind, rows, *given, outputs=count, hidden_size=units, **more)
        if not states:
            return net.op("Add", found[0], found[0])
        flat = [net.op("Reshape", each, net.constant(ints(-1))) for each in found]
        return net.op("Concat", *flat, axis=0)

    return make


_WITHIN_ONE: Mapping[str, Made] = {
    **{
        f"where-{kind.lower()}": _chosen(kind)
        for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "logic": _logic,
    "instance-normalization": _instance,
    "layer-normalization": _layer_norm,
    "lp-normalization": op("LpNormalization", axis=1),
    "local-response": op("LRN", size=3, alpha=0.2, beta=0.7, bias=1.3),
    "norm": op("ReduceL2", ints(2), keepdims=0),
    "logarithm-of-a-sum": op("ReduceLogSumExp", ints(1, 3), keepdims=0),
    "product": op("ReduceProd", ints(2), keepdims=1),
    "average-pool-same": op("AveragePool", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    "transposed-same": transposed((6, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "transposed-groups": transposed((6, 2, 3, 3), strides=[2, 2], group=3),
    "transposed-dilated": transposed((6, 4, 3, 2), dilations=[2, 1], pads=[1, 0, 1, 0]),
    "transposed-beyond": transposed(
        (6, 4, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
    ),
    "transposed-row": transposed((6, 4, 3), strides=[2]),
    "softmax-rows": op("Softmax", axis=2),
    "logarithm-of-softmax": op("LogSoftmax", axis=1),
    "softplus": op("Softplus"),
    "scatter": _scatter,
    "sum-along": op("CumSum", np.array(1), reverse=1),
    "sum-of-three": lambda net, x: net.op("Sum", x, net.op("Sigmoid", x), net.conv(x, 6, 6)),
    "gemm-computed": _gemm,
}
_EXACT: Mapping[str, Made] = {
    "equal": _equal,
    "batch-normalization": _batch_norm,
    "max-pool-same": op("MaxPool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    "max-pool-same-lower": op(
        "MaxPool", kernel_shape=[2, 4], strides=[2, 1], auto_pad="SAME_LOWER"
    ),
    "atan": op("Atan"),
    "gather-elements": _gather_elements,
    "gather-computed": _computed_gather,
    "top": lambda net, x: net.op("TopK", x, net.constant(ints(3)), outputs=2)[0],
    "split-half-used": lambda net, x: net.op(
        "Relu", net.op("Split", x, outputs=2, axis=1, num_outputs=2)[1]
    ),
}
_CLOSE: Mapping[str, Made] = {
    "lstm": _recurrent("LSTM", 4),
    "lstm-both-ways-states": _recurrent("LSTM", 4, direction="bidirectional", states=True),
    "lstm-long": _recurrent("LSTM", 4, steps=90),
    "lstm-long-both-ways": _recurrent("LSTM", 4, steps=90, direction="bidirectional"),
    "gru": _recurrent("GRU", 3, states=True),
    "gru-linear": _recurrent("GRU", 3, linear_before_reset=1, direction="reverse"),
    "rnn": _recurrent("RNN", 1, states=True, activations=["Relu"]),
}
_MORE: Mapping[str, tuple[Made, float]] = {
    # name -> how it is made, steps (of a float output: 1/256) that the interpreter may be off
    **{name: (make, 1) for name, make in _WITHIN_ONE.items()},
    **{name: (make, 0) for name, make in _EXACT.items()},
    **{name: (make, 0.01) for name, make in _CLOSE.items()},
}


def _behind(make: Made) -> Made:
    """Behind a convolution, so that something of it is quantized."""
    return lambda net, x: make(net, net.conv(x, 6, 6))


MORE: Mapping[str, tuple[Made, float]] = {
    name: (_behind(make), allowed) for name, (make, allowed) in _MORE.items()
}
