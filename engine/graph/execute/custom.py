"""One node of a custom operator, computed by the user's class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import SimulationError
from engine.base.text import printable, shape_text
from engine.graph.ir.custom import CustomOperator, CustomOperators, is_custom
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import TensorSpec, spec_of
from engine.graph.ir.usercode import guarded, node_words

__all__ = ["CustomCall", "has_custom", "require_compute"]


def has_custom(graph: Graph) -> bool:
    """Whether a node of the graph is none of ONNX's."""
    return any(is_custom(node) for node in graph.nodes)


def require_compute(graph: Graph) -> None:
    """Check that every custom operator of a graph can run, before anything does.

    Raises:
        SimulationError: one is opaque or not registered; names operator, node and remedy.
    """
    for node in graph.nodes:
        if is_custom(node) and _computing(graph.operators, node) is None:
            raise _cannot_run(graph.operators.get(node.op_type), node)


def _computing(operators: CustomOperators, node: ir.Node) -> CustomOperator | None:
    operator = operators.get(node.op_type)
    return operator if operator is not None and operator.compute is not None else None


def _cannot_run(operator: CustomOperator | None, node: ir.Node) -> SimulationError:
    name, op = printable(node.name or "", 120), printable(node.op_type, 80)
    if operator is not None:
        return SimulationError(
            f"Node {name!r} has the custom operator {op}, which does not run here.",
            cause=f"It comes from {operator.origin}: such a package holds code for the NPU alone.",
            remedy=f"Register a class with op_type = {op!r}, shape_infer and compute "
            "(reg_custom_op, or custom_ops in the recipe), or cut the graph there with 'outputs'.",
        )
    return SimulationError(
        f"Node {name!r} has the custom operator {op}, for which no class is registered.",
        cause="A model or a container holds no code: its class must be given beside it.",
        remedy=f"Register a class with op_type = {op!r}, shape_infer and compute "
        "(reg_custom_op, or custom_ops in the recipe).",
    )


class CustomCall:
    """A node as a call of its class.

    The class gets ``node`` as ``onnx.NodeProto`` and an array per input, of the dtype that the
    graph says and its own to change; None for an input that is left out.

    Args:
        node: of a graph whose operators are registered.
        operators: of that graph.

    Raises:
        SimulationError: its operator does not run here.
    """

    def __init__(self, node: ir.Node, operators: CustomOperators) -> None:
        operator = _computing(operators, node)
        if operator is None:
            raise _cannot_run(operators.get(node.op_type), node)
        self._operator = operator
        self._node: onnx.NodeProto = ir.to_proto(node)
        self._outputs = [spec_of(value) for value in node.outputs]
        self.inputs = tuple(self._node.input)
        self.outputs = tuple(self._node.output)

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Output name -> array, of the graph's dtype and shape.

        Raises:
            SimulationError: the class raised, or what it gave does not fit.
        """
        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        given = [np.array(arrays[name]) if name else None for name in self.inputs]
        with guarded(self._operator, node, "compute", SimulationError):
            found: Any = self._operator.compute(node, given) if self._operator.compute else ()
        if not isinstance(found, tuple | list):
            raise self._wrong(f"it gave {_kind(found)}, not a list of arrays")
        if len(found) != len(self._outputs):
            raise self._wrong(f"it gave {len(found)} arrays for {len(self._outputs)} outputs")
        return {
            spec.name: self._fitted(array, spec)
            for array, spec in zip(found, self._outputs, strict=True)
            if spec.name
        }

    def _fitted(self, value: Any, spec: TensorSpec) -> np.ndarray:
        """One output in its declared dtype.

        A wider or narrower type of the same kind is converted, as are integers to floats;
        integers only where every value fits. A float where integers belong is refused.
        """
        where = f"output {printable(spec.name, 100)!r}"
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        fits = len(array.shape) == len(spec.shape) and all(
            want in (-1, have) for want, have in zip(spec.shape, array.shape, strict=True)
        )
        if spec.rank_known and not fits:
            raise self._wrong(
                f"{where} has the shape {shape_text(array.shape)}; shape_infer said "
                f"{shape_text(spec.shape)}"
            )
        if spec.dtype in ("unknown", array.dtype.name):
            return np.ascontiguousarray(array).reshape(array.shape)
        wanted = np.dtype(ir.DataType[_IR_NAMES.get(spec.dtype, spec.dtype).upper()].numpy())
        if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, wanted, "same_kind"):
            raise self._wrong(f"{where} is {array.dtype.name}; shape_infer said {spec.dtype}")
        if wanted.kind in "iu" and array.size and array.dtype.kind in "iu":
            limits = np.iinfo(wanted)
            if int(array.min()) < limits.min or int(array.max()) > limits.max:
                raise self._wrong(f"{where} has values that do not fit {spec.dtype}")
        return np.ascontiguousarray(array.astype(wanted)).reshape(array.shape)

    def _wrong(self, what: str) -> SimulationError:
        return SimulationError(
            f"{self._operator.origin}: compute at {node_words(self._node)}: {what}.",
            cause="compute must give a list with one array per output, as shape_infer says them.",
            remedy="Correct compute of the custom operator, or its shape_infer.",
        )


_IR_NAMES = {"float32": "float", "float64": "double"}
"""Names of numpy that ONNX has other ones for."""


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array"
    return printable(f"{type(value).__name__} {value!r}", 80)
