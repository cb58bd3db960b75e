"""Writes a TFLite file: one graph of tensors and operators (schema.fbs, version 3).

The schema's functions are those of the ``tflite`` package; equal constants are stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np
from tflite import BuiltinOperator, BuiltinOptions, TensorType

from engine.frontends.tflite.schema import NO_OPTIONS, OPTIONS, OptionTable

_IDENTIFIER = b"TFL3"
_VERSION = 3
_LAST_OLD_OPERATOR = 127
"""Operators up to this one stand in the deprecated byte as well, which old readers read."""

_TYPES = {
    "float32": TensorType.FLOAT32,
    "int8": TensorType.INT8,
    "uint8": TensorType.UINT8,
    "int16": TensorType.INT16,
    "int32": TensorType.INT32,
    "int64": TensorType.INT64,
    "bool": TensorType.BOOL,
}

KINDS = frozenset(_TYPES)
"""Types of tensors that are written, by numpy's names."""

_VERSIONS = {
    "ADD": 2, "ARG_MAX": 2, "AVERAGE_POOL_2D": 2, "BATCH_MATMUL": 2, "CONCATENATION": 2,
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 2,
    "FULLY_CONNECTED": 5, "GATHER": 2, "LEAKY_RELU": 2, "LOGISTIC": 2, "MAXIMUM": 2,
    "MAX_POOL_2D": 2, "MEAN": 2, "MINIMUM": 2, "MUL": 2, "PAD": 2, "PADV2": 2, "QUANTIZE": 2,
    "REDUCE_MAX": 2, "REDUCE_MIN": 2, "RELU": 2, "RELU6": 2, "RESIZE_BILINEAR": 3,
    "RESIZE_NEAREST_NEIGHBOR": 3, "SOFTMAX": 2, "SPACE_TO_DEPTH": 2, "SPLIT": 2, "SPLIT_V": 2,
    "STRIDED_SLICE": 2, "SUB": 2, "SUM": 2, "TANH": 2, "TRANSPOSE": 2, "TRANSPOSE_CONV": 3,
}  # fmt: skip
"""Versions that take int8 (TensorFlow's ``op_version.cc``); those not named have one version."""

Option = int | float | bool
"""A value of an operator's options."""


def type_number(kind: str) -> int:
    """The number of a type of tensors in the schema."""
    number: int = _TYPES[kind]
    return number


