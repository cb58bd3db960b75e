"""The options of operators: names, types and defaults of their fields (TFLite's schema.fbs)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.base.formats.flatbuffers import FlatTable

__all__ = ["NO_OPTIONS", "OPTIONS", "OptionField", "OptionTable", "Value", "read_options"]

Value = int | float | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class OptionField:
    """A field: its number in the table, a kind (``b ? i I q f``, ``i*``, ``f*``) and default."""

    number: int
    name: str
    kind: str
    default: Value


@dataclass(frozen=True)
class OptionTable:
    """A table of the union ``BuiltinOptions``, by its name in the schema."""

    name: str
    fields: tuple[OptionField, ...]


NO_OPTIONS = OptionTable("", ())


def _table(name: str, fields: str) -> OptionTable:
    """``stride_w:i dilation:i=1 -``: fields in the schema's order; ``-`` is one no longer used."""
    read = []
    for number, field in enumerate(fields.split()):
        if field == "-":
            continue
        label, kind = field.split(":")
        kind, _, default = kind.partition("=")
        empty: Value = () if kind.endswith("*") else 0.0 if kind == "f" else int(default or 0)
        read.append(OptionField(number, label, kind, empty))
    return OptionTable(name, tuple(read))


_WINDOW = "padding:b stride_w:i stride_h:i"
_REDUCER = _table("ReducerOptions", "keep_dims:?")
_POOL = _table("Pool2DOptions", f"{_WINDOW} filter_w:i filter_h:i activation:b")
_SEQUENCE = "activation:b cell_clip:f proj_clip:f"

