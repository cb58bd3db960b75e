"""Tensors of a model on a board: what it takes and gives, and arrays to bytes and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.plain import JsonObject
from engine.base.text import shape_text
from engine.devices.board.answers import listed, misfit_error, number, text, whole

Array = np.ndarray[Any, np.dtype[Any]]

MOST_TENSORS = 256
"""Inputs or outputs of one model."""
_MOST_DIMENSIONS = 16
_MOST_BYTES = 1 << 31
_U32 = (1 << 32) - 1
_I32 = 1 << 31

_LAYOUTS = frozenset({"NCHW", "NHWC", "NC1HWC2", "UNDEFINED"})
_ORDERS = {("NCHW", "NHWC"): (0, 2, 3, 1), ("NHWC", "NCHW"): (0, 3, 1, 2)}
_QUANTIZATIONS = frozenset({"NONE", "DFP", "AFFINE"})

# rknn_tensor_type of the vendor's rknn_api.h
_NUMPY: dict[str, np.dtype[Any]] = {
    "FLOAT32": np.dtype("<f4"),
    "FLOAT16": np.dtype("<f2"),
    "INT8": np.dtype("i1"),
    "UINT8": np.dtype("u1"),
    "INT16": np.dtype("<i2"),
    "UINT16": np.dtype("<u2"),
    "INT32": np.dtype("<i4"),
    "UINT32": np.dtype("<u4"),
    "INT64": np.dtype("<i8"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}
_DTYPES = frozenset(_NUMPY) | {"BFLOAT16", "INT4"}


@dataclass(frozen=True)
class TensorAttributes:
    """``rknn_tensor_attr``: an input or an output as the runtime describes it.

    Attributes:
        index: its place among the inputs or the outputs.
        name: as the model has it, fit to be shown.
        shape: its dimensions in the order of ``layout``.
        layout: ``NCHW``, ``NHWC``, ``NC1HWC2`` or ``UNDEFINED``.
        dtype: ``INT8``, ``UINT8``, ``FLOAT16``...
        quantization: ``AFFINE`` (``scale`` and ``zero_point``), ``DFP`` or ``NONE``.
        elements: how many values.
        size: in bytes; ``size_with_stride`` with the rows' padding.
        pass_through: whether the runtime takes it without conversion.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str
    quantization: str = "NONE"
    zero_point: int = 0
    scale: float = 0.0
    elements: int = 0
    size: int = 0
    size_with_stride: int = 0
    pass_through: bool = False


@dataclass(frozen=True, eq=False)
class BoardInput:
    """An array for one input of a model.

    Attributes:
        array: the values; its dtype is what the runtime is told.
        layout: of a 4-D array, ``NHWC`` (also where None) or ``NCHW``.
        pass_through: it is in the model's own form already, and the runtime converts nothing.
    """

    array: Array
    layout: str | None = None
    pass_through: bool = False


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """What is sent for one input: contiguous little endian values, and what the runtime is told."""

    array: Array
    dtype: str
    layout: str
    pass_through: bool


@dataclass(frozen=True, eq=False)
class BoardOutput:
    """One output of a model as the board gave it.

    Attributes:
        name, layout, dtype: as its attributes say; ``dtype`` is ``FLOAT32`` where float was asked
            for.
        array: the values in the shape of the attributes. ``BFLOAT16`` comes as float32, and two
            values of ``INT4`` in each byte as int8; a dtype that is not known comes as bytes.
    """

    name: str
    layout: str
    dtype: str
    array: Array

    @property
    def channels_first(self) -> Array:
        """The array as NCHW where it has four axes: the library of RV1103 and RV1106 gives NHWC."""
        if self.layout != "NHWC" or self.array.ndim != 4:
            return self.array
        return np.ascontiguousarray(self.array.transpose(0, 3, 1, 2))


def read_attributes(data: JsonObject, side: str) -> tuple[TensorAttributes, ...]:
    """The attributes of ``inputs`` or ``outputs`` in the answer to ``open``.

    Raises:
        DeviceError: the answer breaks the protocol.
    """
    items = listed(data, side, MOST_TENSORS)
    return tuple(_attributes(item, index, f"{side}[{index}]") for index, item in enumerate(items))


def _attributes(item: Any, index: int, where: str) -> TensorAttributes:
    if not isinstance(item, dict):
        raise misfit_error(f"{where} is no object")
    shape = tuple(
        whole({"dimension": size}, "dimension", 1, _MOST_BYTES)
        for size in listed(item, "dims", _MOST_DIMENSIONS)
    )
    return TensorAttributes(
        index=whole(item, "index", index, index),
        name=text(item, "name"),
        shape=shape,
        layout=_one_of(item, "layout", _LAYOUTS),
        dtype=_one_of(item, "dtype", _DTYPES),
        quantization=_one_of(item, "quantization", _QUANTIZATIONS),
        zero_point=whole(item, "zero_point", -_I32, _U32),
        scale=number(item, "scale"),
        elements=whole(item, "elements", 1, _MOST_BYTES),
        size=whole(item, "size", 1, _MOST_BYTES),
        size_with_stride=whole(item, "size_with_stride", 0, _MOST_BYTES),
        pass_through=bool(item.get("pass_through")),
    )


