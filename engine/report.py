"""The build summary as sections of text, the same in every front end. Standard library only.

:class:`engine.build.BuildSummary` is the data; this is its one rendering: the command line prints
it, the workbench shows it and the Python API logs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.text import aligned, human_bytes, sanitize, some_of

if TYPE_CHECKING:
    from engine.build import BuildSummary, ErrorFigure
    from engine.wire.accuracy import RoundingSensitivity
    from engine.wire.build import Analysis

CONTAINER_NOTE = (
    "This .rknn file is for simulation and inspection; it runs on no NPU. For a real NPU compile "
    "the build with `rknntui compile`, or export QDQ ONNX and load it with rknn-toolkit2 and "
    "do_quantization=False."
)
"""What every export of a container says, in all front ends."""


_OF_INPUTS = ("Input", "exDataConvert")
"""Operators of the rows of an error analysis that are no layers."""


@dataclass(frozen=True)
class Section:
    """A titled table; every row has as many cells as ``columns``, or is a single line of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def samples_text(some: int, total: int) -> str:
    """Over which samples a figure is: ``the calibration samples`` or ``9 of 20 ...``.

    ``some``: how many; 0 where it was not written down, as before there was a choice.
    """
    if not 0 < some < total:
        return "the calibration samples"
    return f"{some} of {total} calibration samples"


def layers_counted(analysis: Analysis) -> str:
    """How many layers an error analysis has: ``88 layers, 2 rows of inputs``.

    Layers as hybrid quantization counts them; tensors inside a layer are none.
    """
    rows = [row for row in analysis.layers if not row.inner]
    inputs = sum(row.op in _OF_INPUTS for row in rows)
    layers = len(rows) - inputs
    text = "1 layer" if layers == 1 else f"{layers} layers"
    if inputs:
        text += ", 1 row of an input" if inputs == 1 else f", {inputs} rows of inputs"
    return text


def sqnr_text(value: float | None, *, unit: bool = True, digits: int = 2) -> str:
    """An SQNR in dB as every front end writes it: ``41.20 dB``, or ``equal``.

    Args:
        value: None where there is no noise, or infinite where it was made a number to sort by.
        unit: whether ``dB`` follows; in a column its head has it.
        digits: behind the point.
    """
    if value is None or value == math.inf:
        return "equal"
    return f"{value:.{digits}f}{' dB' if unit else ''}"


def gain_text(value: float | None, *, unit: bool = True) -> str:
    """A difference of two SQNR: ``+1.20 dB``; None where no noise is left: ``all``."""
    return "all" if value is None else f"{value:+.2f}{' dB' if unit else ''}"


def sqnr_rank(value: float | None) -> float:
    """An SQNR as a number to compare by: infinite where there is no noise (None)."""
    return math.inf if value is None else value


_SHOWN = 3
"""Layers that amplify most, as many as are named."""
_AMPLIFIES = 3.0
"""In dB, from which a layer is named."""


def rounding_lines(found: RoundingSensitivity) -> list[str]:
    """A rounding sensitivity in words: a line for each output, then where it is amplified."""
    ways = f"{len(found.runs)} ways to round, {found.samples} sample"
    ways += "s" if found.samples != 1 else ""
    lines = []
    for output in found.outputs:
        name = sanitize(output.name, 60)
        if output.rounding_db is None:
            text = f"{name}: other roundings do not move it"
        else:
            moved = f"{output.relative * 100:.2g} % ({sqnr_text(output.rounding_db, digits=1)})"
            text = f"{name}: other roundings move it by up to {moved}"
        if output.quantization_db is not None:
            lost = 10 ** (2 - output.quantization_db / 20)
            sqnr = sqnr_text(output.quantization_db, digits=1)
            text += f"; quantization by {lost:.2g} % ({sqnr})"
        if output.kept_top is not None:
            runs = len(found.runs) * found.samples
            text += f"; the largest value keeps its place in {output.kept_top} of {runs} runs"
        lines.append(f"{text} (simulated; {ways})")
    layers = [layer for layer in found.layers if (layer.amplified_db or 0.0) >= _AMPLIFIES]
    layers.sort(key=lambda layer: -(layer.amplified_db or 0.0))
    if layers:
        named = ", ".join(
            f"{sanitize(layer.id, 60)} ({gain_text(layer.amplified_db)})"
            for layer in layers[:_SHOWN]
        )
        lines.append(f"roundings are amplified most at {named}")
    return lines


