"""One graph for several sets of input shapes: sizes that were computed for one are written anew.

A compiler that is given one graph for all sets takes its constants as they stand. A size that was
folded out of an input's shape is right for the first set only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize, shape_text
from engine.graph.ir import Graph
from engine.graph.passes.base import array
from engine.graph.passes.editor import Editor

_END = np.iinfo(np.int64).max
"""An end of a Slice: however many there are."""

Rewrite = Callable[[Editor, ir.Node, list[np.ndarray], list[ir.Node]], bool]


def for_every_shape(graph: Graph, others: Sequence[Graph]) -> Graph:
    """A copy whose constants are right for every set of input shapes; its shapes are the first's.

    Shapes of Reshape get -1 and 0, sizes of Resize become factors, ends of Slice count from the
    end. A graph whose constants are the same for every set comes back as it is.

    Args:
        graph: for the first set.
        others: the same for the other sets (:func:`rebind_input_shapes`), with inferred shapes.

    Raises:
        GraphError: a constant cannot be written for every set; names its operator.
    """
    held = [form.model.graph.initializers for form in (graph, *others)]
    names = {
        name
        for name, value in held[0].items()
        if any(not _equal(array(value), array(form.get(name))) for form in held[1:])
    }
    if not names:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    reads = [(node, index) for node in edit.nodes() for index in _reads(node, names)]
    for node, index in reads:
        at = node.inputs[index]
        values = [array(form.get((at.name or "") if at else "")) for form in held]
        nodes = [form.node(node.name or "") for form in (graph, *others)]
        rewrite = _REWRITES.get((node.op_type, index))
        known = [form for form in values if form is not None]
        if rewrite is None or len(known) < len(values) or not rewrite(edit, node, known, nodes):
            raise _no_form(node, known, (graph, *others))
    return Graph(copy.model)


def _reads(node: ir.Node, names: set[str]) -> list[int]:
    return [i for i, value in enumerate(node.inputs) if value is not None and value.name in names]


def _reshape(edit: Editor, node: ir.Node, values: list[np.ndarray], nodes: list[ir.Node]) -> bool:
    """Sizes that are an axis of the input for every set become 0, one more may become -1."""
    if node.attributes.get_int("allowzero", 0) or len({form.size for form in values}) > 1:
        return False
    sources = [_dims(form, 0) for form in nodes]
    target: list[int] = []
    for axis, sizes in enumerate(zip(*(form.tolist() for form in values), strict=True)):
        if len(set(sizes)) == 1:
            target.append(sizes[0])
        elif all(
            dims is not None and axis < len(dims) and dims[axis] == size
            for dims, size in zip(sources, sizes, strict=True)
        ):
            target.append(0)
        else:
            target.append(-1)
    if target.count(-1) > 1:
        return False
    edit.set_constant(node, 1, np.array(target, np.int64))
    return True


def _resize(edit: Editor, node: ir.Node, values: list[np.ndarray], nodes: list[ir.Node]) -> bool:
    """Sizes of a Resize as factors, where they are the same for every set."""
    if "axes" in node.attributes:
        return False
    factors = set()
    for sizes, form in zip(values, nodes, strict=True):
        dims = _dims(form, 0)
        if dims is None or len(dims) != sizes.size:
            return False
        factors.add(tuple(float(a) / b for a, b in zip(sizes.tolist(), dims, strict=True)))
    if len(factors) > 1:
        return False
    scales = edit.constant(np.array(factors.pop(), np.float32), "scales")
    edit.set_inputs(node, [node.inputs[0], node.inputs[1], scales])
    return True


def _slice(edit: Editor, node: ir.Node, values: list[np.ndarray], nodes: list[ir.Node]) -> bool:
    """Ends of a Slice that are the end of the axis, or as far from it for every set."""
    axes = array(node.inputs[3]) if len(node.inputs) > 3 else np.arange(values[0].size)
    if axes is None or len({form.size for form in values}) > 1:
        return False
    new_ends = []
    for place, axis in enumerate(axes.tolist()):
        ends = [int(form[place]) for form in values]
        if len(set(ends)) == 1:
            new_ends.append(ends[0])
            continue
        sizes = [dims[axis] for dims in (_dims(form, 0) for form in nodes) if dims is not None]
        left = {end - size for end, size in zip(ends, sizes, strict=False)}
        if len(sizes) < len(ends) or len(left) > 1 or max(left) > 0:
            return False
        new_ends.append(left.pop() or _END)
    edit.set_constant(node, 2, np.array(new_ends, np.int64))
    return True


_REWRITES: dict[tuple[str, int], Rewrite] = {
    ("Reshape", 1): _reshape,
    ("Resize", 3): _resize,
    ("Slice", 2): _slice,
}
"""What writes an input of an operator for every set; False: it has no such form."""


def _dims(node: ir.Node, index: int) -> list[int] | None:
    value = node.inputs[index]
    if value is None or value.shape is None or value.shape.is_dynamic():
        return None
    return [int(size) for size in value.shape.numpy()]


def _equal(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    if one is None or two is None:
        return one is two
    return one.dtype == two.dtype and one.shape == two.shape and bool(np.array_equal(one, two))


def _no_form(node: ir.Node, values: list[np.ndarray], graphs: Sequence[Graph]) -> GraphError:
    shown = " and ".join(
        f"{sanitize(str(value.ravel().tolist()), 80)} for "
        f"{', '.join(shape_text(spec.shape) for spec in form.inputs)}"
        for value, form in list(zip(values, graphs, strict=False))[:2]
    )
    return GraphError(
        f"{node.op_type} {sanitize(node.name or '', 80)} has a constant of its own for each set of "
        f"dynamic_input: {shown}.",
        cause="One compiled model has one graph for all sets, and this constant follows from the "
        "input's shape.",
        remedy="Compile a model for each shape (input_size_list), or end the model before this "
        "operator (outputs).",
    )
