"""The order of nodes while they are rewritten; :mod:`engine.cost.lowering.order` has the last."""

from __future__ import annotations

from heapq import heappop, heappush

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["execution_order", "sort_nodes"]


def execution_order(graph: LoweringGraph) -> list[Node]:
    """All nodes as the compiler orders them: back from the last output, last inputs first."""
    order: list[Node] = []
    state: dict[Node, bool] = {}
    ends = [graph.producer(each) for each in graph.outputs]
    rest = [node for node in graph if not any(graph.has_readers(each) for each in node.outputs)]
    stack: list[tuple[Node, bool]] = [(each, False) for each in (*rest, *ends) if each is not None]
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
        makers = {graph.producer(each) for each in node.inputs if each} - {None, node}
        waiting[node] = len(makers)
    ready = [place[node] for node in order if waiting[node] == 0]
    done: list[Node] = []
    while ready:
        node = order[heappop(ready)]
        done.append(node)
        readers = (reader for each in node.outputs if each for reader in graph.readers(each))
        for reader in dict.fromkeys(readers):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heappush(ready, place[reader])
    if len(done) == len(order) and done != order:
        for node in done:
            graph.remove(node)
            graph.insert(node)
