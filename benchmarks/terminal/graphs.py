"""Models of any number of nodes: residual blocks of MatMul-Add-Relu-MatMul-Add in named groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8
BLOCK = 5
"""Nodes of one block."""


def residual_model(nodes: int, path: Path) -> Path:
    """Write a model of ``nodes`` nodes (a multiple of 5), twenty blocks to a group."""
    weight = np.linspace(-1, 1, WIDTH * WIDTH, dtype=np.float32).reshape(WIDTH, WIDTH)
    weights = [
        numpy_helper.from_array(weight, "weight"),
        numpy_helper.from_array(np.zeros(WIDTH, np.float32), "bias"),
    ]
    all_nodes, last = [], "input"
    for block in range(nodes // BLOCK):
        name = f"/stage{block // 20}/block{block % 20}"
        first, second = f"{name}/first", f"{name}/second"
        all_nodes += [
            helper.make_node("MatMul", [last, "weight"], [f"{first}_m"], f"{first}/MatMul"),
            helper.make_node("Add", [f"{first}_m", "bias"], [f"{first}_a"], f"{first}/Add"),
            helper.make_node("Relu", [f"{first}_a"], [f"{name}/relu_r"], f"{name}/Relu"),
            helper.make_node(
                "MatMul", [f"{name}/relu_r", "weight"], [f"{second}_m"], f"{second}/MatMul"
            ),
            helper.make_node("Add", [f"{second}_m", last], [f"{name}/out"], f"{name}/Add"),
        ]
        last = f"{name}/out"
    graph = helper.make_graph(
        all_nodes,
        "residual",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, WIDTH])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path
