"""Layers of fewer than four dimensions get four, between two reshapes; rows a height of one."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.matrix import make_matmul
from engine.cost.lowering.movement import MOVEMENTS, perm_of
from engine.cost.lowering.rules import Context, execution_order, on
from engine.cost.lowering.views import four

UNARY = frozenset(
    {
        "Abs", "Ceil", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish",
        "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sin",
        "Softplus", "Sqrt", "Tanh", "exGelu", "exSwish",
    }
)  # fmt: skip
"""Element by element, of one input."""

BINARY = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
"""Element by element, of two."""

_ALONG = frozenset({"Concat", "Gather", "Slice", "Split"})
"""Along one axis, which moves when a dimension is put in."""


def widen(graph: LoweringGraph, context: Context) -> None:
    """Matrices, elementwise layers and those along an axis in four dimensions.

    A layer of fewer reads ``T_rs`` and is followed by ``OUT-rs``. The transposes that come with
    matrices and norms have their turn behind all others, in the order of execution.
    """
    for node in graph:
        if node.int("late"):
            continue  # a norm brought it
        if node.op in _OWN_WAY:
            _OWN_WAY[node.op](graph, node)
        elif node.op == "HardSwish":
            continue  # it works in any shape
        elif node.op in UNARY or node.op in BINARY:
            if _needs(graph, node) or _short_const(graph, node):
                widen_node(graph, node)
        elif node.op in _ALONG and (node.op != "Slice" or "axis" in node.attributes):
            picks = node.op == "Gather"
            ranks = {len(graph.shape(tensor)) for tensor in (node.inputs[0], node.outputs[0])}
            if not picks or len(ranks) == 1:
                _widen_along(graph, node, 0)
    for node in execution_order(graph):
        if node.op == "Transpose":
            _wide_transpose(graph, node)


@on("Softmax")
def restore_softmax(graph: LoweringGraph, node: Node, context: Context) -> None:
    """The Softmax of opsets below 13, over a flat tail, that our loader wrote as three nodes."""
    if not node.outputs[0].endswith("_intermediate"):
        return
    flat = graph.maker(node.inputs[0], "Flatten", alone=True)
    back = graph.reader(node.outputs[0], "Reshape")
    if flat is None or back is None:
        return
    graph.remove(flat)
    graph.remove(back)
    graph.rewire(node, inputs=[flat.inputs[0]], outputs=list(back.outputs))
    node.attributes = {"axis": flat.int("axis", 1), "old": 1}


def _softmax(graph: LoweringGraph, node: Node) -> None:
    """Softmax -> exSoftmax13 along the channels or the width; old ones over a flat tail."""
    x, result = node.inputs[0], node.outputs[0]
    shape = graph.shape(x)
    rank = len(shape)
    if rank == 0:
        return
    axis = node.int("axis", -1) % rank
    node.op = node.kind = "exSoftmax13"
    if node.int("old"):
        flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
        wide = (1, flat[0], 1, flat[1])
        data = graph.reshape(x, wide, f"{x}_rsI_rs", before=node)
        graph.work_in(node, wide, [data], f"{result}_rsO")
        node.attributes["axis"] = 3
    elif rank == 2:
        single = shape[0] == 1
        wide = (1, shape[1], 1, 1) if single else (1, shape[0], 1, shape[1])
        data = graph.reshape(x, wide, before=node)
        view = graph.maker(x, "Reshape")
        moved = view is not None and view.name.endswith("_2rs")
        name = f"{x}_rs" if single and moved else f"{result}-rs"  # the Flatten goes behind
        graph.work_in(node, wide, [data], name)
        node.attributes["axis"] = 3 if axis == 1 and not single else 1
    elif rank == 4 and axis == 2:
        wide = (shape[0] * shape[1], shape[2], 1, shape[3])
        data = graph.reshape(x, wide, before=node)
        node.name = f"{node.name}#1"
        graph.work_in(node, wide, [data], f"{node.name}_rs")
        node.attributes["axis"] = 1
    else:
        if _needs(graph, node):
            widen_node(graph, node)
        node.attributes["axis"] = 3 if axis == rank - 1 else axis


def _wide_logarithm(graph: LoweringGraph, node: Node) -> None:
    if len(graph.shape(node.inputs[0])) in (2, 3):
        _widen_along(graph, node, -1)


def _widen_along(graph: LoweringGraph, node: Node, usual: int) -> None:
    """Of a layer along an axis, which is ``usual`` where it names none."""
    rank = len(graph.shape(node.inputs[0]))
    if _needs(graph, node):
        axis = node.int("axis", usual) % rank
        widen_node(graph, node)
        node.attributes["axis"] = 3 if rank == 3 and axis == 2 else axis


def _wide_transpose(graph: LoweringGraph, node: Node) -> None:
    rank = len(graph.shape(node.inputs[0]))
    if rank not in (2, 3):
        return
    perm = perm_of(node, rank)
    view = graph.maker(node.inputs[0], "Reshape")
    turned = view is not None and graph.maker(view.inputs[0], "Transpose") is not None
    if rank == 2 and perm == (1, 0) and turned:
        _turn_matrix(graph, node)
        return
    widen_node(graph, node)
    place = (0, 1, 3) if rank == 3 else (0, 1)
    wide = list(range(4))
    for at, axis in zip(place, perm, strict=True):
        wide[at] = place[axis]
    node.attributes["perm"] = list(wide)


def _turn_matrix(graph: LoweringGraph, node: Node) -> None:
    """(a, b) that was turned before, as the mean of rows is, is turned as (1, a, 1, b)."""
    rows, columns = graph.shape(node.inputs[0])
    data = graph.reshape(node.inputs[0], (1, rows, 1, columns), before=node)
    node.attributes["perm"] = [0, 3, 2, 1]
    graph.work_in(node, (1, columns, 1, rows), [data])


def _wide_pick(graph: LoweringGraph, node: Node) -> None:
    """ArgMax, and a Cast before it, with ones in front: (1, 20) is (1, 1, 1, 20)."""
    x = node.inputs[0]
    rank = len(graph.shape(x))
    if rank in (0, 4) or rank > 4:
        return
    axis = node.int("axis") % rank + 4 - rank
    wide = (1,) * (4 - rank) + graph.shape(x)
    cast = graph.maker(x, "Cast", alone=True)
    if cast is not None:
        graph.rewire(cast, inputs=[graph.reshape(cast.inputs[0], wide, before=cast)])
        graph.add_tensor(x, wide, graph.tensors[x].dtype)
    else:
        x = graph.reshape(x, wide, before=node)
    node.attributes["axis"] = axis
    graph.work_in(node, _reduced(wide, axis), [x])


def _wide_reduce(graph: LoweringGraph, node: Node) -> None:
    """A maximum over one axis of five dimensions, of which one is a one; over columns of three."""
    shape = graph.shape(node.inputs[0])
    rank = len(shape)
    if not (rank == 3 or (rank == 5 and shape[0] == 1)) or not graph.shape(node.outputs[0]):
        return
    axes = graph.axes(node)
    if len(axes) != 1 or axes[0] == 0 or (rank == 3 and axes[0] != 2):
        return
    shape = four(shape) if rank == 3 else shape[1:]
    data = graph.reshape(node.inputs[0], shape, before=node)
    short = _reduced(shape, 3 if rank == 3 else axes[0] - 1)
    graph.work_in(node, short, [data, *node.inputs[1:]])


def _reduced(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _needs(graph: LoweringGraph, node: Node) -> bool:
    ranks = {
        len(graph.shape(tensor)) for tensor in (*graph.features(node), *node.outputs) if tensor
    }
    if not ranks or max(ranks) == 0 or ranks == {4}:
        return False
    return max(ranks) <= 4 or _surplus(graph, node) is not None


def _surplus(graph: LoweringGraph, node: Node) -> tuple[int, ...] | None:
    """Axes of one that all of a layer's tensors have beyond four; None where there are none."""
    names = [name for name in (*node.inputs, *node.outputs) if name]
    rank = max(len(graph.shape(name)) for name in names)
    if node.op not in BINARY and node.op not in UNARY and not node.op.startswith("Reduce"):
        return None
    shapes = [(1,) * (rank - len(graph.shape(name))) + graph.shape(name) for name in names]
    ones = [at for at in range(rank) if all(shape[at] == 1 for shape in shapes)]
    return tuple(ones[: rank - 4]) if len(ones) >= rank - 4 else None


