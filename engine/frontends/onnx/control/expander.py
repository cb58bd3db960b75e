"""Walk a graph and write it again without control flow, sequences and optionals."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.onnx.control.emission import Emission, fault
from engine.graph.ir.graph import no_collection
from engine.graph.ir.naming import STANDARD_DOMAINS

MAX_STEPS = 12_000
"""Nodes of branches and iterations together, before constants are folded."""


@dataclass(frozen=True)
class TensorSequence:
    """A sequence of ONNX: the names of its tensors."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class TensorList:
    """A tensor list of TensorFlow, as tf2onnx leaves it in a graph.

    Attributes:
        items: the name of each element; None where it was never set, which reads as zeros.
        shape: of an element, where ``TensorListReserve`` tells it; negative numbers are open.
        element: ONNX's number of the type of the elements.
    """

    items: tuple[str | None, ...]
    shape: tuple[int, ...] | None
    element: int


@dataclass(frozen=True)
class Maybe:
    """An optional of ONNX: what it holds, or None."""

    item: str | TensorSequence | None


Value = str | TensorSequence | TensorList | Maybe
"""A tensor is its name in the graph that is emitted; the empty name is an input left out."""


Scope = ChainMap[str, Value]
"""Names of a graph and of the graphs around it, and what they stand for."""

Handler = Callable[["Expander", onnx.NodeProto, Scope], Sequence[Value]]

_HANDLERS: dict[str, Handler] = {}


