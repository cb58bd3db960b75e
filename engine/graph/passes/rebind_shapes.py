"""A quantized graph for other input shapes (``dynamic_input`` [RKNN-T2 2.3.0, 2.2])."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize, shape_text
from engine.graph.ir import Graph, infer_shapes, verify
from engine.graph.passes.base import array
from engine.graph.passes.editor import Editor


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


def _equal(one: np.ndarray, two: np.ndarray) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and bool(np.array_equal(one, two))


def _text(graph: Graph) -> str:
    return ", ".join(shape_text(spec.shape) for spec in graph.inputs)
