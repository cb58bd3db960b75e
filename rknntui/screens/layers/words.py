"""What Layers says: of what is asked for, the outputs, each set of columns; its curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine import gain_text, marked_sqnr, sanitize, sqnr_rank, sqnr_text
from engine.wire.formats import CHANGE, MILLISECONDS
from engine.wire.layer_tables import LAYERS
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.charts import Series
from rknntui.widgets.one_line import Fact
from rknntui.widgets.strips import cells

if TYPE_CHECKING:
    from engine.wire.hybrid import Effect, LayerRow, OutputFigure
    from engine.wire.layers import LayerFigures
    from rknntui.screens.layers.edits import LiveEffect
    from rknntui.session.promotion import LayerEdits
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

_SETS = {
    "Cost": ("estimated", "estimated on {chip}", "not estimated on {chip} yet"),
    "Compiled": (
        "compiled",
        "printed by the compiler for {chip}",
        "not compiled for {chip} yet ({layers.compile} shows Chips, which compiles)",
    ),
    "Board": (
        "measured",
        "{label} on {board}",
        "not run on a board yet ({layers.measure} shows Bench, which runs)",
    ),
}
"""View -> who fills its columns, what is said of them, and before they are filled."""
_SHOWN_OUTPUTS = 4
_LEAST_GAIN = 0.005  # dB: less is shown as none


def edit_values(edits: LayerEdits, effect: LiveEffect) -> Callable[[LayerFigures], dict[str, Any]]:
    """What is asked of each layer and what became of it, as values of its record.

    Args:
        edits: what the recipe asks, and the last build was asked.
        effect: the last effect of it.
    """
    layers, ranges, built = edits.layers, edits.ranges, edits.built
    got, not_applied = effect.got, effect.not_applied

    def values(figures: LayerFigures) -> dict[str, Any]:
        row, name = figures.choice, figures.id
        if row is None:
            return {"wanted": f"  {figures.first('dtype') or ''}", "built": ""}
        asked = layers.get(name)
        low, high = ranges.get(name, (row.minimum, row.maximum))
        return {
            "wanted": f"● {asked}" if asked else f"  {row.base}",
            "built": _built(row, asked, built.get(name), got.get(name)),
            "minimum": low,
            "maximum": high,
            "built_range": (row.minimum, row.maximum) if name in ranges else None,
            "unmet": not_applied.get(name, ""),
        }

    return values


def promoted_text(promoted: int, chosen: int) -> str:
    """``6 layers promoted, 4 of them move values between the others``."""
    text = f"{promoted} layer{'s' if promoted != 1 else ''} promoted"
    along = promoted - chosen
    return f"{text}, {along} of them to move values" if along > 0 else text


def _built(row: LayerRow, asked: str | None, built: str | None, got: str | None) -> str:
    """What became of what was asked: of the build where it is of now, else of the effect."""
    dtype = row.dtype
    if asked == built:
        if asked is None:
            return f"  {dtype}"
        return f"✓ {dtype}" if dtype == asked else f"✗ {dtype}"
    if asked is not None and got is not None:
        return f"~ {got}" if got == asked else f"✗ {got}"
    return f"· {dtype}"


def output_lines(
    outputs: Sequence[OutputFigure],
    effect: Effect | None,
    width: int,
) -> list[Line]:
    """A line an output: its SQNR in the build, as everywhere; with the changes, and the gain.

    Args:
        outputs: of ``hybrid.table``.
        effect: the last one; None where there is none.
        width: cells.
    """
    lines: list[Line] = []
    changed = {} if effect is None else {one.name: one for one in effect.outputs}
    over = "" if effect is None else samples_text(effect.samples)
    room = max(8, min(40, max((len(o.name) for o in outputs), default=8)))
    for output in outputs[:_SHOWN_OUTPUTS]:
        name, built = sanitize(output.name, 200), marked_sqnr(output.sqnr_db)
        name = name if len(name) <= room else f"…{name[1 - room :]}"
        line: Line = [(f"{name:<{room}} ", ""), (f"{built:>10}", "")]
        seen = changed.get(output.name)
        if seen is not None:
            before = marked_sqnr(seen.before_db)
            gain = _gain(seen.before_db, seen.sqnr_db)
            style = "good" if gain > 0 else "bad" if gain < 0 else "dim"
            line += [
                (f" · {over} {before}" if before != built else "", "dim"),  # of other samples
                (" → ", "dim"),
                (marked_sqnr(seen.sqnr_db), "head"),
                (f"  {gain_text(gain, unit=False)}", style),
            ]
        line.append((" sim.", "dim"))  # the line above says more where it has room
        if seen is not None and None not in (seen.rounding, seen.rounding_before):
            moved = (one.rounding_db for one in (seen.rounding_before, seen.rounding) if one)
            old, new = (sqnr_text(value, unit=False, digits=1) for value in moved)
            line.append((f"  other roundings {old} → {new} dB", "dim"))
        lines.append(line)
    if len(outputs) > _SHOWN_OUTPUTS:
        lines[-1].append((f"   and {len(outputs) - _SHOWN_OUTPUTS} more outputs", "dim"))
    return [line if cells(line) <= width else line[:-1] for line in lines]


def samples_text(count: int) -> str:
    """``over 32 samples``."""
    return f"over {count} sample{'s' if count != 1 else ''}"


def _gain(before: float | None, after: float | None) -> float:
    """The gain in dB, 0 where it shows as that; None stands for no error at all."""
    gain = 0.0 if before == after else sqnr_rank(after) - sqnr_rank(before)
    return 0.0 if abs(gain) < _LEAST_GAIN else gain


def time_text(before: float | None, after: float | None, chip: str) -> str:
    """``est. 4.500 → 4.600 ms (+2.2 %) on rk3588``; empty without an estimate."""
    if after is None or not chip:
        return ""
    old = more = ""
    if before and before != after:
        old, more = f"{MILLISECONDS.text(before)} → ", f" ({CHANGE.text(after / before - 1)})"
    return f"est. {old}{MILLISECONDS.text(after)} ms{more} on {sanitize(chip, 40)}"


def facts(edits: LayerEdits, effect: LiveEffect, session: Session) -> tuple[Fact, ...]:
    """The line on top: what is asked for, and what is known of its effect."""
    table, marked = session.layers.table, session.layers.marked
    if table is None:
        what = "quality" if session.layers.rows else "layers"
        return (Fact(f"no {what} yet: {no_layers(session).splitlines()[0]}"),)
    layers, ranges = edits.layers, edits.ranges
    parts = [Fact(f"{len(layers)} of {len(session.layers.rows)} layers changed")]
    if ranges:
        parts.append(Fact("1 range" if len(ranges) == 1 else f"{len(ranges)} ranges", rank=1))
    if marked:
        parts.append(Fact(f"{len(marked)} marked", rank=1))
    if effect.not_applied:
        parts.append(Fact(f"✗ {len(effect.not_applied)} not applied"))
    now = effect.now
    times = (None, table.time_ms) if now is None else (now.time_before_ms, now.time_ms)
    if time := time_text(*times, table.chip):
        parts.append(Fact(time, (time.partition(" on ")[0],)))
    if effect.state:
        parts.append(Fact(effect.state, (effect.state.partition(" in ")[0],), 1))
    else:
        built = f"outputs as built, simulated over {table.over.removeprefix('the ')}"
        parts.append(Fact(built, (built.replace("calibration ", ""), "outputs as built"), 2))
    if session.stale:
        keys = f"{key_text('app.build')} builds, {key_text('layers.export')} exports"
        parts.append(Fact(keys, rank=2))
    return tuple(parts)


def set_text(session: Session, view: str) -> str:
    """What the columns of a view are of, or which key fills them."""
    layers, chip = session.layers, sanitize(session.chip, 40)
    if not chip and view in ("Cost", "Compiled"):
        return with_keys("the target has no chip ({app.target} chooses one)")
    if view == "Quality":
        if layers.table is None:
            return ""
        lacks = [] if layers.of("error") else ["isolated errors and clipping"]
        lacks += [] if layers.of("proposed") else ["gains"]
        return with_keys(f"{{layers.run}} measures {' and '.join(lacks)}") if lacks else ""
    source, filled, empty = _SETS.get(view, ("", "", ""))
    rows = layers.of(source)
    label = rows[0].label if rows else ""
    board = sanitize(session.boards.chosen or "a board", 80)
    return with_keys(filled if rows else empty).format(chip=chip, label=label, board=board)


def no_layers(session: Session) -> str:
    """Why there are no layers, and which key makes them."""
    if session.container is not None:
        return "A container is built already; open its model to change its layers."
    if session.summary is not None and not session.summary.quantized:
        return "The build is not quantized: every layer is float already."
    if why := session.asked.get("layers"):
        return f"✗ {sanitize(why, 300)}"
    if session.summary is not None:
        return "Reading the layers of the build …"
    if session.jobs.building:
        return "The build is running. Its layers are shown here when it is done."
    return f"Not built yet.\n\n{key_text('app.build')} builds."


# Curves over the network: error and time along the layers, with the cursor of the table.

_SQNR = Series("", (), "accent", min)
_TIME = Series("", (), "accent", max, least=0.0)
CURVES: dict[str, dict[str, Series]] = {
    "SQNR": {
        "sqnr": replace(_SQNR, title="SQNR dB, cumulative (simulated)"),
        "isolated_sqnr": replace(_SQNR, title="SQNR dB, isolated (simulated)", style="good"),
    },
    "time": {
        "time_ms": replace(_TIME, title="ms (estimated)"),
        "microseconds": replace(_TIME, title="µs (of the board)", style="good"),
    },
}
"""Name -> column of `engine.wire.layer_tables.LAYERS` -> its band, in the order of the key."""


def network_series(
    name: str, rows: Sequence[LayerFigures], cursor: str
) -> tuple[list[Series], int | None, str]:
    """What a chart shows of the layers in the network's order, with that of the cursor marked.

    Args:
        name: of ``CURVES``.
        rows: the layers.
        cursor: id of a layer; empty for none.
    """
    marked = next((at for at, row in enumerate(rows) if row.id == cursor), None)
    series = []
    for key, band in CURVES[name].items():
        column = LAYERS.column(key)
        values = tuple(column.of(row) for row in rows)
        finite = [value for value in values if value is not None and value < math.inf]
        said = [band.title]
        if finite:
            ends = (column.format.show(end).strip() for end in (min(finite), max(finite)))
            said.append(" to ".join(ends))
        if marked is not None and values[marked] is not None:
            said.append(f"here {column.format.show(values[marked]).strip()}")
        if any(value is not None for value in values):
            series.append(replace(band, title=" · ".join(said), values=values))
    return series, marked, "nothing of this is known yet"
