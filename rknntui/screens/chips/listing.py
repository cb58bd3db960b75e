"""The lists of Chips: all chips, the layers of several side by side, what to change for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.build_tables import AGREEMENT, COMPILED
from engine.wire.cost_tables import ADVICE, CHIPS
from engine.wire.formats import MILLISECONDS, RATIO
from engine.wire.layer_tables import COST
from engine.wire.layers import LayerFigures, by_layer, layer_rows
from engine.wire.table import Column, Record, Table, since
from rknntui.keys.actions import with_keys
from rknntui.screens.chips import words
from rknntui.widgets.job_pane import WithJob
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar
from rknntui.widgets.wrap import told

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate
    from engine.wire.table import Meaning
    from rknntui.screens.chips.workspace import Chips
    from rknntui.widgets.strips import Line

_TABLE = Table(
    "chip-list",
    "A chip, what the model costs on it, what was compiled.",
    (
        *CHIPS.columns,
        *COMPILED.pick("state", "size", "toolkit").columns,
        COMPILED.column("total_cycles").but(key="compiled_cycles"),
        AGREEMENT.column("equal"),
    ),
)
_COLUMNS = (
    "mark target chip fps reaches fps_range@1 fps_change@1 time_ms@72 total_bytes@104 "
    "memory_change@128 npu_layers@140 cpu_layers refused_layers@1 dtype@124 basis@72 state@1 "
    "size@112 toolkit@148 compiled_cycles@120 equal@120 way then"
)
"""The estimate, then what was compiled; each hidden without a value."""
_AS_IS = _TABLE.pick(*_COLUMNS.split())
_WITH_GOAL = _TABLE.pick(
    *_COLUMNS.replace("@72", "@104").replace("change@1 ", "change@104 ").split()
)
"""What a chip needs has the room of time, basis and change, which the line on top has, too."""


class ChipsPane(WithJob):
    """A row for each chip; while a job compiles, its stages and log below."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable(_AS_IS, id="chip-table", what="chips")
        super().__init__(RecordView("Chips (estimated)", self.table), id=id)

    @property
    def chip(self) -> str:
        """The chip under the cursor; empty for none."""
        record = self.table.record
        return "" if record is None else str(record["chip"])

    def take(self, chips: Chips) -> None:
        """Show the chips, and the compilation that runs."""
        goal = chips.answers.goal
        self.view.set_title(f"Chips (estimated{f', goal {goal:g} FPS' if goal else ''})")
        self.table.declared = _AS_IS if goal is None else _WITH_GOAL
        now, before, states = chips.overview, chips.before, chips.targets.states
        self.table.set_records(
            [
                self._record(chips, name, now.of(name), before.of(name), states.get(name))
                for name in chips.targets.facts
            ],
            keep="chip",
        )
        self.show_job(chips.targets.job)

    @staticmethod
    def _record(
        chips: Chips,
        name: str,
        row: ChipEstimate | None,
        old: ChipEstimate | None,
        state: str | None,
    ) -> Record:
        compiled, facts = chips.session.compilations.get(name), chips.targets.facts[name]
        record: Record = {"chip": name, "basis": "…"} if row is None else CHIPS.record(row)
        was: Record = {} if old is None else CHIPS.record(old)
        made: Record = {} if compiled is None else COMPILED.record(compiled)
        outputs = () if compiled is None else compiled.outputs
        equal = (one.equal for one in outputs if one.max_steps is not None)
        ways = chips.answers.ways(name)
        misses = row is not None and row.reaches not in ("", "yes")
        waits = "…" if misses and chips.answers.asking else None  # not the same as none
        named = chips.targets.settings.toolkit
        return {
            **record,
            "refused_layers": record.get("refused_layers") or None,
            "mark": "●" if name in chips.targets.marked else " ",
            "target": "◆" if name == chips.session.chip else " ",
            "fps_change": since(record.get("fps"), was.get("fps")),
            "memory_change": since(record.get("total_bytes"), was.get("total_bytes")),
            "state": state,
            "size": made.get("size"),
            "toolkit": chips.toolkits.text_for(facts.generation, named),
            "compiled_cycles": made.get("total_cycles"),
            "equal": min(equal, default=None),  # in the vendor's simulator and in ours
            "way": ways[0].what if ways else "no tip saves time" if ways == () else waits,
            "then": ways[0].fps.value if ways else None,
        }

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """All that is known of the chip under the cursor."""
        return words.of_chip(chips, self.chip, width) if self.chip else []


# The layers of several chips.

_BAR = 8
_SIGNS = {"CPU": "!", "unknown": "?", "none": "✗"}


