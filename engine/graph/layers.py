"""The layers of a graph: what a layer is, what it is called, and how its tensors are stored.

A layer is a node that computes, together with the Relu or Clip that its saturation does. Its id is
the name of that node: tables, files, recipes and messages show it. The nodes behind it, the tensors
that they write and the layers of the source model that were merged into it are aliases. Where the
node has the name of a tensor that is not its own, as many Caffe and TFLite files have it, the id is
the name of the tensor that the layer writes: no id ever means two layers.

How the QDQ form names what it adds is known to the module that writes it alone: every other one
reads a :class:`LayerMap`, which says where a tensor's numbers lie.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import onnx_ir as ir

from engine.base.errors import RecipeError
from engine.base.plain import JsonObject
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import ORIGIN, QuantParams
from engine.wire.codec import encode, typed

T = TypeVar("T")

ADDED = "qdq"
"""Key in the ``metadata_props`` of nodes that hold or round numbers and are no layers."""

GUARD = "guard"
"""Its value in a node that only keeps ONNX Runtime from choosing an integer kernel."""

FUSED_ACTIVATIONS = frozenset({"Relu", "Clip"})
"""Activations that the saturation of the layer before them can do."""


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        id: the name of the node that computes, or of its tensor (see :func:`with_own_ids`).
        op: its operator.
        kind: ``weighted``, ``arithmetic``, ``move`` (data movement: Transpose, MaxPool,
            Concat) or ``float`` (never quantized).
        nodes: all nodes of it: the one that computes, then its activations.
        inner: tensors between its nodes; no kernel of a quantized graph writes them.
        outputs: tensors that it writes, the first of them behind its activations.
        sources: the layers of the source model that it comes from.
        dtype: that it computes in: ``int8``, ``int16``, ``float16``, ``float32``.
    """

    id: str
    op: str
    kind: str
    nodes: tuple[str, ...]
    inner: tuple[str, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...]
    dtype: str = "float32"

    @property
    def node(self) -> str:
        """The node that computes."""
        return self.nodes[0]

    @property
    def tensor(self) -> str:
        """Its first output: its key in the quant table, and in the vendor's files."""
        return self.outputs[0]

    @property
    def tensors(self) -> tuple[str, ...]:
        """All tensors that its nodes write, in their order."""
        return (*self.inner, *self.outputs)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name that finds it, its id first."""
        return tuple(
            dict.fromkeys((self.id, self.tensor, *self.nodes, *self.tensors, *self.sources))
        )

    @property
    def can_promote(self) -> bool:
        """Whether the layer can be promoted to a higher precision."""
        return self.kind != "float"


@dataclass(frozen=True)
class StoredTensor:
    """Where a QDQ graph has a tensor of the float graph that is rounded.

    Attributes:
        tensor: its name in the float graph.
        computed: float32, before it is rounded.
        stored: what it is rounded to: integers, or float16 numbers.
        value: float32, as the layers read it that take it in this dtype.
        dtype: of ``stored``.
        params: its parameters; None where they are not known.
    """

    tensor: str
    computed: str
    stored: str
    value: str
    dtype: str
    params: QuantParams | None = None


@dataclass(frozen=True)
class _Rows:
    """A map as files have it; of ``stored`` the key, then what :class:`StoredTensor` has."""

    layers: tuple[Layer, ...]
    stored: tuple[tuple[str, str, str, str, str, str], ...]


@dataclass(frozen=True)
class LayerMap:
    """The layers of a graph, and where its quantized form has their tensors.

    Attributes:
        layers: in the order of the graph.
        stored: key in the quant table -> where it lies. The key is the tensor's name; that of a
            conversion for layers of another dtype is the name that the vendor gives it
            (``NAME__int8``). Empty for a float graph.
    """

    layers: tuple[Layer, ...] = ()
    stored: Mapping[str, StoredTensor] = field(default_factory=dict)

    @cached_property
    def by_tensor(self) -> Mapping[str, Layer]:
        """Tensor, inner ones too -> the layer that writes it."""
        return {tensor: layer for layer in self.layers for tensor in layer.tensors}

    @cached_property
    def by_node(self) -> Mapping[str, Layer]:
        """Node -> its layer."""
        return {node: layer for layer in self.layers for node in layer.nodes}

    @cached_property
    def inner(self) -> frozenset[str]:
        """Tensors inside layers, which no kernel of a quantized graph writes."""
        return frozenset(tensor for layer in self.layers for tensor in layer.inner)

    def to_json(self) -> JsonObject:
        """Plain data; parameters stand in the quant table."""
        stored = (
            (key, one.tensor, one.computed, one.stored, one.value, one.dtype)
            for key, one in self.stored.items()
        )
        return encode(_Rows(self.layers, tuple(stored)))

    @classmethod
    def from_json(cls, data: JsonObject, table: Mapping[str, QuantParams]) -> LayerMap:
        """Read :meth:`to_json`.

        Args:
            data: as it gave.
            table: the parameters, by the keys of :attr:`stored`.

        Raises:
            TypeError, ValueError: data of another form.
        """
        rows = typed(_Rows, data)
        if not all(layer.nodes and layer.outputs for layer in rows.layers):
            raise ValueError("a layer without nodes or outputs")
        stored = {
            key: StoredTensor(tensor, computed, place, value, dtype, table.get(key))
            for key, tensor, computed, place, value, dtype in rows.stored
        }
        return cls(rows.layers, stored)

    def find(self, name: str) -> Layer | None:
        """The layer that a user means by any of its names; None where there is none.

        A tensor counts before a node, and both before a layer of the source model.

        Raises:
            RecipeError: several layers come from this layer of the source model.
        """
        for names in (self.by_tensor, self.by_node):
            if name in names:
                return names[name]
        matching = [layer for layer in self.layers if name in layer.sources]
        if len(matching) > 1:
            raise RecipeError(
                f"{sanitize(name, 120)!r} is {len(matching)} layers of the optimised graph.",
                cause="A layer of the source model became several.",
                remedy=f"Name one of them: {', '.join(sanitize(one.id, 120) for one in matching)}.",
            )
        return matching[0] if matching else None

    def named(self, name: str) -> Layer:
        """As :meth:`find`.

        Raises:
            RecipeError: no layer has this name, or several; the message has the nearest names.
        """
        layer = self.find(name)
        if layer is None:
            raise RecipeError(
                f"The model has no layer {sanitize(name, 120)!r}.",
                cause="The graph's passes may have merged it into another layer.",
                remedy=did_you_mean(name, self.names) or "Look its name up in the hybrid table.",
            )
        return layer

    @property
    def names(self) -> list[str]:
        """Every name of every layer."""
        return [alias for layer in self.layers for alias in layer.aliases]

    def id_of(self, tensor: str) -> str:
        """The layer that a tensor stands for; the tensor where it is no layer's first output."""
        layer = self.by_tensor.get(tensor)
        return tensor if layer is None or layer.tensor != tensor else layer.id

    def by_id(self, entries: Mapping[str, T]) -> dict[str, T]:
        """Entries for tensors, by the layers that they stand for."""
        return {self.id_of(tensor): entry for tensor, entry in entries.items()}


def with_own_ids(layers: Iterable[Layer], tensors: Container[str]) -> tuple[Layer, ...]:
    """The layers, those whose node has the name of a foreign tensor called by their own tensor.

    Args:
        layers: of a graph, called by their nodes.
        tensors: all of the graph.
    """
    return tuple(
        replace(layer, id=layer.tensor)
        if layer.id in tensors and layer.id not in layer.tensors
        else layer
        for layer in layers
    )


def origins(node: ir.Node) -> tuple[str, ...]:
    """The layers of the source model that a node stands for: its own name, where it is one."""
    noted = tuple(text for text in node.metadata_props.get(ORIGIN, "").split("\n") if text)
    return noted or ((node.name,) if node.name else ())
