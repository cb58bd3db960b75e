"""Layers whose output has room for what they compute on the way.

An activation that is looked up in a table is several passes over its output in float16; the
compiler gives each pass room behind the output. So it does with a Transpose on RK2118. Source:
outputs in the table of feature tensors that rknn-toolkit2 2.3.2 prints, of every activation on
every family.
"""

from __future__ import annotations

from engine.cost.lowered import LoweredLayer
from engine.facts.npu import NpuProfile

__all__ = ["written_times"]

_SHORT = ("HardSigmoid", "Sigmoid", "Sqrt", "Tanh")
_LONG = ("Elu", "ExGelu", "exGelu", "ExSwish", "exSwish", "HardSwish", "Softplus")
_TWICE = ("rk3562", "rk3576", "rv1126b")


def written_times(writer: LoweredLayer, npu: NpuProfile, size: int) -> int:
    """How many times as large as its tensor the output of a layer is.

    Args:
        writer: the layer.
        npu: the family of chips.
        size: bytes of one value of the output.
    """
    if writer.target != "NPU":
        return 1
    if writer.kind == "Transpose":
        return 2 if npu.family == "rk2118" else 1
    fused = writer.kind in ("Conv", "ConvTranspose")
    name = writer.op.removesuffix("Relu").removesuffix("Add")
    short, long = name.endswith(_SHORT), name.endswith(_LONG)
    if not short and not long:
        return 1
    if size == 1:
        return 4 if npu.family == "rk3588" and not fused else 1
    if short:
        return 2
    if npu.family in _TWICE:
        return 2 if fused else 3
    return 2 if npu.family == "rk3588" and not fused else 3
