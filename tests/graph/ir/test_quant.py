"""Quantization parameters and the table of them."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import QuantizationError
from engine.graph.ir import QUANT_DTYPES, QuantParams, QuantTable
from tests.graph.models import as_it_stands, finish, nodes_of, tensor


@st.composite
def params(draw: st.DrawFn) -> QuantParams:
    """Any valid parameters."""
    dtype = draw(st.sampled_from(sorted(QUANT_DTYPES)))
    low, high = QUANT_DTYPES[dtype]
    count = draw(st.integers(1, 5))
    axis = draw(st.integers(0, 3)) if count > 1 else draw(st.none() | st.integers(0, 3))
    scale = st.floats(1e-30, 1e30, allow_nan=False)
    number = st.floats(-1e30, 1e30)
    row = st.lists(number, min_size=count, max_size=count).map(tuple)
    return QuantParams(
        dtype,
        tuple(draw(st.lists(scale, min_size=count, max_size=count))),
        tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count))),
        axis,
        draw(st.none() | row),
        draw(st.none() | row),
        draw(st.none() | number),
        draw(st.none() | number),
    )


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=8), params(), max_size=6))
def test_a_table_survives_json(entries: dict[str, QuantParams]) -> None:
    table = QuantTable(entries)
    again = QuantTable.from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert list(again) == list(table)
    assert hash(again) == hash(table)
    assert copy.deepcopy(table) == table


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "float32"},
        {"scale": ()},
        {"scale": (0.1, 0.2)},
        {"scale": (0.1, 0.2), "zero_point": (0, 0)},
        {"scale": (0.0,)},
        {"scale": (-1.0,)},
        {"scale": (float("nan"),)},
        {"scale": (float("inf"),)},
        {"zero_point": (128,)},
        {"zero_point": (-129,)},
        {"minimum": (0.0, 1.0)},
    ],
)
def test_inconsistent_parameters_are_refused(fields: dict[str, Any]) -> None:
    good = {"dtype": "int8", "scale": (0.1,), "zero_point": (0,)}
    QuantParams(**good)  # type: ignore[arg-type]
    with pytest.raises(QuantizationError):
        QuantParams(**{**good, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"t": None},
        {"t": {}},
        {"t": {"dtype": "int8", "scale": 1, "zero_point": [0]}},
        {"t": {"dtype": "int8", "scale": ["x"], "zero_point": [0]}},
        {"t": {"dtype": "int8", "scale": [1.0], "zero_point": [float("inf")]}},
        {"t": {"dtype": "int8", "scale": [10**400], "zero_point": [0]}},
        {"t": {"dtype": "int8", "scale": [1], "zero_point": [0], "observed_maximum": 10**400}},
        {"t": {"dtype": "int8", "scale": [1.0], "zero_point": [0], "unknown": 1}},
    ],
)
def test_malformed_tables_are_refused(data: Any) -> None:
    with pytest.raises(QuantizationError):
        QuantTable.from_json(data)


def test_a_table_is_frozen_and_helps_with_names() -> None:
    one = QuantParams("int8", (0.5,), (3,))
    source = {"conv1": one}
    table = QuantTable(source)
    source.clear()
    assert table["conv1"] is one
    assert table.params("conv1") is one
    with pytest.raises(TypeError):
        table["x"] = one  # type: ignore[index]
    with pytest.raises(QuantizationError, match="conv2") as caught:
        table.params("conv2")
    assert "conv1" in caught.value.remedy


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_numbers_are_those_of_the_runtime(dtype: str) -> None:
    from onnx import helper

    low, high = QUANT_DTYPES[dtype]
    rng = np.random.default_rng(2)
    scale = rng.random(3).astype(np.float32) * 0.1 + 1e-3
    zero = rng.integers(low, high + 1, 3)
    given_params = QuantParams(
        dtype, tuple(float(s) for s in scale), tuple(int(z) for z in zero), axis=1
    )
    x = (rng.normal(size=(4, 3, 50)) * 5).astype(np.float32)
    x[0] = np.round(x[0] / scale[:, None] * 2) / 2 * scale[:, None]
    nodes = nodes_of(
        "q = QuantizeLinear <axis=1> (x, s, z); y = DequantizeLinear <axis=1> (q, s, z)"
    )
    constants = {"s": scale, "z": zero.astype(dtype)}
    outputs = [tensor("q", dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))), tensor("y")]
    for value in outputs:
        value.type.tensor_type.ClearField("shape")
    model = finish(nodes, [tensor("x", 4, 3, 50)], outputs, constants)
    q, y = as_it_stands(model, {"x": x})
    np.testing.assert_array_equal(given_params.quantize(x), q)
    np.testing.assert_array_equal(given_params.dequantize(q), y)