OPTIONS: Mapping[str, OptionTable] = MappingProxyType(
    {
        "ADD": _table("AddOptions", "activation:b pot_scale_int16:?=1"),
        "ARG_MAX": _table("ArgMaxOptions", "output_type:b"),
        "ARG_MIN": _table("ArgMinOptions", "output_type:b"),
        "AVERAGE_POOL_2D": _POOL,
        "BATCH_MATMUL": _table("BatchMatMulOptions", "adj_x:? adj_y:? asymmetric:?"),
        "BIDIRECTIONAL_SEQUENCE_LSTM": _table(
            "BidirectionalSequenceLSTMOptions",
            f"{_SEQUENCE} merge_outputs:? time_major:?=1 asymmetric:?",
        ),
        "BIDIRECTIONAL_SEQUENCE_RNN": _table(
            "BidirectionalSequenceRNNOptions", "time_major:? activation:b merge_outputs:?"
        ),
        "BUCKETIZE": _table("BucketizeOptions", "boundaries:f*"),
        "CONCATENATION": _table("ConcatenationOptions", "axis:i activation:b"),
        "CONV_2D": _table("Conv2DOptions", f"{_WINDOW} activation:b dilation_w:i=1 dilation_h:i=1"),
        "CONV_3D": _table(
            "Conv3DOptions",
            "padding:b stride_d:i stride_w:i stride_h:i activation:b dilation_d:i=1 "
            "dilation_w:i=1 dilation_h:i=1",
        ),
        "CUMSUM": _table("CumsumOptions", "exclusive:? reverse:?"),
        "DEPTHWISE_CONV_2D": _table(
            "DepthwiseConv2DOptions",
            f"{_WINDOW} depth_multiplier:i activation:b dilation_w:i=1 dilation_h:i=1",
        ),
        "DEPTH_TO_SPACE": _table("DepthToSpaceOptions", "block_size:i"),
        "DIV": _table("DivOptions", "activation:b"),
        "FAKE_QUANT": _table("FakeQuantOptions", "min:f max:f bits:i narrow_range:?"),
        "FULLY_CONNECTED": _table(
            "FullyConnectedOptions", "activation:b weights_format:b keep_num_dims:? asymmetric:?"
        ),
        "GATHER": _table("GatherOptions", "axis:i batch_dims:i"),
        "GELU": _table("GeluOptions", "approximate:?"),
        "IF": _table("IfOptions", "then_subgraph:i else_subgraph:i"),
        "L2_NORMALIZATION": _table("L2NormOptions", "activation:b"),
        "L2_POOL_2D": _POOL,
        "LEAKY_RELU": _table("LeakyReluOptions", "alpha:f"),
        "LOCAL_RESPONSE_NORMALIZATION": _table(
            "LocalResponseNormalizationOptions", "radius:i bias:f alpha:f beta:f"
        ),
        "LSTM": _table("LSTMOptions", f"{_SEQUENCE} kernel_type:b asymmetric:?"),
        "MAX_POOL_2D": _POOL,
        "MEAN": _REDUCER,
        "MIRROR_PAD": _table("MirrorPadOptions", "mode:b"),
        "MUL": _table("MulOptions", "activation:b"),
        "ONE_HOT": _table("OneHotOptions", "axis:i"),
        "PACK": _table("PackOptions", "count:i axis:i"),
        "REDUCE_ALL": _REDUCER,
        "REDUCE_ANY": _REDUCER,
        "REDUCE_MAX": _REDUCER,
        "REDUCE_MIN": _REDUCER,
        "REDUCE_PROD": _REDUCER,
        "RESHAPE": _table("ReshapeOptions", "new_shape:i*"),
        "RESIZE_BILINEAR": _table(
            "ResizeBilinearOptions", "- - align_corners:? half_pixel_centers:?"
        ),
        "RESIZE_NEAREST_NEIGHBOR": _table(
            "ResizeNearestNeighborOptions", "align_corners:? half_pixel_centers:?"
        ),
        "REVERSE_SEQUENCE": _table("ReverseSequenceOptions", "seq_dim:i batch_dim:i"),
        "RNN": _table("RNNOptions", "activation:b asymmetric:?"),
        "SHAPE": _table("ShapeOptions", "out_type:b"),
        "SOFTMAX": _table("SoftmaxOptions", "beta:f"),
        "SPACE_TO_DEPTH": _table("SpaceToDepthOptions", "block_size:i"),
        "SPLIT": _table("SplitOptions", "count:i"),
        "SPLIT_V": _table("SplitVOptions", "count:i"),
        "SQUEEZE": _table("SqueezeOptions", "squeeze_dims:i*"),
        "STRIDED_SLICE": _table(
            "StridedSliceOptions",
            "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?",
        ),
        "STABLEHLO_COMPOSITE": _table("StableHLOCompositeOptions", "- decomposition:i"),
        "SUB": _table("SubOptions", "activation:b pot_scale_int16:?=1"),
        "SUM": _REDUCER,
        "SVDF": _table("SVDFOptions", "rank:i activation:b asymmetric:?"),
        "TRANSPOSE_CONV": _table("TransposeConvOptions", f"{_WINDOW} activation:b"),
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _table(
            "UnidirectionalSequenceLSTMOptions",
            f"{_SEQUENCE} time_major:? asymmetric:? diagonal_recurrent:?",
        ),
        "UNIDIRECTIONAL_SEQUENCE_RNN": _table(
            "SequenceRNNOptions", "time_major:? activation:b asymmetric:?"
        ),
        "UNPACK": _table("UnpackOptions", "count:i axis:i"),
        "WHILE": _table("WhileOptions", "cond_subgraph:i body_subgraph:i"),
    }
)
"""Operator -> its options; an operator that is not listed has none that this reader needs."""


def read_options(kind: OptionTable, table: FlatTable | None) -> dict[str, Value]:
    """Every field of ``kind``; the schema's defaults where the file leaves fields or all out.

    Raises:
        FlatError: the table points outside the file.
    """
    if table is None:
        return {field.name: field.default for field in kind.fields}
    return {field.name: _read(field, table) for field in kind.fields}


def _read(field: OptionField, table: FlatTable) -> Value:
    if field.kind == "f":
        return table.real(field.number)
    if field.kind == "i*":
        return table.numbers(field.number)
    if field.kind == "f*":
        return table.reals(field.number)
    return table.number(field.number, field.kind, int(field.default))  # type: ignore[arg-type]
