"""The tensors of a TFLite file while its graph is written, and their forms there.

Tensors are NHWC in the file and the windows of ONNX are NCHW. Each tensor may have both forms in
the graph; whoever reads it asks for one, and a Transpose is written the first time a form is
missing. Layers that do not care take the form that is there, so few Transposes are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.emit import Emitter
from engine.frontends.facts import words
from engine.frontends.tflite.schema import Quantization, Sparsity, Subgraph, Tensor

LAST = "last"
"""Layout of the file: channels at the end."""
FIRST = "first"
"""Layout of ONNX's windows: channels behind the batch."""

_MAX_ELEMENTS = 1 << 31
_MAX_CONSTANT = 1 << 28
_MAX_MADE = 1 << 24

NUMBERS = words("float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool")
"""Element types that graphs have, by their names in numpy."""

_QUANTIZED = frozenset({"int8", "uint8", "int16"})


@dataclass
class Value:
    """A tensor of the source, in the making.

    Attributes:
        name: the source's own.
        shape: in the source's layout, without open dimensions.
        dtype: of the stored numbers.
        quant: parameters of a quantized tensor; None for plain numbers. Its ``axis`` is -1 for one
            scale per tensor.
        array: the stored numbers of a constant, in the source's layout.
        forms: layout -> tensor of the graph with the stored numbers.
        reals: layout -> tensor of the graph with the real numbers, of quantized tensors.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quantization | None = None
    array: np.ndarray | None = None
    forms: dict[str, str] = field(default_factory=dict)
    reals: dict[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def axis_in(self, layout: str) -> int | None:
        """The axis of scales per channel in ``layout``; None for one scale."""
        axis = self.quant.axis if self.quant is not None else -1
        if axis < 0:
            return None
        return to_first(self.rank).index(axis) if layout == FIRST else axis

    def rearranged(self, array: np.ndarray, axis: int = -1) -> Value:
        """A constant with other numbers in it; ``axis`` is where its channels are now."""
        quant = self.quant
        if quant is not None and len(quant.scale) > 1:
            quant = replace(quant, axis=axis)
        return Value(self.name, array.shape, self.dtype, quant, array)


def to_first(rank: int) -> list[int]:
    """The permutation from channels last to channels first."""
    return [0, rank - 1, *range(1, rank - 1)]


def to_last(rank: int) -> list[int]:
    """The permutation from channels first to channels last."""
    return [0, *range(2, rank), 1]


def checked_shape(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """``shape``, where a tensor may have it.

    Raises:
        SourceModelError: a negative or absurd size.
    """
    if any(not 0 <= size < _MAX_ELEMENTS for size in shape) or math.prod(shape) > _MAX_ELEMENTS:
        raise SourceModelError(
            f"Tensor {sanitize(name, 120)!r} would have the shape {list(shape)[:8]}.",
            cause="The file is damaged, or a size was given that does not fit the model.",
            remedy="Check 'input_size_list'; else convert the model again.",
        )
    return shape


def checked_constant(count: int) -> None:
    """Refuse a constant that a layer would make of ``count`` numbers, where that is absurd.

    Raises:
        ValueError: more than 16 million.
    """
    if count > _MAX_MADE:
        raise ValueError(f"it needs a constant of {count} numbers")


def quantization_of(tensor: Tensor, shape: tuple[int, ...]) -> Quantization | None:
    """The parameters of a tensor, checked; None where its numbers are what they say.

    The axis of a tensor of one dimension is 0 whatever the file says: older converters wrote 3, the
    channel axis of the weights that a bias belongs to.

    Raises:
        SourceModelError: parameters that cannot be.
    """
    quant = tensor.quantization
    if quant is None or tensor.dtype not in _QUANTIZED | {"int32", "int64", "int4"}:
        return None
    name = sanitize(tensor.name, 120)
    if quant.custom:
        raise SourceModelError(
            f"Tensor {name!r} is quantized in blocks or by a scheme of its own.",
            cause="The model was written for one delegate; its meaning is not TFLite's own.",
            remedy="Convert it with per-tensor or per-channel quantization.",
        )
    if tensor.dtype in ("int32", "int64"):
        return None  # biases, whose scale is that of input times weights
    scale, zero = quant.scale, quant.zero_point
    low, high = -8, 7
    if tensor.dtype != "int4":
        low, high = int(np.iinfo(tensor.dtype).min), int(np.iinfo(tensor.dtype).max)
    axis = -1 if len(scale) == 1 else 0 if len(shape) == 1 else quant.axis
    wrong = ""
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        wrong = "has a scale that is not a positive number"
    elif zero.min() < low or zero.max() > high:
        wrong = f"has a zero point outside {low}..{high}"
    elif len(scale) > 1 and (not 0 <= axis < len(shape) or shape[axis] != len(scale)):
        wrong = f"of shape {list(shape)} has {len(scale)} scales along axis {axis}"
    if wrong:
        raise SourceModelError(f"Tensor {name!r} {wrong}.", remedy="Convert the model again.")
    return replace(quant, axis=axis)


def constant_array(tensor: Tensor) -> np.ndarray:
    """The numbers of a constant; int4 as int8, sparse ones dense.

    Raises:
        SourceModelError: its data do not fill its shape, or its type is not known here.
    """
    name, data = sanitize(tensor.name, 120), tensor.data
    checked_shape(tensor.shape, tensor.name)
    count = math.prod(tensor.shape)
    if data is None or tensor.dtype not in NUMBERS | {"int4"} or count > _MAX_CONSTANT:
        raise SourceModelError(
            f"Constant {name!r} of type {tensor.dtype} cannot be read.",
            remedy="Cut the graph before the layer that reads it.",
        )
    if tensor.sparsity is not None:
        return _dense(tensor, tensor.sparsity)
    if tensor.dtype == "int4":
        return _unpacked(data, count, name).reshape(tensor.shape)
    return _stored(tensor, count, name).reshape(tensor.shape)


def _misfit(name: str, have: int, need: int) -> SourceModelError:
    return _damaged(name, f"has {have} bytes of data; its shape and type need {need}")


def _damaged(name: str, what: str) -> SourceModelError:
    return SourceModelError(
        f"Constant {name!r} {what}.",
        cause="The file is damaged.",
        remedy="Get or convert the file again.",
    )


def _unpacked(data: np.ndarray, count: int, name: str) -> np.ndarray:
    """Two int4 a byte, the lower half first, as int8."""
    if len(data) != (count + 1) // 2:
        raise _misfit(name, len(data), (count + 1) // 2)
    halves = np.stack([data << 4, data & 0xF0], axis=1).reshape(-1)[:count]
    return halves.view(np.int8) >> 4


def _dense(tensor: Tensor, sparsity: Sparsity) -> np.ndarray:
    """Expand a sparse constant (TFLite's ``FormatConverter::SparseToDense``).

    ``traversal_order`` lists the dimensions from outer to inner, blocks after the others;
    ``block_map`` says which dimension each block divides.
    """
    shape, order, blocks = tensor.shape, sparsity.traversal_order, sparsity.block_map
    levels = sparsity.dimensions
    rank, name = len(shape), sanitize(tensor.name, 120)
    wrong = _damaged(name, "is sparse, and its layout does not fit its shape")
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise wrong
    block_sizes = [0] * len(blocks)
    for level, dimension in zip(levels, order, strict=True):
        if dimension >= rank:
            block_sizes[dimension - rank] = level.dense_size
    if math.prod(shape) > _MAX_MADE:
        raise wrong
    sizes = list(shape) + block_sizes
    for size, dimension in zip(block_sizes, blocks, strict=True):
        if size < 1 or not 0 <= dimension < rank or sizes[dimension] % size:
            raise wrong
        sizes[dimension] //= size
    # flat positions in traversal order, level by level; a compressed level picks from its rows
    positions = np.zeros(1, np.int64)
    slots = np.zeros(1, np.int64)
    for level, dimension in zip(levels, order, strict=True):
        size = sizes[dimension]
        if level.segments is None or level.indices is None:
            if level.dense_size != size or len(slots) * size > _MAX_MADE:
                raise wrong
            offsets = np.tile(np.arange(size), len(slots))
            slots = np.repeat(slots, size) * size + offsets
            positions = np.repeat(positions, size) * size + offsets
            continue
        segments, indices = np.array(level.segments), np.array(level.indices, np.int64)
        if len(segments) != len(slots) + 1 or (np.diff(segments) < 0).any() or segments[0]:
            raise wrong
        if segments[-1] != len(indices) or (indices >= size).any() or (indices < 0).any():
            raise wrong
        positions = np.repeat(positions, np.diff(segments)) * size + indices
        slots = np.arange(len(indices))
    values = _stored(tensor, len(slots), name)
    ordered = np.zeros(math.prod(sizes), values.dtype)
    ordered[positions] = values
    return _blocks_merged(ordered.reshape([sizes[d] for d in order]), order, blocks, shape)


def _stored(tensor: Tensor, count: int, name: str) -> np.ndarray:
    """The numbers that are stored, as a view on the file."""
    if tensor.data is None or tensor.dtype == "int4":
        raise _misfit(name, 0, count)
    kind = np.dtype(tensor.dtype).newbyteorder("<")
    if len(tensor.data) != count * kind.itemsize:
        raise _misfit(name, len(tensor.data), count * kind.itemsize)
    return tensor.data.view(kind)


def _blocks_merged(
    array: np.ndarray, order: tuple[int, ...], blocks: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    rank = len(shape)
    axes = []
    for dimension in range(rank):
        axes.append(order.index(dimension))
        axes.extend(
            order.index(rank + number) for number, of in enumerate(blocks) if of == dimension
        )
    return array.transpose(axes).reshape(shape)


# ---------------------------------------------------------------------------------- in the graph


@dataclass
class Frame:
    """One subgraph while it is converted: its tensors so far."""

    graph: Subgraph
    values: dict[int, Value] = field(default_factory=dict)


class Tensors:
    """Reads tensors, and writes the form that is asked for into an emitter.

    Args:
        file: its name, for errors.
        reserved: names that only tensors in the file's layout may have: those of outputs.
    """

    def __init__(self, file: str, reserved: Iterable[str]) -> None:
        self.file = file
        self.emit = Emitter(file)
        self.findings: list[Finding] = []
        self._reserved = frozenset(reserved)

    def value(self, frame: Frame, index: int) -> Value:
        """The tensor ``index``: computed, constant, or a state that starts at zero."""
        tensor_value = frame.values.get(index)
        if tensor_value is not None:
            return tensor_value
        tensor = frame.graph.tensors[index]
        if tensor.data is not None:
            array = constant_array(tensor)
        elif tensor.variable or 0 in tensor.shape:
            checked_constant(math.prod(checked_shape(tensor.shape, tensor.name)))
            array = np.zeros(tensor.shape, tensor.dtype)
        else:
            raise SourceModelError(
                f"{sanitize(self.file)}: tensor {sanitize(tensor.name, 120)!r} is read before "
                "any layer has computed it.",
                cause="The file is damaged, or 'inputs' leaves out what the outputs need.",
                remedy="Add it to 'inputs', or leave 'inputs' out.",
            )
        quant = quantization_of(tensor, tensor.shape)
        dtype = "int8" if tensor.dtype == "int4" else tensor.dtype
        frame.values[index] = Value(tensor.name, tensor.shape, dtype, quant, array)
        return frame.values[index]

    def name_for(self, value: Value, layout: str) -> str:
        """The name that a form of a tensor gets: the source's own, for the form made first."""
        name = value.name or self.emit.origin or "tensor"
        reserved = value.name in self._reserved
        if layout == FIRST:
            return f"{name}_nchw" if reserved or LAST in value.forms else name
        return f"{name}_nhwc" if FIRST in value.forms and not reserved else name

    def stored(self, value: Value, layout: str = LAST) -> str:
        """The tensor with the numbers as the file stores them, in ``layout``."""
        if value.rank < 3:
            layout = LAST
        if layout not in value.forms:
            value.forms[layout] = self._form(value, layout)
        return value.forms[layout]

    def _form(self, value: Value, layout: str) -> str:
        if value.array is not None:
            array = value.array
            if layout == FIRST:
                array = array.transpose(to_first(value.rank))
            return self.emit.constant(array, self._constant_name(value, layout))
        perm = to_first(value.rank) if layout == FIRST else to_last(value.rank)
        other = value.forms[LAST if layout == FIRST else FIRST]
        shape = value.shape if layout == FIRST else [value.shape[a] for a in to_first(value.rank)]
        name = self.name_for(value, layout)
        moved = [axis for axis in perm if shape[axis] != 1]
        if moved == sorted(moved):  # only axes of length 1 change places
            sizes = [shape[axis] for axis in perm]
            return self.emit.node("Reshape", [other, sizes], name, allowzero=1)
        return self.emit.node("Transpose", [other], name, perm=perm)

    def _constant_name(self, value: Value, layout: str) -> str:
        name = value.name or "constant"
        return f"{name}_value" if name in self._reserved or layout == FIRST else name

    def real(self, value: Value, layout: str = LAST) -> str:
        """The tensor with real numbers: dequantized where it is quantized."""
        if value.quant is None:
            return self.stored(value, layout)
        if value.rank < 3:
            layout = LAST
        if layout not in value.reals:
            stored = self.stored(value, layout)
            inputs, axis = [stored, *self.parameters(value)], value.axis_in(layout)
            hint = f"{stored}_real"
            value.reals[layout] = self.emit.node("DequantizeLinear", inputs, hint, axis=axis)
        return value.reals[layout]

    def parameters(self, value: Value) -> list[str]:
        """Names of scale and zero point of a quantized tensor."""
        quant = value.quant
        if quant is None:
            raise ValueError(f"tensor {sanitize(value.name, 120)!r} has no scale")
        scale, zero = quant.scale.astype(np.float32), quant.zero_point.astype(value.dtype)
        if quant.axis < 0:
            scale, zero = scale.reshape(()), zero.reshape(())
        return [self.emit.constant(scale, "scale"), self.emit.constant(zero, "zero_point")]

    def note(self, finding: Finding) -> None:
        """Keep a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)
