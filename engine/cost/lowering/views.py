"""What a chain of reshapes and transposes does, and the fewest steps that do the same."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from engine.cost.lowered import Node, Shape
from engine.cost.lowering.graph import LoweringGraph


@dataclass(slots=True, eq=False)
class _Part:
    """A factor of a dimension; it is split where a reshape cuts through it."""

    size: int
    halves: tuple[_Part, _Part] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A Reshape, or a Transpose where ``perm`` is given; ``shape`` is what comes out."""

    shape: Shape
    perm: tuple[int, ...] = ()


class View:
    """The dimensions of a tensor as factors of those that it started with."""

    def __init__(self, shape: Shape) -> None:
        self.start = [[_Part(size)] if size > 1 else [] for size in shape]
        self.dims = [list(parts) for parts in self.start]
        self.start_shape = shape
        self.shape = shape

    def transpose(self, perm: tuple[int, ...]) -> bool:
        """Reorder; False where ``perm`` does not fit."""
        if sorted(perm) != list(range(len(self.dims))):
            return False
        self.dims = [self.dims[axis] for axis in perm]
        self.shape = tuple(self.shape[axis] for axis in perm)
        return True

    def reshape(self, shape: Shape) -> bool:
        """Group the factors anew; False where a dimension would cut one at no whole number."""
        if math.prod(shape) != math.prod(self.shape) or 0 in shape:
            return False
        queue = deque(_resolved(self.dims))
        dims = []
        for size in shape:
            group: list[_Part] = []
            missing = size
            while missing > 1:
                part = queue.popleft()
                if missing % part.size == 0:
                    group.append(part)
                    missing //= part.size
                elif part.size % missing == 0:
                    part.halves = (_Part(missing), _Part(part.size // missing))
                    group.append(part.halves[0])
                    queue.appendleft(part.halves[1])
                    missing = 1
                else:
                    return False
            dims.append(group)
        self.dims = dims
        self.shape = shape
        return True


def view_of(graph: LoweringGraph, root: str, path: list[Node]) -> View | None:
    """What movements make of a tensor; None where it is not known."""
    view = View(graph.shape(root))
    for node in path:
        if node.op == "Transpose":
            fits = view.transpose(node.ints("perm") or tuple(reversed(range(len(view.shape)))))
        else:
            fits = view.reshape(graph.shape(node.outputs[0]))
        if not fits:
            return None
    return view


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """Axes that undo a transposition."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def four(shape: Shape) -> Shape:
    """A shape in four dimensions as the compiler writes it: (a, b, c) is (a, b, 1, c)."""
    if len(shape) == 3:
        return (shape[0], shape[1], 1, shape[2])
    if len(shape) == 2:
        return (*shape, 1, 1)
    if len(shape) < 2:
        return (1, *(shape or (1,)), 1, 1)
    return shape


def shortest_steps(view: View) -> list[Step] | None:
    """The steps from where a view started to where it is; None where they are not known."""
    source, target = view.start_shape, view.shape
    before = _resolved(view.start)
    after = _resolved(view.dims)
    if before == after:
        return _plain(source, target)
    base, end = four(source), four(target)
    if len(base) != 4 or len(end) != 4:
        return _through_runs(source, target, before, after)
    starts = view.start if len(source) == 4 else _fitted(base, before)
    ends = view.dims if len(target) == 4 else _fitted(end, after)
    first = _transpose_first(source, base, target, starts, after)
    last = _reshape_first(source, target, end, ends, before)
    if first is not None and last is not None:
        dims = [sum(size > 1 for size in shape) for shape in (base, end)]
        if len(first) == len(last):
            return first if dims[0] <= dims[1] else last
        return first if len(first) < len(last) else last
    return first or last or _through_runs(source, target, before, after)


def _plain(source: Shape, target: Shape) -> list[Step]:
    if source == target:
        return []
    if len(source) == len(target) == 4 and long_sizes(source) == long_sizes(target):
        return [Step(target, _perm(source, target, _slots(source)))]
    return [Step(target)]


def long_sizes(shape: Shape) -> list[int]:
    """Those of a shape that are not one."""
    return [size for size in shape if size > 1]


def _slots(shape: Shape) -> list[int]:
    return [at for at, size in enumerate(shape) if size > 1]


def _perm(base: Shape, target: Shape, order: list[int]) -> tuple[int, ...]:
    """Axes that bring ``base`` to ``target``, whose long dimensions come from ``order``."""
    ones = [at for at, size in enumerate(base) if size == 1]
    left = list(order)
    perm = [-1] * len(target)
    for at, size in enumerate(target):
        if size > 1:
            perm[at] = left.pop(0)
        elif at in ones:
            perm[at] = at
            ones.remove(at)
    return tuple(ones.pop(0) if axis < 0 else axis for axis in perm)


def _transpose_first(
    source: Shape, base: Shape, target: Shape, starts: list[list[_Part]], after: list[_Part]
) -> list[Step] | None:
    order = _order(starts, after)
    if order is None:
        return None
    steps = [Step(base)] if base != source else []
    if len(target) == 4 and long_sizes(target) == [base[axis] for axis in order]:
        return [*steps, Step(target, _perm(base, target, order))]
    slots = _slots(base)
    perm = list(range(4))
    if len(target) == 3 and target[0] == 1 and slots == [1, 2, 3]:
        slots = [0, 1, 3]  # rows and columns of pixels as (rows, columns, 1, values)
        perm[2] = 0
    for slot, axis in zip(slots, order, strict=True):
        perm[slot] = axis
    shape = tuple(base[axis] for axis in perm)
    steps.append(Step(shape, tuple(perm)))
    return steps if shape == target else [*steps, Step(target)]


def _reshape_first(
    source: Shape, target: Shape, end: Shape, ends: list[list[_Part]], before: list[_Part]
) -> list[Step] | None:
    order = _order(ends, before)
    if order is None:
        return None
    slots = _slots(end)
    shape = list(end)
    for slot, axis in zip(slots, order, strict=True):
        shape[slot] = end[axis]
    targets = [slots[order.index(axis)] for axis in slots]
    steps = [Step(tuple(shape))] if tuple(shape) != source else []
    steps.append(Step(end, _perm(tuple(shape), end, targets)))
    return steps if end == target else [*steps, Step(target)]


def _through_runs(
    source: Shape, target: Shape, before: list[_Part], after: list[_Part]
) -> list[Step] | None:
    """Reshape, transpose of what stays together, reshape: at most four dimensions move."""
    place = {id(part): at for at, part in enumerate(after)}
    runs: list[list[_Part]] = []
    for part in before:
        if runs and place[id(part)] == place[id(runs[-1][-1])] + 1:
            runs[-1].append(part)
        else:
            runs.append([part])
    if len(runs) > 4:
        return None
    sizes = [math.prod(part.size for part in run) for run in runs]
    pad = [1] * (4 - len(runs))
    shape = (*pad, *sizes)
    order = sorted(range(len(runs)), key=lambda at: place[id(runs[at][0])])
    perm = (*range(len(pad)), *(len(pad) + axis for axis in order))
    middle = tuple(shape[axis] for axis in perm)
    steps = [Step(shape)] if shape != source else []
    steps.append(Step(middle, perm))
    return steps if middle == target else [*steps, Step(target)]


def _order(dims: list[list[_Part]], parts: list[_Part]) -> list[int] | None:
    """The order in which whole dimensions make up a row of factors; None where they do not."""
    order = []
    owner = {}
    for at, dim in enumerate(dims):
        members = _resolved([dim])
        if members:
            owner[id(members[0])] = (at, members)
    rest = deque(parts)
    while rest:
        start = owner.get(id(rest[0]))
        if start is None:
            return None
        for member in start[1]:
            if not rest or rest.popleft() is not member:
                return None
        order.append(start[0])
    return order


def _fitted(shape: Shape, parts: list[_Part]) -> list[list[_Part]]:
    """Factors grouped to dimensions that only differ by ones from what they make up."""
    queue = deque(parts)
    dims: list[list[_Part]] = []
    for size in shape:
        dims.append([])
        while math.prod(part.size for part in dims[-1]) < size:
            dims[-1].append(queue.popleft())
    return dims


def _resolved(dims: list[list[_Part]]) -> list[_Part]:
    """The factors of all dimensions in a row, as far as they were split."""
    resolved = []
    stack = [part for dim in reversed(dims) for part in reversed(dim)]
    while stack:
        part = stack.pop()
        if part.halves is None:
            resolved.append(part)
        else:
            stack.extend(reversed(part.halves))
    return resolved
