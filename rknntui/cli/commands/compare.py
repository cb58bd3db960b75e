"""``rknntui compare``: Compare a build with a board, layer by layer, on the same input."""

from __future__ import annotations

from dataclasses import replace

from engine import rounding_lines, sanitize
from engine.wire.compare import COMPARE_BOARD, ComparedLayer, Comparison
from engine.wire.layers import COMPARE, LAYERS, layer_rows
from rknntui.cli.output import table_lines
from rknntui.cli.verb import Printed, verb

_EPILOG = (
    "TARGET is a model file or a recipe; flags override the recipe. The exit code is 1 where a "
    "layer diverges. An emulated board runs the build itself; for a real one: rknntui export "
    "TARGET -o layers.onnx --layers, compile that with the vendor's toolkit "
    "(do_quantization=False), and give the file with --compiled."
)


_TABLE = replace(COMPARE, columns=(*COMPARE.columns, LAYERS.column("diverges")))


@verb(COMPARE_BOARD)
def command(found: Comparison) -> Printed:
    """Compare float, simulator and board on the same input; name the first layer that diverges."""
    return Printed(_lines(found), code=1 if found.first else 0)


def _lines(comparison: Comparison) -> list[str]:
    where = (
        f"{sanitize(comparison.device)}: {comparison.chip}, runtime {sanitize(comparison.runtime)}"
    )
    where += f", driver {sanitize(comparison.driver)}" if comparison.driver else ""
    lines = [
        f"{where} ({comparison.label})",
        *table_lines(_TABLE, layer_rows(comparison), whole=True),
    ]
    lines += [f"not given by the board: {sanitize(name, 120)}" for name in comparison.missing[:20]]
    if len(comparison.missing) > 20:
        lines.append(f"and {len(comparison.missing) - 20} more")
    lines += [sanitize(note) for note in comparison.notes]
    lines += [f"wrote {path}" for path in comparison.files]
    first = next((layer for layer in comparison.layers if layer.diverges), None)
    if first is not None:
        lines += _inside(first)
    if comparison.rounding is not None:
        lines += [
            sanitize(text, 400) for text in comparison.judged or rounding_lines(comparison.rounding)
        ]
    return [*lines, f"input SHA-256 {comparison.sha256}", sanitize(comparison.verdict, 500)]


def _inside(layer: ComparedLayer) -> list[str]:
    return [f"  or {sanitize(name, 120)}" for name in layer.inside[:20]]
