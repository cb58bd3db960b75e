"""The runtime's own table of layers, from a run of its own, and the layers of the build in it.

The runtime calls a row by its operator and the node of the model: ``Conv:conv1``. Its compiler adds
endings to names of nodes that it made out of one (``conv1_tile0``, ``pool_2conv1``, ``add#1``), and
generation 1 adds its own numbers. Endings are taken off the names of nodes alone: a step that is
called by a tensor may come before or behind the layer that writes it (``conv1_out_rs_mm`` is a
matrix product that reads the output of conv1). A row that computes several nodes has their names
with ``+`` between. A row that no name leads to a layer is kept and said; no row is given to a layer
by its place in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.base.errors import DeviceError, EngineError, JobCancelledError
from engine.base.text import sanitize, some_of
from engine.devices.measure.history import LayerTable
from engine.devices.measure.perf_text import parse_perf_text
from engine.devices.model_source import FindLayers
from engine.wire.devices import LayerTime, TimedStep

if TYPE_CHECKING:
    from engine.devices.board.runtime import BoardRuntime
    from engine.devices.board.tensors import BoardInput
    from engine.devices.measure.perf_report import PerfReport, PerfRow
    from engine.graph.layers import Layer, LayerMap


Found = Literal["name", "ending", "input", "output", "conversion", "nothing"]

_OWN_STEPS: Mapping[str, Found] = {
    "InputOperator": "input",
    "OutputOperator": "output",
    "exDataConvert": "conversion",
}
"""The runtime's own steps, which are no layers."""


_OPERATOR = re.compile(r"([A-Za-z]\w*)(?:\+[A-Za-z]\w*)*:")
_ENDING = re.compile(
    r"(?:_2[A-Za-z]+\d*|_tile\d+|_group_?\d+|#\d+|[-_](?:rs|tp|mm)|_(?:split|select)|_branch\d+"
    r"|_(?:Conv|Add|Mul)[A-Z][A-Za-z]*)$"
)
_MARK = re.compile(r"_\d+_RKNN_mark_perm_\d+_\d+$")
_ENDINGS = 6
_PARTS = 32
_SHOWN = 3


@dataclass(frozen=True)
class LayerRow:
    """A row and its layer.

    Attributes:
        row: of the report.
        layer: the id of its layer; None where it has none.
        found: by which name: the layer's own, the same with an ``ending`` of the runtime's, or
            ``nothing``; ``input``, ``output`` and ``conversion`` (of a dtype) are the runtime's own
            steps and no layers.
        also: further layers that it computes, in the order of its names; its time is of all.
    """

    row: PerfRow
    layer: str | None
    found: Found
    also: tuple[str, ...] = ()


def layer_rows(report: PerfReport, layers: LayerMap) -> tuple[LayerRow, ...]:
    """Find the layer of every row; in the order of the report.

    Args:
        report: as a board printed it.
        layers: of the graph that the model was made from.
    """
    names = _Names(layers)
    return tuple(names.find(row) for row in report.rows)


def unmatched_note(rows: Sequence[LayerRow]) -> str:
    """A sentence on rows that no layer was found for; empty where there are none."""
    lost = [row.row for row in rows if row.found == "nothing"]
    if not lost:
        return ""
    names = [sanitize(row.name or f"row {row.id}", 120) for row in lost]
    shown = some_of(names, _SHOWN)
    return f"{len(lost)} of {len(rows)} rows belong to no layer known here: {shown}."


