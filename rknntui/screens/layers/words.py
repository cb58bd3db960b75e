"""What Hybrid says, its columns, what can be done there, and what layers cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine import gain_text, sanitize, sqnr_rank, sqnr_text
from engine.wire.build import ACCURACY, Analysis
from engine.wire.formats import ADDED_BYTES, ADDED_MS, FIGURE, MILLISECONDS
from engine.wire.layers import LayerFigures, by_layer, layer_rows, layers_of
from rknntui.keys.actions import key_text
from rknntui.screens.accuracy.words import decibel_text
from rknntui.screens.layers.panes import base_dtype
from rknntui.widgets.one_line import Fact
from rknntui.widgets.records import name_text
from rknntui.widgets.strips import cells, shorten
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from engine.wire.hybrid import EffectOutput, LayerRow, OutputFigure, Proposal, Table
    from rknntui.screens.layers.panes import LayerEdits, LiveEffect
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session
    from rknntui.widgets.layer_table import LayerTable
    from rknntui.widgets.strips import Line

_SHOWN_OUTPUTS = 4
_LEAST_GAIN = 0.005  # dB: less is shown as none


def edit_values(
    row: LayerRow,
    *,
    marked: bool,
    layers: Mapping[str, str],
    ranges: Mapping[str, Sequence[float]],
    built: Mapping[str, str],
    got: Mapping[str, str],
    not_applied: Mapping[str, str],
) -> dict[str, Any]:
    """What is asked of a layer and what became of it, as values of its record.

    Args:
        row: of ``hybrid.table``, of the last build.
        marked: whether the next action takes it too.
        layers: layer -> dtype as the recipe asks now.
        ranges: layer -> range as the recipe asks now.
        built: layer -> dtype as the build was asked.
        got: layer -> dtype that the last effect gave.
        not_applied: layer -> why it cannot have what is asked.
    """
    name = row.id
    asked = layers.get(name)
    low, high = ranges.get(name, (row.minimum, row.maximum))
    return {
        "mark": "*" if marked else " ",
        "wanted": f"● {asked}" if asked else f"  {base_dtype(row)}",
        "built": _built(row, asked, built.get(name), got.get(name)),
        "minimum": low,
        "maximum": high,
        "built_range": (row.minimum, row.maximum) if name in ranges else None,
        "unmet": not_applied.get(name, ""),
    }


def show_layers(
    table: LayerTable,
    edits: LayerEdits,
    effect: LiveEffect,
    *known: Iterable[LayerFigures],
) -> None:
    """Show the rows of the last build, as the recipe asks for them now.

    Args:
        table: of the layers.
        edits: has the rows.
        effect: of the edits.
        known: what else is known of them: errors, a proposal.
    """
    layers, ranges, built, got = edits.layers, edits.ranges, edits.built, effect.got

    def more(row: LayerFigures) -> dict[str, Any]:
        return (
            {}
            if row.choice is None
            else edit_values(
                row.choice,
                marked=row.id in edits.marked,
                layers=layers,
                ranges=ranges,
                built=built,
                got=got,
                not_applied=effect.not_applied,
            )
        )

    rows = (row for row in by_layer(layers_of("choice", edits.rows), *known) if row.choice)
    table.show_layers(rows, more=more, keep="id")


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
    effect: Mapping[str, EffectOutput],
    width: int,
) -> list[Line]:
    """A line an output: its SQNR in the build, with the changes, and the gain.

    Args:
        outputs: of ``hybrid.table``.
        effect: of the last effect, by name; empty where there is none.
        width: cells.
    """
    lines: list[Line] = []
    room = max(8, min(40, max((len(o.name) for o in outputs), default=8)))
    for output in outputs[:_SHOWN_OUTPUTS]:
        name = sanitize(output.name, 200)
        if len(name) > room:
            name = f"…{name[-(room - 1) :]}"
        line: Line = [(f"{name:<{room}} ", "")]
        seen = effect.get(output.name)
        before = output.sqnr_db if seen is None else seen.before_db
        line.append((f"{decibel_text(before, unit=True):>10}", ""))
        if seen is not None:
            after = seen.sqnr_db
            gain = _gain(before, after)
            gain = 0.0 if abs(gain) < _LEAST_GAIN else gain
            style = "good" if gain > 0 else "bad" if gain < 0 else "dim"
            line += [
                (" → ", "dim"),
                (decibel_text(after, unit=True), "head"),
                (f"  {gain_text(gain, unit=False)}", style),
            ]
            if seen.rounding is not None and seen.rounding_before is not None:
                moved = (seen.rounding_before.rounding_db, seen.rounding.rounding_db)
                old, new = (sqnr_text(value, unit=False, digits=1) for value in moved)
                line.append((f"  other roundings {old} → {new} dB", "dim"))
        lines.append(line)
    if len(outputs) > _SHOWN_OUTPUTS:
        lines[-1] = [*lines[-1], (f"   and {len(outputs) - _SHOWN_OUTPUTS} more outputs", "dim")]
    return [line if cells(line) <= width else line[:-1] for line in lines]


def _gain(before: float | None, after: float | None) -> float:
    """The gain in dB; None stands for no error at all."""
    return 0.0 if before == after else sqnr_rank(after) - sqnr_rank(before)


def row_lines(table: LayerTable, width: int) -> list[Line]:
    """What a narrow table has no column for, of the layer under the cursor."""
    row, record = table.figures, table.record
    if row is None or record is None or row.choice is None:
        return []
    choice = row.choice
    lines: list[Line] = []
    source = record["source"]
    source = f"  from {name_text(source)}" if source and source != row.id else ""
    room = max(20, width - len(source)) if len(source) < width // 2 else width // 2
    head = shorten(f"{name_text(choice.op)} {name_text(choice.tensor)}", room)
    lines.append([(f"{head}{shorten(source, width - len(head))}", "dim")])
    parts = [f"can be {', '.join(choice.choices)}"]
    if choice.observed_minimum is not None and choice.observed_maximum is not None:
        seen = f"{FIGURE.text(choice.observed_minimum)} to {FIGURE.text(choice.observed_maximum)}"
        parts.append(f"observed range {seen}")
    if record["built_range"] is not None and None not in record["built_range"]:
        low, high = record["built_range"]
        parts.append(f"● range requested; the build has {FIGURE.text(low)} to {FIGURE.text(high)}")
    if choice.time_ms is not None:  # first: a small screen shows one line of these
        parts.insert(0, _cost_text(choice, choice.time_ms))
    if record["isolated_sqnr"] is not None:
        parts.append(f"isolated {decibel_text(record['isolated_sqnr'], unit=True)}")
    if record["unmet"]:
        lines.append([(f"✗ not applied: {name_text(record['unmet'])}", "bad")])
    return lines + [[(row, "")] for row in wrap(" · ".join(parts), max(20, width))]


def _cost_text(row: LayerRow, time: float) -> str:
    """What a layer costs on the chip, and what promoting it adds."""
    text = f"est. {MILLISECONDS.text(time)} ms on {row.target}"
    if row.promote_ms is None or row.promote_bytes is None:
        return text
    more = f"{ADDED_MS.text(row.promote_ms)} ms, {ADDED_BYTES.text(row.promote_bytes)}"
    return f"{text}, promoted {more}"


def time_text(before: float | None, after: float | None, chip: str) -> str:
    """``est. 4.5 → 4.6 ms on rk3588``; empty without an estimate."""
    if after is None or not chip:
        return ""
    old = f"{MILLISECONDS.text(before)} → " if before is not None and before != after else ""
    return f"est. {old}{MILLISECONDS.text(after)} ms on {sanitize(chip, 40)}"


def facts(
    edits: LayerEdits, effect: LiveEffect, over: str, own_over: str, time: str = ""
) -> tuple[Fact, ...]:
    """The line on top: what is asked for, and what is known of its effect.

    Args:
        edits: of the layers.
        effect: of the edits on the outputs.
        over: which samples the figures of the build are over.
        own_over: and those of the layers alone; empty without.
        time: of an inference, of :func:`time_text`.
    """
    if not edits.rows:
        return (Fact("no layers yet"),)
    ranges = edits.ranges
    parts = [Fact(f"{len(edits.layers)} of {len(edits.rows)} layers changed")]
    if ranges:
        parts.append(Fact("1 range" if len(ranges) == 1 else f"{len(ranges)} ranges", rank=1))
    if edits.marked:
        parts.append(Fact(f"{len(edits.marked)} marked", rank=1))
    if effect.not_applied:
        parts.append(Fact(f"✗ {len(effect.not_applied)} not applied"))
    if effect.state:
        parts.append(Fact(effect.state, (effect.state.partition(" in ")[0],)))
    else:
        built = f"outputs as built, simulated over {over}"
        parts.append(Fact(built, (built.replace("calibration ", ""), "outputs as built"), 2))
    if time:
        parts.append(Fact(time, (time.partition(" on ")[0],), 1))
    if own_over:
        own = f"isol. dB over {own_over}"
        parts.append(Fact(own, (own.replace("calibration ", ""),), 3))
    if effect.state and not effect.state.startswith(("▶", "✗")):
        parts.append(Fact(f"{key_text('app.build')} builds it", rank=2))
    return tuple(parts)


def shown_build(session: Session) -> tuple[Values | None, str]:
    """The recipe of the build whose layers can be edited, or None and why there are none."""
    if session.container is not None:
        return None, "A container is built already; open its model to change its layers."
    if session.summary is not None and not session.summary.quantized:
        return None, "The build is not quantized: every layer is float already."
    if session.built is not None and session.summary is not None:
        return session.built, ""
    if session.building:
        return None, "The build is running. Its layers are shown here when it is done."
    builds, shows = key_text("app.build"), key_text("go.layers")
    return None, f"Not built yet.\n\n{builds} builds; then {shows} shows its layers here."


# What the layers of Hybrid cost on the recipe's chip, and the last proposal (estimated).


class BuildCost:
    """The time of the shown build, and the last proposal.

    Attributes:
        proposed: its layers, with gain and cost.
    """

    def __init__(self) -> None:
        self.proposed: tuple[LayerFigures, ...] = ()
        self._chip = ""
        self._time: float | None = None

    def clear(self) -> None:
        """Another model has other layers."""
        self.proposed, self._chip, self._time = (), "", None

    def take_table(self, table: Table) -> None:
        """Of another build."""
        self._chip, self._time = table.chip, table.time_ms

    def take_proposal(self, found: Proposal) -> str:
        """Keep its ranking; what it says of the time, as a sentence."""
        self.proposed = layer_rows(found)
        text = time_text(found.time_before_ms, found.time_after_ms, found.chip)
        return f"{text}. " if text else ""

    def words(self, effect: LiveEffect) -> str:
        """The time of an inference, with the choice where its effect is known."""
        before, after = effect.times or (None, self._time)
        return time_text(before, after, self._chip)


# The error of each layer alone, which Accuracy measures and Hybrid ranks by.


class OwnErrors:
    """Knows the errors of one build's layers.

    Attributes:
        rows: of the layers; none before an analysis of this build.
        over: which samples they are over; empty where it was not written down.
    """

    def __init__(self) -> None:
        self.rows: tuple[LayerFigures, ...] = ()
        self.over = ""

    def find(self, session: Session, built: Values | None) -> None:
        """Take those of the last ranking, where it is of this build; else there are none."""
        job, result = session.last_of(ACCURACY) or (None, None)
        self.rows, self.over = (), ""
        if result is not None:
            self.take(job, result, built)

    def take(self, job: JobView | None, result: Analysis, built: Values | None) -> bool:
        """Take what a job ``accuracy`` found; False where it is of another build."""
        if job is None or job.params.get("recipe") != built:
            return False
        self.rows = layer_rows(result)
        self.over = result.over.removeprefix("the ")
        return True
