"""The compiler's tables beside our plan: layers, cycles, memory, and where the two disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.base.errors import RecipeError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.cost.printed import Printed, PrintedLayer
from engine.wire.compile import CompiledLayer, CompilerTable

if TYPE_CHECKING:
    from engine.graph.layers import LayerMap
    from engine.wire.cost import ChipEstimate, LayerCost

_SAME = 0.01
"""Share of cycles or bytes by which the two may differ."""
_MOST_FINDINGS = 30
_ENDS = ("InputOperator", "OutputOperator")
_CONVERSION = "exDataConvert"
_STORED = re.compile(r"/(?:float|quantized)(?=[_-]|$)")
_FIRST_STAGE = re.compile(r"/blocks/Conv$")
_LAST_STAGE = re.compile(r"(?:_2gavg_2conv1|(?<!gavg)_2conv0)$")


def compiler_table(
    printed: Printed, estimate: ChipEstimate | None = None, layers: LayerMap | None = None
) -> CompilerTable:
    """The compiler's table, by our layers.

    Args:
        printed: what was read of its log.
        estimate: of the same model on the same chip; None: nothing stands beside it.
        layers: of the build, to find the layer that a name means.
    """
    costs = () if estimate is None else estimate.layers
    pairs = _pairs(printed.layers, costs)
    rows = tuple(
        _row(layer, cost, layers) for layer, cost in zip(printed.layers, pairs, strict=True)
    )
    counts = any(layer.total_cycles or layer.npu_cycles for layer in printed.layers)
    table = CompilerTable(
        layers=rows,
        internal_bytes=printed.internal_bytes,
        weight_bytes=printed.weight_bytes,
        npu_cycles=sum(layer.npu_cycles for layer in printed.layers) if counts else None,
        total_cycles=sum(layer.total_cycles for layer in printed.layers) if counts else None,
    )
    if estimate is None or not rows or estimate.problem:
        return table
    met = {cost.name for cost in pairs if cost is not None}
    alone = [cost for cost in costs if cost.name not in met]
    findings = [*_disagreements(table, alone), *_memory(table, estimate)]
    if len(findings) > _MOST_FINDINGS:
        more = len(findings) - _MOST_FINDINGS
        rest = Finding(
            "plan-differs",
            "info",
            estimate.chip,
            f"The compiler's report and the plan disagree on {more} further layers.",
        )
        findings = [*findings[:_MOST_FINDINGS], rest]
    return replace(table, findings=tuple(findings))


def _row(printed: PrintedLayer, cost: LayerCost | None, layers: LayerMap | None) -> CompiledLayer:
    counts = bool(printed.npu_cycles or printed.total_cycles)
    return CompiledLayer(
        name=printed.name,
        op=printed.op,
        id=_id_of(printed.name, cost, layers),
        dtype=printed.dtype,
        target=printed.target,
        npu_cycles=printed.npu_cycles if counts else None,
        total_cycles=printed.total_cycles if counts else None,
        read_kb=printed.read_kb,
        estimated_npu_cycles=None if cost is None else cost.npu_cycles,
        estimated_total_cycles=None if cost is None else cost.total_cycles,
        estimated_target=None if cost is None else cost.target,
    )


def _id_of(name: str, cost: LayerCost | None, layers: LayerMap | None) -> str:
    """The build's layer: by the node's name, which the compiler numbers where it split one."""
    node = name.partition(":")[2].partition("#")[0]
    if layers is not None:
        try:
            layer = layers.find(node)
        except RecipeError:  # several layers come from it
            layer = None
        if layer is not None:
            return layer.id
    return "" if cost is None else cost.id


def _pairs(printed: Sequence[PrintedLayer], costs: Sequence[LayerCost]) -> list[LayerCost | None]:
    """For each printed layer ours of the same name, or the same but for what Q/DQ pairs add to it.

    The plan is of the source model, where the compiler names what it adds after tensors; in the
    file that it is given, a tensor before its rounding is called ``NAME/float``, and its integers
    ``NAME/quantized``. Conversions belong
    together in their order, where there are as many.
    """
    left: dict[str, list[LayerCost]] = {}
    for cost in costs:
        left.setdefault(cost.name, []).append(cost)
    costs_of_rows: list[LayerCost | None] = []
    for printed_row in printed:
        same = left.get(printed_row.name)
        costs_of_rows.append(same.pop(0) if same else None)
    rest = [cost for printed_row in left.values() for cost in printed_row]
    left = {}
    for cost in rest:
        left.setdefault(_plain(cost.name), []).append(cost)
    for at, printed_row in enumerate(printed):
        same = left.get(_plain(printed_row.name)) if costs_of_rows[at] is None else None
        if same:
            costs_of_rows[at] = same.pop(0)
    for at, printed_row in enumerate(printed):  # sums of halves on rk2118 have no name
        if not printed_row.name:
            same = [cost for row in left.values() for cost in row if cost.op == printed_row.op]
            if same:
                costs_of_rows[at] = same[0]
                left[_plain(same[0].name)].remove(same[0])
    # conversions are named after tensors of the file
    ours = [cost for printed_row in left.values() for cost in printed_row if cost.op == _CONVERSION]
    theirs = [
        at
        for at, printed_row in enumerate(printed)
        if costs_of_rows[at] is None and printed_row.op == _CONVERSION
    ]
    if len(ours) == len(theirs):
        for at, cost in zip(theirs, ours, strict=True):
            costs_of_rows[at] = cost
    return costs_of_rows


def _plain(name: str) -> str:
    """What a name has in common in both; means are convolutions, large ones in two stages."""
    name = _FIRST_STAGE.sub("_2gavg_2conv0", _STORED.sub("", name).replace("-", "_"))
    return _LAST_STAGE.sub("", name)


def _disagreements(table: CompilerTable, alone: Sequence[LayerCost]) -> Iterator[Finding]:
    for row in table.layers:
        where = row.id or sanitize(row.name, 120)
        if row.estimated_target is None:
            yield _differs(
                where,
                f"The compiler has a layer {sanitize(row.name, 120)} ({row.op}, {row.target}) that "
                "the plan does not have.",
            )
            continue
        if row.target != row.estimated_target and row.op not in _ENDS:
            yield _differs(
                where,
                f"{sanitize(row.name, 120)} runs on the {row.target}; the plan says "
                f"{row.estimated_target}.",
            )
        if _far(row.total_cycles, row.estimated_total_cycles):
            yield _differs(
                where,
                f"{sanitize(row.name, 120)} takes {row.total_cycles} cycles by the compiler, "
                f"{row.estimated_total_cycles} by the plan.",
            )
    for cost in alone:
        if cost.op not in _ENDS:
            yield _differs(
                cost.id,
                f"The plan has a layer {sanitize(cost.name, 120)} ({cost.op}, {cost.target}) that "
                "the compiler did not make.",
            )


def _memory(table: CompilerTable, estimate: ChipEstimate) -> Iterator[Finding]:
    if estimate.memory is None:
        return
    for what, theirs, ours in (
        ("Internal memory", table.internal_bytes, estimate.memory.internal),
        ("Weights", table.weight_bytes, estimate.memory.weight),
    ):
        if _far(theirs, ours):
            yield _differs(
                estimate.chip, f"{what}: {theirs} bytes by the compiler, {ours} by the plan."
            )


def _far(theirs: int | None, ours: int | None) -> bool:
    return (
        theirs is not None and ours is not None and abs(theirs - ours) > _SAME * max(theirs, ours)
    )


def _differs(where: str, what: str) -> Finding:
    return Finding(
        "plan-differs",
        "info",
        where,
        what,
        "The plan is an estimate; the compiler's table is of the model as it was compiled.",
    )