@dataclass(frozen=True)
class Quant:
    """``real = (q - zero_point) * scale``; along ``axis`` where there are several scales."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0

    def stored(self, real: np.ndarray) -> np.ndarray:
        """Real values on 8 bits, by the first scale; what is no number is the zero point."""
        steps = np.rint(real / np.float32(self.scale[0])) + self.zero_point[0]
        whole: np.ndarray = np.clip(np.nan_to_num(steps, nan=self.zero_point[0]), -128, 127)
        return whole.astype(np.int8)


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None
    buffer: int
    variable: bool = False


@dataclass(frozen=True)
class _Operator:
    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: OptionTable
    values: Mapping[str, Option]


class TfliteWriter:
    """Tensors and operators in the order in which they are added.

    Attributes:
        inputs, outputs: numbers of the graph's tensors.
    """

    def __init__(self, description: str) -> None:
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self._description = description
        self._tensors: list[_Tensor] = []
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._operators: list[_Operator] = []
        self._codes: dict[tuple[int, int], int] = {}
        self._buffers: dict[bytes, int] = {b"": 0}
        self._constants: dict[tuple[object, ...], int] = {}

    def tensor(
        self, name: str, shape: Sequence[int], dtype: str, quant: Quant | None = None
    ) -> int:
        """Add a tensor that an operator writes; its number. A name that is taken gets a suffix."""
        return self._add(name, tuple(shape), dtype, quant, 0)

    def like(self, tensor: int, name: str, shape: Sequence[int]) -> int:
        """Add a tensor of the type and parameters of another."""
        other = self._tensors[tensor]
        return self.tensor(name, shape, other.dtype, other.quant)

    def constant(self, name: str, array: np.ndarray, quant: Quant | None = None) -> int:
        """Add a constant; the same one again where it is there already."""
        data = np.asarray(array, order="C")  # ascontiguousarray makes a row of a number
        raw = data.tobytes()
        buffer = self._buffers.setdefault(raw, len(self._buffers))
        key = (buffer, data.shape, data.dtype.name, quant)
        if key not in self._constants:
            self._constants[key] = self._add(name, data.shape, data.dtype.name, quant, buffer)
        return self._constants[key]

    def variable(self, name: str, shape: Sequence[int]) -> int:
        """Add a float32 state, which an operator reads and writes; it starts at zero."""
        return self._add(name, tuple(shape), "float32", None, 0, variable=True)

    def emit(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], **values: Option
    ) -> None:
        """Add an operator.

        Args:
            name: of the schema: ``CONV_2D``.
            inputs, outputs: numbers of tensors; -1 for an input that is left out.
            values: its options by the names of ``options.toml``; others have their default.
        """
        builtin: int = getattr(BuiltinOperator, name)
        code = self._codes.setdefault((builtin, _VERSIONS.get(name, 1)), len(self._codes))
        options = OPTIONS.get(name, NO_OPTIONS)
        self._operators.append(_Operator(code, tuple(inputs), tuple(outputs), options, values))

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Of a tensor."""
        return self._tensors[tensor].shape

    def kind(self, tensor: int) -> str:
        """The type of a tensor, by numpy's name."""
        return self._tensors[tensor].dtype

    def quant(self, tensor: int) -> Quant | None:
        """Of a tensor."""
        return self._tensors[tensor].quant

    def name(self, tensor: int) -> str:
        """Of a tensor."""
        return self._tensors[tensor].name

    def _add(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        quant: Quant | None,
        buffer: int,
        *,
        variable: bool = False,
    ) -> int:
        free = name
        while free in self._names:
            self._counts[name] = self._counts.get(name, 1) + 1
            free = f"{name}_{self._counts[name]}"
        self._names.add(free)
        sizes = tuple(map(int, shape))
        self._tensors.append(_Tensor(free, sizes, dtype, quant, buffer, variable))
        return len(self._tensors) - 1

    # -- bytes ---------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The file; the same content gives the same bytes."""
        builder = flatbuffers.Builder(1 << 16)
        buffers = [self._buffer(builder, raw) for raw in self._buffers]
        codes = [self._code(builder, *key) for key in self._codes]
        tensors = [self._tensor(builder, item) for item in self._tensors]
        operators = [self._operator(builder, item) for item in self._operators]
        subgraph = _table(
            builder,
            "SubGraph",
            {
                "Tensors": _offsets(builder, tensors),
                "Inputs": _ints(builder, self.inputs),
                "Outputs": _ints(builder, self.outputs),
                "Operators": _offsets(builder, operators),
                "Name": builder.CreateString("main"),
            },
        )
        model = _table(
            builder,
            "Model",
            {
                "Version": _VERSION,
                "OperatorCodes": _offsets(builder, codes),
                "Subgraphs": _offsets(builder, [subgraph]),
                "Description": builder.CreateString(self._description),
                "Buffers": _offsets(builder, buffers),
            },
        )
        builder.Finish(model, _IDENTIFIER)
        return bytes(builder.Output())

    def _buffer(self, builder: flatbuffers.Builder, raw: bytes) -> int:
        if not raw:
            return _table(builder, "Buffer", {})
        # aligned as the runtime maps it
        builder.StartVector(1, len(raw), 16)
        builder.head = builder.Head() - len(raw)
        builder.Bytes[builder.Head() : builder.Head() + len(raw)] = raw
        return _table(builder, "Buffer", {"Data": builder.EndVector()})

    def _code(self, builder: flatbuffers.Builder, builtin: int, version: int) -> int:
        values = {
            "DeprecatedBuiltinCode": min(builtin, _LAST_OLD_OPERATOR),
            "BuiltinCode": builtin,
            "Version": version,
        }
        return _table(builder, "OperatorCode", values)

    def _tensor(self, builder: flatbuffers.Builder, tensor: _Tensor) -> int:
        fields: dict[str, Option] = {
            "Shape": _ints(builder, tensor.shape),
            "Type": _TYPES[tensor.dtype],
            "Buffer": tensor.buffer,
            "Name": builder.CreateString(tensor.name),
            "HasRank": True,
        }
        if tensor.variable:
            fields["IsVariable"] = True
        if tensor.quant is not None:
            quant = {
                "Scale": builder.CreateNumpyVector(np.array(tensor.quant.scale, np.float32)),
                "ZeroPoint": builder.CreateNumpyVector(np.array(tensor.quant.zero_point, np.int64)),
                "QuantizedDimension": tensor.quant.axis,
            }
            fields["Quantization"] = _table(builder, "QuantizationParameters", quant)
        return _table(builder, "Tensor", fields)

    def _operator(self, builder: flatbuffers.Builder, operator: _Operator) -> int:
        fields: dict[str, Option] = {
            "OpcodeIndex": operator.code,
            "Inputs": _ints(builder, operator.inputs),
            "Outputs": _ints(builder, operator.outputs),
        }
        if operator.options is not NO_OPTIONS:
            fields["BuiltinOptionsType"] = getattr(BuiltinOptions, operator.options.name)
            fields["BuiltinOptions"] = _options(builder, operator)
        return _table(builder, "Operator", fields)


_SLOTS = {"?": "Bool", "b": "Int8", "i": "Int32", "f": "Float32"}


def _options(builder: flatbuffers.Builder, operator: _Operator) -> int:
    known = {field.name: field for field in operator.options.fields}
    builder.StartObject(1 + max((field.number for field in known.values()), default=0))
    for name, value in operator.values.items():
        field = known[name]
        getattr(builder, f"Prepend{_SLOTS[field.kind]}Slot")(field.number, value, field.default)
    end: int = builder.EndObject()
    return end


def _table(builder: flatbuffers.Builder, name: str, fields: Mapping[str, Any]) -> int:
    """A table of the schema; offsets of what it holds are made before."""
    module = import_module(f"tflite.{name}")
    add: Callable[[str], Any] = lambda field: getattr(module, f"{name}Add{field}")  # noqa: E731
    getattr(module, f"{name}Start")(builder)
    for field, value in fields.items():
        add(field)(builder, value)
    end: int = getattr(module, f"{name}End")(builder)
    return end


def _ints(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    offset: int = builder.CreateNumpyVector(np.array(values, np.int32))
    return offset


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    end: int = builder.EndVector()
    return end