def _one_of(item: JsonObject, name: str, known: frozenset[str]) -> str:
    value: Any = item.get(name)
    # a number stands for what a newer runtime has and the agent cannot name
    if isinstance(value, str) and (value in known or (value.isdecimal() and len(value) <= 3)):
        return value
    raise misfit_error(f"{name} is not one of {', '.join(sorted(known))}")


def prepared_input(given: BoardInput, wanted: TensorAttributes) -> PreparedInput:
    """What is sent for an input, checked against what the model takes.

    A 4-D array is always sent as NHWC, which every runtime takes.

    Raises:
        UsageError: shape, dtype or layout do not fit.
    """
    name = f"Input {wanted.index} ({wanted.name})" if wanted.name else f"Input {wanted.index}"
    array = np.asarray(given.array)
    dtype = _NAMES.get(array.dtype.newbyteorder("<"))
    if dtype is None:
        raise UsageError(
            f"{name} is {array.dtype}, which the runtime does not take.",
            cause=f"It takes {', '.join(sorted(_NUMPY))}.",
            remedy="Convert it, such as with array.astype('float32').",
        )
    little = array.astype(_NUMPY[dtype], copy=False)
    if given.pass_through:
        return _passed_through(little, dtype, wanted, name)
    layout = given.layout or ("NHWC" if array.ndim == 4 else wanted.layout)
    if layout not in _LAYOUTS or (array.ndim == 4 and layout not in ("NHWC", "NCHW")):
        raise UsageError(
            f"{name} cannot be given as {layout}.",
            cause="A 4-D input is NHWC or NCHW; in the NPU's own form it is passed through.",
        )
    expected = shape_in(wanted, layout)
    if array.shape != expected:
        takes = f"The model takes {shape_text(expected)}"
        raise UsageError(
            f"{name} has the shape {shape_text(array.shape)}.",
            cause=f"{takes} ({layout})." if len(expected) == 4 else f"{takes}.",
            remedy="Give the array in that shape, and say whether it is NHWC or NCHW.",
        )
    if array.ndim == 4 and layout == "NCHW":
        little, layout = little.transpose(0, 2, 3, 1), "NHWC"
    return PreparedInput(np.ascontiguousarray(little), dtype, layout, pass_through=False)


def zero_input(wanted: TensorAttributes) -> BoardInput:
    """Zeros for an input, in its own dtype where numpy has that; float32 otherwise."""
    dtype = _NUMPY.get(wanted.dtype, np.dtype("<f4"))
    layout = wanted.layout if wanted.layout in ("NHWC", "NCHW") else None
    return BoardInput(np.zeros(wanted.shape, dtype), layout)


def _passed_through(
    array: Array, dtype: str, attributes: TensorAttributes, name: str
) -> PreparedInput:
    sizes = {attributes.size, attributes.size_with_stride or attributes.size}
    if dtype != attributes.dtype or array.nbytes not in sizes:
        raise UsageError(
            f"{name} cannot be passed through: it is {dtype} of {array.nbytes} bytes.",
            cause=f"The model takes {attributes.dtype} of {max(sizes)} bytes in its own form.",
            remedy="Let the runtime convert it, or give it in the model's own form.",
        )
    return PreparedInput(np.ascontiguousarray(array), dtype, attributes.layout, pass_through=True)


def shape_in(attributes: TensorAttributes, layout: str) -> tuple[int, ...]:
    """The shape of a tensor in another layout than its own."""
    order = _ORDERS.get((attributes.layout, layout))
    if order is None or len(attributes.shape) != 4:
        return attributes.shape
    return tuple(attributes.shape[axis] for axis in order)


def output_size(attributes: TensorAttributes, *, want_float: bool) -> int:
    """Bytes of an output as ``rknn_outputs_get`` gives it."""
    if want_float:
        return attributes.elements * 4
    if attributes.dtype == "INT4":
        return (attributes.elements + 1) // 2
    if attributes.dtype == "BFLOAT16":
        return attributes.elements * 2
    known = _NUMPY.get(attributes.dtype)
    return attributes.size if known is None else attributes.elements * known.itemsize


def output_of(attributes: TensorAttributes, path: Path, *, want_float: bool) -> BoardOutput:
    """An output from its file on this machine, whose size was checked.

    Raises:
        DeviceError: the file has another size.
    """
    size = output_size(attributes, want_float=want_float)
    if path.stat().st_size != size:
        raise misfit_error(f"output {attributes.index} has not {size} bytes")
    dtype = "FLOAT32" if want_float else attributes.dtype
    array: Array
    if dtype == "INT4":
        array = _unpacked(np.fromfile(path, np.uint8), attributes.elements)
    elif dtype == "BFLOAT16":
        array = (np.fromfile(path, "<u2").astype("<u4") << 16).view("<f4")
    else:
        array = np.fromfile(path, _NUMPY.get(dtype, np.dtype("u1")))
    if math.prod(attributes.shape) == array.size:
        array = array.reshape(attributes.shape)
    return BoardOutput(attributes.name, attributes.layout, dtype, array)


def _unpacked(packed: Array, elements: int) -> Array:
    """Values of 4 bits, the low half of a byte first, as int8."""
    both = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:elements].astype(np.int8)
    return np.where(both > 7, both - 16, both).astype(np.int8)
