"""Reshapes between a map and its row of pixels move through layers that do not care.

Of those before a Concat one goes, and the others fit to it.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from engine.cost.lowered import Node, Shape
from engine.cost.lowering.fours import BINARY, UNARY
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.movement import MOVEMENTS, perm_of, stands
from engine.cost.lowering.rules import Context, execution_order, on
from engine.cost.lowering.views import inverse


@on("Add")
def lift_positions(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Constants that are added to rows of patches are added to the map that the rows come from."""
    data, other = graph.operands(node)
    turn, view = _turned_rows(graph, graph.maker(data, "Transpose", alone=True))
    if turn is None or view is None or graph.only_reader(turn.inputs[0]) is not turn:
        return
    x, result = view.inputs[0], node.outputs[0]
    source, rows = graph.shape(x), graph.shape(result)
    whole = graph.shape(other) in (rows, rows[1:]) and graph.shape(data) == rows
    if len(source) != 4 or source[:2] != (rows[0], rows[2]) or rows[0] != 1 or not whole:
        return

    def turned(array: np.ndarray) -> np.ndarray:
        return array.reshape(rows[1:]).T.reshape(source)

    const = graph.reshaped(other, source, graph.unique(f"{other}_sw"), turned)
    added = graph.like(x, source, f"{view.name}_sw")
    middle = graph.like(x, (rows[0], rows[2], rows[1]), f"{turn.name}_sw")
    graph.rewire(node, inputs=[x, const], outputs=[added])
    graph.move_behind(node, x)
    graph.rewire(view, inputs=[added, *view.inputs[1:]], outputs=[middle])
    graph.rewire(turn, inputs=[middle], outputs=[result])


