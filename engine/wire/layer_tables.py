"""The columns of layers, each declared once, and the views: choices of columns.

A figure that is added to a part of :class:`engine.wire.layers.LayerFigures` has its column here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.wire.build import Distance
from engine.wire.compare import ComparedLayer, Difference
from engine.wire.cost_tables import change_style, known, place_style, since
from engine.wire.formats import (
    CHANGE,
    COSINE,
    COUNT,
    DECIBEL,
    FIGURE,
    MICROSECONDS,
    MILLISECONDS,
    NAME,
    NUMBER,
    PERCENT,
    SHAPE,
    SIZE,
    WORD,
    Format,
)
from engine.wire.layers import LayerFigures
from engine.wire.table import Column, Meaning, Table

LOW_DB = 20.0
"""A lower SQNR has a mark."""
LOW_COSINE = 0.99
"""So has a lower cosine."""
_CLIPPED = 0.001
_SLOW = 0.2
TOLERATED = 0.01
"""Share that printed and estimated cycles of a layer may differ without a sign."""


def _marked(one: Format, low: float) -> Format:
    """Low values have a mark, so that they are seen without colours."""
    return replace(one, text=lambda value: f"{'!' if value < low else ''}{one.text(value)}")


SQNR = _marked(DECIBEL, LOW_DB)
"""An SQNR of a tensor."""
SIMILARITY = _marked(COSINE, LOW_COSINE)
"""A cosine of a tensor."""


def low_db(value: float | None) -> Meaning:
    """What an SQNR means: a low one is bad."""
    return "bad" if value is not None and value < LOW_DB else ""


def _below(low: float) -> Callable[[float | None], Meaning]:
    return lambda value: "bad" if value is not None and value < low else ""


def _above(high: float) -> Callable[[float | None], Meaning]:
    return lambda value: "warn" if value is not None and abs(value) > high else ""


def _of(part: str, read: Callable[[Any], Any]) -> Callable[[LayerFigures], Any]:
    """A value of a part; None where the row has no such part."""

    def value(row: LayerFigures) -> Any:
        own = getattr(row, part)
        return None if own is None else read(own)

    return value


def _sqnr(distance: Distance | Difference | None, value: float | None) -> float | None:
    """An SQNR: infinite without noise, NaN where a value of the tensor is no number."""
    if distance is None:
        return None
    if distance.cosine is None or value is None:
        return math.nan if distance.cosine is None else math.inf
    return value


def _cosine(distance: Distance | Difference | None) -> float | None:
    if distance is None:
        return None
    return math.nan if distance.cosine is None else distance.cosine


def _euclidean(distance: Distance | None) -> float | None:
    if distance is None:
        return None
    return math.nan if distance.euclidean is None else distance.euclidean


def _difference(which: str) -> Callable[[LayerFigures], Any]:
    def value(layer: ComparedLayer) -> float | None:
        side: Difference | None = getattr(layer, which)
        return None if side is None else _sqnr(side, side.sqnr)

    return _of("compared", value)


def _traffic(row: LayerFigures) -> int | None:
    """Bytes that it moves; what it reads has its weights. Measured where a board says."""
    if row.measured is not None:
        return row.measured.traffic
    return None if row.estimated is None else row.estimated.read_bytes + row.estimated.write_bytes


def _plan(key: str) -> Callable[[LayerFigures], Any]:
    """A figure of the plan; one of the compiled file where the compiler's table stands beside."""

    def value(row: LayerFigures) -> Any:
        if row.compiled is not None:
            return getattr(row.compiled, f"estimated_{key}")
        return None if row.estimated is None else getattr(row.estimated, key) or None

    return value


def _apart(key: str) -> Callable[[LayerFigures], float | None]:
    """By how much the compiler's count is off the plan, a share of 1."""

    def value(row: LayerFigures) -> float | None:
        return since(getattr(row.compiled, key, None), _plan(key)(row))

    return value


