"""The views of what was compiled: the chips, the layers of one, and the second opinion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.wire.build_tables import AGREEMENT
from engine.wire.build_tables import COMPILED as COMPILED_CHIPS
from engine.wire.compile import Compiled
from engine.wire.formats import ABSENT
from engine.wire.layer_tables import COMPILED
from engine.wire.layers import LayerFigures, layer_rows
from rknntui.screens.deploy.jobs import WithJob
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from rknntui.screens.deploy.targets import Targets
    from rknntui.screens.deploy.toolkits import KnownToolkits


class CompilePane(WithJob):
    """A row for each chip; while a job compiles, its stages and log below."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable(COMPILED_CHIPS, id="compile-chips", what="compiled")
        super().__init__(RecordView("Chips", self.table), id=id)

    def take(self, targets: Targets, toolkits: KnownToolkits) -> None:
        """Show the chips, and what would compile for each."""
        states, named = targets.states, targets.settings.toolkit
        records = [
            COMPILED_CHIPS.record(
                targets.found.get(name) or Compiled(chip=name),
                mark="●" if name in targets.marked else " ",
                toolkit=toolkits.text_for(generation, named),
                state=states.get(name) or _ended(targets.found.get(name)),
            )
            for name, generation in targets.generations.items()
        ]
        self.table.set_records(records, keep="chip")

    @property
    def chip(self) -> str:
        """The chip under the cursor; empty for none."""
        record = self.table.record
        return "" if record is None else str(record["chip"])


def _ended(found: Compiled | None) -> str:
    if found is None:
        return ABSENT
    if found.problem:
        return "✗ failed"
    return "✓ cached" if found.cached else "✓ compiled"


class LayersPane(LayerView):
    """The layers of a compiled model as the compiler printed them, beside our estimate."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COMPILED, id="compiled-layers", what="compiled-layers")
        super().__init__("Layers (printed and estimated)", table, id=id)

    def take(self, found: Compiled | None) -> None:
        """Show the layers of a chip."""
        where = f" of {found.chip}" if found is not None else ""
        self.set_title(f"Layers{where} (printed by the compiler, estimated by us)")
        rows = layer_rows(found) if found is not None else ()
        often = Counter(row.id for row in rows)

        def name(row: LayerFigures) -> dict[str, str]:
            """Steps of one layer are told apart by the compiler's names."""
            return {"name": row.name if often[row.id] == 1 else row.printed or row.name}

        self.layer_table.show_layers(sorted(rows, key=disagreement_rank), more=name)


class AgreementPane(RecordView):
    """The outputs of the vendor's simulator beside those of ours."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(AGREEMENT, id="agreement", what="agreement")
        super().__init__("Second opinion of the vendor's simulator (simulated)", table, id=id)

    def take(self, found: Sequence[Compiled]) -> None:
        """Show the outputs of chips."""
        self.table.set_records(
            [AGREEMENT.record(row, chip=one.chip) for one in found for row in one.outputs]
        )


def disagreement_rank(row: LayerFigures) -> tuple[int, float, int]:
    """The order of layers: another place, then the cycles that differ most, then as compiled."""
    values = COMPILED.record(row)
    apart = (values["npu_difference"], values["difference"])
    most = max((abs(value) for value in apart if value is not None), default=0.0)
    rank = {"✗": 0, "≠": 1}.get(values["sign"], 2)
    return rank, -most if rank < 2 else 0.0, row.number
