"""Small models made by code, for the tests of graphs and of their execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.graph.execute.runtime import ort
from engine.graph.ir import Graph, infer_shapes

INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8


def finish(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: Mapping[str, Any] = {},
    *,
    opset: int = 21,
    ir_version: int = 10,
    name: str = "net",
) -> onnx.ModelProto:
    """A model of the pinned versions; numbers that are no array yet are float32 or int64."""
    tensors = [numpy_helper.from_array(_stored(given), key) for key, given in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def _stored(given: Any) -> np.ndarray:
    array = np.asarray(given)
    python = not isinstance(given, np.ndarray | np.generic)
    return array.astype(np.float32) if python and array.dtype == np.float64 else array


def tensor(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A typed and shaped value."""
    return helper.make_tensor_value_info(name, dtype, list(shape))


def as_it_stands(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], *names: str
) -> list[np.ndarray]:
    """The outputs, or these tensors, by ONNX Runtime without any rewrite of its own."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    own = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(array) for array in session.run(list(names) or None, dict(feeds))]


def nodes_of(text: str) -> list[onnx.NodeProto]:
    """Nodes in ONNX's own notation, a semicolon between two.

    One without a name, ``[name] out = Operator (input)``, has ``Operator_out``.
    """
    nodes = [onnx.parser.parse_node(part) for part in text.split(";")]
    for node in nodes:
        node.name = node.name or f"{node.op_type}_{node.output[0]}"
    return nodes


def model(
    nodes: str | Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] = {},
    *,
    opset: int = 21,
) -> Graph:
    """A graph with inferred shapes from nodes, or their text; inputs and outputs are float32."""
    listed = nodes_of(nodes) if isinstance(nodes, str) else list(nodes)
    starts = [tensor(name, *shape) for name, shape in inputs.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    proto = finish(listed, starts, ends, constants, opset=opset)
    return infer_shapes(Graph.from_proto(proto))


def float_net(seed: int = 0, *, opset: int = 21, batch: int | str = 1) -> onnx.ModelProto:
    """Of x (1, 3, 8, 8) -> Conv, Relu -> h -> Conv -> a; Add(h', a) -> Gemm -> y (1, 5)."""
    rng = np.random.default_rng(seed)
    constants = {
        "w1": rng.normal(size=(6, 3, 3, 3)).astype(np.float32),
        "b1": rng.normal(size=6).astype(np.float32),
        "w2": rng.normal(size=(6, 6, 1, 1)).astype(np.float32),
        "w3": rng.normal(size=(6, 5)).astype(np.float32),
    }
    nodes = nodes_of(
        '["/body/conv1"] c1 = Conv <pads=[1, 1, 1, 1]> (x, w1, b1); '
        '["/body/relu1"] h = Relu (c1); ["/body/conv2"] a = Conv (h, w2); '
        '["/body/add"] s = Add (h, a); ["/head/pool"] p = GlobalAveragePool (s); '
        '["/head/flatten"] f = Flatten (p); ["/head/gemm"] y = Gemm (f, w3)'
    )
    inputs, outputs = [tensor("x", batch, 3, 8, 8)], [tensor("y", batch, 5)]
    return finish(nodes, inputs, outputs, constants, opset=opset)


class QdqBuilder:
    """Builds a QDQ graph whose activations are int8 or uint8, weights int8, biases int32."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.scales: dict[str, float] = {}

    def quantize(self, name: str, scale: float, zero_point: int, *, output: str = "") -> str:
        """Q and DQ of a tensor; ``zero_point`` is that of int8. Gives the dequantized name."""
        offset = 128 if self.dtype == np.uint8 else 0
        self.constants[f"{name}_s"] = np.array(scale, np.float32)
        self.constants[f"{name}_z"] = np.array(zero_point + offset, self.dtype)
        params = [f"{name}_s", f"{name}_z"]
        done = output or f"{name}_dq"
        self.nodes += [
            helper.make_node("QuantizeLinear", [name, *params], [f"{name}_q"], name=f"{name}_Q"),
            helper.make_node("DequantizeLinear", [f"{name}_q", *params], [done], name=f"{name}_DQ"),
        ]
        self.scales[done] = scale
        return done

    def conv(self, x: str, y: str, channels: tuple[int, int], *, relu: bool = False) -> str:
        """A 3x3 convolution of a dequantized tensor, per channel weights, optional Relu."""
        before, after = channels
        scale = (self.rng.random(after) * 0.01 + 0.01).astype(np.float32)
        size = (after, before, 3, 3)
        self.constants[f"{y}_w"] = self.rng.integers(-127, 128, size).astype(np.int8)
        self.constants[f"{y}_ws"] = scale
        self.constants[f"{y}_wz"] = np.zeros(after, np.int8)
        self.constants[f"{y}_b"] = self.rng.integers(-1000, 1000, after).astype(np.int32)
        self.constants[f"{y}_bs"] = scale * np.float32(self.scales[x])
        self.constants[f"{y}_bz"] = np.zeros(after, np.int32)
        out = f"{y}_pre" if relu else y
        self.nodes += [
            helper.make_node(
                "DequantizeLinear", [f"{y}_w", f"{y}_ws", f"{y}_wz"], [f"{y}_wd"], axis=0
            ),
            helper.make_node(
                "DequantizeLinear", [f"{y}_b", f"{y}_bs", f"{y}_bz"], [f"{y}_bd"], axis=0
            ),
            helper.make_node(
                "Conv", [x, f"{y}_wd", f"{y}_bd"], [out], pads=[1] * 4, name=f"{y}_conv"
            ),
        ]
        if relu:
            self.nodes.append(helper.make_node("Relu", [out], [y], name=f"{y}_relu"))
        return y


def qdq_net(dtype: str = "int8", seed: int = 0) -> onnx.ModelProto:
    """Of x (1, 4, 12, 12) -> Conv+Relu c1 -> Conv c2; Add s; Add constant k; Conv c3 -> y."""
    b = QdqBuilder(dtype, seed)
    x = b.quantize("x", 0.02, 3)
    h = b.quantize(b.conv(x, "c1", (4, 8), relu=True), 0.05, -128)
    c = b.quantize(b.conv(h, "c2", (8, 8)), 0.1, 5)
    b.nodes.append(helper.make_node("Add", [h, c], ["s"], name="add"))
    s = b.quantize("s", 0.15, -7)
    offset = 128 if dtype == "uint8" else 0
    b.constants["k_q"] = (b.rng.integers(-128, 128, (1, 8, 1, 1)) + offset).astype(dtype)
    b.constants["k_s"] = np.array(0.01, np.float32)
    b.constants["k_z"] = np.array(2 + offset, dtype)
    b.nodes.append(helper.make_node("DequantizeLinear", ["k_q", "k_s", "k_z"], ["k"], name="k_DQ"))
    b.nodes.append(helper.make_node("Add", [s, "k"], ["t"], name="add_constant"))
    t = b.quantize("t", 0.15, 0)
    b.conv(t, "c3", (8, 4))
    b.quantize("c3", 0.2, 11, output="y")
    return finish(b.nodes, [tensor("x", 1, 4, 12, 12)], [tensor("y", 1, 4, 12, 12)], b.constants)
