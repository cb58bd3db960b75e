"""Reshapes between a map and its row of pixels move through layers that do not care."""

from __future__ import annotations

import math

import numpy as np

from engine.cost.lowering.fours import BINARY, UNARY
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.movement import perm_of
from engine.cost.lowering.rules import Context
from engine.cost.lowering.sequence import execution_order

__all__ = ["lift_positions", "push_maps", "push_splits", "turn_shared"]

_Shape = tuple[int, ...]


def lift_positions(graph: LoweringGraph, context: Context) -> None:
    """Constants that are added to rows of patches are added to the map that the rows come from."""
    for node in graph:
        data = graph.features(node)
        if node.op != "Add" or len(data) != 1 or len(node.inputs) != 2:
            continue
        turn = graph.producer(data[0])
        if turn is None or turn.op != "Transpose" or turn.ints("perm") != (0, 2, 1):
            continue
        view = graph.producer(turn.inputs[0])
        if view is None or view.op not in ("Reshape", "Flatten"):
            continue
        source, rows = graph.shape(view.inputs[0]), graph.shape(node.outputs[0])
        other = next(each for each in node.inputs if graph.is_const(each))
        whole = graph.shape(other) in (rows, rows[1:]) and graph.shape(data[0]) == rows
        if len(source) != 4 or source[:2] != (rows[0], rows[2]) or rows[0] != 1 or not whole:
            continue
        if graph.only_reader(data[0]) is node and graph.only_reader(turn.inputs[0]) is turn:
            _lift(graph, node, (view, turn), other)
            graph.rewrites["swap_transpose_add"] += 1


def _lift(graph: LoweringGraph, node: Node, moves: tuple[Node, Node], other: str) -> None:
    view, turn = moves
    x, result = view.inputs[0], node.outputs[0]
    source, rows = graph.shape(x), graph.shape(result)
    kept = graph.tensors[other]
    values = kept.values

    def turned() -> np.ndarray:
        array = values() if values is not None else np.zeros(1)
        return array.reshape(rows[1:]).T.reshape(source)

    const = graph.add_tensor(graph.unique(f"{other}_sw"), source, kept.dtype, turned)
    made = graph.like(x, source, f"{view.name}_sw")
    flat = (rows[0], rows[2], rows[1])
    middle = graph.like(x, flat, f"{turn.name}_sw")
    graph.rewire(node, inputs=[x, const], outputs=[made])
    graph.move_behind(node, x)
    graph.rewire(view, inputs=[made, *view.inputs[1:]], outputs=[middle])
    graph.rewire(turn, inputs=[middle], outputs=[result])


def turn_shared(graph: LoweringGraph, context: Context) -> None:
    """A map that others read, too, is turned before it becomes rows of pixels."""
    for turn in graph:
        if turn.op != "Transpose" or turn.ints("perm") != (0, 2, 1):
            continue
        view = graph.producer(turn.inputs[0])
        if view is None or view.op not in ("Flatten", "Reshape"):
            continue
        x, result = view.inputs[0], turn.outputs[0]
        shape, rows = graph.shape(x), graph.shape(view.outputs[0])
        if len(shape) != 4 or shape[:2] != rows[:2] or min(shape[2:]) == 1 or shape[0] != 1:
            continue
        if graph.only_reader(x) is view or graph.only_reader(view.outputs[0]) is not turn:
            continue
        following = graph.following(turn)
        graph.remove(view)
        graph.remove(turn)
        name = graph.unique(f"{view.name}_sw")
        last = graph.transpose(x, (0, 2, 3, 1), turn.name, name, before=following)
        graph.reshape(last, graph.shape(result), view.name, result, before=following)
        graph.rewrites["swap_reshape_transpose"] += 1


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


def _target(graph: LoweringGraph, node: Node) -> _Shape | None:
    """The shape in which a layer should work; None where it stays."""
    if node.op not in UNARY | BINARY | {"Conv", "exNorm"} or not node.inputs:
        return None
    if node.int("stays"):
        return None
    features = [each for each in dict.fromkeys(node.inputs) if not graph.is_const(each)]
    result = node.outputs[0]
    if not features or not _same_map(graph, node, features):
        return None
    if len(features) > 1:
        return _best(graph, node, features) if node.op in BINARY else None
    row = graph.shape(result)[2] == 1
    if node.op == "exNorm" and row and graph.only_reader(features[0]) is None:
        reader = graph.only_reader(result)  # what others read as rows is made a map beforehand
        if reader is not None and reader.op == "Reshape" and not graph.is_output(result):
            shape = graph.shape(reader.outputs[0])
            if _keeps(shape, graph.shape(result)):
                return shape
    maker = graph.producer(features[0])
    if maker is None or maker.op != "Reshape" or graph.only_reader(features[0]) is not node:
        return None
    source = graph.shape(maker.inputs[0])
    if not _keeps(source, graph.shape(features[0])):
        return source if _single(graph, node, source) else None
    if node.op == "exNorm" and not row:
        return None
    if node.op in ("Conv", "exNorm") and graph.only_reader(maker.inputs[0]) is not maker:
        return None  # others read the map
    if node.op == "Conv":
        return _of_conv(graph, node, source)
    return source