@on("Transpose")
def turn_shared(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A map that others read, too, is turned before it becomes rows of pixels."""
    turn, view = _turned_rows(graph, node)
    if turn is None or view is None:
        return
    x, result = view.inputs[0], turn.outputs[0]
    shape, rows = graph.shape(x), graph.shape(view.outputs[0])
    if len(shape) != 4 or shape[:2] != rows[:2] or min(shape[2:]) == 1 or shape[0] != 1:
        return
    if graph.only_reader(x) is view or graph.only_reader(view.outputs[0]) is not turn:
        return
    following = graph.following(turn)
    graph.remove(view)
    graph.remove(turn)
    name = graph.unique(f"{view.name}_sw")
    last = graph.transpose(x, (0, 2, 3, 1), turn.name, name, before=following)
    graph.reshape(last, graph.shape(result), view.name, result, before=following)


def _turned_rows(graph: LoweringGraph, turn: Node | None) -> tuple[Node, Node] | tuple[None, None]:
    """A Transpose of rows, and the Reshape that makes them of a map."""
    if turn is None or turn.ints("perm") != (0, 2, 1):
        return None, None
    view = graph.maker(turn.inputs[0], "Flatten", "Reshape")
    return (turn, view) if view is not None else (None, None)


def push_maps(graph: LoweringGraph, context: Context, *, matrices: bool = False) -> bool:
    """One pass: reshapes that keep batch and channels go behind layers; whether one did.

    Args:
        graph: changed in place.
        context: of the lowering.
        matrices: only behind the convolutions that matrices have become.
    """
    changed = False
    for node in execution_order(graph):
        if matrices and not (node.op == "Conv" and node.int("constant") and not node.int("mean")):
            continue
        shape = _target(graph, node)
        if shape is not None and shape != graph.shape(node.outputs[0]):
            _carry(graph, node, shape)
            changed = True
    return changed


def _target(graph: LoweringGraph, node: Node) -> Shape | None:
    """The shape in which a layer should work; None where it stays."""
    if node.op not in UNARY | BINARY | {"Conv", "exNorm"} or node.int("stays"):
        return None
    features = list(dict.fromkeys(graph.features(node)))
    result = node.outputs[0]
    if not features or not _same_map(graph, node, features):
        return None
    if len(features) > 1:
        return _best(graph, node, features) if node.op in BINARY else None
    (data,) = features
    row = graph.shape(result)[2] == 1
    if node.op == "exNorm" and row and graph.only_reader(data) is None:
        reader = graph.reader(result, "Reshape")  # what others read as rows is made a map before
        shape = graph.shape(reader.outputs[0]) if reader is not None else ()
        if _keeps(shape, graph.shape(result)):
            return shape
    maker = graph.maker(data, "Reshape", alone=True)
    if maker is None or (node.op == "exNorm" and not row):
        return None
    source = graph.shape(maker.inputs[0])
    if not _keeps(source, graph.shape(data)):
        return source if _single(graph, node, source) else None
    if node.op in ("Conv", "exNorm") and graph.only_reader(maker.inputs[0]) is not maker:
        return None  # others read the map
    return _of_conv(graph, node, source) if node.op == "Conv" else source


def _single(graph: LoweringGraph, node: Node, source: Shape) -> bool:
    """Whether a layer works number by number, with movements before and behind it."""
    consts = [tensor for tensor in node.inputs if graph.is_const(tensor)]
    return (
        len(source) == 4
        and node.op in UNARY | BINARY
        and all(map(graph.is_number, consts))
        and graph.reader(node.outputs[0], *MOVEMENTS) is not None
    )


def _same_map(graph: LoweringGraph, node: Node, features: list[str]) -> bool:
    """Whether constants are per channel at most, and nothing is spread."""
    shape = graph.shape(features[0])
    if len(shape) != 4:
        return False
    if node.op != "Conv" and any(
        graph.shape(tensor) != shape for tensor in (*features, *node.outputs)
    ):
        return False
    for tensor in node.inputs:
        if graph.is_const(tensor) and node.op in BINARY:
            const = graph.shape(tensor)
            size = math.prod(const)
            if size != 1 and not (len(const) == 4 and size == const[1]):
                return False
    return True


def _keeps(source: Shape, target: Shape) -> bool:
    return len(source) == len(target) == 4 and source[:2] == target[:2] and source != target


def _of_conv(graph: LoweringGraph, node: Node, source: Shape) -> Shape | None:
    weight = graph.shape(node.inputs[1])
    plain = (
        len(weight) == 4
        and weight[2:] == (1, 1)
        and node.int("group", 1) == 1
        and set(node.ints("strides", (1, 1))) == {1}
        and not any(node.ints("pads"))
    )
    matrix = node.int("constant") and not node.int("mean")
    if not plain or (source[2] != 1 and not matrix):
        return None
    return (source[0], graph.shape(node.outputs[0])[1], *source[2:])


def _best(graph: LoweringGraph, node: Node, features: list[str]) -> Shape | None:
    result = node.outputs[0]
    now = graph.shape(result)
    views = [graph.maker(tensor, "Reshape", alone=True) for tensor in features]
    shapes = [graph.shape(view.inputs[0]) for view in views if view is not None]
    behind = (view for view in graph.readers(result) if view.op == "Reshape")
    shapes += [graph.shape(view.outputs[0]) for view in behind]
    for shape in dict.fromkeys(shapes):
        if _keeps(shape, now) and _gain(graph, node, features, shape) > 0:
            return shape
    return None


def _gain(graph: LoweringGraph, node: Node, features: list[str], shape: Shape) -> int:
    gain = 0
    for tensor in features:
        maker = graph.maker(tensor, "Reshape")
        if maker is not None and graph.shape(maker.inputs[0]) == shape:
            gain += graph.only_reader(tensor) is node
        elif _ready(graph, tensor, shape) is None:
            gain -= 1
    result = node.outputs[0]
    gain += _ready(graph, result, shape) is not None
    stays = any(reader.op != "Reshape" for reader in graph.readers(result))
    return gain - (stays or graph.is_output(result))


def _ready(graph: LoweringGraph, tensor: str, shape: Shape) -> Node | None:
    """A Reshape to this shape that reads a tensor anyway."""
    for reader in graph.readers(tensor):
        if reader.op == "Reshape" and graph.shape(reader.outputs[0]) == shape:
            return reader
    return None


def _carry(graph: LoweringGraph, node: Node, shape: Shape) -> None:
    inputs = []
    label = ""
    moved = 0
    for tensor in node.inputs:
        maker = graph.maker(tensor, "Reshape")
        if graph.is_const(tensor):
            inputs.append(tensor)
        elif maker is not None and graph.shape(maker.inputs[0])[2:] == shape[2:]:
            inputs.append(maker.inputs[0])
            label = label or maker.name
            moved += 1
        elif (ready := _ready(graph, tensor, shape)) is not None:
            if node.op == "Add" and not ready.name.endswith("_ffn_fuse"):
                ready.name = f"{tensor.split('-rs')[0]}_rs_ffn_fuse"
            inputs.append(ready.outputs[0])
        else:
            name = graph.unique(f"{tensor}_rs")
            follows = graph.only_reader(node.outputs[0]) if node.op == "exNorm" else None
            own = follows.name if follows is not None and not label else name
            inputs.append(graph.reshape(tensor, shape, own, name, before=node))
    result = node.outputs[0]
    single = label if len(graph.features(node)) == 1 else ""
    views = [graph.maker(tensor, "Reshape") for tensor in node.inputs]
    whole = graph.shape(result)
    following = graph.following(node)
    if single or graph.is_output(result):
        name = single or graph.unique(f"{result}_rs")
        written, end = graph.like(result, shape, f"{name}_sw"), result
    else:
        mark = "-rs" if moved == len(inputs) else "_rs"
        name = end = graph.like(result, whole, f"{result}{mark}")
        graph.replace_reads(result, end)
        written = graph.add_tensor(result, shape, graph.tensors[result].dtype)
    graph.rewire(node, inputs=inputs, outputs=[written])
    graph.reshape(written, whole, name, end, before=following, sources=node.sources)
    for view in views:
        if view is not None and view in graph and graph.unread(view.outputs[0]):
            graph.remove(view)


def push_splits(graph: LoweringGraph, context: Context) -> bool:
    """What all parts of a Split go through alike is done once before it; whether that was so."""
    changed = False
    for node in graph:
        if node.op == "Split" and len(node.outputs) > 1 and not graph.is_const(node.inputs[0]):
            changed |= _before_split(graph, node)
    return changed


def _before_split(graph: LoweringGraph, node: Node) -> bool:
    if _turn_before_split(graph, node):
        return True
    behind = [graph.only_reader(tensor) for tensor in node.outputs]
    readers = [reader for reader in behind if reader is not None]
    x = node.inputs[0]
    whole, part = graph.shape(x), graph.shape(node.outputs[0])
    if (
        len(set(readers)) != len(behind)
        or len({reader.op for reader in readers}) > 1
        or len(whole) != 4
    ):
        return False
    first = readers[0]
    axis = node.int("axis") % 4
    if first.op == "Transpose":
        perm = perm_of(first, 4)
        if any(perm_of(reader, 4) != perm for reader in readers):
            return False
        moved = graph.transpose(x, perm, before=node)
        node.attributes["axis"] = perm.index(axis)
    elif first.op == "Reshape":
        parts = {graph.shape(reader.outputs[0]) for reader in readers}
        if any(graph.shape(reader) != part for reader in node.outputs) or len(parts) > 1:
            return False
        target: list[int] = list(*parts)
        place = _place(part, tuple(target), axis)
        if place is None:
            return False
        target[place] = whole[axis]
        moved = graph.reshape(x, tuple(target), before=node)
        node.attributes["axis"] = place
    else:
        return False
    for reader in readers:
        graph.remove(reader)
    outputs = [reader.outputs[0] for reader in readers]
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=outputs)
    return True


def _turn_before_split(graph: LoweringGraph, node: Node) -> bool:
    """Each part is read transposed in the same way, some in another way too."""
    x = node.inputs[0]
    if len(graph.shape(x)) != 4:
        return False
    if any(graph.is_output(tensor) for tensor in node.outputs):
        return False
    by_perm = [
        {perm_of(reader, 4): reader for reader in graph.readers(tensor) if reader.op == "Transpose"}
        for tensor in node.outputs
    ]
    counts = Counter(perm for perms in by_perm for perm in perms)
    perm = max(counts, key=counts.__getitem__, default=(0, 1, 2, 3))
    kept = [
        len(graph.readers(tensor)) > (perm in perms)
        for tensor, perms in zip(node.outputs, by_perm, strict=True)
    ]
    turned = tuple(graph.shape(x)[axis] for axis in perm)
    views = graph.maker(x, "Reshape") is not None and stands(perm, turned)
    if not any(kept) or counts.get(perm, 0) <= sum(kept) + (not views):
        return False
    chosen = [perms.get(perm) for perms in by_perm]
    moved = graph.transpose(x, perm, before=node)
    outputs = []
    for part, turn in zip(list(node.outputs), chosen, strict=True):
        if turn is not None:
            result = turn.outputs[0]
            graph.remove(turn)
        else:
            result = graph.like(part, tuple(graph.shape(part)[at] for at in perm), f"{part}_sp")
        outputs.append(result)
        if graph.has_readers(part):
            name = f"{part}_tp"  # again, where the one of this name has gone
            name = graph.unique(name) if graph.producer(name) is not None else name
            following = graph.following(node)
            graph.transpose(result, inverse(perm), name, part, before=following)
    node.attributes["axis"] = perm.index(node.int("axis") % 4)
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=outputs)
    return True


def _place(part: Shape, target: Shape, axis: int) -> int | None:
    """Where the dimension of a Split is after a Reshape of a part; None where it is not whole."""
    before = math.prod(part[:axis])
    for at in range(len(target)):
        if math.prod(target[:at]) == before and target[at] == part[axis]:
            return at
    return None


# Reshapes before a Concat: one goes, the others fit to it.

_SMALL = 4096
"""Elements of a constant whose numbers are looked at."""


@on("Add")
def drop_zero_sums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A sum with zeros does nothing."""
    data, other = graph.operands(node)
    dims = graph.shape(other)
    if not data or math.prod(dims) > _SMALL or len(dims) == 1 < math.prod(dims):
        return  # a bias stays one, whatever its numbers
    array = graph.array(other)
    if array is None or array.any() or graph.shape(data) != graph.shape(node.outputs[0]):
        return
    graph.rewire(node, inputs=[data, other])
    graph.bypass(node)


@on("Concat")
def join_early(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Maps that are laid out as rows and joined: one map of rows of the same width."""
    if len(graph.shape(node.outputs[0])) == 3 and node.int("axis") in (-1, 2):
        _join(graph, node)


def join_maps(graph: LoweringGraph, context: Context) -> bool:
    """As :func:`join_early` of four dimensions; whether one was changed."""
    changed = False
    for node in graph:
        four = node.op == "Concat" and len(graph.shape(node.outputs[0])) == 4
        if four and graph.reader(node.outputs[0], "Reshape") is not None:
            changed |= _join(graph, node)
    return changed


def _join(graph: LoweringGraph, node: Node) -> bool:
    shapes = [graph.shape(tensor) for tensor in node.inputs]
    axis = node.int("axis") % len(shapes[0])
    views = [
        maker
        for tensor in node.inputs
        if (maker := graph.maker(tensor, "Reshape")) is not None
        and graph.only_reader(tensor) is node
    ]
    if len(views) < len(shapes):
        return False
    head = math.prod(shapes[0][:axis])
    rests = [math.prod(shape[axis:]) for shape in shapes]
    for view in views:
        source = graph.shape(view.inputs[0])
        # the first axis of a shape of four behind so many elements
        cuts = (at for at in range(1, 4) if math.prod(source[:at]) == head)
        cut = next(cuts, None) if len(source) == 4 else None
        if cut is None or source == shapes[views.index(view)]:
            continue
        tail = math.prod(source[cut + 1 :])
        if tail > 1 and all(rest % tail == 0 for rest in rests):
            _rewrite(graph, node, views, view, cut)
            return True
    return False


def _rewrite(graph: LoweringGraph, node: Node, views: list[Node], chosen: Node, cut: int) -> None:
    source = graph.shape(chosen.inputs[0])
    tail = math.prod(source[cut + 1 :])
    inputs = []
    total = 0
    for view in views:
        data = view.inputs[0]
        size = math.prod(graph.shape(data)) // math.prod(source[:cut]) // tail
        total += size
        if view is not chosen:
            shape = (*source[:cut], size, *source[cut + 1 :])
            name = graph.unique(f"{view.outputs[0]}_j")
            data = graph.reshape(data, shape, view.name, name, before=node, sources=view.sources)
        inputs.append(data)
    result = node.outputs[0]
    node.attributes["axis"] = cut
    for view in views:
        graph.remove(view)
    graph.work_in(node, (*source[:cut], total, *source[cut + 1 :]), inputs)
    reader = graph.reader(result, *UNARY)
    if reader is not None and len(reader.inputs) == 1:
        _behind(graph, reader, node.outputs[0])


def _behind(graph: LoweringGraph, node: Node, joined: str) -> None:
    """An activation of a joined map works on it before it is laid out as rows."""
    back = graph.producer(node.inputs[0])
    if back is None:
        return
    result = node.outputs[0]
    inner = graph.like(result, graph.shape(joined), f"{joined}_sw")
    graph.remove(back)
    graph.rewire(node, inputs=[joined], outputs=[inner])
    whole = graph.shape(result)
    graph.reshape(inner, whole, back.name, result, before=graph.following(node))
