"""Inputs and outputs of a compiled graph, joined with what the file's tables say of them."""

from __future__ import annotations

from dataclasses import replace

from engine.base.plain import JsonObject
from engine.container.vendor.model import VendorGraph, VendorPort, VendorTensor
from engine.container.vendor.values import as_floats, as_mapping, as_text

__all__ = ["add_observed", "ports_of"]


def ports_of(
    graph: VendorGraph,
    positions: tuple[int, ...],
    facts: JsonObject | None = None,
    runtime: JsonObject | None = None,
) -> tuple[VendorPort, ...]:
    """The ports at these positions.

    Args:
        graph: its tensors.
        positions: of the ports' tensors.
        facts: the table ``attrs``: name -> ``{layout, dtype, mean, std, rgb2bgr, ...}``.
        runtime: name -> ``{dtype, layout}``.
    """
    attrs = as_mapping((facts or {}).get("attrs"))
    return tuple(_port(graph.tensors[i], attrs, runtime or {}) for i in positions)


def _port(tensor: VendorTensor, attrs: JsonObject, runtime: JsonObject) -> VendorPort:
    told, outside = as_mapping(attrs.get(tensor.name)), as_mapping(runtime.get(tensor.name))
    swapped = told.get("rgb2bgr")
    return VendorPort(
        tensor,
        layout=as_text(told.get("layout")).upper(),
        runtime_dtype=as_text(outside.get("dtype")),
        runtime_layout=as_text(outside.get("layout")).upper(),
        source_dtype=as_text(told.get("dtype")),
        mean=as_floats(told.get("mean", ())),
        std=as_floats(told.get("std", ())),
        rgb2bgr=swapped if isinstance(swapped, bool) else None,
    )


def add_observed(graph: VendorGraph, facts: JsonObject) -> VendorGraph:
    """The graph with the observed ranges of the table ``quant_tab`` beside the ranges used."""
    table = as_mapping(facts.get("quant_tab"))
    tensors = list(graph.tensors)
    for position, tensor in enumerate(tensors):
        told = as_mapping(table.get(tensor.name))
        low, high = as_floats(told.get("ori_min", ())), as_floats(told.get("ori_max", ()))
        if tensor.quant is not None and len(low) == len(high) == 1:
            quant = replace(tensor.quant, observed=(low[0], high[0]))
            tensors[position] = replace(tensor, quant=quant)
    return replace(graph, tensors=tuple(tensors))