def _files(summary: BuildSummary) -> Section:
    rows = [("float graph", human_bytes(summary.float_bytes))]
    if summary.quantized_bytes is not None:
        rows.append(("quantized graph (QDQ)", human_bytes(summary.quantized_bytes)))
    rows.append(("container (.rknn)", human_bytes(summary.container_bytes)))
    return Section("Sizes", ("what", "size"), tuple(rows))


def _layers(summary: BuildSummary) -> Section:
    layers = summary.layers
    if not summary.quantized:
        text = "Not quantized: every layer is simulated in float."
        return Section("Layers on integer kernels", (), ((text,),))
    floats = [layer for layer in layers if not layer.integer]
    rows = [
        (f"{len(layers) - len(floats)} of {len(layers)} quantized layers run on integer kernels",)
    ]
    by_reason: dict[tuple[str, str], list[str]] = {}
    for layer in floats:
        by_reason.setdefault((layer.op, layer.reason), []).append(sanitize(layer.layer, 60))
    for (op, reason), names in by_reason.items():
        rows.append((f"in float: {len(names)} {op} ({some_of(names, 3)}): {reason}",))
    return Section("Layers on integer kernels (simulated)", (), tuple(rows))


def _figure(figure: ErrorFigure) -> tuple[str, str]:
    return sqnr_text(figure.sqnr_db), f"{figure.cosine:.5f}"


def _fidelity(summary: BuildSummary) -> tuple[Section, Section]:
    shown = (*summary.outputs, *summary.worst)
    some = shown[0].samples if shown else 0
    over = f"over {samples_text(some, summary.samples)} (simulated against float)"
    outputs = tuple((sanitize(output.name, 60), *_figure(output)) for output in summary.outputs)
    worst = tuple((sanitize(bad.layer, 60), bad.op, *_figure(bad)) for bad in summary.worst)
    return (
        Section(f"Outputs, {over}", ("name", "SQNR", "cosine"), outputs),
        Section(f"Worst layers, {over}", ("layer", "op", "SQNR", "cosine"), worst),
    )


def _findings(summary: BuildSummary) -> Section:
    rows = []
    for finding in summary.findings:
        where = sanitize(finding.where, 60)
        text = f"{finding.severity}: {where}: {sanitize(finding.what)}"
        if finding.remedy:
            text += f" Fix: {sanitize(finding.remedy)}"
        rows.append((text,))
    return Section("Findings", (), tuple(rows) or (("none",),))


def _stages(summary: BuildSummary) -> Section:
    rows = tuple(
        (stage.stage, f"{stage.seconds:.3f} s", "from the cache" if stage.cached else "")
        for stage in summary.stages
    )
    return Section("Stages (measured on this machine)", ("stage", "time", ""), rows)


def summary_sections(summary: BuildSummary) -> tuple[Section, ...]:
    """The sections of a build summary in their order."""
    kind = (
        f"{summary.quantized_dtype}, {summary.quantized_algorithm}, "
        f"{summary.quantized_method}, {summary.samples} calibration samples"
        if summary.quantized
        else "float, not quantized"
    )
    sections = [
        Section(
            "Build",
            ("what", "value"),
            (
                ("model", sanitize(summary.name, 80)),
                ("quantization", kind),
                ("nodes", str(summary.nodes)),
                ("key", summary.key[:16]),
            ),
        ),
        _files(summary),
        _layers(summary),
    ]
    if summary.quantized:
        sections += _fidelity(summary)
    sections += [
        _findings(summary),
        _stages(summary),
        Section("Next step", (), ((summary.next_command,),)),
    ]
    return tuple(sections)


def summary_text(summary: BuildSummary) -> str:
    """The summary as plain text, as :func:`sections_text` writes it."""
    return sections_text(summary_sections(summary))


def sections_text(sections: Iterable[Section]) -> str:
    """Sections as plain text, columns aligned, one blank line between them."""
    lines: list[str] = []
    for section in sections:
        lines.append(section.title)
        lines += [f"  {line}" for line in table_lines(section)]
        lines.append("")
    return "\n".join(lines[:-1])


def table_lines(section: Section) -> list[str]:
    """The rows of a section with aligned columns; headed where there are more than two."""
    rows = section.rows
    if len(section.columns) > 2 and any(section.columns[2:]):
        rows = (section.columns, *rows)
    lines = iter(aligned([row for row in rows if len(row) > 1]))
    return [row[0] if len(row) == 1 else next(lines) for row in rows]
