"""One node of a custom operator, computed by the user's class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import SimulationError
from engine.base.text import sanitize, shape_text
from engine.graph.ir.custom import CustomOperator, CustomOperators, is_custom
from engine.graph.ir.custom_shapes import node_label, operator_errors
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import TensorSpec, spec_of


def has_custom(graph: Graph) -> bool:
    """Whether a node of the graph is none of ONNX's."""
    return any(is_custom(node) for node in graph.nodes)


def require_compute(graph: Graph) -> None:
    """Check that every custom operator of a graph can run, before anything does.

    Raises:
        SimulationError: one is opaque or not registered; names operator, node and remedy.
    """
    for node in graph.nodes:
        operator = graph.operators.get(node.op_type)
        if is_custom(node) and (operator is None or operator.compute is None):
            raise _cannot_run(operator, node)


def _cannot_run(operator: CustomOperator | None, node: ir.Node) -> SimulationError:
    name, op = sanitize(node.name or "", 120), sanitize(node.op_type, 80)
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
        operator = operators.get(node.op_type)
        if operator is None or operator.compute is None:
            raise _cannot_run(operator, node)
        self._operator = operator
        self._compute = operator.compute
        self._node: onnx.NodeProto = ir.to_proto(node)
        self._outputs = [
            (spec_of(value), None if value.dtype is None else np.dtype(value.dtype.numpy()))
            for value in node.outputs
        ]
        self.inputs = tuple(self._node.input)
        self.outputs = tuple(self._node.output)

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Output name -> array, of the graph's dtype and shape.

        Raises:
            SimulationError: the class raised, or what it gave does not fit.
        """
        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        inputs = [np.array(arrays[name]) if name else None for name in self.inputs]
        with operator_errors(self._operator, node, "compute", SimulationError):
            result: Any = self._compute(node, inputs)
            listed = isinstance(result, tuple | list)
            arrays_given = [np.asarray(one) for one in result] if listed else []
        if not listed:
            raise self._wrong(f"it gave {_kind(result)}, not a list of arrays")
        if len(arrays_given) != len(self._outputs):
            raise self._wrong(
                f"it gave {len(arrays_given)} arrays for {len(self._outputs)} outputs"
            )
        return {
            spec.name: self._fitted(array, spec, dtype)
            for array, (spec, dtype) in zip(arrays_given, self._outputs, strict=True)
            if spec.name
        }

    def _fitted(
        self, array: np.ndarray, spec: TensorSpec, dtype: np.dtype[Any] | None
    ) -> np.ndarray:
        """One output in its declared dtype.

        Floats of another width are converted, as are integers to floats, and integers to integers
        where every value fits. A float where integers belong is refused.
        """
        where = f"output {sanitize(spec.name, 100)!r}"
        if not spec.accepts(array.shape):
            raise self._wrong(
                f"{where} has the shape {shape_text(array.shape)}; shape_infer said "
                f"{shape_text(spec.shape)}"
            )
        if dtype is None or array.dtype == dtype:
            return np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind in "iu" and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if array.size and (array.min() < limits.min or array.max() > limits.max):
                raise self._wrong(f"{where} has values that do not fit {spec.dtype}")
        elif array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise self._wrong(f"{where} is {array.dtype.name}; shape_infer said {spec.dtype}")
        return np.ascontiguousarray(array.astype(dtype)).reshape(array.shape)

    def _wrong(self, what: str) -> SimulationError:
        return SimulationError(
            f"{self._operator.origin}: compute at {node_label(self._node)}: {what}.",
            cause="compute must give a list with one array per output, as shape_infer says them.",
            remedy="Correct compute of the custom operator, or its shape_infer.",
        )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array"
    return sanitize(f"{type(value).__name__} {value!r}", 80)