def disagreement(row: LayerFigures) -> str:
    """``✗`` where compiler and plan have another place, ``≠`` where their cycles differ."""
    ours, theirs = _plan("target")(row), None if row.compiled is None else row.compiled.target
    if ours is not None and theirs is not None and ours != theirs:
        return "✗"
    apart = (_apart("npu_cycles")(row), _apart("total_cycles")(row))
    return "≠" if any(gap is not None and abs(gap) > TOLERATED for gap in apart) else " "


def _sign_style(sign: str | None) -> Meaning:
    return "bad" if sign == "✗" else "warn"


def _board_style(place: str | None) -> Meaning:
    return "" if place is None or place.upper().startswith("NPU") else place_style(place) or "warn"


def _built_style(text: str | None) -> Meaning:
    signs: dict[str, Meaning] = {"✓": "good", "✗": "bad", "~": "accent", "·": "dim"}
    return signs.get((text or "")[:1], "")


def _wanted_style(text: str | None) -> Meaning:
    return "accent" if text and text.startswith("●") else ""


def _accent(_: Any) -> Meaning:
    return "accent"


def _added_format(one: Format) -> Format:
    """What a choice adds: ``+0.12``, ``-12 KiB``, ``0``."""

    def text(value: float) -> str:
        size = one.text(abs(value))
        return "0" if size.split()[0] == "0" else f"{'-' if value < 0 else '+'}{size}"

    return replace(one, name=f"{one.name}, with its sign", text=text)


GAIN = Format("a gain, +3.40, or all", lambda db: "all" if db == math.inf else f"{db:+.2f}", 7)
"""SQNR at the outputs that a choice gains, in dB."""
ADDED_MS, ADDED_BYTES = _added_format(MILLISECONDS), _added_format(SIZE)
"""What a choice adds to the time of an inference, and to bytes."""


def _cumulative(row: LayerFigures) -> float | None:
    """Cumulative: of the build, over its calibration samples, else of an analysis."""
    if row.choice is not None and row.choice.samples:
        return math.inf if row.choice.sqnr_db is None else row.choice.sqnr_db
    return None if row.error is None else _sqnr(row.error.cumulative, row.error.sqnr)


def _rounding(row: LayerFigures) -> float | None:
    moved = row.rounding or (None if row.compared is None else row.compared.rounding)
    if moved is None:
        return None
    return math.inf if moved.rounding_db is None else moved.rounding_db


def _label(row: LayerFigures) -> str:
    """What the figures of a row are: simulated, estimated, printed, measured or emulated."""
    parts = (
        (row.error or row.choice or row.proposed, "simulated"),
        (row.estimated, "estimated"),
        (row.compiled, "printed"),
        (row.measured, row.label),
    )
    return ", ".join(label for part, label in parts if part is not None)


def _time(row: LayerFigures) -> float | None:
    parts = (row.estimated, row.choice)
    return next((part.time_ms for part in parts if part is not None), None)


def _promote(row: LayerFigures, key: str) -> Any:
    parts = (row.choice, row.proposed)
    values = (getattr(part, key) for part in parts if part is not None)
    return next((value for value in values if value is not None), None)


