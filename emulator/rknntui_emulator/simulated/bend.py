"""A graph of which one layer gives wrong values, so that a search for that layer can be tried.

The layer's outputs are changed in a fixed pattern, and everything behind them is computed from the
changed values; what is before stays as it was, bit by bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from engine.base.errors import RecipeError, UsageError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph, QuantParams, UniqueNames, spec_of

if TYPE_CHECKING:
    from engine.container import Container
    from engine.graph.layers import Layer, LayerMap

__all__ = ["STRENGTH", "Bend", "bent_graph", "read_bend"]

STRENGTH = 16
"""Steps of quantization, where no other number is given."""
_MOST = 1 << 15
_SHOWN = 6
_FORM = re.compile(r"(.*):([0-9]{1,5})", re.DOTALL)
_FLOATS = frozenset({"float16", "float32", "float64"})
_SHARE = 128
"""Of its own size a float is changed by strength over this."""


@dataclass(frozen=True)
class Bend:
    """Which layer gives wrong values.

    Attributes:
        layer: it.
        strength: by how many steps of its quantization; every second value by as many down.
    """

    layer: Layer
    strength: int = STRENGTH


def read_bend(text: str, layers: LayerMap) -> Bend:
    """``LAYER`` or ``LAYER:STRENGTH``, by any name of the layer.

    Raises:
        UsageError: there is no such layer, with the nearest names; the strength is no step or too
            many.
    """
    found = _FORM.fullmatch(text)
    if found is None or _named(text, layers) is not None:
        return Bend(_required(text, layers))
    layer, strength = _required(found[1], layers), int(found[2])
    if not 0 < strength <= _MOST:
        raise UsageError(
            f"{sanitize(layer.id, 120)} cannot be bent by {strength} steps.",
            remedy=f"Give 1 to {_MOST}.",
        )
    return Bend(layer, strength)


def _named(name: str, layers: LayerMap) -> Layer | None:
    try:
        return layers.find(name)
    except RecipeError as error:
        raise UsageError(error.what, cause=error.cause, remedy=error.remedy) from error


def _required(name: str, layers: LayerMap) -> Layer:
    layer = _named(name, layers)
    if layer is None:
        some = ", ".join(sanitize(one.id, 80) for one in layers.layers[:_SHOWN])
        more = ", ..." if len(layers.layers) > _SHOWN else ""
        raise UsageError(
            f"The model has no layer {sanitize(name, 120)!r} that could be bent.",
            remedy=did_you_mean(name, layers.names) or f"Its layers are {some}{more}.",
        )
    return layer


def bent_graph(container: Container, layers: LayerMap, bend: Bend) -> Graph:
    """A copy of a container's graph whose layer gives wrong values.

    Args:
        container: quantized or not.
        layers: of its graph.
        bend: the layer.

    Raises:
        UsageError: the layer gives no numbers.
    """
    copy = container.graph.copy()
    writer = _Writer(copy)
    values = copy.values
    for tensor in bend.layer.outputs:
        value = values.get(tensor)
        if value is None or value.producer() is None or value.shape is None:
            continue
        stored = layers.stored.get(tensor)
        params = None
        if stored is None and bend.layer.kind == "move":
            params = None if container.table is None else container.table.get(tensor)
        elif stored is not None and stored.value == tensor:
            params = stored.params  # else it is a float, and readers have a rounded copy
        if params is not None and len(params.scale) != 1:
            params = None
        writer.bend(value, params, bend.strength)
    if not writer.done:
        raise UsageError(f"{sanitize(bend.layer.id, 120)} gives no values that can be bent.")
    return Graph(copy.model)


class _Writer:
    """Puts nodes behind tensors of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._inner = graph.model.graph
        self._names = UniqueNames({*graph.values, *(node.name or "" for node in graph.nodes)})
        self.done = 0

    def bend(self, value: ir.Value, params: QuantParams | None, strength: int) -> None:
        """Let all readers of a tensor, and the graph's outputs, have a changed one in its place."""
        spec = spec_of(value)
        if not spec.static or not (spec.dtype in _FLOATS or np.dtype(spec.dtype).kind in "iu"):
            return
        signs = np.where(np.arange(spec.size or 0) % 2, -1, 1).reshape(spec.shape)
        name = value.name or ""
        new = ir.Value(name=name, type=value.type, shape=value.shape)
        for use in tuple(value.uses()):
            use.node.replace_input_with(use.idx, new)
        for index, output in enumerate(self._inner.outputs):
            if output is value:
                self._inner.outputs[index] = new
        value.name = self._names.claim(f"{name}/exact")
        dtype = np.dtype(spec.dtype)
        if params is not None and not params.is_float:
            step = np.float32(strength) * np.float32(params.scale[0])
            changed = self._node("Add", value, (signs * step).astype(dtype), name)
            self._rounded(changed, new, params, name)
        elif spec.dtype in _FLOATS:
            factor = (1 + signs * strength / _SHARE).astype(dtype)
            if params is None:
                self._node("Mul", value, factor, name, new)
            else:
                self._halved(self._node("Mul", value, factor, name), new, name)
        else:
            self._node("Add", value, (signs * strength).astype(dtype), name, new)
        self.done += 1

    def _node(
        self, op: str, value: ir.Value, other: np.ndarray, name: str, out: ir.Value | None = None
    ) -> ir.Value:
        out = out or self._like(value, f"{name}/bent")
        return self._add(op, [value, self._constant(f"{name}/bend", other)], out, name)

    def _rounded(self, value: ir.Value, out: ir.Value, params: QuantParams, name: str) -> None:
        """The integers of a value, saturated, and the floats that they stand for."""
        scale = self._constant(f"{name}/bend_scale", np.asarray(params.scale[0], np.float32))
        zero = self._constant(
            f"{name}/bend_zero_point", np.asarray(params.zero_point[0], params.dtype)
        )
        kind = ir.DataType[params.dtype.upper()]
        steps = self._like(value, f"{name}/bent_steps", kind)
        self._add("QuantizeLinear", [value, scale, zero], steps, name)
        self._add("DequantizeLinear", [steps, scale, zero], out, name)

    def _halved(self, value: ir.Value, out: ir.Value, name: str) -> None:
        half = self._like(value, f"{name}/bent_half", ir.DataType.FLOAT16)
        self._add("Cast", [value], half, name, to=ir.DataType.FLOAT16.value)
        self._add("Cast", [half], out, name, to=ir.DataType.FLOAT.value)

    def _add(
        self, op: str, inputs: list[ir.Value], out: ir.Value, name: str, **attributes: int
    ) -> ir.Value:
        node = ir.node(
            op, inputs, attributes, outputs=[out], name=self._names.claim(f"{name}/Bend{op}")
        )
        producer = inputs[0].producer()
        if producer is None:
            raise ValueError("nothing writes it")
        self._inner.insert_after(producer, node)
        return out

    def _constant(self, name: str, array: np.ndarray) -> ir.Value:
        tensor = ir.Tensor(np.asarray(array), name=self._names.claim(name))
        value = ir.Value(
            name=tensor.name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape),
            const_value=tensor,
        )
        self._inner.register_initializer(value)
        return value

    def _like(self, value: ir.Value, name: str, dtype: ir.DataType | None = None) -> ir.Value:
        kind = value.type if dtype is None else ir.TensorType(dtype)
        return ir.Value(name=self._names.claim(name), type=kind, shape=value.shape)
