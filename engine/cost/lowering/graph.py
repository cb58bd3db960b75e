"""A small graph that the rewrites work on: made once of a model, copied for each chip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.base.plain import JsonValue

if TYPE_CHECKING:
    import numpy as np

__all__ = ["LoweringGraph", "Node", "Tensor"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor: its numbers are read only where a rewrite depends on them (shapes, scalars).

    Attributes:
        values: gives the array of a constant; None for a feature.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Callable[[], np.ndarray] | None = None

    @property
    def const(self) -> bool:
        """Whether it is known when the model is compiled."""
        return self.values is not None


@dataclass(slots=True, eq=False)
class Node:
    """A node that is being rewritten; fields as of :class:`engine.cost.lowered.LoweredLayer`.

    Attributes:
        op: operator of ONNX, or of the compiler (``exSwish``) once a rewrite made it.
        name: that the compiler prints.
        kind: printed before the colon of the full name; what was fused is not in it.
        fused: what its output stage does, in order: ``Relu``, ``Add``; the printed type is ``op``
            with these behind it.
        attributes: of ONNX, plain values.
        sources: nodes of the graph that it comes from.
        target: set where a rewrite or a rule decides it.
    """

    op: str
    name: str
    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, JsonValue] = field(default_factory=dict)
    fused: list[str] = field(default_factory=list)
    sources: tuple[str, ...] = ()
    target: str = ""
    reason: str = ""
    remedy: str = ""
    dtype: str = ""

    def ints(self, name: str, default: Iterable[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers."""
        value = self.attributes.get(name)
        return tuple(int(each) for each in value) if isinstance(value, list) else tuple(default)

    def int(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        value = self.attributes.get(name)
        return int(value) if isinstance(value, int | float) else default


class LoweringGraph:
    """Nodes in the order of execution, with the index that rewrites ask.

    Attributes:
        nodes: in order; change them only by the methods here.
        tensors: by name.
        inputs: names of the features that come from outside.
        outputs: names of the features that go outside.
        rewrites: name of a rule -> how many times it was used.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        tensors: dict[str, Tensor],
        inputs: Iterable[str],
        outputs: Iterable[str],
    ) -> None:
        self.nodes = list(nodes)
        self.tensors = tensors
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.rewrites: dict[str, int] = defaultdict(int)
        self._producers: dict[str, Node] = {}
        self._readers: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            self._index(node)

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
        made = LoweringGraph(nodes, dict(self.tensors), self.inputs, self.outputs)
        made.rewrites.update(self.rewrites)
        return made

    # ------------------------------------------------------------------------------------ questions
    def producer(self, tensor: str) -> Node | None:
        """The node that writes a tensor."""
        return self._producers.get(tensor)

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read it, each once."""
        return list(dict.fromkeys(self._readers.get(tensor, ())))

    def only_reader(self, tensor: str) -> Node | None:
        """The one node that reads it; None where there are more, or it is a graph output."""
        readers = self.readers(tensor)
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Of a tensor; ``()`` of one that is not there."""
        found = self.tensors.get(tensor)
        return found.shape if found else ()

    def is_const(self, tensor: str) -> bool:
        """Whether it is known when the model is compiled."""
        found = self.tensors.get(tensor)
        return found is not None and found.const

    def array(self, tensor: str) -> np.ndarray | None:
        """The numbers of a constant; None for a feature."""
        found = self.tensors.get(tensor)
        return found.values() if found is not None and found.values is not None else None

    def features(self, node: Node) -> list[str]:
        """Its inputs that are no constants."""
        return [each for each in node.inputs if each and not self.is_const(each)]

    def __iter__(self) -> Iterator[Node]:
        """The nodes as they are now: they may be changed meanwhile."""
        return iter(list(self.nodes))

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

    def insert(self, node: Node, *, before: Node | None = None, after: Node | None = None) -> Node:
        """Put a new node beside one that is there, or at the end."""
        if before is not None:
            self.nodes.insert(self._at(before), node)
        elif after is not None:
            self.nodes.insert(self._at(after) + 1, node)
        else:
            self.nodes.append(node)
        self._index(node)
        return node

    def remove(self, node: Node) -> None:
        """Take a node out; its tensors stay."""
        del self.nodes[self._at(node)]
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
        for node in self.readers(old):
            self.rewire(node, inputs=[new if each == old else each for each in node.inputs])

    def absorb(self, node: Node, follower: Node, *, fused: str = "") -> None:
        """Take ``follower``, which reads ``node``'s output, into ``node``."""
        self.remove(follower)
        self.rewire(node, outputs=list(follower.outputs))
        node.sources = (*node.sources, *follower.sources)
        if fused:
            node.fused.append(fused)

    def _at(self, node: Node) -> int:
        return next(at for at, each in enumerate(self.nodes) if each is node)

    def _index(self, node: Node) -> None:
        for tensor in node.outputs:
            if tensor:
                self._producers[tensor] = node
        for tensor in node.inputs:
            if tensor:
                self._readers[tensor].append(node)

    def _forget(self, node: Node) -> None:
        for tensor in node.outputs:
            if self._producers.get(tensor) is node:
                del self._producers[tensor]
        for tensor in set(node.inputs):
            readers = self._readers.get(tensor)
            if readers:
                self._readers[tensor] = [each for each in readers if each is not node]
