"""The layers of a float graph as hybrid quantization sees them, and its table of them.

Layers that only hand values on (Transpose, MaxPool, Concat) are *moves*: they have no error of
their own, and follow the layers around them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.build import ErrorFigure
from engine.graph.ir import Graph
from engine.graph.ir.spec import name_of
from engine.graph.layers import Layer
from engine.quantize import Quantized, QuantizeSettings
from engine.quantize import applied_dtypes as dtypes_of
from engine.quantize.dtypes.formats import LAYER_DTYPES, check_layer_dtype, scheme_of
from engine.quantize.planning.node_properties import data_inputs, is_constant, is_float
from engine.quantize.planning.plan import Plan, plan
from engine.wire.hybrid import LayerRow

Place = TypeVar("Place", bound=Hashable)


def reached(start: Place, following: Callable[[Place], Iterable[Place]]) -> Mapping[Place, None]:
    """Every place that is reached from one, each once: the start first, the others as found."""
    waiting, seen = [start], {start: None}
    while waiting:
        new = [one for one in dict.fromkeys(following(waiting.pop())) if one not in seen]
        seen.update(dict.fromkeys(new))
        waiting += new
    return seen


class Layers:
    """All layers of a graph, in its order, and how tensors lead from one to the next.

    Args:
        graph: the float graph.
        planned: of this graph; made here when None.
    """

    def __init__(self, graph: Graph, planned: Plan | None = None) -> None:
        self.graph = graph
        self.plan = planned or plan(graph)
        self.map = self.plan.layers
        self.all = self.map.layers
        self.nodes: Mapping[str, ir.Node] = {node.name or "": node for node in graph.nodes}
        self.by_id: Mapping[str, Layer] = {layer.id: layer for layer in self.all}
        self.by_tensor: Mapping[str, Layer] = {layer.tensor: layer for layer in self.all}

    def of_node(self, node: ir.Node | None) -> Layer | None:
        """The layer that a node belongs to; None for shapes, constants and inputs."""
        return None if node is None else self.map.by_node.get(node.name or "")

    def named(self, name: str) -> Layer:
        """A layer by any name that a user may know: its tensor, its node, its source layer.

        Raises:
            RecipeError: there is none, or several; the message has the nearest names.
        """
        return self.map.named(name)

    def readers(self, tensor: str) -> tuple[ir.Node, ...]:
        """The nodes that take a tensor as data, each once."""
        value = self.graph.value(tensor)
        return tuple(
            dict.fromkeys(
                use.node
                for use in value.uses()
                if any(value is taken for taken in data_inputs(use.node))
            )
        )

    def final_readers(self, node: ir.Node) -> frozenset[str]:
        """The quantized layers that take what a reader hands on: itself, or those behind a move."""

        def handed_on(reader: ir.Node) -> Iterable[ir.Node]:
            move = self._moved(reader)
            values = move.outputs if move is not None else ()
            return (other for value in values for other in self.readers(value.name or ""))

        return self._quantized(map(self.of_node, reached(node, handed_on)))

    def writers(self, tensor: str) -> frozenset[str]:
        """The quantized layers whose values a tensor holds, looked up through moves."""

        def before(name: str) -> Iterable[str]:
            move = self._moved(self.graph.producer(name))
            values = data_inputs(move) if move is not None else ()
            return (name_of(one) for one in values if not is_constant(one) and is_float(one))

        makers = map(self.graph.producer, reached(tensor, before))
        return self._quantized(map(self.of_node, makers))

    def _moved(self, node: ir.Node | None) -> ir.Node | None:
        """The node of the layer that a node belongs to, where that is a move."""
        layer = self.of_node(node)
        return self.nodes[layer.node] if layer is not None and layer.kind == "move" else None

    @staticmethod
    def _quantized(layers: Iterable[Layer | None]) -> frozenset[str]:
        return frozenset(
            layer.id
            for layer in layers
            if layer is not None and layer.kind not in ("move", "float")
        )

    def with_data_movement(self, lifted: Mapping[str, str]) -> dict[str, str]:
        """The lifted layers, and the moves between them.

        A move is lifted where it hands a lifted layer's values on to lifted layers, to layers that
        are float anyway, or out of the graph, and to no quantized layer: there its values would
        be rounded for nothing.

        Args:
            lifted: layer -> dtype.

        Returns:
            The same with moves added, in the order of the graph.
        """
        dtypes = dict(lifted)
        for layer in self.all:
            if layer.kind != "move" or layer.id in lifted:
                continue
            before = [dtypes[name] for name in self.writers(layer.tensor) if name in dtypes]
            after = self.final_readers(self.graph.node(layer.node))
            if before and after <= lifted.keys():
                dtypes[layer.id] = before[0]
        return {layer.id: dtypes[layer.id] for layer in self.all if layer.id in dtypes}


# The hybrid table: every layer of a build with its dtype, its range and what it may become.


def base_label(dtype: str) -> str:
    """What a layer is called that has the model's dtype: ``int8`` of ``w8a8``."""
    named = {layer.scheme.name: layer.name for layer in reversed(list(LAYER_DTYPES.values()))}
    label: str = named.get(dtype, dtype)
    return label


