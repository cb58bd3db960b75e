"""Which tensors an error analysis compares: one row per tensor of the float graph, in its order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from engine.graph.ir import ORIGIN, Graph, spec_of

__all__ = ["CONVERTER", "INPUT", "Row", "is_fused", "layer_rows"]

_PAIR = ("QuantizeLinear", "DequantizeLinear")
_CLAMPS = ("Relu", "Clip")
_MOST_BOUNDS = 3  # from integers to the float tensor: at most a lower and an upper bound
INPUT = "Input"
"""The vendor's name of an input's row."""
CONVERTER = "exDataConvert"
"""The vendor's name of the layer that quantizes an input."""


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        layer: the node of the float graph; the input's name for an input.
        op: its operator, ``Input``, or ``exDataConvert`` for an input as the network sees it.
        label: the name that files and tables show.
        golden: the tensor's name in the float graph.
        simulated: its name in the QDQ graph; None where it was fused into the next layer.
        size: bytes as float32.
        sources: the nodes of the source model whose work this layer does, where passes merged or
            made it; the node's own name where it came through as it was.
        dtype: of the tensor in the quantized graph: ``int8``, ``int16``, ``float16``,
            ``float32``; empty where it was fused away.
    """

    layer: str
    op: str
    label: str
    golden: str
    simulated: str | None
    size: int
    sources: tuple[str, ...] = ()
    dtype: str = ""

    @property
    def computed(self) -> bool:
        """Whether a layer computes it in the quantized graph."""
        return self.simulated is not None and self.op not in (INPUT, CONVERTER)


def layer_rows(float_graph: Graph, qdq_graph: Graph) -> tuple[Row, ...]:
    """The rows of a build: inputs, quantized inputs, every float tensor that a node computes."""
    rows: list[Row] = []
    for value in float_graph.model.graph.inputs:
        name = value.name or ""
        if spec_of(value).dtype == "float32":
            rows.append(Row(name, INPUT, name, name, name, _bytes(value), (), "float32"))
            rows += _converters(qdq_graph, name)
    for node in float_graph.nodes:
        if node.op_type in ("Constant", *_PAIR):
            continue
        for value in node.outputs:
            if not value.name or spec_of(value).dtype != "float32":
                continue
            simulated = _simulated(qdq_graph, value.name)
            dtype = "" if simulated is None else _dtype(qdq_graph.values[simulated])
            name = value.name
            size = _bytes(value)
            rows.append(
                Row(
                    node.name or "", node.op_type, name, name, simulated, size, sources(node), dtype
                )
            )
    return tuple(rows)


def sources(node: ir.Node) -> tuple[str, ...]:
    """The nodes of the source model that a node stands for."""
    told = tuple(text for text in node.metadata_props.get(ORIGIN, "").split("\n") if text)
    return told or ((node.name,) if node.name else ())


def _dtype(value: ir.Value) -> str:
    """The type in which the next layer reads a tensor."""
    producer = value.producer()
    stored = None if producer is None or not producer.inputs else producer.inputs[0]
    op = "" if producer is None else producer.op_type
    half = stored is not None and op == "Cast" and stored.dtype == ir.DataType.FLOAT16
    if stored is not None and (half or op == "DequantizeLinear"):
        return spec_of(stored).dtype
    own = own_quantizer(value)
    return spec_of(value if own is None else own.outputs[0]).dtype


def own_quantizer(value: ir.Value) -> ir.Node | None:
    """The QuantizeLinear that makes the integers of a tensor that is computed in float.

    Others that read it belong to a conversion for a layer of another dtype (``NAME__int8``), or to
    the clamp behind it.
    """
    for use in value.uses():
        if use.node.op_type == "QuantizeLinear" and use.idx == 0:
            name = use.node.outputs[0].name or ""
            if name.startswith(f"{value.name}/"):
                return use.node
    return None


def _bytes(value: ir.Value) -> int:
    return 4 * math.prod(max(dim, 1) for dim in spec_of(value).shape)


def _converters(graph: Graph, name: str) -> list[Row]:
    """The row of an input as the network sees it, rounded to integers or half precision."""
    value = graph.values.get(name)
    for use in () if value is None else value.uses():
        rounded = use.node.outputs[0]
        if use.node.op_type not in ("QuantizeLinear", "Cast") or use.idx != 0:
            continue
        back = _back_to_float(rounded)
        if back is None or not (back.name or "").startswith(f"{name}/"):
            continue
        dtype = _dtype(back)
        size = _bytes(use.node.inputs[0] or rounded)
        return [Row(name, CONVERTER, f"{name}_{dtype}", name, back.name, size, (), dtype)]
    return []


def _back_to_float(value: ir.Value) -> ir.Value | None:
    """The float tensor that a rounded one is read as."""
    for _ in range(_MOST_BOUNDS):
        if len(value.uses()) != 1:
            return None
        reader = value.consumers()[0]
        if reader.op_type in ("DequantizeLinear", "Cast"):
            return reader.outputs[0]
        if reader.op_type not in ("Max", "Min"):
            return None
        value = reader.outputs[0]
    return None


def _simulated(graph: Graph, name: str) -> str | None:
    """The tensor's name in the QDQ graph; None where it is gone or lies inside a fused layer."""
    value = graph.values.get(name)
    return None if value is None or is_fused(value) else name


def is_fused(value: ir.Value) -> bool:
    """Whether only a clamp reads it that ends in rounding: Conv before Relu.

    One kernel computes both; the tensor between them exists nowhere, and asking for it
    would take the kernel apart.
    """
    producer = value.producer()
    rounded = producer is None or producer.op_type in (*_PAIR, "Cast")
    if producer is None or rounded or value.is_graph_output():
        return False
    first = producer.inputs[0] if producer.inputs else None
    source = None if first is None else first.producer()
    if source is None or source.op_type not in (*_CLAMPS, "DequantizeLinear", "Cast"):
        return False
    clamps = 0
    while len(value.uses()) == 1 and not value.is_graph_output():
        reader = value.consumers()[0]
        if reader.op_type == "QuantizeLinear":
            # a clamp may be bounds of the integers: then they are another tensor's
            return clamps > 0 or own_quantizer(value) is None
        if reader.op_type == "Cast":
            return clamps > 0
        if reader.op_type not in _CLAMPS:
            return False
        clamps += 1
        value = reader.outputs[0]
    return False
