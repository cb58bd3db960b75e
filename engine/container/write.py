"""A build as the bytes of a container."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.base.errors import ContainerError
from engine.base.plain import JsonObject
from engine.container.blob import pack, section_offsets
from engine.container.content import ContainerContent
from engine.container.graphs import split_graph
from engine.container.layers import layer_list
from engine.container.tables import split_table
from engine.graph.layers import LayerMap
from engine.recipe import canonical_json

SIZE_LIMIT = 2 << 30
"""Bytes of the largest container."""


def write_container(content: ContainerContent) -> bytes:
    """The bytes of a container; equal content gives equal bytes.

    Raises:
        ContainerError: a number that JSON does not have (NaN, infinity), or more than 2 GiB.
        GraphError: the graph cannot be serialised.
    """
    structure, weights, places = split_graph(content.graph)
    sections: dict[str, bytes | bytearray] = {
        "about": _json("about", _about(content)),
        "recipe": _json("recipe", dict(content.recipe)),
        "provenance": _json("provenance", asdict(content.provenance)),
    }
    if content.summary is not None:
        sections["summary"] = _json("summary", dict(content.summary))
    if content.custom_string is not None:
        sections["custom_string"] = _json("custom_string", content.custom_string)
    if content.table is not None:
        table, values = split_table(content.table)
        sections["quant_table"] = _json("quant_table", table)
        sections["quant_values"] = values
    if content.layers is not None:
        sections["layer_map"] = _json("layer_map", content.layers.to_json())
    if content.segments:
        sections["segments"] = _json("segments", {"after": [list(one) for one in content.segments]})
    sections["graph"] = structure
    sections["weights"] = weights
    if content.float_graph is not None:
        float_structure, float_weights, _ = split_graph(content.float_graph)
        sections["float_graph"] = float_structure
        sections["float_weights"] = float_weights
    offsets, size = section_offsets([len(part) for part in sections.values()])
    base = offsets[list(sections).index("weights")]
    layers = _json(
        "layers",
        layer_list(
            content.graph,
            content.name,
            content.provenance.tool,
            places,
            base,
            content.layers or LayerMap(),
            quantized=content.quantized,
            target_platform=content.target_platform,
            custom_string=content.custom_string,
        ),
    )
    if size + len(layers) > SIZE_LIMIT:
        raise ContainerError(
            f"The container of {content.name} would have {size + len(layers)} bytes.",
            cause="Containers are limited to 2 GiB.",
            remedy="Cut the model into parts by naming inputs and outputs.",
        )
    return pack(sections, layers)


def _about(content: ContainerContent) -> JsonObject:
    return {
        "name": content.name,
        "quantized": content.quantized,
        "target_platform": content.target_platform,
    }


def _json(section: str, data: Any) -> bytes:
    try:
        return canonical_json(data)
    except ValueError as error:
        raise ContainerError(
            f"Part {section} of the container cannot be written: {error}.",
            cause="A figure of the build is not a finite number.",
            remedy="Look for overflowing layers in the accuracy analysis.",
        ) from error
