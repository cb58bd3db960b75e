"""Which layer of our graph a row of a performance report is about.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.base.text import sanitize, some_of

if TYPE_CHECKING:
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
        why: where several layers have the name.
        also: further layers that it computes, in the order of its names; its time is of all.
    """

    row: PerfRow
    layer: str | None
    found: Found
    why: str = ""
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
        why = ""
        for manner, names in (("name", whole), ("ending", _shortened(whole[-1], row.uid))):
            for name in names:
                several = self._called(name, op, tensors=manner == "name")
                if len(several) == 1:
                    return LayerRow(row, several[0].id, "name" if manner == "name" else "ending")
                if several and not why:
                    shown = ", ".join(sanitize(one.id, 120) for one in several[:_SHOWN])
                    why = f"{len(several)} layers come from {sanitize(name, 120)}: {shown}"
        return LayerRow(row, None, "nothing", why)

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
