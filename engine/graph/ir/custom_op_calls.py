"""Calls of a custom operator's code: its errors and its results are checked.

An error in it is the user's, so that it must never look like one of this program: every message
names the class, the node and what was raised; the traceback goes to a log file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import EngineError, GraphError
from engine.base.paths import log_crash
from engine.base.text import sanitize
from engine.graph.ir.custom import CustomOperator

_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 40

Typed = tuple[tuple[int, ...], ir.DataType]


def node_label(node: onnx.NodeProto) -> str:
    """``node 'name' (operator)``."""
    return f"node {sanitize(node.name, 120)!r} ({sanitize(node.op_type, 80)})"


@contextmanager
def user_code_errors(
    operator: CustomOperator, node: onnx.NodeProto, method: str, kind: type[EngineError]
) -> Iterator[None]:
    """Turn whatever the user's code raises into an error of ``kind``; ``sys.exit`` too."""
    try:
        yield
    except (Exception, SystemExit) as error:
        log = log_crash(error)
        raise kind(
            f"{operator.origin}: {method} failed at {node_label(node)}: {type(error).__name__}: "
            f"{sanitize(str(error), 300)}",
            cause="The code of the custom operator raised it.",
            remedy="Correct that code"
            + (f"; the traceback is in {log}." if log is not None else "."),
        ) from error


def inferred_types(
    operator: CustomOperator,
    node: onnx.NodeProto,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[ir.DataType],
) -> list[Typed]:
    """What ``shape_infer`` says of the outputs of one node.

    The user's code gets ``node`` as ``onnx.NodeProto``, ``in_shapes`` as lists of int (-1 for a
    size that depends on data) and ``in_dtypes`` as ``numpy.dtype``, one of each per input; an input
    that is left out is ``[]`` and None. The vendor does not say what its dtypes are; these compare
    equal to ``np.float32`` and to ``'float32'``.

    Returns:
        Shape and type per output.

    Raises:
        GraphError: it raised, or what it gave does not fit the node.
    """
    if operator.shape_infer is None:
        raise GraphError(
            f"{operator.origin} does not say what shapes {node_label(node)} gives.",
            cause="The operator is opaque: only its name is known.",
            remedy="Register a class with shape_infer and compute for it.",
        )
    input_shapes = [list(shape) for shape in shapes]
    kinds = [None if d is ir.DataType.UNDEFINED else np.dtype(d.numpy()) for d in dtypes]
    with user_code_errors(operator, node, "shape_infer", GraphError):
        returned: Any = operator.shape_infer(_copy(node), input_shapes, kinds)
    answer = _Answer(operator, node)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise answer.wrong(f"it gave {_shown(returned)}, not (out_shapes, out_dtypes)")
    out_shapes = answer.listed(returned[0], "shapes")
    out_dtypes = answer.listed(returned[1], "dtypes")
    open_sizes = any(-1 in shape for shape in shapes)
    return [
        (answer.shape(shape, index, open_sizes=open_sizes), answer.dtype(dtype, index))
        for index, (shape, dtype) in enumerate(zip(out_shapes, out_dtypes, strict=True))
    ]


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node that user code may keep or change."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _shown(value: Any) -> str:
    return sanitize(repr(value), 100)


class _Answer:
    """Checks what ``shape_infer`` told of one node."""

    def __init__(self, operator: CustomOperator, node: onnx.NodeProto) -> None:
        self._operator = operator
        self._node = node

    def wrong(self, what: str) -> GraphError:
        """The error that says what does not fit."""
        return GraphError(
            f"{self._operator.origin}: shape_infer at {node_label(self._node)}: {what}.",
            cause="It must give a list of shapes and a list of dtypes, one of each per output.",
            remedy="Correct shape_infer of the custom operator.",
        )

    def listed(self, value: Any, what: str) -> list[Any]:
        """A list with an entry per output."""
        count = len(self._node.output)
        if not isinstance(value, list | tuple):
            raise self.wrong(f"its {what} are {_shown(value)}, no list")
        if len(value) != count:
            raise self.wrong(f"it gave {len(value)} {what} for {count} outputs")
        return list(value)

    def shape(self, value: Any, index: int, *, open_sizes: bool) -> tuple[int, ...]:
        """One shape; -1 only where an input has such a size."""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple) or len(value) > _MOST_DIMENSIONS:
            raise self.wrong(f"shape {index} is {_shown(value)}, no list of sizes")
        count = 1
        for size in value:
            whole = isinstance(size, int | np.integer) and not isinstance(size, bool | np.bool_)
            if not whole or size < (-1 if open_sizes else 0):
                raise self.wrong(f"shape {index} is {_shown(value)}: {_shown(size)} is not a size")
            count *= max(int(size), 1)
        if count > _MOST_ELEMENTS:
            raise self.wrong(f"shape {index} is {_shown(value)}, too large for a tensor")
        return tuple(int(size) for size in value)

    def dtype(self, value: Any, index: int) -> ir.DataType:
        """One type: what numpy takes as one, or a number of ``onnx.TensorProto``."""
        try:
            if isinstance(value, int) and not isinstance(value, bool):
                dtype = ir.DataType(value)
            else:
                if value is None:  # float64 to numpy
                    raise TypeError
                dtype = ir.DataType.from_numpy(np.dtype(value))
        except (TypeError, ValueError) as error:
            raise self.wrong(f"dtype {index} is {_shown(value)}, no type of a tensor") from error
        if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            raise self.wrong(f"dtype {index} is {_shown(value)}, no type of numbers")
        return dtype
