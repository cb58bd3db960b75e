"""Models with custom operators, and the classes for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.api.custom_op import get_node_attr
from engine.graph.ir import CustomOperators, Graph, from_class


class cstSoftmax:  # noqa: N801 - the manual's own example, [RKNN-T2 2.3.0, 2.16]
    op_type = "cstSoftmax"

    def shape_infer(self, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        out_shapes = in_shapes.copy()
        out_dtypes = in_dtypes.copy()
        return out_shapes, out_dtypes

    def compute(self, node: Any, inputs: Any) -> Any:
        x = inputs[0]
        axis = get_node_attr(node, "axis")
        x_max = np.max(x, axis=axis, keepdims=True)
        tmp = np.exp(x - x_max)
        s = np.sum(tmp, axis=axis, keepdims=True)
        outputs = [tmp / s]
        return outputs  # noqa: RET504 - as the manual has it


class DualResidual:
    """What ``dual_residual.onnx`` of the vendor's examples calls cstDualResidual."""

    op_type = "cstDualResidual"

    def shape_infer(self, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return in_shapes, in_dtypes

    def compute(self, node: Any, inputs: Any) -> Any:
        x, y = inputs
        alpha = get_node_attr(node, "alpha")
        return [alpha * x - y, alpha * y - x]


OPERATORS = CustomOperators([from_class(cstSoftmax), from_class(DualResidual)])


def value(name: str, shape: list[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    shape: tuple[int, ...] = (1, 3, 8, 8),
    domains: tuple[str, ...] = ("cst",),
) -> onnx.ModelProto:
    """A model of opset 21 with the input ``x``."""
    return helper.make_model(
        helper.make_graph(
            nodes,
            "net",
            [value("x", list(shape))],
            [value(name, None) for name in outputs],
            [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in domains)],
        ir_version=10,
    )


def branching(custom: bool = True, domain: str = "cst") -> onnx.ModelProto:
    """Convolutions before, between, beside and behind two custom nodes, with a residual sum.

    With ``custom`` false, ONNX's own Softmax stands where the custom operators are.
    """
    rng = np.random.default_rng(7)
    weights = {
        name: rng.normal(0, 0.4, (channels, before, 3, 3)).astype(np.float32)
        for name, channels, before in (("w1", 8, 3), ("w2", 8, 8), ("w3", 8, 8), ("w4", 4, 8))
    }
    weights |= {f"b{i}": rng.normal(0, 0.1, n).astype(np.float32) for i, n in ((1, 8), (4, 4))}

    def conv(inputs: list[str], output: str) -> onnx.NodeProto:
        return helper.make_node("Conv", inputs, [output], name=output, pads=[1] * 4)

    def softmax(source: str, output: str) -> onnx.NodeProto:
        where = {"domain": domain} if custom else {}
        op = "cstSoftmax" if custom else "Softmax"
        return helper.make_node(op, [source], [output], name=output, axis=1, **where)

    nodes = [
        conv(["x", "w1", "b1"], "c1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        softmax("r1", "s1"),
        conv(["s1", "w2"], "c2"),
        conv(["r1", "w3"], "c3"),
        helper.make_node("Add", ["c2", "c3"], ["sum"], name="sum"),
        softmax("sum", "s2"),
        conv(["s2", "w4", "b4"], "y"),
    ]
    return model(nodes, ["y"], weights, domains=(domain,) if custom and domain else ())


def graph(proto: onnx.ModelProto, operators: CustomOperators = OPERATORS) -> Graph:
    """The graph of a model, inferred, its operators attached."""
    from engine.graph.ir import assign_custom_domain, infer_shapes

    assign_custom_domain(proto, operators)
    return infer_shapes(Graph.from_proto(proto, operators=operators))
