"""One graph for several sets of input shapes: sizes computed for one are written anew, or rebound.

A compiler that is given one graph for all sets takes its constants as they stand. A size that was
folded out of an input's shape is right for the first set only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize, shape_text
from engine.graph.ir import Graph, infer_shapes, verify
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


# A quantized graph for other input shapes (``dynamic_input`` [RKNN-T2 2.3.0, 2.2]).


def rebind_input_shapes(built: Graph, base: Graph, other: Graph) -> Graph:
    """What was built of a model for one set of input shapes, for another set: same parameters.

    The model is optimised for both sets of shapes; where the two graphs differ, they may differ in
    whole-number constants only (the sizes in Reshape, Resize, Slice). Those are put into the graph
    that was built; its weights, scales and zero points stay.

    Args:
        built: the QDQ (or float) form of ``base``.
        base: the optimised float graph for the shapes that were calibrated.
        other: the same for the other shapes.

    Raises:
        GraphError: the two float graphs differ in more; names the first node or constant.
    """
    _same_nodes(base, other)
    copy = built.copy()
    edit = Editor(copy.model)
    shapes = {spec.name: spec.shape for spec in other.inputs}
    for value in edit.graph.inputs:
        value.shape = ir.Shape(shapes[value.name or ""])
    held = edit.graph.initializers
    for name, initializer in other.model.graph.initializers.items():
        new, old = array(initializer), array(base.model.graph.initializers.get(name))
        if new is None or old is None or _equal(new, old):
            continue
        if new.dtype.kind not in "iu" or name not in held:
            raise GraphError(
                f"The constant {sanitize(name, 80)} has other values for the shapes "
                f"{_text(other)}.",
                cause="It was computed from the shape of an input, and it is quantized with it.",
                remedy="Build these shapes on their own, with input_size_list.",
            )
        held[name].const_value = ir.Tensor(new, name=name)
        held[name].shape = ir.Shape(new.shape)
    for value in edit.graph.outputs:
        value.shape = None
    result = infer_shapes(Graph(copy.model), refresh=True)
    verify(result)
    return result


def _same_nodes(base: Graph, other: Graph) -> None:
    ones, others = list(base.nodes), list(other.nodes)
    for one, two in zip(ones, others, strict=False):
        if (one.name, one.op_type) != (two.name, two.op_type) or _names(one) != _names(two):
            raise _differ(one, base, other)
        if _settings(one) != _settings(two):  # the kernel of a pool over all there is
            raise _differ(one, base, other)
    if len(ones) != len(others):
        longer = ones if len(ones) > len(others) else others
        raise _differ(longer[min(len(ones), len(others))], base, other)


def _names(node: ir.Node) -> list[str | None]:
    return [None if v is None else v.name for v in (*node.inputs, *node.outputs)]


def _settings(node: ir.Node) -> dict[str, object]:
    """Attributes that a size of the input may be in."""
    kinds = (ir.AttributeType.INT, ir.AttributeType.INTS)
    return {
        name: (
            tuple(attribute.as_ints())
            if attribute.type == ir.AttributeType.INTS
            else attribute.as_int()
        )
        for name, attribute in node.attributes.items()
        if attribute.type in kinds
    }


def _differ(node: ir.Node, base: Graph, other: Graph) -> GraphError:
    return GraphError(
        f"The model is another graph for the shapes {_text(other)} than for {_text(base)}: they "
        f"differ at {sanitize(node.name or '', 80)} ({node.op_type}).",
        cause="An operator goes or stays by the size of an input.",
        remedy="Build these shapes on their own, with input_size_list, or with a lower "
        "optimization_level.",
    )


def _text(graph: Graph) -> str:
    return ", ".join(shape_text(spec.shape) for spec in graph.inputs)
