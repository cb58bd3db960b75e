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
from engine.graph.ir import Graph, QuantParams, spec_of
from engine.quantize.qdq.insert import Builder

if TYPE_CHECKING:
    from engine.container import Container
    from engine.graph.layers import Layer, LayerMap

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
    match = _FORM.fullmatch(text)
    if match is None or _named(text, layers) is not None:
        return Bend(_required(text, layers))
    layer, strength = _required(match[1], layers), int(match[2])
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
    builder = Builder(copy)
    done = 0
    for tensor in bend.layer.outputs:
        value = copy.values.get(tensor)
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
        done += _bend(builder, value, params, bend.strength)
    if not done:
        raise UsageError(f"{sanitize(bend.layer.id, 120)} gives no values that can be bent.")
    return Graph(copy.model)


def _bend(builder: Builder, value: ir.Value, params: QuantParams | None, strength: int) -> bool:
    """Let all readers of a tensor, and the graph's outputs, have a changed one in its place."""
    spec, name = spec_of(value), value.name or ""
    if not spec.static or not (spec.dtype in _FLOATS or np.dtype(spec.dtype).kind in "iu"):
        return False
    signs = np.where(np.arange(spec.size or 0) % 2, -1, 1).reshape(spec.shape)
    op, change = "Add", signs * strength
    if params is not None and not params.is_float:
        change = signs * (np.float32(strength) * np.float32(params.scale[0]))
    elif spec.dtype in _FLOATS:
        op, change = "Mul", 1 + signs * strength / _SHARE
    new = ir.Value(name=name, type=value.type, shape=value.shape)
    for use in tuple(value.uses()):
        use.node.replace_input_with(use.idx, new)
    outputs = builder.inner.outputs
    for index, output in enumerate(outputs):
        if output is value:
            outputs[index] = new
    value.name = builder.names.claim(f"{name}/exact")
    bent = new
    if params is not None:
        bent = ir.Value(
            name=builder.names.claim(f"{name}/bent"), type=value.type, shape=value.shape
        )
    other = builder.initializer(f"{name}/bend", change.astype(spec.dtype))
    node = builder.node(op, [value, other], bent, f"{name}/Bend{op}")
    builder.insert_after(node, value.producer())
    if params is not None and params.is_float:
        builder.cast_fp16(bent, new, name)
    elif params is not None:
        whole = np.iinfo(params.dtype)
        builder.qdq_pair(bent, new, name, params, (int(whole.min), int(whole.max)))
    return True
