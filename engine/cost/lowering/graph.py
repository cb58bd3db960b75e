"""A small graph that the rewrites work on: made once of a model, copied for each chip."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from engine.base.plain import JsonValue
from engine.cost.lowered import Node, Tensor


class LoweringGraph:
    """Nodes in the order of execution, with the index that rewrites ask.

    Attributes:
        tensors: by name.
        inputs: names of the features that come from outside.
        outputs: names of the features that go outside.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        tensors: dict[str, Tensor],
        inputs: Iterable[str],
        outputs: Iterable[str],
    ) -> None:
        self.tensors = tensors
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._outputs = frozenset(self.outputs)
        # A list with links both ways, None being both ends: rewrites of 10,000 nodes stay cheap.
        self._next: dict[Node | None, Node | None] = {None: None}
        self._previous: dict[Node | None, Node | None] = {None: None}
        self._producers: dict[str, Node] = {}
        self._readers: dict[str, dict[Node, None]] = defaultdict(dict)
        self._names: dict[str, int] = {}
        for node in nodes:
            self._names.setdefault(node.name, 0)
            self._link(node, None)
            self._index(node)

    @property
    def nodes(self) -> list[Node]:
        """All of them as they are now, in order."""
        ordered = []
        node = self._next[None]
        while node is not None:
            ordered.append(node)
            node = self._next[node]
        return ordered

    def copy(self) -> LoweringGraph:
        """One whose nodes may be changed; the tensors' numbers are shared."""
        nodes = [
            replace(
                node,
                inputs=list(node.inputs),
                outputs=list(node.outputs),
                attributes=dict(node.attributes),
                fused=list(node.fused),
            )
            for node in self.nodes
        ]
        clone = LoweringGraph(nodes, dict(self.tensors), self.inputs, self.outputs)
        clone._names.update(self._names)
        return clone

    # ------------------------------------------------------------------------------------ questions
    def producer(self, tensor: str) -> Node | None:
        """The node that writes a tensor."""
        return self._producers.get(tensor)

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read it, each once."""
        return list(self._readers.get(tensor, ()))

    def only_reader(self, tensor: str) -> Node | None:
        """The one node that reads it; None where there are more, or it is a graph output."""
        readers = self._readers.get(tensor, {})
        return next(iter(readers)) if len(readers) == 1 and not self.is_output(tensor) else None

    def has_readers(self, tensor: str) -> bool:
        """Whether a node reads it."""
        return bool(self._readers.get(tensor))

    def is_output(self, tensor: str) -> bool:
        """Whether it goes outside."""
        return tensor in self._outputs

    def maker(self, tensor: str, *ops: str, alone: bool = False) -> Node | None:
        """The node that writes a tensor, if it is of one of these types; None of others.

        Args:
            tensor: by name.
            ops: any type where there is none.
            alone: whether one node only may read the tensor, and nobody outside.
        """
        node = self._producers.get(tensor)
        if node is None or (ops and node.op not in ops):
            return None
        return None if alone and self.only_reader(tensor) is None else node

    def reader(self, tensor: str, *ops: str) -> Node | None:
        """As :meth:`only_reader`, if it is of one of these types."""
        node = self.only_reader(tensor)
        return node if node is not None and node.op in ops else None

    def unread(self, tensor: str) -> bool:
        """Whether neither a node nor the outside reads it."""
        return not self.has_readers(tensor) and not self.is_output(tensor)

    def operands(self, node: Node) -> tuple[str, str]:
        """The feature and the constant of a node with one of each; empty names of every other."""
        features = self.features(node)
        if len(node.inputs) != 2 or len(features) != 1:
            return "", ""
        (data,) = features
        return data, node.inputs[1 - node.inputs.index(data)]

    def is_number(self, tensor: str) -> bool:
        """Whether it is a constant of one element."""
        return self.is_const(tensor) and prod(self.shape(tensor)) == 1

    def number(self, tensor: str) -> float | None:
        """The one element of a constant; None of everything else."""
        array = self.array(tensor) if self.is_number(tensor) else None
        return None if array is None else float(array.reshape(-1)[0])

    def whole(self, tensor: str) -> list[int] | None:
        """The elements of a constant as whole numbers; None of everything else."""
        array = self.array(tensor)
        return None if array is None else [int(number) for number in array.reshape(-1)]

    def axes(self, node: Node) -> tuple[int, ...]:
        """What a Reduce names as its axes, by an attribute or a constant; none where it does not.

        They are counted from the front.
        """
        rank = len(self.shape(node.inputs[0]))
        axes = list(node.ints("axes"))
        if not axes and len(node.inputs) > 1:
            axes = self.whole(node.inputs[1]) or []
        return tuple(axis % rank for axis in axes) if rank else ()

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Of a tensor; ``()`` of one that is not there."""
        entry = self.tensors.get(tensor)
        return entry.shape if entry else ()

    def is_const(self, tensor: str) -> bool:
        """Whether it is known when the model is compiled."""
        entry = self.tensors.get(tensor)
        return entry is not None and entry.const

    def array(self, tensor: str) -> np.ndarray | None:
        """The numbers of a constant; None for a feature."""
        entry = self.tensors.get(tensor)
        return entry.values() if entry is not None and entry.values is not None else None

    def features(self, node: Node) -> list[str]:
        """Its inputs that are no constants."""
        return [tensor for tensor in node.inputs if tensor and not self.is_const(tensor)]

    def feature(self, node: Node) -> str:
        """The first of them; empty where there is none."""
        return next(iter(self.features(node)), "")

    def breadth_first(self) -> list[Node]:
        """The nodes as a queue gives them: readers of a node stand behind those of earlier ones."""
        missing = {
            node: len({maker for tensor in node.inputs if (maker := self.producer(tensor))})
            for node in self.nodes
        }
        place = {node: at for at, node in enumerate(missing)}
        queue = deque(node for node, left in missing.items() if not left)
        ordered = []
        while queue:
            node = queue.popleft()
            ordered.append(node)
            readers = {reader for name in node.outputs for reader in self.readers(name)}
            for reader in sorted(readers, key=place.__getitem__):
                missing[reader] -= 1
                if not missing[reader]:
                    queue.append(reader)
        return ordered

    def __iter__(self) -> Iterator[Node]:
        """The nodes as they are now: they may be changed meanwhile."""
        return iter(self.nodes)

    def following(self, node: Node) -> Node | None:
        """The node behind one; None behind the last."""
        return self._next[node]

    def __contains__(self, node: Node) -> bool:
        """Whether it was not removed."""
        return node in self._next

    # ------------------------------------------------------------------------------------- changes
    def add_tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        values: Callable[[], np.ndarray] | None = None,
    ) -> str:
        """Make a tensor and return its name; one of that name is replaced."""
        self.tensors[name] = Tensor(name, shape, dtype, values)
        return name

    def add_unknown(self, name: str, shape: tuple[int, ...], dtype: str) -> str:
        """Make a constant that the compiler computes, and nobody asks the numbers of."""

        def zeros() -> np.ndarray:
            return np.broadcast_to(np.zeros((), dtype), shape)

        self.tensors[name] = Tensor(name, shape, dtype, zeros, filled=True)
        return name

    def reshaped(
        self,
        const: str,
        shape: tuple[int, ...],
        name: str,
        change: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> str:
        """Make a constant of another one, in another shape; ``change`` gives it other numbers."""
        entry = self.tensors[const]
        values = entry.values
        if change is not None and values is not None:
            numbers, changed = values, change
            return self.add_tensor(name, shape, entry.dtype, lambda: changed(numbers()))
        return self.add_tensor(name, shape, entry.dtype, values)

    def like(self, tensor: str, shape: tuple[int, ...], name: str) -> str:
        """Make a tensor of the dtype of another one, of a name that no tensor has."""
        return self.add_tensor(self.unique(name), shape, self.tensors[tensor].dtype)

    def unique(self, name: str) -> str:
        """A tensor name that is not taken: ``name``, or with ``#1``, ``#2`` behind it."""
        label, count = name, 0
        while label in self.tensors:
            count += 1
            label = f"{name}#{count}"
        return label

    def fresh(self, name: str) -> str:
        """The name that the compiler gives a new node: with ``#1`` and so on where it is taken."""
        if name not in self._names:
            self._names[name] = 0
            return name
        while True:
            self._names[name] += 1
            label = f"{name}#{self._names[name]}"
            if label not in self._names:
                self._names[label] = 0
                return label

    def insert(self, node: Node, *, before: Node | None = None, after: Node | None = None) -> Node:
        """Put a new node beside one that is there, or at the end."""
        self._names.setdefault(node.name, 0)
        self._link(node, self._next[after] if after is not None else before)
        self._index(node)
        return node

    def put(
        self,
        op: str,
        name: str,
        inputs: list[str],
        outputs: list[str],
        attributes: dict[str, JsonValue] | None = None,
        *,
        kind: str = "",
        before: Node | None = None,
        after: Node | None = None,
        behind: str = "",
        sources: tuple[str, ...] | None = None,
        dtype: str = "",
    ) -> Node:
        """Make a node and put it beside one that is there, behind a tensor, or at the end.

        Args:
            op, name, inputs, outputs, attributes, dtype: as of :class:`Node`.
            kind: ``op`` where it is empty.
            before, after: the neighbour.
            behind: a tensor: as :meth:`insert_behind`.
            sources: those of the neighbour where None.
        """
        if sources is None:
            beside = before if after is None else after
            sources = beside.sources if beside is not None else ()
        node = Node(op, name, kind or op, inputs, outputs, attributes or {}, sources=sources)
        node.dtype = dtype
        if behind:
            return self.insert_behind(node, behind)
        return self.insert(node, before=before, after=after)

    def reshape(
        self,
        tensor: str,
        shape: tuple[int, ...],
        name: str = "",
        output: str = "",
        *,
        before: Node | None = None,
        sources: tuple[str, ...] = (),
    ) -> str:
        """A Reshape of ``tensor``; returns what it writes, of its own name if no other is given.

        Without a name it has one of its own, with ``_rs`` behind that of the tensor.
        """
        name = name or self.unique(f"{tensor}_rs")
        inputs = [tensor, self.add_numbers(f"{name}_i1", *shape)]
        return self.write("Reshape", name, inputs, shape, output, before=before, sources=sources)

    def transpose(
        self,
        tensor: str,
        perm: tuple[int, ...],
        name: str = "",
        output: str = "",
        *,
        before: Node | None = None,
        sources: tuple[str, ...] = (),
    ) -> str:
        """A Transpose of ``tensor``, as :meth:`reshape`; ``_tp`` stands behind its name."""
        name = name or self.unique(f"{tensor}_tp")
        shape = tuple(self.shape(tensor)[axis] for axis in perm)
        axes: dict[str, JsonValue] = {"perm": list(perm)}
        return self.write(
            "Transpose", name, [tensor], shape, output, axes, before=before, sources=sources
        )

    def write(
        self,
        op: str,
        name: str,
        inputs: list[str],
        shape: tuple[int, ...],
        output: str = "",
        attributes: dict[str, JsonValue] | None = None,
        *,
        before: Node | None = None,
        behind: str = "",
        sources: tuple[str, ...] | None = None,
    ) -> str:
        """As :meth:`put` with what it writes: a tensor of the dtype of the first input.

        It has the name of the node if no other is given; one that is there stays as it is.
        """
        output = output or name
        if output not in self.tensors:
            self.add_tensor(output, shape, self.tensors[inputs[0]].dtype)
        self.put(
            op, name, inputs, [output], attributes, before=before, behind=behind, sources=sources
        )
        return output

    def work_in(
        self, node: Node, shape: tuple[int, ...], inputs: list[str], name: str = ""
    ) -> None:
        """Let a node write another shape; a Reshape behind it gives its result.

        Args:
            node: of one output.
            shape: that it writes.
            inputs: that it reads.
            name: of the Reshape; one of its own with ``-rs`` behind that of the result.
        """
        result = node.outputs[0]
        name = name or self.unique(f"{result}-rs")
        written = self.like(result, shape, name)
        self.rewire(node, inputs=inputs, outputs=[written])
        self.reshape(written, self.shape(result), name, result, before=self.following(node))

    def add_numbers(self, name: str, *numbers: int) -> str:
        """Make a constant of whole numbers."""
        return self.add_tensor(
            name, (len(numbers),), "int64", lambda: np.array(numbers, dtype=np.int64)
        )

    def become(
        self,
        node: Node,
        op: str,
        name: str = "",
        *,
        inputs: list[str] | None = None,
        attributes: dict[str, JsonValue] | None = None,
    ) -> None:
        """Give a node another type, and name, inputs and attributes where they are given."""
        node.op = node.kind = op
        node.name = name or node.name
        if attributes is not None:
            node.attributes = attributes
        if inputs is not None:
            self.rewire(node, inputs=inputs)

    def insert_behind(self, node: Node, tensor: str) -> Node:
        """Put a new node right behind the one that writes ``tensor``, or at the front."""
        maker = self.producer(tensor)
        if maker is not None:
            return self.insert(node, after=maker)
        return self.insert(node, before=self._next[None])

    def move_behind(self, node: Node, tensor: str) -> None:
        """Take a node to where :meth:`insert_behind` puts a new one."""
        self.remove(node)
        self.insert_behind(node, tensor)

    def remove(self, node: Node) -> None:
        """Take a node out; its tensors stay."""
        previous, following = self._previous.pop(node), self._next.pop(node)
        self._next[previous] = following
        self._previous[following] = previous
        self._forget(node)

    def rewire(
        self, node: Node, *, inputs: list[str] | None = None, outputs: list[str] | None = None
    ) -> None:
        """Give a node other inputs or outputs."""
        self._forget(node)
        if inputs is not None:
            node.inputs = inputs
        if outputs is not None:
            node.outputs = outputs
        self._index(node)

    def replace_reads(self, old: str, new: str) -> None:
        """Every node that reads ``old`` reads ``new``."""
        readers = self._readers.pop(old, {})
        for node in readers:
            node.inputs = [new if tensor == old else tensor for tensor in node.inputs]
        self._readers[new].update(readers)

    def bypass(self, node: Node) -> bool:
        """Take out a node whose output is its first input; False where it has to stay.

        It stays where a graph output would get the name of another tensor that is needed.
        """
        old, new = node.inputs[0], node.outputs[0]
        if not self.is_output(new):
            self.remove(node)
            self.replace_reads(new, old)
            return True
        maker = self.producer(old)
        if maker is None or self.is_output(old):
            return False
        self.remove(node)
        self.replace_reads(old, new)
        self.rewire(maker, outputs=[new if tensor == old else tensor for tensor in maker.outputs])
        return True

    def absorb(self, node: Node, follower: Node, *, fused: str = "") -> None:
        """Take ``follower``, which reads ``node``'s output, into ``node``."""
        self.remove(follower)
        self.rewire(node, outputs=list(follower.outputs))
        node.sources = (*node.sources, *follower.sources)
        if fused:
            node.fused.append(fused)

    def _link(self, node: Node, before: Node | None) -> None:
        previous = self._previous[before]
        self._previous[node], self._next[node] = previous, before
        self._next[previous] = node
        self._previous[before] = node

    def _index(self, node: Node) -> None:
        for tensor in node.outputs:
            if tensor:
                self._producers[tensor] = node
        for tensor in node.inputs:
            if tensor:
                self._readers[tensor][node] = None

    def _forget(self, node: Node) -> None:
        for tensor in node.outputs:
            if self._producers.get(tensor) is node:
                del self._producers[tensor]
        for tensor in set(node.inputs):
            readers = self._readers.get(tensor)
            if readers:
                readers.pop(node, None)
