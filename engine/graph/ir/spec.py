"""What is known of one tensor: name, shape, dtype, numbers, readers; and making one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize, shape_text


@dataclass(frozen=True)
class TensorSpec:
    """One tensor.

    Attributes:
        name: its name in the graph.
        shape: its dimensions; -1 for one that is unknown or dynamic. A tensor of unknown rank has
            the shape ``(-1,)`` and ``rank_known`` false.
        dtype: numpy's name (``float32``, ``int8``); ``ml_dtypes``' for types that numpy lacks
            (``int4``, ``bfloat16``); ``unknown`` before shape inference.
        quant: (scale, zero point) of an 8-bit graph input whose values stand for real ones, as
            models that were quantized elsewhere have; else None.
        mask: whether a graph input goes nowhere but, through sums, into Softmax, as an attention
            mask does: there minus infinity is a value like others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rank_known: bool = True
    quant: tuple[float, int] | None = None
    mask: bool = False

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

    def accepts(self, shape: tuple[int, ...]) -> bool:
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


_CARRIERS = frozenset({"Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"})
_MAX_CARRIERS = 8


def input_spec(value: ir.Value) -> TensorSpec:
    """:func:`spec_of` a graph input, with the parameters that dequantize it where it has some, and
    whether it is a mask.
    """
    spec = spec_of(value)
    if spec.dtype in ("float32", "float16", "float64"):
        return replace(spec, mask=_is_mask(value))
    if spec.dtype not in ("int8", "uint8"):
        return spec
    for _ in range(_MAX_CARRIERS):
        readers = value.consumers()
        if len(readers) != 1:
            break
        reader = readers[0]
        if reader.op_type == "DequantizeLinear" and reader.domain == "":
            return replace(spec, quant=_parameters(reader))
        if reader.op_type not in _CARRIERS:
            break
        value = reader.outputs[0]
    return spec


_TO_SOFTMAX = _CARRIERS | {"Add", "Cast", "Concat", "Expand", "Gather", "Slice", "Tile", "Where"}
_MAX_READERS = 4096


def _is_mask(value: ir.Value) -> bool:
    """Whether a tensor reaches nothing but Softmax, through sums and what moves values."""
    seen: set[ir.Node] = set()
    waiting = [value]
    reached = False
    while waiting:
        current = waiting.pop()
        if current.is_graph_output():
            return False
        for reader in current.consumers():
            if reader in seen:
                continue
            seen.add(reader)
            if reader.op_type == "Softmax":
                reached = True
            elif reader.op_type in _TO_SOFTMAX and len(seen) < _MAX_READERS:
                waiting.extend(reader.outputs)
            else:
                return False
    return reached


def _parameters(node: ir.Node) -> tuple[float, int] | None:
    """(scale, zero point) of a DequantizeLinear with one of each."""
    scale = constant_of(node.inputs[1])
    zero = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    if scale is None or scale.size != 1 or (zero is None and len(node.inputs) > 2):
        return None
    point = 0 if zero is None else int(zero.numpy().reshape(-1)[0])
    return float(scale.numpy().reshape(-1)[0]), point


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
            return ir.Tensor(np.array(attribute.value, dtype=np.float32), name=value.name)
        if name in ("value_int", "value_ints"):
            return ir.Tensor(np.array(attribute.value, dtype=np.int64), name=value.name)
    return None


def array_of(value: ir.Value | None) -> np.ndarray | None:
    """The array of :func:`constant_of`."""
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def numbers_of(value: ir.Value | None) -> np.ndarray:
    """:func:`array_of` a value that has to be a constant.

    Raises:
        GraphError: it is none; names it.
    """
    array = array_of(value)
    if array is None:
        raise GraphError(
            f"{sanitize(name_of(value))!r} is not a constant.", remedy="Export the model again."
        )
    return array


def name_of(value: ir.Value | None) -> str:
    """A value's name; empty for an input that is left out."""
    return "" if value is None else value.name or ""


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """An input, or None where it is left out."""
    inputs = node.inputs
    return inputs[index] if index < len(inputs) else None


def set_input(node: ir.Node, index: int, value: ir.Value) -> None:
    """Let a node read a value in a place where it may have read none."""
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def maker_of(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that computes a value; None where none does, or another one than of ``ops``."""
    node = None if value is None else value.producer()
    return None if node is None or (ops and node.op_type not in ops) else node


_INFINITE = float(np.finfo(np.float32).max)


def clamp_bounds(node: ir.Node) -> tuple[float, float] | None:
    """The bounds of a Relu or Clip; None for others, and where they are not a pair in order."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    if node.op_type != "Clip":
        return None
    bounds = []
    for index, default in ((1, -np.inf), (2, np.inf)):
        limit = input_at(node, index)
        array = array_of(limit)
        if limit is not None and (array is None or array.size != 1):
            return None  # computed
        number = float(default if array is None else array.reshape(-1)[0])
        open_end = abs(number) >= _INFINITE and number * default > 0
        bounds.append(float(default) if open_end else number)
    return (bounds[0], bounds[1]) if bounds[0] <= bounds[1] else None


def makers_of(value: ir.Value | None, *ops: str) -> list[ir.Node]:
    """The chain of first inputs that computes a value, one node of each of ``ops``, backwards.

    Empty where another chain does.
    """
    chain: list[ir.Node] = []
    for op in ops:
        node = maker_of(value, op)
        if node is None or not node.inputs:
            return []
        chain.append(node)
        value = node.inputs[0]
    return chain


def only_reader(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that alone reads a value, once; None where it is another one than of ``ops``."""
    if value is None or value.is_graph_output():
        return None
    uses = value.uses()
    node = next(iter(uses)).node if len(uses) == 1 else None
    return None if node is None or (ops and node.op_type not in ops) else node


def ancestors(
    values: Iterable[ir.Value], allowed: Container[ir.Node] | None = None
) -> set[ir.Node]:
    """The nodes that values depend on; of ``allowed`` ones alone where it is given."""
    nodes: set[ir.Node] = set()
    waiting = list(values)
    while waiting:
        maker = waiting.pop().producer()
        if maker is None or maker in nodes or (allowed is not None and maker not in allowed):
            continue
        nodes.add(maker)
        waiting.extend(value for value in maker.inputs if value is not None)
    return nodes


def new_node(
    op: str,
    inputs: Sequence[ir.Value | None],
    output: ir.Value,
    name: str,
    attributes: Mapping[str, int | float | str | Sequence[int]] | None = None,
    *,
    domain: str = "",
) -> ir.Node:
    """A node of one output, in no graph yet."""
    converted = ir.convenience.convert_attributes(dict(attributes or {}))
    return ir.Node(domain, op, inputs, converted, outputs=[output], name=name)


def new_value(name: str, dtype: ir.DataType, shape: ir.Shape | None) -> ir.Value:
    """What a node may write."""
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=shape)


def add_constant(
    graph: ir.Graph, name: str, array: np.ndarray, dtype: ir.DataType | None = None
) -> ir.Value:
    """Make an initializer of a graph; ``dtype`` where numpy has no such type (4 bits)."""
    tensor = ir.Tensor(array, dtype=dtype, name=name)
    value = ir.Value(
        name=name,
        shape=ir.Shape(array.shape),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
    graph.register_initializer(value)
    return value
