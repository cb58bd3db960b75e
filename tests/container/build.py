"""Contents of containers for tests: a small QDQ network, and arbitrary ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from engine.build import Provenance
from engine.container import ContainerContent
from engine.graph.ir import Graph, QuantParams, QuantTable
from engine.graph.layers import Layer, LayerMap, StoredTensor

FLOAT = onnx.TensorProto.FLOAT
INT8 = onnx.TensorProto.INT8


@contextmanager
def within(most: int) -> Iterator[None]:
    """The block takes at most so many bytes of memory at one time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def qdq_graph(channels: int = 4) -> Graph:
    """Conv with Relu6 as QDQ, a Reshape and a second output in float."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (channels, 3, 3, 3), dtype=np.int8)
    scales = np.linspace(0.001, 0.002, channels, dtype=np.float32)
    constants = {
        "w": weights,
        "w_scale": scales,
        "w_zero": np.zeros(channels, np.int8),
        "b": np.arange(channels, dtype=np.int32),
        "b_scale": scales * np.float32(0.5),
        "b_zero": np.zeros(channels, np.int32),
        "x_scale": np.float32(0.5),
        "x_zero": np.int8(-3),
        "y_scale": np.float32(0.1),
        "y_zero": np.int8(-128),
        "six": np.float32(6),
        "zero": np.float32(0),
        "shape": np.array([1, -1], np.int64),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_q"], "x/q"),
        helper.make_node("DequantizeLinear", ["x_q", "x_scale", "x_zero"], ["x_dq"], "x/dq"),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_dq"], "w/dq", axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["b_dq"], "b/dq", axis=0),
        helper.make_node(
            "Conv", ["x_dq", "w_dq", "b_dq"], ["c"], "conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]
        ),
        helper.make_node("Clip", ["c", "", "six"], ["c6"], "clip"),
        helper.make_node("QuantizeLinear", ["c6", "y_scale", "y_zero"], ["c6_q"], "c6/q"),
        helper.make_node("DequantizeLinear", ["c6_q", "y_scale", "y_zero"], ["c6_dq"], "c6/dq"),
        helper.make_node("Reshape", ["c6_dq", "shape"], ["r"], "reshape"),
        helper.make_node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["r_q"], "r/q"),
        helper.make_node("DequantizeLinear", ["r_q", "y_scale", "y_zero"], ["flat"], "r/dq"),
        helper.make_node("LeakyRelu", ["c6_dq"], ["leaky"], "leaky", alpha=0.1),
    ]
    value = helper.make_tensor_value_info
    shape = [1, channels, 5, 5]
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", FLOAT, [1, 3, 5, 5])],
        [value("flat", FLOAT, [1, channels * 25]), value("leaky", FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
        value_info=[value("c", FLOAT, shape), value("c6", FLOAT, shape)],
    )
    return Graph.from_proto(model(graph))


def table() -> QuantTable:
    return QuantTable(
        {
            "x": QuantParams("int8", (0.5,), (-3,), None, (-62.5,), (65.0,), -60.0, 65.0),
            "w": QuantParams("int8", (0.001, 0.002), (0, 0), 0),
            "a first name in order": QuantParams("uint8", (1e-9,), (255,)),
        }
    )


def layers() -> LayerMap:
    conv = Layer("conv", "Conv", "weighted", ("conv", "clip"), ("c",), ("c6",), ("conv",), "int8")
    stored = {
        "x": StoredTensor("x", "x", "x_q", "x_dq", "int8", table()["x"]),
        "c6": StoredTensor("c6", "c6", "c6_q", "c6_dq", "int8"),
        "flat": StoredTensor("flat", "r", "r_q", "flat", "int8"),
    }
    return LayerMap((conv,), stored)


def content(**changes: Any) -> ContainerContent:
    fields: dict[str, Any] = {
        "name": "net",
        "graph": qdq_graph(),
        "quantized": True,
        "recipe": {"version": 1, "source": {"model": {"file": "net.onnx", "sha256": "0" * 64}}},
        "provenance": Provenance(
            "0.1.0", (("net.onnx", "0" * 64),), ("dataset.txt", "1" * 64), 3, (("numpy", "2.0"),)
        ),
        "table": table(),
        "layers": layers(),
        "summary": {"outputs": [{"name": "flat", "sqnr_db": None}], "nodes": 3},
        "custom_string": "grüß\n\x00dich",
        "target_platform": "rk3588",
    }
    return ContainerContent(**fields | changes)


names = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool", "uint16")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Identity networks with constants of any type and size."""
    initializers = []
    for index in range(draw(st.integers(0, 5))):
        dtype = draw(st.sampled_from(DTYPES))
        shape = draw(st.lists(st.integers(0, 9), max_size=3))
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        name = f"c{index}{draw(names)}".replace("\0", "")
        if draw(st.booleans()):
            initializers.append(numpy_helper.from_array(array, name))
        else:  # typed fields instead of raw bytes
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            initializers.append(helper.make_tensor(name, element, shape, array.ravel()))
    value = helper.make_tensor_value_info
    node = helper.make_node("Identity", ["x"], ["y"], "id", custom=draw(names))
    graph = helper.make_graph(
        [node], "g", [value("x", FLOAT, [1, 2])], [value("y", FLOAT, [1, 2])], initializers
    )
    return Graph.from_proto(model(graph))


@st.composite
def quant_params(draw: st.DrawFn) -> QuantParams:
    count = draw(st.integers(1, 9))
    width = draw(st.sampled_from((32, 64)))
    scales = st.floats(2.0**-60, 2.0**60, width=width)  # type: ignore[arg-type]
    dtype, zeros = draw(st.sampled_from((("int8", 127), ("int32", 2**31 - 1))))

    def several(numbers: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(numbers, min_size=count, max_size=count)))

    return QuantParams(
        dtype,
        several(scales),
        several(st.integers(-zeros, zeros)),
        None if count == 1 else 0,
        several(st.floats(allow_nan=False, allow_infinity=False)) if draw(st.booleans()) else None,
        None,
        draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    )


@st.composite
def contents(draw: st.DrawFn) -> ContainerContent:
    params = quant_params()
    mapping = st.dictionaries(names, json_values, max_size=4)
    return ContainerContent(
        name=draw(names),
        graph=draw(graphs()),
        quantized=draw(st.booleans()),
        recipe=draw(mapping),
        provenance=Provenance(
            draw(names),
            tuple(draw(st.lists(st.tuples(names, names), max_size=3))),
            draw(st.none() | st.tuples(names, names)),
            draw(st.integers(0, 1000)),
            tuple(draw(st.lists(st.tuples(names, names), max_size=3))),
        ),
        table=draw(st.none() | st.dictionaries(names, params, max_size=4).map(QuantTable)),
        summary=draw(st.none() | mapping),
        custom_string=draw(st.none() | names),
        target_platform=draw(st.none() | names),
        float_graph=draw(st.none() | graphs()),
    )
