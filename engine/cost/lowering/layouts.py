"""Transposes move through layers to where they cancel.

The layers work element by element, or are convolutions of one pixel.
"""

from __future__ import annotations

import numpy as np

from engine.cost.lowered import Node
from engine.cost.lowering.fours import BINARY, UNARY
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.maps import join_maps, push_maps, push_splits
from engine.cost.lowering.matrix import absorb_scales, fuse_constants
from engine.cost.lowering.movement import MOVEMENTS, is_movement, perm_of, tidy_movements
from engine.cost.lowering.rules import Context, execution_order, on
from engine.cost.lowering.views import inverse, shortest_steps, view_of

_ALONG = frozenset({"Concat", "Gather", "LogSoftmax", "Slice", "exSoftmax13"})
"""Layers along an axis, which a transpose moves."""

_MOVABLE = UNARY | BINARY | _ALONG | {"exNorm"}

_LONGEST = 4
"""Movements in a row that are looked at."""

_ROUNDS = 10
"""Passes over the graph at most; each lets a transpose move as far as it goes."""


def settle_layouts(graph: LoweringGraph, context: Context) -> None:
    """Push transposes, join movements and take sums into matrices until nothing changes."""
    tidy_movements(graph, context)
    for _ in range(_ROUNDS):
        changed = _push(graph)
        if not changed:
            changed = push_maps(graph, context) | push_splits(graph, context)
            changed |= join_maps(graph, context)
        changed |= fuse_constants(graph, context)
        changed |= _swap_operands(graph, context)
        if not changed and not absorb_scales(graph):
            break
        tidy_movements(graph, context)
    _turn_single_heads(graph)


def _turn_single_heads(graph: LoweringGraph) -> None:
    """Scores of one head that stay to be turned: the compiler exchanges the ones with them."""
    for node in graph:
        reader = _turned_scores(graph, node)
        if reader is not None and graph.shape(node.outputs[0])[0] == 1:
            reader.attributes["perm"] = [2, 3, 0, 1]


