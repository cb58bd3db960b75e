"""Which tensors an error analysis compares: one row per tensor of the float graph, in its order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from engine.graph.ir import Graph, spec_of
from engine.graph.layers import Layer, LayerMap, origins
from engine.quantize import Quantized

_NO_LAYER = ("Constant", "QuantizeLinear", "DequantizeLinear")
INPUT = "Input"
"""The vendor's name of an input's row."""
CONVERTER = "exDataConvert"
"""The vendor's name of the layer that quantizes an input."""


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        node: of the float graph; the input's name for an input.
        op: its operator, ``Input``, or ``exDataConvert`` for an input as the network sees it.
        label: the name that files and tables show.
        golden: the tensor's name in the float graph.
        simulated: its name in the QDQ graph; None where it was fused into the next layer.
        size: bytes as float32.
        sources: the nodes of the source model whose work this layer does, where passes merged or
            made it; the node's own name where it came through as it was.
        dtype: of the tensor in the quantized graph: ``int8``, ``int16``, ``float16``,
            ``float32``; empty where it was fused away.
        of: the layer whose result the tensor is, or inside which it lies; None for an input.
    """

    node: str
    op: str
    label: str
    golden: str
    simulated: str | None
    size: int
    sources: tuple[str, ...] = ()
    dtype: str = ""
    of: Layer | None = None

    @property
    def inner(self) -> bool:
        """Whether the tensor lies inside a layer, which is computed as a whole."""
        return self.simulated is None

    @property
    def result_of(self) -> Layer | None:
        """The layer whose result it is."""
        return None if self.inner else self.of

    @property
    def layer(self) -> str:
        """What tables call it: the layer, or the node of an input or of a tensor inside one."""
        return self.node if self.result_of is None else self.result_of.id

    @property
    def shown_op(self) -> str:
        """What tables call its operator: the layer's; the vendor's files have the node's."""
        return self.op if self.result_of is None else self.result_of.op

    @property
    def computed(self) -> bool:
        """Whether a layer computes it in the quantized graph."""
        return self.simulated is not None and self.op not in (INPUT, CONVERTER)


def layer_rows(build: Quantized) -> tuple[Row, ...]:
    """The rows of a build: inputs, quantized inputs, every float tensor that a node computes.

    Tensors inside a layer (a convolution before its Relu) are in no file and no kernel's output:
    asking for one would take the kernel apart.
    """
    return tuple(_rows(build.reference, build.graph, build.layers))


def float_rows(graph: Graph) -> tuple[Row, ...]:
    """The rows of a graph beside itself."""
    return tuple(_rows(graph, graph, LayerMap()))


def _rows(float_graph: Graph, qdq_graph: Graph, layers: LayerMap) -> Iterator[Row]:
    stored = layers.stored
    for value in float_graph.model.graph.inputs:
        name, size = value.name or "", float_bytes(value)
        if spec_of(value).dtype != "float32":
            continue
        yield Row(name, INPUT, name, name, name, size, (), "float32")
        seen = stored.get(name)
        if seen is not None:
            label = f"{name}_{seen.dtype}"
            yield Row(name, CONVERTER, label, name, seen.value, size, (), seen.dtype)
    for node in float_graph.nodes:
        for value in () if node.op_type in _NO_LAYER else node.outputs:
            name = value.name or ""
            if not name or spec_of(value).dtype != "float32":
                continue
            fused = name in layers.inner or name not in qdq_graph.values
            dtype = stored[name].dtype if name in stored else "float32"
            yield Row(
                node.name or "",
                node.op_type,
                name,
                name,
                None if fused else name,
                float_bytes(value),
                origins(node),
                "" if fused else dtype,
                layers.by_tensor.get(name),
            )


def float_bytes(value: ir.Value) -> int:
    """Bytes of a tensor as float32; an open dimension counts as one."""
    return 4 * math.prod(max(dim, 1) for dim in spec_of(value).shape)
