"""What a container holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from engine.base.plain import JsonObject, JsonValue, Values
from engine.build import BuildSummary, Provenance
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap

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
