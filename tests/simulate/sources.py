"""Models with quantization of their own, as tools for quantization-aware training write them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["QatNet", "qat_cnn"]

_RANGES = {
    "int4": (-8, 7),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}


class QatNet:
    """Builds a QDQ model: every activation fake-quantized, weights stored or fake-quantized."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._count = 0

    def constant(self, array: np.ndarray, name: str, dtype: str = "") -> str:
        """An initializer; ``dtype`` for types that numpy does not have."""
        if dtype == "int4":
            kind = TensorProto.INT4
            self.constants.append(helper.make_tensor(name, kind, array.shape, array.flatten()))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def activation(self, x: str, scale: float, zero: int, dtype: str) -> str:
        """Q and DQ behind ``x``."""
        self._count += 1
        name = f"a{self._count}"
        scale_name = self.constant(np.float32(scale).reshape(()), f"{name}_scale")
        zero_name = self.constant(np.array(zero, dtype), f"{name}_zero")
        stored = self.node("QuantizeLinear", f"{name}_Q", f"{name}_q", x, scale_name, zero_name)
        return self.node("DequantizeLinear", f"{name}_DQ", name, stored, scale_name, zero_name)

    def weight(
        self,
        shape: tuple[int, ...],
        dtype: str,
        *,
        per_channel: bool = True,
        symmetric: bool = True,
        in_graph: bool = False,
    ) -> str:
        """A weight behind DequantizeLinear; ``in_graph`` keeps it float, with a Q before the DQ."""
        self._count += 1
        name, channels = f"w{self._count}", shape[0] if per_channel else 1
        low, high = _RANGES[dtype]
        scale = self.rng.uniform(0.5, 2.0, channels).astype(np.float32) / (high - low)
        middle = 0 if low < 0 else (high + 1) // 2
        zero = np.full(channels, middle)
        if not symmetric:
            zero = zero + self.rng.integers(low // 4, high // 4 + 1, channels)
        held = "int8" if dtype == "int4" else dtype
        integers = self.rng.integers(low + (low < 0), high + 1, shape)
        if not per_channel:
            scale, zero = scale.reshape(()), zero.reshape(())
        names = [
            self.constant(scale, f"{name}_scale"),
            self.constant(zero.astype(held), f"{name}_zero", dtype),
        ]
        attributes = {"axis": 0} if per_channel else {}
        stored = f"{name}_q"
        if in_graph:
            tall = (-1,) + (1,) * (len(shape) - 1) if per_channel else ()
            real = (integers - zero.reshape(tall)) * scale.reshape(tall)
            self.constant(real.astype(np.float32), name)
            self.node("QuantizeLinear", f"{name}_Q", stored, name, *names, **attributes)
        else:
            self.constant(integers.astype(held), stored, dtype)
        last = f"{name}_dq"
        return self.node("DequantizeLinear", f"{name}_DQ", last, stored, *names, **attributes)

    def node(self, kind: str, name: str, output: str, *inputs: str, **attributes: object) -> str:
        """A node; returns its output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name, **attributes))
        return output

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Any other node."""
        self._count += 1
        name = f"{kind}{self._count}"
        return self.node(kind, name, name, *inputs, **attributes)

    def model(self, output: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """The model from ``x`` (1, 4, 8, 8) to ``output``."""
        graph = helper.make_graph(
            self.nodes,
            "qat",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.checker.check_model(made, full_check=True)
        return made


def qat_cnn(
    weight: str = "int8",
    activation: str = "int8",
    *,
    per_channel: bool = True,
    symmetric: bool = True,
    in_graph: bool = False,
) -> onnx.ModelProto:
    """Convolution with ReLU, depthwise convolution, addition, pooling, fully connected."""
    net = QatNet()
    step, zero = {
        "int8": (0.05, 3),
        "uint8": (0.05, 131),
        "int16": (2e-4, 100),
        "uint16": (2e-4, 33000),
    }[activation]
    bottom = _RANGES[activation][0]
    forms = {"per_channel": per_channel, "symmetric": symmetric, "in_graph": in_graph}
    x = net.activation("x", step, zero, activation)
    first = net.op("Conv", x, net.weight((8, 4, 3, 3), weight, **forms), pads=[1] * 4)
    first = net.activation(net.op("Relu", first), step, bottom, activation)
    depth = net.op("Conv", first, net.weight((8, 1, 3, 3), weight, **forms), group=8, pads=[1] * 4)
    depth = net.activation(depth, 2 * step, zero, activation)
    both = net.activation(net.op("Add", first, depth), 2 * step, zero, activation)
    mean = net.activation(net.op("GlobalAveragePool", both), step, zero, activation)
    flat = net.op("Flatten", mean)
    logits = net.op("Gemm", flat, net.weight((5, 8), weight, **forms), transB=1)
    return net.model(net.activation(logits, step, zero, activation), (1, 5))
