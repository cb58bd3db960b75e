"""What a container holds, and a build as the bytes of one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from engine.base.errors import ContainerError
from engine.base.plain import JsonObject, JsonValue, Values
from engine.build import BuildSummary, Provenance
from engine.container.blob import pack, section_offsets
from engine.container.graphs import split_graph, split_table
from engine.container.layers import layer_list
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap
from engine.recipe import canonical_json

SECTIONS = frozenset(
    {
        "about",
        "recipe",
        "provenance",
        "summary",
        "custom_string",
        "quant_table",
        "quant_values",
        "layer_map",
        "segments",
        "graph",
        "weights",
        "float_graph",
        "float_weights",
    }
)
"""Names of the sections that this version writes and reads."""

# of a summary: what differs between two runs of one build, or points to places on a disk
_RUN_ONLY = ("stages", "container_bytes", "next_command")


@dataclass(frozen=True)
class About:
    """The first section."""

    name: str
    quantized: bool
    target_platform: str | None = None


@dataclass(frozen=True)
class ContainerContent:
    """What is written; equal content gives equal bytes.

    Attributes:
        name: of the model, without folder.
        graph: the QDQ graph, or the optimised float graph of a build without quantization.
        quantized: which of the two it is.
        recipe: as :func:`engine.recipe.relocatable` gives it.
        provenance: where the build came from.
        table: quantization parameters; None without quantization.
        layers: of a quantized graph; None without quantization, and in files of version 0.1.
        summary: as :func:`portable_summary` gives it.
        custom_string: the user's own text.
        target_platform: the chip, or None.
        float_graph: the optimised float graph beside a QDQ graph, so that accuracy can be analysed
            from the file alone; its float weights make the file about five times as large.
        segments: the layers that a segment ends after, as (uid, layer id) in the order of the
            layers; empty where the model is one segment.
    """

    name: str
    graph: Graph
    quantized: bool
    recipe: Values
    provenance: Provenance
    table: QuantTable | None = None
    layers: LayerMap | None = None
    summary: JsonObject | None = None
    custom_string: str | None = None
    target_platform: str | None = None
    float_graph: Graph | None = None
    segments: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Container(ContainerContent):
    """What was read; all checksums held.

    Attributes:
        sha256: of the whole file, as it lies there.
        size: of the whole file in bytes.
        sections: name -> size in bytes, in the file's order.
        encryption_level: of an encrypted file, 1 to 3; else None.
    """

    sha256: str = ""
    size: int = 0
    sections: tuple[tuple[str, int], ...] = ()
    encryption_level: int | None = None

    @property
    def unknown_sections(self) -> tuple[str, ...]:
        """Names of sections that this version does not read."""
        return tuple(name for name, _ in self.sections if name not in SECTIONS)


def portable_summary(summary: BuildSummary) -> dict[str, JsonValue]:
    """A build's summary without what differs between two runs of it: times, paths, own size."""
    return {name: value for name, value in asdict(summary).items() if name not in _RUN_ONLY}


SIZE_LIMIT = 2 << 30
"""Bytes of the largest container."""


def write_container(content: ContainerContent) -> bytes:
    """The bytes of a container; equal content gives equal bytes.

    Raises:
        ContainerError: a number that JSON does not have (NaN, infinity), or more than 2 GiB.
        GraphError: the graph cannot be serialised.
    """
    about = About(content.name, content.quantized, content.target_platform)
    structure, weights, places = split_graph(content.graph)
    sections: dict[str, bytes | bytearray] = {
        "about": _json("about", asdict(about)),
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


def _json(section: str, data: Any) -> bytes:
    try:
        return canonical_json(data)
    except ValueError as error:
        raise ContainerError(
            f"Part {section} of the container cannot be written: {error}.",
            cause="A figure of the build is not a finite number.",
            remedy="Look for overflowing layers in the accuracy analysis.",
        ) from error
