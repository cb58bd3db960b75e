"""The estimate of a model on a chip of generation 1, in the form of all estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.cost.generation1.lowering import lower_generation1
from engine.cost.generation1.memory import memory_of
from engine.cost.generation1.timing import (
    DESIGNS,
    STRATA,
    LayerTime,
    Machine,
    known_share,
    layer_time,
    machine,
    slow,
    spread,
    stratum,
)
from engine.cost.generation1.work import Work, work_of
from engine.cost.limits.generation1 import check_generation1
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.lowering.graph import LoweringGraph
from engine.facts import chip as chip_facts
from engine.facts.figures import basis
from engine.facts.npu import NpuDtype
from engine.wire.cost import ChipEstimate, Interval, LayerCost

__all__ = ["Counted1", "chip_estimate", "count_generation1", "design_of", "layer_times"]

_LINK_GIGABYTES = 0.35
"""Of a second over the host link of RK3399Pro: assumed (USB 3), stated by no source."""

_LOW = "Generation 1: low confidence. The vendor's layer table of these chips is not public."
_MEMORY = (
    "Memory is the sum of what lives together and the weights, a lower bound: the driver's own"
    " buffers are not in it, and were many times as much where the vendor measured."
)


@dataclass(frozen=True)
class Counted1:
    """A graph on an NPU design: what its chips share.

    Attributes:
        lowered: the layers.
        works: of each.
    """

    lowered: Lowered
    works: tuple[Work, ...]


def count_generation1(
    graph: LoweringGraph,
    design: str,
    dtype: NpuDtype,
    layer_dtypes: Mapping[str, NpuDtype] | None = None,
) -> Counted1:
    """Lower a graph and count its work; once for all chips of a design.

    Args:
        graph: of :func:`engine.cost.lowering.read.read_graph`.
        design: a value of :data:`engine.cost.generation1.timing.DESIGNS`.
        dtype: ``int8`` for every quantized dtype of 8 bits, or ``float16``.
        layer_dtypes: source node -> dtype of the layers that have another one.
    """
    lowered = _placed(lower_generation1(graph, design, dtype, layer_dtypes))
    return Counted1(lowered, tuple(work_of(each, lowered) for each in lowered.layers))


def chip_estimate(
    counted: Counted1,
    chip: str,
    *,
    ids: Mapping[str, str] | None = None,
    npu_mhz: float | None = None,
    batch: int = 1,
    layers: bool = True,
    spans: bool = False,
) -> ChipEstimate:
    """What a model costs on a chip of generation 1.

    Args:
        counted: of :func:`count_generation1` for the chip's design.
        chip: ``rk1808``, ``rk3399pro``, ``rv1109`` or ``rv1126``.
        ids: node -> ``layer.id``; a node that is nobody's stands for itself.
        npu_mhz: clock of the NPU; None: the highest.
        batch: inferences at once: they follow one another (User Guide 1.3.2, 3.6.4).
        layers, spans: whether they are in the answer.

    Raises:
        KeyError: the chip is not of generation 1.
    """
    lowered, works = counted.lowered, counted.works
    on = machine(chip, npu_mhz)
    times = [layer_time(each, on) for each in works]
    notes = [_LOW, _MEMORY]
    milliseconds = sum(each.ms for each in times)
    if times:  # a network of views alone is an inference still: the start of a layer at least
        milliseconds = max(milliseconds, on.values["start"] / (on.mhz * 1e3))
    if chip == "rk3399pro":
        crossed = _outside_bytes(lowered)
        link = crossed / (_LINK_GIGABYTES * 1e6)
        milliseconds += link
        notes.append(
            f"Unvalidated: no rate of RK3399Pro was published. It counts as RK1808, with {link:.2f}"
            f" ms for {crossed:,} bytes over the link to the host at an assumed"
            f" {_LINK_GIGABYTES * 1000:.0f} MB/s."
        )
    notes += _slow_notes(lowered, works, times, on)
    # a chip without a rate of its own is no safer than the rarest network
    stratum_name = STRATA[1] if basis(chip) != "fitted" else stratum(known_share(works, on))
    wide = spread(stratum_name)
    time = _interval(milliseconds * batch, wide)
    facts = chip_facts(chip)
    refused = sum(each.target == "none" for each in lowered.layers)
    unknown = sum(each.target == "unknown" for each in lowered.layers)
    if unknown:
        notes.append(
            f"Of {unknown} layers it is not public whether the NPU or the CPU computes them: the"
            " time counts them as the NPU's."
        )
    if refused:
        notes.append(
            f"{refused} layers are in no operator list of toolkit 1.7.x, or are refused there: the"
            " time counts them as the programmable part's."
        )
    return ChipEstimate(
        chip=chip,
        generation=1,
        dtype=lowered.dtype,
        cores=facts.npu_cores if facts else 1,
        batch=batch,
        npu_mhz=on.mhz,
        confidence=basis(chip),
        time_ms=time,
        fps=_rate(time, batch),
        memory=memory_of(lowered, spans),
        npu_layers=len(lowered.layers) - refused - unknown,
        cpu_layers=None,
        refused_layers=refused,
        unknown_layers=unknown,
        macs=sum(each.macs for each in works),
        layers=_rows(counted, times, ids or {}) if layers else (),
        notes=tuple(notes),
    )


def layer_times(lowered: Lowered, chip: str, npu_mhz: float | None = None) -> tuple[float, ...]:
    """Milliseconds of each layer on a chip of generation 1."""
    on = machine(chip, npu_mhz)
    return tuple(layer_time(work_of(each, lowered), on).ms for each in lowered.layers)


def design_of(chip: str) -> str | None:
    """The NPU design of a chip of generation 1; None for every other."""
    return DESIGNS.get(chip)


def _placed(lowered: Lowered) -> Lowered:
    """With what the operator lists of toolkit 1.7.x say of each layer."""

    def told(layer: LoweredLayer) -> LoweredLayer:
        found = check_generation1(layer, lowered)
        if not found.reason:
            return layer
        return replace(layer, target=found.target, reason=found.reason, remedy=found.remedy)

    return replace(lowered, layers=tuple(map(told, lowered.layers)))


def _interval(value: float, wide: float) -> Interval:
    return Interval(value, value / wide, value * wide)


def _rate(time: Interval, batch: int) -> Interval | None:
    if time.low <= 0:
        return None
    return Interval(*(1000.0 * batch / each for each in (time.value, time.high, time.low)))


def _outside_bytes(lowered: Lowered) -> int:
    total = 0
    for name in (*lowered.inputs, *lowered.outputs):
        count = 1
        for each in lowered.shape(name) if name in lowered.tensors else ():
            count *= each
        total += count * (1 if lowered.dtype == "int8" else 2)
    return total


def _slow_notes(
    lowered: Lowered, works: tuple[Work, ...], times: list[LayerTime], on: Machine
) -> list[str]:
    found = [at for at, each in enumerate(works) if slow(each, on)]
    if not found:
        return []
    ms = sum(times[at].ms for at in found)
    said = (
        f"{len(found)} layers with {ms:.1f} ms multiply outside the MAC array (two features with"
        f" each other, a kernel above 11 x stride, a dilated depthwise one on RK1808, or float16 on"
        f" RV1109 and RV1126), the first is {lowered.layers[found[0]].name}: their rate was seen in"
        " four networks only."
    )
    return [said]


def _rows(
    counted: Counted1, times: list[LayerTime], ids: Mapping[str, str]
) -> tuple[LayerCost, ...]:
    return tuple(
        _row(layer, work, time, counted.lowered, ids)
        for layer, work, time in zip(counted.lowered.layers, counted.works, times, strict=True)
    )


def _row(
    layer: LoweredLayer, work: Work, time: LayerTime, lowered: Lowered, ids: Mapping[str, str]
) -> LayerCost:
    own = tuple(dict.fromkeys(ids.get(name, name) for name in layer.sources))
    return LayerCost(
        id=own[0] if own else layer.name,
        layers=own,
        name=layer.full_name,
        op=layer.op,
        dtype=layer.dtype,
        target=layer.target,
        reason=layer.reason,
        remedy=layer.remedy,
        shapes_in=",".join(_shape(each, lowered) for each in (*layer.inputs, *layer.consts)[:12]),
        shape_out=",".join(_shape(each, lowered) for each in layer.outputs[:12]),
        ddr_cycles=0,
        npu_cycles=0,
        total_cycles=0,
        read_bytes=work.read + work.weight,
        write_bytes=work.write,
        weight_bytes=work.weight,
        macs=work.macs,
        time_ms=time.ms,
        bound=time.bound,
    )


def _shape(name: str, lowered: Lowered) -> str:
    found = lowered.tensors.get(name)
    return f"({','.join(map(str, found.shape))})" if found is not None else "?"
