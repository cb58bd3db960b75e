"""Transposes merged, cancelled and moved: regions that run in the layout from before one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir.spec import input_at, maker_of
from engine.graph.passes.base import NodePass, Pass, array, integers, operators, shape
from engine.graph.passes.editor import Editor

_UNARY = operators(
    "Relu Clip Sigmoid Tanh LeakyRelu HardSigmoid HardSwish Elu Selu Celu Softplus Softsign Exp "
    "Log Sqrt Abs Neg Erf Gelu Mish Reciprocal Floor Ceil Round Sign Cast ThresholdedRelu Identity"
)
_ELEMENTWISE = operators("Add Sub Mul Div Pow Min Max Sum Mean PRelu")
_AXIS = {"Concat": 0, "Softmax": -1, "LogSoftmax": -1, "Split": 0}
_REDUCE = operators("ReduceMean ReduceSum ReduceMax ReduceMin")


def permutation(node: ir.Node) -> tuple[int, ...] | None:
    """The permutation of a Transpose; None where neither attribute nor shape tells it."""
    perm = node.attributes.get_ints("perm", None)
    if perm:
        return tuple(perm)
    dims = node.inputs[0].shape if node.inputs[0] is not None else None
    return None if dims is None else tuple(reversed(range(len(dims))))


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``perm``."""
    return tuple(np.argsort(perm).tolist())


def data_inputs(node: ir.Node) -> list[int]:
    """Indices of the inputs that have the layout of the output; the others are parameters."""
    if node.op_type in _ELEMENTWISE or node.op_type == "Concat":
        return list(range(len(node.inputs)))
    return [0]


def accepts_layout(node: ir.Node, rank: int) -> bool:
    """Whether the node gives the same with all its data permuted, its parameters adapted."""
    if node.domain not in ("", "ai.onnx"):
        return False
    op = node.op_type
    for index in data_inputs(node):
        value = node.inputs[index]
        numbers = array(value)
        dims = shape(value) if numbers is None else numbers.shape
        broadcasts = numbers is not None and op != "Concat"
        if dims is None or len(dims) > rank or (len(dims) < rank and not broadcasts):
            return False
    dims = shape(node.outputs[0])
    if dims is None or len(dims) != rank:
        return False
    if op in _UNARY or op in _ELEMENTWISE or op in _AXIS:
        return True
    if op in _REDUCE:
        return node.attributes.get_int("keepdims", 1) == 1 and bool(integers(node, 1))
    if op == "Slice":
        return integers(node, 3) is not None
    if op == "Pad":
        return integers(node, 1) is not None and (
            input_at(node, 3) is None or integers(node, 3) is not None
        )
    return False


