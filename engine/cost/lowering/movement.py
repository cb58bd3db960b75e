"""Reshapes and transposes between layers: joined, shared, and taken out where they cancel."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, execution_order, on
from engine.cost.lowering.views import Step, inverse, long_sizes, shortest_steps, view_of

_RESHAPES = frozenset({"Flatten", "Squeeze", "Unsqueeze"})

_ACTIVATIONS = frozenset({"Sigmoid", "exGelu", "exSwish"})

_LONGEST = 64
"""Movements in a row that are looked at together."""


MOVEMENTS = ("Reshape", "Transpose")
"""What only reorders what it reads."""


def is_movement(node: Node | None) -> bool:
    """Whether a node only reorders what it reads."""
    return node is not None and node.op in MOVEMENTS


def perm_of(node: Node, rank: int) -> tuple[int, ...]:
    """Axes of a Transpose; reversed where it gives none."""
    return node.ints("perm") or tuple(reversed(range(rank)))


@on(*_RESHAPES)
def make_reshapes(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Flatten, Squeeze and Unsqueeze -> Reshape, named ``_2rs`` behind the node."""
    if not graph.is_const(node.inputs[0]):
        name = f"{node.name}_2rs"
        inputs = [node.inputs[0], graph.add_numbers(f"{name}_i1", *graph.shape(node.outputs[0]))]
        graph.become(node, "Reshape", name, inputs=inputs, attributes={})


@on("Mul", *_ACTIVATIONS)
def work_early(graph: LoweringGraph, node: Node, context: Context) -> None:
    """What works number by number behind a Transpose or a Reshape goes before it."""
    data, constants = node.inputs[0], node.inputs[1:]
    if node.op == "Mul":
        data, factor = graph.operands(node)
        constants = [factor]
        if not graph.is_number(factor) or node.name.endswith("_2mul"):
            return
    elif constants:
        return
    moves: list[Node] = []
    while (move := graph.maker(data, *MOVEMENTS, alone=True)) is not None:
        moves.append(move)
        data = move.inputs[0]
    if graph.only_reader(data) is not (moves[-1] if moves else node):
        return  # what is moved is read by others, too
    for move in moves:
        x, result = move.inputs[0], node.outputs[0]
        early = graph.like(x, graph.shape(x), f"{move.name}_sw")
        following = graph.following(node)
        graph.rewire(node, inputs=[x, *constants], outputs=[early])
        graph.remove(move)
        graph.rewire(move, inputs=[early, *move.inputs[1:]], outputs=[result])
        graph.insert(move, before=following)


@dataclass(slots=True)
class _Leaf:
    """A tensor behind movements that a layer or the outside reads, and how it gets there."""

    tensor: str
    path: list[Node]
    steps: list[Step]


@dataclass(slots=True)
class _Made:
    """Movements that were made of a tensor: step -> tensor and what was made of that."""

    tensor: str
    next: dict[Step, _Made] = field(default_factory=dict)


def tidy_early(graph: LoweringGraph, context: Context) -> None:
    """As :func:`tidy_movements` before layers get four dimensions: only where steps go."""
    _tidy_all(graph, early=True)


def tidy_movements(graph: LoweringGraph, context: Context) -> None:
    """Every way from a layer to the next over movements in the fewest steps, shared parts once."""
    _tidy_all(graph, early=False)


def _tidy_all(graph: LoweringGraph, *, early: bool) -> None:
    roots: dict[str, None] = {}
    for node in graph:
        if is_movement(node) and not is_movement(graph.producer(node.inputs[0])):
            roots.setdefault(node.inputs[0])
        if not early and _holds(graph, node):
            roots.setdefault(node.outputs[0])
    if roots:
        ranks = {node: at for at, node in enumerate(execution_order(graph))}
        places = {node: at for at, node in enumerate(graph)}
        for root in roots:
            _tidy(graph, root, (ranks, places), early=early)