class ComparePane(RecordView):
    """A row for each layer of the build, with its time on each of the compared chips."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(_side_by_side(()), id="compared-chips", what="compared")
        super().__init__("Layers side by side (estimated)", table, id=id)

    @property
    def layer_id(self) -> str:
        """Id of the layer under the cursor."""
        record = self.table.record
        return "" if record is None else str(record["name"])

    def take(self, chips: Chips) -> None:
        """Show the chips beside each other, in the order of the first one's layers."""
        found = [row for name in chips.compared if (row := chips.answers.estimate(name))]
        self.table.declared = _side_by_side([row.chip for row in found])
        known = [_by_name(chip) for chip in found]
        longest = max((row.milliseconds or 0 for rows in known for row in rows.values()), default=0)
        records: list[Record] = []
        for number, name in enumerate(dict.fromkeys(name for rows in known for name in rows), 1):
            steps = [rows.get(name) for rows in known]
            times = [None if step is None else step.milliseconds for step in steps]
            first, timed = next(filter(None, steps)), [ms for ms in times if ms]
            ratio = max(timed) / min(timed) if len(timed) > 1 else None
            record = {"number": number, "name": name, "op": first.first("op"), "ratio": ratio}
            for at, (step, ms) in enumerate(zip(steps, times, strict=True)):
                record[f"ms{at}"] = ms
                record[f"bar{at}"] = bar(ms / longest, _BAR) if ms else ""
                record[f"on{at}"] = step and _SIGNS.get(step.placement or "", " ")
            records.append(record)
        self.table.set_records(records, keep="name")

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """How other chips come beside it, and how sure the figures are."""
        text = with_keys("{chips.mark} in Chips marks other chips, which stand beside it here.")
        alone = told(text, width, "") if len(chips.compared) == 1 else []
        return [*alone, *words.chip_lines(chips.estimate, width)]


def _side_by_side(chips: Sequence[str]) -> Table:
    """Position, layer, and for each chip its time, a bar and a sign where it is not on the NPU."""

    def sign_style(sign: str | None) -> Meaning:
        return "bad" if sign == "✗" else "warn"

    columns = [*COST.pick("number", "name", "op@100").columns]
    wide = COST.column("bar").but(width=_BAR, from_width=30 + 24 * len(chips))
    for at, chip in enumerate(chips):
        columns += [
            Column(f"ms{at}", f"{chip} ms", MILLISECONDS, value=None),
            Column(f"on{at}", name="placement", width=1, style=sign_style, value=None),
            replace(wide, key=f"bar{at}"),
        ]
    ratio = Column("ratio", format=RATIO, value=None, from_width=72)
    title = "A layer, and its time on each chip (estimated)."
    return Table("compared-chips", title, (*columns, ratio))


def _by_name(estimate: ChipEstimate) -> dict[str, LayerFigures]:
    """Layer id -> all its rows as one; a row without layer by its printed name."""
    rows = (replace(row, id=row.name) for row in layer_rows(estimate))
    return {row.id: row for row in by_layer(rows)}


# What to change for one chip: layers that are not on its NPU, and ways to make the model faster.


class AdvicePane(RecordView):
    """A row for each layer that the NPU does not run, then for each way, the largest gain first."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(ADVICE, id="advice-table", what="advice")
        super().__init__("Advice (gains estimated)", table, id=id)

    @property
    def layer_id(self) -> str:
        """The first layer that it is about; empty for none."""
        record = self.table.record
        return str(record["layers"][0]) if record is not None and record["layers"] else ""

    def take(self, chips: Chips) -> None:
        """Show the ways of the chip that is looked at, and its layers."""
        found, estimate = chips.answers.advice(chips.chip), chips.estimate
        self.set_title(f"Advice{f' for {estimate.chip}' if estimate else ''} (gains estimated)")
        records = []
        for layer in estimate.layers if estimate is not None else ():
            if layer.reason and layer.target != "NPU":
                finding = layer.finding
                where = finding.what.partition(":")[0]
                more = {"gain_ms": None, "gain": None, "source": "", "why": layer.reason}
                title = f"{_SIGNS[layer.target]} {where}: {layer.name or layer.id}"
                more |= {"title": title, "remedy": layer.remedy}
                records.append(self._record(layer, layer.layers or (layer.id,), **more))
        whole = found.time_ms if found is not None else None
        for row in found.advice if found is not None else ():
            gain = row.gain_ms / whole if row.gain_ms is not None and whole else None
            records.append(self._record(row, row.layers, gain=gain, why=row.why, remedy=""))
        self.table.set_records(records, keep="title")

    @staticmethod
    def _record(row: object, layers: Sequence[str], **more: object) -> Record:
        return ADVICE.record(row, layers=layers, aliases=layers, count=len(layers), **more)

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """The reason of what is under the cursor, what to do, and what limits the chip."""
        return words.advice_lines(self.table.record, chips.estimate, width)
