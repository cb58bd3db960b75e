"""Lowered layers with their cycles and times, as the rows and sums of an estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.cost.cycles import Cycles, all_cycles
from engine.cost.generation1 import timing as generation1
from engine.cost.generation1.lowering import all_works, memory_of
from engine.cost.lowered import ENDS, Lowered, LoweredLayer
from engine.cost.memory import plan_memory
from engine.cost.timing import LayerTime, layer_times, net_time
from engine.facts.npu import NpuProfile
from engine.wire.cost import ChipEstimate, LayerCost, MemoryCost

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
    """A graph on a family of chips of generation 2, or a design of generation 1.

    Attributes:
        lowered: the layers.
        npu: the family; None of generation 1.
        cycles: of each; of generation 1 the bytes and multiplications alone.
        ids: of each: the layers of the build that it does the work of, the first first.
        memory: of an inference.
    """

    lowered: Lowered
    npu: NpuProfile | None
    cycles: tuple[Cycles, ...]
    ids: tuple[tuple[str, ...], ...]
    memory: MemoryCost

    def times(
        self, chip: str, npu_mhz: float | None, lowered: Lowered | None = None
    ) -> tuple[float, ...]:
        """Milliseconds of each layer on one of its chips; of other layers where they are given."""
        other = lowered or self.lowered
        if self.npu is None:
            timings = generation1.layer_times(other, chip, npu_mhz)
        else:
            cycles = self.cycles if lowered is None else all_cycles(other, self.npu)
            timings = layer_times(other, cycles, chip, npu_mhz)
        return tuple(timed.ms for timed in timings)


def counted(lowered: Lowered, npu: NpuProfile | None, ids: Mapping[str, str]) -> Counted:
    """Count what the layers do and hold; once for all chips of a family or design.

    Args:
        lowered: the layers.
        npu: the family that they are for; None of generation 1.
        ids: node -> ``layer.id``; a node that is nobody's stands for itself.
    """
    own = _layer_ids(lowered, ids)
    if npu is None:
        cycles = tuple(work.figures for work in all_works(lowered))
        return Counted(lowered, None, cycles, own, memory_of(lowered))
    return Counted(lowered, npu, all_cycles(lowered, npu), own, plan_memory(lowered, npu))


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
    return tuple(
        sources or (layer.name,) for sources, layer in zip(own, lowered.layers, strict=True)
    )


def chip_figures(blank: ChipEstimate, found: Counted, npu_mhz: float | None) -> ChipEstimate:
    """The estimate of one chip of the family or design.

    Args:
        blank: its chip, dtype, batch and cores.
        found: what the family or design shares.
        npu_mhz: clock of the NPU; None: the highest.

    Raises:
        UsageError: no such clock or number of cores.
    """
    second, batch = found.npu is not None, blank.batch
    if second:
        timed = net_time(
            found.lowered, found.cycles, blank.chip, npu_mhz, cores=blank.cores, batch=batch
        )
    else:
        timed = generation1.net_time(found.lowered, blank.chip, npu_mhz, batch)
    whole = zip(found.lowered.layers, found.cycles, found.ids, timed.layers, strict=True)
    rows = tuple(_row(found.lowered, *of_layer) for of_layer in whole)
    on = Counter(row.target for row in rows if row.op not in ENDS)
    notes = list(timed.notes)
    if second and batch > 1:
        notes.append(_BATCH)
    if second and on["none"]:
        notes.append(_REFUSED.format(on["none"]))
    return replace(
        blank,
        confidence=timed.confidence,
        time_ms=timed.time,
        fps=timed.fps,
        memory=_of_batch(found.memory, batch if second else 1),
        npu_layers=on["NPU"],
        cpu_layers=on["CPU"] if second else None,
        refused_layers=on["none"],
        unknown_layers=on["unknown"],
        total_cycles=sum(row.total_cycles for row in rows),
        macs=sum(row.macs for row in rows),
        layers=rows,
        notes=tuple(notes),
        stratum=timed.stratum,
    )


def _of_batch(memory: MemoryCost, batch: int) -> MemoryCost:
    """Features of each inference, and the weights once."""
    if batch == 1:
        return memory
    spans = tuple(
        replace(span, start=span.start * batch, end=span.end * batch) for span in memory.spans
    )
    internal = memory.internal * batch
    return MemoryCost(internal, memory.weight, internal + memory.weight, spans)


def _row(
    lowered: Lowered, layer: LoweredLayer, cycles: Cycles, ids: tuple[str, ...], time: LayerTime
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
        time_ms=time.ms,
        bound=time.bound,
    )


def _shapes(lowered: Lowered, names: tuple[str, ...]) -> str:
    known = [lowered.tensors[name].shape for name in names[:_SHAPES] if name in lowered.tensors]
    text = ",".join(f"({','.join(map(str, shape))})" for shape in known)
    return f"{text},..." if len(names) > _SHAPES else text
