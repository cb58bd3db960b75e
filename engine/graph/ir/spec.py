"""What is known of one tensor: name, shape, dtype."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.base.text import shape_text

__all__ = ["TensorSpec", "constant_of", "dtype_name", "shape_of", "spec_of"]


@dataclass(frozen=True)
class TensorSpec:
    """One tensor.

    Attributes:
        name: its name in the graph.
        shape: its dimensions; -1 for one that is unknown or dynamic. A tensor of unknown rank has
            the shape ``(-1,)`` and ``rank_known`` false.
        dtype: numpy's name (``float32``, ``int8``); ``ml_dtypes``' for types that numpy lacks
            (``int4``, ``bfloat16``); ``unknown`` before shape inference.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rank_known: bool = True

    @property
    def size(self) -> int | None:
        """Number of elements, or None while a dimension is unknown."""
        count = 1
        for dim in self.shape:
            if dim < 0:
                return None
            count *= dim
        return count

    @property
    def static(self) -> bool:
        """Whether every dimension is known."""
        return self.rank_known and all(dim >= 0 for dim in self.shape)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape fits: every known dimension is the same."""
        return not self.rank_known or (
            len(shape) == len(self.shape)
            and all(want in (-1, have) for want, have in zip(self.shape, shape, strict=True))
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{shape_text(self.shape)}]"

    def to_json(self) -> dict[str, str | list[int]]:
        """``{name, shape, dtype}`` as the views show it."""
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}


def dtype_name(dtype: ir.DataType | None) -> str:
    """The numpy name of an ONNX type; ``unknown`` for None and undefined types."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return "unknown"
    if dtype == ir.DataType.STRING:
        return "string"
    return str(dtype.numpy().name)


def shape_of(shape: ir.ShapeProtocol | None) -> tuple[int, ...]:
    """A shape as integers, -1 for symbolic dimensions; ``(-1,)`` for an unknown rank."""
    if shape is None:
        return (-1,)
    return tuple(dim if isinstance(dim, int) else -1 for dim in shape)


def spec_of(value: ir.Value) -> TensorSpec:
    """The specification of a value; its constant decides where type or shape are missing."""
    shape: ir.ShapeProtocol | None = value.shape
    dtype = value.dtype
    if value.const_value is not None:
        shape = shape if shape is not None else value.const_value.shape
        dtype = dtype if dtype is not None else value.const_value.dtype
    return TensorSpec(value.name or "", shape_of(shape), dtype_name(dtype), shape is not None)


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of a constant: an initializer, or numbers from a ``Constant`` node; else None.

    (``onnx_ir.convenience.get_const_tensor`` raises for texts that are not ASCII.)
    """
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain != "":
        return None
    for name, attribute in node.attributes.items():
        if name == "value" and attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor()
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.array(attribute.value, dtype=np.float32), name=value.name)
        if name in ("value_int", "value_ints"):
            return ir.tensor(np.array(attribute.value, dtype=np.int64), name=value.name)
    return None