# fmt: off
LAYERS = Table("layers", "A layer, and what is known of it.", (
    Column("chip", format=NAME, help="The chip.", value=None, only="file"),
    Column("mark", name="mark", width=1, style=_accent, value=None, only="screen"),
    Column("sign", name="disagreement", width=1, style=_sign_style, value=disagreement,
           only="screen"),
    Column("number", "#", NUMBER, "Its place in the table."),
    Column("name", "layer", NAME, "Its id in the build, else what the compiler calls it.",
           width=10, grow=3, file=("layer",)),
    Column("printed", "compiler's name", NAME, "What compiler and runtime call it.", width=14,
           grow=1, unlike="name", file=("name",)),
    Column("op", format=NAME, help="Its operator.", value=lambda row: row.first("op"), width=6),
    Column("dtype", "type", NAME, "The dtype that it computes in.",
           lambda row: row.first("dtype"), width=5, file=("dtype",)),
    Column("placement", "on", WORD, "Where it runs: as measured, else as compiled, else as "
           "estimated.", width=4, style=_board_style, file=("target",)),
    Column("wanted", "dtype", WORD, "The dtype that the recipe asks for (●), or has.", None,
           width=9, style=_wanted_style, only="screen"),
    Column("built", "built", WORD, "What became of it: ✓ ✗ as built, ~ as last tried, · before.",
           None, width=9, style=_built_style, only="screen"),
    Column("sqnr", "SQNR dB", SQNR, "Cumulative SQNR: errors of earlier layers are in it.",
           _cumulative, style=low_db),
    Column("isolated_sqnr", "isol. dB", SQNR, "Isolated SQNR: this layer alone, float inputs.",
           _of("error", lambda own: _sqnr(own.isolated, own.isolated_sqnr)), style=low_db),
    Column("added_share", "added %", PERCENT, "Share of its error that the layer adds itself.",
           "error.added_share", width=7),
    Column("saturation", "clip %", PERCENT, "Share of float values outside the integer range.",
           _of("error", lambda own: own.saturation and own.saturation.low + own.saturation.high),
           width=6, style=_above(_CLIPPED)),
    Column("cosine", "cumul. cos", SIMILARITY, "Cumulative cosine.",
           _of("error", lambda own: _cosine(own.cumulative)), style=_below(LOW_COSINE)),
    Column("euclidean", "cumul. euc", FIGURE, "Cumulative Euclidean distance.",
           _of("error", lambda own: _euclidean(own.cumulative))),
    Column("isolated_cosine", "isol. cos", SIMILARITY, "Isolated cosine.",
           _of("error", lambda own: _cosine(own.isolated)), style=_below(LOW_COSINE)),
    Column("isolated_euclidean", "isol. euc", FIGURE, "Isolated Euclidean distance.",
           _of("error", lambda own: _euclidean(own.isolated))),
    Column("output_impact", "impact %", PERCENT, "Error at the outputs that this layer alone "
           "causes, as a share of that of the model.", "error.output_impact", width=8),
    Column("rounding", "round. dB", SQNR, "How far other roundings move it; high is good.",
           _rounding, style=low_db),
    Column("minimum", format=FIGURE, help="The range that its integers hold, low end.",
           value="choice.minimum"),
    Column("maximum", format=FIGURE, help="The range that its integers hold, high end.",
           value="choice.maximum"),
    Column("observed_minimum", "obs. min", FIGURE, "The calibrated range, low end.",
           "choice.observed_minimum"),
    Column("observed_maximum", "obs. max", FIGURE, "The calibrated range, high end.",
           "choice.observed_maximum"),
    Column("gain_db", "gain dB", GAIN, "What promoting it gains at the outputs (simulated); all: "
           "nothing is left of the error.",
           _of("proposed", lambda own: math.inf if own.gain_db is None else own.gain_db)),
    Column("error_share", "of error %", PERCENT, "The error that promoting it takes away.",
           "proposed.share", width=10),
    Column("time_ms", "est. ms", MILLISECONDS, "Its time, estimated.", _time,
           width=7),
    Column("change", "ms Δ", CHANGE, "That time against the recipe as it is.", None,
           style=change_style(more_is_better=False), only="screen"),
    Column("bar", name="share of time", width=12, style=_accent, value=None, only="screen"),
    Column("share", "time %", PERCENT, "Its share of the time of all layers.", None, width=6,
           style=_above(_SLOW), only="screen"),
    Column("bound", help="What most of its time is.", value="estimated.bound", width=6),
    Column("promote_ms", "+ms", ADDED_MS, "What promoting it adds to an inference, estimated.",
           lambda row: _promote(row, "promote_ms"), width=7),
    Column("gain_per_ms", "dB/ms", FIGURE, "Its gain for each millisecond that it adds.",
           "proposed.gain_per_ms", width=7),
    Column("promote_bytes", "+bytes", ADDED_BYTES, "What promoting it adds to the weights.",
           lambda row: _promote(row, "promote_bytes"), width=9),
    Column("ddr_cycles", "DDR cycles", COUNT, "Cycles of memory, estimated.",
           _of("estimated", known("ddr_cycles")), width=10),
    Column("compiled_npu_cycles", "NPU cycles", COUNT, "Cycles of the NPU, as the compiler "
           "printed them.", "compiled.npu_cycles", width=10),
    Column("npu_cycles", "est. NPU cycles", COUNT, "Cycles of the NPU, estimated.",
           _plan("npu_cycles")),
    Column("npu_difference", "NPU diff.", CHANGE, "The compiler's cycles of the NPU against ours.",
           _apart("npu_cycles"), style=_above(TOLERATED), only="screen"),
    Column("compiled_total_cycles", "cycles", COUNT, "Its cycles, as the compiler printed them.",
           "compiled.total_cycles", width=10),
    Column("total_cycles", "est. cycles", COUNT, "Its cycles, estimated.", _plan("total_cycles")),
    Column("difference", "diff.", CHANGE, "The compiler's cycles against ours.",
           _apart("total_cycles"), style=_above(TOLERATED), only="screen"),
    Column("estimated_placement", "est. on", WORD, "Where it runs, estimated.", _plan("target"),
           width=7, style=place_style),
    Column("read_kb", "read KB", COUNT, "KB that it reads, as the compiler printed them.",
           "compiled.read_kb", width=8),
    Column("microseconds", "time µs", MICROSECONDS, "Its time on the board.",
           "measured.microseconds"),
    Column("mean", "mean µs", MICROSECONDS, "The mean of that time over the live runs.", None,
           only="screen"),
    Column("traffic", format=SIZE, help="Bytes that it moves in an inference.", value=_traffic,
           width=9),
    Column("read_bytes", "read", SIZE, "Bytes that it reads, weights among them, estimated.",
           "estimated.read_bytes", width=9),
    Column("write_bytes", "written", SIZE, "Bytes that it writes, estimated.",
           "estimated.write_bytes", width=9),
    Column("weight_bytes", "weights", SIZE, "Bytes of its weights.",
           _of("estimated", known("weight_bytes")), width=9),
    Column("macs", "MACs", COUNT, "Multiply-accumulates of an inference.", "estimated.macs"),
    Column("simulator_db", "sim. dB", SQNR, "Simulator against float: what quantization costs.",
           _difference("simulator"), style=low_db),
    Column("board_db", "board dB", SQNR, "Board against float.", _difference("board"),
           style=low_db),
    Column("between_db", "b-s dB", SQNR, "Board against simulator, from the input on.",
           _difference("between"), style=low_db),
    Column("own_db", "alone dB", SQNR, "The same of this layer alone, on the board's inputs.",
           _difference("own"), style=low_db),
    Column("own_steps", "alone steps", FIGURE, "The same in steps of its integers, at most.",
           "compared.own_steps", width=11),
    Column("moved", "moved %", PERCENT, "Values that are another integer, this layer alone.",
           "compared.moved", width=7),
    Column("diverges", help="Whether that is more than rounding explains.",
           value=_of("compared", lambda own: "diverges" if own.diverges else None), from_width=1),
    Column("steps", format=FIGURE, help="Board against simulator in steps, at most.",
           value="compared.steps", width=6),
    Column("simulator_cos", "sim. cos", SIMILARITY, "Cosine of simulator and float.",
           _of("compared", lambda own: _cosine(own.simulator)), style=_below(LOW_COSINE)),
    Column("board_cos", "board cos", SIMILARITY, "Cosine of board and float.",
           _of("compared", lambda own: _cosine(own.board)), style=_below(LOW_COSINE)),
    Column("between_cos", "b-s cos", SIMILARITY, "Cosine of board and simulator.",
           _of("compared", lambda own: _cosine(own.between)), style=_below(LOW_COSINE)),
    Column("between_max", "b-s max", FIGURE, "Greatest difference of board and simulator.",
           "compared.between.maximum"),
    Column("source", "source layer", NAME, "Layers of the source model whose work it does.",
           lambda row: ", ".join(row.first("sources") or ()) or None, width=12, grow=2,
           unlike="name"),
    Column("tensor", format=NAME, help="Its tensor.", value=lambda row: row.first("tensor"),
           width=12, grow=1, unlike="name"),
    Column("shapes_in", "inputs", SHAPE, "Shapes that it reads.",
           _of("estimated", known("shapes_in")), only="file"),
    Column("shape_out", "output shape", SHAPE, "The shape that it writes.",
           _of("estimated", known("shape_out")), width=10),
    Column("reason", "why", NAME, "Why it is not on the NPU.", _of("estimated", known("reason")),
           width=8, grow=1),
    Column("remedy", "fix", NAME, "What you can do.", _of("estimated", known("remedy")),
           width=8, grow=1),
    Column("label", "figures are", help="Where the figures are from.", value=_label, only="file"),
))
"""Every column. A view has some of them."""
# fmt: on


