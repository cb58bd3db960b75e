"""The form in which ONNX Runtime runs a graph, made once for each graph."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

from engine.graph.execute.lower import lower_for_runtime
from engine.graph.execute.shared_weights import duplicate_shared_weights
from engine.graph.ir.graph import Graph

__all__ = ["RuntimeModel", "prepare_for_ort"]


class RuntimeModel:
    """A quantized graph as it runs: int8 activations as uint8, no weights that operators share.

    Tensors have the names that they have in the graph.

    Attributes:
        graph: of that form.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = duplicate_shared_weights(lower_for_runtime(graph))

    @cached_property
    def data(self) -> bytes:
        """The serialised graph."""
        return self.graph.to_bytes()


_FORMS: WeakKeyDictionary[Graph, RuntimeModel] = WeakKeyDictionary()


def prepare_for_ort(graph: Graph) -> RuntimeModel:
    """The form of a graph, kept for as long as the graph is.

    A build looks at one graph four times (which kernels run, simulated against float, layers
    alone, the simulator), and making the form takes as long as ONNX Runtime takes to load it. A
    graph that runs as it is has nothing to keep: its bytes would hold all float weights again.
    """
    found = _FORMS.get(graph)
    if found is None:
        found = RuntimeModel(graph)
        if found.graph is not graph:
            _FORMS[graph] = found
    return found
