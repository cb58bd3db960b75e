"""Does this machine's integer kernel keep the promise where it is hardest?"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.findings import Finding
from engine.graph.execute import Session, opposing_signs
from engine.graph.ir import IR_VERSION, OPSET, Graph
from engine.quantize import layers_of
from engine.simulate.layers import quantized_layers
from engine.simulate.reference import reference_layer

_CHANNELS = 256


@lru_cache(maxsize=1)
def check_saturation() -> Finding | None:
    """Compare a saturating convolution with the numpy reference; once a process.

    x86 processors without VNNI add pairs of 8-bit products in 16 bits that saturate. There every
    session sets ``session.x64quantprecision`` (:func:`engine.graph.execute.keep_sums_exact`); this
    looks whether that was enough.

    Returns:
        A finding where a result differs by more than 1 LSB; None where all is well.
    """
    graph, feeds = saturating_convolution()
    layer = quantized_layers(graph, layers_of(graph))[0]
    name, params = layer.outputs[0] or ("", None)
    if params is None:
        return None
    got = params.quantize(Session(graph).run(feeds)[name]).astype(np.int64)
    worst = int(
        np.abs(got - reference_layer(layer, {"input/dequantized": feeds["input"]})[0]).max()
    )
    if worst <= 1:
        return None
    return Finding(
        code="integer-kernel-inexact",
        severity="warning",
        where="simulator",
        what=f"Integer convolutions on this machine are wrong by up to {worst} LSB.",
        cause="The processor adds 8-bit products in 16 bits that saturate.",
        remedy="Take simulated results from a machine with another processor.",
    )


def saturating_convolution() -> tuple[Graph, dict[str, np.ndarray]]:
    """A QDQ convolution whose products are as large as they get, and feeds for its input.

    ``input`` (1, 256, 4, 4) float32 holds the largest activation everywhere; half of the weights
    (8, 256, 1, 1) are 127, the others -127 in runs of 2 to 16, so that pairs overflow 16 bits
    while the whole sum stays small.
    """
    signs = opposing_signs()
    scale = np.array(1.0, dtype=np.float32)
    arrays: dict[str, np.ndarray] = {
        "scale": scale,
        "zero": np.array(-128, dtype=np.int8),
        "weight": signs.reshape(8, _CHANNELS, 1, 1),
        "weight_scale": np.full(8, 1 / 127, dtype=np.float32),
        "weight_zero": np.zeros(8, dtype=np.int8),
        "output_scale": np.array(64.0, dtype=np.float32),
        "output_zero": np.array(0, dtype=np.int8),
    }
    node = onnx.helper.make_node
    nodes = [
        node("QuantizeLinear", ["input", "scale", "zero"], ["input/quantized"]),
        node("DequantizeLinear", ["input/quantized", "scale", "zero"], ["input/dequantized"]),
        node("DequantizeLinear", ["weight", "weight_scale", "weight_zero"], ["w"], axis=0),
        node("Conv", ["input/dequantized", "w"], ["output/float"]),
        node("QuantizeLinear", ["output/float", "output_scale", "output_zero"], ["q"]),
        node("DequantizeLinear", ["q", "output_scale", "output_zero"], ["output"]),
    ]
    info = onnx.helper.make_tensor_value_info
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "saturation",
            [info("input", onnx.TensorProto.FLOAT, [1, _CHANNELS, 4, 4])],
            [info("output", onnx.TensorProto.FLOAT, [1, 8, 4, 4])],
            [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    return Graph(ir.from_proto(proto)), {
        "input": np.full((1, _CHANNELS, 4, 4), 255.0, dtype=np.float32)
    }