class Region:
    """Everything around one Transpose that can run in the layout from before it.

    Attributes:
        perm: of the Transposes that lead in.
        nodes: that change their layout.
        entries: Transposes by ``perm`` that lead in.
        removed_exits: Transposes by the inverse that lead out.
        exits: values of the region that something outside reads in their present layout.
        foreign: values that the region reads and that must be permuted to come in.
    """

    def __init__(self, perm: tuple[int, ...], start: ir.Node) -> None:
        self.perm = perm
        self.back = inverse(perm)
        self.nodes: dict[ir.Node, None] = {}
        self.entries: dict[ir.Node, None] = {start: None}
        self.removed_exits: dict[ir.Node, None] = {}
        self.exits: dict[ir.Value, None] = {}
        self.foreign: dict[ir.Value, None] = {}
        self._grow(start)
        self._close()

    def _grow(self, start: ir.Node) -> None:
        stack: list[ir.Value] = [start.outputs[0]]
        while stack:
            value = stack.pop()
            for use in value.uses():
                self._join(use.node, stack)

    def _join(self, node: ir.Node, stack: list[ir.Value]) -> None:
        """Take a node in, then those that feed it."""
        todo = [node]
        while todo:
            taken = todo.pop()
            if taken in self.nodes or not accepts_layout(taken, len(self.perm)):
                continue
            self.nodes[taken] = None
            stack.extend(taken.outputs)
            for index in data_inputs(taken):
                value = taken.inputs[index]
                maker = maker_of(value)
                if maker is None or maker in self.nodes:
                    continue
                if self._leads_in(maker):
                    if maker not in self.entries:
                        self.entries[maker] = None
                        stack.append(maker.outputs[0])
                else:
                    todo.append(maker)

    def _leads_in(self, node: ir.Node) -> bool:
        return node.op_type == "Transpose" and permutation(node) == self.perm

    def _close(self) -> None:
        """Find what crosses the border."""
        for node in self.nodes:
            for index in data_inputs(node):
                value = node.inputs[index]
                if value is None or array(value) is not None:
                    continue
                maker = value.producer()
                if maker is None or (maker not in self.nodes and maker not in self.entries):
                    self.foreign[value] = None
            for value in node.outputs:
                if value.is_graph_output():
                    self.exits[value] = None
                for use in value.uses():
                    if use.node in self.nodes and use.idx in data_inputs(use.node):
                        continue
                    if use.node.op_type == "Transpose" and permutation(use.node) == self.back:
                        self.removed_exits[use.node] = None
                    else:
                        self.exits[value] = None

    @property
    def transposes_saved(self) -> int:
        """How many Transposes fewer there would be."""
        gone = sum(
            not entry.outputs[0].is_graph_output()
            and all(use.node in self.nodes for use in entry.outputs[0].uses())
            for entry in self.entries
        )
        # a tensor can take the name of one output of the graph; more need an Identity each
        ends = [n.inputs[0] for n in self.removed_exits if n.outputs[0].is_graph_output()]
        kept = len(ends) - len(set(ends))
        return gone + len(self.removed_exits) - kept - len(self.exits) - len(self.foreign)

    def rewrite(self, edit: Editor, order: dict[ir.Node, int]) -> None:
        """Change the layout; tensors that are read outside keep name and layout."""
        nodes = sorted(self.nodes, key=order.__getitem__)
        permuted: dict[ir.Value, ir.Value] = {}
        for node in nodes:
            self._adapt(node, edit, permuted)
        for node in nodes:
            for value in node.outputs:
                self._leave(node, value, edit)
        for node in self.removed_exits:
            if not edit.owns(node):
                continue
            source = node.inputs[0]
            if source is not None and not edit.bypass(node):
                edit.replace_with(node, "Identity", [source])
        for entry in self.entries:
            edit.drop_if_dead(entry)

    def _adapt(self, node: ir.Node, edit: Editor, permuted: dict[ir.Value, ir.Value]) -> None:
        inputs = list(node.inputs)
        for index in data_inputs(node):
            value = inputs[index]
            if value is None:
                continue
            maker = value.producer()
            if maker is not None and maker in self.nodes:
                continue
            if value not in permuted:
                permuted[value] = self._bring_in(value, maker, node, edit)
            inputs[index] = permuted[value]
        self._adapt_parameters(node, inputs, edit)
        edit.set_inputs(node, inputs)
        for value in node.outputs:
            dims = shape(value)
            if dims is not None:
                value.shape = ir.Shape([dims[axis] for axis in self.back])

    def _bring_in(
        self, value: ir.Value, maker: ir.Node | None, node: ir.Node, edit: Editor
    ) -> ir.Value:
        """The value in the region's new layout."""
        numbers = array(value)
        if numbers is not None:
            rank = len(self.perm)
            full = numbers.reshape((1,) * (rank - numbers.ndim) + numbers.shape)
            if numbers.size == 1 and numbers.ndim < rank:
                return value
            return edit.constant(full.transpose(self.back), f"{value.name}_transposed")
        if maker is not None and maker in self.entries and maker.inputs[0] is not None:
            return maker.inputs[0]
        dims = shape(value) or ()
        brought = edit.insert(
            "Transpose",
            [value],
            {"perm": self.back},
            before=node,
            like=value,
            shape=[dims[axis] for axis in self.back],
        )
        return brought.outputs[0]

    def _adapt_parameters(self, node: ir.Node, inputs: list[ir.Value | None], edit: Editor) -> None:
        rank, op = len(self.perm), node.op_type
        if op in _AXIS:
            axis = node.attributes.get_int("axis", _AXIS[op]) % rank
            node.attributes["axis"] = ir.AttrInt64("axis", self.perm[axis])
        elif op in _REDUCE:
            axes = [self.perm[axis % rank] for axis in integers(node, 1) or []]
            inputs[1] = edit.constant(np.array(sorted(axes), np.int64), f"{node.name}_axes")
        elif op == "Slice":
            axes = [self.perm[axis % rank] for axis in integers(node, 3) or []]
            inputs[3] = edit.constant(np.array(axes, np.int64), f"{node.name}_axes")
        elif op == "Pad":
            axes_input = input_at(node, 3)
            chosen = list(range(rank)) if axes_input is None else integers(node, 3)
            moved = [self.perm[axis % rank] for axis in chosen or []]
            inputs.extend([None] * (4 - len(inputs)))
            inputs[3] = edit.constant(np.array(moved, np.int64), f"{node.name}_axes")

    def _leave(self, node: ir.Node, value: ir.Value, edit: Editor) -> None:
        """Give what outside reads in the present layout a Transpose of its own."""
        name = value.name or ""
        uses = [
            use
            for use in value.uses()
            if use.node not in self.removed_exits
            and not (use.node in self.nodes and use.idx in data_inputs(use.node))
        ]
        is_output = value.is_graph_output()
        edit.rename(value, f"{name}_transposed")
        if value not in self.exits:
            return
        dims = shape(value)
        after = ir.Shape([dims[axis] for axis in self.perm]) if dims is not None else None
        back = edit.insert_after(node, "Transpose", [value], {"perm": self.perm}, like=value)
        back.outputs[0].shape = after
        back.outputs[0].name = name
        for use in uses:
            use.node.replace_input_with(use.idx, back.outputs[0])
        if is_output:
            edit.move_output(value, back.outputs[0])
        edit.requeue(back.outputs[0])


