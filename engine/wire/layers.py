"""What is known of a layer: one row over ``layer.id``, filled by whoever knows.

A figure is a field of the part that has it (:class:`engine.wire.build.LayerAccuracy`,
:class:`engine.wire.cost.LayerCost`, ...), with its column. Here the parts of a layer stand in one
row; :mod:`engine.wire.layer_tables` has the columns and the views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from engine.build import BuildSummary, LayerCoverage
from engine.wire.accuracy import RoundedLayer
from engine.wire.build import Analysis, LayerAccuracy
from engine.wire.compare import ComparedLayer, Comparison
from engine.wire.compile import Compiled, CompiledLayer
from engine.wire.cost import ChipCheck, ChipEstimate, LayerCost
from engine.wire.devices import LayerTime, ModelOnBoard
from engine.wire.hybrid import LayerRow, Proposal, Ranked
from engine.wire.hybrid import Table as HybridTable
from engine.wire.record import record
from engine.wire.table import as_one

ENDS = ("InputOperator", "OutputOperator")
"""Steps of the compiler that hand the model its input and output: they are always on the CPU."""


@record(kw_only=True)
class LayerFigures:
    """Everything that is known of one layer of a build; what is absent is None.

    Attributes:
        id: ``layer.id``; empty of a step that is no layer of the build.
        number: its place in the table that it is of, from 1.
        kernel: how it runs in the simulator.
        error, rounding: simulated: its error, and how far other roundings move it.
        choice, proposed: the dtypes that it may have, and what a proposal says of it.
        estimated: where it runs on a chip, its cycles, bytes and time, estimated.
        compiled: as the vendor's compiler printed it.
        measured: as a board's runtime timed it.
        label: of ``measured``: ``measured``, or ``emulated`` where the board is.
        compared: float, simulator and board side by side.
    """

    id: str
    number: int = 0
    kernel: LayerCoverage | None = None
    error: LayerAccuracy | None = None
    rounding: RoundedLayer | None = None
    choice: LayerRow | None = None
    proposed: Ranked | None = None
    estimated: LayerCost | None = None
    compiled: CompiledLayer | None = None
    measured: LayerTime | None = None
    label: str = ""
    compared: ComparedLayer | None = None

    def first(self, attribute: str) -> Any:
        """The first part that has a value for it: parts of the graph before those of a chip."""
        parts = (self.error, self.choice, self.compared, self.proposed, self.kernel)
        printed = (self.compiled, self.estimated, self.measured)
        values = (getattr(part, attribute, None) for part in (*parts, *printed))
        return next((value for value in values if value), None)

    @property
    def placement(self) -> str | None:
        """Where it runs: as measured, else as the compiler printed it, else as estimated."""
        parts = (self.measured, self.compiled, self.estimated, self.choice)
        return next((part.target for part in parts if part is not None and part.target), None)

    @property
    def measured_ms(self) -> float | None:
        """Its time on a board; None where the board does not tell it."""
        time = None if self.measured is None else self.measured.microseconds
        return None if time is None else time / 1000

    @property
    def milliseconds(self) -> float | None:
        """Its time: measured, else estimated."""
        if self.measured_ms is not None:
            return self.measured_ms
        parts = (part for part in (self.estimated, self.choice) if part is not None)
        return next((part.time_ms for part in parts if part.time_ms is not None), None)

    @property
    def time_label(self) -> str:
        """What that time is."""
        return "estimated" if self.measured_ms is None else self.label

    @property
    def printed(self) -> str | None:
        """What compiler and runtime call it: ``Conv:/stem/conv``."""
        parts = (self.measured, self.compiled, self.estimated)
        return next((part.name for part in parts if part is not None and part.name), None)

    @property
    def name(self) -> str:
        """What tables call it: its id, else what the compiler calls it."""
        number = f"#{self.measured.number}" if self.measured is not None else ""
        return self.id or self.printed or number

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name that finds it."""
        own = (*(self.first("aliases") or ()), *(self.first("layers") or ()))
        further = () if self.measured is None else self.measured.also
        names = (self.id, self.printed, self.first("tensor"), *own, *further)
        return tuple(dict.fromkeys(name for name in names if name))

    def __or__(self, other: LayerFigures) -> LayerFigures:
        """This row with the parts that only the other one has."""
        names = (field.name for field in fields(self) if not getattr(self, field.name))
        return replace(self, **{name: getattr(other, name) for name in names})