def _tidy(
    graph: LoweringGraph, root: str, orders: tuple[dict[Node, int], dict[Node, int]], *, early: bool
) -> None:
    leaves: list[_Leaf] = []
    tree: list[Node] = []
    stack: list[tuple[str, list[Node]]] = [(root, [])]
    while stack:
        tensor, path = stack.pop()
        readers = graph.readers(tensor)
        moves = [reader for reader in readers if is_movement(reader) and reader.inputs[0] == tensor]
        held = not early and bool(path) and _holds(graph, path[-1])
        moves = [] if held else moves
        if path and (len(moves) < len(readers) or graph.is_output(tensor) or not readers):
            view = view_of(graph, root, path)
            steps = shortest_steps(view) if view is not None else None
            if steps is None:
                return
            own = _own_steps(graph, path) if len(steps) >= len(path) else []
            own = own or _merged_steps(graph, root, path, len(steps))
            if own and own[0].perm and steps and not steps[0].perm:
                own = []  # a reshape that joins dimensions goes before a transpose
            leaves.append(_Leaf(tensor, path, own or steps))
        tree.extend(moves)
        stack.extend((reader.outputs[0], [*path, reader]) for reader in moves)
        if len(path) > _LONGEST:
            return
    if early:
        ways = {tuple(leaf.steps[: at + 1]) for leaf in leaves for at in range(len(leaf.steps))}
        if len(ways) >= len(tree) or any(_widens(graph, root, leaf) for leaf in leaves):
            return
    if _changes(leaves, tree):
        ranks, places = orders
        leaves.sort(key=lambda leaf: (not _turns(leaf), ranks.get(leaf.path[-1], 0)))
        _rebuild(graph, root, leaves, tree, places, early=early)


def _holds(graph: LoweringGraph, node: Node) -> bool:
    """Whether a Transpose stays for several that move what it writes."""
    if node.op != "Transpose":
        return False
    perm = perm_of(node, len(graph.shape(node.inputs[0])))
    back = inverse(perm)
    readers = graph.readers(node.outputs[0])
    if not all(is_movement(reader) for reader in readers) or len(readers) < 2:
        return False
    kept = [
        reader
        for reader in readers
        if reader.op != "Transpose" or perm_of(reader, len(perm)) != back
    ]
    return len(kept) > 1


def _turns(leaf: _Leaf) -> bool:
    return any(step.perm for step in leaf.steps)


def _widens(graph: LoweringGraph, root: str, leaf: _Leaf) -> bool:
    """Whether a way needs four dimensions that neither of its ends has."""
    ends = (graph.shape(root), graph.shape(leaf.tensor))
    return (
        _turns(leaf)
        and any(len(shape) != 4 for shape in ends)
        and len(leaf.path) == len(leaf.steps) + 1
    )


def _own_steps(graph: LoweringGraph, path: list[Node]) -> list[Step]:
    """The steps as they are: nothing is gained by others. None where one does nothing."""
    steps = []
    for node in path:
        old, new = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
        if node.op == "Transpose":
            steps.append(Step(new, perm_of(node, len(old))))
        elif _only_ones(graph, node, node) or old == new:
            return []
        else:
            steps.append(Step(new))
    return steps


def _merged_steps(graph: LoweringGraph, root: str, path: list[Node], count: int) -> list[Step]:
    """The steps as they are but for reshapes in a row, if those are ``count`` and one turns.

    A Transpose keeps its four dimensions then: (1, 32, 1, 16) -> (16, 1, 1, 32) -> (16, 1, 32).
    """
    steps: list[Step] = []
    before: tuple[int, ...] = graph.shape(root)
    for node in path:
        old, new = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
        if node.op == "Transpose":
            if len(new) != 4:
                return []
            steps.append(Step(new, perm_of(node, len(old))))
        elif steps and not steps[-1].perm:
            steps[-1] = Step(new)
        else:
            steps.append(Step(new))
        start = steps[-2].shape if len(steps) > 1 else before
        if not steps[-1].perm and steps[-1].shape == start:
            steps.pop()
    steps = _without_ones(steps, before) if len(before) < 4 else steps
    turns = sum(bool(step.perm) for step in steps)
    return steps if len(steps) == count and turns == 1 else []