def _short_const(graph: LoweringGraph, node: Node) -> bool:
    """Whether a layer of four dimensions reads a constant of fewer."""
    ranks = {len(graph.shape(tensor)) for tensor in graph.features(node)}
    consts = [tensor for tensor in node.inputs if tensor and graph.is_const(tensor)]
    short = any(0 < len(graph.shape(tensor)) < 4 for tensor in consts)
    return node.op in BINARY and ranks == {4} and short


def widen_node(graph: LoweringGraph, node: Node) -> None:
    """Four dimensions for a node, between reshapes ``T_rs`` and ``OUT-rs``."""
    rank = max(len(graph.shape(tensor)) for tensor in (*graph.features(node), *node.outputs))
    surplus = _surplus(graph, node) if rank > 4 else ()

    def fit(shape: tuple[int, ...]) -> tuple[int, ...]:
        whole = (1,) * (rank - len(shape)) + shape
        return four(tuple(size for at, size in enumerate(whole) if at not in (surplus or ())))

    row = _row_of_matrix(graph, node)
    inputs = list(node.inputs)
    for at, name in enumerate(inputs):
        wide = fit(graph.shape(name))
        if wide == graph.shape(name) or not name:
            continue
        if at > 0 and node.op in ("Clip", "Gather", "Slice", "Split"):
            continue
        if graph.is_const(name):
            inputs[at] = graph.reshaped(name, wide, graph.unique(f"{name}_4d"))
        else:
            inputs[at] = graph.reshape(name, wide, before=node)
    results = list(node.outputs)
    outputs = [
        graph.like(output, fit(graph.shape(output)), f"{output}-rs")
        if output and fit(graph.shape(output)) != graph.shape(output)
        else output
        for output in results
    ]
    graph.rewire(node, inputs=inputs, outputs=outputs)
    for result, written in zip(results, outputs, strict=True):
        if result != written:
            name = f"{row}_rs" if row else written
            following = graph.following(node)
            graph.reshape(written, graph.shape(result), name, result, before=following)


