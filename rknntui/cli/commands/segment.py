"""``rknntui segment``: Cut a model into segments that other models may run between."""

from __future__ import annotations

from engine import human_bytes, sanitize
from engine.wire.build_tables import CUTS
from engine.wire.segments import SEGMENTS_CUT, Segments, SegmentsParams
from rknntui.cli.inspect_output import finding_lines, segment_lines
from rknntui.cli.output import table_lines
from rknntui.cli.verb import verb


@verb(
    SEGMENTS_CUT,
    keys=True,
    epilog="Examples: rknntui segment model.rknn --chip rk1808; rknntui segment model.rknn "
    "--max-time 5ms -o parts.rknn; rknntui segment model.rknn --after 12 --after 30 -o parts.rknn",
)
def command(found: Segments, asked: SegmentsParams) -> list[str]:
    """List the layers of MODEL with what a cut behind each costs, and cut it into segments.

    MODEL is a container of this program, cut here and simulated segment by segment, or a compiled
    model of generation 1, cut by the vendor's toolkit.
    """
    lines = _layer_lines(found) if not asked.after and asked.max_ms is None else []
    if found.segments:
        title = f"times estimated for {found.chip}" if found.chip else "no chip, so no times"
        lines += [*([""] * bool(lines)), *segment_lines(found.segments, title)]
    lines += finding_lines(found.findings)
    if found.path:
        how = f" by {sanitize(found.toolkit)}" if found.toolkit else ""
        size = human_bytes(found.size)
        lines.append(f"{sanitize(found.path)}: {size}, SHA-256 {found.sha256}{how}")
    return lines


def _layer_lines(found: Segments) -> list[str]:
    lines = table_lines(CUTS, found.layers)
    if any(layer.with_next for layer in found.layers):
        lines.append("+ computed together with the next layer (estimated)")
    return lines
