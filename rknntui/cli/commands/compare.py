"""``rknntui compare``: Compare a build with a board, layer by layer, on the same input."""

from __future__ import annotations

from engine import rounding_lines, sanitize, sqnr_text
from engine.wire.compare import COMPARE_BOARD, ComparedLayer, Comparison, Difference
from rknntui.cli.figures import rounding_text
from rknntui.cli.output import table
from rknntui.cli.verb import Printed, verb

_EPILOG = (
    "TARGET is a model file or a recipe; flags override the recipe. The exit code is 1 where a "
    "layer diverges. An emulated board runs the build itself; for a real one: rknntui export "
    "TARGET -o layers.onnx --layers, compile that with the vendor's toolkit "
    "(do_quantization=False), and give the file with --compiled."
)


@verb(COMPARE_BOARD, epilog=_EPILOG)
def command(found: Comparison) -> Printed:
    """Compare float, simulator and board on the same input; name the first layer that diverges."""
    return Printed(_lines(found), code=1 if found.first else 0)


def _lines(found: Comparison) -> list[str]:
    where = f"{sanitize(found.device)}: {found.chip}, runtime {sanitize(found.runtime)}"
    rows = [
        (
            sanitize(layer.id, 50),
            layer.op,
            layer.dtype,
            _decibels(layer.simulator),
            _decibels(layer.board),
            _decibels(layer.between),
            rounding_text(layer.rounding),
            "" if layer.own is None else _decibels(layer.own),
            "" if layer.own_steps is None else f"{layer.own_steps:.3g}",
            "" if layer.moved is None else f"{layer.moved * 100:.3g}",
            "diverges" if layer.diverges else "",
        )
        for layer in found.layers
    ]
    columns = (
        "layer",
        "op",
        "type",
        "sim. dB",
        "board dB",
        "b-s dB",
        "round. dB",
        "alone dB",
        "alone steps",
        "moved %",
        "",
    )
    where += f", driver {sanitize(found.driver)}" if found.driver else ""
    kept = [at for at, name in enumerate(columns) if found.rounding or name != "round. dB"]
    shown = [tuple(row[at] for at in kept) for row in rows]
    lines = [f"{where} ({found.label})", *table([columns[at] for at in kept], shown)]
    lines += [f"not given by the board: {sanitize(name, 120)}" for name in found.missing[:20]]
    if len(found.missing) > 20:
        lines.append(f"and {len(found.missing) - 20} more")
    lines += [sanitize(note) for note in found.notes]
    lines += [f"wrote {path}" for path in found.files]
    first = next((layer for layer in found.layers if layer.diverges), None)
    if first is not None:
        lines += _inside(first)
    if found.rounding is not None:
        lines += [sanitize(text, 400) for text in found.judged or rounding_lines(found.rounding)]
    return [*lines, f"input SHA-256 {found.sha256}", sanitize(found.verdict, 500)]


def _inside(layer: ComparedLayer) -> list[str]:
    return [f"  or {sanitize(name, 120)}" for name in layer.inside[:20]]


def _decibels(difference: Difference) -> str:
    """SQNR; ``nan`` where a value is no number."""
    return "nan" if difference.cosine is None else sqnr_text(difference.sqnr, unit=False)
