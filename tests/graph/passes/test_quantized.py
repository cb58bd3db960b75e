"""Graphs with quantization of their own keep every number to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from engine.graph.execute.runtime import ort
from engine.graph.ir import Graph, infer_shapes
from engine.graph.passes import PASSES, Pipeline, optimise, run_pipeline
from engine.graph.passes.cleanup import DeadCode
from tests.graph.models import model
from tests.graph.passes.generate import random_graph
from tests.graph.passes.support import LEVELS, operators, random_feeds, run

WEIGHTED = {"Conv": 0, "ConvTranspose": None, "Gemm": None, "MatMul": None}
"""Operator -> axis of the scales of its weight; None for one scale."""


def with_qdq(graph: Graph, seed: int, part: float = 0.8) -> Graph:
    """Q/DQ pairs around most float activations, DQ before most weights.

    Scales and zero points cover what a run on normal inputs shows; int8 or uint8 by chance.
    """
    rng = np.random.default_rng(seed)
    probe = graph.copy()
    have = {spec.name for spec in probe.outputs}
    for node in probe.nodes:
        for value in node.outputs:
            if value.uses() and value.name not in have and str(value.dtype) == "FLOAT":
                probe.model.graph.outputs.append(value)
    feeds = random_feeds(graph, seed)
    ranges = {k: (float(v.min()), float(v.max())) for k, v in run(probe, feeds).items()}
    ranges |= {k: (float(v.min()), float(v.max())) for k, v in feeds.items()}

    ranges = {k: pair for k, pair in ranges.items() if np.isfinite(pair).all()}

    proto = graph.to_proto()
    held = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    nodes, constants, renamed = [], [], {}
    keep = {value.name for value in proto.graph.output}

    def pair(name: str) -> str:
        low, high = min(ranges[name][0], 0.0), max(ranges[name][1], 0.0)
        dtype = np.int8 if rng.random() < 0.5 else np.uint8
        scale = np.float32(max(high - low, 1e-3) / 255)
        zero = np.clip(np.round(np.iinfo(dtype).min - low / scale), *_limits(dtype))
        constants.append(numpy_helper.from_array(np.array(scale), f"{name}_scale"))
        constants.append(numpy_helper.from_array(np.array(zero, dtype), f"{name}_zero"))
        parameters = [f"{name}_scale", f"{name}_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]))
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_dq"])
        )
        return f"{name}_dq"

    for name in feeds:
        renamed[name] = pair(name)
    for node in proto.graph.node:
        if node.op_type in WEIGHTED and node.input[1] in held and rng.random() < part:
            node.input[1] = _weight(node, held[node.input[1]], nodes, constants)
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        nodes.append(node)
        for name in node.output:
            if name in ranges and name not in keep and rng.random() < part:
                renamed[name] = pair(name)
    del proto.graph.node[:]
    del proto.graph.value_info[:]
    proto.graph.node.extend(nodes)
    proto.graph.initializer.extend(constants)
    return infer_shapes(Graph.from_proto(proto))


def _limits(dtype) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _weight(node, weight, nodes, constants) -> str:
    axis = WEIGHTED[node.op_type]
    largest = np.abs(weight).max()
    if axis is not None:
        largest = np.abs(weight).reshape(weight.shape[0], -1).max(1)
    scale = (np.maximum(largest, 1e-6) / 127).astype(np.float32)
    wide = scale.reshape(-1, *(1,) * (weight.ndim - 1)) if axis is not None else scale
    name = f"{node.name}_weight"
    constants.append(numpy_helper.from_array(np.round(weight / wide).astype(np.int8), f"{name}_i8"))
    constants.append(numpy_helper.from_array(np.array(scale), f"{name}_s"))
    zeros = np.zeros(scale.shape, np.int8)
    constants.append(numpy_helper.from_array(zeros, f"{name}_z"))
    attributes = {} if axis is None else {"axis": axis}
    nodes.append(
        helper.make_node(
            "DequantizeLinear", [f"{name}_i8", f"{name}_s", f"{name}_z"], [name], **attributes
        )
    )
    return name


def equal(reference, other) -> bool:
    return list(reference) == list(other) and all(
        np.array_equal(reference[k], other[k], equal_nan=True) for k in reference
    )


def check(seed: int) -> None:
    dead_code = Pipeline("dead code", (DeadCode,))
    graph = run_pipeline(with_qdq(random_graph(seed), seed), dead_code).graph
    feeds = random_feeds(graph, seed)
    reference = run(graph, feeds)
    weights = {n.inputs[0].name for n in graph.nodes if _is_weight(n)}
    for level in LEVELS:
        done = optimise(graph, level).graph
        assert equal(reference, run(done, feeds)), (seed, level)
        assert {n.inputs[0].name for n in done.nodes if _is_weight(n)} == weights


def _is_weight(node) -> bool:
    return node.op_type == "DequantizeLinear" and node.inputs[0].is_initializer()


@pytest.mark.parametrize("seed", range(16))
def test_a_random_graph_with_qdq(seed) -> None:
    check(seed)


@pytest.mark.long
def test_100_random_graphs_with_qdq() -> None:
    for seed in range(2000, 2100):
        check(seed)


def qdq_block(after: str, constants: dict[str, np.ndarray]) -> Graph:
    """Q, DQ, Conv with a DQ weight, then ``after`` from ``a`` to ``b``, Q, DQ."""
    rng = np.random.default_rng(1)
    nodes = (
        "xq = QuantizeLinear (x, s, z); xd = DequantizeLinear (xq, s, z); "
        "w = DequantizeLinear <axis=0> (wq, ws, wz); [conv] a = Conv (xd, w); "
        f"{after}; bq = QuantizeLinear (b, t, u); y = DequantizeLinear (bq, t, u)"
    )
    held = {
        "s": np.array(0.02, np.float32),
        "z": np.array(128, np.uint8),
        "wq": rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8),
        "ws": np.full(4, 0.01, np.float32),
        "wz": np.zeros(4, np.int8),
        "t": np.array(0.05, np.float32),
        "u": np.array(3, np.uint8),
    } | constants
    return model(nodes, {"x": (1, 4, 8, 8)}, ["y"], held)


def test_nothing_is_folded_into_quantized_weights_and_nothing_crosses_a_pair() -> None:
    constants = {k: np.full(4, 0.9, np.float32) for k in ("g", "c", "m", "v")}
    graph = qdq_block("b = BatchNormalization (a, g, c, m, v)", constants)
    done = optimise(graph, 3).graph
    assert operators(done) == operators(graph)
    names = {r.name for r in optimise(graph, 3).log}
    assert names == {c.name for c in PASSES if c.keeps_bits}


def test_clean_up_still_works_and_integer_kernels_stay() -> None:
    graph = qdq_block(
        "[identity] i = Identity (a); [clip] b = Clip (i, low)", {"low": np.array(0, np.float32)}
    )
    done = optimise(graph, 3).graph
    assert operators(done) == [
        "QuantizeLinear",
        "DequantizeLinear",
        "DequantizeLinear",
        "Conv",
        "Relu",
        "QuantizeLinear",
        "DequantizeLinear",
    ]
    feeds = random_feeds(graph)
    assert equal(run(graph, feeds), run(done, feeds))
    integers = []
    for one in (graph, done):
        session = ort.InferenceSession(
            one.to_proto().SerializeToString(), providers=["CPUExecutionProvider"]
        )
        integers.append(dict(zip(["y"], session.run(["y"], feeds), strict=True)))
    assert equal(*integers)
