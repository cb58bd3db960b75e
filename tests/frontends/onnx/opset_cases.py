"""Single-operator models of many opsets: what loading must bring to the pinned opset unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.graph.models import finish, tensor

Shape = tuple[int, ...]
_X: dict[str, Shape] = {"x": (2, 3, 4, 5)}


@dataclass(frozen=True)
class Case:
    """One operator at one opset: inputs by name and shape, constants, attributes."""

    op: str
    opset: int
    inputs: dict[str, Shape] = field(default_factory=lambda: dict(_X))
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    order: tuple[str, ...] = ()
    note: str = ""
    dtype: int = TensorProto.FLOAT

    @property
    def id(self) -> str:
        return f"{self.op}-{self.opset}" + (f"-{self.note}" if self.note else "")

    def model(self) -> onnx.ModelProto:
        order = self.order or (*self.inputs, *self.constants)
        names = [f"y{index}" for index in range(self.outputs)]
        node = helper.make_node(self.op, list(order), names, name="node", **self.attributes)
        inputs = [tensor(name, *shape) for name, shape in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(names[0], self.dtype, None)]
        return finish([node], inputs, outputs, self.constants, opset=self.opset, ir_version=8)


def _f(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def _i(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _scalar(value: float) -> np.ndarray:
    return np.array(value, dtype=np.float32)


_RNG = np.random.default_rng(5)
_NORM = {
    "scale": _RNG.random(3).astype(np.float32),
    "bias": _RNG.random(3).astype(np.float32),
    "mean": _RNG.random(3).astype(np.float32),
    "var": _RNG.random(3).astype(np.float32) + 0.5,
}
_W = _RNG.normal(size=(6, 3, 3, 3)).astype(np.float32)
_PAIR: dict[str, Shape] = {"x": (2, 3, 4, 5), "z": (2, 3, 4, 5)}
_RNN = {
    "w": _RNG.normal(size=(1, 16, 5)).astype(np.float32),
    "r": _RNG.normal(size=(1, 16, 4)).astype(np.float32),
}


def _elementwise() -> list[Case]:
    names = ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Floor", "Ceil")
    return [Case(op, opset) for op in names for opset in (7, 12)] + [
        Case("Add", 7, _PAIR),
        Case("Mul", 13, _PAIR),
        Case("Sum", 8, _PAIR),
        Case("Max", 8, _PAIR),
        Case("Min", 12, _PAIR),
        Case("Mean", 8, _PAIR),
        Case("Pow", 7, constants={"e": _f(2.0)}),
        Case("PRelu", 7, constants={"s": _RNG.random((3, 1, 1)).astype(np.float32)}),
        Case("LeakyRelu", 6, attributes={"alpha": 0.2}),
        Case("Elu", 6, attributes={"alpha": 0.7}),
        Case("Selu", 6),
        Case("HardSigmoid", 6, attributes={"alpha": 0.3}),
        Case("Clip", 6, attributes={"min": -0.5, "max": 0.5}),
        Case("Clip", 6, attributes={"max": 0.5}, note="max-only"),
        Case("Clip", 11, constants={"lo": _scalar(-0.5), "hi": _scalar(0.5)}),
        Case("Cast", 9, attributes={"to": TensorProto.INT32}, dtype=TensorProto.INT32),
        Case("HardSwish", 14),
        Case("Gelu", 20, attributes={"approximate": "tanh"}),
        Case("Mish", 18),
    ]


def _norms() -> list[Case]:
    groups = {"scale": _f(0.5, 2.0), "bias": _f(1.0, -1.0)}
    return [
        *(Case("BatchNormalization", opset, constants=_NORM) for opset in (7, 8, 9, 14, 15)),
        Case("BatchNormalization", 7, constants=_NORM, attributes={"spatial": 1}, note="spatial"),
        Case("InstanceNormalization", 6, constants={k: _NORM[k] for k in ("scale", "bias")}),
        Case("LRN", 1, attributes={"size": 3}),
        Case("LpNormalization", 1, attributes={"axis": 1}),
        Case("LayerNormalization", 17, constants={"scale": _RNG.random(5).astype(np.float32)}),
        Case("GroupNormalization", 18, {"x": (2, 4, 4, 5)}, groups, {"num_groups": 2}),
        *(Case("Dropout", opset) for opset in (7, 10, 12, 13)),
        Case("Dropout", 10, outputs=2, note="mask"),
        *(
            Case(op, opset, attributes={"axis": axis} if axis is not None else {}, note=f"{axis}")
            for op in ("Softmax", "LogSoftmax", "Hardmax")
            for opset in (7, 11, 13)
            for axis in (None, 1, 2, 3)
        ),
        Case("Softmax", 11, attributes={"axis": -1}, note="negative"),
        Case("Softmax", 11, attributes={"axis": -3}, note="negative-3"),
    ]


def _windows() -> list[Case]:
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    ceil = {**pool, "ceil_mode": 1}
    big: dict[str, Shape] = {"x": (1, 3, 9, 7)}
    padded = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return [
        *(Case("Conv", o, {"x": (1, 3, 8, 8)}, {"w": _W}, {"pads": [1] * 4}) for o in (7, 11)),
        Case("Conv", 9, {"x": (1, 3, 8, 8)}, {"w": _W}, {"auto_pad": "SAME_UPPER"}, note="same"),
        Case("ConvTranspose", 9, {"x": (1, 6, 5, 5)}, {"w": _W}, {"strides": [2, 2]}),
        Case("MaxPool", 7, big, attributes=pool),
        Case("MaxPool", 8, big, attributes=padded, note="padded"),
        Case("MaxPool", 10, big, attributes=ceil, note="ceil"),
        Case("AveragePool", 7, big, attributes=padded),
        Case("AveragePool", 10, big, attributes=ceil, note="ceil"),
        Case("AveragePool", 11, big, attributes={**padded, "count_include_pad": 1}, note="pads"),
        Case("AveragePool", 19, big, attributes=ceil, note="ceil"),
        Case("GlobalAveragePool", 1, big),
        Case("GlobalMaxPool", 1, big),
        Case("LpPool", 11, big, attributes=pool),
    ]


def _resizes() -> list[Case]:
    def scales(*factors: float) -> dict[str, np.ndarray]:
        return {"scales": _f(1, 1, *factors)}

    empty = {"roi": _f(), **scales(1.7, 2.3)}
    sizes = {"roi": _f(), "scales": _f(), "sizes": _i(2, 3, 7, 9)}
    linear = {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}
    cases = [
        Case("Upsample", 7, attributes={"scales": [1.0, 1.0, 2.0, 2.0]}),
        Case("Upsample", 7, attributes=linear, note="linear"),
        Case("Upsample", 9, constants=scales(2, 2)),
        Case("Upsample", 9, constants=scales(2, 3), attributes={"mode": "linear"}, note="linear"),
    ]
    for factors in ((2, 2), (1.5, 2.6), (0.5, 0.6)):
        for mode in ("nearest", "linear"):
            note = f"{mode}-{factors[0]}"
            cases.append(Case("Resize", 10, _X, scales(*factors), {"mode": mode}, note=note))
    for opset in (11, 13, 18, 19):
        for mode in ("nearest", "linear", "cubic"):
            for how in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
                attributes = {"mode": mode, "coordinate_transformation_mode": how}
                constants = empty if how != "align_corners" else sizes
                note = f"{mode}-{how}"
                cases.append(Case("Resize", opset, _X, constants, attributes, note=note))
    return cases


def _shapes() -> list[Case]:
    return [
        Case("Concat", 4, _PAIR, attributes={"axis": 1}),
        Case("Flatten", 1, attributes={"axis": 2}),
        Case("Flatten", 9, attributes={"axis": 1}),
        Case("Reshape", 5, constants={"shape": _i(0, -1)}),
        Case("Transpose", 1, attributes={"perm": [0, 2, 3, 1]}),
        Case("Pad", 2, attributes={"pads": [0, 0, 1, 1, 0, 0, 2, 2], "value": 0.5}),
        Case("Pad", 2, attributes={"pads": [0, 0, 1, 1, 0, 0, 2, 2], "mode": "reflect"}, note="r"),
        Case("Pad", 11, constants={"pads": _i(0, 0, 1, 1, 0, 0, 2, 2)}),
        Case("Slice", 1, attributes={"axes": [2, 3], "starts": [1, 0], "ends": [3, -1]}),
        Case("Slice", 9, attributes={"starts": [0, 1], "ends": [1, 9]}, note="no-axes"),
        Case("Slice", 10, constants={"s": _i(1), "e": _i(4), "a": _i(2), "t": _i(2)}),
        Case("Split", 2, {"x": (2, 4, 4, 5)}, attributes={"axis": 1}, outputs=2),
        Case("Split", 11, attributes={"axis": 3, "split": [2, 3]}, outputs=2),
        Case("Split", 13, {"x": (2, 4, 4, 5)}, attributes={"axis": 1}, outputs=2),
        Case("Squeeze", 1, {"x": (1, 3, 1, 5)}, attributes={"axes": [0, 2]}),
        Case("Squeeze", 11, {"x": (1, 3, 1, 5)}, note="all"),
        Case("Unsqueeze", 1, attributes={"axes": [0, 3]}),
        Case("Unsqueeze", 11, attributes={"axes": [-1]}),
        Case("Gather", 1, constants={"i": _i(2, 0)}, attributes={"axis": 1}),
        Case("Tile", 6, constants={"r": _i(1, 2, 1, 2)}),
        Case("Expand", 8, {"x": (2, 1, 4, 1)}, {"shape": _i(2, 3, 4, 5)}),
        Case("DepthToSpace", 1, {"x": (1, 8, 3, 3)}, attributes={"blocksize": 2}),
        Case("SpaceToDepth", 1, {"x": (1, 2, 4, 6)}, attributes={"blocksize": 2}),
        Case("Shape", 1, dtype=TensorProto.INT64),
        Case("Identity", 1),
    ]


def _reductions() -> list[Case]:
    names = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp")
    cases = [
        Case(op, opset, attributes={"axes": axes, "keepdims": keep}, note=f"{axes}")
        for op in names
        for opset in (7, 11)
        for axes, keep in (([2, 3], 1), ([1], 0))
    ]
    grid: dict[str, Shape] = {"x": (1, 2, 4, 4), "g": (1, 3, 3, 2)}
    turned = _W.reshape(6, -1)[:, :5].copy()
    return [
        *cases,
        *(Case(op, 11, note="all") for op in names),
        Case("ReduceMean", 13, attributes={"axes": [-1]}),
        Case("ReduceSum", 13, constants={"axes": _i(1)}),
        Case("ArgMax", 7, attributes={"axis": 1}, dtype=TensorProto.INT64),
        Case("ArgMin", 11, attributes={"axis": 2, "keepdims": 0}, dtype=TensorProto.INT64),
        Case("TopK", 1, attributes={"k": 2, "axis": -1}, outputs=2),
        Case("TopK", 10, constants={"k": _i(2)}, outputs=2),
        Case("CumSum", 11, constants={"a": _i(1)}),
        Case("Gemm", 7, {"x": (3, 5)}, {"w": _W.reshape(-1, 6)[:5], "c": _f(1, 2, 3, 4, 5, 6)}),
        Case("Gemm", 9, {"x": (3, 5)}, {"w": turned, "c": _f(1)}, {"transB": 1}, note="transB"),
        Case("MatMul", 1, {"x": (2, 3, 4, 5), "z": (2, 3, 5, 4)}),
        Case("Einsum", 12, {"x": (3, 4), "z": (4, 5)}, attributes={"equation": "ij,jk->ik"}),
        Case("LSTM", 7, {"x": (6, 2, 5)}, _RNN, {"hidden_size": 4}),
        Case("GridSample", 16, grid),
        Case("GridSample", 16, grid, attributes={"mode": "bicubic"}, note="bicubic"),
        Case("Scatter", 9, {"x": (3, 3)}, {"i": _i(1, 0, 2)[None], "u": _f(1, 2, 3)[None]}),
    ]


def _newer() -> list[Case]:
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return [
        Case("Conv", 22, {"x": (1, 3, 8, 8)}, {"w": _W}, {"pads": [1] * 4}),
        Case("Relu", 26),
        Case("MaxPool", 22, attributes=pool),
        Case("AveragePool", 24, attributes=pool),
        Case("Reshape", 25, constants={"shape": _i(0, -1)}),
        Case("Elu", 22),
        Case("HardSigmoid", 22),
        Case("Softplus", 22),
        Case("Transpose", 23, attributes={"perm": [0, 2, 3, 1]}),
        Case("GlobalAveragePool", 22),
        Case("InstanceNormalization", 22, constants={k: _NORM[k] for k in ("scale", "bias")}),
        Case("Dropout", 22),
        Case("Pad", 24, constants={"pads": _i(0, 0, 1, 1, 0, 0, 2, 2)}),
        Case("Squeeze", 23, {"x": (1, 3, 4)}, {"a": _i(0)}),
        Case("Flatten", 25),
        Case("Shape", 24, dtype=TensorProto.INT64),
        Case("Cast", 24, attributes={"to": TensorProto.INT32}, dtype=TensorProto.INT32),
        Case("LSTM", 22, {"x": (6, 2, 5)}, _RNN, {"hidden_size": 4}),
    ]


_GROUPS: tuple[Callable[[], list[Case]], ...] = (
    _elementwise, _norms, _windows, _resizes, _shapes, _reductions, _newer,
)  # fmt: skip
CASES: list[Case] = [case for group in _GROUPS for case in group()]
