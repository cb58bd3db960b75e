"""Gates: limits that the figures of an answer keep or not, such as for a check of every commit.

:func:`gates_of` holds an answer against :class:`Limits`; a command line ends with an exit code of
its own where a figure is beyond one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain
from math import inf
from typing import Annotated, Any

from engine.base.text import human_bytes, quantity
from engine.build import BuildSummary
from engine.report import sqnr_rank, sqnr_text
from engine.wire.build import Analysis
from engine.wire.codec import Whole
from engine.wire.compile import CompiledModels
from engine.wire.cost import CheckAnswer, ChipCheck, ChipEstimate, Estimates
from engine.wire.devices import MeasuredPoint, Performance
from engine.wire.flags import Flag
from engine.wire.formats import MILLISECONDS
from engine.wire.layer_tables import QUALITY
from engine.wire.layers import ENDS, layer_rows
from engine.wire.record import record

GATE_FAILED = 14
"""Exit code of a command whose figures are beyond a limit."""

Figure = tuple[str, str, float | None, str]
"""Of what, the name of a figure, its value or None where it is not known, its label."""

_TIMES = {"us": 0.001, "µs": 0.001, "ms": 1.0, "": 1.0, "s": 1000.0}
_BYTES = {
    "b": 1,
    "kb": 1000,
    "kib": 1024,
    "mb": 1000**2,
    "mib": 1024**2,
    "gb": 1000**3,
    "gib": 1024**3,
    "": 1,
}
_DECIBELS = {"db": 1.0, "": 1.0}


def _flag(
    name: str, fails: str, metavar: str, units: Mapping[str, float] | None = None, example: str = ""
) -> Flag:
    """The flag of a limit: where its gate fails; with units, in which of these it is given."""

    def read(text: str) -> float:
        value = quantity(text, units or {})
        if value is None:
            raise ValueError(f"{text!r} is no limit such as {example}.")
        return value

    such = f", such as {example}" if example else ""
    return Flag(
        name=f"--fail-{name}",
        help=f"Exit code {GATE_FAILED} where {fails}{such}.",
        metavar=metavar,
        read=read if units else None,
    )


@dataclass(frozen=True)
class Gate:
    """A limit and what was found.

    Attributes:
        of: the chip, or the output.
        figure: ``time``, ``memory``, ``layers on the CPU``, ``SQNR``.
        limit, found: as text with unit.
        ok: whether the limit is kept; a figure that cannot be told does not keep it.
        label: what kind of number it is.
    """

    of: str
    figure: str
    limit: str
    found: str
    ok: bool
    label: str = "estimated"


@record
class Limits:
    """The limits that a command was given; each is a flag.

    Attributes:
        over: milliseconds of an inference at most; the figure itself counts, not its interval.
        cpu: layers on the CPU, or refused, at most.
        memory: bytes at most.
        under: SQNR in dB at least.
    """

    over: Annotated[
        float | None,
        _flag("over", "an inference takes longer", "TIME", _TIMES, "20ms"),
    ] = None
    cpu: Annotated[
        Annotated[int, Whole(0, 1 << 62)] | None,
        _flag("cpu", "more than N layers run on the CPU or are refused", "N"),
    ] = None
    memory: Annotated[
        float | None,
        _flag("memory", "a model takes more memory", "BYTES", _BYTES, "16MiB"),
    ] = None
    under: Annotated[
        float | None,
        _flag("under", "the SQNR of an output is lower", "DECIBELS", _DECIBELS, "30dB"),
    ] = None

    def __bool__(self) -> bool:
        return self != Limits()


def _decibels(value: float) -> str:
    return sqnr_text(value) if value == value else "not a number"


_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "time": ("over", lambda ms: f"{MILLISECONDS.text(ms)} ms"),
    "memory": ("memory", human_bytes),
    "layers on the CPU": ("cpu", lambda count: f"{round(count)}"),
    "SQNR": ("under", _decibels),
}
"""Name of a figure -> its limit, and how its values read."""


@singledispatch
def figures_of(answer: Any) -> Iterable[Figure]:
    """The figures of an answer that have a limit."""
    raise TypeError(f"no limit is of {type(answer).__name__}")


@figures_of.register
def _estimates(answer: Estimates) -> Iterator[Figure]:
    for one in answer.chips:
        yield one.chip, "time", None if one.time_ms is None else one.time_ms.value, "estimated"
        yield one.chip, "memory", None if one.memory is None else one.memory.total, "estimated"
        yield from _off_npu(one)


@figures_of.register
def _checked(answer: CheckAnswer) -> Iterator[Figure]:
    for one in answer.chips:
        yield from _off_npu(one)


def _off_npu(one: ChipEstimate | ChipCheck) -> Iterator[Figure]:
    """Layers that are not, or may not be, on the NPU: a gate lets nothing pass that is unknown."""
    off = float((one.cpu_layers or 0) + one.refused_layers + one.unknown_layers)
    yield one.chip, "layers on the CPU", None if one.problem else off, "estimated"


@figures_of.register
def _compiled(answer: CompiledModels) -> Iterator[Figure]:
    """What the compiler's tables and the vendor's simulator say; where no model was made, nothing
    is known.
    """
    for one in answer.chips:
        off = float(sum(row.target == "CPU" for row in one.layers if row.op not in ENDS))
        parts = (one.internal_bytes, one.weight_bytes)
        total = None if None in parts else float(sum(part or 0 for part in parts))
        yield one.chip, "layers on the CPU", off if one.layers else None, "by the compiler"
        yield one.chip, "memory", total, "by the compiler"
    for one in answer.chips:
        for output in one.outputs:
            rank = sqnr_rank(output.sqnr_db)
            yield f"{one.chip} {output.name}", "SQNR", rank, "simulated by the vendor"
        if not one.outputs:
            yield one.chip, "SQNR", None, "simulated"


@figures_of.register
def _timed(answer: Performance) -> Iterator[Figure]:
    """The median of every point."""
    for point in answer.points:
        median = None if point.median is None else point.median / 1000
        yield point_name(point), "time", median, answer.label


def point_name(point: MeasuredPoint) -> str:
    """Cores, batch and threads of a timing."""
    batch = f", batch {point.batch}" if point.batch > 1 else ""
    return f"cores {point.cores}{batch}, threads {point.threads}"


@figures_of.register
def _built(answer: BuildSummary) -> Iterator[Figure]:
    for output in answer.outputs:
        yield output.name, "SQNR", sqnr_rank(output.sqnr_db), "simulated"


@figures_of.register
def _analysed(answer: Analysis) -> Iterator[Figure]:
    """The layer whose SQNR is worst, errors before it included."""
    sqnr = QUALITY.column("sqnr")
    rows = [(row.id, sqnr_rank(sqnr.of(row))) for row in layer_rows(answer)]
    if rows:
        name, worst = min(rows, key=lambda row: -inf if row[1] != row[1] else row[1])
        yield name, "SQNR", worst, "simulated"


def gates_of(limits: Limits, *answers: Any) -> list[Gate]:
    """What the figures of answers say about limits.

    Args:
        limits: on what they have.
        answers: a build's summary, an analysis, a compilation, an estimate, a check, a timing.

    Raises:
        TypeError: an answer has no figure that could have a limit.
    """
    gates = []
    for of, figure, value, label in chain.from_iterable(map(figures_of, answers)):
        name, text = _FIGURES[figure]
        limit = getattr(limits, name)
        if limit is not None:
            ok = value is not None and (value >= limit if name == "under" else value <= limit)
            value_text = "not known" if value is None else text(value)
            bound = f"{limit:g} dB" if name == "under" else text(limit)
            gates.append(Gate(of, figure, bound, value_text, ok, label))
    return gates


def gate_lines(gates: Iterable[Gate]) -> list[str]:
    """A line for each."""
    return [
        f"{'kept' if one.ok else 'FAILED'}: {one.figure} of {one.of} is {one.found} "
        f"({one.label}), the limit is {one.limit}"
        for one in gates
    ]