def _without_ones(steps: list[Step], before: tuple[int, ...]) -> list[Step]:
    """A turned matrix (b, a, 1, 1) that is seen as (1, b, 1, a) is turned to that at once."""
    if len(steps) < 2 or steps[-1].perm or not steps[-2].perm:
        return steps
    turned, end = steps[-2].shape, steps[-1].shape
    start = steps[-3].shape if len(steps) > 2 else before
    if turned[2:] != (1, 1) or min(turned[:2]) == 1 or end != (1, turned[0], 1, turned[1]):
        return steps
    return [*steps[:-2], Step(end, (2, 1, 3, 0))] if start == (*turned[1::-1], 1, 1) else steps


def _changes(leaves: list[_Leaf], tree: list[Node]) -> bool:
    """Whether the shortest way differs from what is there."""
    if len(leaves) != len(tree):
        return True
    seen = set()
    for leaf in leaves:
        if len(leaf.steps) != 1 or len(leaf.path) != 1 or leaf.steps[0] in seen:
            return True
        if leaf.path[0].op != ("Transpose" if leaf.steps[0].perm else "Reshape"):
            return True
        seen.add(leaf.steps[0])
    return False


def _rebuild(
    graph: LoweringGraph,
    root: str,
    leaves: list[_Leaf],
    tree: list[Node],
    places: dict[Node, int],
    *,
    early: bool,
) -> None:
    origin = _Made(root)
    at = tree[0]
    ends = {leaf.tensor for leaf in leaves}
    # Of nodes that become one the first in execution lends the name, behind a shared one the first
    # that was made.
    lenders: dict[tuple[Step, ...], Node | None] = {}
    for leaf in leaves:
        for number, lender in enumerate(_names(graph, leaf, early=early)):
            way = tuple(leaf.steps[: number + 1])
            old = lenders.get(way)
            if way not in lenders:
                lenders[way] = lender
            elif number > 0 and lender is not None and old is not None:
                lenders[way] = min(lender, old, key=lambda node: places.get(node, 0))
    placed: list[tuple[_Leaf, _Made]] = []
    for leaf in leaves:
        here = origin
        sources = tuple(dict.fromkeys(source for node in leaf.path for source in node.sources))
        for number, step in enumerate(leaf.steps):
            if step not in here.next:
                owner = lenders[tuple(leaf.steps[: number + 1])]
                name = owner.name if owner is not None else graph.unique(f"{here.tensor}_rs")
                output = leaf.tensor
                if number < len(leaf.steps) - 1:
                    output = owner.outputs[0] if owner is not None else name
                    output = graph.unique(f"{output}_s") if output in ends else output
                graph.add_tensor(output, step.shape, graph.tensors[here.tensor].dtype)
                move = graph.transpose if step.perm else graph.reshape
                axes = step.perm or step.shape
                move(here.tensor, axes, name, output, before=at, sources=sources)
                here.next[step] = _Made(output)
            here = here.next[step]
        placed.append((leaf, here))
    for node in tree:
        graph.remove(node)
    for leaf, here in placed:
        _hand_over(graph, leaf, here.tensor, root)