def layers_of(part: str, rows: Iterable[Any], **more: Any) -> tuple[LayerFigures, ...]:
    """A row for each value of a part; of a runtime's table with the numbers that stand there."""
    rows = tuple(rows)
    kept = any(getattr(row, "number", 0) for row in rows)  # they begin at 0
    return tuple(
        LayerFigures(
            id=row.layer if isinstance(row, LayerCoverage) else row.id or "",
            number=getattr(row, "number", at) if kept else at,
            **{part: row},
            **more,
        )
        for at, row in enumerate(rows, 1)
    )


def _analysed(answer: Analysis) -> tuple[LayerFigures, ...]:
    """Rows of layers and inputs; tensors inside a layer are none."""
    moved = () if answer.rounding is None else answer.rounding.layers
    rounded = {row.id: row for row in moved}
    rows = layers_of("error", (row for row in answer.layers if not row.inner))
    return tuple(replace(row, rounding=rounded.get(row.id)) for row in rows)


_READERS: tuple[tuple[type, Callable[[Any], tuple[LayerFigures, ...]]], ...] = (
    (ChipEstimate, lambda answer: layers_of("estimated", answer.layers)),
    (ChipCheck, lambda answer: layers_of("estimated", answer.rows)),
    (Compiled, lambda answer: layers_of("compiled", answer.layers)),
    (ModelOnBoard, lambda answer: layers_of("measured", answer.layers, label=answer.label)),
    (Comparison, lambda answer: layers_of("compared", answer.layers)),
    (HybridTable, lambda answer: layers_of("choice", answer.rows)),
    (Proposal, lambda answer: layers_of("proposed", answer.gains or answer.ranking)),
    (BuildSummary, lambda answer: layers_of("kernel", answer.layers)),
    (Analysis, _analysed),
)


def layer_rows(answer: Any) -> tuple[LayerFigures, ...]:
    """The layers of an answer in its order, a row for each of its own.

    Compiler and runtime make several steps of one layer: these have the same id.

    Raises:
        TypeError: an answer that has no layers.
    """
    for kind, read in _READERS:
        if isinstance(answer, kind):
            return read(answer)
    raise TypeError(f"{type(answer).__name__} has no layers")


def by_layer(*tables: Iterable[LayerFigures]) -> tuple[LayerFigures, ...]:
    """One row for each layer with what all tables know of it.

    Order and numbers are those of the first table; layers that it has not come behind. Several
    steps of one layer become one as the fields of their figures say. Where two tables have the same
    part, the first counts. Steps that are no layer of the build are left out.
    """
    rows: dict[str, LayerFigures] = {}
    for table in tables:
        steps: dict[str, list[LayerFigures]] = {}
        for row in table:
            if row.id:
                steps.setdefault(row.id, []).append(row)
        for name, own in steps.items():
            row = _one_layer(own)
            rows[name] = rows[name] | row if name in rows else row
    return tuple(replace(row, number=at) for at, row in enumerate(rows.values(), 1))


def _one_layer(rows: Sequence[LayerFigures]) -> LayerFigures:
    """Several steps of a layer as one: its place is that off the NPU, where a step is."""
    if len(rows) == 1:
        return rows[0]
    # an input has a row as it is given, and one as it is quantized
    parts: dict[str, Any] = {"error": next((r.error for r in reversed(rows) if r.error), None)}
    for name in ("estimated", "compiled", "measured"):
        steps = [part for row in rows if (part := getattr(row, name)) is not None]
        if len(steps) < 2:
            continue
        inner = [step for step in steps if step.op not in ENDS]
        own = inner[0] if inner else steps[-1]
        off = (step.target for step in (own, *inner) if step.target != "NPU")
        parts[name] = replace(as_one(own, steps), target=next(off, "NPU"))
    return replace(rows[0], **parts)
