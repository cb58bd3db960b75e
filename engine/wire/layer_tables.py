"""The columns of layers, and the views: choices of columns.

A figure has its column at the field of the part of :class:`engine.wire.layers.LayerFigures` that
holds it. Here are the columns of what several parts have, or what only a front end knows, and the
order in which a view has its columns. A figure that the view of its part does not place stands at
the view's end, on very wide screens and in files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import is_dataclass, replace
from itertools import chain
from typing import Any, get_args, get_type_hints

from engine.wire.formats import CHANGE, FIGURE, MICROSECONDS, NAME, PERCENT, SIZE, WORD
from engine.wire.hybrid import Ranked
from engine.wire.layers import LayerFigures
from engine.wire.table import (
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
    Column,
    Meaning,
    Table,
    above,
    accent,
    change_style,
    columns_at,
    low_db,
    no_noise,
    place_style,
    since,
    sqnr_of,
)

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


def _board_style(place: str | None) -> Meaning:
    return "" if place is None or place.upper().startswith("NPU") else place_style(place) or "warn"


_SIGNS: dict[str, Meaning] = {"✓": "good", "✗": "bad", "~": "accent", "·": "dim", "●": "accent"}


def _signed_style(text: str | None) -> Meaning:
    """Of a dtype that is asked for, and of what became of it."""
    return _SIGNS.get((text or "")[:1], "")


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


def _runs_in(row: LayerFigures) -> str | None:
    if row.kernel is None:
        return None
    return "✓ integer" if row.kernel.integer else "! float"


_SEVERAL: dict[str, Callable[[LayerFigures], Any]] = {
    "npu_cycles": _plan("npu_cycles"),
    "total_cycles": _plan("total_cycles"),
    "time_ms": _first("time_ms", "estimated", "choice"),
    "promote_ms": _first("promote_ms", "proposed", "choice"),
    "promote_bytes": _first("promote_bytes", "proposed", "choice"),
}
"""Figures at fields of which several parts know something."""
_PARTS = {
    part: columns_at(kind, part)
    for part, hint in get_type_hints(LayerFigures).items()
    for kind in get_args(hint)
    if isinstance(kind, type) and is_dataclass(kind)
}
"""The columns at the fields of a part."""


# fmt: off
_WHAT = (
    CHIP.but(value=None, only="file"),
    MARK,
    Column("sign", name="disagreement", width=1, value=disagreement, only="screen",
           style=lambda sign: "bad" if sign == "✗" else "warn"),
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
           value="kernel.kernel", width=18),
    Column("why_float", "why float", NAME, "Why it runs in float.",
           lambda row: (row.kernel and row.kernel.reason) or None, width=10, grow=2),
    DTYPE.but(key="wanted", help="The dtype that the recipe asks for (●), or has.",
              value=None, width=9, style=_signed_style, only="screen"),
    Column("built", "built", WORD, "What became of it: ✓ ✗ as built, ~ as last tried, · before.",
           None, width=9, style=_signed_style, only="screen"),
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
    Column("trend", "over the run", help="That time since the run began.", width=12, style=accent,
           value=None, only="screen"),
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
_FREE_MS = 0.0005
"""Time below which a promotion counts as free: half a microsecond is below what estimates tell."""


def most_worth(rows: Sequence[LayerFigures]) -> tuple[tuple[LayerFigures, ...], str]:
    """The layers, first those that are most worth a look, and in words what they are ordered by.

    Once gains are known, what gains most at the outputs for the time that it adds comes first;
    before, what has the lowest cumulative SQNR.
    """
    sqnr, added = LAYERS.column("sqnr"), LAYERS.column("promote_ms")

    def low(row: LayerFigures) -> tuple[float, int]:
        return no_noise(sqnr.of(row)), row.number

    def worth(row: LayerFigures) -> tuple[float, float, int]:
        if row.proposed is None:
            return 1.0, *low(row)
        return -no_noise(row.proposed.gain_db) / max(added.of(row) or 0.0, _FREE_MS), *low(row)

    if any(row.proposed is not None for row in rows):
        timed = any(added.of(row) is not None for row in rows)
        return tuple(sorted(rows, key=worth)), "by gain per ms" if timed else "by gain"
    if any(row.choice is not None or row.error is not None for row in rows):
        return tuple(sorted(rows, key=low)), "by SQNR, worst first"
    return tuple(rows), ""


WORTH_DB = 0.05
"""A gain below this is not worth a promotion."""
CHEAP = 0.05
"""Share of the time that a promotion may add to stand first."""


def worth_promoting(
    rows: Iterable[LayerFigures], time_ms: float | None = None, asked: Collection[str] = ()
) -> list[Ranked]:
    """What is gained by promotions of a proposal, the best gain within 5 % of the time first.

    Of layers that gain together only the first is there: they are promoted together.

    Args:
        rows: of a proposal with gains.
        time_ms: of an inference; None: costs do not count.
        asked: ids of layers that are promoted already; they stand last.
    """

    def order(row: Ranked) -> tuple[bool, float]:
        dear = time_ms is not None and (row.promote_ms or 0.0) > CHEAP * time_ms
        return dear, -no_noise(row.gain_db)

    known = [row.proposed for row in rows if row.proposed is not None]
    found, seen = [], set[str]()
    for row in sorted((one for one in known if no_noise(one.gain_db) >= WORTH_DB), key=order):
        if row.id not in seen:
            found.append(row)
        seen |= {row.id, *row.together}
    return sorted(found, key=lambda row: row.id in asked)


def _view(name: str, title: str, columns: str, part: str = "") -> Table:
    """Columns by their keys, then the other figures of a part that the view is of.

    ``KEY@WIDTH`` is shown on screens of that width, and in texts; ``-KEY`` is left out.
    """
    widths = {word.partition("@")[0]: word.partition("@")[2] for word in columns.split()}
    for column in _PARTS.get(part, ()):
        if f"-{column.key}" not in widths:
            widths.setdefault(column.key, f"{_FAR}")
    chosen = (f"{key}@{width}" for key, width in widths.items() if not key.startswith("-"))
    return Table(name, title, LAYERS.pick(*chosen).columns)


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
    "number name op@60 dtype@100 placement@66 microseconds trend@84 share time_ms@110 traffic@96 "
    "sqnr@120 isolated_sqnr@140 between_db@130 printed@150",
    "measured",
)
LAYER_SETS = {
    "Quality": _view(
        "layers-quality",
        "A layer of a build, its error (simulated), and what promoting it gains and costs.",
        "mark number name op@96 wanted built@92 sqnr isolated_sqnr@1 gain_db@1 promote_ms@1 "
        "together@100 gain_per_ms@110 saturation@84 "
        "minimum@120 maximum@120 added_share@130 output_impact@100 "
        "rounding@140 integer@150 cosine@160 isolated_cosine@170 why_float@180 source@190 "
        "tensor@210 observed_minimum@220 observed_maximum@220 promote_bytes@230",
        "choice",
    ),
    "Cost": _view(
        "layers-cost",
        "A layer of a build, and what it costs (estimated).",
        "mark number name op@84 placement time_ms promote_ms@90 bar share@96 bound@1 "
        "total_cycles@1 npu_cycles@150 ddr_cycles@150 traffic@104 read_bytes@170 "
        "write_bytes@200 weight_bytes@130 macs@200 shapes_in@180 shape_out@140 reason@110 "
        "remedy@200",
        "estimated",
    ),
    "Compiled": _view(
        "layers-compiled",
        "A layer as the vendor's compiler printed it, beside our estimate.",
        "mark sign number name op@90 placement estimated_placement@110 compiled_npu_cycles@130 "
        "npu_cycles@130 npu_difference@130 compiled_total_cycles total_cycles@64 difference "
        "read_kb@120 dtype@140 printed@170",
        "compiled",
    ),
    "Board": _view(
        "layers-board",
        "A layer as a board's runtime timed it, with its estimate and its error.",
        "mark number name op@90 placement@84 microseconds time_ms@1 bar share mean@96 "
        "traffic@110 sqnr@100 isolated_sqnr@130 between_db@1 steps@120 printed@150",
        "measured",
    ),
    "All": _view(
        "layers-all",
        "A layer, and the first figures of all that is known of it.",
        "mark number name op@110 wanted sqnr isolated_sqnr@100 gain_db@1 promote_ms@1 time_ms@1 "
        "placement@100 total_cycles@110 compiled_total_cycles@90 microseconds@1 between_db@130 "
        "bound@140 traffic@150 minimum@170 maximum@170 saturation@160 source@200",
    ),
}
"""The sets of columns of the workbench's table of layers."""
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
