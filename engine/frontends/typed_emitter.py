"""An emitter that knows the shape of every tensor, for readers whose layers decide by shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np
import onnx

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize, shape_text
from engine.frontends.emit import COPIED, Emitter, Input, element_type
from engine.graph.ir.constants import IR_VERSION, OPSET
from engine.graph.ir.rewriting import static_shape

_MAX_ELEMENTS = 1 << 31
_SMALL_BYTES = 1024
"""What inference may read of a constant: sizes, axes, indices, and a factor for each axis."""


_UNCHANGED = frozenset(
    [
        "Abs",
        "Ceil",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Log",
        "LogSoftmax",
        "Mish",
        "Neg",
        "Relu",
        "Selu",
        "Sigmoid",
        "Softmax",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
    ]
)
"""Operators whose output is what their first input is; a half of most networks."""


class MisfitError(UnsupportedOperatorError):
    """A node whose inputs do not fit it, or whose output has no fixed size."""


def refuse(why: str) -> NoReturn:
    """Refuse the layer that is being converted; who asked for it adds its name and the remedy.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(why, remedy="Convert the model to ONNX and load that.")


class TypedEmitter(Emitter):
    """An emitter that knows shape and dtype of every tensor at once, by ONNX's inference.

    Args:
        title: of the graph.
        known: another one, which was given these layers before: its types are not inferred again.
    """

    def __init__(self, title: str, known: TypedEmitter | None = None) -> None:
        super().__init__(title)
        self._before = {} if known is None else known._types
        self._types: dict[str, onnx.TypeProto] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._small: dict[str, onnx.TensorProto] = {}
        self._imports = [onnx.helper.make_opsetid("", OPSET)]

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """Declare a graph input."""
        claimed = super().input(name, shape, dtype)
        self._types[claimed] = onnx.helper.make_tensor_type_proto(element_type(dtype), shape)
        return claimed

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """The name of a constant; small equal ones are one."""
        name = super().constant(array, hint)
        self._note(name, array)
        return name

    def _note(self, name: str, array: np.ndarray) -> None:
        """Note the type of a constant, and its value where inference may ask for it."""
        if name in self._types:
            return
        element = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        self._types[name] = onnx.helper.make_tensor_type_proto(element, array.shape)
        if array.nbytes <= _SMALL_BYTES and (array.dtype.kind == "i" or array.size <= 8):
            self._small[name] = onnx.numpy_helper.from_array(np.asarray(array), name)

    def nodes(
        self,
        op: str,
        inputs: Sequence[Input],
        outputs: Sequence[str],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node; refuse it where its shapes do not fit.

        Raises:
            MisfitError: ONNX's inference says why, or an output is absurdly large.
        """
        names = super().nodes(op, inputs, outputs, domain=domain, **attributes)
        self._types.update(self._inferred(self._proto.graph.node[-1]))
        for name in filter(None, names):
            self.shape(name)
        return names

    def _inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """The type of each output of a node whose inputs have theirs."""
        if all(name in self._before for name in node.output):
            return {name: self._before[name] for name in node.output}
        if node.op_type in _UNCHANGED:
            return {node.output[0]: self._types[node.input[0]]}
        if node.op_type == "MaxUnpool":  # inference does not read the shape that is given
            size = onnx.numpy_helper.to_array(self._small[node.input[2]])
            element = self._types[node.input[0]].tensor_type.elem_type
            kind = onnx.helper.make_tensor_type_proto(element, size.tolist())
            return {node.output[0]: kind}
        try:
            return onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(node.op_type, OPSET),
                node,
                {name: self._types[name] for name in node.input if name},
                {name: self._small[name] for name in node.input if name in self._small},
                opset_imports=self._imports,
                ir_version=IR_VERSION,
            )
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            text = sanitize(str(error).split(")", 1)[-1].strip(), 160)
            raise MisfitError(f"its inputs do not fit ({text})") from error

    def enlarged(self, x: str, scale: int, output: str = "", hint: str = "scales") -> str:
        """Pictures with every element copied ``scale`` times; ``hint`` names the factors."""
        scales = self.constant(np.array([1, 1, scale, scale], np.float32), hint)
        return self.node("Resize", [x, "", scales], output, **COPIED)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor.

        Raises:
            MisfitError: it depends on data, or is absurdly large.
        """
        if name in self._shapes:
            return self._shapes[name]
        shape = static_shape(self._types.get(name))
        if shape is None:
            raise MisfitError("the shape of its output depends on data")
        if min(shape, default=0) < 0 or prod(shape) > _MAX_ELEMENTS:
            raise MisfitError(f"an output of the shape {shape_text(shape)} is too large")
        self._shapes[name] = shape
        return shape

    def dtype(self, name: str) -> np.dtype:
        """The dtype of a tensor."""
        element = self._types[name].tensor_type.elem_type
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))


class ShapeProbe(TypedEmitter):
    """An emitter that keeps no weights: for the shapes of a model, and what of it is refused."""

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """A name of its own for each constant."""
        name = self._names.claim(hint)
        self._note(name, array)
        return name
