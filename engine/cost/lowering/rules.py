"""A rewrite: a function that changes a graph for one family of chips; the order of its nodes.

:mod:`engine.cost.lowering.order` has the last order, that of the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from heapq import heappop, heappush

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.facts.npu import NpuDtype, NpuProfile


@dataclass(frozen=True)
class Context:
    """What a rewrite may depend on.

    Attributes:
        npu: the family.
        dtype: that the model is compiled in.
        layer_dtypes: layers (by source node) that have another one.
        op_target: layers (by source node) that the user put on ``cpu`` or ``npu``.
        int4: whether dense convolutions have weights of 4 bits; ``dtype`` is float16 then.
    """

    npu: NpuProfile
    dtype: NpuDtype
    layer_dtypes: dict[str, NpuDtype]
    op_target: dict[str, str]
    int4: bool = False

    @property
    def family(self) -> str:
        """Of the chip."""
        return self.npu.family

    @property
    def whole_channels(self) -> int:
        """Channels that a part of a map has to have a multiple of to be moved as it is."""
        return 16 if self.family == "rv1106b" else self.npu.atom(self.dtype)

    def own_dtype(self, node: Node) -> NpuDtype | None:
        """What hybrid quantization gives a node of its own: that of the first of its sources."""
        own = self.layer_dtypes
        return next((own[name] for name in node.sources if name in own), None)

    def upsamples(self, stride: int) -> bool:
        """Whether a transposed convolution has this stride."""
        return stride in (1, 2, 4, 8) or self.family not in ("rk3566", "rk3588")


Rule = Callable[[LoweringGraph, Context], None]


def on(*ops: str) -> Callable[[Callable[[LoweringGraph, Node, Context], None]], Rule]:
    """A rewrite of the nodes of some operators, one by one in their order.

    Nodes that it makes are not visited, nor those that it has taken out meanwhile.
    """

    def of(visit: Callable[[LoweringGraph, Node, Context], None]) -> Rule:
        @wraps(visit)
        def rule(graph: LoweringGraph, context: Context) -> None:
            for node in graph:
                if node.op in ops and node in graph:
                    visit(graph, node, context)

        return rule

    return of


def execution_order(graph: LoweringGraph) -> list[Node]:
    """All nodes as the compiler orders them: back from the last output, last inputs first."""
    order: list[Node] = []
    state: dict[Node, bool] = {}
    ends = [graph.producer(tensor) for tensor in graph.outputs]
    rest = [node for node in graph if not any(graph.has_readers(tensor) for tensor in node.outputs)]
    stack: list[tuple[Node, bool]] = [(end, False) for end in (*rest, *ends) if end is not None]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if node in state:
            continue
        state[node] = True
        stack.append((node, True))
        for tensor in node.inputs:
            maker = graph.producer(tensor) if tensor else None
            if maker is not None and maker not in state:
                stack.append((maker, False))
    return order


def sort_nodes(graph: LoweringGraph, context: Context) -> None:
    """Put every node behind those that write what it reads; the order stays where it can."""
    order = graph.nodes
    place = {node: at for at, node in enumerate(order)}
    waiting = {}
    for node in order:
        makers = {graph.producer(tensor) for tensor in node.inputs if tensor} - {None, node}
        waiting[node] = len(makers)
    ready = [place[node] for node in order if waiting[node] == 0]
    done: list[Node] = []
    while ready:
        node = order[heappop(ready)]
        done.append(node)
        readers = (reader for tensor in node.outputs if tensor for reader in graph.readers(tensor))
        for reader in dict.fromkeys(readers):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heappush(ready, place[reader])
    if len(done) == len(order) and done != order:
        for node in done:
            graph.remove(node)
            graph.insert(node)