def choices_of(dtype: str, target: str | None = None) -> tuple[str, ...]:
    """The dtypes that a layer of a model may have, the model's own first.

    Args:
        dtype: of the model.
        target: the chip, which may not have all.
    """
    own, generation = base_label(dtype), scheme_of(dtype).generation
    others = (n for n, one in LAYER_DTYPES.items() if one.generation == generation and n != own)
    return (own, *(name for name in others if _has(name, target)))


def promotion_dtype(dtype: str, target: str | None = None) -> str:
    """What layers of a model are lifted to: half precision, by the name of its generation.

    Empty where the target has no half precision for single layers.
    """
    choices = choices_of(dtype, target)[1:]
    return next((name for name in ("float16", "float32") if name in choices), "")


def _has(dtype: str, target: str | None) -> bool:
    try:
        check_layer_dtype(dtype, target)
    except QuantizationError:
        return False
    return True


def table_rows(
    layers: Layers,
    quantized: Quantized,
    settings: QuantizeSettings,
    errors: Mapping[str, ErrorFigure],
    target: str | None = None,
) -> tuple[LayerRow, ...]:
    """The rows of the table, in the order of the graph.

    Args:
        layers: of the float graph.
        quantized: the build.
        settings: of it.
        errors: tensor -> its error, with those of the layers before it.
        target: the chip that limits the choices.
    """
    choices = choices_of(settings.dtype, target)
    own = {layer.id: choices[0] for layer in layers.all if layer.can_promote}
    got = dtypes_of({**own, **settings.layers}, quantized)
    return tuple(
        _row(layer, quantized, got.get(layer.id), choices, errors.get(layer.tensor))
        for layer in layers.all
    )


def _row(
    layer: Layer,
    quantized: Quantized,
    got: str | None,
    choices: Sequence[str],
    error: ErrorFigure | None,
) -> LayerRow:
    params = quantized.table.get(layer.tensor)
    own = choices if layer.can_promote else ["float32", *(c for c in choices if c == "float16")]
    has_range = params is not None and not params.is_float
    low = params.minimum if params is not None and has_range else None
    high = params.maximum if params is not None and has_range else None
    return LayerRow(
        tensor=layer.tensor,
        id=layer.id,
        node=layer.node,
        op=layer.op,
        sources=tuple(layer.sources),
        aliases=tuple(layer.aliases),
        dtype=got or own[0],
        choices=tuple(own),
        minimum=min(low) if low else None,
        maximum=max(high) if high else None,
        observed_minimum=None if params is None else params.observed_minimum,
        observed_maximum=None if params is None else params.observed_maximum,
        sqnr_db=None if error is None else error.sqnr_db,
        samples=0 if error is None else error.samples,
        kind=layer.kind,
    )
