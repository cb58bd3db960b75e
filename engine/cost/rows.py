"""Lowered layers with their cycles and times, as the rows and sums of an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.chips.npu import NpuProfile
from engine.cost.cycles import Cycles, all_cycles
from engine.cost.lowered import Lowered, LoweredLayer
from engine.wire.cost import Bound, ChipEstimate, Interval, LayerCost, MemoryCost

__all__ = ["Counted", "chip_figures", "counted"]

_ENDS = ("InputOperator", "OutputOperator")
_SHAPES = 12
"""Shapes of a layer that are written out."""


@dataclass(frozen=True)
class Counted:
    """A graph on a family of chips: everything that its chips share.

    Attributes:
        lowered: the layers.
        cycles: of each.
        ids: of each: the layers of the build that it does the work of, the first first.
    """

    lowered: Lowered
    cycles: tuple[Cycles, ...]
    ids: tuple[tuple[str, ...], ...]


def counted(lowered: Lowered, npu: NpuProfile, ids: Mapping[str, str]) -> Counted:
    """Count the cycles of a lowered graph.

    Args:
        lowered: the layers.
        npu: the family that they are for.
        ids: node -> ``layer.id``; a node that is nobody's stands for itself.
    """
    return Counted(lowered, all_cycles(lowered, npu), _layer_ids(lowered, ids))


def _layer_ids(lowered: Lowered, ids: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    own = [
        tuple(dict.fromkeys(ids.get(name, name) for name in layer.sources))
        for layer in lowered.layers
    ]
    # what the compiler adds has the id of the layer that it serves: that reads it, or wrote for it
    readers = {name: at for at, layer in enumerate(lowered.layers) for name in layer.inputs}
    writers = {name: at for at, layer in enumerate(lowered.layers) for name in layer.outputs}
    for at in reversed(range(len(own))):
        if not own[at]:
            served = (readers.get(name) for name in lowered.layers[at].outputs)
            own[at] = next((own[to][:1] for to in served if to is not None and own[to]), ())
    for at, layer in enumerate(lowered.layers):
        if not own[at]:
            before = (writers.get(name) for name in layer.inputs)
            own[at] = next((own[by][:1] for by in before if by is not None), (layer.name,))
    return tuple(each or (layer.name,) for each, layer in zip(own, lowered.layers, strict=True))


def chip_figures(blank: ChipEstimate, found: Counted, npu: NpuProfile) -> ChipEstimate:
    """The estimate of one chip of the family.

    Args:
        blank: its chip, dtype, batch, cores, clock and confidence.
        found: what the family shares.
        npu: the family.
    """
    mhz = blank.npu_mhz or 1000.0
    rows = []
    for layer, cycles, ids in zip(found.lowered.layers, found.cycles, found.ids, strict=True):
        moved = cycles.read_bytes + cycles.write_bytes
        needed = max(cycles.total, moved / npu.bytes_per_cycle)
        bound: Bound = "compute" if cycles.npu > cycles.ddr else "memory" if moved else "nothing"
        time_ms = needed / (mhz * 1000) + 0.0073
        if layer.op in _ENDS:
            bound, time_ms = "nothing", 0.0
        rows.append(layer_row(layer, found.lowered, cycles, ids, time_ms, bound))
    whole = sum(row.time_ms for row in rows) * blank.batch
    inner = [row for row in rows if row.op not in _ENDS]
    weight = sum(row.weight_bytes for row in rows)
    largest = max((row.read_bytes + row.write_bytes for row in rows), default=0)
    return replace(
        blank,
        npu_mhz=mhz,
        time_ms=Interval(whole, whole * 0.6, whole * 1.4),
        fps=_rate(whole, blank.batch),
        memory=MemoryCost(largest, weight, largest + weight),
        npu_layers=sum(row.target == "NPU" for row in inner),
        cpu_layers=sum(row.target == "CPU" for row in inner),
        refused_layers=sum(row.target == "none" for row in inner),
        total_cycles=sum(row.total_cycles for row in rows),
        macs=sum(row.macs for row in rows),
        layers=tuple(rows),
    )


def _rate(ms: float, batch: int) -> Interval | None:
    if ms <= 0:
        return None
    return Interval(1000 * batch / ms, 1000 * batch / (ms * 1.4), 1000 * batch / (ms * 0.6))


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