@on("exNorm")
def push_norms(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A transpose that keeps the channels goes behind a norm that another one follows."""
    turn = _turn(graph, node.inputs[0])
    if turn is None or graph.only_reader(node.inputs[0]) is not node:
        return
    reader = graph.only_reader(node.outputs[0])
    if _perm(turn)[1] == 1 and reader is not None and is_movement(reader):
        _carry(graph, node, _perm(turn))


def _push(graph: LoweringGraph) -> bool:
    changed = False
    for node in execution_order(graph):
        if node.op not in _MOVABLE or len(graph.shape(node.outputs[0])) != 4:
            continue
        if node.op == "Slice" and "axis" not in node.attributes:
            continue
        if node.int("stays") or (node.op == "Gather" and not node.int("rolled")):
            continue
        features = [tensor for tensor in dict.fromkeys(node.inputs) if not graph.is_const(tensor)]
        if not features or any(len(graph.shape(tensor)) != 4 for tensor in features):
            continue
        if node.op == "exNorm":
            perm = _best(graph, node, features)
        elif len(features) == 1:
            turn = _turn(graph, features[0])
            single = node.op == "Slice" or graph.only_reader(features[0]) is node
            carried = (node.op == "Gather" and node.int("lifted")) or _scales(graph, node)
            behind = turn is not None and (single or _is_back(graph, node, turn)) and not carried
            perm = _perm(turn) if turn is not None and behind else _lifted(graph, node)
        else:
            perm = _best(graph, node, features)
        if node.op == "exSoftmax13" and perm is not None and perm[node.int("axis")] not in (1, 3):
            continue
        if perm is not None:
            mask = _mask(graph, node) if node.op == "exSoftmax13" else None
            _carry(graph, node, perm)
            if mask is not None:
                _carry(graph, mask, perm)
            changed = True
    return changed


def _is_back(graph: LoweringGraph, node: Node, turn: Node) -> bool:
    """Whether a transpose behind a layer undoes the one before it, which others read, too."""
    reader = graph.reader(node.outputs[0], "Transpose")
    return reader is not None and _perm(reader) == inverse(_perm(turn))


def _scales(graph: LoweringGraph, node: Node) -> bool:
    """Whether a layer multiplies with one number what a product of two features reads next."""
    reader = graph.reader(node.outputs[0], "exMatMul") if node.op == "Mul" else None
    if reader is None or reader.int("constant"):
        return False
    return all(graph.is_number(tensor) for tensor in node.inputs if graph.is_const(tensor))


def _lifted(graph: LoweringGraph, node: Node) -> tuple[int, ...] | None:
    """Of a Softmax of several heads between two matrices: the transpose behind it goes before.

    So it does with one behind rows or columns that are rolled, but only once.
    """
    if node.op == "Gather" and not node.int("lifted"):
        reader = graph.reader(node.outputs[0], "Transpose")
        if reader is None or _perm(reader) != (0, 3, 1, 2):
            return None
        node.attributes["lifted"] = 1
        return inverse(_perm(reader))
    reader = _turned_scores(graph, node)
    if reader is None or graph.shape(node.outputs[0])[0] == 1:
        return None
    return inverse(_perm(reader))


def _turned_scores(graph: LoweringGraph, node: Node) -> Node | None:
    """The transpose behind a Softmax of scores."""
    reader = graph.reader(node.outputs[0], "Transpose") if node.op == "exSoftmax13" else None
    if reader is None:
        return None
    mask = _mask(graph, node)
    maker = graph.maker(node.inputs[0] if mask is None else mask.inputs[0], "exMatMul")
    return reader if maker is not None and not maker.int("constant") else None


def _mask(graph: LoweringGraph, softmax: Node) -> Node | None:
    """The sum with a constant of four dimensions before a Softmax, which nothing else reads."""
    node = graph.maker(softmax.inputs[0], "Add", alone=True)
    if node is None:
        return None
    x, mask = node.inputs
    plain = not graph.is_const(x) and graph.is_const(mask) and len(graph.shape(mask)) == 4
    return node if plain and graph.only_reader(x) is node else None


def _turn(graph: LoweringGraph, tensor: str) -> Node | None:
    """The Transpose of four dimensions that writes a tensor."""
    return graph.maker(tensor, "Transpose") if len(graph.shape(tensor)) == 4 else None


def _perm(node: Node) -> tuple[int, ...]:
    return perm_of(node, 4)


def _best(graph: LoweringGraph, node: Node, features: list[str]) -> tuple[int, ...] | None:
    """Axes from a layout with fewer transposes around a sum to the present one."""
    result = node.outputs[0]
    readers = graph.readers(result)
    perms: dict[tuple[int, ...], int] = {}
    for tensor in features:
        turn = _turn(graph, tensor)
        if turn is not None and graph.only_reader(tensor) is node:
            perms.setdefault(_perm(turn), 0)
    for reader in readers:
        if reader.op == "Transpose" and not graph.is_output(result):
            perms.setdefault(inverse(_perm(reader)), 0)
    chosen, best = None, 0.0
    for perm in perms:
        if node.op == "exNorm" and perm[1] != 1:
            continue
        gain = _gain(graph, node, features, perm)
        if gain > best:
            chosen, best = perm, gain
    return chosen


def _gain(graph: LoweringGraph, node: Node, features: list[str], perm: tuple[int, ...]) -> float:
    """Transposes that would go, less those that would come."""
    back = inverse(perm)
    gain = 0.0
    for tensor in features:
        turn = _turn(graph, tensor)
        if turn is not None and _perm(turn) == perm:
            gain += graph.only_reader(tensor) is node
        elif (turn is not None and graph.only_reader(tensor) is node) or any(
            reader.op == "Transpose" and _perm(reader) == back for reader in graph.readers(tensor)
        ):
            continue
        elif _is_undone(graph, tensor, back):
            gain += graph.only_reader(tensor) is node
        elif not _is_there(graph, tensor, back):
            gain -= 1
    result = node.outputs[0]
    stays = graph.is_output(result)
    for reader in graph.readers(result):
        if reader.op == "Transpose" and _perm(reader) == back:
            gain += 1
        elif reader.op != "Transpose":
            stays = True
    return gain - stays


def _is_undone(graph: LoweringGraph, tensor: str, perm: tuple[int, ...]) -> bool:
    """Whether a tensor comes over movements that a transpose would undo, but for a reshape."""
    root, path = _way(graph, tensor, _LONGEST)
    if not any(node.op == "Transpose" for node in path) or path[-1].op == "Transpose":
        return False
    view = view_of(graph, root, path)
    steps = shortest_steps(view) if view is not None and view.transpose(perm) else None
    return steps is not None and not any(step.perm for step in steps)


def _way(graph: LoweringGraph, tensor: str, most: int) -> tuple[str, list[Node]]:
    """Where a tensor comes from over at most so many movements, and those in their order."""
    path: list[Node] = []
    while len(path) < most and (move := graph.maker(tensor, *MOVEMENTS)) is not None:
        path.insert(0, move)
        tensor = move.inputs[0]
    return tensor, path


def _is_there(graph: LoweringGraph, tensor: str, perm: tuple[int, ...]) -> bool:
    """Whether another way from where a tensor comes from gives what a transpose of it would."""
    root, path = _way(graph, tensor, 2 * _LONGEST + 1)
    goal = view_of(graph, root, path) if path and len(path) <= 2 * _LONGEST else None
    steps = shortest_steps(goal) if goal is not None and goal.transpose(perm) else None
    stack: list[tuple[str, list[Node]]] = [(root, [])]
    while stack and steps:
        here, way = stack.pop()
        readers = graph.readers(here)
        if way and not all(map(is_movement, readers)):
            view = view_of(graph, root, way)
            if view is not None and shortest_steps(view) == steps:
                return True
        if len(way) <= 2 * _LONGEST:
            moves = (move for move in readers if is_movement(move) and move.inputs[0] == here)
            stack.extend((move.outputs[0], [*way, move]) for move in moves)
    return False


def _carry(graph: LoweringGraph, node: Node, perm: tuple[int, ...]) -> None:
    """Let a layer work in the layout before ``perm``; behind it the values are turned."""
    back = inverse(perm)
    inputs = []
    label = ""
    features = [tensor for tensor in node.inputs if not graph.is_const(tensor)]
    for tensor in node.inputs:
        if graph.is_const(tensor):
            fixed = node.op in ("Gather", "Slice")
            inputs.append(tensor if fixed else _turned_const(graph, tensor, back, len(perm)))
            continue
        turn = _turn(graph, tensor)
        if turn is not None and _perm(turn) == perm:
            inputs.append(turn.inputs[0])
            label = label or turn.name
            continue
        turns = (reader for reader in graph.readers(tensor) if reader.op == "Transpose")
        ready = next((turn.outputs[0] for turn in turns if _perm(turn) == back), "")
        if ready in ("", node.outputs[0]):
            ready = graph.transpose(tensor, back, before=node, sources=node.sources)
        inputs.append(ready)
    result = node.outputs[0]
    shape = graph.shape(result)
    turned = tuple(shape[tensor] for tensor in back)
    following = graph.following(node)
    name = graph.unique(f"{result}_tp") if len(features) > 1 or not label else label
    if len(features) > 1 and not graph.is_output(result):
        # The sum keeps its tensor; what it was before gets a new one.
        written, end = result, graph.like(result, shape, name)
        graph.replace_reads(result, end)
        graph.add_tensor(result, turned, graph.tensors[result].dtype)
    else:
        written, end = graph.like(result, turned, f"{label or result}_sw"), result
    graph.rewire(node, inputs=inputs, outputs=[written])
    if node.op in _ALONG:
        node.attributes["axis"] = perm[node.int("axis")]
    graph.transpose(written, perm, name, end, before=following, sources=node.sources)
    for tensor in inputs:
        _drop_unread(graph, graph.producer(tensor))


def _drop_unread(graph: LoweringGraph, maker: Node | None) -> None:
    for reader in graph.readers(maker.outputs[0]) if maker is not None else ():
        if reader.op == "Transpose" and graph.unread(reader.outputs[0]):
            graph.remove(reader)


def _turned_const(graph: LoweringGraph, tensor: str, perm: tuple[int, ...], rank: int) -> str:
    before = graph.shape(tensor)
    if len(before) != rank or all(size == 1 for size in before):
        return tensor
    shape = tuple(before[axis] for axis in perm)
    name = graph.unique(f"{tensor}_sw")
    return graph.reshaped(
        tensor, shape, name, lambda array: np.transpose(array.reshape(before), perm)
    )


def _swap_operands(graph: LoweringGraph, context: Context) -> bool:
    """A @ B that is only read transposed is computed as B @ A; so is one of a single row.

    Not where several in a batch have columns that break groups: those are turned behind it.
    """
    changed = False
    for node in graph:
        if node.op != "exMatMul" or node.int("constant"):
            continue
        more = node.inputs[2:]
        result = node.outputs[0]
        shape = graph.shape(result)
        reader = graph.only_reader(result)
        if reader is None:
            continue
        row = shape[1] == 1 < shape[3]
        turned = reader.op == "Transpose" and _perm(reader) == (0, 3, 2, 1)
        if not turned and not (row and reader.op == "Reshape"):
            continue
        if turned and node.int("batched") and shape[3] % context.whole_channels:
            wide = (shape[0], shape[3], shape[1], 1)
            graph.add_tensor(reader.outputs[0], wide, graph.tensors[result].dtype)
            reader.attributes["perm"] = [0, 3, 1, 2]
            continue
        if not row and not all(graph.is_const(tensor) for tensor in more):
            continue
        extra = [_turned_extra(graph, tensor, node) for tensor in more]
        if turned:
            result = reader.outputs[0]
            graph.remove(reader)
        else:  # its numbers lie in the same order either way
            swapped = graph.like(result, (shape[0], shape[3], 1, 1), f"{result}_sw")
            graph.reshape(swapped, shape, f"{swapped}_rs", result, before=reader)
            result = swapped
        inputs = [node.inputs[1], node.inputs[0], *extra]
        graph.rewire(node, inputs=inputs, outputs=[result])
        changed = True
    return changed


def _turned_extra(graph: LoweringGraph, tensor: str, node: Node) -> str:
    """A scale or a mask of a product whose operands change places."""
    if graph.is_const(tensor):
        return _turned_const(graph, tensor, (0, 3, 2, 1), 4)
    return graph.transpose(tensor, (0, 3, 2, 1), before=node)


# Transposes and reshapes around convolutions of one pixel, whose pixels may lie in any order.

_PIXEL_ROUNDS = 8


def settle_convolutions(graph: LoweringGraph, context: Context) -> None:
    """Transposes that keep the channels go behind a 1x1 convolution, batches into its height."""
    for _ in range(_PIXEL_ROUNDS):
        changed = False
        for node in graph:
            if node.op == "Conv" and node.int("constant"):
                changed |= _batched(graph, node) or _behind(graph, node) or _lift_turn(graph, node)
            elif node.op in UNARY:
                changed |= _passed(graph, node)
        changed |= push_maps(graph, context, matrices=True)
        if not changed:
            return
        settle_layouts(graph, context)


def _before(graph: LoweringGraph, node: Node) -> Node | None:
    turn = graph.maker(node.inputs[0], "Transpose", alone=True)
    return turn if turn is not None and len(graph.shape(turn.inputs[0])) == 4 else None


def _moved(graph: LoweringGraph, node: Node) -> list[Node]:
    """The Transpose before a layer if it keeps the channels, with a Reshape that it needs to."""
    turn = _before(graph, node)
    if turn is None:
        return []
    perm = perm_of(turn, 4)
    if perm[1] == 1:
        return [turn]
    view = graph.maker(turn.inputs[0], "Reshape", alone=True)
    if view is None:
        return []
    source, shape = graph.shape(view.inputs[0]), graph.shape(view.outputs[0])
    whole = len(source) == 4 and source[0] == 1 and perm[1] == 0 and source[1] == shape[0]
    return [view, turn] if whole and source[1] > 1 else []


def _go_behind(graph: LoweringGraph, node: Node, moves: list[Node]) -> None:
    """Let a layer over channels read what is moved; what it writes is moved instead."""
    x, result, turn = moves[0].inputs[0], node.outputs[0], moves[-1]
    source, channels = graph.shape(x), graph.shape(result)[1]
    data = graph.like(result, (source[0], channels, *source[2:]), f"{turn.name}_sw")
    following = graph.following(node)
    wide = (channels, *graph.shape(turn.inputs[0])[1:])
    for move in moves[::-1]:
        graph.remove(move)
    graph.rewire(node, inputs=[x, *node.inputs[1:]], outputs=[data])
    if len(moves) > 1:
        name = graph.unique(f"{moves[0].name}_sw")
        data = graph.reshape(data, wide, moves[0].name, name, before=following)
    perm = perm_of(turn, 4)
    graph.transpose(data, perm, turn.name, result, before=following, sources=turn.sources)


def _behind(graph: LoweringGraph, node: Node) -> bool:
    moves = _moved(graph, node)
    if not moves:
        return False
    _go_behind(graph, node, moves)
    return True


def _passed(graph: LoweringGraph, node: Node) -> bool:
    """An activation between two such convolutions works before the transpose."""
    moves = _moved(graph, node)
    x = moves[0].inputs[0] if moves else ""
    if not moves or graph.only_reader(x) is not moves[0]:
        return False
    for neighbour in (graph.producer(x), graph.only_reader(node.outputs[0])):
        if neighbour is None or neighbour.op != "Conv" or not neighbour.int("constant"):
            return False
    _go_behind(graph, node, moves)
    return True


def _lift_turn(graph: LoweringGraph, node: Node) -> bool:
    turn, after = _before(graph, node), graph.reader(node.outputs[0], "Transpose")
    if turn is None or after is None:
        return False
    perm = perm_of(after, 4)
    if perm[1] != 1 or perm == (0, 1, 2, 3):
        return False
    x = node.inputs[0]
    result = after.outputs[0]
    graph.remove(after)
    moved = graph.transpose(x, perm, after.name, graph.unique(f"{x}_sw"), before=node)
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=[result])
    return True


def _batched(graph: LoweringGraph, node: Node) -> bool:
    """(B, K, 1, M) between two transposes -> (1, K, B, M)."""
    turn, after = _before(graph, node), graph.reader(node.outputs[0], "Transpose")
    if turn is None or after is None:
        return False
    batch, depth, height, rows = graph.shape(node.inputs[0])
    if batch == 1 or height != 1:
        return False
    first, second = perm_of(turn, 4), perm_of(after, 4)
    order = (2, 1, 0, 3)
    dtype = graph.tensors[node.outputs[0]].dtype
    channels = graph.shape(node.outputs[0])[1]
    x = graph.add_tensor(graph.unique(f"{node.inputs[0]}_b"), (1, depth, batch, rows), dtype)
    batched = graph.add_tensor(
        graph.unique(f"{node.outputs[0]}_b"), (1, channels, batch, rows), dtype
    )
    graph.rewire(turn, outputs=[x])
    turn.attributes["perm"] = [first[axis] for axis in order]
    graph.rewire(node, inputs=[x, *node.inputs[1:]], outputs=[batched])
    graph.rewire(after, inputs=[batched])
    after.attributes["perm"] = [order[axis] for axis in second]
    return True
