"""The batch of a graph made wider (``rknn_batch_size`` [RKNN-T2 2.3.0, 2.4])."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError, SimulationError
from engine.base.text import sanitize, shape_text
from engine.graph.execute import Session
from engine.graph.ir import Graph, infer_shapes, verify
from engine.graph.passes.base import constant_input, integers, operators, shape
from engine.graph.passes.editor import Editor

_RECURRENT = operators("LSTM GRU RNN")
_TOLERANCE = 0.02
"""Of the proof: root mean square difference relative to the range of an output. Kernels add in
another order when the batch is larger, and a value on the edge of a rounding takes the next
integer; a mixture of samples is off by a good part of the range."""


def set_batch_size(graph: Graph, size: int) -> Graph:
    """A graph that takes ``size`` samples at once; axis 0 of its inputs is the batch.

    What the graph computes of one sample must not depend on the others. That is tried: random
    samples run one by one through the given graph and together through the new one.

    Args:
        graph: float or QDQ, every input of batch 1; stays as it is.
        size: of the new batch.

    Raises:
        GraphError: an input has another batch, or an operator mixes samples.
    """
    if size == 1:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    for node in edit.nodes():
        _adapt(node, size, edit)
    for value in edit.graph.inputs:
        dims = shape(value)
        if not dims or dims[0] != 1:
            raise GraphError(
                f"Input {sanitize(value.name or '', 80)} of shape {shape_text(dims or ())} has no "
                f"batch of 1 that could become {size}.",
                cause="rknn_batch_size makes the first axis of every input larger.",
                remedy="Leave rknn_batch_size unset, or load the model with a batch of 1.",
            )
        value.shape = ir.Shape((size, *dims[1:]))
    for value in edit.graph.outputs:
        value.shape = None
    try:
        wide = infer_shapes(Graph(copy.model), refresh=True)
        verify(wide)
        off = _mixing(graph, wide, size)
    except (GraphError, SimulationError) as error:
        raise GraphError(
            f"The model cannot take {size} samples at once: {error.what}",
            cause="Sizes of a batch of 1 are written into an operator.",
            remedy="Leave rknn_batch_size unset.",
        ) from error
    if off:
        raise GraphError(
            f"The model cannot take {size} samples at once: output {sanitize(off, 80)} of one "
            "depends on the others.",
            cause="An operator works across the batch, such as a Softmax or sum over axis 0.",
            remedy="Leave rknn_batch_size unset.",
        )
    return wide


def _adapt(node: ir.Node, size: int, edit: Editor) -> None:
    """Write the new batch where an operator holds the old one as a constant."""
    dims = shape(node.inputs[0]) if node.inputs else None
    if node.op_type == "Reshape":
        target = integers(node, 1)
        if target and target[0] == 1 and dims and dims[0] == 1:
            edit.set_constant(node, 1, np.array([size, *target[1:]], dtype=np.int64))
    elif node.op_type == "Resize":
        sizes = integers(node, 3)
        if sizes and sizes[0] == 1 and dims and len(sizes) == len(dims):
            edit.set_constant(node, 3, np.array([size, *sizes[1:]], dtype=np.int64))
    elif node.op_type in _RECURRENT:
        for index in (5, 6):  # the initial states, (directions, batch, hidden)
            state = constant_input(node, index)
            if state is not None and state.shape[1] == 1:
                edit.set_constant(node, index, np.repeat(state, size, axis=1))


def _mixing(graph: Graph, wide: Graph, size: int) -> str:
    """The first output in which samples that run together differ from those that run alone."""
    rng = np.random.default_rng(0)
    feeds = {
        spec.name: rng.uniform(-1, 1, spec.shape).astype(spec.dtype)
        if spec.dtype.startswith("float")
        else rng.integers(0, 2, spec.shape).astype(spec.dtype)
        for spec in wide.inputs
    }
    alone, together = Session(graph), Session(wide)
    outputs = together.run(feeds)
    # the first and the last: what mixes neighbours shows at either end
    for index in (0, size - 1):
        single = alone.run({name: array[index : index + 1] for name, array in feeds.items()})
        for spec in graph.outputs:
            if not _same(single, outputs, spec.name, index, size):
                return spec.name
    return ""


def _same(
    single: Mapping[str, np.ndarray],
    together: Mapping[str, np.ndarray],
    name: str,
    index: int,
    size: int,
) -> bool:
    one, all_ = single[name], together[name]
    if all_.ndim != one.ndim or all_.ndim == 0:
        return False
    axes = [axis for axis in range(one.ndim) if all_.shape[axis] != one.shape[axis]]
    if axes != [0] or all_.shape[0] != size * one.shape[0]:
        return False
    part = all_[index * one.shape[0] : (index + 1) * one.shape[0]]
    if not np.array_equal(np.isfinite(part), np.isfinite(one)):
        return False
    finite = np.isfinite(one)
    if not finite.any():
        return True
    ours, theirs = part[finite].astype(np.float64), one[finite].astype(np.float64)
    span = float(np.ptp(theirs)) or float(np.abs(theirs).max()) or 1.0
    return bool(np.sqrt(np.mean((ours - theirs) ** 2)) <= _TOLERANCE * span)
