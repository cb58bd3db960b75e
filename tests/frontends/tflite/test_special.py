"""Weights of other types, control flow, composites, and files that must be refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from tests.frontends.tflite.tflite_models import (
    In,
    Writer,
    const,
    difference,
    ints,
    largest_difference,
    load_bytes,
    number,
    single,
)

_RNG = np.random.default_rng(31)
_CONV = {"padding": 0, "strideH": 1, "strideW": 1}


def _int8(*shape: int, axis: int = 0, channels: bool = True) -> In:
    scale = _RNG.uniform(0.005, 0.01, shape[axis]) if channels else 0.0077
    return const(_RNG.integers(-127, 128, shape), "int8", scale=scale, axis=axis)


_FULL = {"asymmetricQuantizeInputs": True, "version": 9}
_DEPTHWISE = {**_CONV, "depthMultiplier": 1, "version": 6}


@pytest.mark.parametrize(
    ("op", "shape", "weights", "biases", "options"),
    [
        ("FULLY_CONNECTED", (3, 16), _int8(5, 16, channels=False), 5, _FULL),
        ("CONV_2D", (1, 6, 6, 4), _int8(5, 3, 3, 4), 5, {**_CONV, "version": 5}),
        ("DEPTHWISE_CONV_2D", (1, 6, 6, 4), _int8(1, 3, 3, 4, axis=3), 4, _DEPTHWISE),
    ],
)
def test_int8_weights_with_float_inputs_are_dequantized(
    op: str,
    shape: tuple[int, ...],
    weights: In,
    biases: int,
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    case = single(op, In(shape), weights, const(np.zeros(biases)), **options)
    # TFLite quantizes the inputs on the fly, which is what the difference is: a step of the input
    # is 4 / 255, its rounding half of that, over at most 36 products of weights up to 1.27
    assert largest_difference(case, tmp_path) <= 0.06


def test_int4_weights_are_unpacked(tmp_path: Path) -> None:
    weights = _RNG.integers(-7, 8, (5, 16)).astype(np.int8)
    packed = (
        (weights.reshape(-1, 2)[:, 1] & 15) << 4 | (weights.reshape(-1, 2)[:, 0] & 15)
    ).astype(np.uint8)
    given = In((5, 16), "int4", scale=_RNG.uniform(0.05, 0.1, 5), raw=packed.tobytes())
    x = In((3, 16), "int8", scale=0.0518565, zero=3)
    bias = const(
        _RNG.integers(-99, 99, 5), "int32", scale=np.float32(x.scale) * np.float32(given.scale)
    )
    out = [In(dtype="int8", scale=0.103713, zero=-5)]
    case = single("FULLY_CONNECTED", x, given, bias, out=out, version=10)
    assert largest_difference(case, tmp_path) == 0


def _chain(*, half: bool) -> tuple[bytes, dict[str, np.ndarray]]:
    """Weights of 16-bit floats, or sparse ones, in front of a fully connected layer."""
    writer = Writer()
    weights = _RNG.normal(size=(4, 6)).astype(np.float32)
    x, dense = writer.tensor(In((2, 6)), "x"), In((4, 6), name="weights")
    if half:
        dense = writer.op("DEQUANTIZE", [const(weights, "float16")], [dense], 3)
    else:
        from ai_edge_litert import schema_py_generated as schema

        weights[_RNG.random(weights.shape) < 0.6] = 0
        rows = [np.flatnonzero(row) for row in weights]
        values = np.concatenate([row[row != 0] for row in weights])
        stored = writer.tensor(In((4, 6), raw=values.tobytes()), "sparse")
        sparsity = schema.SparsityParametersT()
        sparsity.traversalOrder, sparsity.blockMap = [0, 1], []
        outer, inner = schema.DimensionMetadataT(), schema.DimensionMetadataT()
        outer.format, outer.denseSize = schema.DimensionType.DENSE, 4
        inner.format = schema.DimensionType.SPARSE_CSR
        segments, indices = schema.Int32VectorT(), schema.Int32VectorT()
        segments.values = [0, *np.cumsum([len(row) for row in rows]).tolist()]
        indices.values = np.concatenate(rows).tolist()
        inner.arraySegmentsType = inner.arrayIndicesType = schema.SparseIndexVector.Int32Vector
        inner.arraySegments, inner.arrayIndices = segments, indices
        sparsity.dimMetadata = [outer, inner]
        writer.graph.tensors[stored].sparsity = sparsity
        dense = writer.op("DENSIFY", [stored], [dense])
    writer.ends([x], [writer.op("FULLY_CONNECTED", [x, dense, -1], [In((2, 4), name="y")])])
    return writer.data(), {"x": _RNG.normal(size=(2, 6)).astype(np.float32)}


@pytest.mark.parametrize("half", [True, False], ids=["float16", "sparse"])
def test_weights_stored_in_other_ways(half: bool, tmp_path: Path) -> None:
    data, feeds = _chain(half=half)
    assert difference(load_bytes(data, tmp_path), data, feeds) <= 1e-5


def test_a_bias_with_the_axis_of_its_weights(tmp_path: Path) -> None:
    # older converters wrote the channel axis of the weights, 3, at one-dimensional biases
    writer = Writer()
    x = writer.tensor(In((1, 4, 4, 2), "int8", scale=0.05, zero=1), "x")
    w = _int8(3, 1, 1, 2)
    scale = np.float32(0.05) * np.asarray(w.scale, np.float32)
    bias = const([5, -7, 9], "int32", scale=scale, axis=3)
    y = In((1, 4, 4, 3), "int8", scale=0.0517, zero=0)
    writer.ends([x], [writer.op("CONV_2D", [x, w, bias], [y], 3, **_CONV)])
    odd = writer.data()
    writer.graph.tensors[2].quantization.quantizedDimension = 0
    feeds = {"x": _RNG.integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)}
    assert difference(load_bytes(odd, tmp_path), writer.data(), feeds) == 0


def test_a_dilated_convolution_in_three_layers_is_one(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((1, 7, 9, 2)), "x")
    block, pads, crops = (
        const(values, "int32") for values in ([2, 2], [[2, 3], [2, 3]], [[0, 1], [0, 1]])
    )
    weights, bias = const(_RNG.normal(size=(3, 3, 3, 2))), const([0.5, -1.0, 2.0])
    made = writer.op("SPACE_TO_BATCH_ND", [x, block, pads], [In((4, 6, 7, 2))])
    valid = {**_CONV, "padding": 1}
    made = writer.op("CONV_2D", [made, weights, bias], [In((4, 4, 5, 3))], **valid)
    made = writer.op("BATCH_TO_SPACE_ND", [made, block, crops], [In((1, 7, 9, 3))])
    # asks for the sizes of the convolution
    writer.ends([x], [writer.op("RESHAPE", [made, ints(1, -1)], [In((1, 189), name="y")])])
    feeds = {"x": _RNG.normal(size=(1, 7, 9, 2)).astype(np.float32)}
    loaded = load_bytes(writer.data(), tmp_path)
    conv = next(node for node in loaded.graph.nodes if node.op_type == "Conv")
    assert conv.attributes.get_ints("dilations") == (2, 2)
    assert difference(loaded, writer.data(), feeds) <= 1e-5


# -------------------------------------------------------------------------------- control flow


def _counter(limit: int) -> tuple[bytes, dict[str, np.ndarray]]:
    """``while i < limit: x = x * 2 + i``, with a counter that is a constant."""
    writer = Writer()
    x, y = writer.tensor(In((2, 3)), "x"), writer.tensor(In((2, 3)), "y")
    inputs, outputs = [number(0, "int32"), x], [In((), "int32", name="count"), y]
    writer.op("WHILE", inputs, outputs, condSubgraphIndex=1, bodySubgraphIndex=2)
    writer.ends([x], [y])
    writer.subgraph()
    i, kept = writer.tensor(In((), "int32"), "i"), writer.tensor(In((2, 3)), "kept")
    less = writer.op("LESS", [i, number(limit, "int32")], [In((), "bool")])
    writer.ends([i, kept], [less])
    writer.subgraph()
    i, inner = writer.tensor(In((), "int32"), "i"), writer.tensor(In((2, 3)), "inner")
    following = writer.op("ADD", [i, number(1, "int32")], [In((), "int32")])
    real = writer.op("CAST", [i], [In(())], inDataType=2)
    double = writer.op("MUL", [inner, number(2.0)], [In((2, 3))])
    writer.ends([i, inner], [following, writer.op("ADD", [double, real], [In((2, 3))])])
    return writer.data(), {"x": _RNG.normal(size=(2, 3)).astype(np.float32)}


@pytest.mark.parametrize("rounds", [0, 4])
def test_a_loop_over_a_constant_counter_is_unrolled(rounds: int, tmp_path: Path) -> None:
    data, feeds = _counter(rounds)
    assert difference(load_bytes(data, tmp_path), data, feeds) <= 1e-5


def _branch(*, constant: bool) -> bytes:
    writer = Writer()
    flag = const(np.array(True), "bool") if constant else In((), "bool")
    condition, x = writer.tensor(flag, "flag"), writer.tensor(In((2, 3)), "x")
    result = In((2, 3), name="y")
    y = writer.op("IF", [condition, x], [result], thenSubgraphIndex=1, elseSubgraphIndex=2)
    writer.ends([x] if constant else [condition, x], [y])
    for op in ("EXP", "NEG"):
        writer.subgraph()
        inner = writer.tensor(In((2, 3)), "x")
        writer.ends([inner], [writer.op(op, [inner], [result])])
    return writer.data()


def test_a_constant_branch_is_taken(tmp_path: Path) -> None:
    feeds = {"x": _RNG.normal(size=(2, 3)).astype(np.float32)}
    data = _branch(constant=True)
    assert difference(load_bytes(data, tmp_path), data, feeds) <= 1e-6


def test_a_branch_on_data_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"'y' is the operator IF.*on the data"):
        load_bytes(_branch(constant=False), tmp_path)


def test_a_composite_is_what_its_graph_says(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((2, 3)), "x")
    options = {"name": "odml.twice", "decompositionSubgraphIndex": 1, "compositeAttributes": [0]}
    writer.ends([x], [writer.op("STABLEHLO_COMPOSITE", [x], [In((2, 3), name="y")], **options)])
    writer.subgraph()
    inner = writer.tensor(In((2, 3)), "in")
    writer.ends([inner], [writer.op("ADD", [inner, inner], [In((2, 3))])])
    feeds = {"x": _RNG.normal(size=(2, 3)).astype(np.float32)}
    assert difference(load_bytes(writer.data(), tmp_path), writer.data(), feeds) == 0


# ------------------------------------------------------------------------- arithmetic of shapes


def test_shapes_are_computed_while_the_model_is_read(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((2, 3, 4)), "x")
    made = writer.op("SHAPE", [x], [In((3,), "int32")], outType=2)
    bounds = [ints(n) for n in (0, 1, 1)]
    made = writer.op("STRIDED_SLICE", [made, *bounds], [In((), "int32")], shrinkAxisMask=1)
    made = writer.op("PACK", [made, number(-1, "int32")], [In((2,), "int32")], valuesCount=2)
    writer.ends([x], [writer.op("RESHAPE", [x, made], [In((2, 12), name="y")])])
    loaded = load_bytes(writer.data(), tmp_path, input_size_list=((5, 3, 4),))
    assert [node.op_type for node in loaded.graph.nodes] == ["Reshape"]
    assert loaded.graph.outputs[0].shape == (5, 12)


# ------------------------------------------------------------------------------------- refusals


def _one(op: str, count: int = 1, **kinds: Any) -> bytes:
    writer = Writer()
    inputs = [writer.tensor(In((2, 4), **kinds), f"in{i}") for i in range(count)]
    middle = writer.op("NEG", inputs[:1], [In((2, 4), name="middle")])
    writer.ends(inputs, [writer.op(op, [middle, *inputs[1:]], [In((2, 4), name="boxes")])])
    return writer.data()


@pytest.mark.parametrize(
    "op",
    [
        "TFLite_Detection_PostProcess",
        "FlexErf",
        "UNIQUE",
        "NON_MAX_SUPPRESSION_V5",
        "RFFT2D",
        "HASHTABLE_FIND",
        "READ_VARIABLE",
        "STABLEHLO_GATHER",
        "RANDOM_UNIFORM",
        "WHERE",
    ],
)
def test_an_operator_is_refused_by_name_with_where_to_cut(op: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        load_bytes(_one(op), tmp_path)
    assert op in caught.value.what
    assert "'boxes'" in caught.value.what
    assert "outputs: ['middle']" in caught.value.remedy
    loaded = load_bytes(_one(op), tmp_path, outputs=("middle",))
    assert [node.op_type for node in loaded.graph.nodes] == ["Neg"]


def test_a_cut_that_is_advised_holds_no_constant_and_works(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((2, 4)), "x")
    weights = writer.op("DEQUANTIZE", [const(np.ones((2, 4)), "float16")], [In((2, 4))])
    middle = writer.op("NEG", [x], [In((2, 4), name="middle")])
    writer.ends([x], [writer.op("FlexErf", [middle, weights, x, middle], [In((2, 4))])])
    with pytest.raises(UnsupportedOperatorError) as caught:
        load_bytes(writer.data(), tmp_path)
    assert "outputs: ['middle']" in caught.value.remedy
    assert (
        load_bytes(writer.data(), tmp_path, outputs=("middle",)).graph.outputs[0].name == "middle"
    )


def test_quantization_in_blocks_is_refused(tmp_path: Path) -> None:
    from ai_edge_litert import schema_py_generated as schema

    writer = Writer()
    x = writer.tensor(In((2, 4), "int8", scale=0.1), "x")
    quant = writer.graph.tensors[x].quantization
    quant.detailsType = schema.QuantizationDetails.CustomQuantization
    quant.details = schema.CustomQuantizationT()
    quant.details.custom = [1, 2, 3]
    writer.ends([x], [writer.op("RELU", [x], [In((2, 4), "int8", scale=0.1)])])
    with pytest.raises(SourceModelError, match="scheme of its own"):
        load_bytes(writer.data(), tmp_path)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "result"),
    [((3, 4), (2, 2), 2, (5, 8)), ((4, 5), (3, 4), 2, (8, 9)), ((2, 2), (5, 3), 3, (5, 5))],
)
def test_the_transposed_convolution_of_mediapipe(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    result: tuple[int, int],
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, *size, 3)).astype(np.float32)
    weights = rng.normal(size=(2, *kernel, 3)).astype(np.float32)
    writer = Writer()
    fed = writer.tensor(In(x.shape, name="x"))
    operands = [fed, const(weights), const([0.5, -1])]
    y = writer.op("Convolution2DTransposeBias", operands, [In((1, *result, 2), name="y")])
    options = np.array([1, stride, stride], "<i4")  # kTfLitePaddingSame
    writer.graph.operators[-1].customOptions = options.view(np.uint8)
    writer.ends([fed], [y])
    assert difference(load_bytes(writer.data(), tmp_path), writer.data(), {"x": x}) <= 1e-5


def test_a_custom_operator_without_its_options_is_damaged(tmp_path: Path) -> None:
    writer = Writer()
    fed = writer.tensor(In((1, 2, 2, 1), name="x"))
    operands = [fed, const(np.ones((1, 2, 2, 1)))]
    writer.ends([fed], [writer.op("Convolution2DTransposeBias", operands, [In(name="y")])])
    with pytest.raises(SourceModelError, match="has 0 bytes of options"):
        load_bytes(writer.data(), tmp_path)
