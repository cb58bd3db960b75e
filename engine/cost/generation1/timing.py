"""From a layer's work to milliseconds on a chip of generation 1: few terms, a reason for each.

The parameters are package data, written by ``scripts/fit_time_model_gen1.py``; what each means and
how well it is known stands in the data and in docs/estimates/derivation.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from engine.cost.generation1.lowering import Work, all_works
from engine.cost.lowered import Lowered
from engine.cost.timing.model import LayerTime, NetTime
from engine.facts import figures, numbers, rows
from engine.facts.figures import basis
from engine.wire.cost import Bound, Interval

DESIGNS = {"rk1808": "rk1808", "rk3399pro": "rk1808", "rv1109": "rv1126", "rv1126": "rv1126"}
"""Chip -> the NPU design that it shares."""

SCALE = 4.0
"""Exponent of the sum in which MAC array and memory overlap: nearly the larger of the two."""

STRATA = ("convolutions", "others")
"""Networks with an interval of their own: nearly all of their time in work that many fitted
networks have, or not."""

_KNOWN = 0.85
"""Share of known work that makes a network one of ``convolutions``."""

_LINK_GIGABYTES = 0.35
"""Of a second over the host link of RK3399Pro: assumed (USB 3), stated by no source."""

_LOW = "Generation 1: low confidence. The vendor's layer table of these chips is not public."
_MEMORY = (
    "Memory is the sum of what lives together and the weights, a lower bound: the driver's own"
    " buffers are not in it, and were many times as much where the vendor measured."
)
_NOT_SURE = {
    "unknown": "Of {} layers it is not public whether the NPU or the CPU computes them: the"
    " time counts them as the NPU's.",
    "none": "{} layers are in no operator list of toolkit 1.7.x, or are refused there: the"
    " time counts them as the programmable part's.",
}
"""What is said of layers that are not sure to be on the NPU, by their target."""

_KERNEL_LIMIT = 11
"""Kernels above this times the stride are not for the MAC array (Trouble Shooting 1.4.0, 6.1)."""

_NO_GAPS = "rk1808"
"""Design that is slow with dilated depthwise windows: DeepLab runs at 4.4 frames a second there
(published; a reviewer's row, not in the fit), and these windows on the array would make it 19."""


@dataclass(frozen=True)
class Machine:
    """A chip as the time model sees it.

    Attributes:
        design: of :data:`DESIGNS`.
        mhz: clock of the NPU.
        peak: MACs per cycle in int8.
        peak_float16: the same in float16; 0 where the MAC array is not used for it.
    """

    design: str
    mhz: float
    peak: float
    peak_float16: float
    values: Mapping[str, float]


def machine(
    chip: str, npu_mhz: float | None = None, values: Mapping[str, float] | None = None
) -> Machine:
    """The chip at a clock, its highest where None.

    Args:
        chip: a name of :data:`DESIGNS`.
        npu_mhz: clock of the NPU.
        values: parameters in place of the fitted ones, of that design.

    Raises:
        KeyError: no such chip.
    """
    design = DESIGNS[chip]
    highest = figures.number(chip, "npu_mhz")
    return Machine(
        design=design,
        mhz=npu_mhz or highest or 0.0,
        peak=figures.number(chip, "macs_int8") or 0.0,
        peak_float16=figures.number(chip, "macs_fp16") or 0.0,
        values=parameters(design) if values is None else values,
    )


def layer_time(work: Work, on: Machine) -> LayerTime:
    """Time of one layer.

    Args:
        work: what it does.
        on: the chip.
    """
    p = on.values
    cycles_per_ms = on.mhz * 1e3
    start = p["start"] / cycles_per_ms
    memory = work.bytes / (p["bandwidth"] * 1e6)
    bound: Bound = "memory"
    kind = work.kind
    if kind == "free":
        return LayerTime(0.0, "nothing")
    if kind in ("dense", "matmul", "depthwise"):
        outside = slow(work, on)
        if outside:
            cycles = work.macs / (p["slow"] * (p["slow_matmul"] if kind == "matmul" else 1.0))
        elif kind == "depthwise":
            cycles = work.group * p["depthwise_channel"] + work.macs / p["depthwise_macs"]
        else:
            peak = on.peak_float16 if work.float16 else on.peak
            cycles = work.macs / (peak * p["use_1x1" if work.kernel == 1 else "use"])
        busy = cycles / cycles_per_ms
        ms = _overlap(busy, memory)
        if busy > memory or (outside and kind == "depthwise"):
            bound = "compute"
    elif kind == "lookup":
        over = 1.0 if work.op == "Swish" else p[_RELATIVE.get(work.op, "other_activation")]
        ms = work.elements * p["lookup"] * over / cycles_per_ms
        bound = "activation"
    elif kind == "program":
        ms = work.elements * p["program"] / cycles_per_ms
        bound = "compute"
    else:
        ms = memory * p[kind]
    return LayerTime(ms + start, "start" if start > ms else bound)


def slow(work: Work, on: Machine) -> bool:
    """Whether a multiplication is left to the programmable part, about one MAC per cycle.

    Known of two features multiplied with each other, of kernels that are too large for the array,
    of float16 on the RV chips, and of one network with dilated depthwise windows on RK1808.
    """
    if work.kind == "depthwise":
        return work.dilated and on.design == _NO_GAPS
    if work.kind == "matmul" and (work.weight == 0 or (work.float16 and not on.peak_float16)):
        return True
    if work.kind == "dense" and work.float16 and not on.peak_float16:
        return True
    return work.kind == "dense" and work.side > _KERNEL_LIMIT * work.stride


def layer_times(lowered: Lowered, chip: str, npu_mhz: float | None) -> tuple[LayerTime, ...]:
    """Milliseconds of each layer, in the order of :attr:`Lowered.layers`; nothing overlaps.

    Raises:
        KeyError: the chip is not of generation 1.
    """
    on = machine(chip, npu_mhz)
    return tuple(layer_time(work, on) for work in all_works(lowered))


def net_time(lowered: Lowered, chip: str, npu_mhz: float | None, batch: int = 1) -> NetTime:
    """Milliseconds of a run, with the interval that holds it nine times in ten.

    Args:
        lowered: of :func:`engine.cost.generation1.lowering.lower_generation1`.
        chip: a name of :data:`DESIGNS`.
        npu_mhz: clock of the NPU; its highest where None.
        batch: inferences at once: they follow one another (User Guide 1.3.2, 3.6.4).

    Raises:
        KeyError: the chip is not of generation 1.
    """
    on, works = machine(chip, npu_mhz), all_works(lowered)
    times = tuple(layer_time(work, on) for work in works)
    notes = [_LOW, _MEMORY]
    milliseconds = sum(timed.ms for timed in times)
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
    notes += [
        text.format(count)
        for target, text in _NOT_SURE.items()
        if (count := sum(layer.target == target for layer in lowered.layers))
    ]
    # a chip without a rate of its own is no safer than the rarest network. The half width of its
    # interval of 90 % is a factor: 1.2 is +20 % and -17 %
    kind = STRATA[1] if basis(chip) != "fitted" else stratum(known_share(works, on))
    value, wide = milliseconds * batch, numbers("engine.cost.generation1", "spread.csv")[kind]
    time = Interval(value, value / wide, value * wide)
    fps = None
    if time.low > 0:
        fps = Interval(*(1000.0 * batch / ms for ms in (time.value, time.high, time.low)))
    return NetTime(time, fps, times, basis(chip), "", tuple(notes))


def _outside_bytes(lowered: Lowered) -> int:
    """Of the inputs and outputs of the graph."""
    size = 1 if lowered.dtype == "int8" else 2
    return sum(size * prod(lowered.shape(tensor)) for tensor in (*lowered.inputs, *lowered.outputs))


def _slow_notes(
    lowered: Lowered, works: Sequence[Work], times: Sequence[LayerTime], on: Machine
) -> list[str]:
    outside = [at for at, work in enumerate(works) if slow(work, on)]
    if not outside:
        return []
    ms = sum(times[at].ms for at in outside)
    said = (
        f"{len(outside)} layers with {ms:.1f} ms multiply outside the MAC array (two features with"
        f" each other, a kernel above 11 x stride, a dilated depthwise one on RK1808, or float16 on"
        f" RV1109 and RV1126), the first is {lowered.layers[outside[0]].name}: their rate was seen"
        " in four networks only."
    )
    return [said]


def known_share(works: Iterable[Work], on: Machine) -> float:
    """Share of the time in work that many fitted networks have: what narrow intervals need.

    Nearly all published rates are of int8, so float16 is none of it.
    """
    total = known = 0.0
    for work in works:
        ms = layer_time(work, on).ms
        total += ms
        usual = work.kind in ("dense", "elementwise", "pool", "move")
        usual = usual and not slow(work, on) and not work.dilated
        usual = usual or work.op in ("Swish", "LeakyRelu")
        if usual and not work.float16:
            known += ms
    return known / total if total else 1.0


def stratum(share: float) -> str:
    """Of :data:`STRATA`, by :func:`known_share`."""
    return STRATA[0] if share >= _KNOWN else STRATA[1]


@cache
def parameters(design: str) -> dict[str, float]:
    """The fitted parameters of an NPU design."""
    return {
        row["name"]: float(row["value"])
        for row in rows("engine.cost.generation1", "parameters.csv")
        if row["design"] in ("both", design)
    }


def _overlap(busy: float, memory: float) -> float:
    if busy <= 0.0 or memory <= 0.0:
        return busy + memory
    larger, smaller = max(busy, memory), min(busy, memory)
    # factored, so that no power overflows
    return float(larger * (1.0 + (smaller / larger) ** SCALE) ** (1.0 / SCALE))


_RELATIVE = {
    **dict.fromkeys(("LeakyRelu", "PRelu"), "leaky"),
    **dict.fromkeys(("HardSwish", "HardSigmoid"), "hard_swish"),
}
"""Activation -> the parameter of its cost over that of Swish."""
