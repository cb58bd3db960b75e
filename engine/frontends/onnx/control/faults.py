"""Operators that can fail on data, which must not run in a branch that the model might not take."""

from __future__ import annotations

import onnx

from engine.frontends.onnx.control.emission import Emission

__all__ = ["fault"]

# operator -> inputs that must be constant: indices and lengths that a kernel checks as it runs
_CHECKED = {
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "Scatter": (1,),
    "ScatterElements": (1,),
    "ScatterND": (1,),
    "MaxUnpool": (1,),
    "ReverseSequence": (1,),
    "RoiAlign": (2,),
    "MaxRoiPool": (1,),
    "CumSum": (1,),
    "NegativeLogLikelihoodLoss": (1,),
    "SoftmaxCrossEntropyLoss": (1,),
    "RNN": (4,),
    "GRU": (4,),
    "LSTM": (4,),
}

_DIVISIONS = frozenset({"Div", "Mod"})

_FLOATS = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.BFLOAT16,
    }
)


def fault(emission: Emission, node: onnx.NodeProto) -> str:
    """Why ``node`` could fail on some data, or give a size that depends on it; empty where not."""
    for name in node.output:
        if name and emission.shape(name) is None:
            return "the size of its result depends on data"
    for index in _CHECKED.get(node.op_type, ()):
        given = node.input[index] if index < len(node.input) else ""
        if given and emission.known(given) is None:
            return f"its input {given!r} depends on data and may be out of range"
    if node.op_type in _DIVISIONS and emission.element(node.input[0]) not in _FLOATS:
        divisor = emission.known(node.input[1])
        if divisor is None or not divisor.all():
            return "it may divide by zero"
    return ""