def _row_of_matrix(graph: LoweringGraph, node: Node) -> str:
    """The row that a constant is added to behind a matrix: its Reshape goes behind the sum."""
    features = graph.features(node)
    if node.op not in BINARY or len(features) != 1:
        return ""
    (data,) = features
    path = data
    while (move := graph.maker(path, *MOVEMENTS)) is not None:
        path = move.inputs[0]
    row = graph.only_reader(data) is node and graph.shape(data)[:-1] == (1,)
    return data if row and graph.maker(path, "exMatMul") is not None else ""


_OWN_WAY: dict[str, Callable[[LoweringGraph, Node], None]] = {
    "ArgMax": _wide_pick,
    "Gemm": make_matmul,
    "LogSoftmax": _wide_logarithm,
    "MatMul": make_matmul,
    "ReduceMax": _wide_reduce,
    "ReduceMin": _wide_reduce,
    "Softmax": _softmax,
    "Transpose": _wide_transpose,
}
"""Operators that get four dimensions in a way of their own."""


_WINDOWS = frozenset({"AveragePool", "Conv", "ConvTranspose", "MaxPool"})
"""Operators whose windows get a first dimension."""

_OTHERS = frozenset({"BatchNormalization", "GlobalAveragePool", "GlobalMaxPool"})

_ELEMENTWISE = UNARY | BINARY | {"PRelu"}


def widen_rows(graph: LoweringGraph, context: Context) -> None:
    """Convolutions, pools and what is beside them work on (B, C, 1, W), between two reshapes.

    Reshapes that meet cancel, so that activations and sums can be taken in as those of maps are.
    """
    widened: set[str] = set()
    for node in graph:
        if not node.inputs or len(graph.shape(node.inputs[0])) != 3:
            continue
        if node.op in _WINDOWS:
            _widen_window(graph, node)
        elif not (
            node.op in _OTHERS or (node.op in _ELEMENTWISE and _beside(graph, node, widened))
        ):
            continue
        widened.update(node.outputs)
        widen_node(graph, node)
    if widened:
        _cancel(graph, context)


def _beside(graph: LoweringGraph, node: Node, widened: set[str]) -> bool:
    """Whether every feature of an elementwise layer is of a widened one."""
    features = graph.features(node)
    rank = all(len(graph.shape(tensor)) in (0, 1, 3) for tensor in node.inputs)
    return rank and bool(features) and all(tensor in widened for tensor in features)


def _widen_window(graph: LoweringGraph, node: Node) -> None:
    for name, value in (("kernel_shape", 1), ("strides", 1), ("dilations", 1)):
        numbers = node.ints(name)
        if len(numbers) == 1:
            node.attributes[name] = [value, *numbers]
    pads = node.ints("pads")
    if len(pads) == 2:
        node.attributes["pads"] = [0, pads[0], 0, pads[1]]
    extra = node.ints("output_padding")
    if len(extra) == 1:
        node.attributes["output_padding"] = [0, *extra]


@on("Reshape")
def _cancel(graph: LoweringGraph, node: Node, context: Context) -> None:
    maker = graph.maker(node.inputs[0], "Reshape")
    if maker is None or graph.is_output(node.outputs[0]):
        return
    if graph.shape(maker.inputs[0]) == graph.shape(node.outputs[0]):
        graph.remove(node)
        graph.replace_reads(node.outputs[0], maker.inputs[0])
        if graph.unread(maker.outputs[0]):
            graph.remove(maker)
