"""Operators that can fail on data, which must not run in a branch that the model might not take."""

from __future__ import annotations

import onnx

from engine.frontends.facts import words
from engine.frontends.onnx.control.emission import Emission

__all__ = ["fault"]

# operator -> input that must be constant: indices or lengths that a kernel checks as it runs
_CHECKED = {
    **dict.fromkeys(
        words(
            "Gather GatherElements GatherND Scatter ScatterElements ScatterND MaxUnpool CumSum "
            "ReverseSequence MaxRoiPool NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
        ),
        1,
    ),
    "RoiAlign": 2,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), 4),
}

_DIVISIONS = frozenset({"Div", "Mod"})

_FLOATS = (
    *(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16),
    *(onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16),
)


def fault(emission: Emission, node: onnx.NodeProto) -> str:
    """Why ``node`` could fail on some data, or give a size that depends on it; empty where not."""
    for name in node.output:
        if name and emission.shape(name) is None:
            return "the size of its result depends on data"
    index = _CHECKED.get(node.op_type, len(node.input))
    given = node.input[index] if index < len(node.input) else ""
    if given and emission.known(given) is None:
        return f"its input {given!r} depends on data and may be out of range"
    if node.op_type in _DIVISIONS and emission.element(node.input[0]) not in _FLOATS:
        divisor = emission.known(node.input[1])
        if divisor is None or not divisor.all():
            return "it may divide by zero"
    return ""
