"""Tables that RK3576 and RV1126B keep beside the constants of a model.

The total of the weights that the compiler prints has more than the table of constants: one block
for every model with a layer on the NPU, and for each layer what it looks up or rescales by, in
steps of 512 bytes. Source: totals of 130 graphs of few layers in both dtypes (asked, toolkit
2.3.2). Layers that rescale by the same numbers share a table, which depends on the calibration.
"""

from __future__ import annotations

from engine.cost.lowered import Lowered, LoweredLayer
from engine.facts.npu import NpuProfile

__all__ = ["WIDE", "kept_tables"]

WIDE = ("rk3576", "rv1126b")
"""Families that have such tables."""

_ONCE = 18_688
_LOOKED_UP = ("Swish", "Sigmoid", "Tanh", "Gelu", "Mish", "Elu", "Softplus")
_LOOK_UP = 2048
_SUMS = ("Add", "Max", "Min", "Sub")
_BY_KIND = {
    "LeakyRelu": (3072, 1024),
    "PRelu": (2560, 0),
    "Clip": (1024, 0),
    "Relu": (1024, 0),
    "Pow": (1024, 0),
    "Pad": (1536, 1536),
    "Sqrt": (1536, 1536),
    "exDataConvert": (1024, 1024),
    "exLSTM": (19_456, 10_240),
    "exMatMul": (1024, 512),
    "exNorm": (9728, 7168),
    "exSDPAttention": (10_240, 2048),
    "exSoftmax13": (4608, 2048),
}
"""Bytes in int8 and float16."""
_FUSED = {"LeakyRelu": (1536, 512), "PRelu": (1024, 0)}
"""Of an activation that a convolution does."""
_EACH_PART = 1024
"""Of what is joined or cut in int8, one part less where all of them fill groups."""


def kept_tables(lowered: Lowered, npu: NpuProfile) -> int:
    """Bytes of all tables of a model; 0 on other families."""
    layers = [
        each
        for each in lowered.layers
        if each.target == "NPU" and each.kind not in ("InputOperator", "OutputOperator")
    ]
    if npu.family not in WIDE or not layers:
        return 0
    return _ONCE + sum(_of_layer(each, npu, lowered) for each in layers)


def _of_layer(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    half = layer.dtype == "float16"
    looked_up = _LOOK_UP if any(word in layer.op for word in _LOOKED_UP) else 0
    if layer.kind in ("Conv", "ConvTranspose"):
        fused = sum(each[half] for name, each in _FUSED.items() if name in layer.op)
        return looked_up + fused + (0 if half and not layer.depthwise else 512)
    if layer.kind in _BY_KIND:
        return _BY_KIND[layer.kind][half]
    if layer.kind == "Resize":
        return 2304 if layer.mode in ("", "nearest") else 512
    given = any(lowered.shape(name)[2:] in ((), (1, 1)) for name in layer.consts)
    if layer.kind == "Mul":
        return 512 * given if half else 1024
    if layer.kind in _SUMS:
        return 1024 * ((0 if half else 2) + given)
    if layer.kind in ("Concat", "Split"):
        return 0 if half else _EACH_PART * _rescaled(layer, npu, lowered)
    return looked_up


def _rescaled(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Parts of a Concat or a Split that have a table; of a Split in whole groups it is one."""
    parts = layer.inputs if layer.kind == "Concat" else layer.outputs
    shapes = [lowered.shape(name) for name in parts]
    if any(shape[1] % npu.atom_bytes for shape in shapes if len(shape) == 4):
        return len(parts)
    return len(parts) - 1 if layer.kind == "Concat" else 1
