"""The columns of layers and the views: choices of columns.

A figure has its column at the field of the part of :class:`engine.wire.layers.LayerFigures` that
holds it. Here are the columns of what several parts have, or what only a front end knows, and the
order in which a view has its columns. A figure that the view of its part does not place stands at
the view's end, on very wide screens and in files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

from engine.wire.build import LayerAccuracy
from engine.wire.columns import (
    CHIP,
    DTYPE,
    FIGURES_ARE,
    LAYER,
    MARK,
    NUMBERED,
    OP,
    PLACE,
    SQNR,
    TENSOR,
    above,
    accent,
    change_style,
    low_db,
    no_noise,
    place_style,
    since,
    sqnr_of,
)
from engine.wire.compare import ComparedLayer
from engine.wire.compile import CompiledLayer
from engine.wire.cost import LayerCost
from engine.wire.devices import LayerTime
from engine.wire.formats import CHANGE, FIGURE, MICROSECONDS, NAME, PERCENT, SIZE, WORD
from engine.wire.hybrid import LayerRow, Ranked
from engine.wire.layers import LayerFigures
from engine.wire.table import Column, Meaning, Table, columns_at

_SLOW = 0.2
TOLERATED = 0.01
"""Share that printed and estimated cycles of a layer may differ without a sign."""
_FAR = 200
"""Width of screen from which a view has the figures that it does not place."""


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


def _cumulative(row: LayerFigures) -> float | None:
    """Cumulative: of the build, over its calibration samples, else of an analysis."""
    if row.choice is not None and row.choice.samples:
        return no_noise(row.choice.sqnr_db)
    return None if row.error is None else sqnr_of("cumulative", "sqnr")(row.error)


def _rounding(row: LayerFigures) -> float | None:
    moved = row.rounding or (None if row.compared is None else row.compared.rounding)
    return None if moved is None else no_noise(moved.rounding_db)


def _label(row: LayerFigures) -> str:
    """What the figures of a row are: simulated, estimated, printed, measured or emulated."""
    parts = (
        (row.kernel or row.error or row.choice or row.proposed, "simulated"),
        (row.estimated, "estimated"),
        (row.compiled, "printed"),
        (row.measured, row.label),
    )
    return ", ".join(label for part, label in parts if part is not None)


def _first(key: str, *parts: str) -> Callable[[LayerFigures], Any]:
    """The first value that one of the parts has."""

    def value(row: LayerFigures) -> Any:
        values = (getattr(getattr(row, part), key, None) for part in parts)
        return next((one for one in values if one is not None), None)

    return value


def _kernel(read: Callable[[Any], Any]) -> Callable[[LayerFigures], Any]:
    return lambda row: None if row.kernel is None else read(row.kernel)


def _runs_in(row: LayerFigures) -> str | None:
    if row.kernel is None:
        return None
    return "✓ integer" if row.kernel.integer else "! float"


_SEVERAL: dict[str, Callable[[LayerFigures], Any]] = {
    "npu_cycles": _plan("npu_cycles"),
    "total_cycles": _plan("total_cycles"),
    "time_ms": _first("time_ms", "estimated", "choice"),
    "promote_ms": _first("promote_ms", "choice", "proposed"),
    "promote_bytes": _first("promote_bytes", "choice", "proposed"),
}
"""Figures at fields of which several parts know something."""
_PARTS: dict[str, tuple[Column, ...]] = {
    "error": columns_at(LayerAccuracy, "error"),
    "choice": columns_at(LayerRow, "choice"),
    "proposed": columns_at(Ranked, "proposed"),
    "estimated": columns_at(LayerCost, "estimated"),
    "compiled": columns_at(CompiledLayer, "compiled"),
    "measured": columns_at(LayerTime, "measured"),
    "compared": columns_at(ComparedLayer, "compared"),
}
"""The columns at the fields of a part."""


# fmt: off
_WHAT = (
    CHIP.but(value=None, only="file"),
    MARK,
    Column("sign", name="disagreement", width=1, style=_sign_style, value=disagreement,
           only="screen"),
    NUMBERED,
    LAYER.but(key="name", help="Its id in the build, else what the compiler "
              "calls it.", width=10, grow=3, file=("layer",)),
    Column("printed", "compiler's name", NAME, "What compiler and runtime call it.", width=14,
           grow=1, unlike="name", file=("name",)),
    OP.but(value=lambda row: row.first("op"), width=6),
    Column("dtype", "type", NAME, "The dtype that it computes in.",
           lambda row: row.first("dtype"), width=5, file=("dtype",)),
    PLACE.but(key="placement", help="Where it runs: as measured, else as compiled, else as "
              "estimated.", style=_board_style, file=("target",)),
    Column("integer", "runs in", help="An integer kernel of the simulator, or float.",
           value=_runs_in, width=9,
           style=lambda how: "good" if how and "✓" in how else "warn"),
    Column("kernel", format=NAME, help="The kernel of ONNX Runtime.",
           value=_kernel(lambda own: own.kernel), width=18),
    Column("why_float", "why float", NAME, "Why it runs in float.",
           _kernel(lambda own: own.reason or None), width=10, grow=2),
    DTYPE.but(key="wanted", help="The dtype that the recipe asks for (●), or has.",
              value=None, width=9, style=_wanted_style, only="screen"),
    Column("built", "built", WORD, "What became of it: ✓ ✗ as built, ~ as last tried, · before.",
           None, width=9, style=_built_style, only="screen"),
    Column("sqnr", "SQNR dB", SQNR, "Cumulative SQNR: errors of earlier layers are in it.",
           _cumulative, style=low_db),
)
_MORE = (
    Column("rounding", "round. dB", SQNR, "How far other roundings move it; high is good.",
           _rounding, style=low_db),
    Column("change", "ms Δ", CHANGE, "Its time against the recipe as it is.", None,
           style=change_style(more_is_better=False), only="screen"),
    Column("bar", name="share of time", width=12, style=accent, value=None, only="screen"),
    Column("share", "time %", PERCENT, "Its share of the time of all layers.", None, width=6,
           style=above(_SLOW), only="screen"),
    Column("npu_difference", "NPU diff.", CHANGE, "The compiler's cycles of the NPU against ours.",
           _apart("npu_cycles"), style=above(TOLERATED), only="screen"),
    Column("difference", "diff.", CHANGE, "The compiler's cycles against ours.",
           _apart("total_cycles"), style=above(TOLERATED), only="screen"),
    Column("estimated_placement", "est. on", WORD, "Where it runs, estimated.", _plan("target"),
           width=7, style=place_style),
    Column("mean", "mean µs", MICROSECONDS, "The mean of that time over the live runs.", None,
           only="screen"),
    Column("traffic", format=SIZE, help="Bytes that it moves in an inference.", value=_traffic,
           width=9),
    Column("intensity", "ops/byte", FIGURE, "Operations for each byte that it moves.",
           "estimated.intensity", width=8),
    Column("gops", "GOPS", FIGURE, "10^9 operations a second.", "estimated.gops", width=7),
    Column("of_roof", "of roof %", PERCENT, "That, against the most that its intensity allows.",
           None, width=9),
    Column("chips", format=NAME, help="The chips of which that is so.", value=None, from_width=1),
    Column("source", "source layer", NAME, "Layers of the source model whose work it does.",
           lambda row: ", ".join(row.first("sources") or ()) or None, width=12, grow=2,
           unlike="name"),
    TENSOR.but(help="Its tensor.", value=lambda row: row.first("tensor"), width=12, grow=1,
               unlike="name"),
    FIGURES_ARE.but(value=_label, only="file"),
)
# fmt: on


def _figures() -> tuple[Column, ...]:
    """The columns at the fields of all parts, each once."""
    columns: dict[str, Column] = {}
    for column in chain.from_iterable(_PARTS.values()):
        value = _SEVERAL.get(column.key, column.value)
        columns.setdefault(column.key, column.but(value=value))
    return tuple(columns.values())


LAYERS = Table("layers", "A layer, and what is known of it.", (*_WHAT, *_figures(), *_MORE))
"""Every column. A view has some of them."""


def _view(name: str, title: str, columns: str, part: str = "") -> Table:
    """Columns by their keys, then the other figures of a part that the view is of.

    ``KEY@WIDTH`` is shown on screens of that width, and in texts; ``-KEY`` is left out.
    """
    widths = {word.partition("@")[0]: word.partition("@")[2] for word in columns.split()}
    for column in _PARTS.get(part, ()):
        if f"-{column.key}" not in widths:
            widths.setdefault(column.key, f"{_FAR}")
    chosen = [
        LAYERS.column(key).but(from_width=int(width)) if width else LAYERS.column(key)
        for key, width in widths.items()
        if not key.startswith("-")
    ]
    return Table(name, title, tuple(chosen))


QUALITY = _view(
    "layers-quality",
    "A layer and its error (simulated).",
    "number name op sqnr isolated_sqnr added_share saturation cosine isolated_cosine@88 "
    "output_impact@100 rounding@112 source@150 dtype@124 euclidean@136 isolated_euclidean@136",
    "error",
)
COST = _view(
    "layers-cost",
    "A layer of the compiler, and what it costs (estimated).",
    "chip number name printed@150 op dtype@110 placement time_ms change@1 bar share@96 bound "
    "total_cycles@92 npu_cycles@150 ddr_cycles@150 traffic@104 read_bytes@140 write_bytes@200 "
    "weight_bytes@130 macs@200 shapes_in shape_out@130 reason@170 remedy@200 label",
    "estimated",
)
COMPILED = _view(
    "layers-compiled",
    "A layer as the vendor's compiler printed it, beside our estimate.",
    "sign number@60 name op@90 dtype placement estimated_placement@110 compiled_npu_cycles@130 "
    "npu_cycles@130 npu_difference@130 compiled_total_cycles total_cycles@64 difference "
    "read_kb@120 printed@170",
    "compiled",
)
BOARD = _view(
    "layers-board",
    "A step of the board's runtime, with the error of its layer.",
    "number name op dtype@90 placement microseconds mean@96 share traffic sqnr@60 "
    "isolated_sqnr@96 printed@140",
    "measured",
)
HYBRID = _view(
    "layers-hybrid",
    "A layer of a build, and the dtypes that it may have.",
    "mark name op@88 wanted built sqnr isolated_sqnr minimum maximum time_ms@100 promote_ms@100 "
    "gain_db@100 gain_per_ms@100 observed_minimum@140 observed_maximum@140 promote_bytes@150 "
    "placement@150 source@130 tensor@170",
    "choice",
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
    "proposed",
)
COMPARE = _view(
    "layers-compared",
    "A layer in float, in the simulator and on the board.",
    "number sign name op@90 dtype@100 simulator_db board_db between_db rounding@100 own_db@1 "
    "own_steps@110 moved@1 simulator_cos@150 board_cos@150 between_cos@120 steps@60 "
    "between_max@160 tensor@170 -diverges",
    "compared",
)
OFF_NPU = _view(
    "off-npu",
    "A layer that does not run on the NPU as it is (estimated).",
    "name op placement reason remedy@110 chips",
)
OFF_NPU = replace(
    OFF_NPU,  # here the reasons are what it is about
    columns=tuple(
        column.but(width=20, grow=3) if column.key in ("reason", "remedy") else column
        for column in OFF_NPU.columns
    ),
)
ROOFLINE = _view(
    "roofline",
    "A layer under the roof of a chip (estimated).",
    "number name intensity gops of_roof time_ms bound",
)
KERNELS = _view(
    "kernels",
    "A quantized layer, and how it runs in the simulator.",
    "name op integer kernel@90 why_float",
)
