"""How exact a simulation is: which formats run in float kernels, and how far from the reference."""

from __future__ import annotations

from engine.base.findings import Finding
from engine.graph.ir import Graph
from engine.graph.layers import ADDED
from engine.quantize.dtypes.formats import SCHEMES, Scheme
from engine.wire.names import NOT_EXACT, NOT_EXACT_CODE

__all__ = ["inexact_notes"]

_SIXTEEN = ("int16", "uint16")


def inexact_notes(graph: Graph) -> tuple[Finding, ...]:
    """A finding for every kind of tensor that float kernels compute in a QDQ graph.

    The figures are those of :data:`engine.quantize.dtypes.formats.SCHEMES`: the largest of any
    dtype with tensors of that kind.
    """
    wide = any(
        node.op_type == "QuantizeLinear" and _dtype(graph, node.inputs[2:3]) in _SIXTEEN
        for node in graph.nodes
    )
    half = any(node.op_type == "Cast" and ADDED in node.metadata_props for node in graph.nodes)
    kinds = (
        (wide, "16-bit integers", [s for s in SCHEMES.values() if s.activation.dtype == "int16"]),
        (half, "float16", [s for s in SCHEMES.values() if s.activation.is_float]),
    )
    return tuple(_note(kind, schemes) for present, kind, schemes in kinds if present)


def _dtype(graph: Graph, values: object) -> str:
    (value,) = values if isinstance(values, (tuple, list)) and values else (None,)
    array = None if value is None else graph.constant(value.name or "")
    return "" if array is None else str(array.dtype)


def _note(kind: str, schemes: list[Scheme]) -> Finding:
    steps = max(scheme.difference for scheme in schemes)
    share = max(scheme.share for scheme in schemes)
    return Finding(
        code=NOT_EXACT_CODE,
        severity="info",
        where="simulator",
        what=f"Tensors in {kind} are {NOT_EXACT}.",
        cause="ONNX Runtime has no such kernels: layers sum in float32. Against exact sums at most "
        f"{steps} step of difference was measured, on {share:.2%} of the values or less.",
    )
