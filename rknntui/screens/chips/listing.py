"""The lists of Chips: all chips with what is estimated and compiled, what to change for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.build_tables import AGREEMENT, COMPILED
from engine.wire.compile import Compiled
from engine.wire.cost import COST_CALIBRATE, CalibrateParams
from engine.wire.cost_tables import ADVICE, CHIPS
from engine.wire.formats import FACTOR, MILLISECONDS
from engine.wire.table import Column, Record, Table, since
from rknntui.widgets.job_pane import WithJob
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from engine.wire.cost import AdviceAnswer, Calibrated, ChipEstimate, LayerCost
    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.chips.panes import Shown


def _equal(compiled: Compiled) -> float | None:
    """The least share of equal values of an output in the vendor's simulator and in ours."""
    return min((o.equal for o in compiled.outputs if o.max_steps is not None), default=None)


def _columns() -> tuple[Column, ...]:
    """What stands in a row: the estimate, then what was compiled; each hidden without a value."""
    made = {"size": 112, "toolkit": 148}
    column = CHIPS.column
    return (
        column("mark"),
        column("target"),
        column("chip"),
        column("fps"),
        column("reaches"),
        column("fps_range").but(from_width=1),
        column("fps_change"),
        column("time_ms").but(from_width=72),
        column("total_bytes").but(from_width=104),
        column("memory_change").but(from_width=128),
        column("npu_layers").but(from_width=140),
        column("cpu_layers"),
        column("refused_layers").but(from_width=1),
        column("dtype").but(from_width=124),
        column("basis").but(from_width=72),
        COMPILED.column("state").but(from_width=1),
        *(COMPILED.column(key).but(from_width=width) for key, width in made.items()),
        COMPILED.column("total_cycles").but(key="compiled_cycles", from_width=120),
        AGREEMENT.column("equal").but(from_width=120),
        column("way"),
        column("then"),
    )


_TABLE = Table("chip-list", "A chip, what the model costs on it, what was compiled.", _columns())
_WITH_GOAL = replace(
    _TABLE,
    columns=tuple(
        column.but(from_width=104) if column.key in ("time_ms", "basis") else column
        for column in _TABLE.columns
    ),
)
"""What a chip needs has the room of time and basis."""


class ChipsPane(WithJob):
    """A row for each chip; while a job compiles, its stages and log below."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable(_TABLE, id="chip-table", what="chips")
        super().__init__(RecordView("Chips (estimated)", self.table), id=id)

    def take(self, shown: Shown) -> None:
        """Show chips."""
        found, before = shown.found, shown.before
        goal = f", goal {found.fps_asked:g} FPS" if found is not None and found.fps_asked else ""
        self.view.set_title(f"Chips (estimated{goal})")
        self.table.declared = _WITH_GOAL if goal else _TABLE
        rows = {row.chip: row for row in found.chips} if found is not None else {}
        old = {row.chip: row for row in before.chips} if before is not None else {}
        names = list(rows) or list(shown.targets.facts)
        states = shown.targets.states
        self.table.set_records(
            [self._record(shown, name, rows.get(name), old.get(name), states) for name in names],
            keep="chip",
        )

    @staticmethod
    def _record(
        shown: Shown,
        name: str,
        row: ChipEstimate | None,
        old: ChipEstimate | None,
        states: Mapping[str, str],
    ) -> Record:
        compiled, facts = shown.compiled.get(name), shown.targets.facts.get(name)
        record: Record = {"chip": name} if row is None else CHIPS.record(row)
        ways, named = shown.ways.get(name), shown.targets.settings.toolkit
        made = {} if compiled is None else COMPILED.record(compiled)
        misses = row is not None and row.reaches not in ("", "yes")
        waits = "…" if misses and shown.answers.asking else None  # not the same as none
        return {
            **record,
            "refused_layers": record.get("refused_layers") or None,
            "mark": "●" if name in shown.targets.marked else " ",
            "target": "◆" if name == shown.target else " ",
            "fps_change": since(_fps(row), _fps(old)),
            "memory_change": since(_memory(row), _memory(old)),
            "state": states.get(name),
            "size": made.get("size"),
            "toolkit": shown.toolkits.text_for(facts.generation, named) if facts else None,
            "compiled_cycles": made.get("total_cycles"),
            "equal": None if compiled is None else _equal(compiled),
            "way": ways[0].what if ways else "no tip saves time" if ways == [] else waits,
            "then": ways[0].fps if ways else None,
        }

    @property
    def chip(self) -> str:
        """The chip under the cursor; empty for none."""
        record = self.table.record
        return "" if record is None else str(record["chip"])


def _fps(chip: ChipEstimate | None) -> float | None:
    return None if chip is None or chip.fps is None else chip.fps.value


def _memory(chip: ChipEstimate | None) -> int | None:
    return None if chip is None or chip.memory is None else chip.memory.total


# What to change for one chip: layers that are not on its NPU, and ways to make the model faster.


class AdvicePane(RecordView):
    """A row for each layer that the NPU does not run, then for each way, the largest gain first."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(ADVICE, id="advice-table", what="advice")
        super().__init__("Advice (gains estimated)", table, id=id)

    def take(self, found: AdviceAnswer | None, estimate: ChipEstimate | None) -> None:
        """Show the ways of a chip, and its layers."""
        of = f" for {estimate.chip}" if estimate is not None else ""
        self.set_title(f"Advice{of} (gains estimated)")
        layers = () if estimate is None else estimate.layers
        records = [_off_npu(row) for row in layers if row.reason and row.target != "NPU"]
        whole = found.time_ms if found is not None else None
        for row in found.advice if found is not None else ():
            gain = row.gain_ms / whole if row.gain_ms is not None and whole else None
            more = {"why": row.why, "layers": row.layers, "aliases": row.layers, "remedy": ""}
            records.append(ADVICE.record(row, gain=gain, **more))
        self.table.set_records(records, keep="title")

    @property
    def layer_id(self) -> str:
        """The first layer that it is about; empty for none."""
        record = self.table.record
        return str(record["layers"][0]) if record is not None and record["layers"] else ""


_WHERE = {"none": "✗ refused", "unknown": "? not known where"}


def _off_npu(row: LayerCost) -> Record:
    """A layer that is not on the NPU, as what is to be changed."""
    layers = row.layers or (row.id,)
    return {
        "gain_ms": None,
        "gain": None,
        "title": f"{_WHERE.get(row.target, f'! on the {row.target}')}: {row.name or row.id}",
        "count": len(layers),
        "source": "",
        "why": row.reason,
        "remedy": row.remedy,
        "layers": layers,
        "aliases": layers,
    }


def calibrate(workspace: Workspace, model: dict[str, Any], then: Callable[[], None]) -> None:
    """Correct the estimates by the newest measured run of the open model, and say by how much.

    Args:
        workspace: that asks.
        model: as a request has it.
        then: called when estimates are others.
    """

    def done(found: Calibrated) -> None:
        measured, estimated = map(MILLISECONDS.text, (found.measured_ms, found.estimated_ms))
        text = (
            f"{found.chip}: {measured} ms measured, {estimated} ms estimated. Its estimates are "
            f"multiplied by {FACTOR.text(found.factor)} from now on."
        )
        workspace.notify(text, title="Calibrated", markup=False)
        then()

    workspace.ask(COST_CALIBRATE, CalibrateParams(**model), done)