def handles(op: str) -> Callable[[Handler], Handler]:
    """Register what resolves an operator: it gives a value for each output of the node."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[op] = handler
        return handler

    return register


def is_structural(node: onnx.NodeProto) -> bool:
    """Whether a node is one that :func:`expand` resolves."""
    return node.op_type in _HANDLERS and node.domain in STANDARD_DOMAINS


def expand(
    graph: onnx.GraphProto, opset: int, source: str, *, always: bool = False
) -> list[str] | None:
    """Resolve control flow, sequences and optionals of a graph, in place.

    Args:
        graph: cleaned, in order, with inputs of fixed sizes.
        opset: its version of ONNX's operators.
        source: how messages call the model.
        always: fold constants and sizes even where there is nothing to resolve.

    Returns:
        None where there was nothing to do; else the inputs of one element that decide a branch,
        both of which are computed.

    Raises:
        UnsupportedOperatorError: what cannot be resolved; names the node and the reason.
    """
    if not always and not any(map(is_structural, graph.node)):
        return None
    with no_collection():
        expander = Expander(graph, opset, source)
        expander.run(graph)
    return list(expander.switches)


class Expander:
    """One graph on its way to a plain one.

    Attributes:
        emission: the graph that comes out.
        switches: inputs that decide a branch, both of which stay.
    """

    def __init__(self, graph: onnx.GraphProto, opset: int, source: str) -> None:
        taken = {name for node in graph.node for name in (*node.input, *node.output)}
        taken.update(value.name for value in (*graph.input, *graph.output))
        taken.update(tensor.name for tensor in graph.initializer)
        self.emission = Emission(opset, taken, {node.name for node in graph.node})
        self.switches: dict[str, None] = {}
        self._source = source
        self._path: list[onnx.NodeProto] = []
        self._guards: list[onnx.NodeProto] = []
        self._steps = 0

    # -- the whole graph ---------------------------------------------------------------------

    def run(self, graph: onnx.GraphProto) -> None:
        """Resolve ``graph`` and write the result into it."""
        scope: Scope = ChainMap()
        for value in graph.input:
            self.emission.declare(value)
            scope[value.name] = value.name
        for tensor in graph.initializer:
            self.emission.note(tensor, tensor.name)
            scope[tensor.name] = tensor.name
        for node in graph.node:
            self._node(node, scope, inner=False)
        self._write(graph, scope)

    def _write(self, graph: onnx.GraphProto, scope: Scope) -> None:
        names = self._outputs(graph, scope)
        outputs = [value.name for value in graph.output]
        nodes = self._alive({*outputs, *names})
        for node in nodes:
            for field in (node.input, node.output):
                for index, name in enumerate(field):
                    if name in names:
                        field[index] = names[name]
        used = dict.fromkeys(name for node in nodes for name in node.input)
        constants = self.emission.initializers(used | dict.fromkeys(outputs))
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        graph.initializer.extend(constants)

    def _outputs(self, graph: onnx.GraphProto, scope: Scope) -> dict[str, str]:
        """Let every output of the graph be computed under its name; gives the renamings for it."""
        names: dict[str, str] = {}
        for value in graph.output:
            held = scope.get(value.name)
            if held is None or held == value.name:
                continue  # the checker tells of an output that nothing computes
            name = self.as_tensor(held, f"the output {sanitize(value.name, 100)!r}")
            if name in self.emission.fresh and name not in names:
                names[name] = value.name
            else:
                node = onnx.helper.make_node("Identity", [name], [value.name], value.name)
                self.emission.nodes.append(node)
        return names

    def _alive(self, names: set[str]) -> list[onnx.NodeProto]:
        """The nodes without those of branches and bodies that nothing reads."""
        live, kept = set(names), []
        for node in reversed(self.emission.nodes):
            inner = any(name in self.emission.fresh for name in node.output)
            if not inner or any(name in live for name in node.output):
                kept.append(node)
                live.update(node.input)
        return kept[::-1]

    # -- nodes -------------------------------------------------------------------------------

    def _node(self, node: onnx.NodeProto, scope: Scope, *, inner: bool) -> None:
        if inner:
            self.step()
        if is_structural(node):
            self._path.append(node)
            values = _HANDLERS[node.op_type](self, node, scope)
            self._path.pop()
        else:
            values = self._plain(node, scope, inner=inner)
        for name, value in zip(node.output, values, strict=False):
            scope[name] = value

    def _plain(self, node: onnx.NodeProto, scope: Scope, *, inner: bool) -> Sequence[Value]:
        """A node that stays: its inputs and, inside a branch or body, its outputs get new names."""
        if node.op_type == "Identity" and len(node.input) == 1:
            value = self.value(scope, node.input[0])
            if inner or not isinstance(value, str):
                return [value]
        copy = deepcopy(node)
        for index, name in enumerate(node.input):
            where = f"node {sanitize(node.name or node.op_type, 100)!r} ({node.op_type})"
            copy.input[index] = self.as_tensor(self.value(scope, name), where)
        if inner:
            for index, name in enumerate(node.output):
                copy.output[index] = self.emission.claim(name) if name else ""
            copy.name = "/".join([*(outer.name for outer in self._path), node.name or node.op_type])
        outputs = self.emission.add(copy, inner=inner)
        if self._guards and self.emission.nodes and self.emission.nodes[-1] is copy:
            why = fault(self.emission, copy)
            if why:
                raise self.refusal(
                    self._guards[-1],
                    "whether it is run depends on data, and it holds "
                    f"{node.op_type} ({sanitize(node.name, 100)!r}): {why}",
                )
        return outputs

    # -- what handlers use -------------------------------------------------------------------

    def step(self) -> None:
        """Count a node or an iteration against the bound."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self.refusal(
                self._path[0] if self._path else None,
                f"unrolled it is more than {MAX_STEPS:,} nodes, or its number of iterations "
                "depends on data",
            )

    def value(self, scope: Scope, name: str) -> Value:
        """What a name stands for; the empty name stands for itself."""
        if not name:
            return ""
        held = scope.get(name)
        if held is None:
            why = f"it reads {sanitize(name, 100)!r}, which nothing computes"
            raise self.refusal(self._innermost, why)
        return held

    def tensor(self, node: onnx.NodeProto, index: int, scope: Scope) -> str:
        """The tensor that an input of ``node`` stands for; empty where it is left out."""
        if index >= len(node.input):
            return ""
        return self.as_tensor(self.value(scope, node.input[index]), f"input {index}")

    def number(self, node: onnx.NodeProto, index: int, scope: Scope, what: str) -> int | None:
        """The constant whole number that an input holds; None where the input is left out.

        Raises:
            UnsupportedOperatorError: it is no constant.
        """
        name = self.tensor(node, index, scope)
        if not name:
            return None
        array = self.emission.known(name)
        if array is None or array.size != 1:
            raise self.refusal(node, f"its {what} depends on data")
        return int(array.reshape(()))

    def as_tensor(self, value: Value, where: str) -> str:
        """The tensor that a value is, or that the elements of a tensor list make when stacked.

        Raises:
            UnsupportedOperatorError: it is a sequence or an optional; ``where`` says what reads it.
        """
        if isinstance(value, str):
            return value
        if isinstance(value, TensorList):
            return self.stacked(value)
        kind = "an optional" if isinstance(value, Maybe) else "a sequence"
        why = f"{where} is or reads {kind} where graphs have tensors only"
        raise self.refusal(self._innermost, why)

    def numbers(self, name: str, values: Sequence[int]) -> tuple[list[str], dict[str, Any]]:
        """Whole numbers as an input, or before opset 13 as the attribute ``name``."""
        if self.emission.opset >= 13:
            return [self.emission.constant(np.array(values, np.int64), name)], {}
        return [], {name: list(values)}

    def element(self, name: str, axis: int, index: int) -> str:
        """One element along an axis, which goes."""
        place = self.emission.constant(np.array(index, np.int64), "place")
        return self.emission.op("Gather", [name, place], f"{name}_at_{index}", axis=axis)

    def unsqueezed(self, name: str, axis: int) -> str:
        """``name`` with a new axis."""
        inputs, attributes = self.numbers("axes", [axis])
        return self.emission.op("Unsqueeze", [name, *inputs], f"{name}_unsqueezed", **attributes)

    def concatenated(self, names: Sequence[str], axis: int, *, new_axis: bool) -> str:
        """Tensors one after the other along an axis that they have, or along a new one."""
        parts = [self.unsqueezed(name, axis) for name in names] if new_axis else list(names)
        if len(parts) == 1:
            return parts[0]
        return self.emission.op("Concat", parts, f"{names[0]}_joined", axis=axis)

    def stacked(self, items: TensorList) -> str:
        """The tensor of a TensorFlow list; elements that were never set are zeros."""
        known = [name for name in items.items if name]
        shape = self.emission.shape(known[0]) if known else items.shape
        if shape is None or not items.items or any(dim < 0 for dim in shape):
            raise self.refusal(self._innermost, "the size of a tensor list is not known")
        zeros = ""
        if len(known) < len(items.items):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(items.element)
            zeros = self.emission.constant(np.zeros(shape, dtype), "zeros")
        names = [name or zeros for name in items.items]
        return self.concatenated(names, 0, new_axis=True)

    @property
    def _innermost(self) -> onnx.NodeProto | None:
        return self._path[-1] if self._path else None

    @property
    def current(self) -> onnx.NodeProto:
        """The node that is being resolved: of those whose branches may not run, the innermost."""
        return self._guards[-1] if self._guards else self._path[-1]

    @contextmanager
    def guarded(self, node: onnx.NodeProto) -> Iterator[None]:
        """Inside, nothing may be emitted that can fail: the model might not run it."""
        self._guards.append(node)
        try:
            yield
        finally:
            self._guards.pop()

    def opened(self, graph: onnx.GraphProto, scope: Scope) -> Scope:
        """A scope with the constants of a branch or body."""
        inner = scope.new_child()
        for tensor in graph.initializer:
            inner[tensor.name] = self.emission.tensor(tensor)
        return inner

    def inlined(
        self, graph: onnx.GraphProto, opened: Scope, arguments: Sequence[Value] = ()
    ) -> list[Value]:
        """Run a branch or body once, in the scope that :meth:`opened` gave; gives its outputs."""
        inner = opened.new_child()
        constants = {tensor.name for tensor in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in constants]
        if len(inputs) != len(arguments):
            raise self.refusal(
                self._path[-1],
                f"its graph takes {len(inputs)} inputs, and the node gives {len(arguments)}",
            )
        for name, value in zip(inputs, arguments, strict=True):
            inner[name] = value
        for node in graph.node:
            self._node(node, inner, inner=True)
        return [self.value(inner, value.name) for value in graph.output]

    def refusal(self, node: onnx.NodeProto | None, why: str) -> UnsupportedOperatorError:
        """The error for what cannot be resolved."""
        where = "control flow"
        if node is not None:
            where = f"{sanitize(node.op_type, 60)} at node {sanitize(node.name, 100)!r}"
        return UnsupportedOperatorError(
            f"{self._source}: {where} cannot be made a fixed list of operators: "
            f"{sanitize(why, 400)}.",
            cause="An NPU runs the same operators on tensors of the same sizes every time.",
            remedy="Give fixed sizes with 'input_size_list' where they decide it, export the model "
            "without control flow, or cut it off: name the tensor before it in 'outputs', or the "
            "one after it in 'inputs'.",
        )
