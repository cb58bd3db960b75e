"""The tables of estimates, and the words of their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.base.text import sanitize
from engine.wire.cost import ChipEstimate, Interval
from engine.wire.formats import (
    ADDRESS,
    CHANGE,
    COUNT,
    MILLISECONDS,
    NAME,
    NUMBER,
    PERCENT,
    RATE,
    SIZE,
    Format,
    range_of,
    state_of,
)
from engine.wire.table import (
    BATCH,
    CHIP,
    CYCLES,
    DTYPE,
    FIGURES_ARE,
    FRAMES,
    GENERATION,
    INTERNAL,
    LAYERS,
    MACS,
    MARK,
    ON_CPU,
    ON_NPU,
    PROBLEM,
    SIZED,
    SOURCE,
    STANDS_ON,
    TENSOR,
    TIME_MS,
    TOOLKIT,
    VALUE,
    WEIGHTS,
    Column,
    Meaning,
    Table,
    accent,
    change_style,
    known,
    place_style,
)

_BASES: dict[str | None, Meaning] = {"calibrated": "good", "structural": "warn"}


BASIS = {
    "fitted": "fitted to published rates of this chip",
    "derived": "derived from a chip of the same design",
    "structural": "structural, not validated: no rate of this chip was published",
    "calibrated": "calibrated by a run on your board",
}
"""What an estimate of time stands on."""


_FIGURES = {
    "compiler_bus": "memory bus as the compiler counts",
    "cpu": "CPU",
    "cpu_mhz": "CPU clock",
    "dtypes": "quantized dtypes",
    "host_link": "link to the host",
    "macs_fp16": "MACs in float16",
    "macs_int16": "MACs in int16",
    "macs_int8": "MACs in int8",
    "memory_bandwidth": "memory bandwidth",
    "memory_bits": "memory width",
    "memory_mhz": "memory clock",
    "npu_buffer": "internal buffer of the NPU",
    "npu_bus": "bus of the NPU",
    "npu_cores": "NPU cores",
    "npu_mhz": "NPU clock",
    "rates": "frame rates",
    "sram": "SRAM",
    "tops_int8": "peak in int8",
}


def figure_name(name: str) -> str:
    """A figure of ``engine/facts/figures.csv`` in words; its own name where there are none."""
    return _FIGURES.get(name) or sanitize(name, 60)


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _placed(key: str) -> Callable[[ChipEstimate], int | None]:
    """A count of layers; None where nothing is known of any layer."""

    def value(chip: ChipEstimate) -> int | None:
        placed = (chip.npu_layers, chip.cpu_layers, chip.refused_layers, chip.unknown_layers)
        count: int | None = getattr(chip, key)
        return count if any(placed) else None

    return value


def _count_style(place: str) -> Callable[[int | None], Meaning]:
    return lambda count: place_style(place) if count else "dim"


def interval_text(interval: Interval | None, form: Format) -> str:
    """A figure with the interval that holds it nine times in ten: ``1.770 (1.290 to 2.430)``."""
    if interval is None:
        return form.show(None)
    return f"{form.text(interval.value)} ({form.text(interval.low)} to {form.text(interval.high)})"


def problem_lines(chips: Iterable[ChipEstimate]) -> list[str]:
    """Why a chip has no estimate, and what the others leave out; equal ones together."""
    chips_of: dict[str, list[str]] = {}
    for chip in chips:
        for text in (f"{chip.problem} {chip.remedy}".strip(), *chip.warnings, *chip.notes):
            if text:
                chips_of.setdefault(text, []).append(chip.chip)
    return [f"{', '.join(names)}: {sanitize(text)}" for text, names in chips_of.items()]


_REACHES: dict[str, tuple[str, Meaning]] = {
    "yes": ("✓", "good"),
    "maybe": ("~", "warn"),
    "no": ("✗", "bad"),
}
"""Whether a chip does the frames a second that were asked for -> sign and meaning."""


# fmt: off
CHIPS = Table("chips", "A chip, and what the model costs on it (estimated).", (
    MARK.but(name="compared"),
    CHIP.but(width=9),
    GENERATION.but(only="file"),
    FRAMES.but(help="Frames a second, of all cores and the whole batch.", value="fps.value"),
    Column("fps_range", "90 %", range_of(RATE), "Nine in ten frame rates lie in this interval.",
           lambda chip: _ends(chip.fps), file=("fps_low", "fps_high")),
    Column("fps_change", "FPS Δ", CHANGE, "The frame rate against the recipe as it is.", None,
           style=change_style(more_is_better=True), from_width=1, only="screen"),
    Column("memory_change", "memory Δ", CHANGE, "The memory against the recipe as it is.", None,
           style=change_style(more_is_better=False), from_width=100, only="screen"),
    Column("reaches", format=state_of(lambda word: _REACHES[word][0]), value=known("reaches"),
           help="Whether it does the frames a second that you asked for.",
           style=lambda word: _REACHES[word][1] if word else "", from_width=1),
    Column("target", name="target", value=None, width=1, style=accent, only="screen",
           help="The chip that the recipe is for."),
    Column("way", "to reach it", NAME, "What brings it nearer to them, the cheapest that does "
           "first.", None, width=14, grow=1, from_width=1, only="screen"),
    Column("then", "then FPS", RATE, "Frames a second with that.", None, from_width=1,
           only="screen"),
    TIME_MS.but(help="Time of an inference.", value="time_ms.value"),
    Column("time_range", "90 % of time", range_of(MILLISECONDS),
           "Nine in ten times lie in this interval.", lambda chip: _ends(chip.time_ms),
           from_width=120, file=("time_ms_low", "time_ms_high")),
    Column("total_bytes", "memory", SIZE, "Weights and internal tensors.", "memory.total"),
    INTERNAL.but(value="memory.internal", from_width=110),
    WEIGHTS.but(value="memory.weight", from_width=120),
    ON_NPU.but(value=_placed("npu_layers"), from_width=100),
    ON_CPU.but(help="Layers on the CPU; not public for generation 1.",
               value=_placed("cpu_layers"), style=_count_style("CPU")),
    Column("unknown_layers", "unknown", COUNT,
           "Layers of which it is not public whether the NPU or the CPU computes them.",
           known("unknown_layers"), width=7, style=_count_style("unknown"), from_width=100),
    Column("refused_layers", "refused", COUNT, "Layers that the compiler refuses.",
           _placed("refused_layers"), width=7, style=_count_style("none")),
    CYCLES.but(value=known("total_cycles"), width=0, from_width=140),
    MACS.but(only="file"),
    DTYPE.but(help="The dtype that most layers compute in.", value=known("dtype"), width=0,
              from_width=84),
    STANDS_ON.but(help="What the estimate of time stands on. Fitted: published rates of the "
           "chip. Derived: a chip of the same design. Structural: no rate was ever published, so "
           "it is not validated. Calibrated: a run of your board.",
           value=lambda chip: None if chip.problem else chip.confidence or None, width=10,
           style=lambda basis: _BASES.get(basis, "")),
    Column("cores", format=NUMBER, help="NPU cores that share an inference.", from_width=120),
    BATCH.but(only="file"),
    Column("npu_mhz", "MHz", NUMBER, "Clock of the NPU.",
           lambda chip: round(chip.npu_mhz) or None, width=5, from_width=130),
    PROBLEM.but(help="Why there is no estimate.", value=known("problem"), width=8,
                from_width=170),
    FIGURES_ARE.but(only="file"),
))

TENSORS = Table("tensors", "A tensor in the internal memory of a chip (estimated).", (
    CHIP.but(value=None, only="file"),
    TENSOR.but(width=14, grow=3),
    SIZED.but(value=lambda span: span.end - span.start),
    Column("share", "of peak %", PERCENT, "Its share of the largest sum at any layer.",
           None, only="screen"),
    Column("start", "first byte", ADDRESS, "Its first byte."),
    Column("end", "end byte", ADDRESS, "The byte behind it.", from_width=90),
    Column("first_layer", "first layer", NUMBER, "It is made at this layer, counted from 1.",
           lambda span: span.first + 1),
    Column("last_layer", "last layer", NUMBER, "It is read for the last time at this layer.",
           lambda span: span.last + 1),
    FIGURES_ARE.but(only="file", value=lambda _: "estimated"),
))

CHECKED = Table("checked", "A chip, and where the layers of the model run on it (estimated).",
                CHIPS.pick("chip", "dtype", "npu_layers", "cpu_layers", "unknown_layers",
                           "refused_layers").columns)

ADVICE = Table("advice", "A way to make the model faster on a chip (gains estimated).", (
    Column("gain_ms", "gain ms", MILLISECONDS, "Time that it saves.", width=8),
    Column("gain", "gain %", PERCENT, "That time, as a share of an inference.", None, width=7,
           from_width=1),
    Column("title", "advice", NAME, "What to do.", width=20, grow=3),
    LAYERS.but(key="count", help="How many layers it is about.",
               value=lambda row: len(row.layers), width=6),
    SOURCE.but(help="Where the vendor's manual says it.", width=12, grow=1, from_width=100),
))

KNOWN_CHIPS = Table("known-chips", "A chip, and what is known of it.", (
    CHIP.but(key="name"),
    GENERATION,
    TOOLKIT.but(help="The vendor's toolkit for it."),
    Column("npu_cores", "NPU cores", NUMBER, "Cores of the NPU."),
    Column("dtypes", format=NAME, help="Dtypes that its toolkit quantizes to.",
           value=lambda chip: " ".join(chip.dtypes)),
    STANDS_ON.but(key="confidence"),
))

CHIP_FIGURES = Table("chip-figures", "A figure of a chip.", (
    Column("name", "figure", NAME, "What it is.", lambda row: figure_name(row.name)),
    VALUE.but(help="Its value with the unit."),
    SOURCE,
))
# fmt: on