def _names(graph: LoweringGraph, leaf: _Leaf, *, early: bool) -> list[Node | None]:
    """For each step the node of the way that lends it its name, the last that fits."""
    steps = leaf.steps
    if len(steps) == len(leaf.path) and all(
        bool(step.perm) == (node.op == "Transpose")
        for step, node in zip(steps, leaf.path, strict=True)
    ):
        return list(leaf.path)
    turning = [
        node.op == "Transpose" or (not early and _only_ones(graph, node, node))
        for node in leaf.path
    ]
    idle = set()
    for at, (one, two) in enumerate(pairwise(leaf.path)):
        shape = graph.shape(one.outputs[0])
        flat = one.op == two.op == "Reshape" and len(shape) == 2 and min(shape) > 1
        if flat and not early and _only_ones(graph, one, two):
            idle |= {at, at + 1}
    kept_at = [at for at in range(len(turning)) if at not in idle] or range(len(turning))
    path, turning = _without_pairs(
        graph, [leaf.path[at] for at in kept_at], [turning[at] for at in kept_at]
    )
    turns = [at for at, is_turn in enumerate(turning) if is_turn]
    shapes = [at for at, is_turn in enumerate(turning) if not is_turn]
    turn = next((at for at, step in enumerate(steps) if step.perm), -1)
    kept = [at for at, is_turn in enumerate(turning) if is_turn and path[at].op == "Reshape"]
    if len(steps) == 1 and kept and steps[0].perm and stands(steps[0].perm, steps[0].shape):
        return [path[kept[-1]]]
    if len(steps) == 1 and shapes and (not steps[0].perm or stands(steps[0].perm, steps[0].shape)):
        return [path[shapes[-1]]]
    if turn < 0 or not turns:
        left = [path[place] for place in (shapes or turns)][-len(steps) :]
        return [*left, *([None] * (len(steps) - len(left)))]
    chosen = turns[-1]
    if len(turns) > 2 and turn == 1 and len(steps) == 3:
        cut = [path[place] for place in shapes if not _keeps_lengths(graph, path[place])]
        if len(cut) == 2:
            return [cut[0], path[chosen], cut[1]]
    takers: list[Node | None] = [None] * len(steps)
    takers[turn] = path[chosen]
    used = {chosen}
    for number in range(len(steps)):
        if number == turn:
            continue
        near = [
            place for place in shapes if (place < chosen) == (number < turn) and place not in used
        ]
        free = near or [place for place in shapes if place not in used]
        if free:
            pick = free[-1]
            used.add(pick)
            takers[number] = path[pick]
    return takers


def _only_ones(graph: LoweringGraph, first: Node, last: Node) -> bool:
    """Whether a Reshape of four dimensions, or two, only moves those of one: it is a Transpose."""
    old, new = graph.shape(first.inputs[0]), graph.shape(last.outputs[0])
    return len(old) == len(new) == 4 and long_sizes(old) == long_sizes(new)


def _keeps_lengths(graph: LoweringGraph, node: Node) -> bool:
    """Whether a Reshape only puts ones in or takes them out."""
    old, new = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    return long_sizes(old) == long_sizes(new)


def _without_pairs(
    graph: LoweringGraph, path: list[Node], turning: list[bool]
) -> tuple[list[Node], list[bool]]:
    """A way without neighbours that cancel."""
    kept: list[tuple[Node, bool]] = []
    for node, turns in zip(path, turning, strict=True):
        before = graph.shape(kept[-1][0].inputs[0]) if kept else ()
        if kept and not turns and not kept[-1][1] and before == graph.shape(node.outputs[0]):
            kept.pop()
        else:
            kept.append((node, turns))
    if not kept:
        return path, turning
    return [pair[0] for pair in kept], [pair[1] for pair in kept]


def stands(perm: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a Transpose to this shape only moves dimensions of one: it is a Reshape."""
    moved = [axis for axis, size in zip(perm, shape, strict=True) if size > 1]
    return moved == sorted(moved)


def _hand_over(graph: LoweringGraph, leaf: _Leaf, tensor: str, root: str) -> None:
    """Whoever read a leaf reads what it has become."""
    if tensor == leaf.tensor:
        return
    if not graph.is_output(leaf.tensor):
        graph.replace_reads(leaf.tensor, tensor)
        return
    maker = graph.producer(root) if tensor == root else None
    if maker is not None and not graph.is_output(root):
        graph.replace_reads(root, leaf.tensor)
        outputs = [leaf.tensor if name == root else name for name in maker.outputs]
        graph.rewire(maker, outputs=outputs)
        return
    graph.replace_reads(leaf.tensor, tensor)
    shape = graph.shape(leaf.tensor)
    graph.reshape(tensor, shape, leaf.path[-1].name, leaf.tensor)
