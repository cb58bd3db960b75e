"""What a function that converts an operator of MXNet is given: inputs, attributes, a writer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.emit import Emitter, element_type
from engine.frontends.formula import Formula
from engine.frontends.mxnet.files import Node
from engine.graph.ir.constants import IR_VERSION, OPSET

__all__ = ["Call", "Converter", "Result", "Value", "Writer", "named", "refuse"]

Value = str | np.ndarray
"""A tensor that is computed (its name), or an array that is known."""
Result = Value | list[Value]
Converter = Callable[["Call"], Result]

MAX_ELEMENTS = 1 << 31
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def refuse(why: str) -> NoReturn:
    """Refuse the node that is being converted; who calls the function adds its name."""
    raise UnsupportedOperatorError(
        why, remedy="Cut the model before it (outputs), or export the model to ONNX."
    )


def named(rows: Mapping[str, Converter]) -> dict[str, Converter]:
    """A row for each name of an operator, where a key has several of them with blanks between."""
    return {name: converter for names, converter in rows.items() for name in names.split()}


class Writer:
    """An emitter that knows the shape and dtype of every tensor at once, by ONNX's inference.

    Args:
        emitter: writes the nodes.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self._types: dict[str, onnx.TypeProto] = {}
        self._small: dict[str, onnx.TensorProto] = {}
        self._opset = [onnx.helper.make_opsetid("", OPSET)]

    def input(self, name: str, shape: Sequence[int], dtype: str) -> str:
        """Declare a graph input."""
        claimed = self.emitter.input(name, shape, dtype)
        self._types[claimed] = onnx.helper.make_tensor_type_proto(element_type(dtype), shape)
        return claimed

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """The name of a constant."""
        name = self.emitter.constant(array, hint)
        if name not in self._types:
            element = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
            self._types[name] = onnx.helper.make_tensor_type_proto(element, array.shape)
            if array.nbytes <= 1024:
                self._small[name] = onnx.numpy_helper.from_array(np.asarray(array), name)
        return name

    def ints(self, *values: int) -> str:
        """The name of an int64 vector."""
        return self.constant(np.array(values, np.int64), "ints")

    def scalar(self, value: float, dtype: str = "float32") -> str:
        """The name of a constant without dimensions."""
        return self.constant(np.array(value, dtype), "scalar")

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        return self.nodes(op, inputs, [output], **attributes)[0]

    def nodes(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """Add a node, refuse it where its shapes do not fit.

        Raises:
            UnsupportedOperatorError: ONNX's inference says why, or an output is absurdly large.
        """
        if outputs == [""]:
            names = [self.emitter.node(op, inputs, **attributes)]
        else:
            names = self.emitter.nodes(op, inputs, outputs, **attributes)
        given = {name: value for name, value in attributes.items() if value is not None}
        node = onnx.helper.make_node(op, list(inputs), names, **given)
        try:
            found = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(op, OPSET),
                node,
                {name: self._types[name] for name in inputs if name},
                {name: self._small[name] for name in inputs if name in self._small},
                opset_imports=self._opset,
                ir_version=IR_VERSION,
            )
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            text = sanitize(str(error).split(")", 1)[-1].strip(), 160)
            refuse(f"its inputs do not fit ({text})")
        self._types.update(found)
        for name in names:
            if name:
                self.shape(name)
        return names

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor.

        Raises:
            UnsupportedOperatorError: it depends on data, or is absurdly large.
        """
        tensor = self._types[name].tensor_type if name in self._types else None
        if tensor is None or not tensor.HasField("shape"):
            refuse("the shape of its output depends on data")
        dims = tensor.shape.dim
        if any(not dim.HasField("dim_value") for dim in dims):
            refuse("the shape of its output depends on data")
        shape = tuple(dim.dim_value for dim in dims)
        count = 1
        for size in shape:
            count *= size
        if count > MAX_ELEMENTS or min(shape, default=0) < 0:
            refuse(f"an output would have the shape {shape}")
        return shape

    def dtype(self, name: str) -> np.dtype:
        """The dtype of a tensor."""
        element = self._types[name].tensor_type.elem_type
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))


@dataclass(frozen=True)
class _Computing:
    """Writes formulas whose numbers are of the dtype of a tensor."""

    w: Writer
    dtype: np.dtype

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        return self.w.node(op, inputs, output, **attributes)

    def scalar(self, value: float) -> str:
        if self.dtype.kind in "iu" and value != int(value):
            refuse(f"it combines whole numbers with {value}")
        return self.w.scalar(value, self.dtype.name)

    def ints(self, *values: int) -> str:
        return self.w.ints(*values)


@dataclass
class Call:
    """One node while it is converted.

    Attributes:
        w: writes operators.
        node: the node.
        values: of its inputs.
        tensor: the name of an input, which becomes a constant where it is known.
        states: arrays that older files do not list as inputs, by the last part of their name.
        hints: names of its outputs.
    """

    w: Writer
    node: Node
    values: list[Value]
    tensor: Callable[[int], str]
    states: Callable[[str], np.ndarray | None]
    hints: Callable[[int, int], str]

    # ---------------------------------------------------------------------------- inputs
    def x(self, index: int = 0) -> str:
        """An input as a tensor."""
        if index >= len(self.values):
            refuse(f"it has {len(self.values)} inputs; input {index} is missing")
        value = self.values[index]
        return value if isinstance(value, str) else self.tensor(index)

    def xs(self) -> list[str]:
        """All inputs as tensors."""
        if not self.values:
            refuse("it has no inputs")
        return [self.x(index) for index in range(len(self.values))]

    def array(self, index: int) -> np.ndarray:
        """An input that must be known."""
        value = self.values[index] if index < len(self.values) else None
        if not isinstance(value, np.ndarray):
            refuse(f"its input {index} is not in the file of parameters")
        return value

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an input."""
        value = self.values[index] if index < len(self.values) else self.x(index)
        return value.shape if isinstance(value, np.ndarray) else self.w.shape(value)

    def axis(self, key: str, default: int, rank: int) -> int:
        """An attribute that is an axis, counted from the front."""
        axis = self.whole(key, default)
        if not -rank <= axis < rank:
            refuse(f"its {key} is {axis}, its input has {rank} dimensions")
        return axis % rank

    def formulas(self, count: int) -> list[Formula]:
        """The first inputs to compute with; numbers beside them are of the first one's dtype."""
        at = _Computing(self.w, self.w.dtype(self.x()))
        return [Formula.of(at, self.x(index)) for index in range(count)]

    # ----------------------------------------------------------------------------- output
    def out(self, index: int = 0, count: int = 1) -> str:
        """The wished name of an output."""
        return self.hints(index, count)

    def op(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add the node whose output is the result."""
        return self.w.node(op, inputs, self.out(), **attributes)

    # ------------------------------------------------------------------------- attributes
    def text(self, key: str, default: str = "") -> str:
        """An attribute as text; ``None`` counts as not given."""
        value = self.node.attributes.get(key, "")
        return default if value in ("", "None") else value

    def given(self, key: str) -> bool:
        """Whether an attribute is there and not ``None``."""
        return self.node.attributes.get(key, "None") not in ("", "None")

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return self.text(key, str(default)).lower() in ("true", "1")

    def real(self, key: str, default: float) -> float:
        """A number."""
        return self._number(key, self.text(key, repr(default)))

    def whole(self, key: str, default: int) -> int:
        """A whole number."""
        return self._whole(key, self.text(key, str(default)))

    def entries(self, key: str, default: str = "()") -> list[str]:
        """The entries of a list as text; of a lone number that one."""
        inner = self.text(key, default).strip("()[] ")
        return [item.strip() for item in inner.split(",", 64) if item.strip()]

    def wholes(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """A list of whole numbers."""
        if not self.given(key):
            return list(default)
        return [self._whole(key, item.rstrip("L")) for item in self.entries(key)]

    def reals(self, key: str, default: Sequence[float] = ()) -> list[float]:
        """A list of numbers."""
        if not self.given(key):
            return list(default)
        return [self._number(key, item) for item in self.entries(key)]

    def _number(self, key: str, text: str) -> float:
        if _NUMBER.fullmatch(text.strip()) is None:
            refuse(f"its {key} is {sanitize(text, 60)!r}, no number")
        return float(text)

    def _whole(self, key: str, text: str) -> int:
        number = {"True": 1.0, "False": 0.0}.get(text)
        number = self._number(key, text) if number is None else number
        if not -(1 << 62) < number < 1 << 62:
            refuse(f"its {key} is {sanitize(text, 60)}")
        return int(number)
