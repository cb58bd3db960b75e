"""What a pass is, and what it tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.ir.spec import input_at
from engine.graph.passes.editor import Editor


@dataclass(frozen=True)
class NearMiss:
    """A place where a pass nearly fired, and why it did not."""

    node: str
    reason: str


@dataclass(frozen=True)
class PassResult:
    """What one pass did to one graph, all its rounds together.

    Attributes:
        name: of the pass.
        modified: whether it changed the graph.
        counts: what it did -> how often.
        reasons: near misses on nodes that the result still has, each node and reason once.
    """

    name: str
    modified: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[NearMiss, ...] = ()


class Pass(ABC):
    """One family of rewrites.

    Attributes:
        name: words joined by dashes.
        level: the lowest optimization level that runs it.
        summary: one sentence.
        keeps_bits: whether every tensor that survives keeps its value to the last bit, and every
            operator its neighbours. Others never run on a graph with quantization of its own: there
            a change in the last bit of a float moves a value to the next integer.
    """

    name: ClassVar[str]
    level: ClassVar[int]
    summary: ClassVar[str]
    keeps_bits: ClassVar[bool] = True

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.near_misses: dict[tuple[ir.Node, str], None] = {}
        self._read = -1

    @abstractmethod
    def apply(self, edit: Editor) -> None:
        """Rewrite; called once a round, and again while any pass changes something."""

    def run(self, edit: Editor) -> bool:
        """One round in place; whether it changed the graph."""
        before = sum(self.counts.values())
        self.apply(edit)
        return sum(self.counts.values()) > before

    def did(self, what: str) -> bool:
        """Count one rewrite; True, so that a rule may end with it."""
        self.counts[what] = self.counts.get(what, 0) + 1
        return True

    def near(self, node: ir.Node, reason: str) -> bool:
        """Note why a rule did not fire; False, so that a rule may end with it."""
        self.near_misses[(node, reason)] = None
        return False

    def result(self, edit: Editor) -> PassResult:
        """What all rounds together did."""
        missed = tuple(
            NearMiss(node.name or "", reason)
            for node, reason in self.near_misses
            if node.graph is edit.graph
        )
        return PassResult(self.name, bool(self.counts), dict(self.counts), missed)


class NodePass(Pass):
    """A pass whose rules each look at one node and its neighbours.

    The first round looks at every node whose operator is in ``roots``; later work is only what
    edits touched since, so that all rounds together stay linear in nodes and edits.
    """

    roots: ClassVar[frozenset[str]]

    @abstractmethod
    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """Try the rules at ``node``, which is in the graph; whether one fired."""

    def apply(self, edit: Editor) -> None:
        """Work through the nodes until no rule fires."""
        todo: list[ir.Node] = edit.nodes() if self._read < 0 else edit.touched[self._read :]
        budget = 16 * (len(edit.graph) + 64)
        while todo:
            self._read = len(edit.touched)
            for node in dict.fromkeys(todo):
                if node.op_type not in self.roots or not edit.owns(node):
                    continue
                if self.rewrite(node, edit):
                    budget -= 1
                if budget < 0:
                    raise GraphError(
                        f"The rewrites {self.name!r} do not settle; the last one was at "
                        f"{sanitize(node.name or '')!r}.",
                        cause="Two rules undo each other: a mistake of this program.",
                        remedy="Build with a lower optimization level, and report this.",
                    )
            todo = edit.touched[self._read :]
        self._read = len(edit.touched)


# Questions that rules ask about values and nodes.


def operators(names: str) -> frozenset[str]:
    """The names of operators in a text, separated by blanks."""
    return frozenset(names.split())


def is_constant(value: ir.Value | None) -> bool:
    """Whether the value is an initializer."""
    return value is not None and value.is_initializer() and value.const_value is not None


def array(value: ir.Value | None) -> np.ndarray | None:
    """The array of an initializer, not to be written to; None for every other value."""
    if value is None or not value.is_initializer() or value.const_value is None:
        return None
    return value.const_value.numpy()


def constant_input(node: ir.Node, index: int) -> np.ndarray | None:
    """The array of an input that is an initializer."""
    return array(input_at(node, index))


def integers(node: ir.Node, index: int) -> list[int] | None:
    """A constant input as a list of integers."""
    numbers = constant_input(node, index)
    return None if numbers is None else [int(v) for v in numbers.ravel()]


def shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a value; None while any of it is unknown."""
    if value is None or value.shape is None:
        return None
    dims = tuple(value.shape)
    return dims if all(isinstance(dim, int) for dim in dims) else None  # type: ignore[return-value]


def uniform_value(value: ir.Value | None) -> float | None:
    """The number that a constant holds in all its elements; None where they differ or are NaN."""
    numbers = array(value)
    if numbers is None or numbers.size == 0 or numbers.dtype.kind not in "fiub":
        return None
    first = numbers.flat[0]
    return float(first) if bool((numbers == first).all()) else None