class _Names:
    """The layers of a map by every name that they have."""

    def __init__(self, layers: LayerMap) -> None:
        self._maps: list[dict[str, list[Layer]]] = [{}, {}, {}]
        for layer in layers.layers:
            for names, known in zip(
                (layer.nodes, layer.sources, layer.tensors), self._maps, strict=True
            ):
                for name in names:
                    known.setdefault(name, []).append(layer)

    def find(self, row: PerfRow) -> LayerRow:
        """The row with its layer."""
        if row.op in _OWN_STEPS:
            return LayerRow(row, None, _OWN_STEPS[row.op])
        prefix = _OPERATOR.match(row.name)
        op = prefix[1] if prefix else row.op
        bare = row.name[prefix.end() :] if prefix else row.name
        whole = self._of_name(row, row.name, bare, op)
        parts = bare.split("+")[:_PARTS]
        if whole.layer is not None or len(parts) == 1:
            return whole
        rows = [self._of_part(row, part, op) for part in parts]
        ids = tuple(
            dict.fromkeys(part_row.layer for part_row in rows if part_row.layer is not None)
        )
        if not ids:
            return whole
        first = next(part_row for part_row in rows if part_row.layer is not None)
        return LayerRow(row, ids[0], first.found, also=ids[1:])

    def _of_part(self, row: PerfRow, part: str, op: str) -> LayerRow:
        """The row with the layer of one of its names, which may have an operator of its own."""
        prefix = _OPERATOR.match(part)
        if prefix is None:
            return self._of_name(row, part, part, op)
        return self._of_name(row, part, part[prefix.end() :], prefix[1])

    def _of_name(self, row: PerfRow, full: str, bare: str, op: str) -> LayerRow:
        """The row with the layer of a name, with and without its operator."""
        whole = [full, bare] if full != bare else [bare]
        for manner, names in (("name", whole), ("ending", _shortened(whole[-1], row.uid))):
            for name in names:
                several = self._called(name, op, tensors=manner == "name")
                if len(several) == 1:
                    return LayerRow(row, several[0].id, "name" if manner == "name" else "ending")
        return LayerRow(row, None, "nothing")

    def _called(self, name: str, op: str, *, tensors: bool) -> list[Layer]:
        """The layers of that name; where a node and a tensor share it, those of the operator."""
        maps = self._maps if tensors else self._maps[:2]
        kinds = [known[name] for known in maps if name in known]
        for layers in kinds:
            if len(layers) == 1 and layers[0].op == op:
                return layers
        return kinds[0] if kinds else []


def _shortened(name: str, uid: int | None) -> Iterator[str]:
    """The name without the runtime's endings, one after another."""
    if _MARK.search(name):
        yield _MARK.sub("", name)
    if uid is not None:
        match = re.search(rf"_{uid}_\d+$", name)
        if match:
            yield name[: match.start()]
    for _ in range(_ENDINGS):
        match = _ENDING.search(name)
        if match is None:
            return
        name = name[: match.start()]
        yield name


@dataclass(frozen=True)
class LayerTimes:
    """A table of layers.

    Attributes:
        rows: of the table, with the layers of the build.
        table: the same for the history; None where the runtime printed none.
        text: as the runtime printed it.
        notes: what is to be known of it.
    """

    rows: tuple[LayerTime, ...] = ()
    table: LayerTable | None = None
    text: str = ""
    notes: tuple[str, ...] = ()


def time_layers(
    runtime: BoardRuntime,
    model: Path,
    inputs: Sequence[BoardInput],
    *,
    warmup: int = 1,
    core_mask: int | None = None,
) -> str:
    """What the runtime prints of its layers, with the timing of layers on, which slows the run.

    Raises:
        DeviceError: the board is lost, or its runtime refuses the run.
    """
    runtime.open(model, perf=True, core_mask=core_mask)
    return runtime.run(inputs, warmup=warmup, outputs=False).perf or ""


def read_layer_times(text: str, find: FindLayers, told: Callable[[str], str] = str) -> LayerTimes:
    """The table, and which layer of the build each row computes.

    Args:
        text: as a runtime printed it; nothing of it is believed.
        find: the layers of the build. Where it fails the table is told without them: the times are
            measured, whatever became of their names.
        told: gives names of the compiled model as the user has them.
    """
    return layer_times_of(parse_perf_text(text), find, text, told)


def layer_times_of(
    report: PerfReport, find: FindLayers, text: str = "", told: Callable[[str], str] = str
) -> LayerTimes:
    """As :func:`read_layer_times`, of a table that was read already."""
    if not report.rows:
        return LayerTimes(text=text, notes=("The runtime printed no table of layers.",))
    report = replace(report, rows=tuple(replace(row, name=told(row.name)) for row in report.rows))
    text = told(text)
    notes: list[str] = []
    matched = tuple(LayerRow(row, None, "nothing") for row in report.rows)
    try:
        layers = find()
        if layers is not None:
            matched = layer_rows(report, layers)
            notes += filter(None, [unmatched_note(matched)])
    except (DeviceError, JobCancelledError):
        raise
    except EngineError as error:
        notes.append(f"The layers of the build are not known: {error}")
    rows = tuple(map(_row, matched))
    table = LayerTable(report.dialect, report.microseconds, report.total_kind, rows)
    return LayerTimes(rows, table, text, tuple(notes))


def _row(matched: LayerRow) -> LayerTime:
    row = matched.row
    return LayerTime(
        number=row.id,
        id=matched.layer or "",
        also=matched.also,
        **{field.name: getattr(row, field.name) for field in fields(TimedStep)},
    )