def _view(name: str, title: str, columns: str) -> Table:
    """Columns by their keys; ``KEY@WIDTH`` is shown on screens of that width, and in texts."""
    chosen = []
    for word in columns.split():
        key, _, width = word.partition("@")
        column = LAYERS.column(key)
        chosen.append(replace(column, from_width=int(width)) if width else column)
    return Table(name, title, tuple(chosen))


QUALITY = _view(
    "layers-quality",
    "A layer and its error (simulated).",
    "number name op sqnr isolated_sqnr added_share saturation cosine isolated_cosine@88 "
    "output_impact@100 rounding@112 source@150 dtype@124 euclidean@136 isolated_euclidean@136",
)
COST = _view(
    "layers-cost",
    "A layer of the compiler, and what it costs (estimated).",
    "chip number name printed@150 op dtype@110 placement time_ms change@1 bar share@96 bound "
    "total_cycles@92 npu_cycles@150 ddr_cycles@150 traffic@104 read_bytes@140 write_bytes@200 "
    "weight_bytes@130 macs@200 shapes_in shape_out@130 reason@170 remedy@200 label",
)
COMPILED = _view(
    "layers-compiled",
    "A layer as the vendor's compiler printed it, beside our estimate.",
    "sign number@60 name op@90 dtype placement estimated_placement@110 compiled_npu_cycles@130 "
    "npu_cycles@130 npu_difference@130 compiled_total_cycles total_cycles@64 difference "
    "read_kb@120 printed@170",
)
BOARD = _view(
    "layers-board",
    "A step of the board's runtime, with the error of its layer.",
    "number name op dtype@90 placement microseconds mean@96 share traffic sqnr@60 "
    "isolated_sqnr@96 printed@140",
)
HYBRID = _view(
    "layers-hybrid",
    "A layer of a build, and the dtypes that it may have.",
    "mark name op@88 wanted built sqnr isolated_sqnr minimum maximum time_ms@100 promote_ms@100 "
    "gain_db@100 gain_per_ms@100 observed_minimum@140 observed_maximum@140 promote_bytes@150 "
    "placement@150 source@130 tensor@170",
)
DTYPES = _view(
    "layers-dtypes",
    "A layer of a build with dtype and range (SQNR simulated, costs estimated).",
    "tensor name op dtype minimum maximum sqnr time_ms@1 promote_ms@1 promote_bytes@1",
)
PROPOSED = _view(
    "layers-proposed",
    "A layer to promote (gains simulated, costs estimated).",
    "name tensor op gain_db error_share promote_ms@1 promote_bytes@1 gain_per_ms@1",
)
COMPARE = _view(
    "layers-compared",
    "A layer in float, in the simulator and on the board.",
    "number sign name op@90 dtype@100 simulator_db board_db between_db rounding@100 own_db@1 "
    "own_steps@110 moved@1 simulator_cos@150 board_cos@150 between_cos@120 steps@60 "
    "between_max@160 tensor@170",
)