def _single(graph: LoweringGraph, node: Node, source: _Shape) -> bool:
    """Whether a layer works number by number, with movements before and behind it."""
    if len(source) != 4 or node.op not in UNARY | BINARY:
        return False
    consts = [each for each in node.inputs if graph.is_const(each)]
    if any(math.prod(graph.shape(each)) != 1 for each in consts):
        return False
    reader = graph.only_reader(node.outputs[0])
    return reader is not None and reader.op in ("Reshape", "Transpose")


def _same_map(graph: LoweringGraph, node: Node, features: list[str]) -> bool:
    """Whether constants are per channel at most, and nothing is spread."""
    shape = graph.shape(features[0])
    if len(shape) != 4:
        return False
    if node.op != "Conv" and any(graph.shape(each) != shape for each in (*features, *node.outputs)):
        return False
    for each in node.inputs:
        if graph.is_const(each) and node.op in BINARY:
            const = graph.shape(each)
            size = math.prod(const)
            if size != 1 and not (len(const) == 4 and size == const[1]):
                return False
    return True


def _keeps(source: _Shape, target: _Shape) -> bool:
    return len(source) == len(target) == 4 and source[:2] == target[:2] and source != target


def _of_conv(graph: LoweringGraph, node: Node, source: _Shape) -> _Shape | None:
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


def _best(graph: LoweringGraph, node: Node, features: list[str]) -> _Shape | None:
    result = node.outputs[0]
    now = graph.shape(result)
    wanted: dict[_Shape, None] = {}
    for each in features:
        maker = graph.producer(each)
        if maker is not None and maker.op == "Reshape" and graph.only_reader(each) is node:
            wanted.setdefault(graph.shape(maker.inputs[0]))
    for reader in graph.readers(result):
        if reader.op == "Reshape":
            wanted.setdefault(graph.shape(reader.outputs[0]))
    for shape in wanted:
        if _keeps(shape, now) and _gain(graph, node, features, shape) > 0:
            return shape
    return None


def _gain(graph: LoweringGraph, node: Node, features: list[str], shape: _Shape) -> int:
    gain = 0
    for each in features:
        maker = graph.producer(each)
        if maker is not None and maker.op == "Reshape" and graph.shape(maker.inputs[0]) == shape:
            gain += graph.only_reader(each) is node
        elif _ready(graph, each, shape) is None:
            gain -= 1
    result = node.outputs[0]
    readers = graph.readers(result)
    gain += any(each.op == "Reshape" and graph.shape(each.outputs[0]) == shape for each in readers)
    others = [each for each in readers if each.op != "Reshape"]
    return gain - (bool(others) or graph.is_output(result))


def _ready(graph: LoweringGraph, tensor: str, shape: _Shape) -> Node | None:
    """A Reshape to this shape that reads a tensor anyway."""
    for reader in graph.readers(tensor):
        if reader.op == "Reshape" and graph.shape(reader.outputs[0]) == shape:
            return reader
    return None


