"""Edits of a graph in place: values keep their names, nodes tell their origin, order is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
import onnx_ir as ir

from engine.graph.ir import ORIGIN, UniqueNames
from engine.graph.ir.spec import add_constant, maker_of, new_node

# An edit beside a value with more readers than this does not wake them all: a graph of n nodes that
# read one tensor would take n^2 steps.
_WAKE = 64


class Editor:
    """All edits of one graph go through here.

    Attributes:
        graph: edited in place.
        touched: every node whose surroundings an edit changed, in order, with repetitions; passes
            read on from where they stopped.
        quantized: whether the graph holds Q/DQ nodes of its own.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.graph: ir.Graph = model.graph
        self.touched: list[ir.Node] = []
        self.quantized = False
        self._origins: dict[ir.Node, dict[str, None]] = {}
        self._shared: set[ir.Value] = set()
        values = {v.name for v in self.graph.inputs if v.name} | set(self.graph.initializers)
        nodes: set[str] = set()
        seen: set[ir.Value] = set()
        for node in self.graph:
            nodes.add(node.name or "")
            values.update(v.name for v in node.outputs if v.name)
            self.quantized |= node.op_type in ("QuantizeLinear", "DequantizeLinear")
            for value in node.inputs:
                if value is not None and value.const_value is not None:
                    (self._shared if value in seen else seen).add(value)
        self._value_names = UniqueNames(values)
        self._node_names = UniqueNames(nodes)

    def nodes(self) -> list[ir.Node]:
        """The nodes in order."""
        return list(self.graph)

    def owns(self, node: ir.Node) -> bool:
        """Whether the node is still in the graph."""
        return node.graph is self.graph

    # -- origins -------------------------------------------------------------------------------

    def origins(self, node: ir.Node) -> dict[str, None]:
        """The source nodes that a node came from, as ordered keys; the node itself by default."""
        names = self._origins.get(node)
        if names is None:
            text = node.metadata_props.get(ORIGIN, "")
            names = dict.fromkeys(text.split("\n") if text else [node.name or ""])
        return names

    def add_origin(self, node: ir.Node, sources: Iterable[ir.Node]) -> None:
        """Note that ``node`` does the work of ``sources`` from now on, beside its own."""
        merged = self.origins(node)
        for source in sources:
            if source is not node:
                merged.update(self.origins(source))
        self._origins[node] = merged

    def write_origins(self) -> None:
        """Write what was noted into the nodes' metadata; once, at the end."""
        for node, names in self._origins.items():
            if self.owns(node) and list(names) != [node.name]:
                node.metadata_props[ORIGIN] = "\n".join(names)

    # -- values --------------------------------------------------------------------------------

    def constant(self, array: np.ndarray, hint: str, *, inherits: bool = False) -> ir.Value:
        """A new initializer; its name is ``hint`` or begins with it.

        With ``inherits`` it is ``hint`` itself: the name of a tensor that gave it up.
        """
        name = hint if inherits else self._value_names.claim(hint)
        return add_constant(self.graph, name, np.asarray(array, order="C"))

    def set_constant(self, node: ir.Node, index: int, array: np.ndarray, hint: str = "") -> None:
        """Give ``node`` another constant at ``index``.

        The old constant's name stays with it where no other node reads that constant.
        """
        old = node.inputs[index] if index < len(node.inputs) else None
        if (
            old is not None
            and old.name
            and old.is_initializer()
            and old not in self._shared
            and not old.is_graph_output()
        ):
            tensor = ir.Tensor(np.asarray(array, order="C"), name=old.name)
            old.const_value = tensor
            old.shape = ir.Shape(array.shape)
            old.type = ir.TensorType(tensor.dtype)
            return
        name = hint or (old.name if old is not None and old.name else f"{node.name}_constant")
        inputs = [*node.inputs, *[None] * (index + 1 - len(node.inputs))]
        inputs[index] = self.constant(array, name)
        self.set_inputs(node, inputs)

    def share(self, value: ir.Value) -> None:
        """Say that a constant has, or may get, several readers."""
        self._shared.add(value)

    def requeue(self, value: ir.Value | None) -> None:
        """Note that what surrounds a value changed."""
        if value is None or value.is_initializer():
            return
        producer = value.producer()
        if producer is not None:
            self.touched.append(producer)
        uses = value.uses()
        if len(uses) <= _WAKE:
            self.touched.extend(use.node for use in uses)

    def redirect(self, old: ir.Value, new: ir.Value) -> bool:
        """Let everything read ``new`` in the place of ``old``; the graph's outputs keep names.

        Returns:
            False, with nothing done, where both are ends of the graph whose names must stay.
        """
        if old.is_graph_output():
            if new.is_graph_output() or new.producer() is None:
                return False
            name, old.name = old.name, None
            new.name = name
            if old.shape is not None and new.shape is None:
                new.shape = old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        if new.is_initializer():
            self._shared.add(new)
            self.touched.extend(use.node for use in islice(new.uses(), _WAKE))
        else:
            self.requeue(new)
        return True

    # -- nodes ---------------------------------------------------------------------------------

    def set_inputs(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
        """Other inputs for a node, in its place; what only fed the old ones is removed."""
        old = node.inputs
        if len(inputs) != len(old):
            node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            if node.inputs[index] is not value:
                node.replace_input_with(index, value)
        for value in old:
            producer = maker_of(value)
            if producer is not None:
                self.drop_if_dead(producer)
        self.touched.append(node)
        for value in (*node.inputs, *node.outputs):
            self.requeue(value)

    def insert(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, int | float | str | Sequence[int]] | None = None,
        *,
        before: ir.Node,
        like: ir.Value | None = None,
        shape: Sequence[int] | None = None,
        name: str = "",
        output: str = "",
        origin: Iterable[ir.Node] = (),
    ) -> ir.Node:
        """A new node with one output, placed before another.

        Args:
            op: an operator of ONNX's own domain.
            inputs: values that exist before ``before``.
            attributes: by name.
            before: the node to stand in front of.
            like: a value whose type (and shape, unless given) the output has.
            shape: of the output.
            name: hint for the node's name; by default after the first origin.
            output: hint for the output's name.
            origin: nodes whose work this one does; ``before`` by default.
        """
        sources = list(origin) or [before]
        node_name = self._node_names.claim(name or f"{sources[0].name}_{op}")
        value = ir.Value(name=self._value_names.claim(output or f"{node_name}_output"))
        if like is not None:
            value.type = like.type
            value.shape = None if like.shape is None else ir.Shape(tuple(like.shape))
        if shape is not None:
            value.shape = ir.Shape(shape)
        node = new_node(op, inputs, value, node_name, attributes)
        self.graph.insert_before(before, node)
        names: dict[str, None] = {}
        for source in sources:
            names.update(self.origins(source))
        self._origins[node] = names
        self.touched.append(node)
        for read in inputs:
            self.requeue(read)
        return node

    def insert_after(
        self,
        node: ir.Node,
        op: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, int | float | str | Sequence[int]] | None = None,
        *,
        like: ir.Value | None = None,
    ) -> ir.Node:
        """As :meth:`insert`, but behind ``node``."""
        new = self.insert(op, inputs, attributes, before=node, like=like)
        self.graph.remove(new)
        self.graph.insert_after(node, new)
        return new

    def rename(self, value: ir.Value, hint: str) -> None:
        """Another name for a tensor inside the graph."""
        value.name = self._value_names.claim(hint)

    def move_output(self, old: ir.Value, new: ir.Value) -> None:
        """Let an output of the graph be ``new`` in the place of ``old``."""
        for index, value in enumerate(self.graph.outputs):
            if value is old:
                self.graph.outputs[index] = new

    def replace_with(
        self,
        node: ir.Node,
        op: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, int | float | str | Sequence[int]] | None = None,
        *,
        origin: Iterable[ir.Node] = (),
    ) -> None:
        """Turn a node into another operator in its place; node and output keep their names."""
        node.op_type = op
        node.domain = ""
        node.attributes.clear()
        for attribute in ir.convenience.convert_attributes(dict(attributes or {})):
            node.attributes[attribute.name] = attribute
        self.add_origin(node, origin)
        if len(node.outputs) > 1:
            node.resize_outputs(1)
        self.set_inputs(node, inputs)

    def merge_follower(self, node: ir.Node, follower: ir.Node, *, add_origin: bool = True) -> None:
        """``node`` now computes what ``follower`` made of its (only read) output.

        The tensor in between is gone, the one after ``follower`` keeps its name. Without
        ``add_origin`` another node has taken over the work.
        """
        if add_origin:
            self.add_origin(node, [follower])
        between, after = node.outputs[0], follower.outputs[0]
        name, after.name = after.name, None
        after.replace_all_uses_with(between, replace_graph_outputs=True)
        between.name = name
        between.type, between.shape = after.type, after.shape
        self.remove(follower)
        self.touched.append(node)
        self.requeue(between)

    def bypass(self, node: ir.Node) -> bool:
        """Take a node that changes nothing out of the path from its first input to its output."""
        source = node.inputs[0]
        if source is None or not self.redirect(node.outputs[0], source):
            return False
        self.remove(node)
        return True

    def remove(self, node: ir.Node) -> None:
        """Remove a node that nothing reads, and everything that then feeds nothing."""
        stack = [node]
        while stack:
            dead = stack.pop()
            if not self.owns(dead):
                continue
            inputs = dead.inputs
            self.graph.remove(dead)
            for index, value in enumerate(inputs):
                if value is None:
                    continue
                dead.replace_input_with(index, None)
                producer = value.producer()
                if producer is None:
                    continue
                if is_dead(producer):
                    stack.append(producer)
                else:
                    self.requeue(value)

    def drop_if_dead(self, node: ir.Node) -> None:
        """Remove a node if nothing reads it."""
        if self.owns(node) and is_dead(node):
            self.remove(node)


def is_dead(node: ir.Node) -> bool:
    """Whether nothing reads any output of the node."""
    return not any(value.is_graph_output() or value.uses() for value in node.outputs)
