"""What readers share: an emitter that knows every shape, and checks of what a user lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import onnx

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.frontends.emit import Emitter, element_type
from engine.frontends.loaded import digest
from engine.graph.ir.constants import IR_VERSION, OPSET
from engine.graph.ir.rewriting import static_shape

__all__ = [
    "MisfitError",
    "TypedEmitter",
    "batch_fixed",
    "input_size",
    "left_out",
    "listed",
    "reached",
    "read_file",
    "refuse",
    "require_once",
    "unused_input",
]

_Key = TypeVar("_Key", bound=Hashable)

_MAX_ELEMENTS = 1 << 31
_SMALL_BYTES = 1024
"""What inference may read of a constant: sizes, axes, indices."""


class MisfitError(UnsupportedOperatorError):
    """A node whose inputs do not fit it, or whose output has no fixed size."""


def refuse(why: str) -> NoReturn:
    """Refuse the layer that is being converted; who asked for it adds its name and the remedy.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(why, remedy="Convert the model to ONNX and load that.")


class TypedEmitter(Emitter):
    """An emitter that knows shape and dtype of every tensor at once, by ONNX's inference."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._types: dict[str, onnx.TypeProto] = {}
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
        if array.nbytes <= _SMALL_BYTES:
            self._small[name] = onnx.numpy_helper.from_array(np.asarray(array), name)

    def nodes(
        self,
        op: str,
        inputs: Sequence[str],
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
        try:
            types = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(op, OPSET),
                self._proto.graph.node[-1],
                {name: self._types[name] for name in inputs if name},
                {name: self._small[name] for name in inputs if name in self._small},
                opset_imports=self._imports,
                ir_version=IR_VERSION,
            )
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            text = sanitize(str(error).split(")", 1)[-1].strip(), 160)
            raise MisfitError(f"its inputs do not fit ({text})") from error
        self._types.update(types)
        if op == "MaxUnpool":  # inference does not read the shape that is given
            size = onnx.numpy_helper.to_array(self._small[inputs[2]])
            element = self._types[inputs[0]].tensor_type.elem_type
            self._types[names[0]] = onnx.helper.make_tensor_type_proto(element, size.tolist())
        for name in filter(None, names):
            self.shape(name)
        return names

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor.

        Raises:
            MisfitError: it depends on data, or is absurdly large.
        """
        shape = static_shape(self._types.get(name))
        if shape is None:
            raise MisfitError("the shape of its output depends on data")
        if min(shape, default=0) < 0 or prod(shape) > _MAX_ELEMENTS:
            raise MisfitError(f"an output of the shape {shape_text(shape)} is too large")
        return shape

    def dtype(self, name: str) -> np.dtype:
        """The dtype of a tensor."""
        element = self._types[name].tensor_type.elem_type
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names for a message, in quotation marks."""
    return ", ".join(repr(sanitize(name, 100)) for name in list(names)[:most])


def require_once(option: str, names: Sequence[str], meant: Sequence[Hashable]) -> None:
    """Refuse an empty list of tensors, and one that names a tensor twice.

    Args:
        option: ``inputs`` or ``outputs``.
        names: as the user lists them.
        meant: what each of them means.

    Raises:
        SourceModelError: says which.
    """
    if not names:
        raise SourceModelError(
            f"The list of {option} is empty.", remedy="Leave it out for the model's own."
        )
    for index, (name, tensor) in enumerate(zip(names, meant, strict=True)):
        if tensor in meant[:index]:
            raise SourceModelError(
                f"{sanitize(name)!r} is listed twice in {option}.", remedy="List each tensor once."
            )


def left_out(names: Iterable[str]) -> SourceModelError:
    """The error for inputs that the outputs need and the list of inputs does not have."""
    return SourceModelError(
        f"The outputs need {listed(names)}, which the list of inputs leaves out.",
        cause="The chosen inputs do not cut every path from the model's own inputs.",
        remedy="Add it to 'inputs', or give it a constant with 'input_initial_val'.",
    )


def unused_input(name: str) -> Finding:
    """The finding for an input that was chosen and that no output needs."""
    return Finding(
        code="unused-input",
        severity="warning",
        where=sanitize(name),
        what=f"No output needs the input {sanitize(name)!r}.",
        remedy="Leave it out of 'inputs'.",
    )


def input_size(
    name: str,
    size: Sequence[Any],
    rank: int | None,
    shown: str = "",
    most: int = 1 << 24,
    whole: int = 1 << 31,
) -> tuple[int, ...]:
    """The size of an input as a user gives it; where only the batch lacks, it is 1.

    Args:
        name: of the input.
        size: what the user wrote.
        rank: how many dimensions the input has; None where nobody knows.
        shown: the declared shape, for the message.
        most: the largest dimension that is taken.
        whole: the largest number of elements.

    Raises:
        SourceModelError: no whole numbers of at least 1, too many numbers, another rank.
    """
    numbers = list(size)
    fits = all(isinstance(n, int | np.integer) and 1 <= n <= most for n in numbers)
    if not fits or (rank is None and not numbers) or prod(map(int, numbers)) > whole:
        raise SourceModelError(
            f"The size of input {sanitize(name)!r} is {numbers}: every entry must be a whole "
            "number of at least 1, and the whole no more than a memory holds.",
            remedy="Write it as [[1, 3, 224, 224]].",
        )
    shape = tuple(map(int, numbers))
    if rank is not None and len(shape) == rank - 1:
        shape = (1, *shape)
    if rank is not None and len(shape) != rank:
        raise SourceModelError(
            f"The size {numbers} of input {sanitize(name)!r} has {len(numbers)} dimensions; the "
            f"model's input has {rank}{f': {shown}' if shown else ''}.",
            remedy="Write it as [[1, 3, 224, 224]], with the batch, one list per input.",
        )
    return shape


def batch_fixed(name: str, shown: str) -> Finding:
    """The finding for an open batch that was set to 1; ``shown`` is the declared shape."""
    return Finding(
        code="dynamic-batch-fixed",
        severity="info",
        where=sanitize(name),
        what=f"The first axis of input {sanitize(name)!r} is dynamic ({shown}); it was set to 1.",
        cause="The model was exported with a dynamic batch; an NPU needs fixed sizes.",
        remedy="Give 'input_size_list' for another batch.",
    )


def reached(ends: Iterable[_Key], sources: Callable[[_Key], Iterable[_Key]]) -> set[_Key]:
    """All that some ends need, they too; ``sources`` says what one reads."""
    seen: set[_Key] = set()
    waiting = list(ends)
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting += sources(key)
    return seen


def read_file(path: Path, limit: int, what: str) -> tuple[bytes, tuple[str, str]]:
    """The bytes of a file, and its name with its SHA-256.

    Raises:
        SourceModelError: missing, unreadable, or above ``limit`` bytes.
    """
    data = read_bounded(path, limit, what)
    return data, digest(path, data)
