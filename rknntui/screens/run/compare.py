"""Golden, simulator and board side by side, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sqnr_rank
from rknntui.screens.accuracy.text import cosine_column, decibel_column
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import Field, Record, RecordTable, name_text, number
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.compare import ComparedLayer, Comparison, Difference

__all__ = ["ComparePane"]


class ComparePane(RecordView):
    """The layers in the order of the graph; the first that diverges has the cursor.

    Attributes:
        result: of the comparison that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(compare_fields(), id="compared", what="compared")
        super().__init__("Compared layers", table, id=id)
        self.result: Comparison | None = None

    def clear(self) -> None:
        """Forget the comparison: it is of another model or board."""
        self.result = None
        self.set_title("Compared layers")
        self.table.set_records([])

    def take(self, found: Comparison) -> None:
        """Show a comparison."""
        self.result = found
        self.set_title(f"Compared layers (board: {found.label})")
        records = [_record(i, row, found.first) for i, row in enumerate(found.layers)]
        self.table.set_records(records, keep="name")
        if found.first:
            self.table.select_record("name", found.first)

    @property
    def layer_id(self) -> str:
        """Id of the layer under the cursor; empty where there is none."""
        record = self.table.record
        return "" if record is None else str(record["name"])


def compare_fields() -> tuple[Field, ...]:
    """Position, sign, layer, operator; SQNR and cosine of each pair of sides; the layer alone."""

    def sign_style(sign: str) -> str:
        return "bad" if sign == "✗" else "warn"

    return (
        Field("number", Column("#", 4, right=True)),
        Field("sign", Column("", 1, style=sign_style, name="sign")),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 8, text=name_text), 90),
        Field("dtype", Column("type", 6, text=name_text), 100),
        Field("simulator_db", decibel_column("sim. dB", 8)),
        Field("board_db", decibel_column("board dB", 8)),
        Field("between_db", decibel_column("b-s dB", 8)),
        Field("rounding_db", decibel_column("round. dB", 9), 100),
        Field("own_db", decibel_column("alone dB", 8), 1),
        Field("own_steps", Column("alone steps", 11, right=True, text=number(3)), 110),
        Field("moved", Column("moved %", 7, right=True, text=number(3)), 1),
        Field("simulator_cos", cosine_column("sim. cos", 9), 150),
        Field("board_cos", cosine_column("board cos", 9), 150),
        Field("between_cos", cosine_column("b-s cos", 9), 120),
        Field("steps", Column("steps", 6, right=True, text=number(3)), 60),
        Field("between_max", Column("b-s max", 9, right=True, text=number(3)), 160),
        Field("tensor", Column("tensor", 12, grow=1, text=name_text), 170, "name"),
    )


def _decibels(difference: Difference) -> float | None:
    return sqnr_rank(difference.sqnr) if difference.cosine is not None else None


def _record(index: int, row: ComparedLayer, first: str) -> Record:
    sign = "✗" if row.id == first else "!" if row.diverges else ""
    return {
        "number": index + 1,
        "sign": sign,
        "name": row.id,
        "aliases": (row.tensor,),
        "tensor": row.tensor,
        "op": row.op,
        "dtype": row.dtype,
        "simulator_db": _decibels(row.simulator),
        "board_db": _decibels(row.board),
        "between_db": _decibels(row.between),
        "simulator_cos": row.simulator.cosine,
        "board_cos": row.board.cosine,
        "between_cos": row.between.cosine,
        "between_max": row.between.maximum,
        "steps": row.steps,
        "rounding_db": None if row.rounding is None else sqnr_rank(row.rounding.rounding_db),
        "own_db": _decibels(row.own) if row.own is not None else None,
        "own_steps": row.own_steps,
        "moved": None if row.moved is None else 100 * row.moved,
    }