def _carry(graph: LoweringGraph, node: Node, shape: _Shape) -> None:
    inputs = []
    label = ""
    moved = 0
    source = shape
    for each in node.inputs:
        maker = graph.producer(each)
        if graph.is_const(each):
            inputs.append(each)
        elif (
            maker is not None
            and maker.op == "Reshape"
            and graph.shape(maker.inputs[0])[2:] == source[2:]
        ):
            inputs.append(maker.inputs[0])
            label = label or maker.name
            moved += 1
        elif (ready := _ready(graph, each, shape)) is not None:
            if node.op == "Add" and not ready.name.endswith("_ffn_fuse"):
                ready.name = f"{each.split('-rs')[0]}_rs_ffn_fuse"
            inputs.append(ready.outputs[0])
        else:
            name = graph.unique(f"{each}_rs")
            follows = graph.only_reader(node.outputs[0]) if node.op == "exNorm" else None
            own = follows.name if follows is not None and not label else name
            inputs.append(graph.reshape(each, shape, own, name, before=node))
    result = node.outputs[0]
    single = len([each for each in node.inputs if not graph.is_const(each)]) == 1
    old = [graph.producer(each) for each in node.inputs]
    whole = graph.shape(result)
    dtype = graph.tensors[result].dtype
    following = graph.following(node)
    if (single and label) or graph.is_output(result):
        name = label if single and label else graph.unique(f"{result}_rs")
        made, end = graph.add_tensor(graph.unique(f"{name}_sw"), shape, dtype), result
    else:
        mark = "-rs" if moved == len(inputs) else "_rs"
        name = graph.add_tensor(graph.unique(f"{result}{mark}"), whole, dtype)
        graph.replace_reads(result, name)
        made, end = graph.add_tensor(result, shape, dtype), name
    graph.rewire(node, inputs=inputs, outputs=[made])
    graph.reshape(made, whole, name, end, before=following, sources=node.sources)
    for maker in old:
        if maker is not None and maker.op == "Reshape" and maker in graph:
            kept = maker.outputs[0]
            if not graph.has_readers(kept) and not graph.is_output(kept):
                graph.remove(maker)
    graph.rewrites["swap_reshape"] += 1


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
    readers = [graph.only_reader(each) for each in node.outputs]
    first = readers[0]
    if first is None or len(set(readers)) != len(readers):
        return False
    x = node.inputs[0]
    whole = graph.shape(x)
    part = graph.shape(node.outputs[0])
    if any(each is None or each.op != first.op for each in readers) or len(whole) != 4:
        return False
    axis = node.int("axis") % 4
    if first.op == "Transpose":
        perm = perm_of(first, 4)
        if any(each is not None and perm_of(each, 4) != perm for each in readers):
            return False
        moved = graph.transpose(x, perm, before=node)
        node.attributes["axis"] = perm.index(axis)
    elif first.op == "Reshape":
        parts = [graph.shape(each.outputs[0]) for each in readers if each is not None]
        if any(graph.shape(each) != part for each in node.outputs) or len(set(parts)) > 1:
            return False
        place = _place(part, parts[0], axis)
        if place is None:
            return False
        target = list(parts[0])
        target[place] = whole[axis]
        moved = graph.reshape(x, tuple(target), before=node)
        node.attributes["axis"] = place
    else:
        return False
    outputs = [each.outputs[0] for each in readers if each is not None]
    for each in readers:
        if each is not None:
            graph.remove(each)
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=outputs)
    graph.rewrites["reduce_op_around_split"] += 1
    return True


def _turn_before_split(graph: LoweringGraph, node: Node) -> bool:
    """Each part is read transposed in the same way, some in another way too."""
    x = node.inputs[0]
    if len(graph.shape(x)) != 4:
        return False
    if any(graph.is_output(each) for each in node.outputs):
        return False
    counts: dict[tuple[int, ...], int] = {}
    found = [
        {perm_of(reader, 4): reader for reader in graph.readers(each) if reader.op == "Transpose"}
        for each in node.outputs
    ]
    for perms in found:
        for axes in perms:
            counts[axes] = counts.get(axes, 0) + 1
    perm = max(counts, key=counts.__getitem__, default=(0, 1, 2, 3))
    kept = [
        len(graph.readers(each)) > (perm in perms)
        for each, perms in zip(node.outputs, found, strict=True)
    ]
    maker = graph.producer(x)
    views = maker is not None and maker.op == "Reshape" and _stands(graph.shape(x), perm)
    if not any(kept) or counts.get(perm, 0) <= sum(kept) + (not views):
        return False
    chosen = [perms.get(perm) for perms in found]
    moved = graph.transpose(x, perm, before=node)
    outputs = []
    back = tuple(perm.index(each) for each in range(4))
    for part, turn in zip(list(node.outputs), chosen, strict=True):
        if turn is not None:
            result = turn.outputs[0]
            graph.remove(turn)
        else:
            shape = graph.shape(part)
            result = graph.unique(f"{part}_sp")
            dtype = graph.tensors[part].dtype
            graph.add_tensor(result, tuple(shape[at] for at in perm), dtype)
        outputs.append(result)
        if graph.has_readers(part):
            name = f"{part}_tp"  # again, where the one of this name has gone
            name = graph.unique(name) if graph.producer(name) is not None else name
            graph.transpose(result, back, name, part, before=graph.following(node))
    node.attributes["axis"] = perm.index(node.int("axis") % 4)
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=outputs)
    graph.rewrites["reduce_tp_in_mesh"] += 1
    return True


def _stands(shape: _Shape, perm: tuple[int, ...]) -> bool:
    """Whether a transpose only moves dimensions of one: it joins the Reshape before it."""
    long = [each for each in perm if shape[each] > 1]
    return long == sorted(long)


def _place(part: _Shape, target: _Shape, axis: int) -> int | None:
    """Where the dimension of a Split is after a Reshape of a part; None where it is not whole."""
    before = math.prod(part[:axis])
    for at in range(len(target)):
        if math.prod(target[:at]) == before and target[at] == part[axis]:
            return at
    return None
