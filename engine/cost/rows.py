"""Lowered layers with their cycles and times, as the rows and sums of an estimate."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from engine.cost.cycles import Cycles, all_cycles
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory import MemoryPlan, plan_memory
from engine.cost.timing import net_time
from engine.facts.npu import NpuProfile
from engine.wire.cost import Bound, ChipEstimate, LayerCost, MemoryCost

__all__ = ["Counted", "chip_figures", "counted", "with_known_ids"]

_ENDS = ("InputOperator", "OutputOperator")
_SHAPES = 12
"""Shapes of a layer that are written out."""
_REFUSED = (
    "The vendor's compiler refuses {} of the layers, so it builds no model as this one is; the "
    "figures are of the others."
)
_BATCH = (
    "A batch of several is counted as so many inferences: internal memory grows with it, weights "
    "do not."
)


@dataclass(frozen=True)
class Counted:
    """A graph on a family of chips: everything that its chips share.

    Attributes:
        lowered: the layers.
        cycles: of each.
        ids: of each: the layers of the build that it does the work of, the first first.
        memory: where every tensor lies.
    """

    lowered: Lowered
    cycles: tuple[Cycles, ...]
    ids: tuple[tuple[str, ...], ...]
    memory: MemoryPlan


def counted(lowered: Lowered, npu: NpuProfile, ids: Mapping[str, str]) -> Counted:
    """Count the cycles of a lowered graph.

    Args:
        lowered: the layers.
        npu: the family that they are for.
        ids: node -> ``layer.id``; a node that is nobody's stands for itself.
    """
    return Counted(
        lowered, all_cycles(lowered, npu), _layer_ids(lowered, ids), plan_memory(lowered, npu)
    )


def _layer_ids(lowered: Lowered, ids: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    def known(name: str) -> bool:
        return not ids or name in ids

    # a node that a pass of the build took away is of no layer, as is what the compiler adds: they
    # have the id of the layer that they serve, which reads it or wrote for it
    own = [
        tuple(dict.fromkeys(ids[name] if ids else name for name in layer.sources if known(name)))
        for layer in lowered.layers
    ]
    readers = {name: at for at, layer in enumerate(lowered.layers) for name in layer.inputs}
    writers = {name: at for at, layer in enumerate(lowered.layers) for name in layer.outputs}
    for at in reversed(range(len(own))):
        if not own[at]:
            served = (readers.get(name) for name in lowered.layers[at].outputs)
            own[at] = next((own[to][:1] for to in served if to is not None and own[to]), ())
    for at, layer in enumerate(lowered.layers):
        if not own[at]:
            before = (writers.get(name) for name in layer.inputs)
            own[at] = next((own[by][:1] for by in before if by is not None and own[by]), ())
    return tuple(each or (layer.name,) for each, layer in zip(own, lowered.layers, strict=True))


def with_known_ids(rows: Iterable[LayerCost], known: Container[str]) -> tuple[LayerCost, ...]:
    """Rows whose id is no layer of the build with that of the row before them.

    Args:
        rows: in the order of execution.
        known: ids of the build's layers; nothing changes where there are none.
    """
    told: list[LayerCost] = []
    last = ""
    for row in rows:
        if row.id in known:
            last = row.id
        told.append(row if row.id in known or not last else replace(row, id=last, layers=(last,)))
    return tuple(told)


def chip_figures(blank: ChipEstimate, found: Counted, npu_mhz: float | None) -> ChipEstimate:
    """The estimate of one chip of the family.

    Args:
        blank: its chip, dtype, batch and cores.
        found: what the family shares.
        npu_mhz: clock of the NPU; None: the highest.

    Raises:
        UsageError: no such clock or number of cores.
    """
    timed = net_time(
        found.lowered,
        found.cycles,
        blank.chip,
        npu_mhz=npu_mhz,
        cores=blank.cores,
        batch=blank.batch,
    )
    whole = zip(found.lowered.layers, found.cycles, found.ids, timed.layers, strict=True)
    rows = tuple(
        layer_row(layer, found.lowered, cycles, ids, each.ms, each.bound)
        for layer, cycles, ids, each in whole
    )
    inner = [row for row in rows if row.op not in _ENDS]
    refused = sum(row.target == "none" for row in inner)
    return replace(
        blank,
        confidence=timed.confidence,
        time_ms=timed.time,
        fps=timed.fps,
        memory=_memory(found.memory, blank.batch),
        npu_layers=sum(row.target == "NPU" for row in inner),
        cpu_layers=sum(row.target == "CPU" for row in inner),
        refused_layers=refused,
        total_cycles=sum(row.total_cycles for row in rows),
        macs=sum(row.macs for row in rows),
        layers=rows,
        notes=(
            *timed.notes,
            *((_BATCH,) if blank.batch > 1 else ()),
            *((_REFUSED.format(refused),) if refused else ()),
        ),
        stratum=timed.stratum,
    )


def _memory(plan: MemoryPlan, batch: int) -> MemoryCost:
    if batch == 1:
        return plan.cost(spans=True)
    spans = tuple(
        replace(span, start=span.start * batch, end=span.end * batch) for span in plan.spans
    )
    internal = plan.internal * batch
    return MemoryCost(internal, plan.weight, internal + plan.weight, spans)


def layer_row(
    layer: LoweredLayer,
    lowered: Lowered,
    cycles: Cycles,
    ids: tuple[str, ...],
    time_ms: float,
    bound: Bound,
) -> LayerCost:
    """A layer as the front ends have it."""
    return LayerCost(
        id=ids[0],
        layers=ids,
        name=layer.full_name,
        op=layer.op,
        dtype=layer.dtype,
        target=layer.target,
        reason=layer.reason,
        remedy=layer.remedy,
        shapes_in=_shapes(lowered, (*layer.inputs, *layer.consts)),
        shape_out=_shapes(lowered, layer.outputs),
        ddr_cycles=cycles.ddr,
        npu_cycles=cycles.npu,
        total_cycles=cycles.total,
        read_bytes=cycles.read_bytes,
        write_bytes=cycles.write_bytes,
        weight_bytes=cycles.weight_bytes,
        macs=cycles.macs,
        time_ms=time_ms,
        bound=bound,
    )


def _shapes(lowered: Lowered, names: tuple[str, ...]) -> str:
    known = [lowered.tensors[name].shape for name in names[:_SHAPES] if name in lowered.tensors]
    text = ",".join(f"({','.join(map(str, shape))})" for shape in known)
    return f"{text},..." if len(names) > _SHAPES else text
