"""One of two results by a condition that depends on data."""

from __future__ import annotations

import numpy as np
import onnx

from engine.base.text import shape_text
from engine.frontends.onnx.control.expander import Expander
from engine.frontends.onnx.control.values import TensorList, TensorSequence, Value

__all__ = ["select", "truth"]

# ONNX Runtime has no Where for these; every number of theirs is one of the wider type
_THROUGH: dict[int, int] = {
    onnx.TensorProto.INT8: onnx.TensorProto.INT32,
    onnx.TensorProto.INT16: onnx.TensorProto.INT32,
    onnx.TensorProto.UINT16: onnx.TensorProto.INT32,
    onnx.TensorProto.BFLOAT16: onnx.TensorProto.FLOAT,
}


def select(ex: Expander, condition: str, yes: Value, no: Value) -> Value:
    """``yes`` where the scalar ``condition`` holds, else ``no``.

    Raises:
        UnsupportedOperatorError: they differ in type, shape or length.
    """
    if yes == no:
        return yes
    if isinstance(yes, TensorSequence) and isinstance(no, TensorSequence):
        if len(yes.items) != len(no.items):
            raise ex.refusal(ex.current, "the length of a sequence depends on data")
        pairs = zip(yes.items, no.items, strict=True)
        return TensorSequence(tuple(_where(ex, condition, a, b) for a, b in pairs))
    if isinstance(yes, TensorList):
        yes = ex.stacked(yes)
    if isinstance(no, TensorList):
        no = ex.stacked(no)
    if not isinstance(yes, str) or not isinstance(no, str):
        raise ex.refusal(ex.current, "whether it gives a tensor depends on data")
    return _where(ex, condition, yes, no)


def _where(ex: Expander, condition: str, yes: str, no: str) -> str:
    emission = ex.emission
    if yes == no:
        return yes
    kind, shape = emission.element(yes), emission.shape(yes)
    if shape is None or not kind or (kind, shape) != (emission.element(no), emission.shape(no)):
        raise ex.refusal(
            ex.current,
            "which result it gives depends on data, and the results differ in size or type "
            f"({_shown(shape)} and {_shown(emission.shape(no))})",
        )
    if emission.opset < 9:
        raise ex.refusal(
            ex.current, f"its condition depends on data, and opset {emission.opset} has no Where"
        )
    if kind == onnx.TensorProto.BOOL:
        return _chosen(ex, condition, yes, no)
    through = _THROUGH.get(kind)
    if through is not None:
        yes, no = (emission.op("Cast", [x], f"{x}_wide", to=through) for x in (yes, no))
    result = emission.op("Where", [condition, yes, no], f"{yes}_selected")
    if through is None:
        return result
    return emission.op("Cast", [result], f"{result}_narrow", to=kind)


def _chosen(ex: Expander, condition: str, yes: str, no: str) -> str:
    """``Where`` on bools, which ONNX Runtime has no kernel for."""
    op = ex.emission.op
    known = [ex.emission.known(name) for name in (yes, no)]
    truths = [None if a is None or a.shape != () else bool(a) for a in known]
    if truths == [True, False]:
        return condition
    if truths[0] is True:
        return op("Or", [condition, no], f"{no}_selected")
    if truths[1] is False:
        return op("And", [condition, yes], f"{yes}_selected")
    first = op("And", [condition, yes], f"{yes}_if")
    otherwise = op("Not", [condition], f"{condition}_not")
    second = op("And", [otherwise, no], f"{no}_else")
    return op("Or", [first, second], f"{yes}_selected")


def truth(ex: Expander, name: str) -> bool | str:
    """A condition that is known, or the name of a bool without dimensions."""
    array = ex.emission.known(name)
    if array is not None and array.size == 1:
        return bool(array.reshape(()))
    if ex.emission.shape(name) == ():
        return name
    scalar = ex.emission.constant(np.zeros(0, np.int64), "no_dims")
    return ex.emission.op("Reshape", [name, scalar], f"{name}_scalar")


def _shown(shape: tuple[int, ...] | None) -> str:
    return "unknown" if shape is None else shape_text(shape)
