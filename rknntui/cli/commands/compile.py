"""``rknntui compile``: Compile a build for chips with the vendor's toolkit."""

from __future__ import annotations

from engine import sanitize
from engine.wire.build_tables import AGREEMENT, COMPILED
from engine.wire.compile import COMPILE, Compiled, CompiledModels
from engine.wire.formats import DURATION
from engine.wire.layers import COMPILED as COMPILED_LAYERS
from engine.wire.layers import ENDS, layer_rows
from rknntui.cli.gates import Limits, compiled_figures
from rknntui.cli.output import table_lines
from rknntui.cli.verb import Printed, verb

_MOST = 40
_OFF_NPU = COMPILED_LAYERS.pick("name", "op", "dtype", "placement")
_SAMPLES_OF = {
    "calibration": "calibration samples",
    "given": "samples given",
    "seeded": "values from a seed",
}


@verb(
    COMPILE,
    limits=("cpu", "memory", "under"),
)
def command(found: CompiledModels, limits: Limits) -> Printed:
    """Compile a build into a vendor .rknn for each chip, with provenance beside it.

    The compiler's own table of layers, cycles and memory stands beside our estimate. Its simulator
    runs one sample; where it computes something else than the build, no file is written. A chip
    that fails does not end the others; the exit code then is that of its error.
    """
    gates = limits.gates(compiled_figures(found.chips))
    return Printed(_lines(found), gates, max((one.exit_code for one in found.chips), default=0))


def _lines(result: CompiledModels) -> list[str]:
    compiled = [one for one in result.chips if one.path]
    lines = [sanitize(result.model)]
    lines += ["", *table_lines(COMPILED, compiled)] if compiled else []
    lines += [_ESTIMATED] if any(one.estimated_weight_bytes is not None for one in compiled) else []
    for one in result.chips:
        lines += ["", f"{one.chip}: {sanitize(one.path) or 'not compiled'}", *_details(one)]
    return lines


_ESTIMATED = (
    "estimated: the plan of the file that the compiler got; `chips` counts the model before it."
)


def _details(one: Compiled) -> list[str]:
    if one.problem:
        parts = (
            ("", one.problem),
            ("likely cause: ", one.cause),
            ("fix: ", one.remedy),
            ("", _log(one)),
        )
        lines = [f"{title}{text}" for title, text in parts if text]
        return [f"  {line}" for line in [*lines, *_opinion(one)]]
    lines = []
    off = [row for row in layer_rows(one) if row.placement != "NPU" and row.first("op") not in ENDS]
    lines += table_lines(_OFF_NPU, off[:_MOST], whole=True)
    if len(off) > _MOST:
        lines.append(f"and {len(off) - _MOST} more layers that are not on the NPU")
    lines += _opinion(one)
    for finding in one.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what, 400)}")
        if finding.severity != "info" and finding.remedy:
            lines.append(f"  fix: {sanitize(finding.remedy, 400)}")
    return [f"  {line}" for line in lines]


def _opinion(one: Compiled) -> list[str]:
    """The second opinion of the vendor's simulator."""
    rows = table_lines(AGREEMENT, one.outputs)
    if not rows:
        return []
    took = "" if one.opinion_seconds is None else f", {DURATION.text(one.opinion_seconds)}"
    title = f"simulated by the vendor and by us ({_SAMPLES_OF[one.samples_from]}{took}):"
    return [title, *rows]


def _log(one: Compiled) -> str:
    return f"What the toolkit printed: {one.log}" if one.log else ""