# Transposes: merged, cancelled, moved to where they cancel.
#
# * Transpose of a Transpose is one Transpose, or none. * A Transpose that only moves axes of length
# 1 is a Reshape. * Between Transposes and their inverses, elementwise and axis-wise operators run
# in the layout from before, so that both ends go: models exported with channels last come back to
# NCHW.


class TransposeChains(NodePass):
    """Transposes in a row."""

    name = "transpose-chains"
    level = 3
    summary = "Transposes in a row are merged; a pair of inverses is removed."
    keeps_bits = False
    roots = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """A Transpose that reads a Transpose."""
        source = node.inputs[0]
        before = maker_of(source, "Transpose")
        if before is None or before.inputs[0] is None:
            return False
        outer, inner = permutation(node), permutation(before)
        if outer is None or inner is None:
            return self.near(node, "the rank is not known")
        merged = tuple(inner[axis] for axis in outer)
        if merged == tuple(range(len(merged))) and not node.outputs[0].is_graph_output():
            edit.redirect(node.outputs[0], before.inputs[0])
            edit.remove(node)
            return self.did("inverse Transposes removed")
        edit.replace_with(node, "Transpose", [before.inputs[0]], {"perm": merged}, origin=[before])
        return self.did("Transposes merged")


class TransposeToReshape(NodePass):
    """Transposes that move no data."""

    name = "transpose-to-reshape"
    level = 3
    summary = "A Transpose that only moves axes of length 1 becomes a Reshape."
    keeps_bits = False
    roots = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """A Transpose of a tensor of known shape."""
        dims, perm = shape(node.inputs[0]), permutation(node)
        if dims is None or perm is None:
            return self.near(node, "the shape is not known")
        moved = [axis for axis in perm if dims[axis] != 1]
        after = [dims[axis] for axis in perm]
        if moved != sorted(moved) or 0 in dims or tuple(after) == dims:
            return False
        target = edit.constant(np.array(after, np.int64), f"{node.name}_shape")
        edit.replace_with(node, "Reshape", [node.inputs[0], target])
        return self.did("Transpose to Reshape")


class LayoutPropagation(Pass):
    """Operators between Transposes, run in the layout from before."""

    name = "transpose-regions"
    level = 3
    summary = "Transposes move through elementwise and axis-wise operators to where they cancel."
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """Each Transpose and each node is looked at once per permutation."""
        nodes = edit.nodes()
        order = {node: index for index, node in enumerate(nodes)}
        seen: set[tuple[ir.Node, tuple[int, ...]]] = set()
        for node in nodes:
            if node.op_type != "Transpose" or not edit.owns(node):
                continue
            perm = permutation(node)
            if perm is None or (node, perm) in seen:
                continue
            region = Region(perm, node)
            seen.update((entry, perm) for entry in region.entries)
            if not region.nodes:
                continue
            if not seen.isdisjoint((inner, perm) for inner in region.nodes):
                continue
            seen.update((inner, perm) for inner in region.nodes)
            if region.transposes_saved <= 0:
                self.near(node, "moving it would need as many Transposes elsewhere")
                continue
            region.rewrite(edit, order)
            self.did("Transposes moved to cancel")
